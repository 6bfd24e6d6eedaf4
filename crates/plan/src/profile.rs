//! Profiles: where the engine stops and asks.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A built-in automation profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// A person starts everything.
    Manual,
    /// Strategy goes by itself; a person starts execution and applies.
    Supervised,
    /// Everything goes by itself up to the review of the result.
    #[default]
    Review,
    /// Everything goes by itself while every gate holds.
    Auto,
}

/// What a profile lets happen without a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AutomationStep {
    /// Start the strategize phase.
    StartStrategize,
    /// Move a finished strategy into execute.
    StartExecute,
    /// Bring the result in.
    Apply,
    /// Send a result that fails its rules back to the agent.
    Revise,
    /// Go back to strategize.
    Revert,
    /// Try again after a passing error.
    Retry,
}

impl Profile {
    /// All profiles, most careful first.
    pub const ALL: [Self; 4] = [Self::Manual, Self::Supervised, Self::Review, Self::Auto];

    /// As it is stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Manual => "manual",
            Self::Supervised => "supervised",
            Self::Review => "review",
            Self::Auto => "auto",
        }
    }

    /// One sentence for people.
    pub fn description(self) -> &'static str {
        match self {
            Self::Manual => "asks before strategize, execute and apply; never retries by itself",
            Self::Supervised => "strategizes by itself, asks before execute and apply",
            Self::Review => "strategizes and executes by itself, asks before apply",
            Self::Auto => "goes all the way while every gate holds, never prompts",
        }
    }

    /// May this step happen without a person?
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

    /// Does an approval outlive a merge with a target that moved?
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

/// Why a text is not a profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is no profile: use manual, supervised, review or auto")]
pub struct ParseProfileError {
    given: String,
}

impl FromStr for Profile {
    type Err = ParseProfileError;

    fn from_str(given: &str) -> Result<Self, ParseProfileError> {
        Self::ALL
            .into_iter()
            .find(|profile| profile.as_str() == given)
            .ok_or_else(|| ParseProfileError {
                given: given.to_owned(),
            })
    }
}
