//! Resources: a plan, its diff and its log, under `planwright://plans/ID`.

use api::plan_list::PlanListRequest;
use plan::PlanId;
use serde_json::{Map, Value, json};
use store::PlanFilter;

use super::agent_access::AgentAccess;
use super::message::{INTERNAL_ERROR, INVALID_PARAMS, ProtocolError, RESOURCE_NOT_FOUND};
use super::protocol::{RequestOrigin, require_text};
use super::tool_answer::cut_long_values;
use super::tools::{DiffSelection, read_diff_page};
use crate::commands::event_narrator::{EventNarrator, format_timestamp};
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::ui;

const SCHEME: &str = "planwright://plans/";

const PAGE_LENGTH: usize = 50;

/// Bounds of the values in a plan's resource.
const MAX_TEXT_CHARS: usize = 16_000;
const MAX_LIST_ITEMS: usize = 500;

/// The newest lines of a log that are shown.
const MAX_LOG_LINES: usize = 500;

/// What a URI names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanResourceUri {
    pub plan_id: PlanId,
    part: ResourcePart,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResourcePart {
    Plan,
    Diff,
    Log,
}

impl PlanResourceUri {
    /// Reads `planwright://plans/ID`, `…/diff` or `…/log` of a plan that exists.
    pub fn parse(access: &AgentAccess, uri: &str) -> Result<Self, CommandError> {
        let unknown = || {
            let uri: String = uri.chars().take(200).collect();
            CommandError::new(
                CommandExit::NotFound,
                format!("There is no resource `{uri}`."),
            )
        };
        let path = uri.strip_prefix(SCHEME).ok_or_else(unknown)?;
        let (handle, part) = match path.split_once('/') {
            None => (path, ResourcePart::Plan),
            Some((handle, "diff")) => (handle, ResourcePart::Diff),
            Some((handle, "log")) => (handle, ResourcePart::Log),
            Some(_) => return Err(unknown()),
        };
        let plan_id = access.resolve_plan(handle);
        let plan_id = plan_id.map_err(|error| match error.exit {
            CommandExit::Usage => unknown(),
            _ => error,
        })?;
        Ok(Self { plan_id, part })
    }
}

/// Lists plans, newest first. The other resources of a plan follow from the templates.
pub fn list_resources(
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
    let request = PlanListRequest {
        filter: PlanFilter::default(),
        after,
        limit: PAGE_LENGTH,
        ..PlanListRequest::default()
    };
    let page = api::plan_list::list_plans(&access.lifecycle, &request, &access.caller)
        .map_err(|error| describe_error(error.into(), None))?;
    let resources: Vec<Value> = page
        .plans
        .iter()
        .map(|plan| {
            json!({
                "uri": format!("{SCHEME}{}", plan.plan_id),
                "name": plan.handle,
                "title": ui::truncate_line(&plan.goal, 100),
                "description": format!("A plan: {}", plan.standing.as_str()),
                "mimeType": "application/json",
            })
        })
        .collect();
    let mut result = json!({ "resources": resources });
    if let Some(next) = page.next {
        result["nextCursor"] = json!(next);
    }
    Ok(result)
}

pub fn list_templates() -> Value {
    let template = |part: &str, name: &str, description: &str, media: &str| {
        json!({
            "uriTemplate": format!("{SCHEME}{{id}}{part}"),
            "name": name,
            "description": description,
            "mimeType": media,
        })
    };
    json!({ "resourceTemplates": [
        template("", "plan", "Everything about a plan", "application/json"),
        template("/diff", "plan-diff", "The start of its changes, as a patch", "text/x-diff"),
        template("/log", "plan-log", "What happened to it", "text/plain"),
    ]})
}

pub fn read_resource(
    access: &AgentAccess,
    params: &Map<String, Value>,
    origin: &RequestOrigin,
) -> Result<Value, ProtocolError> {
    let uri = require_text(params, "uri")?;
    let read = || -> Result<(&str, String), CommandError> {
        let name = PlanResourceUri::parse(access, uri)?;
        Ok(match name.part {
            ResourcePart::Plan => ("application/json", read_plan(access, name.plan_id)?),
            ResourcePart::Diff => ("text/x-diff", read_patch(access, name.plan_id)?),
            ResourcePart::Log => ("text/plain", read_log(access, name.plan_id)?),
        })
    };
    let (media, text) = read().map_err(|error| {
        let error = describe_error(error, Some(origin));
        error.with_data(json!({ "uri": uri.chars().take(200).collect::<String>() }))
    })?;
    Ok(json!({ "contents": [{ "uri": uri, "mimeType": media, "text": text }] }))
}

fn read_plan(access: &AgentAccess, plan_id: PlanId) -> Result<String, CommandError> {
    let view = api::plans::get_plan_view(&access.lifecycle, plan_id)?;
    let mut value = serde_json::to_value(view).expect("BUG: a view always encodes");
    if cut_long_values(&mut value, MAX_TEXT_CHARS, MAX_LIST_ITEMS) {
        value["truncated"] = json!(true);
    }
    Ok(value.to_string())
}

fn read_patch(access: &AgentAccess, plan_id: PlanId) -> Result<String, CommandError> {
    let page = read_diff_page(access, plan_id, &DiffSelection::default(), 1)?;
    Ok(match page.next_line {
        None => page.text,
        Some(next) => format!(
            "{}… there is more: call plan_diff with from_line: {next}\n",
            page.text
        ),
    })
}

fn read_log(access: &AgentAccess, plan_id: PlanId) -> Result<String, CommandError> {
    let mut narrator = EventNarrator::default();
    let history = access.lifecycle.history().read_history(plan_id)?;
    let lines: Vec<String> = history
        .iter()
        .map(|recorded| narrator.narrate_line(recorded, &format_timestamp(recorded.at)))
        .filter(|line| !line.is_empty())
        .collect();
    let skipped = lines.len().saturating_sub(MAX_LOG_LINES);
    let mut text = match skipped {
        0 => String::new(),
        skipped => format!("… {skipped} earlier lines\n"),
    };
    text.extend(lines.into_iter().skip(skipped));
    Ok(ui::escape_controls(
        &anstream::adapter::strip_str(&text).to_string(),
    ))
}

/// The error of a request that is not a tool call.
pub fn describe_error(error: CommandError, origin: Option<&RequestOrigin>) -> ProtocolError {
    let code = match error.exit {
        CommandExit::NotFound if origin.is_some_and(|origin| !origin.is_stateless()) => {
            RESOURCE_NOT_FOUND
        }
        CommandExit::NotFound | CommandExit::Usage => INVALID_PARAMS,
        CommandExit::Ok
        | CommandExit::Error
        | CommandExit::Conflict
        | CommandExit::Blocked
        | CommandExit::NeedsPerson
        | CommandExit::NotLanded
        | CommandExit::TimedOut
        | CommandExit::Unknown
        | CommandExit::Interrupted => INTERNAL_ERROR,
    };
    ProtocolError::new(code, error.message)
}
