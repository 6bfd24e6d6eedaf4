//! The envelope of every JSON answer.

use plan::Timestamp;
use serde::Serialize;
use serde_json::Value;

#[derive(Debug, Serialize)]
pub struct JsonEnvelope {
    /// The command without its arguments.
    pub command: String,
    pub status: CommandStatus,
    pub exit_code: u8,
    pub data: Value,
    pub timing: CommandTiming,
    pub messages: Vec<UserMessage>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandStatus {
    Ok,
    /// Succeeded with warnings in `messages`.
    Warn,
    Error,
}

#[derive(Debug, Serialize)]
pub struct CommandTiming {
    pub started: Timestamp,
    pub duration_ms: u64,
}

/// A message beside the answer.
#[derive(Debug, Clone, Serialize)]
pub struct UserMessage {
    /// `error`, `warn`, `hint` or `info`.
    pub level: &'static str,
    pub text: String,
}
