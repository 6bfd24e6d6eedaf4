//! JSON views of actions.

use std::path::PathBuf;

use plan::action::ActionDefinition;
use plan::{Action, Timestamp};
use serde::Serialize;
use serde_json::{Value, json};

#[derive(Debug, Serialize)]
pub struct ActionView {
    pub name: String,
    pub description: String,
    pub long_description: Option<String>,
    /// `available` or `archived`; `shadowed` if a stored action hides a repository's action of this name.
    pub state: &'static str,
    /// The `planwright.yaml` that defines it; `null` for a stored action.
    pub file: Option<PathBuf>,
    pub strategy_actor: Option<String>,
    pub execution_actor: Option<String>,
    /// The agent that answers `ask` rules.
    pub invariant_actor: Option<String>,
    pub arguments: Vec<Value>,
    /// The rules in its definition. `rule list` shows those in force.
    pub invariants: Vec<Value>,
    pub automation_profile: Option<&'static str>,
    pub read_only: bool,
    /// Whether it can be used more than once.
    pub reusable: bool,
    /// Set for stored actions only.
    pub created_at: Option<Timestamp>,
    /// Set for stored actions only.
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
    /// The view of a definition that need not be stored.
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
