//! Prompts: one per action, with its arguments. A prompt asks the model to start a plan from the action.

use api::actions::FoundAction;
use api::plan_config::RepositoryAction;
use plan::action::ActionDefinition;
use serde_json::{Map, Value, json};

use super::agent_access::AgentAccess;
use super::message::ProtocolError;
use super::protocol::require_text;
use super::resources::describe_error;
use crate::current_repository;
use crate::error::CommandError;

const PAGE_LENGTH: usize = 100;

pub fn list_prompts(
    access: &AgentAccess,
    params: &Map<String, Value>,
) -> Result<Value, ProtocolError> {
    let after = match params.get("cursor").map(Value::as_str) {
        None => None,
        Some(cursor) => Some(
            cursor
                .and_then(|cursor| cursor.parse().ok())
                .ok_or_else(|| ProtocolError::invalid_params("Unknown `cursor`."))?,
        ),
    };
    let in_repository = list_repository_actions();
    let page = api::actions::list_actions(
        &access.lifecycle,
        &in_repository,
        after.as_ref(),
        PAGE_LENGTH,
    )
    .map_err(|error| describe_error(error.into(), None))?;
    let from_repository = page.in_repository.iter().filter(|one| !one.is_shadowed);
    let from_repository = from_repository.map(|one| &one.action.definition);
    let stored = page.stored.iter();
    let stored = stored.filter(|action| api::actions::is_available(action));
    let stored = stored.map(|action| &action.definition);
    let prompts: Vec<Value> = from_repository.chain(stored).map(describe_prompt).collect();
    let mut result = json!({ "prompts": prompts });
    if let Some(next) = page.next {
        result["nextCursor"] = json!(next.to_string());
    }
    Ok(result)
}

/// A repository whose file cannot be read offers no actions. Starting a plan there reports the problem.
fn list_repository_actions() -> Vec<RepositoryAction> {
    current_repository::list_actions().unwrap_or_default()
}

fn describe_prompt(definition: &ActionDefinition) -> Value {
    let arguments = definition.arguments.iter().map(|argument| {
        let description = argument.description.clone();
        json!({
            "name": argument.name,
            "description": description.unwrap_or_else(|| argument.kind.to_string()),
            "required": argument.required && argument.default.is_none(),
        })
    });
    json!({
        "name": definition.name.to_string(),
        "description": definition.description,
        "arguments": arguments.collect::<Vec<_>>(),
    })
}

pub fn get_prompt(
    access: &AgentAccess,
    params: &Map<String, Value>,
) -> Result<Value, ProtocolError> {
    let name = require_text(params, "name")?;
    let definition = find_action(access, name).map_err(|error| describe_error(error, None))?;
    let empty = Map::new();
    let given = match params.get("arguments") {
        None => &empty,
        Some(Value::Object(given)) => given,
        Some(_) => {
            return Err(ProtocolError::invalid_params(
                "`arguments` must be an object.",
            ));
        }
    };
    for argument in &definition.arguments {
        let is_given = given.contains_key(&argument.name);
        if argument.required && argument.default.is_none() && !is_given {
            return Err(ProtocolError::invalid_params(format!(
                "Argument `{}` is missing.",
                argument.name
            )));
        }
    }
    let call = json!({ "action": definition.name.to_string(), "arguments": given });
    let text = format!(
        "{}\n\nStart a Planwright plan for this: call the tool plan_start with {call}. Then call plan_status with \
         wait_seconds until the plan waits for a person, read its changes with plan_diff, and tell me what it did \
         and where I can review it (plan_request_landing).",
        definition.description
    );
    Ok(json!({
        "description": definition.description,
        "messages": [{ "role": "user", "content": { "type": "text", "text": text } }],
    }))
}

fn find_action(access: &AgentAccess, name: &str) -> Result<ActionDefinition, CommandError> {
    let name = name
        .parse()
        .map_err(|error| CommandError::usage(format!("Not the name of an action: {error}.")))?;
    let found = api::actions::find_action(&access.lifecycle, &name, &list_repository_actions())?;
    Ok(match found {
        FoundAction::Stored(action) => action.definition,
        FoundAction::InRepository(action) => action.definition,
    })
}
