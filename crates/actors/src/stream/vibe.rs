//! The stream of `vibe --prompt --output streaming`: the entries of a conversation, each when it is
//! complete. It tells no tokens.

use plan::transcript::ToolCallStatus;

use super::entry_collector::EntryCollector;
use super::json::{JsonObject, get_object, get_text};
use super::tool_call::{ToolCallInput, result_text};

pub(super) fn read_event(kind: &str, event: &JsonObject, collector: &mut EntryCollector) {
    if let Some(session) = get_text(event, "sessionId").filter(|session| !session.is_empty()) {
        collector.summary.session = Some(session.to_owned());
        collector.summary.session_started = true;
    }
    match (kind, get_text(event, "role")) {
        ("message", Some("assistant")) => {
            collector.add_message(&result_text(event.get("content")).unwrap_or_default());
        }
        ("effect", _) => {
            let detail = get_object(event, "detail");
            let tool = detail.and_then(|detail| get_text(detail, "toolName"));
            let tool = tool.or_else(|| get_text(event, "title")).unwrap_or("tool");
            let input = detail.and_then(|detail| get_object(detail, "input"));
            let state = get_object(event, "state");
            let status = match state.and_then(|state| get_text(state, "status")) {
                Some("completed") | None => ToolCallStatus::Completed,
                Some(_) => ToolCallStatus::Failed,
            };
            collector.add_finished_call(&ToolCallInput::new(tool, input), status);
        }
        _ => {}
    }
}
