//! `plan_revise` and `plan_cancel`. The engine allows them on plans that the caller started.

use actors::Stop;
use api::plans::{self, CancelRequest, ReviseRequest};
use lifecycle::{LifecycleError, OperationOutcome};
use plan::{PlanId, Refusal};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{ToolOutcome, object_schema, plan_property, read_arguments};
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::mcp::agent_access::AgentAccess;
use crate::mcp::plan_report::read_report;
use crate::mcp::tool_answer::ToolAnswer;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReviseArguments {
    plan: String,
    feedback: String,
    #[serde(default)]
    drop: Vec<String>,
    idempotency_key: Option<String>,
}

pub fn revise_schema() -> Value {
    let properties = json!({
        "plan": plan_property(),
        "feedback": { "type": "string", "description": "What the agent should do differently" },
        "drop": {
            "type": "array",
            "items": { "type": "string" },
            "description": "Globs of paths whose changes are dropped first",
        },
        "idempotency_key": {
            "type": "string",
            "description": "Repeating a call with the same key changes nothing",
        },
    });
    object_schema(&properties, &["plan", "feedback"])
}

pub fn revise_plan(
    access: &AgentAccess,
    arguments: Value,
    _stop: &Stop,
) -> Result<ToolOutcome, CommandError> {
    let arguments: ReviseArguments = read_arguments(arguments)?;
    let plan_id = access.resolve_plan(&arguments.plan)?;
    let request = ReviseRequest {
        text: arguments.feedback,
        drop: arguments.drop,
        ..ReviseRequest::default()
    };
    let mut call = access.new_call();
    if let Some(key) = &arguments.idempotency_key {
        call = call.with_key(key);
    }
    let done = match plans::revise_plan(&access.lifecycle, plan_id, &request, &call) {
        Err(plans::ReviseError::Engine(error)) => return Err(explain_refusal(error)),
        done => done?,
    };
    (access.request_work)();
    answer_change(access, plan_id, &done)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CancelArguments {
    plan: String,
    reason: Option<String>,
}

pub fn cancel_schema() -> Value {
    let properties = json!({
        "plan": plan_property(),
        "reason": { "type": "string", "description": "Recorded in the plan's log" },
    });
    object_schema(&properties, &["plan"])
}

pub fn cancel_plan(
    access: &AgentAccess,
    arguments: Value,
    _stop: &Stop,
) -> Result<ToolOutcome, CommandError> {
    let arguments: CancelArguments = read_arguments(arguments)?;
    let plan_id = access.resolve_plan(&arguments.plan)?;
    let request = CancelRequest {
        reason: arguments.reason,
    };
    let done = plans::cancel_plan(&access.lifecycle, plan_id, &request, &access.new_call());
    let done = done.map_err(explain_refusal)?;
    answer_change(access, plan_id, &done)
}

fn answer_change(
    access: &AgentAccess,
    plan_id: PlanId,
    done: &OperationOutcome,
) -> Result<ToolOutcome, CommandError> {
    let report = read_report(access, plan_id)?;
    let text = match done.repeated {
        true => format!("Already done; nothing changed.\n{}", report.render()),
        false => report.render(),
    };
    let mut answer = ToolAnswer::new(&report, text);
    answer.data["repeated"] = json!(done.repeated);
    Ok(answer.into())
}

fn explain_refusal(error: LifecycleError) -> CommandError {
    match error {
        LifecycleError::Refused(Refusal::NotAuthorized { .. }) => CommandError::new(
            CommandExit::NeedsPerson,
            "You did not start this plan, so you cannot change it.",
        )
        .with_kind("not_authorized")
        .with_hint("Ask a person, or start a plan of your own with plan_start."),
        other => other.into(),
    }
}
