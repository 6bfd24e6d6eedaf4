//! Actions: reusable templates for plans.

use serde::{Deserialize, Serialize};

use crate::argument::ArgumentSpec;
use crate::invariant::RuleDraft;
use crate::permission::ToolPolicy;
use crate::{Caller, PlanId, Profile, QualifiedName, Timestamp};

/// The actors of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanActors {
    /// Works in strategize.
    pub strategy: QualifiedName,
    /// Works in execute.
    pub execution: QualifiedName,
    /// Judges rules that ask, before a person is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invariant: Option<QualifiedName>,
}

impl PlanActors {
    pub fn for_both_phases(actor: QualifiedName) -> Self {
        Self {
            strategy: actor.clone(),
            execution: actor,
            invariant: None,
        }
    }

    /// Returns the names of all actors. A name can occur more than once.
    pub fn actor_names(&self) -> impl Iterator<Item = &QualifiedName> {
        [&self.strategy, &self.execution]
            .into_iter()
            .chain(&self.invariant)
    }
}

/// An action as its author writes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActionDefinition {
    pub name: QualifiedName,
    /// One line. The goal of plans that set no other.
    pub description: String,
    pub long_description: Option<String>,
    /// If unset, the caller's settings decide.
    pub actors: Option<PlanActors>,
    pub arguments: Vec<ArgumentSpec>,
    /// Rules for every plan of the action.
    pub invariants: Vec<RuleDraft>,
    pub automation_profile: Option<Profile>,
    /// Plans of this action must not change any file.
    pub read_only: bool,
    /// Whether more than one plan can be created from it.
    pub reusable: bool,
    /// Which tool calls its agents may make, in addition to their own definitions.
    #[serde(default, skip_serializing_if = "ToolPolicy::is_empty")]
    pub tools: ToolPolicy,
}

/// A stored action.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Action {
    pub definition: ActionDefinition,
    pub state: ActionState,
    pub created_at: Timestamp,
    pub created_by: Caller,
    /// The plan that used it up. Set only if the action is not reusable.
    pub used_by: Option<PlanId>,
}

impl Action {
    pub fn name(&self) -> &QualifiedName {
        &self.definition.name
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionState {
    Available,
    /// No new plans can be created from it.
    Archived {
        at: Timestamp,
        by: Caller,
    },
}

impl ActionState {
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Available => "available",
            Self::Archived { .. } => "archived",
        }
    }
}
