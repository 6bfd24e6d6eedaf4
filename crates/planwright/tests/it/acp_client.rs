//! An editor for tests: talks to `planwright acp` by the Agent Client Protocol.

use std::path::Path;

use serde_json::{Value, json};
use testkit::{PipedProcess, TestRun};

/// An editor that is connected.
pub struct EditorClient {
    pub process: PipedProcess,
    last_id: u64,
    /// `session/update` notifications that were received, with their sessions.
    pub updates: Vec<(String, Value)>,
}

/// A message that is not an update.
#[derive(Debug)]
pub enum AgentMessage {
    Answer { id: Value, outcome: RequestOutcome },
    Request { id: Value, params: Value },
}

pub type RequestOutcome = Result<Value, Value>;

impl EditorClient {
    /// Starts the agent and initializes the connection.
    pub fn start(run: &TestRun) -> Self {
        let mut client = Self {
            process: run.start_with_pipes(),
            last_id: 0,
            updates: Vec::new(),
        };
        let answer = client
            .call(
                "initialize",
                &json!({ "protocolVersion": 1, "clientCapabilities": {} }),
            )
            .unwrap();
        assert_eq!(answer["protocolVersion"], 1);
        assert_eq!(answer["agentCapabilities"]["loadSession"], true);
        assert_eq!(answer["agentInfo"]["name"], "planwright");
        assert_eq!(answer["authMethods"], json!([]));
        client
    }

    pub fn send(&mut self, message: &Value) {
        self.process.send_line(&message.to_string());
    }

    /// Sends a request and returns its id.
    pub fn request(&mut self, method: &str, params: &Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    pub fn notify(&mut self, method: &str, params: &Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Sends a request and waits for its answer. Collects updates meanwhile.
    #[track_caller]
    pub fn call(&mut self, method: &str, params: &Value) -> RequestOutcome {
        let id = self.request(method, params);
        self.wait_for_answer(id)
    }

    #[track_caller]
    pub fn wait_for_answer(&mut self, id: u64) -> RequestOutcome {
        match self.next_message() {
            AgentMessage::Answer {
                id: answered,
                outcome,
            } => {
                assert_eq!(answered, json!(id), "{outcome:?}");
                outcome
            }
            message @ AgentMessage::Request { .. } => panic!("not an answer: {message:?}"),
        }
    }

    /// Waits for the next message that is not an update. Every line must be a message of the protocol.
    #[track_caller]
    pub fn next_message(&mut self) -> AgentMessage {
        loop {
            let line = self.process.next_line().expect("the agent ended");
            if let Some(message) = self.take_line(&line) {
                return message;
            }
        }
    }

    /// Waits until an update contains this text.
    #[track_caller]
    pub fn wait_for_update(&mut self, text: &str) {
        let contains = |(_, update): &(String, Value)| update.to_string().contains(text);
        while !self.updates.iter().any(contains) {
            let line = self.process.next_line().expect("the agent ended");
            let message = self.take_line(&line);
            assert!(message.is_none(), "not an update: {message:?}");
        }
    }

    fn take_line(&mut self, line: &str) -> Option<AgentMessage> {
        let mut message: Value = serde_json::from_str(line).expect(line);
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        let id = message["id"].take();
        match message["method"].as_str() {
            Some("session/update") => {
                let session = message["params"]["sessionId"].as_str().unwrap().to_owned();
                let update = message["params"]["update"].take();
                self.updates.push((session, update));
                None
            }
            Some("session/request_permission") => Some(AgentMessage::Request {
                id,
                params: message["params"].take(),
            }),
            Some(other) => panic!("unexpected method {other}"),
            None => Some(AgentMessage::Answer {
                id,
                outcome: match message.get_mut("error") {
                    Some(error) => Err(error.take()),
                    None => Ok(message["result"].take()),
                },
            }),
        }
    }

    /// Opens a session and returns its answer.
    #[track_caller]
    pub fn open_session(&mut self, directory: &Path) -> (String, Value) {
        let params = json!({ "cwd": directory, "mcpServers": [] });
        let answer = self.call("session/new", &params).unwrap();
        (answer["sessionId"].as_str().unwrap().to_owned(), answer)
    }

    pub fn send_prompt(&mut self, session: &str, text: &str) -> u64 {
        let prompt = json!([{ "type": "text", "text": text }]);
        self.request(
            "session/prompt",
            &json!({ "sessionId": session, "prompt": prompt }),
        )
    }

    /// Sends a prompt and waits for its end. Returns the answer; the updates are those of this prompt.
    #[track_caller]
    pub fn prompt(&mut self, session: &str, text: &str) -> Value {
        self.updates.clear();
        let id = self.send_prompt(session, text);
        self.wait_for_answer(id).unwrap()
    }

    pub fn cancel(&mut self, session: &str) {
        self.notify("session/cancel", &json!({ "sessionId": session }));
    }

    /// Chooses an option of a permission request.
    pub fn choose(&mut self, request: &Value, option: &str) {
        let outcome = json!({ "outcome": "selected", "optionId": option });
        self.send(&json!({ "jsonrpc": "2.0", "id": request, "result": { "outcome": outcome } }));
    }

    /// What the agent said in its messages, without thoughts and tool calls.
    pub fn said(&self) -> String {
        self.collect_text("agent_message_chunk")
    }

    pub fn collect_text(&self, kind: &str) -> String {
        let updates = self.updates.iter().map(|(_, update)| update);
        let chunks = updates.filter(|update| update["sessionUpdate"] == kind);
        chunks
            .map(|update| update["content"]["text"].as_str().unwrap())
            .collect()
    }

    /// The tool call that shows a result.
    #[track_caller]
    pub fn shown_result(&self) -> &Value {
        let updates = self.updates.iter().map(|(_, update)| update);
        let mut results = updates.filter(|update| {
            let id = update["toolCallId"].as_str().unwrap_or_default();
            id.starts_with("result-")
        });
        results.next_back().expect("no result is shown")
    }

    /// Closes the connection and waits for the agent's end. It must say nothing but messages.
    #[track_caller]
    pub fn close(mut self) {
        self.process.close_input();
        self.expect_clean_end();
    }

    #[track_caller]
    pub fn expect_clean_end(&mut self) {
        let (status, remarks) = self.process.wait_for_end();
        assert_eq!(status.code(), Some(0), "{remarks}");
        assert_eq!(remarks, "");
        while let Some(line) = self.process.next_line() {
            self.take_line(&line);
        }
    }
}
