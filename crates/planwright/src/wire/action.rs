//! Actions as programs see them.

use std::path::PathBuf;

use plan::action::ActionDefinition;
use plan::{Action, Timestamp};
use serde::Serialize;
use serde_json::{Value, json};

/// An action.
#[derive(Debug, Serialize)]
pub struct ActionView {
    /// Its name.
    pub name: String,
    /// What it does, in a line.
    pub description: String,
    /// What it does, at length.
    pub long_description: Option<String>,
    /// `available` or `archived`; of a repository's, `shadowed` if one of that name is kept in the store.
    pub state: &'static str,
    /// The repository's file that defines it; nothing if it is kept in the store.
    pub file: Option<PathBuf>,
    /// Who works in strategize, if it says so.
    pub strategy_actor: Option<String>,
    /// Who works in execute, if it says so.
    pub execution_actor: Option<String>,
    /// Who judges by rules that ask, if it says so.
    pub invariant_actor: Option<String>,
    /// What can be given.
    pub arguments: Vec<Value>,
    /// The rules it came with; `rule list` shows those in force.
    pub invariants: Vec<Value>,
    /// Where its plans stop and ask, if it says so.
    pub automation_profile: Option<&'static str>,
    /// Its plans may write nothing.
    pub read_only: bool,
    /// May it be used more than once?
    pub reusable: bool,
    /// When it was created, if it is kept in the store.
    pub created_at: Option<Timestamp>,
    /// By whom.
    pub created_by: Option<String>,
}

impl From<&Action> for ActionView {
    fn from(action: &Action) -> Self {
        Self {
            created_at: Some(action.created_at),
            created_by: Some(action.created_by.to_string()),
            ..Self::from_definition(&action.definition, action.state.as_str())
        }
    }
}

impl ActionView {
    /// An action as it is defined.
    pub fn from_definition(definition: &ActionDefinition, state: &'static str) -> Self {
        Self {
            name: definition.name.to_string(),
            description: definition.description.clone(),
            long_description: definition.long_description.clone(),
            state,
            file: None,
            strategy_actor: definition.actors.as_ref().map(|actors| actors.strategy.to_string()),
            execution_actor: definition.actors.as_ref().map(|actors| actors.execution.to_string()),
            invariant_actor: definition
                .actors
                .as_ref()
                .and_then(|actors| Some(actors.invariant.as_ref()?.to_string())),
            arguments: definition
                .arguments
                .iter()
                .map(|spec| {
                    json!({
                        "name": spec.name,
                        "type": spec.kind,
                        "required": spec.required,
                        "default": spec.default.as_ref().map(plan::argument::ArgumentValue::to_json),
                        "min": spec.min,
                        "max": spec.max,
                        "pattern": spec.pattern,
                        "description": spec.description,
                    })
                })
                .collect(),
            invariants: definition
                .invariants
                .iter()
                .map(|rule| json!({ "name": rule.name, "expr": rule.check.source(), "at": rule.at }))
                .collect(),
            automation_profile: definition.automation_profile.map(plan::Profile::as_str),
            read_only: definition.read_only,
            reusable: definition.reusable,
            created_at: None,
            created_by: None,
        }
    }
}
