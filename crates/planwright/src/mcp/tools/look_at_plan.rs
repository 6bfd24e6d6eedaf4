//! `plan_status`, `plan_list` and `plan_why`: reads.

use std::time::{Duration, Instant};

use actors::Stop;
use api::plan_list::PlanListRequest;
use plan::{PlanId, QualifiedName};
use serde::Deserialize;
use serde_json::{Value, json};
use store::PlanFilter;

use super::{ToolOutcome, object_schema, plan_property, read_arguments};
use crate::commands::why::describe_reason;
use crate::error::CommandError;
use crate::mcp::agent_access::AgentAccess;
use crate::mcp::plan_report::{WaitingFor, read_report};
use crate::mcp::tool_answer::ToolAnswer;
use crate::ui;

/// Clients give up on a call after a minute.
const MAX_WAIT_SECONDS: u64 = 50;

/// When to read a plan again without a commit: a notification can be lost. A cancelled call ends within this time.
const READ_INTERVAL: Duration = Duration::from_millis(500);

const DEFAULT_LIST_LENGTH: usize = 20;
const MAX_LIST_LENGTH: usize = 100;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StatusArguments {
    plan: String,
    #[serde(default)]
    wait_seconds: u64,
}

pub fn status_schema() -> Value {
    let properties = json!({
        "plan": plan_property(),
        "wait_seconds": {
            "type": "integer",
            "minimum": 0,
            "maximum": MAX_WAIT_SECONDS,
            "description": "Wait up to this long until the plan needs a person or has ended",
        },
    });
    object_schema(&properties, &["plan"])
}

pub fn show_status(
    access: &AgentAccess,
    arguments: Value,
    stop: &Stop,
) -> Result<ToolOutcome, CommandError> {
    let arguments: StatusArguments = read_arguments(arguments)?;
    let plan_id = access.resolve_plan(&arguments.plan)?;
    access.continue_own_plan(plan_id);
    let wait = Duration::from_secs(arguments.wait_seconds.min(MAX_WAIT_SECONDS));
    wait_while_working(access, plan_id, wait, stop)?;
    Ok(answer_status(access, plan_id)?.into())
}

pub fn answer_status(access: &AgentAccess, plan_id: PlanId) -> Result<ToolAnswer, CommandError> {
    let report = read_report(access, plan_id)?;
    let text = report.render();
    Ok(ToolAnswer::new(report, text))
}

/// Waits until a plan needs a person or has ended.
fn wait_while_working(
    access: &AgentAccess,
    plan_id: PlanId,
    timeout: Duration,
    stop: &Stop,
) -> Result<(), CommandError> {
    let lifecycle = &access.lifecycle;
    let mut commits = lifecycle.watch_commits()?;
    let started_at = Instant::now();
    loop {
        let row = lifecycle.get_plan(plan_id)?;
        if WaitingFor::of_row(&row) != WaitingFor::Engine {
            return Ok(());
        }
        let left = timeout.saturating_sub(started_at.elapsed());
        if left.is_zero() || stop.is_requested() {
            return Ok(());
        }
        commits.wait_for_commit(left.min(READ_INTERVAL))?;
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListArguments {
    #[serde(default)]
    all: bool,
    project: Option<QualifiedName>,
    #[serde(default)]
    needs_person: bool,
    after: Option<String>,
    #[serde(default = "default_list_length")]
    limit: usize,
}

fn default_list_length() -> usize {
    DEFAULT_LIST_LENGTH
}

pub fn list_schema() -> Value {
    let properties = json!({
        "all": { "type": "boolean", "description": "Plans of all repositories, not only of the current one" },
        "project": { "type": "string", "description": "Only plans of this project" },
        "needs_person": { "type": "boolean", "description": "Only plans that wait for a person" },
        "after": { "type": "string", "description": "The `next` of the page before" },
        "limit": { "type": "integer", "minimum": 1, "maximum": MAX_LIST_LENGTH },
    });
    object_schema(&properties, &[])
}

pub fn list_plans(
    access: &AgentAccess,
    arguments: Value,
    _stop: &Stop,
) -> Result<ToolOutcome, CommandError> {
    let arguments: ListArguments = read_arguments(arguments)?;
    let projects = match (&arguments.project, arguments.all) {
        (Some(project), _) => Some(vec![project.clone()]),
        (None, true) => None,
        (None, false) => access.find_local_projects()?,
    };
    let after = arguments.after.as_deref();
    let after = after.map(|after| access.resolve_plan(after)).transpose()?;
    let request = PlanListRequest {
        filter: PlanFilter {
            needs_person: arguments.needs_person,
            ..PlanFilter::default()
        },
        projects,
        after,
        limit: arguments.limit.clamp(1, MAX_LIST_LENGTH),
        with_usage: false,
    };
    let page = api::plan_list::list_plans(&access.lifecycle, &request, &access.caller)?;
    let mut text = String::new();
    for plan in &page.plans {
        text.push_str(&format!(
            "{}  {}  {}\n",
            plan.handle,
            plan.standing.as_str(),
            ui::truncate_line(&plan.goal, 100)
        ));
    }
    if page.plans.is_empty() {
        text.push_str("No plans.\n");
    }
    if let Some(next) = page.next {
        text.push_str(&format!("There are more: pass after: {next}\n"));
    }
    Ok(ToolAnswer::new(page, text).into())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanArguments {
    pub plan: String,
}

pub fn plan_schema() -> Value {
    object_schema(&json!({ "plan": plan_property() }), &["plan"])
}

pub fn explain_plan(
    access: &AgentAccess,
    arguments: Value,
    _stop: &Stop,
) -> Result<ToolOutcome, CommandError> {
    let arguments: PlanArguments = read_arguments(arguments)?;
    let plan_id = access.resolve_plan(&arguments.plan)?;
    let why = api::diagnosis::diagnose_plan(&access.lifecycle, plan_id, &access.caller)?;
    let now = access.clock.now();
    let sentences: Vec<String> = why
        .reasons
        .iter()
        .map(|reason| describe_reason(reason, &why, now))
        .collect();
    let text: String = sentences.iter().map(|one| format!("{one}\n")).collect();
    let data = json!({
        "plan_id": plan_id,
        "phase": why.phase,
        "state": why.state,
        "reasons": sentences,
        "details": why.reasons,
        "gate": why.gate,
    });
    Ok(ToolAnswer::new(data, text).into())
}
