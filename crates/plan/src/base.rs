//! Base commits of resources, and how the next holder prepares its sandboxes.

use serde::{Deserialize, Serialize};

use crate::changeset::TreePath;

/// A commit of one of the plan's resources: a base, or the tip of a target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceCommit {
    /// Name of the plan's resource.
    pub resource: String,
    pub commit: String,
}

/// What the next holder does to the plan's sandboxes before it starts work. Reset once the holder
/// has recorded the bases.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxPreparation {
    #[serde(default)]
    pub start: SandboxStartPoint,
    /// Merge the targets' current commits first, because the last landing failed on them.
    #[serde(default)]
    pub catch_up: bool,
    /// Paths to restore to their base version.
    #[serde(default)]
    pub dropped: Vec<TreePath>,
    /// Trees of a picked result, from which the sandboxes start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub picked: Vec<PickedTree>,
}

/// The part of a result that a person picked in one resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PickedTree {
    /// Name of the plan's resource.
    pub resource: String,
    /// Id of the git tree.
    pub tree: String,
}

/// The state in which a holder's sandboxes start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxStartPoint {
    /// As the previous holder left them.
    #[default]
    Continue,
    /// At the base; discard what the previous holder left.
    Base,
    /// At a new base, read from the target. Earlier work is kept for rescue.
    Afresh,
}

impl SandboxPreparation {
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
