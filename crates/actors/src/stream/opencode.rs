//! The stream of `opencode run --format json`: the parts of its messages, each when it is complete.

use serde_json::Value;

use super::claude::{first_tool_operand, tool_operands};
use super::json::{JsonObject, dollars_to_micros, get_count, get_object, get_text};
use super::{
    StreamSummary, StreamUpdate, bounded_answer, push_step, push_step_with, push_tool_call,
};

pub(super) fn read_event(
    kind: &str,
    event: &JsonObject,
    summary: &mut StreamSummary,
    updates: &mut Vec<StreamUpdate>,
) {
    if let Some(session) = get_text(event, "sessionID").filter(|session| !session.is_empty()) {
        summary.session = Some(session.to_owned());
        summary.session_started = true;
    }
    if kind == "error" {
        let message = error_message(event);
        push_step(&message, updates);
        summary.last_error = Some(message);
        return;
    }
    let Some(part) = get_object(event, "part") else {
        return;
    };
    summary.last_error = None;
    let words = get_text(part, "text").unwrap_or_default();
    match kind {
        "text" => {
            push_step(words, updates);
            if let Some(words) = bounded_answer(words) {
                summary.answer = Some(words);
            }
        }
        "reasoning" => push_step(words, updates),
        "tool_use" => {
            let name = get_text(part, "tool").unwrap_or("tool");
            let input = get_object(part, "state").and_then(|state| get_object(state, "input"));
            push_step_with(name, input.and_then(first_tool_operand), updates);
            push_tool_call(name, &input.map(tool_operands).unwrap_or_default(), updates);
        }
        "step_finish" => add_usage(part, summary),
        _ => {}
    }
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

pub(super) fn error_message(event: &JsonObject) -> String {
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
