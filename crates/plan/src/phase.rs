//! The three phases of a plan.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Strategize, then execute, then apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Read-only: decide what to do.
    Strategize,
    /// Do it in a sandbox, recording every change.
    Execute,
    /// Bring the reviewed change in.
    Apply,
}

impl Phase {
    /// All phases, in order.
    pub const ALL: [Self; 3] = [Self::Strategize, Self::Execute, Self::Apply];

    /// As it is stored and shown.
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

    fn from_str(given: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|phase| phase.as_str() == given)
            .ok_or_else(|| format!("`{given}` is no phase: strategize, execute or apply"))
    }
}
