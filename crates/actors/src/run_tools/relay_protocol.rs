//! What a relay and a worker send each other: one JSON value per line.
//!
//! The relay begins with a [`RelayGreeting`]. Then it sends calls, one at a time, and gets an answer to each.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The longest line in either direction.
pub const MAX_RELAY_LINE_BYTES: usize = 64 * 1024;

/// The content of the file that tells a relay where to connect. The socket is beside the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RelayTarget {
    /// The name of the socket.
    pub(super) socket: String,
    pub(super) secret: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RelayGreeting {
    pub(super) secret: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RelayedCall {
    pub(super) tool: String,
    pub(super) arguments: Value,
}

/// What became of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum RunToolAnswer {
    /// The run ends with the question, once the agent ends its turn.
    QuestionTaken,
    DecisionRecorded,
    ProgressShown,
    /// Nothing was done.
    Refused {
        why: String,
    },
}
