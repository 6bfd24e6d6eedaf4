//! Writes messages to standard output, one per line, from any thread.

use std::io::Write;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

pub struct MessageWriter(Mutex<Box<dyn Write + Send>>);

impl MessageWriter {
    pub fn new(output: impl Write + Send + 'static) -> Self {
        Self(Mutex::new(Box::new(output)))
    }

    /// Writes a message. A client that no longer reads has also closed the input, so errors are ignored.
    pub fn send(&self, message: &Value) {
        let mut line = message.to_string();
        line.push('\n');
        let mut output = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = output
            .write_all(line.as_bytes())
            .and_then(|()| output.flush());
    }
}
