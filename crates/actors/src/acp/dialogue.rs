//! The conversation with an agent, without any I/O: lines of the agent go in, messages to the agent and
//! transcript entries come out.
//!
//! One request of ours is open at a time: `initialize`, then the session, then its settings, then the
//! prompt. The agent may send notifications and requests of its own at any time.

use plan::permission::PermissionRequest;
use plan::stage::FailureCategory;
use plan::transcript::{ChecklistItem, NoticeLevel, TranscriptContent};
use serde_json::{Value, json};

use super::agent_flavor::AgentFlavor;
use super::message::{self, IncomingMessage, RpcError};
use super::permission_options::{self, PermissionOptions};
use super::session_setup::{SessionOpening, SessionSetting, SettingRequest, read_openings};
use super::update_reader::UpdateReader;
use crate::stream::EntryCleaner;
use crate::stream::json::{JsonObject, get_array, get_object, get_text};
use crate::{EarlierSession, Usage};

/// The version of the protocol.
const PROTOCOL_VERSION: u64 = 1;

/// What the conversation is to achieve.
#[derive(Debug, Clone, Default)]
pub(super) struct DialogueTask {
    /// The working directory of the session.
    pub(super) directory: String,
    pub(super) mode: Option<String>,
    pub(super) model: Option<String>,
    /// For a new session.
    pub(super) prompt: String,
    /// For a session that is continued.
    pub(super) resume_prompt: String,
    /// Servers of the Model Context Protocol that the agent starts.
    pub(super) mcp_servers: Vec<Value>,
    /// The session to continue.
    pub(super) earlier: Option<EarlierSession>,
}

/// What the caller must do, in this order.
#[derive(Debug, PartialEq)]
pub(super) enum DialogueStep {
    /// Send this line to the agent.
    Send(String),
    /// Record this entry.
    Record(TranscriptContent),
    /// Decide this request and pass the answer to [`AcpDialogue::answer_permission`].
    Decide(PendingPermission),
}

/// A permission request that waits for its answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PendingPermission {
    pub(super) request: PermissionRequest,
    /// The agent's id for its request.
    id: Value,
    options: PermissionOptions,
}

impl PendingPermission {
    /// Can the call be allowed without allowing more?
    pub(super) fn can_allow_once(&self) -> bool {
        self.options.can_allow_once()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PermissionReply {
    Allow,
    Reject,
    /// The turn is cancelled.
    Cancel,
}

/// How the conversation ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DialogueEnding {
    /// The agent ended its turn.
    Completed,
    /// The agent ended its turn because it was cancelled.
    Cancelled,
    Failed {
        /// `None` if the words of the message tell it.
        category: Option<FailureCategory>,
        /// Follows the name of the program.
        message: String,
    },
}

/// The request that waits for its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenRequest {
    Initialize,
    Open(SessionOpening),
    Configure,
    Prompt,
}

impl OpenRequest {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Initialize => "initialize",
            Self::Open(opening) => opening.method(),
            Self::Configure => "session settings",
            Self::Prompt => "session/prompt",
        }
    }
}

pub(super) struct AcpDialogue {
    task: DialogueTask,
    reader: UpdateReader,
    last_id: u64,
    open_request: Option<OpenRequest>,
    /// Ways to open a session that were not tried yet.
    openings: Vec<SessionOpening>,
    /// How to log in, in the agent's words.
    login_hint: Option<String>,
    session: Option<String>,
    is_continued: bool,
    /// Settings that were not requested yet, the next one last.
    settings: Vec<SettingRequest>,
    current_setting: String,
    is_cancelled: bool,
    ending: Option<DialogueEnding>,
}

impl AcpDialogue {
    pub(super) fn new(task: DialogueTask) -> Self {
        Self {
            task,
            reader: UpdateReader::new(),
            last_id: 0,
            open_request: None,
            openings: Vec::new(),
            login_hint: None,
            session: None,
            is_continued: false,
            settings: Vec::new(),
            current_setting: String::new(),
            is_cancelled: false,
            ending: None,
        }
    }

    pub(super) fn open_request(&self) -> Option<OpenRequest> {
        self.open_request
    }

    pub(super) fn ending(&self) -> Option<&DialogueEnding> {
        self.ending.as_ref()
    }

    pub(super) fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    pub(super) fn usage(&self) -> Usage {
        self.reader.usage()
    }

    pub(super) fn answer(&self) -> Option<&str> {
        self.reader.answer()
    }

    pub(super) fn checklist(&self) -> &[ChecklistItem] {
        self.reader.checklist()
    }

    /// The last error of its model that the agent reported and did not overcome.
    pub(super) fn last_error(&self) -> Option<&str> {
        self.reader.turn_error().last_error()
    }

    /// Does a tool of the agent run?
    pub(super) fn has_running_call(&self) -> bool {
        self.reader.has_running_call()
    }

    /// Begins the conversation.
    pub(super) fn start(&mut self) -> DialogueStep {
        let params = json!({
            "protocolVersion": PROTOCOL_VERSION,
            "clientInfo": {"name": "planwright", "version": env!("CARGO_PKG_VERSION")},
            // Agents that are offered files or terminals stop using their own, and some cannot create
            // files any more.
            "clientCapabilities": {
                "fs": {"readTextFile": false, "writeTextFile": false},
                "terminal": false,
            },
        });
        self.send_request(OpenRequest::Initialize, "initialize", &params)
    }

    /// Reads a line of the agent.
    pub(super) fn receive(&mut self, line: &str, cleaner: &EntryCleaner<'_>) -> Vec<DialogueStep> {
        match message::parse_message(line) {
            Some(IncomingMessage::Response { id, outcome }) => {
                let Some(request) = self.open_request.filter(|_| id == self.last_id) else {
                    return Vec::new();
                };
                self.open_request = None;
                if self.ending.is_some() {
                    return Vec::new();
                }
                match outcome {
                    Ok(result) => self.continue_after(request, &result),
                    Err(error) => self.continue_after_error(request, &error),
                }
            }
            Some(IncomingMessage::Request { id, method, params }) => {
                self.receive_request(id, &method, &params, cleaner)
            }
            Some(IncomingMessage::Notification { method, params }) => {
                match get_object(&params, "update") {
                    Some(update) if method == "session/update" => {
                        self.receive_update(&params, update)
                    }
                    Some(_) | None => Vec::new(),
                }
            }
            // Some agents print remarks.
            None => Vec::new(),
        }
    }

    /// Answers a permission request.
    pub(super) fn answer_permission(
        &self,
        pending: &PendingPermission,
        answer: PermissionReply,
    ) -> DialogueStep {
        let result = match answer {
            PermissionReply::Allow => pending.options.allow_result(),
            PermissionReply::Reject => pending.options.reject_result(),
            PermissionReply::Cancel => permission_options::cancelled_result(),
        };
        DialogueStep::Send(message::format_result(&pending.id, &result))
    }

    /// Asks the agent to end its turn. Returns nothing to send if no turn runs.
    pub(super) fn cancel(&mut self) -> Option<DialogueStep> {
        self.is_cancelled = true;
        let session = self.session.as_deref()?;
        (self.open_request == Some(OpenRequest::Prompt)).then(|| {
            let params = json!({"sessionId": session});
            DialogueStep::Send(message::format_notification("session/cancel", &params))
        })
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.is_cancelled
    }

    /// Ends the conversation from our side.
    fn fail(&mut self, message: impl Into<String>) {
        self.ending.get_or_insert(DialogueEnding::Failed {
            category: Some(FailureCategory::Actor),
            message: message.into(),
        });
    }

    fn send_request(&mut self, request: OpenRequest, method: &str, params: &Value) -> DialogueStep {
        self.last_id += 1;
        self.open_request = Some(request);
        DialogueStep::Send(message::format_request(self.last_id, method, params))
    }

    fn continue_after(&mut self, request: OpenRequest, result: &JsonObject) -> Vec<DialogueStep> {
        match request {
            OpenRequest::Initialize => self.read_initialize_result(result),
            OpenRequest::Open(opening) => self.read_opened_session(opening, result),
            OpenRequest::Configure => vec![self.send_next_setting()],
            OpenRequest::Prompt => {
                let entries = self.reader.read_prompt_result(result);
                let stop_reason = get_text(result, "stopReason").unwrap_or("end_turn");
                self.ending = Some(self.ending_for_stop_reason(stop_reason));
                entries.into_iter().map(DialogueStep::Record).collect()
            }
        }
    }

    fn continue_after_error(
        &mut self,
        request: OpenRequest,
        error: &RpcError,
    ) -> Vec<DialogueStep> {
        if error.asks_for_login() {
            let hint = self.login_hint.take();
            let hint = hint.unwrap_or_else(|| "log in with the agent itself first".to_owned());
            self.fail(format!("is not logged in: {}; {hint}", error.text));
            return Vec::new();
        }
        match request {
            OpenRequest::Open(SessionOpening::Resume | SessionOpening::Load) => {
                let text = format!("`{}` failed: {}", request.name(), error.text);
                let level = NoticeLevel::Info;
                vec![
                    DialogueStep::Record(TranscriptContent::Notice { level, text }),
                    self.open_session(),
                ]
            }
            // It may not take the servers. It can work without them.
            OpenRequest::Open(SessionOpening::New) if !self.task.mcp_servers.is_empty() => {
                self.task.mcp_servers.clear();
                let text = format!("does not take the tools of its run: {}", error.text);
                let level = NoticeLevel::Warning;
                vec![
                    DialogueStep::Record(TranscriptContent::Notice { level, text }),
                    self.open_session(),
                ]
            }
            OpenRequest::Configure => {
                let text = &error.text;
                self.fail(format!("cannot choose {}: {text}", self.current_setting));
                Vec::new()
            }
            OpenRequest::Prompt if self.is_cancelled => {
                self.ending = Some(DialogueEnding::Cancelled);
                Vec::new()
            }
            OpenRequest::Initialize | OpenRequest::Open(SessionOpening::New) => {
                let text = &error.text;
                self.fail(format!("failed in `{}`: {text}", request.name()));
                Vec::new()
            }
            OpenRequest::Prompt => {
                self.ending = Some(DialogueEnding::Failed {
                    category: None,
                    message: format!("failed: {}", error.text),
                });
                let (level, text) = (NoticeLevel::Error, error.text.clone());
                vec![DialogueStep::Record(TranscriptContent::Notice {
                    level,
                    text,
                })]
            }
        }
    }

    fn read_initialize_result(&mut self, result: &JsonObject) -> Vec<DialogueStep> {
        let version = result.get("protocolVersion").and_then(Value::as_u64);
        if let Some(version) = version.filter(|version| *version != PROTOCOL_VERSION) {
            self.fail(format!(
                "speaks version {version} of the Agent Client Protocol, and Planwright speaks \
                 version {PROTOCOL_VERSION}"
            ));
            return Vec::new();
        }
        let name = get_object(result, "agentInfo").and_then(|agent| get_text(agent, "name"));
        self.reader
            .set_flavor(AgentFlavor::from_agent_name(name.unwrap_or_default()));
        self.login_hint = read_login_hint(result);
        self.openings = read_openings(result);
        if self.task.earlier.is_none() {
            self.openings = vec![SessionOpening::New];
        }
        vec![self.open_session()]
    }

    /// Tries the next way to open a session.
    fn open_session(&mut self) -> DialogueStep {
        let opening = match self.openings.is_empty() {
            true => SessionOpening::New,
            false => self.openings.remove(0),
        };
        let mut params = json!({"cwd": self.task.directory, "mcpServers": self.task.mcp_servers});
        match (opening, &self.task.earlier) {
            (SessionOpening::Resume | SessionOpening::Load, Some(earlier)) => {
                params["sessionId"] = earlier.session.as_str().into();
            }
            (SessionOpening::New, _) | (_, None) => {}
        }
        self.send_request(OpenRequest::Open(opening), opening.method(), &params)
    }

    fn read_opened_session(
        &mut self,
        opening: SessionOpening,
        result: &JsonObject,
    ) -> Vec<DialogueStep> {
        let earlier = self.task.earlier.clone();
        let (session, remark) = match (opening, &earlier) {
            (SessionOpening::Resume, Some(earlier)) => (
                Some(earlier.session.clone()),
                Some("continues the earlier conversation"),
            ),
            (SessionOpening::Load, Some(earlier)) => (
                Some(earlier.session.clone()),
                Some("continues the earlier conversation, which the agent loaded"),
            ),
            (SessionOpening::New, earlier) => (
                get_text(result, "sessionId").map(str::to_owned),
                earlier
                    .is_some()
                    .then_some("cannot continue the earlier conversation: started a new one"),
            ),
            (SessionOpening::Resume | SessionOpening::Load, None) => (None, None),
        };
        let Some(session) = session.filter(|session| !session.is_empty()) else {
            self.fail("opened a session without an id");
            return Vec::new();
        };
        self.is_continued = opening != SessionOpening::New;
        if self.is_continued {
            self.reader.continue_session(earlier);
        }
        let settings = [
            (SessionSetting::Model, self.task.model.clone()),
            (SessionSetting::Mode, self.task.mode.clone()),
        ];
        for (setting, wanted) in settings {
            let Some(wanted) = wanted else {
                continue;
            };
            match setting.request_for(&wanted, &session, result) {
                Ok(request) => self.settings.push(request),
                Err(message) => {
                    self.session = Some(session);
                    self.fail(message);
                    return Vec::new();
                }
            }
        }
        self.session = Some(session);
        let mut steps = Vec::new();
        if let Some(remark) = remark {
            let level = match self.is_continued {
                true => NoticeLevel::Info,
                false => NoticeLevel::Warning,
            };
            let text = remark.to_owned();
            steps.push(DialogueStep::Record(TranscriptContent::Notice {
                level,
                text,
            }));
        }
        steps.push(self.send_next_setting());
        steps
    }

    /// Requests the next setting, or sends the prompt.
    fn send_next_setting(&mut self) -> DialogueStep {
        match self.settings.pop() {
            Some(setting) => {
                self.current_setting = setting.what;
                self.send_request(OpenRequest::Configure, setting.method, &setting.params)
            }
            None => self.send_prompt(),
        }
    }

    fn send_prompt(&mut self) -> DialogueStep {
        let text = match self.is_continued {
            true => &self.task.resume_prompt,
            false => &self.task.prompt,
        };
        let prompt = json!([{"type": "text", "text": text}]);
        let params = json!({"sessionId": self.session, "prompt": prompt});
        self.send_request(OpenRequest::Prompt, "session/prompt", &params)
    }

    fn receive_request(
        &mut self,
        id: Value,
        method: &str,
        params: &JsonObject,
        cleaner: &EntryCleaner<'_>,
    ) -> Vec<DialogueStep> {
        if method != "session/request_permission" {
            let answer = message::format_method_not_found(&id, method);
            return vec![DialogueStep::Send(answer)];
        }
        let empty = JsonObject::default();
        let tool_call = get_object(params, "toolCall").unwrap_or(&empty);
        let (request, entries) = self.reader.read_permission_request(tool_call, cleaner);
        let mut steps: Vec<DialogueStep> = entries.into_iter().map(DialogueStep::Record).collect();
        steps.push(DialogueStep::Decide(PendingPermission {
            request,
            id,
            options: PermissionOptions::from_params(params),
        }));
        steps
    }

    fn receive_update(&mut self, params: &JsonObject, update: &JsonObject) -> Vec<DialogueStep> {
        // What the agent sends while it loads a session was recorded when it happened.
        if self.open_request == Some(OpenRequest::Open(SessionOpening::Load)) {
            return Vec::new();
        }
        // A subagent may have a session of its own, whose words are not the answer.
        let is_foreign = match (self.session.as_deref(), get_text(params, "sessionId")) {
            (Some(session), Some(named)) => session != named,
            (None, _) | (_, None) => false,
        };
        let kind = get_text(update, "sessionUpdate").unwrap_or_default();
        if is_foreign && matches!(kind, "agent_message_chunk" | "plan") {
            return Vec::new();
        }
        let entries = self.reader.read_update(update);
        entries.into_iter().map(DialogueStep::Record).collect()
    }

    fn ending_for_stop_reason(&self, stop_reason: &str) -> DialogueEnding {
        let failed = |category, message: &str| DialogueEnding::Failed {
            category: Some(category),
            message: message.to_owned(),
        };
        match stop_reason {
            "cancelled" if self.is_cancelled => DialogueEnding::Cancelled,
            "cancelled" => failed(
                FailureCategory::Actor,
                "cancelled its turn without being asked to",
            ),
            "refusal" => failed(FailureCategory::Actor, "refused to do the task"),
            "max_tokens" => failed(
                FailureCategory::Actor,
                "reached the token limit of its model before it was done",
            ),
            "max_turn_requests" => failed(
                FailureCategory::Budget,
                "reached its limit of requests in one turn before it was done",
            ),
            "end_turn" => match self.reader.turn_error().failure() {
                // The category is in the agent's words.
                Some(error) => DialogueEnding::Failed {
                    category: None,
                    message: format!("failed: {error}"),
                },
                None => DialogueEnding::Completed,
            },
            other => failed(
                FailureCategory::Actor,
                &format!("ended its turn with `{other}`"),
            ),
        }
    }
}

/// What the agent says about logging in.
fn read_login_hint(initialize_result: &JsonObject) -> Option<String> {
    let methods = get_array(initialize_result, "authMethods").iter();
    let described: Vec<&str> = methods
        .filter_map(Value::as_object)
        .filter_map(|method| get_text(method, "description").or_else(|| get_text(method, "name")))
        .take(4)
        .collect();
    (!described.is_empty()).then(|| format!("the agent offers: {}", described.join("; ")))
}
