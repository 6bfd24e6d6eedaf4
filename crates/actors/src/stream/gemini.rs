//! The stream of `gemini --output-format stream-json`: `init`, `message`, `tool_use`, `tool_result`
//! and, at the end, `result`.

use serde_json::Value;

use super::claude::{first_tool_operand, tool_operands};
use super::json::{JsonObject, get_count, get_object, get_text};
use super::{StreamSummary, StreamUpdate, push_step, push_step_with, push_tool_call};
use crate::excerpt::TextExcerpt;

/// State between lines.
#[derive(Default)]
pub(super) struct GeminiReader {
    /// Text since the last tool call: an answer comes in pieces.
    answer: TextExcerpt,
}

impl GeminiReader {
    pub(super) fn read_event(
        &mut self,
        kind: &str,
        event: &JsonObject,
        summary: &mut StreamSummary,
        updates: &mut Vec<StreamUpdate>,
    ) {
        match kind {
            "init" => {
                summary.session_started = true;
                let session = get_text(event, "session_id").filter(|session| !session.is_empty());
                summary.session = session.map(str::to_owned);
            }
            "message" if get_text(event, "role") == Some("assistant") => {
                let piece = get_text(event, "content").unwrap_or_default();
                if event.get("delta") != Some(&Value::Bool(true)) {
                    self.answer = TextExcerpt::default();
                }
                self.answer.push(piece);
                push_step(piece, updates);
                if !self.answer.is_blank() {
                    summary.answer = Some(self.answer.to_text());
                }
            }
            "tool_use" => {
                self.answer = TextExcerpt::default();
                let name = get_text(event, "tool_name").unwrap_or("tool");
                let input = get_object(event, "parameters");
                push_step_with(name, input.and_then(first_tool_operand), updates);
                push_tool_call(name, &input.map(tool_operands).unwrap_or_default(), updates);
            }
            "error" => {
                let message = get_text(event, "message").unwrap_or("the agent reported an error");
                push_step(message, updates);
                if get_text(event, "severity") == Some("error") {
                    summary.failure = Some(message.to_owned());
                }
            }
            "result" => read_result(event, summary),
            _ => {}
        }
    }
}

/// The last event, with total usage.
fn read_result(event: &JsonObject, summary: &mut StreamSummary) {
    if let Some(stats) = get_object(event, "stats") {
        summary.usage.input_tokens = get_count(stats, "input_tokens");
        summary.usage.output_tokens = get_count(stats, "output_tokens");
    }
    summary.failure = match get_text(event, "status") {
        Some("error") => {
            let message = get_object(event, "error").and_then(|error| get_text(error, "message"));
            Some(message.unwrap_or("the agent reported an error").to_owned())
        }
        _ => None,
    };
}
