//! How a repository wants to be worked on: what its `planwright.yaml` said at use, frozen.

use serde::{Deserialize, Serialize};

use crate::LandingOptions;
use crate::invariant::RuleDraft;

/// The ways of a plan's resources.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepositoryPolicy {
    /// What a new sandbox needs before anybody can work in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub furnishings: Vec<SandboxSetup>,
    /// How results arrive unless somebody says otherwise.
    #[serde(default, skip_serializing_if = "LandingOptions::is_default")]
    pub arrival: LandingOptions,
    /// When sandboxes are removed.
    #[serde(default)]
    pub clean: SandboxCleanupPolicy,
    /// Rules of the working trees that their target commits did not have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<WorkingTreeRules>,
}

/// Rules that the working tree of a resource had at use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkingTreeRules {
    /// The plan's resource.
    pub resource: String,
    /// What its file said.
    pub rules: Vec<RuleDraft>,
}

/// What a new sandbox of a resource needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxSetup {
    /// The plan's resource.
    pub resource: String,
    /// A command to run once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<String>,
    /// Ignored files to copy, as patterns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
}

/// When the sandboxes of a plan are removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxCleanupPolicy {
    /// Once it landed.
    #[default]
    OnApply,
    /// Once it ended, landed or not; what did not land is kept under a ref.
    OnTerminal,
    /// When somebody says so.
    Manual,
}

impl RepositoryPolicy {
    /// Nothing was said?
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
