//! Tasks: a plan as the protocol's long work. The id of a task is the id of its plan, so nothing is kept here: every
//! process answers for every task, and a task outlives its client.

use plan::PlanId;
use plan::stage::{ApplyState, WorkState};
use plan::{Plan, PlanStage};
use serde_json::{Map, Value, json};

use super::agent_access::AgentAccess;
use super::message::ProtocolError;
use super::plan_report::WaitingFor;
use super::protocol::{RequestOrigin, require_text};
use super::resources::describe_error;
use super::tools::{answer_status, find_page};
use crate::error::CommandError;

/// How long a client should wait between two questions.
const POLL_INTERVAL_MS: u64 = 2000;

/// Answers a tool call with a task. The plan is stored by now.
pub fn describe_new_task(access: &AgentAccess, plan_id: PlanId) -> Result<Value, CommandError> {
    let mut task = describe_plan(access, plan_id)?;
    task["resultType"] = json!("task");
    Ok(task)
}

/// Answers `tasks/get`.
pub fn get_task(
    access: &AgentAccess,
    params: &Map<String, Value>,
    origin: &RequestOrigin,
) -> Result<Value, ProtocolError> {
    let plan_id = resolve_task(access, params)?;
    access.continue_own_plan(plan_id);
    read_task(access, plan_id, origin.can_open_links())
        .map_err(|error| describe_error(error, Some(origin)))
}

/// The complete state of a task. `can_open_links`: the client can show a person a link.
pub fn read_task(
    access: &AgentAccess,
    plan_id: PlanId,
    can_open_links: bool,
) -> Result<Value, CommandError> {
    let mut task = describe_plan(access, plan_id)?;
    match task["status"].as_str() {
        Some("input_required") => {
            task["inputRequests"] = match can_open_links {
                true => list_review_links(access, plan_id)?,
                false => json!({}),
            };
        }
        Some("completed") => {
            task["result"] = answer_status(access, plan_id)?.into_result();
            task["result"]["resultType"] = json!("complete");
        }
        Some(_) | None => {}
    }
    Ok(task)
}

/// Answers `tasks/update`. A person decides on the page or in a terminal, never through a client: an agent could
/// answer in their place. So responses are acknowledged and have no effect.
pub fn update_task(
    access: &AgentAccess,
    params: &Map<String, Value>,
) -> Result<Value, ProtocolError> {
    resolve_task(access, params)?;
    Ok(json!({}))
}

/// Answers `tasks/cancel`: cancels the plan, if this caller may.
pub fn cancel_task(
    access: &AgentAccess,
    params: &Map<String, Value>,
    origin: &RequestOrigin,
) -> Result<Value, ProtocolError> {
    let plan_id = resolve_task(access, params)?;
    let row = access
        .lifecycle
        .get_plan(plan_id)
        .map_err(|error| describe_error(error.into(), Some(origin)))?;
    // A task that has ended is acknowledged, too.
    if !row.plan.stage().is_final() {
        let request = api::plans::CancelRequest::default();
        api::plans::cancel_plan(&access.lifecycle, plan_id, &request, &access.new_call())
            .map_err(|error| describe_error(error.into(), Some(origin)))?;
    }
    Ok(json!({}))
}

fn resolve_task(
    access: &AgentAccess,
    params: &Map<String, Value>,
) -> Result<PlanId, ProtocolError> {
    let task = require_text(params, "taskId")?;
    let plan_id = task.parse::<PlanId>().ok();
    let plan_id = plan_id.filter(|plan_id| access.lifecycle.get_plan(*plan_id).is_ok());
    plan_id.ok_or_else(|| {
        let task: String = task.chars().take(100).collect();
        ProtocolError::invalid_params(format!("Unknown task: {task}"))
    })
}

fn describe_plan(access: &AgentAccess, plan_id: PlanId) -> Result<Value, CommandError> {
    let row = access.lifecycle.get_plan(plan_id)?;
    let standing = api::plans::find_standing(&access.lifecycle, &row)?;
    let status = task_status(&row.plan, WaitingFor::of_row(&row));
    Ok(json!({
        "taskId": plan_id,
        "status": status,
        "statusMessage": standing.as_str(),
        "createdAt": row.plan.created_at(),
        "lastUpdatedAt": row.plan.updated_at(),
        "ttlMs": null,
        "pollIntervalMs": POLL_INTERVAL_MS,
    }))
}

/// Only what can never go on is terminal. A failed or blocked plan can be repaired by a person.
fn task_status(plan: &Plan, waiting_for: WaitingFor) -> &'static str {
    match plan.stage() {
        PlanStage::Apply(ApplyState::Applied(_)) => "completed",
        PlanStage::Apply(ApplyState::Cancelled(_))
        | PlanStage::Strategize(WorkState::Cancelled(_))
        | PlanStage::Execute(WorkState::Cancelled(_)) => "cancelled",
        PlanStage::Strategize(_) | PlanStage::Execute(_) | PlanStage::Apply(_) => match waiting_for
        {
            WaitingFor::Engine => "working",
            WaitingFor::Person | WaitingFor::Nobody => "input_required",
        },
    }
}

/// A link to the page, for the person. The key is new for every version of the plan: keys are never reused.
fn list_review_links(access: &AgentAccess, plan_id: PlanId) -> Result<Value, CommandError> {
    let row = access.lifecycle.get_plan(plan_id)?;
    let handle = access.lifecycle.short_handle(plan_id)?;
    let Some(page) = find_page(access, &handle) else {
        return Ok(json!({}));
    };
    let key = format!("review-{}", row.plan.version());
    Ok(json!({ key: {
        "method": "elicitation/create",
        "params": {
            "mode": "url",
            "url": page,
            "message": format!("Plan {handle} waits for you. Review it on its page."),
        },
    }}))
}
