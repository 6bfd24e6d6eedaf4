//! Answers the requests of an editor. Each one that may take time runs in a thread of its own.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, Scope};

use actors::Stop;
use plan::{Caller, PlanId};
use serde_json::{Value, json};

use super::connection::{
    EditorConnection, EditorMessage, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST,
    METHOD_NOT_FOUND, RequestFailure,
};
use super::editor_session::{EditorSession, SessionPlan};
use super::landing_offer::EditorLanding;
use super::plan_summary::strip_style;
use super::prompt_text::read_prompt;
use super::prompt_turn::PromptTurn;
use super::session_list::list_sessions;
use super::session_opening::HistoryReplay;
use crate::cli::App;
use crate::error::{CommandError, MentionedPlan};
use crate::exit::CommandExit;
use crate::invocation::ProgramInvocation;
use crate::settings::Settings;
use crate::{home, host};

const PROTOCOL_VERSION: u64 = 1;

/// A bound for an editor that sends requests without end.
const MAX_OPEN_REQUESTS: usize = 64;

/// The sessions of one editor.
pub struct EditorServer {
    pub connection: Arc<EditorConnection>,
    settings: Settings,
    invocation: ProgramInvocation,
    pub(super) editor_agent: Caller,
    landing: EditorLanding,
    sessions: Mutex<BTreeMap<String, Arc<EditorSession>>>,
    open_requests: AtomicUsize,
    /// Requested when the program ends.
    shutdown: Stop,
}

impl EditorServer {
    pub fn new(app: &App, connection: EditorConnection, landing: EditorLanding) -> Self {
        Self {
            connection: Arc::new(connection),
            settings: app.settings.clone(),
            invocation: app.invocation.clone(),
            editor_agent: home::editor_agent(),
            landing,
            sessions: Mutex::default(),
            open_requests: AtomicUsize::new(0),
            shutdown: Stop::default(),
        }
    }

    /// Handles a message. Does not wait for agents or the store.
    pub fn receive<'scope, 'env>(
        &'env self,
        message: EditorMessage,
        threads: &'scope Scope<'scope, 'env>,
    ) {
        match message {
            EditorMessage::Request { id, method, params } => {
                self.receive_request(&id, &method, params, threads);
            }
            EditorMessage::Notification { method, params } => {
                if method == "session/cancel"
                    && let Ok(session) = self.find_session(&params)
                {
                    session.cancel_turn();
                }
            }
            EditorMessage::Answer { id, result } => self.connection.resolve_request(id, result),
            EditorMessage::Malformed(failure) => {
                self.connection.answer(&Value::Null, Err(failure));
            }
        }
    }

    /// Stops every prompt. The plans are given back.
    pub fn stop_all(&self) {
        self.shutdown.request();
        for session in self.lock_sessions().values() {
            session.cancel_turn();
        }
    }

    fn receive_request<'scope, 'env>(
        &'env self,
        id: &Value,
        method: &str,
        params: Value,
        threads: &'scope Scope<'scope, 'env>,
    ) {
        let begun = match method {
            "session/prompt" => self.begin_prompt(&params),
            "session/new" => Ok(Box::new(move || self.open_session(&params)) as RequestWork),
            "session/load" => {
                Ok(
                    Box::new(move || self.continue_session(&params, HistoryReplay::Full))
                        as RequestWork,
                )
            }
            "session/resume" => {
                Ok(
                    Box::new(move || self.continue_session(&params, HistoryReplay::None))
                        as RequestWork,
                )
            }
            "session/list" => Ok(Box::new(move || self.list_sessions(&params)) as RequestWork),
            _ => {
                let answer = self.answer_at_once(method, &params);
                return self.connection.answer(id, answer);
            }
        };
        match begun {
            Ok(work) => self.carry_out(id, work, threads),
            Err(failure) => self.connection.answer(id, Err(failure)),
        }
    }

    /// Carries out a request in a thread, and answers it.
    fn carry_out<'scope, 'env>(
        &'env self,
        id: &Value,
        work: RequestWork<'env>,
        threads: &'scope Scope<'scope, 'env>,
    ) {
        let request_id = id.clone();
        let is_room = self.open_requests.fetch_add(1, Ordering::SeqCst) < MAX_OPEN_REQUESTS;
        let started = is_room
            && Builder::new()
                .spawn_scoped(threads, move || self.answer_with(&request_id, work))
                .is_ok();
        if !started {
            self.open_requests.fetch_sub(1, Ordering::SeqCst);
            let failure = RequestFailure::new(INVALID_REQUEST, "Too many requests are open.");
            self.connection.answer(id, Err(failure));
        }
    }

    fn answer_with(&self, id: &Value, work: RequestWork<'_>) {
        // An editor that gets no answer would wait forever.
        let answer = std::panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
            let message = "Planwright failed unexpectedly. Please report this.";
            Err(RequestFailure::new(INTERNAL_ERROR, message))
        });
        self.open_requests.fetch_sub(1, Ordering::SeqCst);
        self.connection.answer(id, answer);
    }

    fn answer_at_once(&self, method: &str, params: &Value) -> Result<Value, RequestFailure> {
        match method {
            "initialize" => Ok(describe_agent()),
            "session/set_config_option" => self.set_config_option(params),
            "session/set_mode" => self.set_mode(params),
            "session/close" => {
                let session = self.find_session(params)?;
                session.cancel_turn();
                self.lock_sessions().remove(&session.id);
                Ok(json!({}))
            }
            _ => Err(RequestFailure::new(
                METHOD_NOT_FOUND,
                format!("Unknown method `{method}`."),
            )),
        }
    }

    fn begin_prompt(&self, params: &Value) -> Result<RequestWork<'_>, RequestFailure> {
        let session = self.find_session(params)?;
        let prompt = read_prompt(&params["prompt"], &session.repository)?;
        // At once, so that a cancellation that follows finds the prompt.
        let turn = session.begin_turn()?;
        Ok(Box::new(move || {
            self.run_prompt(&turn.session, &prompt, &turn.stop)
        }))
    }

    fn run_prompt(
        &self,
        session: &EditorSession,
        prompt: &str,
        stop: &Stop,
    ) -> Result<Value, RequestFailure> {
        let app = self.open_app()?;
        let turn = PromptTurn {
            app: &app,
            connection: &self.connection,
            session,
            stop,
            shutdown: &self.shutdown,
            landing: self.landing,
        };
        turn.run(prompt).map_err(|error| {
            let plan_id = match session.plan() {
                SessionPlan::Open(plan_id) => Some(plan_id),
                SessionPlan::Reserved(_) | SessionPlan::Ended => None,
            };
            self.describe_failure(&app, error, plan_id)
        })
    }

    fn list_sessions(&self, params: &Value) -> Result<Value, RequestFailure> {
        let app = self.open_app()?;
        list_sessions(&app, params, &self.editor_agent)
            .map_err(|error| self.describe_failure(&app, error, None))
    }

    fn set_config_option(&self, params: &Value) -> Result<Value, RequestFailure> {
        let session = self.find_session(params)?;
        let option = params["configId"].as_str().unwrap_or_default();
        let value = params["value"].as_str().unwrap_or_default();
        let before = session.options().profile_name();
        let options = session.change_options(|options| options.set(option, value))?;
        if options.profile_name() != before {
            let mode = json!({
                "sessionUpdate": "current_mode_update",
                "currentModeId": options.profile_name(),
            });
            self.connection.send_update(&session.id, &mode);
        }
        Ok(json!({ "configOptions": options.to_config_options() }))
    }

    fn set_mode(&self, params: &Value) -> Result<Value, RequestFailure> {
        let session = self.find_session(params)?;
        let mode = params["modeId"].as_str().unwrap_or_default();
        let options = session.change_options(|options| options.set_mode(mode))?;
        let update = json!({
            "sessionUpdate": "config_option_update",
            "configOptions": options.to_config_options(),
        });
        self.connection.send_update(&session.id, &update);
        Ok(json!({}))
    }

    pub(super) fn find_session(
        &self,
        params: &Value,
    ) -> Result<Arc<EditorSession>, RequestFailure> {
        let id = params["sessionId"].as_str().unwrap_or_default();
        let found = self.lock_sessions().get(id).cloned();
        found.ok_or_else(|| unknown_session(id))
    }

    /// The context of one request. Settings may have changed since the editor started this program.
    pub(super) fn open_app(&self) -> Result<App, RequestFailure> {
        let opened = self.settings.reload().and_then(|settings| {
            host::register_host(&settings.home)?;
            Ok(App::for_editor(
                settings,
                self.invocation.clone(),
                self.editor_agent.clone(),
            ))
        });
        opened.map_err(|error| to_failure(&error, &self.invocation))
    }

    /// Words an error for the person in front of the editor.
    pub(super) fn describe_failure(
        &self,
        app: &App,
        error: CommandError,
        plan_id: Option<PlanId>,
    ) -> RequestFailure {
        let mentioned = plan_id.and_then(|plan_id| {
            let lifecycle = app.lifecycle().ok()?;
            MentionedPlan::read(lifecycle, plan_id, &home::current_person()).ok()
        });
        let error = error.for_people("revise", mentioned.as_ref());
        to_failure(&error, &self.invocation)
    }

    pub(super) fn lock_sessions(&self) -> MutexGuard<'_, BTreeMap<String, Arc<EditorSession>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that is carried out in a thread.
type RequestWork<'env> = Box<dyn FnOnce() -> Result<Value, RequestFailure> + Send + 'env>;

fn describe_agent() -> Value {
    json!({
        "protocolVersion": PROTOCOL_VERSION,
        "agentInfo": {
            "name": "planwright",
            "title": "Planwright",
            "version": env!("CARGO_PKG_VERSION"),
        },
        "agentCapabilities": {
            "loadSession": true,
            "promptCapabilities": { "image": false, "audio": false, "embeddedContext": true },
            "mcpCapabilities": { "http": false, "sse": false },
            "sessionCapabilities": { "list": {}, "resume": {}, "close": {} },
        },
        "authMethods": [],
    })
}

pub(super) fn unknown_session(id: &str) -> RequestFailure {
    let id: String = id.chars().take(60).collect();
    RequestFailure::invalid_params(format!("Unknown session `{id}`."))
}

fn to_failure(error: &CommandError, invocation: &ProgramInvocation) -> RequestFailure {
    let code = match error.exit {
        CommandExit::Usage | CommandExit::NotFound => INVALID_PARAMS,
        CommandExit::Ok
        | CommandExit::Error
        | CommandExit::Conflict
        | CommandExit::Blocked
        | CommandExit::NeedsPerson
        | CommandExit::NotLanded
        | CommandExit::TimedOut
        | CommandExit::Unknown
        | CommandExit::Interrupted => INTERNAL_ERROR,
    };
    let mut message = strip_style(&error.message);
    for hint in &error.hints {
        message.push_str(&format!("\n{}", invocation.render_hint(hint)));
    }
    RequestFailure::new(code, message)
}
