//! How a result shall arrive, as a person signed it.

use serde::{Deserialize, Serialize};

/// The way a result lands. Part of what an approval signs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LandingOptions {
    /// As what.
    #[serde(default)]
    pub shape: LandingDestination,
    /// Keep the plan's own commit as a second parent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub merge: bool,
    /// Only what matches these; the rest becomes a plan of its own. Everything, if none is given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Land it even if nothing changes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_empty: bool,
}

/// What a result becomes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LandingDestination {
    /// One commit on the target's branch.
    #[default]
    Commit,
    /// One commit on a new branch of this name.
    Branch(String),
    /// Changes in the working tree, for the person to commit.
    Uncommitted,
}

impl LandingOptions {
    /// The usual way: one commit on the branch?
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
