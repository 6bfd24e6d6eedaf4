//! `plan_start`: creates a plan, which this process then runs.

use std::path::PathBuf;

use actors::Stop;
use api::actions::ActionError;
use api::plans::{self, CreatePlanError, CreatePlanRequest};
use lifecycle::LifecycleError;
use plan::{Profile, QualifiedName, Refusal};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{ToolOutcome, object_schema, read_arguments};
use crate::error::CommandError;
use crate::mcp::agent_access::{AgentAccess, RepositoryChoice};
use crate::mcp::plan_report::read_report;
use crate::mcp::tool_answer::ToolAnswer;
use crate::plan_notices::describe_notices;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StartArguments {
    goal: Option<String>,
    action: Option<QualifiedName>,
    #[serde(default)]
    arguments: Map<String, Value>,
    repository: Option<PathBuf>,
    project: Option<QualifiedName>,
    #[serde(default)]
    no_repository: bool,
    agent: Option<QualifiedName>,
    profile: Option<Profile>,
    #[serde(default)]
    strategy: bool,
    #[serde(default)]
    with_changes: bool,
    idempotency_key: Option<String>,
}

pub fn input_schema() -> Value {
    let text = |description: &str| json!({ "type": "string", "description": description });
    let flag = |description: &str| json!({ "type": "boolean", "description": description });
    let properties = json!({
        "goal": text("What the agent should achieve. Required without `action`"),
        "action": text("Name of a stored template for plans"),
        "arguments": {
            "type": "object",
            "description": "Arguments of the action, by name. A list has several values",
        },
        "repository": text("Absolute path of a registered git repository, instead of the current one"),
        "project": text("Name of a registered project, instead of a repository"),
        "no_repository": flag("Work without a repository; the result is a report"),
        "agent": text("Agent to run, such as claude or codex"),
        "profile": {
            "type": "string",
            "enum": ["manual", "supervised", "review"],
            "description": "How often a person is asked. Plans of agents never land by themselves",
        },
        "strategy": flag("Have the agent write a strategy first"),
        "with_changes": flag("Include uncommitted changes of the repository"),
        "idempotency_key": text("Repeating a call with the same key does not start another plan"),
    });
    object_schema(&properties, &[])
}

pub fn start_plan(
    access: &AgentAccess,
    arguments: Value,
    _stop: &Stop,
) -> Result<ToolOutcome, CommandError> {
    let arguments: StartArguments = read_arguments(arguments)?;
    let projects = access.find_projects(&arguments.choose_project()?)?;
    let config = access.read_plan_config(&projects)?;
    // A default that lands by itself is for plans of people. Asking for it is refused by the engine.
    let default_profile = config.default_profile().map(|(profile, _)| profile);
    let fallback = (arguments.action.is_none() && default_profile == Some(Profile::Auto))
        .then_some(Profile::Review);
    let request = CreatePlanRequest {
        goal: arguments.goal.clone(),
        action: arguments.action.clone(),
        arguments: list_action_arguments(&arguments.arguments)?,
        projects,
        actor: arguments.agent.clone(),
        profile: arguments.profile.or(fallback),
        strategy_wanted: arguments.strategy,
        with_uncommitted_changes: arguments.with_changes,
        ..CreatePlanRequest::default()
    };
    let mut call = access.new_call();
    if let Some(key) = &arguments.idempotency_key {
        call = call.with_key(key);
    }
    let created = plans::create_plan(&access.lifecycle, &request, &config, &call)
        .map_err(|error| explain_refusal(error, &request))?;
    (access.request_work)();
    let plan_id = created.outcome.plan.id();
    let report = read_report(access, plan_id)?;
    let notices = plans::find_notices(&access.lifecycle, &request, &config, &created);
    let notices: Vec<String> = describe_notices(&notices)
        .into_iter()
        .map(|message| access.invocation.render_hint(&message.text))
        .collect();
    let mut text = match created.outcome.repeated {
        true => "The plan was started before; no second one was started.\n".to_owned(),
        false => String::new(),
    };
    text.push_str(&report.render());
    for notice in &notices {
        text.push_str(&format!("note: {notice}\n"));
    }
    let mut answer = ToolAnswer::new(&report, text);
    answer.data["notices"] = json!(notices);
    answer.data["repeated"] = json!(created.outcome.repeated);
    Ok(ToolOutcome::Started { plan_id, answer })
}

impl StartArguments {
    /// Exactly one place to work, or none if that is asked for.
    fn choose_project(&self) -> Result<RepositoryChoice, CommandError> {
        if self.goal.is_none() && self.action.is_none() {
            return Err(CommandError::usage("Pass `goal` or `action`."));
        }
        match (&self.repository, &self.project, self.no_repository) {
            (None, None, false) => Ok(RepositoryChoice::WorkingDirectory),
            (Some(path), None, false) => Ok(RepositoryChoice::Repository(path.clone())),
            (None, Some(project), false) => Ok(RepositoryChoice::Project(project.clone())),
            (None, None, true) => Ok(RepositoryChoice::NoRepository),
            (Some(_), Some(_), _) | (Some(_), None, true) | (None, Some(_), true) => {
                Err(CommandError::usage(
                    "Pass only one of `repository`, `project` and `no_repository`.",
                ))
            }
        }
    }
}

/// Flattens the arguments of an action to pairs, as the engine parses them.
fn list_action_arguments(
    arguments: &Map<String, Value>,
) -> Result<Vec<(String, String)>, CommandError> {
    let mut pairs = Vec::new();
    for (name, value) in arguments {
        let items = match value {
            Value::Array(items) => items.as_slice(),
            single => std::slice::from_ref(single),
        };
        for item in items {
            let text = match item {
                Value::String(text) => text.clone(),
                Value::Bool(_) | Value::Number(_) => item.to_string(),
                Value::Null | Value::Array(_) | Value::Object(_) => {
                    return Err(CommandError::usage(format!(
                        "Argument `{name}` must be a string, a number, a boolean or a list of strings."
                    )));
                }
            };
            pairs.push((name.clone(), text));
        }
    }
    Ok(pairs)
}

/// Says what an agent may not do, and what it can do instead.
fn explain_refusal(error: CreatePlanError, request: &CreatePlanRequest) -> CommandError {
    match error {
        CreatePlanError::Engine(LifecycleError::Refused(Refusal::NotAuthorized { .. })) => {
            CommandError::new(
                crate::exit::CommandExit::NeedsPerson,
                "An agent cannot start a plan with profile auto: its result would land without a person.",
            )
            .with_kind("not_authorized")
            .with_hint("Pass profile review: a person then lands the result.")
        }
        CreatePlanError::Action(ActionError::InRepository {
            error: LifecycleError::Refused(Refusal::NotAuthorized { .. }),
            ..
        }) => {
            let name = request.action.as_ref().map(ToString::to_string);
            let name = name.unwrap_or_default();
            CommandError::new(
                crate::exit::CommandExit::NeedsPerson,
                format!("Action `{name}` of the repository is new or has changed, and only a person can accept it."),
            )
            .with_kind("not_authorized")
            .with_hint(format!("planwright run --action {name}"))
        }
        CreatePlanError::SeveralActors(names) => {
            let listed: Vec<String> = names.iter().map(ToString::to_string).collect();
            CommandError::usage(format!(
                "Several agents are available: {}.",
                listed.join(", ")
            ))
            .with_kind("several_agents")
            .with_hint("Pass one of them as `agent`.")
        }
        other => other.into(),
    }
}
