//! What an agent says and does during a run, as typed entries.
//!
//! The crate `actors` has one decoder per agent format that produces these entries. Progress, metering,
//! guards, the stored transcript and every surface read the same entries. Secrets are removed before an
//! entry is made. An entry is shown to people and never decides by itself what happened: results are read
//! from the sandbox.

use serde::{Deserialize, Serialize};

/// An entry with its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TranscriptEntry {
    /// Milliseconds since the run began.
    pub elapsed_ms: u64,
    #[serde(flatten)]
    pub content: TranscriptContent,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TranscriptContent {
    /// A whole message of the agent.
    Text { text: String },
    /// A piece of a message, or lines of a program that only prints text. It continues a text or piece
    /// directly before it.
    TextDelta { text: String },
    /// The agent's reasoning, as far as it shows it.
    Thought { text: String },
    /// A tool call begins, or is reported as a whole if its status is already final.
    ToolCall(ToolCallEntry),
    /// A later report on the tool call with this id.
    ToolCallUpdate(ToolCallUpdate),
    /// The agent says that it changed a file. The sandbox tells what really changed.
    FileChange(FileChangeEntry),
    /// The agent's list of steps, which replaces the one before.
    Checklist { items: Vec<ChecklistItem> },
    /// The agent asked before a tool call, or got its answer.
    Permission(PermissionEntry),
    /// The total usage of the run so far.
    Usage(Usage),
    /// A remark about the run itself: an error of the agent, a retry, output that was cut.
    Notice { level: NoticeLevel, text: String },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCallEntry {
    /// The agent's own id for the call, which later updates repeat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// The name of the tool, as the agent spells it. Tools of MCP servers are `mcp__SERVER__TOOL`.
    pub tool: String,
    pub tool_kind: ToolKind,
    /// What it works on, the most telling first: a command, a pattern, paths, a URL. Guards check each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<String>,
    /// The agent's own words for the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locations: Vec<FileLocation>,
    pub status: ToolCallStatus,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCallUpdate {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    pub status: ToolCallStatus,
    /// Of a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// What the tool returned, shortened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

/// A request of the agent to make a tool call, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionEntry {
    /// The id of the call, as in its other entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    pub tool: String,
    pub tool_kind: ToolKind,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<String>,
    pub status: PermissionStatus,
    /// What decided it, for people.
    pub reason: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PermissionStatus {
    /// A person is asked.
    Asked,
    /// For this call only.
    Allowed,
    Rejected,
    /// The run ended before it was answered.
    Cancelled,
}

/// What a tool does, whatever the agent calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    Read,
    Edit,
    Delete,
    Move,
    Search,
    Execute,
    Fetch,
    Think,
    Other,
}

impl ToolKind {
    /// Returns the name as stored and as patterns spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Edit => "edit",
            Self::Delete => "delete",
            Self::Move => "move",
            Self::Search => "search",
            Self::Execute => "execute",
            Self::Fetch => "fetch",
            Self::Think => "think",
            Self::Other => "other",
        }
    }
}

impl PermissionStatus {
    /// Returns the name as stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Allowed => "allowed",
            Self::Rejected => "rejected",
            Self::Cancelled => "cancelled",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolCallStatus {
    Started,
    Completed,
    Failed,
}

/// A place in a file. Paths are relative to the repository if they are inside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileLocation {
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChangeEntry {
    pub path: String,
    /// Unknown for tools that write a file whether or not it exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<FileChangeKind>,
    /// Lines added and removed, if they can be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_counts: Option<LineCounts>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileChangeKind {
    Created,
    Modified,
    Deleted,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineCounts {
    pub added: u64,
    pub removed: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChecklistItem {
    pub text: String,
    pub status: ChecklistStatus,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChecklistStatus {
    Pending,
    InProgress,
    Completed,
}

/// Usage as the agent reports it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    #[serde(default)]
    pub input_tokens: u64,
    #[serde(default)]
    pub output_tokens: u64,
    /// Millionths of a US dollar.
    #[serde(default)]
    pub cost_micros: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeLevel {
    Info,
    Warning,
    Error,
}

impl TranscriptContent {
    /// What the agent is doing now, in one line; `None` if the entry does not tell.
    pub fn describe_activity(&self) -> Option<String> {
        match self {
            Self::Text { text } | Self::Thought { text } | Self::Notice { text, .. } => {
                to_short_line(text)
            }
            // The last line is the latest.
            Self::TextDelta { text } => text.lines().rev().find_map(to_short_line),
            Self::ToolCall(call) => Some(call.describe_activity()),
            Self::FileChange(change) => to_short_line(&format!("edit {}", change.path)),
            Self::Checklist { items } => {
                let find = |status| items.iter().find(|item| item.status == status);
                let next = find(ChecklistStatus::InProgress).or(find(ChecklistStatus::Pending))?;
                to_short_line(&format!("next: {}", next.text))
            }
            Self::Permission(permission) => match permission.status {
                PermissionStatus::Asked => Some(format!("asks to {}", permission.describe_call())),
                PermissionStatus::Allowed
                | PermissionStatus::Rejected
                | PermissionStatus::Cancelled => None,
            },
            Self::ToolCallUpdate(_) | Self::Usage(_) => None,
        }
    }
}

impl ToolCallEntry {
    /// What the call works on, in one line.
    pub fn target(&self) -> Option<String> {
        let target = match self.tool_kind {
            // One call may change several files.
            ToolKind::Edit | ToolKind::Delete | ToolKind::Move => self.inputs.join(", "),
            ToolKind::Read
            | ToolKind::Search
            | ToolKind::Execute
            | ToolKind::Fetch
            | ToolKind::Think
            | ToolKind::Other => self.inputs.first().cloned().unwrap_or_default(),
        };
        to_short_line(&target).or_else(|| to_short_line(self.title.as_deref()?))
    }

    /// For example `run cargo test`.
    fn describe_activity(&self) -> String {
        describe_tool_call(&self.tool, self.tool_kind, self.target())
    }
}

impl PermissionEntry {
    /// The call that was asked for, for example `run cargo test`.
    pub fn describe_call(&self) -> String {
        let target = to_short_line(&self.inputs.join(", "));
        describe_tool_call(&self.tool, self.tool_kind, target)
    }
}

fn describe_tool_call(tool: &str, tool_kind: ToolKind, target: Option<String>) -> String {
    let verb = match tool_kind {
        ToolKind::Read => "read",
        ToolKind::Edit => "edit",
        ToolKind::Delete => "delete",
        ToolKind::Move => "move",
        ToolKind::Search => "search",
        ToolKind::Execute => "run",
        ToolKind::Fetch => "fetch",
        ToolKind::Think | ToolKind::Other => &tool.trim_start_matches("mcp__").replace("__", " "),
    };
    match target {
        Some(target) => format!("{verb} {target}"),
        None => verb.to_owned(),
    }
}

/// Joins the words of a text to one line of bounded length; `None` if it has none.
fn to_short_line(text: &str) -> Option<String> {
    const MAX_CHARS: usize = 200;
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if let Some((end, _)) = line.char_indices().nth(MAX_CHARS) {
            line.truncate(end);
            line.pop();
            line.push('…');
            break;
        }
    }
    (!line.is_empty()).then_some(line)
}
