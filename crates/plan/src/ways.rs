//! How a repository wants to be worked on: what its `planwright.yaml` said at use, frozen.

use serde::{Deserialize, Serialize};

use crate::How;
use crate::invariant::RuleDraft;

/// The ways of a plan's resources.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ways {
    /// What a new sandbox needs before anybody can work in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub furnishings: Vec<Furnishing>,
    /// How results arrive unless somebody says otherwise.
    #[serde(default, skip_serializing_if = "How::is_usual")]
    pub arrival: How,
    /// When sandboxes are removed.
    #[serde(default)]
    pub clean: Clean,
    /// Rules of the working trees that their target commits did not have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<FileRules>,
}

/// Rules that the working tree of a resource had at use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRules {
    /// The plan's resource.
    pub resource: String,
    /// What its file said.
    pub rules: Vec<RuleDraft>,
}

/// What a new sandbox of a resource needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Furnishing {
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
pub enum Clean {
    /// Once it landed.
    #[default]
    OnApply,
    /// Once it ended, landed or not; what did not land is kept under a ref.
    OnTerminal,
    /// When somebody says so.
    Manual,
}

impl Ways {
    /// Nothing was said?
    pub fn are_usual(&self) -> bool {
        *self == Self::default()
    }
}
