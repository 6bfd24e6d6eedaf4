//! The stream of `opencode run --format json`: the parts of its messages, each when it is complete.

use plan::transcript::{LineCounts, NoticeLevel};
use serde_json::Value;

use super::StreamSummary;
use super::entry_collector::{EntryCollector, ToolCallResult};
use super::json::{JsonObject, dollars_to_micros, get_count, get_object, get_text};
use super::tool_call::{ToolCallInput, result_text};

pub(super) fn read_event(kind: &str, event: &JsonObject, collector: &mut EntryCollector) {
    if let Some(session) = get_text(event, "sessionID").filter(|session| !session.is_empty()) {
        collector.summary.session = Some(session.to_owned());
        collector.summary.session_started = true;
    }
    if kind == "error" {
        return collector.add_error(NoticeLevel::Error, &error_message(event));
    }
    let Some(part) = get_object(event, "part") else {
        return;
    };
    collector.summary.last_error = None;
    let words = get_text(part, "text").unwrap_or_default();
    match kind {
        "text" => collector.add_message(words),
        "reasoning" => collector.add_thought(words),
        "tool_use" => read_tool_call(part, collector),
        "step_finish" => add_usage(part, &mut collector.summary),
        _ => {}
    }
}

/// A call is reported when it has ended.
fn read_tool_call(part: &JsonObject, collector: &mut EntryCollector) {
    let tool = get_text(part, "tool").unwrap_or("tool");
    let call_id = get_text(part, "callID");
    let state = get_object(part, "state");
    let input = state.and_then(|state| get_object(state, "input"));
    collector.start_call(call_id, &ToolCallInput::new(tool, input));
    let Some(state) = state else {
        return;
    };
    let details = get_object(state, "metadata");
    let exit_code = details.and_then(|details| details.get("exit")?.as_i64());
    let file_diff = details.and_then(|details| get_object(details, "filediff"));
    let result = ToolCallResult {
        failed: get_text(state, "status") == Some("error")
            || exit_code.is_some_and(|code| code != 0),
        exit_code,
        output: result_text(state.get("output")).or_else(|| result_text(state.get("error"))),
        line_counts: file_diff.map(|diff| LineCounts {
            added: get_count(diff, "additions"),
            removed: get_count(diff, "deletions"),
        }),
        ..ToolCallResult::default()
    };
    collector.end_call(call_id, result);
}

/// Adds the usage of one request.
fn add_usage(part: &JsonObject, summary: &mut StreamSummary) {
    let usage = &mut summary.usage;
    if let Some(tokens) = get_object(part, "tokens") {
        let cache = get_object(tokens, "cache");
        let cached = |key| cache.map_or(0, |cache| get_count(cache, key));
        for input in [get_count(tokens, "input"), cached("read"), cached("write")] {
            usage.input_tokens = usage.input_tokens.saturating_add(input);
        }
        for output in [get_count(tokens, "output"), get_count(tokens, "reasoning")] {
            usage.output_tokens = usage.output_tokens.saturating_add(output);
        }
    }
    let cost = part
        .get("cost")
        .and_then(Value::as_f64)
        .and_then(dollars_to_micros);
    usage.cost_micros = usage.cost_micros.saturating_add(cost.unwrap_or(0));
}

fn error_message(event: &JsonObject) -> String {
    let error = get_object(event, "error");
    let data = error.and_then(|error| get_object(error, "data"));
    let message = data
        .and_then(|data| get_text(data, "message"))
        .or_else(|| {
            error.and_then(|error| get_text(error, "message").or_else(|| get_text(error, "name")))
        })
        .unwrap_or("the agent reported an error");
    match data.map_or(0, |data| get_count(data, "statusCode")) {
        0 => message.to_owned(),
        status => format!("{message} (status {status})"),
    }
}
