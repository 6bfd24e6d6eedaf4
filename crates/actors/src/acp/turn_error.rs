//! Errors of a turn. The protocol has none: some agents end a turn in which their model failed as if it were done. Codex
//! says so in an extension, Copilot in a message.

use plan::transcript::{NoticeLevel, TranscriptContent};

use crate::stream::json::{JsonObject, get_object, get_text};

#[derive(Debug, Default)]
pub(super) struct TurnError {
    last: Option<String>,
    is_failed: bool,
}

impl TurnError {
    /// Reads the `_meta` of a `session_info_update`. Returns a remark for the transcript.
    pub(super) fn read_meta(&mut self, meta: &JsonObject) -> Option<TranscriptContent> {
        let codex = get_object(meta, "codex")?;
        if let Some(status) = get_object(codex, "threadStatus") {
            self.is_failed = get_text(status, "type") == Some("systemError");
        }
        let error = get_object(codex, "error")?;
        let message = get_text(error, "message").unwrap_or_default();
        let details = get_text(error, "additionalDetails").unwrap_or_default();
        let parts = [message, details].map(str::trim);
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let text = parts.join(": ");
        self.last = parts.last().map(|part| (*part).to_owned());
        let level = NoticeLevel::Warning;
        Some(TranscriptContent::Notice { level, text })
    }

    /// Reads a message of an agent whose messages can be errors. Returns a remark for the transcript if it is one.
    pub(super) fn read_message(&mut self, text: &str) -> Option<TranscriptContent> {
        let retried = text.strip_prefix("Info: ");
        let retried = retried.filter(|text| text.trim_end().ends_with("Retrying..."));
        let (level, text) = match (text.strip_prefix("Error: "), retried) {
            (Some(error), _) => (NoticeLevel::Error, error),
            (None, Some(remark)) => (NoticeLevel::Warning, remark),
            (None, None) => {
                self.read_progress();
                return None;
            }
        };
        self.is_failed = level == NoticeLevel::Error;
        self.last = Some(text.trim().to_owned());
        let text = text.to_owned();
        Some(TranscriptContent::Notice { level, text })
    }

    /// Forgets an error that the agent overcame.
    pub(super) fn read_progress(&mut self) {
        *self = Self::default();
    }

    /// The last error that the agent did not overcome.
    pub(super) fn last_error(&self) -> Option<&str> {
        self.last.as_deref()
    }

    /// What made the turn fail. `None` if it did not.
    pub(super) fn failure(&self) -> Option<&str> {
        self.is_failed
            .then(|| self.last_error().unwrap_or("it reports an error"))
    }
}
