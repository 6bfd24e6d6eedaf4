//! What work on a resource starts from, and what its next holder finds there.

use serde::{Deserialize, Serialize};

use crate::changeset::TreePath;

/// The commit that work on a resource starts from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceCommit {
    /// The plan's resource.
    pub resource: String,
    /// The commit.
    pub commit: String,
}

/// What the next holder does to the plan's sandboxes before anything else. Taken back once it says
/// that it did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxPreparation {
    /// What is in them.
    #[serde(default)]
    pub start: SandboxStartPoint,
    /// The targets moved and overlap: where they are now is merged in first.
    #[serde(default)]
    pub catch_up: bool,
    /// Paths that go back to where they were.
    #[serde(default)]
    pub dropped: Vec<TreePath>,
}

/// What a holder finds in its sandboxes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxStartPoint {
    /// What the holder before left.
    #[default]
    Continue,
    /// The base: what was left is discarded.
    Base,
    /// Another base, looked up anew; what was there is kept for rescue.
    Afresh,
}

impl SandboxPreparation {
    /// Is there nothing to be done?
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
