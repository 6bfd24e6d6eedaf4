//! The stream of `kimi --output-format stream-json`: messages as they go to the model, told apart by
//! their role, and remarks of the role `meta`. It tells no tokens.

use serde_json::Value;

use super::entry_collector::{EntryCollector, ToolCallResult};
use super::json::{JsonObject, get_array, get_object, get_text};
use super::tool_call::{ToolCallInput, result_text};

pub(super) fn read_message(message: &JsonObject, collector: &mut EntryCollector) {
    match get_text(message, "role") {
        Some("assistant") => {
            collector.summary.session_started = true;
            if let Some(text) = result_text(message.get("content")) {
                collector.add_message(&text);
            }
            for call in get_array(message, "tool_calls")
                .iter()
                .filter_map(Value::as_object)
            {
                read_tool_call(call, collector);
            }
        }
        Some("tool") => {
            let result = ToolCallResult {
                output: result_text(message.get("content")),
                ..ToolCallResult::default()
            };
            collector.end_call(get_text(message, "tool_call_id"), result);
        }
        Some("meta") => {
            if let Some(session) = get_text(message, "session_id") {
                collector.summary.session = Some(session.to_owned());
            }
        }
        Some(_) | None => {}
    }
}

/// The arguments are JSON in a string.
fn read_tool_call(call: &JsonObject, collector: &mut EntryCollector) {
    let Some(function) = get_object(call, "function") else {
        return;
    };
    let arguments = get_text(function, "arguments").unwrap_or_default();
    let input: Option<JsonObject> = serde_json::from_str(arguments).ok();
    let tool = get_text(function, "name").unwrap_or("tool");
    collector.start_call(
        get_text(call, "id"),
        &ToolCallInput::new(tool, input.as_ref()),
    );
}
