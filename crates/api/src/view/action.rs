//! Views of actions.

use std::path::PathBuf;

use plan::action::ActionDefinition;
use plan::argument::{ArgumentSpec, ArgumentType};
use plan::invariant::{Gate, RuleDraft, RuleName};
use plan::permission::ToolPolicy;
use plan::{Action, Timestamp};
use serde::Serialize;

use super::ArgumentView;
use crate::actions::{ActionPage, FoundAction};

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
    pub arguments: Vec<ActionArgumentView>,
    /// The rules in its definition. `rule list` shows those in force.
    pub invariants: Vec<ActionRuleView>,
    pub automation_profile: Option<&'static str>,
    pub read_only: bool,
    /// Whether it can be used more than once.
    pub reusable: bool,
    #[serde(skip_serializing_if = "ToolPolicy::is_empty")]
    pub tools: ToolPolicy,
    /// Set for stored actions only.
    pub created_at: Option<Timestamp>,
    /// Set for stored actions only.
    pub created_by: Option<String>,
}

/// A declared argument.
#[derive(Debug, Serialize)]
pub struct ActionArgumentView {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: ArgumentType,
    pub required: bool,
    pub default: Option<ArgumentView>,
    /// Minimum of a number, or minimum length of a string or list.
    pub min: Option<f64>,
    /// Maximum of a number, or maximum length of a string or list.
    pub max: Option<f64>,
    /// A regular expression that must match the whole string.
    pub pattern: Option<String>,
    pub description: Option<String>,
}

impl From<&ArgumentSpec> for ActionArgumentView {
    fn from(spec: &ArgumentSpec) -> Self {
        Self {
            name: spec.name.clone(),
            kind: spec.kind,
            required: spec.required,
            default: spec.default.as_ref().map(Into::into),
            min: spec.min,
            max: spec.max,
            pattern: spec.pattern.clone(),
            description: spec.description.clone(),
        }
    }
}

/// A rule in an action's definition.
#[derive(Debug, Serialize)]
pub struct ActionRuleView {
    pub name: RuleName,
    /// The source of its condition.
    pub expr: String,
    pub at: Vec<Gate>,
}

impl From<&RuleDraft> for ActionRuleView {
    fn from(rule: &RuleDraft) -> Self {
        Self {
            name: rule.name.clone(),
            expr: rule.check.source(),
            at: rule.at.clone(),
        }
    }
}

/// A page of actions, those of the repository first.
#[derive(Debug, Serialize)]
pub struct ActionListView {
    pub actions: Vec<ActionView>,
    /// The last stored action of this page, if there are more.
    pub next: Option<String>,
}

impl From<&ActionPage> for ActionListView {
    fn from(page: &ActionPage) -> Self {
        let in_repository = page.in_repository.iter().map(|one| {
            let state = match one.is_shadowed {
                true => "shadowed",
                false => "available",
            };
            ActionView {
                file: Some(one.action.file.clone()),
                ..ActionView::from_definition(&one.action.definition, state)
            }
        });
        let stored = page.stored.iter().map(ActionView::from);
        Self {
            actions: in_repository.chain(stored).collect(),
            next: page.next.as_ref().map(ToString::to_string),
        }
    }
}

impl From<&FoundAction> for ActionView {
    fn from(found: &FoundAction) -> Self {
        match found {
            FoundAction::Stored(action) => Self::from(action.as_ref()),
            FoundAction::InRepository(action) => Self {
                file: Some(action.file.clone()),
                ..Self::from_definition(&action.definition, "available")
            },
        }
    }
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
            strategy_actor: definition
                .actors
                .as_ref()
                .map(|actors| actors.strategy.to_string()),
            execution_actor: definition
                .actors
                .as_ref()
                .map(|actors| actors.execution.to_string()),
            invariant_actor: definition
                .actors
                .as_ref()
                .and_then(|actors| Some(actors.invariant.as_ref()?.to_string())),
            arguments: definition.arguments.iter().map(Into::into).collect(),
            invariants: definition.invariants.iter().map(Into::into).collect(),
            automation_profile: definition.automation_profile.map(plan::Profile::as_str),
            read_only: definition.read_only,
            reusable: definition.reusable,
            tools: definition.tools.clone(),
            created_at: None,
            created_by: None,
        }
    }
}
