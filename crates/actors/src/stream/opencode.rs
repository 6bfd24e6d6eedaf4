//! The stream of `opencode run --format json`: the parts of its messages, each when it is complete.

use serde_json::Value;

use super::claude::{aim, aims};
use super::json::{Object, count, micros, object, text};
use super::{Heard, Said, answer, called, step, step_with};

pub(super) fn event(kind: &str, event: &Object, heard: &mut Heard, said: &mut Vec<Said>) {
    if let Some(session) = text(event, "sessionID").filter(|session| !session.is_empty()) {
        heard.session = Some(session.to_owned());
        heard.began = true;
    }
    if kind == "error" {
        let message = error(event);
        step(&message, said);
        heard.trouble = Some(message);
        return;
    }
    let Some(part) = object(event, "part") else {
        return;
    };
    heard.trouble = None;
    let words = text(part, "text").unwrap_or_default();
    match kind {
        "text" => {
            step(words, said);
            if let Some(words) = answer(words) {
                heard.answer = Some(words);
            }
        }
        "reasoning" => step(words, said),
        "tool_use" => {
            let name = text(part, "tool").unwrap_or("tool");
            let input = object(part, "state").and_then(|state| object(state, "input"));
            step_with(name, input.and_then(aim), said);
            called(name, &input.map(aims).unwrap_or_default(), said);
        }
        "step_finish" => add_up(part, heard),
        _ => {}
    }
}

/// What a request used.
fn add_up(part: &Object, heard: &mut Heard) {
    let usage = &mut heard.usage;
    if let Some(tokens) = object(part, "tokens") {
        let cache = object(tokens, "cache");
        let cached = |key| cache.map_or(0, |cache| count(cache, key));
        for input in [count(tokens, "input"), cached("read"), cached("write")] {
            usage.input_tokens = usage.input_tokens.saturating_add(input);
        }
        for output in [count(tokens, "output"), count(tokens, "reasoning")] {
            usage.output_tokens = usage.output_tokens.saturating_add(output);
        }
    }
    let cost = part.get("cost").and_then(Value::as_f64).and_then(micros);
    usage.cost_micros = usage.cost_micros.saturating_add(cost.unwrap_or(0));
}

/// What went wrong, in its words.
pub(super) fn error(event: &Object) -> String {
    let error = object(event, "error");
    let data = error.and_then(|error| object(error, "data"));
    let message = data
        .and_then(|data| text(data, "message"))
        .or_else(|| error.and_then(|error| text(error, "message").or_else(|| text(error, "name"))))
        .unwrap_or("the agent reported an error");
    match data.map_or(0, |data| count(data, "statusCode")) {
        0 => message.to_owned(),
        status => format!("{message} (status {status})"),
    }
}
