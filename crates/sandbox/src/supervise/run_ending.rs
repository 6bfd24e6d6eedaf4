//! How a run ended, and how far it was confined.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The end of a run. Nothing of it is left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnding {
    /// How.
    pub ended: ProgramExit,
    /// How far it was confined.
    pub isolation: IsolationLevel,
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgramExit {
    /// By itself, with this exit code.
    Code(i32),
    /// By a signal.
    Signal(i32),
    /// It never ran, and this is why.
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

/// How far a program was kept from what it was not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IsolationLevel {
    /// Nobody asked for it.
    Off,
    /// The system does not offer it.
    Unavailable,
    /// Reading is confined; files elsewhere cannot be written but can be emptied.
    Partly {
        /// The version of Landlock that was found.
        abi: u32,
    },
    /// Reading and writing are confined.
    Confined {
        /// The version of Landlock that was found.
        abi: u32,
    },
}

impl IsolationLevel {
    /// The first version that also keeps files from being emptied.
    const MIN_ABI_FOR_FILES: u32 = 3;

    /// The first version that also keeps signals and abstract sockets inside.
    const MIN_ABI_FOR_SIGNALS: u32 = 6;

    /// With this version of Landlock in force.
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

    /// Can it signal only processes of its own?
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
                "partly confined (Landlock {abi}: files elsewhere can be emptied)"
            ),
            Self::Confined { .. } if self.confines_signals() => f.write_str("confined (Landlock)"),
            Self::Confined { abi } => write!(
                f,
                "confined (Landlock {abi}: files are, signals reach other processes)"
            ),
        }
    }
}
