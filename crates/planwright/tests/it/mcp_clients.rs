//! A client of the Model Context Protocol, for the tests of `planwright mcp`.

#![allow(clippy::needless_pass_by_value, reason = "tests pass JSON literals")]

use std::collections::VecDeque;

use serde_json::{Value, json};
use testkit::{LineClient, TestRun};

use crate::daily::ScriptedAgentEnv;

/// Writes the goal into a file, once a file `go` lies beside the tools.
pub const GATED_SCRIPT: &str = "#!/bin/sh
echo \"$PLANWRIGHT_PHASE $$\" >> \"$STARTS\"
while [ ! -e \"$STARTS.go\" ]; do sleep 0.02; done
echo \"$PLANWRIGHT_GOAL\" >> src/a.txt
echo written
";

/// Runs `planwright mcp` in the repository.
pub struct McpTestClient {
    pub lines: LineClient,
    next_id: u64,
    notices: VecDeque<Value>,
}

impl McpTestClient {
    /// Starts the server and shakes hands.
    pub fn start(env: &ScriptedAgentEnv) -> Self {
        let mut client = Self::start_with(env, &[]);
        let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {} });
        client.ok("initialize", params);
        client
    }

    /// Starts the server and says nothing.
    pub fn start_with(env: &ScriptedAgentEnv, words: &[&str]) -> Self {
        let run = env.repo.program.run([&["mcp"], words].concat());
        Self::start_run(&run.with_directory(env.repo.shop_path()))
    }

    pub fn start_run(run: &TestRun) -> Self {
        Self {
            lines: LineClient::start(run),
            next_id: 0,
            notices: VecDeque::new(),
        }
    }

    pub fn send(&mut self, message: &Value) {
        self.lines.send_line(&message.to_string());
    }

    pub fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Sends a request and returns its id.
    pub fn request(&mut self, method: &str, params: Value) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// Reads the next message.
    pub fn read(&self) -> Value {
        let line = self.lines.next_line().expect("a message");
        let message: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        message
    }

    /// Sends a request and returns its answer. Keeps the notices that come before it.
    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params);
        loop {
            let message = self.read();
            if message["id"] == id {
                return message;
            }
            assert!(message["method"].is_string(), "{message}");
            self.notices.push_back(message);
        }
    }

    #[track_caller]
    pub fn ok(&mut self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params);
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Returns the code of the error.
    #[track_caller]
    pub fn error(&mut self, method: &str, params: Value) -> i64 {
        let answer = self.ask(method, params);
        answer["error"]["code"]
            .as_i64()
            .unwrap_or_else(|| panic!("{method}: {answer}"))
    }

    pub fn next_notice(&mut self) -> Value {
        match self.notices.pop_front() {
            Some(notice) => notice,
            None => self.read(),
        }
    }

    /// Calls a tool; it must work. Returns its data.
    #[track_caller]
    pub fn tool(&mut self, name: &str, arguments: Value) -> Value {
        let result = self.call_tool(name, arguments);
        assert_eq!(result["isError"], false, "{name}: {result}");
        result["structuredContent"].clone()
    }

    /// Calls a tool; it must fail. Returns the kind of the failure and its text.
    #[track_caller]
    pub fn tool_error(&mut self, name: &str, arguments: Value) -> (String, String) {
        let result = self.call_tool(name, arguments);
        assert_eq!(result["isError"], true, "{name}: {result}");
        let kind = result["structuredContent"]["kind"].as_str().unwrap();
        let text = result["content"][0]["text"].as_str().unwrap();
        (kind.to_owned(), text.to_owned())
    }

    #[track_caller]
    fn call_tool(&mut self, name: &str, arguments: Value) -> Value {
        self.ok(
            "tools/call",
            json!({ "name": name, "arguments": arguments }),
        )
    }

    #[track_caller]
    pub fn start_plan(&mut self, goal: &str) -> String {
        let data = self.tool("plan_start", json!({ "goal": goal, "agent": "scribe" }));
        assert_eq!(data["started_by_you"], true);
        data["plan"]["plan_id"].as_str().unwrap().to_owned()
    }

    /// Waits until a plan no longer goes on by itself, and returns its status.
    #[track_caller]
    pub fn wait_for_plan(&mut self, plan: &str) -> Value {
        loop {
            let status = self.tool("plan_status", json!({ "plan": plan, "wait_seconds": 20 }));
            if status["waiting_for"] != "engine" {
                return status;
            }
        }
    }

    /// Closes the input; the server must end by itself. Returns what it still said.
    #[track_caller]
    pub fn close(mut self) -> Vec<Value> {
        self.lines.close_input();
        self.collect_until_end()
    }

    #[track_caller]
    pub fn collect_until_end(&mut self) -> Vec<Value> {
        let mut rest = Vec::new();
        while let Some(line) = self.lines.next_line() {
            rest.push(serde_json::from_str(&line).unwrap());
        }
        assert_eq!(self.lines.wait_for_end(), Some(0));
        rest
    }
}

/// The parameters of a stateless request, by a client with these capabilities.
pub fn stateless(capabilities: Value, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    params
}

pub fn task_capabilities() -> Value {
    json!({ "extensions": { "io.modelcontextprotocol/tasks": {} }, "elicitation": { "url": {} } })
}

/// Lets the agents of [`GATED_SCRIPT`] work.
pub fn open_gate(env: &ScriptedAgentEnv) {
    std::fs::write(env.tool_path("starts.go"), "").unwrap();
}
