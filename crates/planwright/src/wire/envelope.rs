//! The envelope around every JSON answer.

use plan::Timestamp;
use serde::Serialize;
use serde_json::Value;

/// One answer.
#[derive(Debug, Serialize)]
pub struct JsonEnvelope {
    /// What was called, without its arguments.
    pub command: String,
    /// How it went.
    pub status: CommandStatus,
    /// The exit code.
    pub exit_code: u8,
    /// The answer.
    pub data: Value,
    /// When and how long.
    pub timing: CommandTiming,
    /// What else there is to say.
    pub messages: Vec<UserMessage>,
}

/// How a command went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandStatus {
    /// Well.
    Ok,
    /// Well, but look at the messages.
    Warn,
    /// Not.
    Error,
}

/// When and how long.
#[derive(Debug, Serialize)]
pub struct CommandTiming {
    /// When it began.
    pub started: Timestamp,
    /// How long it took.
    pub duration_ms: u64,
}

/// Something to say beside the answer.
#[derive(Debug, Clone, Serialize)]
pub struct UserMessage {
    /// `error`, `warn`, `hint` or `info`.
    pub level: &'static str,
    /// What.
    pub text: String,
}
