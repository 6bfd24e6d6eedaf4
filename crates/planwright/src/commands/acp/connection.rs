//! The editor's side of the pipes: JSON-RPC messages, one per line.

use std::collections::BTreeMap;
use std::io::{BufRead, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

/// The longest message that is read. Editors embed files in prompts.
const MAX_MESSAGE_BYTES: u64 = 16 << 20;

/// Messages that wait for the editor to read them. Agents that say more wait, too.
const MAX_QUEUED_MESSAGES: usize = 64;

/// How often a message is offered to an editor that reads slowly.
const SEND_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// How long the last messages may take to be read.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

pub const PARSE_ERROR: i64 = -32700;
pub const INVALID_REQUEST: i64 = -32600;
pub const METHOD_NOT_FOUND: i64 = -32601;
pub const INVALID_PARAMS: i64 = -32602;
pub const INTERNAL_ERROR: i64 = -32603;

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestFailure {
    pub code: i64,
    pub message: String,
}

impl RequestFailure {
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(INVALID_PARAMS, message)
    }
}

/// A message of the editor.
#[derive(Debug, PartialEq)]
pub enum EditorMessage {
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    /// The answer to a request of ours; `None` if it failed.
    Answer {
        id: u64,
        result: Option<Value>,
    },
    /// Not a message. The connection continues with the next line.
    Malformed(RequestFailure),
}

/// Reads the next message; `None` at the end of input.
pub fn read_message(input: &mut impl BufRead) -> std::io::Result<Option<EditorMessage>> {
    loop {
        let mut line = Vec::new();
        let count = input
            .by_ref()
            .take(MAX_MESSAGE_BYTES)
            .read_until(b'\n', &mut line)?;
        if count == 0 {
            return Ok(None);
        }
        if line.last() != Some(&b'\n') && count as u64 == MAX_MESSAGE_BYTES {
            skip_line(input)?;
            let message = format!(
                "The message is longer than {} MiB.",
                MAX_MESSAGE_BYTES >> 20
            );
            let failure = RequestFailure::new(PARSE_ERROR, message);
            return Ok(Some(EditorMessage::Malformed(failure)));
        }
        if !line.trim_ascii().is_empty() {
            return Ok(Some(parse_message(&line)));
        }
    }
}

fn skip_line(input: &mut impl BufRead) -> std::io::Result<()> {
    loop {
        let buffered = input.fill_buf()?;
        let end = buffered.iter().position(|byte| *byte == b'\n');
        let count = end.map_or(buffered.len(), |end| end + 1);
        input.consume(count);
        if end.is_some() || count == 0 {
            return Ok(());
        }
    }
}

fn parse_message(line: &[u8]) -> EditorMessage {
    let malformed =
        |code, message: &str| EditorMessage::Malformed(RequestFailure::new(code, message));
    let mut message = match serde_json::from_slice(line) {
        Ok(Value::Object(message)) => message,
        Ok(_) => return malformed(INVALID_REQUEST, "A message is one JSON object per line."),
        Err(_) => return malformed(PARSE_ERROR, "The line is not JSON."),
    };
    let params = message.remove("params").unwrap_or(Value::Null);
    match (message.remove("method"), message.remove("id")) {
        (Some(Value::String(method)), Some(id)) if is_request_id(&id) => {
            EditorMessage::Request { id, method, params }
        }
        (Some(Value::String(method)), None) => EditorMessage::Notification { method, params },
        // Our ids are numbers. Any other answer is to nothing that was asked.
        (None, Some(Value::Number(id))) if id.is_u64() => EditorMessage::Answer {
            id: id.as_u64().unwrap_or_default(),
            result: message.remove("result"),
        },
        (None | Some(_), _) => malformed(
            INVALID_REQUEST,
            "The message is neither a request, a notification nor an answer.",
        ),
    }
}

fn is_request_id(id: &Value) -> bool {
    id.is_string() || id.is_number() || id.is_null()
}

/// Writes messages to the editor, from any thread.
pub struct EditorConnection {
    outgoing: SyncSender<String>,
    /// Closed when the last message is written.
    written: Mutex<Receiver<()>>,
    closer: ConnectionCloser,
    next_id: AtomicU64,
    /// Requests of ours that wait for their answer.
    pending: Mutex<BTreeMap<u64, Sender<Option<Value>>>>,
}

/// Closes a connection from another thread, also while every other thread waits for the editor to read.
#[derive(Clone, Default)]
pub struct ConnectionCloser(Arc<AtomicBool>);

impl ConnectionCloser {
    /// Lets messages be lost from now on if the editor does not read them: it must not keep the program.
    pub fn begin_closing(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub fn is_closing(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// A request of ours that was sent to the editor.
pub struct PendingAnswer {
    pub id: u64,
    /// Gets the result, or `None` if the request failed.
    pub receiver: Receiver<Option<Value>>,
}

impl EditorConnection {
    /// Starts a thread that writes to the editor.
    pub fn start(mut output: impl Write + Send + 'static) -> Self {
        let (outgoing, messages) = sync_channel::<String>(MAX_QUEUED_MESSAGES);
        let (writing, written) = channel::<()>();
        std::thread::spawn(move || {
            let _until_the_end = writing;
            for message in messages {
                let sent = output
                    .write_all(message.as_bytes())
                    .and_then(|()| output.flush());
                if sent.is_err() {
                    // If the editor is gone, its input ends too, and with it the program.
                    return;
                }
            }
        });
        Self {
            outgoing,
            written: Mutex::new(written),
            closer: ConnectionCloser::default(),
            next_id: AtomicU64::new(0),
            pending: Mutex::default(),
        }
    }

    pub fn closer(&self) -> ConnectionCloser {
        self.closer.clone()
    }

    /// Waits until everything is written, but not long.
    pub fn finish(self) {
        drop(self.outgoing);
        let written = self
            .written
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        // Ends with an error when the thread ends: nothing is ever sent.
        let _ = written.recv_timeout(CLOSE_TIMEOUT);
    }

    /// Sends a `session/update`.
    pub fn send_update(&self, session_id: &str, update: &Value) {
        self.write_message(&json!({
            "jsonrpc": "2.0",
            "method": "session/update",
            "params": { "sessionId": session_id, "update": update },
        }));
    }

    /// Answers a request of the editor.
    pub fn answer(&self, id: &Value, result: Result<Value, RequestFailure>) {
        let message = match result {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err(failure) => json!({
                "jsonrpc": "2.0",
                "id": id,
                "error": { "code": failure.code, "message": failure.message },
            }),
        };
        self.write_message(&message);
    }

    /// Sends a request.
    pub fn send_request(&self, method: &str, params: &Value) -> PendingAnswer {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = channel();
        self.lock_pending().insert(id, sender);
        self.write_message(
            &json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }),
        );
        PendingAnswer { id, receiver }
    }

    /// Passes on the answer to a request of ours. An answer that nobody waits for is ignored.
    pub fn resolve_request(&self, id: u64, result: Option<Value>) {
        if let Some(waiting) = self.lock_pending().remove(&id) {
            let _no_longer_waiting = waiting.send(result);
        }
    }

    /// Ignores the answer to a request of ours, should it still come.
    pub fn forget_request(&self, id: u64) {
        self.lock_pending().remove(&id);
    }

    fn write_message(&self, message: &Value) {
        let mut line = format!("{message}\n");
        loop {
            match self.outgoing.try_send(line) {
                Ok(()) | Err(TrySendError::Disconnected(_)) => return,
                Err(TrySendError::Full(_)) if self.closer.is_closing() => return,
                Err(TrySendError::Full(unsent)) => line = unsent,
            }
            std::thread::sleep(SEND_RETRY_INTERVAL);
        }
    }

    fn lock_pending(&self) -> MutexGuard<'_, BTreeMap<u64, Sender<Option<Value>>>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(input: &str) -> Vec<EditorMessage> {
        let mut input = input.as_bytes();
        std::iter::from_fn(|| read_message(&mut input).unwrap()).collect()
    }

    fn failure_codes(messages: &[EditorMessage]) -> Vec<Option<i64>> {
        let codes = messages.iter().map(|message| match message {
            EditorMessage::Malformed(failure) => Some(failure.code),
            EditorMessage::Request { .. }
            | EditorMessage::Notification { .. }
            | EditorMessage::Answer { .. } => None,
        });
        codes.collect()
    }

    #[test]
    fn kinds_of_messages_are_recognized() {
        let read = read_all(
            "{\"id\":1,\"method\":\"a\",\"params\":{}}\n\n{\"method\":\"b\"}\n{\"id\":7,\"result\":true}\n{\"id\":8,\"error\":{}}\n",
        );
        let method = |name: &str| name.to_owned();
        assert_eq!(
            read,
            [
                EditorMessage::Request {
                    id: json!(1),
                    method: method("a"),
                    params: json!({})
                },
                EditorMessage::Notification {
                    method: method("b"),
                    params: Value::Null
                },
                EditorMessage::Answer {
                    id: 7,
                    result: Some(json!(true))
                },
                EditorMessage::Answer {
                    id: 8,
                    result: None
                },
            ]
        );
    }

    #[test]
    fn malformed_lines_do_not_end_the_connection() {
        let long = "x".repeat(MAX_MESSAGE_BYTES as usize + 10);
        let read = read_all(&format!(
            "nonsense\n[]\n{{\"id\":{{}},\"method\":\"a\"}}\n{long}\n{{\"method\":\"b\"}}\n"
        ));
        assert_eq!(
            failure_codes(&read),
            [
                Some(PARSE_ERROR),
                Some(INVALID_REQUEST),
                Some(INVALID_REQUEST),
                Some(PARSE_ERROR),
                None
            ]
        );
    }

    #[test]
    fn an_editor_that_does_not_read_cannot_keep_the_program() {
        let (reader, writer) = std::io::pipe().unwrap();
        let connection = EditorConnection::start(writer);
        connection.closer().begin_closing();
        let update = json!({ "text": "x".repeat(10_000) });
        for _ in 0..MAX_QUEUED_MESSAGES * 4 {
            connection.send_update("s", &update);
        }
        // Reading ends the blocked write, so that `finish` need not wait for its timeout.
        drop(reader);
        connection.finish();
    }
}
