//! How a run ended, and how far it was confined.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The end of a run. All its processes are gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnding {
    pub ended: ProgramExit,
    pub isolation: IsolationLevel,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgramExit {
    Code(i32),
    Signal(i32),
    /// The reason why it could not be started.
    NotStarted(String),
}

impl fmt::Display for ProgramExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "ended with exit code {code}"),
            Self::Signal(signal) => write!(f, "was ended by signal {signal}"),
            Self::NotStarted(why) => write!(f, "was not started: {why}"),
        }
    }
}

/// How far a program was confined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IsolationLevel {
    /// Not requested.
    Off,
    /// Not supported by the system.
    Unavailable,
    /// Reading is confined. Other files cannot be written, but they can be truncated.
    Partly {
        /// The kernel's Landlock version.
        abi: u32,
    },
    /// Reading and writing are confined.
    Confined {
        /// The kernel's Landlock version.
        abi: u32,
    },
}

impl IsolationLevel {
    /// The first Landlock version that also prevents truncating files.
    const MIN_ABI_FOR_FILES: u32 = 3;

    /// The first Landlock version that also confines signals and abstract sockets.
    const MIN_ABI_FOR_SIGNALS: u32 = 6;

    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "only Linux has Landlock")
    )]
    pub(super) fn from_landlock_abi(abi: u32) -> Self {
        match abi {
            0 => Self::Unavailable,
            abi if abi < Self::MIN_ABI_FOR_FILES => Self::Partly { abi },
            abi => Self::Confined { abi },
        }
    }

    /// Can it read and write only what it was given?
    pub fn confines_files(self) -> bool {
        matches!(self, Self::Confined { .. })
    }

    /// Can it signal only its own processes?
    pub fn confines_signals(self) -> bool {
        matches!(self, Self::Confined { abi } if abi >= Self::MIN_ABI_FOR_SIGNALS)
    }
}

impl fmt::Display for IsolationLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("not confined"),
            Self::Unavailable => f.write_str("not confined: this system has no Landlock"),
            Self::Partly { abi } => write!(
                f,
                "partly confined (Landlock {abi}: files elsewhere can be truncated)"
            ),
            Self::Confined { .. } if self.confines_signals() => f.write_str("confined (Landlock)"),
            Self::Confined { abi } => write!(
                f,
                "confined (Landlock {abi}: file access only, signals can reach other processes)"
            ),
        }
    }
}
