//! Landing options: how a result lands. Part of what an approval signs.

use serde::{Deserialize, Serialize};

use crate::ErasableText;

/// How a result lands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LandingOptions {
    #[serde(default)]
    pub shape: LandingDestination,
    /// Create a merge commit with the plan's own commit as second parent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub merge: bool,
    /// Land only paths that match these patterns; the rest becomes a new plan. Empty lands
    /// everything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Land even if nothing changes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_empty: bool,
    /// The message of the commit, instead of the plan's goal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<ErasableText>,
}

/// Where a result lands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LandingDestination {
    #[default]
    Commit,
    /// One commit on a new branch with this name.
    Branch(String),
    /// Uncommitted changes in the working tree.
    Uncommitted,
}

impl LandingOptions {
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
