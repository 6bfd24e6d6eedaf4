//! `plan_request_landing`: says where a person decides. It changes nothing.

use actors::Stop;
use serde_json::{Value, json};

use super::look_at_plan::PlanArguments;
use super::{ToolOutcome, read_arguments};
use crate::error::CommandError;
use crate::mcp::agent_access::AgentAccess;
use crate::mcp::plan_report::{WaitingFor, list_person_commands, read_report};
use crate::mcp::tool_answer::ToolAnswer;

pub fn request_landing(
    access: &AgentAccess,
    arguments: Value,
    _stop: &Stop,
) -> Result<ToolOutcome, CommandError> {
    let arguments: PlanArguments = read_arguments(arguments)?;
    let plan_id = access.resolve_plan(&arguments.plan)?;
    let report = read_report(access, plan_id)?;
    let handle = report.plan.handle.clone();
    let page = find_page(access, &handle);
    let command = format!("planwright open {handle}");
    let command = access.invocation.render_hint(&command);
    let row = access.lifecycle.get_plan(plan_id)?;
    let others = list_person_commands(access, &row)?;
    let standing = report.plan.standing.as_str();
    let mut text = match report.waiting_for {
        WaitingFor::Person => format!("{handle}: {standing}. It waits for a person.\n"),
        WaitingFor::Engine => {
            format!("{handle}: {standing}. There is nothing to decide yet.\n")
        }
        WaitingFor::Nobody => format!("{handle}: {standing}. It has ended.\n"),
    };
    if let Some(page) = &page {
        text.push_str(&format!("Tell the person: {page}\n"));
    }
    text.push_str(&format!("Tell the person to run: {command}\n"));
    for other in &others {
        text.push_str(&format!("Or in a terminal: {other}\n"));
    }
    let data = json!({
        "plan_id": plan_id,
        "standing": report.plan.standing,
        "waiting_for": report.waiting_for,
        "page": page,
        "command": command,
        "person_commands": others,
    });
    Ok(ToolAnswer::new(data, text).into())
}

/// The plan's page, if a server runs for this home. Without a session, the page names the command that opens one.
pub fn find_page(access: &AgentAccess, handle: &str) -> Option<String> {
    let server = access.registry.find_running().ok()??;
    Some(format!("http://{}/{handle}", server.address))
}
