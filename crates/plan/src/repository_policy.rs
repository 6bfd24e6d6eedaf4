//! The repository policy: settings from `planwright.yaml`, frozen into a plan at creation.

use serde::{Deserialize, Serialize};

use crate::LandingOptions;
use crate::invariant::RuleDraft;

/// Settings for working on a plan's resources.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepositoryPolicy {
    /// Setup of a new sandbox, by resource.
    #[serde(rename = "furnishings", default, skip_serializing_if = "Vec::is_empty")]
    pub sandbox_setups: Vec<SandboxSetup>,
    /// Default landing options.
    #[serde(
        rename = "arrival",
        default,
        skip_serializing_if = "LandingOptions::is_default"
    )]
    pub landing: LandingOptions,
    #[serde(default)]
    pub clean: SandboxCleanupPolicy,
    /// Rules in working trees at creation that the target commits did not have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<WorkingTreeRules>,
}

/// The rules in the working tree of a resource when the plan was created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkingTreeRules {
    /// Name of the plan's resource.
    pub resource: String,
    pub rules: Vec<RuleDraft>,
}

/// Setup of a new sandbox of one resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxSetup {
    /// Name of the plan's resource.
    pub resource: String,
    /// Shell command, run once in a new sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<String>,
    /// Patterns of ignored files to copy into the sandbox.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxCleanupPolicy {
    /// When the plan has landed.
    #[default]
    OnApply,
    /// When the plan has ended, landed or not. An unlanded result is kept under a ref.
    OnTerminal,
    /// Only on request.
    Manual,
}

impl RepositoryPolicy {
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
