//! Actions: reusable templates of plans.

use serde::{Deserialize, Serialize};

use crate::argument::ArgumentSpec;
use crate::invariant::RuleDraft;
use crate::{Caller, PlanId, Profile, QualifiedName, Timestamp};

/// Who works on a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanActors {
    /// In strategize.
    pub strategy: QualifiedName,
    /// In execute.
    pub execution: QualifiedName,
    /// Who judges by rules that ask, before anybody asks a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invariant: Option<QualifiedName>,
}

impl PlanActors {
    /// The same actor in both phases.
    pub fn for_both_phases(actor: QualifiedName) -> Self {
        Self {
            strategy: actor.clone(),
            execution: actor,
            invariant: None,
        }
    }

    /// Everybody among them.
    pub fn actor_names(&self) -> impl Iterator<Item = &QualifiedName> {
        [&self.strategy, &self.execution]
            .into_iter()
            .chain(&self.invariant)
    }
}

/// What an action is defined by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActionDefinition {
    /// Its name.
    pub name: QualifiedName,
    /// What it does, in a line; the goal of its plans.
    pub description: String,
    /// What it does, at length.
    pub long_description: Option<String>,
    /// Who works, unless configuration supplies it.
    pub actors: Option<PlanActors>,
    /// What can be given.
    pub arguments: Vec<ArgumentSpec>,
    /// Rules of its plans.
    pub invariants: Vec<RuleDraft>,
    /// Where its plans stop and ask.
    pub automation_profile: Option<Profile>,
    /// Its plans may write nothing.
    pub read_only: bool,
    /// May it be used more than once?
    pub reusable: bool,
}

/// An action as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Action {
    /// Its definition.
    pub definition: ActionDefinition,
    /// Its state.
    pub state: ActionState,
    /// When it was created.
    pub created_at: Timestamp,
    /// By whom.
    pub created_by: Caller,
    /// The plan made of it, if it may be used once only.
    pub used_by: Option<PlanId>,
}

impl Action {
    /// Its name.
    pub fn name(&self) -> &QualifiedName {
        &self.definition.name
    }
}

/// Whether an action can be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionState {
    /// It can.
    Available,
    /// It was taken out of use.
    Archived {
        /// When.
        at: Timestamp,
        /// By whom.
        by: Caller,
    },
}

impl ActionState {
    /// As it is shown.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Available => "available",
            Self::Archived { .. } => "archived",
        }
    }
}
