//! The conversation with one client: reads its messages, carries out its requests, and answers them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use actors::Stop;
use serde_json::{Map, Value};

use super::agent_access::AgentAccess;
use super::change_notices::ChangeNotices;
use super::line_reader::{InputLine, MAX_LINE_BYTES};
use super::message::{
    ClientMessage, INTERNAL_ERROR, INVALID_REQUEST, ProtocolError, RequestId, format_error,
    format_response, parse_message,
};
use super::message_writer::MessageWriter;
use super::protocol::{
    Freshness, RequestOrigin, answer_discover, answer_initialize, describe_plan_server,
    require_text,
};
use super::running_requests::{RequestEnd, RunningRequests};
use super::tools::ToolOutcome;
use super::{prompts, resources, tasks, tools};

/// How long the end of the session waits for requests.
const FINISH_TIMEOUT: Duration = Duration::from_secs(5);

/// What reaches the session.
#[derive(Debug)]
pub enum SessionInput {
    Line(InputLine),
    /// The client closed the input, or this process is to end.
    Ended,
}

pub struct McpSession {
    access: Arc<AgentAccess>,
    writer: Arc<MessageWriter>,
    notices: Arc<ChangeNotices>,
    running: Arc<RunningRequests>,
    is_initialized: bool,
}

/// A request, on its way to the thread that carries it out.
struct EngineRequest {
    method: String,
    params: Map<String, Value>,
    origin: RequestOrigin,
}

impl McpSession {
    pub fn new(access: AgentAccess, writer: MessageWriter) -> Self {
        let (access, writer) = (Arc::new(access), Arc::new(writer));
        Self {
            notices: ChangeNotices::new(Arc::clone(&access), Arc::clone(&writer)),
            access,
            writer,
            running: Arc::default(),
            is_initialized: false,
        }
    }

    /// Serves the client until its input ends. Then answers what is left.
    pub fn run(mut self, input: &Receiver<SessionInput>) {
        while let Ok(SessionInput::Line(line)) = input.recv() {
            match line {
                InputLine::Whole(line) => self.take_line(&line),
                InputLine::TooLong => {
                    let megabytes = MAX_LINE_BYTES >> 20;
                    let message = format!("The message is longer than {megabytes} MiB.");
                    let error = ProtocolError::new(INVALID_REQUEST, message);
                    self.writer.send(&format_error(None, &error));
                }
            }
        }
        self.running.finish_all(FINISH_TIMEOUT);
        self.notices.close();
    }

    fn take_line(&mut self, line: &[u8]) {
        if line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        match parse_message(line) {
            Ok(ClientMessage::Request { id, method, params }) => {
                self.take_request(&id, method, params);
            }
            Ok(ClientMessage::Notification { method, params }) => {
                self.take_notification(&method, &params);
            }
            Ok(ClientMessage::Response) => {}
            Err(malformed) => {
                let answer = format_error(malformed.id.as_ref(), &malformed.error);
                self.writer.send(&answer);
            }
        }
    }

    fn take_notification(&self, method: &str, params: &Map<String, Value>) {
        if method != "notifications/cancelled" {
            return;
        }
        if let Some(id) = params.get("requestId").and_then(RequestId::from_json) {
            self.running.cancel(&id);
            self.notices.cancel(&id);
        }
    }

    fn take_request(&mut self, id: &RequestId, method: String, params: Map<String, Value>) {
        let answer = match self.begin_request(id, method, params) {
            Ok(None) => return,
            Ok(Some(result)) => Ok(result),
            Err(error) => Err(error),
        };
        self.writer.send(&format_response(id, answer));
    }

    /// Begins a request. `None` if its answer comes later.
    fn begin_request(
        &mut self,
        id: &RequestId,
        method: String,
        params: Map<String, Value>,
    ) -> Result<Option<Value>, ProtocolError> {
        match method.as_str() {
            _ if RequestOrigin::names_version(&params) => {}
            "initialize" => {
                let answer = answer_initialize(&describe_plan_server(), &params)?;
                self.is_initialized = true;
                return Ok(Some(answer));
            }
            // Clients may ask this before they have initialized.
            "ping" => return Ok(Some(Value::Object(Map::new()))),
            _ => {}
        }
        let origin = RequestOrigin::read(&params, self.is_initialized)?;
        if method == "subscriptions/listen" && origin.is_stateless() {
            self.notices.listen(id, &params, &origin)?;
            return Ok(None);
        }
        if let Some((answer, freshness)) = self.answer_at_once(&method, &params, &origin) {
            return Ok(Some(origin.complete_result(answer?, freshness)));
        }
        let request = EngineRequest {
            method,
            params,
            origin,
        };
        self.start_request(id, request)?;
        Ok(None)
    }

    /// Answers what needs no engine, or must be in order with what follows.
    fn answer_at_once(
        &self,
        method: &str,
        params: &Map<String, Value>,
        origin: &RequestOrigin,
    ) -> Option<(Result<Value, ProtocolError>, Freshness)> {
        let is_stateless = origin.is_stateless();
        Some(match method {
            "server/discover" if is_stateless => (
                Ok(answer_discover(&describe_plan_server())),
                Freshness::Constant,
            ),
            "tools/list" => (Ok(tools::list_tools()), Freshness::Constant),
            "resources/templates/list" => (Ok(resources::list_templates()), Freshness::Constant),
            "resources/subscribe" if !is_stateless => {
                (self.notices.subscribe(params, origin), Freshness::Unstated)
            }
            "resources/unsubscribe" if !is_stateless => {
                (self.notices.unsubscribe(params), Freshness::Unstated)
            }
            _ => return None,
        })
    }

    /// Carries out a request on a thread of its own, so that a slow one holds up no other.
    fn start_request(&self, id: &RequestId, request: EngineRequest) -> Result<(), ProtocolError> {
        let ticket = self.running.begin(id)?;
        let (access, writer) = (Arc::clone(&self.access), Arc::clone(&self.writer));
        let (running, request_id) = (Arc::clone(&self.running), id.clone());
        let started_ticket = ticket.clone();
        let started = std::thread::Builder::new()
            .name("mcp request".to_owned())
            .spawn(move || {
                let carry_out = AssertUnwindSafe(|| request.carry_out(&access, &ticket.stop));
                let answer = catch_unwind(carry_out).unwrap_or_else(|_| {
                    let message = "Planwright failed on this request.";
                    Err(ProtocolError::new(INTERNAL_ERROR, message))
                });
                if running.end(&request_id, &ticket) == RequestEnd::Answerable {
                    writer.send(&format_response(&request_id, answer));
                }
                running.end_thread();
            });
        if let Err(error) = started {
            self.running.end(id, &started_ticket);
            self.running.end_thread();
            let message = format!("Cannot start a thread: {error}");
            return Err(ProtocolError::new(INTERNAL_ERROR, message));
        }
        Ok(())
    }
}

impl EngineRequest {
    fn carry_out(&self, access: &AgentAccess, stop: &Stop) -> Result<Value, ProtocolError> {
        let (params, origin) = (&self.params, &self.origin);
        let is_stateless = origin.is_stateless();
        let (result, freshness) = match self.method.as_str() {
            "tools/call" => (self.call_tool(access, stop)?, Freshness::Unstated),
            "resources/list" => (
                resources::list_resources(access, params)?,
                Freshness::Changing,
            ),
            "resources/read" => (
                resources::read_resource(access, params, origin)?,
                Freshness::Changing,
            ),
            "prompts/list" => (prompts::list_prompts(access, params)?, Freshness::Changing),
            "prompts/get" => (prompts::get_prompt(access, params)?, Freshness::Unstated),
            "tasks/get" if is_stateless => {
                origin.require_tasks()?;
                (
                    tasks::get_task(access, params, origin)?,
                    Freshness::Unstated,
                )
            }
            "tasks/update" if is_stateless => {
                origin.require_tasks()?;
                (tasks::update_task(access, params)?, Freshness::Unstated)
            }
            "tasks/cancel" if is_stateless => {
                origin.require_tasks()?;
                (
                    tasks::cancel_task(access, params, origin)?,
                    Freshness::Unstated,
                )
            }
            unknown => return Err(ProtocolError::method_not_found(unknown)),
        };
        Ok(origin.complete_result(result, freshness))
    }

    fn call_tool(&self, access: &AgentAccess, stop: &Stop) -> Result<Value, ProtocolError> {
        let name = require_text(&self.params, "name")?;
        let arguments = match self.params.get("arguments") {
            None | Some(Value::Null) => Value::Object(Map::new()),
            Some(arguments @ Value::Object(_)) => arguments.clone(),
            Some(_) => {
                return Err(ProtocolError::invalid_params(
                    "`arguments` must be an object.",
                ));
            }
        };
        Ok(match tools::call_tool(access, name, arguments, stop)? {
            ToolOutcome::Started { plan_id, .. }
                if self.origin.is_stateless() && self.origin.supports_tasks() =>
            {
                tasks::describe_new_task(access, plan_id)
                    .map_err(|error| resources::describe_error(error, Some(&self.origin)))?
            }
            ToolOutcome::Started { answer, .. } | ToolOutcome::Answered(answer) => {
                answer.into_result()
            }
        })
    }
}
