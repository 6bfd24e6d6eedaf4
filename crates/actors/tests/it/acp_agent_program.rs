//! Acts as an agent that speaks the Agent Client Protocol. Its first argument is a script: one step per
//! line, as JSON. What it receives is written to `received.jsonl` in its working directory, and what the
//! tools of its run answer to `answers.jsonl`.

#![allow(
    missing_docs,
    clippy::disallowed_methods,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "this is a test: it fails bluntly"
)]

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use planwright_actors::RelayConnection;
use serde_json::{Value, json};

struct ScriptedAgent {
    input: Box<dyn BufRead>,
    received: File,
    /// The id of the last request that was expected.
    request_id: Value,
    /// The session that was named last.
    session: String,
    /// Where the relay that the agent was given connects to.
    connection_file: PathBuf,
    connection: Option<RelayConnection>,
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
        connection_file: PathBuf::new(),
        connection: None,
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
            // Calls a tool of the run, over one connection.
            "call_tool" => self.call_tool(value),
            // The same, as if the agent had been given this file.
            "connect_to" => {
                self.connection = None;
                self.connection_file = PathBuf::from(value.as_str().unwrap());
            }
            // Opens a connection that says nothing, and keeps it.
            "keep_silent_connection" => {
                let socket = self.connection_file.with_file_name("tools.sock");
                std::mem::forget(UnixStream::connect(socket).unwrap());
            }
            // Removes a directory and puts a link in its place.
            "swap_for_link" => {
                let path = value["path"].as_str().unwrap();
                std::fs::remove_dir_all(path).unwrap();
                std::os::unix::fs::symlink(value["to"].as_str().unwrap(), path).unwrap();
            }
            // Goes on if the file cannot be written, and says so.
            "try_write_file" => {
                if let Err(error) = std::fs::write(value.as_str().unwrap(), "written\n") {
                    eprintln!("not written: {error}");
                    let mut options = OpenOptions::new();
                    let file = options.create(true).append(true).open("refusals");
                    writeln!(file.unwrap(), "{error}").unwrap();
                }
            }
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

    fn call_tool(&mut self, call: &Value) {
        let count = call["times"].as_u64().unwrap_or(1);
        for _ in 0..count {
            let answer = self.relay_call(call);
            self.connection = self.connection.take().filter(|_| answer.is_ok());
            let answer = answer.unwrap_or_else(|error| json!({"error": error}));
            let mut options = OpenOptions::new();
            let answers = options.create(true).append(true).open("answers.jsonl");
            writeln!(answers.unwrap(), "{answer}").unwrap();
        }
    }

    fn relay_call(&mut self, call: &Value) -> Result<Value, String> {
        if self.connection.is_none() {
            let opened = RelayConnection::open(&self.connection_file);
            self.connection = Some(opened.map_err(|error| error.to_string())?);
        }
        let connection = self.connection.as_mut().unwrap();
        let tool = call["tool"].as_str().unwrap();
        let answer = connection.call(tool, call["arguments"].clone());
        let answer = answer.map_err(|error| error.to_string())?;
        Ok(serde_json::to_value(answer).unwrap())
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
        if let Some(file) = message["params"]["mcpServers"][0]["args"][1].as_str() {
            self.connection_file = PathBuf::from(file);
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
