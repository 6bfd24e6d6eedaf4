//! The variables of an expression: the plan, its action and its changes, as CEL values.

use std::collections::HashMap;

use cel::common::types::{CelBool, CelInt, CelList, CelMap, CelMapKey, CelString};
use cel::common::value::Val;
use cel::{Context, Value};
use plan::argument::ArgumentValue;
use plan::{Action, Plan};

use super::shared_map::SharedMap;
use crate::judge::subject::{PathChange, PathChangeList};

/// The values of all variables for one plan.
#[derive(Clone)]
pub(super) struct ExpressionFacts {
    plan_variables: HashMap<&'static str, Value>,
    changes: Vec<SharedMap>,
}

impl ExpressionFacts {
    pub fn from_plan(plan: &Plan, action: Option<&Action>, changes: &PathChangeList) -> Self {
        Self {
            plan_variables: plan_variables(plan, action, changes),
            changes: changes.0.iter().map(change_map).collect(),
        }
    }

    /// Builds one context for all expressions, because building it takes longer than most evaluations.
    pub fn into_context(self) -> Context<'static, 'static> {
        let mut context = Context::default();
        for (name, value) in self.plan_variables {
            context.add_variable_from_value(name, value);
        }
        context.add_variable_as_val("changes", Box::new(make_cel_list(self.changes)));
        context
    }
}

pub(super) fn make_cel_list(changes: Vec<SharedMap>) -> CelList<'static> {
    let boxed = |change| -> Box<dyn Val> { Box::new(change) };
    CelList::from(changes.into_iter().map(boxed).collect::<Vec<_>>())
}

fn plan_variables(
    plan: &Plan,
    action: Option<&Action>,
    changes: &PathChangeList,
) -> HashMap<&'static str, Value> {
    let number = |number: u32| Value::Int(i64::from(number));
    let plan_fields = HashMap::from([
        ("id", text_value(&plan.id().to_string())),
        ("goal", text_value(plan.goal().as_str())),
        (
            "action",
            text_value(&plan.action().map(ToString::to_string).unwrap_or_default()),
        ),
        ("phase", text_value(plan.phase().as_str())),
        ("state", text_value(plan.stage().state_name().as_str())),
        ("attempt", number(plan.attempt())),
        (
            "version",
            Value::Int(i64::try_from(plan.version().0).unwrap_or(i64::MAX)),
        ),
        ("reversions", number(plan.reversions())),
        ("profile", text_value(plan.profile().as_str())),
        ("read_only", Value::Bool(plan.read_only())),
        (
            "strategy_actor",
            text_value(&plan.actors().strategy.to_string()),
        ),
        (
            "execution_actor",
            text_value(&plan.actors().execution.to_string()),
        ),
    ]);
    let action_fields: HashMap<&str, Value> = match action {
        None => HashMap::new(),
        Some(action) => HashMap::from([
            ("name", text_value(&action.name().to_string())),
            ("description", text_value(&action.definition.description)),
            ("read_only", Value::Bool(action.definition.read_only)),
            ("reusable", Value::Bool(action.definition.reusable)),
        ]),
    };
    let arguments: HashMap<String, Value> = plan
        .arguments()
        .iter()
        .map(|(name, value)| (name.clone(), argument_value(value)))
        .collect();
    let resource = plan.resources().first();
    let target = resource.and_then(|resource| resource.target.as_deref());
    let branch = target.map(|target| target.strip_prefix("refs/heads/").unwrap_or(target));
    let target = HashMap::from([
        ("resource", text_value(resource.map_or("", |one| &one.name))),
        ("branch", text_value(branch.unwrap_or_default())),
    ]);
    let totals = totals_value(changes);
    HashMap::from([
        ("plan", Value::from(plan_fields)),
        ("action", Value::from(action_fields)),
        ("arguments", Value::from(arguments)),
        ("phase", text_value(plan.phase().as_str())),
        ("attempt", number(plan.attempt())),
        ("target", Value::from(target)),
        ("totals", totals),
    ])
}

pub(super) fn text_value(text: &str) -> Value {
    Value::from(text.to_owned())
}

fn count_value(number: u64) -> Value {
    Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

fn totals_value(changes: &PathChangeList) -> Value {
    let sum = |of: fn(&PathChange) -> u64| changes.0.iter().map(of).sum::<u64>();
    Value::from(HashMap::from([
        ("files", count_value(changes.0.len() as u64)),
        ("insertions", count_value(sum(|one| one.insertions))),
        ("deletions", count_value(sum(|one| one.deletions))),
        (
            "lines",
            count_value(sum(|one| one.insertions + one.deletions)),
        ),
        ("size", count_value(sum(|one| one.size))),
    ]))
}

fn change_map(change: &PathChange) -> SharedMap {
    let from = change.from.as_ref().map(ToString::to_string);
    let text = |text: String| -> Box<dyn Val> { Box::new(CelString::from(text)) };
    let count = |number: u64| -> Box<dyn Val> {
        Box::new(CelInt::from(i64::try_from(number).unwrap_or(i64::MAX)))
    };
    make_shared_map([
        ("resource", text(change.resource.clone())),
        ("path", text(change.path.to_string())),
        ("from", text(from.unwrap_or_default())),
        ("operation", text(change.operation.as_str().to_owned())),
        ("insertions", count(change.insertions)),
        ("deletions", count(change.deletions)),
        ("size", count(change.size)),
        ("binary", Box::new(CelBool::from(change.binary))),
        ("mode", text(change.mode.clone())),
    ])
}

pub(super) fn make_shared_map<const COUNT: usize>(
    fields: [(&'static str, Box<dyn Val>); COUNT],
) -> SharedMap {
    let named = |(name, value)| (CelMapKey::String(CelString::from(name)), value);
    let fields = fields.into_iter().map(named);
    SharedMap::new(CelMap::from(fields.collect::<HashMap<_, _>>()))
}

fn argument_value(value: &ArgumentValue) -> Value {
    match value {
        ArgumentValue::String(text) => Value::from(text.as_str().to_owned()),
        ArgumentValue::Integer(number) => Value::Int(*number),
        ArgumentValue::Float(number) => Value::Float(*number),
        ArgumentValue::Boolean(value) => Value::Bool(*value),
        ArgumentValue::List(items) => Value::from(
            items
                .iter()
                .map(|item| Value::from(item.as_str().to_owned()))
                .collect::<Vec<_>>(),
        ),
    }
}
