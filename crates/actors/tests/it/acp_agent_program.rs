//! Acts as an agent that speaks the Agent Client Protocol. Its first argument is a script: one step per
//! line, as JSON. What it receives is written to `received.jsonl` in its working directory.

#![allow(
    missing_docs,
    clippy::disallowed_methods,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "this is a test: it fails bluntly"
)]

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::time::Duration;

use serde_json::{Value, json};

struct ScriptedAgent {
    input: Box<dyn BufRead>,
    received: File,
    /// The id of the last request that was expected.
    request_id: Value,
    /// The session that was named last.
    session: String,
}

fn main() {
    let script = std::env::args().nth(1).unwrap();
    let mut options = OpenOptions::new();
    let mut agent = ScriptedAgent {
        input: Box::new(BufReader::new(std::io::stdin())),
        received: options
            .create(true)
            .append(true)
            .open("received.jsonl")
            .unwrap(),
        request_id: Value::Null,
        session: "s-1".to_owned(),
    };
    for line in std::fs::read_to_string(script).unwrap().lines() {
        agent.perform(&serde_json::from_str(line).unwrap());
    }
}

impl ScriptedAgent {
    fn perform(&mut self, step: &Value) {
        let (name, value) = step.as_object().unwrap().iter().next().unwrap();
        match name.as_str() {
            // Waits for a request or a notification.
            "expect" => {
                let message = self.receive();
                if message["method"] != *value {
                    eprintln!("expected {value}, but received {message}");
                    std::process::exit(3);
                }
                self.request_id = message["id"].clone();
            }
            "expect_answer" => {
                let message = self.receive();
                if message["id"] != *value || message.get("method").is_some() {
                    eprintln!("expected an answer to {value}, but received {message}");
                    std::process::exit(3);
                }
            }
            "reply" => {
                let id = self.request_id.clone();
                write_line(&json!({"jsonrpc": "2.0", "id": id, "result": value}).to_string());
            }
            "reply_error" => {
                let id = self.request_id.clone();
                write_line(&json!({"jsonrpc": "2.0", "id": id, "error": value}).to_string());
            }
            "send" => write_line(&value.to_string()),
            "update" => {
                let params = json!({"sessionId": self.session, "update": value});
                let method = "session/update";
                write_line(
                    &json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string(),
                );
            }
            "raw" => write_line(value.as_str().unwrap()),
            // Sends this text so many times, in one message.
            "padded" => {
                let text = "x".repeat(usize::try_from(value.as_u64().unwrap()).unwrap());
                let update = json!({"sessionUpdate": "tool_call_update", "toolCallId": "pad", "rawOutput": text});
                self.perform(&json!({ "update": update }));
            }
            "write_file" => std::fs::write(value.as_str().unwrap(), "written\n").unwrap(),
            "stderr" => eprintln!("{}", value.as_str().unwrap()),
            "sleep_ms" => std::thread::sleep(Duration::from_millis(value.as_u64().unwrap())),
            // Does not exit when its input ends.
            "hang" => loop {
                std::thread::sleep(Duration::from_secs(60));
            },
            "exit" => std::process::exit(i32::try_from(value.as_i64().unwrap()).unwrap()),
            other => panic!("unknown step {other}"),
        }
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        if self.input.read_line(&mut line).unwrap() == 0 {
            eprintln!("the input ended");
            std::process::exit(4);
        }
        self.received.write_all(line.as_bytes()).unwrap();
        let message: Value = serde_json::from_str(&line).unwrap();
        if let Some(session) = message["params"]["sessionId"].as_str() {
            self.session = session.to_owned();
        }
        message
    }
}

fn write_line(line: &str) {
    let mut output = std::io::stdout().lock();
    // The client may be gone.
    let _ = writeln!(output, "{line}");
    let _ = output.flush();
}
