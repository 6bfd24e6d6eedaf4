//! The stream of `gemini --output-format stream-json`: `init`, `message`, `tool_use`, `tool_result` and, at the
//! end, `result`.

use serde_json::Value;

use super::claude::{aim, aims};
use super::json::{Object, count, object, text};
use super::{Heard, Said, called, step, step_with};
use crate::excerpt::Excerpt;

/// What has to be remembered between lines.
#[derive(Default)]
pub(super) struct Gemini {
    /// What it said since it last used a tool: an answer comes in pieces.
    words: Excerpt,
}

impl Gemini {
    pub(super) fn event(
        &mut self,
        kind: &str,
        event: &Object,
        heard: &mut Heard,
        said: &mut Vec<Said>,
    ) {
        match kind {
            "init" => {
                heard.began = true;
                let session = text(event, "session_id").filter(|session| !session.is_empty());
                heard.session = session.map(str::to_owned);
            }
            "message" if text(event, "role") == Some("assistant") => {
                let piece = text(event, "content").unwrap_or_default();
                if event.get("delta") != Some(&Value::Bool(true)) {
                    self.words = Excerpt::default();
                }
                self.words.push(piece);
                step(piece, said);
                if !self.words.is_blank() {
                    heard.answer = Some(self.words.text());
                }
            }
            "tool_use" => {
                self.words = Excerpt::default();
                let name = text(event, "tool_name").unwrap_or("tool");
                let input = object(event, "parameters");
                step_with(name, input.and_then(aim), said);
                called(name, &input.map(aims).unwrap_or_default(), said);
            }
            "error" => {
                let message = text(event, "message").unwrap_or("the agent reported an error");
                step(message, said);
                if text(event, "severity") == Some("error") {
                    heard.failure = Some(message.to_owned());
                }
            }
            "result" => result(event, heard),
            _ => {}
        }
    }
}

/// The end, which counts everything.
fn result(event: &Object, heard: &mut Heard) {
    if let Some(stats) = object(event, "stats") {
        heard.usage.input_tokens = count(stats, "input_tokens");
        heard.usage.output_tokens = count(stats, "output_tokens");
    }
    heard.failure = match text(event, "status") {
        Some("error") => {
            let message = object(event, "error").and_then(|error| text(error, "message"));
            Some(message.unwrap_or("the agent reported an error").to_owned())
        }
        _ => None,
    };
}
