//! Profiles: where the engine stops and asks a person.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A built-in automation profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// A person starts every phase.
    Manual,
    /// Strategizes automatically; a person starts execute and apply.
    Supervised,
    /// Runs automatically up to the review of the result.
    #[default]
    Review,
    /// Runs automatically through apply while every gate holds.
    Auto,
}

/// A step that a profile may allow without a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AutomationStep {
    StartStrategize,
    StartExecute,
    /// Land the result.
    Apply,
    Revise,
    Revert,
    /// Retry after a transient error.
    Retry,
}

impl AutomationStep {
    /// In the order of a plan's life.
    pub const ALL: [Self; 6] = [
        Self::StartStrategize,
        Self::StartExecute,
        Self::Apply,
        Self::Retry,
        Self::Revise,
        Self::Revert,
    ];
}

impl Profile {
    /// Most careful first.
    pub const ALL: [Self; 4] = [Self::Manual, Self::Supervised, Self::Review, Self::Auto];

    /// Returns the name as stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Manual => "manual",
            Self::Supervised => "supervised",
            Self::Review => "review",
            Self::Auto => "auto",
        }
    }

    /// Returns a one-line description for people.
    pub fn description(self) -> &'static str {
        match self {
            Self::Manual => "asks before strategize, execute and apply; never retries by itself",
            Self::Supervised => "strategizes by itself, asks before execute and apply",
            Self::Review => "strategizes and executes by itself, asks before apply",
            Self::Auto => "goes all the way while every gate holds, never prompts",
        }
    }

    pub fn allows_unattended(self, step: AutomationStep) -> bool {
        match self {
            Self::Manual => false,
            Self::Supervised => match step {
                AutomationStep::StartStrategize | AutomationStep::Retry => true,
                AutomationStep::StartExecute
                | AutomationStep::Apply
                | AutomationStep::Revise
                | AutomationStep::Revert => false,
            },
            Self::Review => match step {
                AutomationStep::StartStrategize
                | AutomationStep::StartExecute
                | AutomationStep::Revise
                | AutomationStep::Retry => true,
                AutomationStep::Apply | AutomationStep::Revert => false,
            },
            Self::Auto => true,
        }
    }

    /// Returns whether an approval stays valid if its target moved and the result is merged.
    pub fn approval_survives_merge(self) -> bool {
        match self {
            Self::Manual => false,
            Self::Supervised | Self::Review | Self::Auto => true,
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a profile: use manual, supervised, review or auto")]
pub struct ParseProfileError {
    text: String,
}

impl FromStr for Profile {
    type Err = ParseProfileError;

    fn from_str(text: &str) -> Result<Self, ParseProfileError> {
        Self::ALL
            .into_iter()
            .find(|profile| profile.as_str() == text)
            .ok_or_else(|| ParseProfileError {
                text: text.to_owned(),
            })
    }
}
