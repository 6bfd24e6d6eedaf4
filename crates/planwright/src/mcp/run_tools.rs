//! A small server of the Model Context Protocol for an agent inside a run: it asks the person, records decisions and
//! reports progress.
//!
//! It knows no plan and opens no store. The worker that runs the agent carries out the calls; see `actors::run_tools`.

use std::io::{BufRead, Write};
use std::path::PathBuf;

use actors::{MAX_RELAY_LINE_BYTES, RelayConnection, RelayConnectionError, RunToolAnswer};
use serde_json::{Map, Value, json};

use super::line_reader::{InputLine, read_bounded_line};
use super::message::{
    ClientMessage, INVALID_REQUEST, ProtocolError, format_error, format_response, parse_message,
};
use super::protocol::{
    Freshness, RequestOrigin, ServerDescription, answer_discover, answer_initialize, require_text,
};

const INSTRUCTIONS: &str = "Tools of the run you are working in. Use ask only if you cannot go on without a person's \
    answer, and end your turn after it. Record decisions that a reviewer should know. Report progress on long work.";

/// Answers the client on `output` until `input` ends.
pub fn serve_run_tools(connection_file: PathBuf, mut input: impl BufRead, mut output: impl Write) {
    let mut session = RunToolSession {
        connection_file,
        connection: None,
        is_initialized: false,
    };
    while let Ok(Some(line)) = read_bounded_line(&mut input, MAX_RELAY_LINE_BYTES) {
        let Some(mut answer) = session.answer_line(&line).map(|answer| answer.to_string()) else {
            continue;
        };
        answer.push('\n');
        let sent = output
            .write_all(answer.as_bytes())
            .and_then(|()| output.flush());
        if sent.is_err() {
            return;
        }
    }
}

struct RunToolSession {
    connection_file: PathBuf,
    /// Opened by the first call.
    connection: Option<RelayConnection>,
    is_initialized: bool,
}

impl RunToolSession {
    fn answer_line(&mut self, line: &InputLine) -> Option<Value> {
        let line = match line {
            InputLine::Whole(line) => line,
            InputLine::TooLong => {
                let text = format!("A message has at most {MAX_RELAY_LINE_BYTES} bytes.");
                let error = ProtocolError::new(INVALID_REQUEST, text);
                return Some(format_error(None, &error));
            }
        };
        match parse_message(line) {
            Ok(ClientMessage::Request { id, method, params }) => {
                Some(format_response(&id, self.answer_request(&method, &params)))
            }
            Ok(ClientMessage::Notification { .. } | ClientMessage::Response) => None,
            Err(malformed) => Some(format_error(malformed.id.as_ref(), &malformed.error)),
        }
    }

    fn answer_request(
        &mut self,
        method: &str,
        params: &Map<String, Value>,
    ) -> Result<Value, ProtocolError> {
        let server = describe_server();
        match method {
            _ if RequestOrigin::names_version(params) => {}
            "initialize" => {
                let answer = answer_initialize(&server, params)?;
                self.is_initialized = true;
                return Ok(answer);
            }
            "ping" => return Ok(json!({})),
            _ => {}
        }
        let origin = RequestOrigin::read(params, self.is_initialized)?;
        let (result, freshness) = match method {
            "server/discover" if origin.is_stateless() => {
                (answer_discover(&server), Freshness::Constant)
            }
            "tools/list" => (list_tools(), Freshness::Constant),
            "tools/call" => (self.call_tool(params)?, Freshness::Unstated),
            unknown => return Err(ProtocolError::method_not_found(unknown)),
        };
        Ok(origin.complete_result(result, freshness))
    }

    fn call_tool(&mut self, params: &Map<String, Value>) -> Result<Value, ProtocolError> {
        let tool = require_text(params, "name")?;
        let arguments = params.get("arguments").cloned();
        let arguments = arguments.unwrap_or_else(|| json!({}));
        let (text, is_error) = match self.relay_call(tool, arguments) {
            Ok(RunToolAnswer::QuestionTaken) => (
                "A person will be asked once you end your turn. End it now: you are started again with the answer."
                    .to_owned(),
                false,
            ),
            Ok(RunToolAnswer::DecisionRecorded) => ("Recorded.".to_owned(), false),
            Ok(RunToolAnswer::ProgressShown) => ("Shown.".to_owned(), false),
            Ok(RunToolAnswer::Refused { why }) => (format!("Nothing was done: {why}."), true),
            Err(error @ RelayConnectionError::CallTooLong) => {
                (format!("Nothing was done: {error}."), true)
            }
            Err(RelayConnectionError::RunEnded) => (
                "Nothing was done: this run has ended.".to_owned(),
                true,
            ),
            Err(RelayConnectionError::Unanswered) => (
                "The worker did not answer. It is unknown whether anything was done.".to_owned(),
                true,
            ),
        };
        Ok(json!({"content": [{"type": "text", "text": text}], "isError": is_error}))
    }

    fn relay_call(
        &mut self,
        tool: &str,
        arguments: Value,
    ) -> Result<RunToolAnswer, RelayConnectionError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => RelayConnection::open(&self.connection_file)?,
        };
        let answer = connection.call(tool, arguments)?;
        self.connection = Some(connection);
        Ok(answer)
    }
}

fn describe_server() -> ServerDescription {
    ServerDescription {
        capabilities: json!({ "tools": {} }),
        extensions: json!({}),
        instructions: INSTRUCTIONS,
    }
}

fn list_tools() -> Value {
    let text = |description: &str| json!({ "type": "string", "description": description });
    let decision_kinds = [
        "strategy_choice",
        "resource_selection",
        "implementation_choice",
        "tool_invocation",
        "error_recovery",
        "validation_response",
    ];
    json!({"tools": [
        {
            "name": "ask",
            "title": "Ask the person",
            "description": "Ask the person who reviews this work a question that you cannot go on without. End your \
                turn after it; what you changed so far is kept, and you are started again with the answer.",
            "inputSchema": schema(&json!({"question": text("What you need to know, and why")}), &["question"]),
        },
        {
            "name": "record_decision",
            "title": "Record a decision",
            "description": "Record a choice that a reviewer should know, with what else you considered.",
            "inputSchema": schema(
                &json!({
                    "kind": { "type": "string", "enum": decision_kinds },
                    "question": text("What was to be decided"),
                    "choice": text("What you chose"),
                    "alternatives": { "type": "array", "items": { "type": "string" }, "maxItems": 64 },
                    "rationale": text("Why"),
                    "confidence": { "type": "number", "minimum": 0, "maximum": 1 },
                }),
                &["kind", "question", "choice"],
            ),
        },
        {
            "name": "report_progress",
            "title": "Report progress",
            "description": "Show the person what you are doing: a message, your list of steps, or both. Steps replace \
                the list before.",
            "inputSchema": schema(
                &json!({
                    "message": text("One or two sentences"),
                    "steps": {
                        "type": "array",
                        "maxItems": 64,
                        "items": schema(
                            &json!({
                                "text": text("The step, in a few words"),
                                "status": { "type": "string", "enum": ["pending", "in_progress", "completed"] },
                            }),
                            &["text", "status"],
                        ),
                    },
                }),
                &[],
            ),
        },
    ]})
}

fn schema(properties: &Value, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}
