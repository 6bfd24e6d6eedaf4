//! The three phases of a plan.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// In order: strategize, execute, apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Decides what to do. Read-only.
    Strategize,
    /// Makes the changes in a sandbox and records them.
    Execute,
    /// Lands the approved result.
    Apply,
}

impl Phase {
    pub const ALL: [Self; 3] = [Self::Strategize, Self::Execute, Self::Apply];

    /// Returns the name as stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Strategize => "strategize",
            Self::Execute => "execute",
            Self::Apply => "apply",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Phase {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|phase| phase.as_str() == text)
            .ok_or_else(|| format!("`{text}` is not a phase: use strategize, execute or apply"))
    }
}
