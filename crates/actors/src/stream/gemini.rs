//! The stream of `gemini --output-format stream-json`: `init`, `message`, `tool_use`, `tool_result`
//! and, at the end, `result`.

use plan::transcript::NoticeLevel;
use serde_json::Value;

use super::entry_collector::{EntryCollector, ToolCallResult};
use super::json::{JsonObject, get_count, get_object, get_text};
use super::tool_call::{ToolCallInput, error_message, result_text};
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
        collector: &mut EntryCollector,
    ) {
        match kind {
            "init" => {
                collector.summary.session_started = true;
                let session = get_text(event, "session_id").filter(|session| !session.is_empty());
                collector.summary.session = session.map(str::to_owned);
            }
            "message" if get_text(event, "role") == Some("assistant") => {
                let piece = get_text(event, "content").unwrap_or_default();
                if event.get("delta") == Some(&Value::Bool(true)) {
                    self.answer.push(piece);
                    collector.add_piece(piece);
                } else {
                    self.answer = TextExcerpt::from_text(piece);
                    collector.add_message(piece);
                }
                if !self.answer.is_blank() {
                    collector.summary.answer = Some(self.answer.to_text());
                }
            }
            "tool_use" => {
                self.answer = TextExcerpt::default();
                let tool = get_text(event, "tool_name").unwrap_or("tool");
                let input = get_object(event, "parameters");
                collector.start_call(get_text(event, "tool_id"), &ToolCallInput::new(tool, input));
            }
            "tool_result" => {
                let failed = get_text(event, "status") == Some("error");
                let error = failed.then(|| error_message(event).to_owned());
                let result = ToolCallResult {
                    failed,
                    output: result_text(event.get("output")).or(error),
                    ..ToolCallResult::default()
                };
                collector.end_call(get_text(event, "tool_id"), result);
            }
            "error" => {
                let message = error_message(event);
                match get_text(event, "severity") {
                    Some("error") => collector.add_failure(message),
                    Some(_) | None => collector.add_notice(NoticeLevel::Warning, message),
                }
            }
            "result" => read_result(event, collector),
            _ => {}
        }
    }
}

/// The last event, with total usage.
fn read_result(event: &JsonObject, collector: &mut EntryCollector) {
    if let Some(stats) = get_object(event, "stats") {
        collector.summary.usage.input_tokens = get_count(stats, "input_tokens");
        collector.summary.usage.output_tokens = get_count(stats, "output_tokens");
    }
    match get_text(event, "status") {
        Some("error") => {
            let message = get_object(event, "error").and_then(|error| get_text(error, "message"));
            // An error before this event says why; this one often says only that there was one.
            if message.is_some() || collector.summary.failure.is_none() {
                collector.add_failure(message.unwrap_or("the agent reported an error"));
            }
        }
        Some(_) | None => collector.summary.failure = None,
    }
}
