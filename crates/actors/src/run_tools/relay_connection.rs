//! The relay's side of the socket.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::relay_protocol::{
    MAX_RELAY_LINE_BYTES, RelayGreeting, RelayTarget, RelayedCall, RunToolAnswer,
};
use super::tool_server::with_socket_path;

/// How long to wait for an answer. The worker may wait for its store.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// A connection to the worker that runs this agent.
#[derive(Debug)]
pub struct RelayConnection(BufReader<UnixStream>);

#[derive(Debug, thiserror::Error)]
pub enum RelayConnectionError {
    #[error("the run has ended")]
    RunEnded,
    #[error("the call is longer than {MAX_RELAY_LINE_BYTES} bytes")]
    CallTooLong,
    #[error("the worker did not answer")]
    Unanswered,
}

impl RelayConnection {
    /// Connects to the run that this file in its directory is about.
    pub fn open(connection_file: &Path) -> Result<Self, RelayConnectionError> {
        let ended = |_| RelayConnectionError::RunEnded;
        let text = std::fs::read_to_string(connection_file).map_err(ended)?;
        let target: RelayTarget =
            serde_json::from_str(&text).map_err(|_| RelayConnectionError::RunEnded)?;
        let directory = connection_file.parent().unwrap_or(Path::new("/"));
        let socket = with_socket_path(directory, &target.socket, |path| UnixStream::connect(path));
        let socket = socket.map_err(ended)?;
        let timeouts = socket
            .set_read_timeout(Some(ANSWER_TIMEOUT))
            .and_then(|()| socket.set_write_timeout(Some(ANSWER_TIMEOUT)));
        timeouts.map_err(ended)?;
        let mut connection = Self(BufReader::new(socket));
        connection.send(&RelayGreeting {
            secret: target.secret,
        })?;
        Ok(connection)
    }

    /// Makes a call. After an error, it is unknown whether it had an effect, and the connection is of no more use.
    pub fn call(
        &mut self,
        tool: &str,
        arguments: Value,
    ) -> Result<RunToolAnswer, RelayConnectionError> {
        self.send(&RelayedCall {
            tool: tool.to_owned(),
            arguments,
        })?;
        let mut line = Vec::new();
        let limit = MAX_RELAY_LINE_BYTES as u64;
        let read = self.0.by_ref().take(limit).read_until(b'\n', &mut line);
        match read {
            Ok(0) => Err(RelayConnectionError::RunEnded),
            Ok(_) => serde_json::from_slice(&line).map_err(|_| RelayConnectionError::Unanswered),
            Err(error) if is_timeout(&error) => Err(RelayConnectionError::Unanswered),
            Err(_) => Err(RelayConnectionError::RunEnded),
        }
    }

    fn send(&mut self, value: &impl Serialize) -> Result<(), RelayConnectionError> {
        let mut line = serde_json::to_vec(value).map_err(|_| RelayConnectionError::CallTooLong)?;
        line.push(b'\n');
        if line.len() > MAX_RELAY_LINE_BYTES {
            return Err(RelayConnectionError::CallTooLong);
        }
        let sent = self.0.get_mut().write_all(&line);
        sent.map_err(|_| RelayConnectionError::RunEnded)
    }
}

fn is_timeout(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{TimedOut, WouldBlock};
    matches!(error.kind(), TimedOut | WouldBlock)
}
