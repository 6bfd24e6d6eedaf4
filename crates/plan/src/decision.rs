//! The decision tree of a plan: questions, choices and reasons recorded while working on it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ErasableText;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecisionKind {
    /// The root: the goal. Recorded by the engine.
    PromptDefinition,
    /// A rule was checked at a gate. Recorded by the engine.
    InvariantEnforced,
    /// A person's answer. Recorded by the engine.
    UserIntervention,
    StrategyChoice,
    ResourceSelection,
    ImplementationChoice,
    ToolInvocation,
    /// How to handle an error.
    ErrorRecovery,
    /// How to handle a failed check.
    ValidationResponse,
}

impl DecisionKind {
    /// Returns the name as stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PromptDefinition => "prompt_definition",
            Self::InvariantEnforced => "invariant_enforced",
            Self::UserIntervention => "user_intervention",
            Self::StrategyChoice => "strategy_choice",
            Self::ResourceSelection => "resource_selection",
            Self::ImplementationChoice => "implementation_choice",
            Self::ToolInvocation => "tool_invocation",
            Self::ErrorRecovery => "error_recovery",
            Self::ValidationResponse => "validation_response",
        }
    }

    /// Returns whether an actor may report this kind. Only the engine records the others.
    pub fn is_for_actors(self) -> bool {
        match self {
            Self::PromptDefinition | Self::InvariantEnforced | Self::UserIntervention => false,
            Self::StrategyChoice
            | Self::ResourceSelection
            | Self::ImplementationChoice
            | Self::ToolInvocation
            | Self::ErrorRecovery
            | Self::ValidationResponse => true,
        }
    }
}

impl fmt::Display for DecisionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One recorded decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionNode {
    /// Position in the plan's list of decisions, from 1.
    pub number: u32,
    /// Number of the parent node. Only the root has none.
    pub parent: Option<u32>,
    pub kind: DecisionKind,
    pub question: ErasableText,
    pub choice: ErasableText,
    /// Other options that were considered.
    pub alternatives: Vec<ErasableText>,
    pub rationale: Option<ErasableText>,
    pub confidence: Option<Confidence>,
}

/// A decision as an actor reports it. The engine assigns its number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportedDecision {
    pub kind: DecisionKind,
    pub question: String,
    pub choice: String,
    /// Other options that were considered.
    #[serde(default)]
    pub alternatives: Vec<String>,
    #[serde(default)]
    pub rationale: Option<String>,
    #[serde(default)]
    pub confidence: Option<Confidence>,
    /// Number of the parent node in the plan. Defaults to the root.
    #[serde(default)]
    pub parent: Option<u32>,
}

/// A confidence from 0 to 1, stored in thousandths so that decisions compare exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Confidence(u16);

impl TryFrom<f64> for Confidence {
    type Error = String;

    fn try_from(value: f64) -> Result<Self, String> {
        if !(0.0..=1.0).contains(&value) {
            return Err(format!("a confidence must be between 0 and 1, not {value}"));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "0 to 1000"
        )]
        let thousandths = (value * 1000.0).round() as u16;
        Ok(Self(thousandths))
    }
}

impl From<Confidence> for f64 {
    fn from(confidence: Confidence) -> Self {
        Self::from(confidence.0) / 1000.0
    }
}

impl FromStr for Confidence {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse::<f64>()
            .map_err(|error| error.to_string())?
            .try_into()
    }
}
