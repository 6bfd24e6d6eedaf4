//! The stream of `copilot --output-format json`: events of a session, each with its `data`, and at the end
//! `result`. It tells no tokens.

use plan::transcript::NoticeLevel;
use serde_json::Value;

use super::entry_collector::{EntryCollector, ToolCallResult};
use super::json::{JsonObject, get_count, get_object, get_text};
use super::tool_call::{ToolCallInput, error_message, result_text};

pub(super) fn read_event(kind: &str, event: &JsonObject, collector: &mut EntryCollector) {
    if kind == "result" {
        let session = get_text(event, "sessionId").filter(|session| !session.is_empty());
        collector.summary.session = session.map(str::to_owned);
        return;
    }
    let Some(data) = get_object(event, "data") else {
        return;
    };
    match kind {
        "assistant.turn_start" => collector.summary.session_started = true,
        "assistant.message" => {
            collector.summary.last_error = None;
            let text = get_text(data, "content").unwrap_or_default();
            // A subagent's message is not the answer.
            match get_text(data, "parentToolCallId") {
                Some(_) => collector.add_remark(text),
                None => collector.add_message(text),
            }
        }
        "assistant.reasoning" => {
            collector.add_thought(get_text(data, "content").unwrap_or_default())
        }
        "tool.execution_start" => {
            let tool = get_text(data, "toolName").unwrap_or("tool");
            let input = ToolCallInput::new(tool, get_object(data, "arguments"));
            collector.start_call(get_text(data, "toolCallId"), &input);
        }
        "tool.execution_complete" => read_tool_result(data, collector),
        // It retries for up to half a minute, and says so only here.
        "model.call_failure" => collector.add_error(NoticeLevel::Warning, &call_failure(data)),
        "session.error" => collector.add_failure(error_message(data)),
        _ => {}
    }
}

fn read_tool_result(data: &JsonObject, collector: &mut EntryCollector) {
    let shell = get_object(data, "shellExecution");
    let exit_code = shell.and_then(|shell| shell.get("exitCode")?.as_i64());
    let failed = data.get("success") != Some(&Value::Bool(true));
    let result = get_object(data, "result").and_then(|result| result_text(result.get("content")));
    collector.end_call(
        get_text(data, "toolCallId"),
        ToolCallResult {
            failed: failed || exit_code.is_some_and(|code| code != 0),
            exit_code,
            output: result.or_else(|| failed.then(|| error_message(data).to_owned())),
            ..ToolCallResult::default()
        },
    );
}

/// The error of a request. Its message is JSON: an object of the provider, or a string.
fn call_failure(data: &JsonObject) -> String {
    let message = get_text(data, "errorMessage").unwrap_or_default();
    let message = match serde_json::from_str(message) {
        Ok(Value::Object(error)) => error_message(&error).to_owned(),
        Ok(Value::String(message)) => message,
        Ok(_) | Err(_) => message.to_owned(),
    };
    match get_count(data, "statusCode") {
        0 => message,
        status => format!("API error {status}: {message}"),
    }
}
