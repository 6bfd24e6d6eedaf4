//! Decisions: the nodes of a plan's decision tree.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ErasableText;

/// What sort of decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecisionKind {
    /// The root: what the plan is for. Recorded by the engine.
    PromptDefinition,
    /// A rule was enforced. Recorded by the engine.
    InvariantEnforced,
    /// What a person said. Recorded by the engine.
    UserIntervention,
    /// Which way to go.
    StrategyChoice,
    /// Which resource to use.
    ResourceSelection,
    /// How to build it.
    ImplementationChoice,
    /// Which tool to call.
    ToolInvocation,
    /// What to do about an error.
    ErrorRecovery,
    /// What to do about a failed check.
    ValidationResponse,
}

impl DecisionKind {
    /// As it is stored and shown.
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

    /// May an actor report it? The others are the engine's to record.
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

/// One node. Its number is its place in the plan's list, from 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionNode {
    /// Its number within the plan.
    pub number: u32,
    /// The node it hangs under; only the root has none.
    pub parent: Option<u32>,
    /// What sort.
    pub kind: DecisionKind,
    /// What was to be decided.
    pub question: ErasableText,
    /// What was chosen.
    pub choice: ErasableText,
    /// What else was considered.
    pub alternatives: Vec<ErasableText>,
    /// Why.
    pub rationale: Option<ErasableText>,
    /// How sure, from 0 to 1.
    pub confidence: Option<Confidence>,
}

/// A decision as an actor reports it: without number, the parent within the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportedDecision {
    /// What sort.
    pub kind: DecisionKind,
    /// What was to be decided.
    pub question: String,
    /// What was chosen.
    pub choice: String,
    /// What else was considered.
    #[serde(default)]
    pub alternatives: Vec<String>,
    /// Why.
    #[serde(default)]
    pub rationale: Option<String>,
    /// How sure, from 0 to 1.
    #[serde(default)]
    pub confidence: Option<Confidence>,
    /// The number of the node it hangs under; the root if not said.
    #[serde(default)]
    pub parent: Option<u32>,
}

/// A confidence in thousandths, so that decisions compare exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Confidence(u16);

impl TryFrom<f64> for Confidence {
    type Error = String;

    fn try_from(value: f64) -> Result<Self, String> {
        if !(0.0..=1.0).contains(&value) {
            return Err(format!(
                "a confidence lies between 0 and 1, {value} does not"
            ));
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

    fn from_str(given: &str) -> Result<Self, String> {
        given
            .parse::<f64>()
            .map_err(|error| error.to_string())?
            .try_into()
    }
}
