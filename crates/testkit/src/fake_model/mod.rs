//! A model server for tests, on loopback only. It speaks the APIs of several providers, well enough that a real agent
//! edits a file with its own tools.
//!
//! What the model does is in the prompt ([`ModelDirective`]). How it fails is the first part of the path
//! ([`ModelFault`]), so that an agent needs nothing but another base URL. The server remembers nothing: an agent that
//! continues a conversation sends it again.

mod anthropic;
mod conversation;
mod directive;
mod exchange;
mod fault;
mod gemini;
mod openai_chat;
mod openai_responses;
mod provider_api;
mod tool_choice;

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use serde_json::{Value, json};

pub use directive::ModelDirective;
pub use fault::ModelFault;

use conversation::ModelReply;
use exchange::{ModelRequest, read_model_request, write_json_answer, write_stream_answer};
use provider_api::ProviderApi;

/// What every answer reports to have used.
pub const INPUT_TOKENS: u64 = 1500;
pub const OUTPUT_TOKENS: u64 = 25;

/// A running server. Dropping it ends it.
pub struct FakeModel {
    address: SocketAddr,
    closing: Arc<AtomicBool>,
}

impl FakeModel {
    /// Starts a server on a free port. It writes a line of JSON to `log` for each request.
    pub fn start(log: impl Write + Send + 'static) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let closing = Arc::new(AtomicBool::new(false));
        let closing_flag = Arc::clone(&closing);
        let state = Arc::new(FakeModelState {
            log: Mutex::new(Box::new(log)),
            next_id: AtomicU64::new(1),
        });
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if closing_flag.load(Ordering::SeqCst) {
                    return;
                }
                let state = Arc::clone(&state);
                // An agent may close a connection at any time.
                thread::spawn(move || drop(state.serve(client)));
            }
        });
        Ok(Self { address, closing })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for FakeModel {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::SeqCst);
        // Wakes the listener, which then sees the flag.
        drop(TcpStream::connect(self.address));
    }
}

/// What the connections share.
struct FakeModelState {
    log: Mutex<Box<dyn Write + Send>>,
    next_id: AtomicU64,
}

impl FakeModelState {
    fn serve(&self, mut client: TcpStream) -> std::io::Result<()> {
        let request = match read_model_request(&mut client)? {
            Ok(request) => request,
            Err(problem) => {
                self.log_request(&json!({"problem": problem}));
                return write_json_answer(&mut client, 400, &error_body(400, &problem));
            }
        };
        let (fault, path) = ModelFault::split_path(&request.path);
        let Some(api) = ProviderApi::for_path(path).filter(|_| request.method == "POST") else {
            self.log_request(&json!({"path": path, "fault": fault.to_string(), "api": null}));
            return answer_other_request(&mut client, fault, &request, path);
        };
        let (conversation, tools) = api.read_conversation(&request.body);
        let fault = match fault {
            ModelFault::Midway if conversation.is_tool_answered() => ModelFault::Status(500),
            ModelFault::Midway => ModelFault::None,
            other => other,
        };
        let reply = match fault {
            ModelFault::Mute => ModelReply::Words(String::new()),
            ModelFault::None
            | ModelFault::Status(_)
            | ModelFault::Midway
            | ModelFault::Hang
            | ModelFault::Cut => conversation.choose_reply(&tools),
        };
        self.log_request(&json!({
            "path": path,
            "fault": fault.to_string(),
            "api": api.as_str(),
            "tools": tools.keys().collect::<Vec<_>>(),
            "tool_results": conversation.tool_results,
            "last_tool_result": conversation.last_tool_result_head(),
            "reply": reply.describe(),
            "tokens": INPUT_TOKENS + OUTPUT_TOKENS,
        }));
        let id = self.next_id.fetch_add(1, Ordering::SeqCst);
        match fault {
            ModelFault::Status(status) => {
                write_json_answer(&mut client, status, &failure_body(status))
            }
            ModelFault::Hang => exchange::wait_for_close(&mut client),
            ModelFault::None | ModelFault::Midway | ModelFault::Mute | ModelFault::Cut => {
                if !api.wants_stream(path, &request.body) {
                    let answer = api.write_answer(&reply, &request.body, id);
                    return write_json_answer(&mut client, 200, &answer);
                }
                let events = api.write_events(&reply, &request.body, id);
                write_stream_answer(&mut client, &events, fault == ModelFault::Cut)
            }
        }
    }

    fn log_request(&self, line: &Value) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever reads the log may have ended first.
        let _ = writeln!(log, "{line}").and_then(|()| log.flush());
    }
}

/// Answers what agents ask besides the model: which models there are, and how many tokens a text has.
fn answer_other_request(
    client: &mut TcpStream,
    fault: ModelFault,
    request: &ModelRequest,
    path: &str,
) -> std::io::Result<()> {
    if let ModelFault::Status(status) = fault {
        return write_json_answer(client, status, &failure_body(status));
    }
    if fault == ModelFault::Hang {
        return exchange::wait_for_close(client);
    }
    if path.ends_with("/count_tokens") {
        return write_json_answer(client, 200, &json!({"input_tokens": INPUT_TOKENS}));
    }
    if path.ends_with(":countTokens") {
        return write_json_answer(client, 200, &json!({"totalTokens": INPUT_TOKENS}));
    }
    if path.ends_with("/models") {
        let names = ["fake", "claude-sonnet-4-5", "gpt-5"];
        let models = names.map(|name| {
            json!({"id": name, "object": "model", "type": "model", "display_name": name, "created": 0,
                   "owned_by": "fake"})
        });
        let list = json!({"object": "list", "data": models, "models": [], "has_more": false});
        return write_json_answer(client, 200, &list);
    }
    if request.method == "HEAD" {
        return write_json_answer(client, 200, &Value::Null);
    }
    let problem = format!("the fake model has no {path}");
    write_json_answer(client, 404, &error_body(404, &problem))
}

fn failure_body(status: u16) -> Value {
    error_body(status, &format!("the fake model answers {status}"))
}

/// An error that each of the providers' clients can read.
fn error_body(status: u16, message: &str) -> Value {
    let (kind, code) = match status {
        401 | 403 => ("authentication_error", "UNAUTHENTICATED"),
        429 => ("rate_limit_error", "RESOURCE_EXHAUSTED"),
        500.. => ("api_error", "INTERNAL"),
        _ => ("invalid_request_error", "INVALID_ARGUMENT"),
    };
    json!({"type": "error", "error": {"type": kind, "message": message, "code": status, "status": code}})
}

#[cfg(test)]
mod tests;
