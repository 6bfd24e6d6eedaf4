//! Actor definitions: how the programs and people that work on plans are started. Frozen into each
//! plan at creation, so that every worker starts the same program.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::guard::ToolGuards;
use crate::permission::ToolPolicy;
use crate::{QualifiedName, Span};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActorDefinition {
    pub name: QualifiedName,
    /// One line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(flatten)]
    pub kind: ActorKind,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum ActorKind {
    /// Runs a program.
    Command(Box<CommandLine>),
    /// Runs a program and speaks the Agent Client Protocol with it.
    Acp(Box<AcpCommand>),
    /// Asks a person.
    Human {
        /// Time to answer.
        #[serde(
            default,
            rename = "timeout_seconds",
            with = "crate::time::in_seconds",
            skip_serializing_if = "Option::is_none"
        )]
        timeout: Option<Span>,
    },
}

/// How a program is started. An argument that is exactly `{prompt}`, `{session}` or `{sandbox}` is
/// replaced.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandLine {
    /// Program and arguments for execute. Also used for strategize if a strategy was requested and
    /// `strategize` is not set.
    pub command: Vec<String>,
    /// Program and arguments for strategize. If unset, the goal is the strategy, unless one was
    /// requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategize: Option<Vec<String>>,
    /// Program and arguments to resume the session of an earlier run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<Vec<String>>,
    #[serde(default)]
    pub stdin: ActorStdin,
    #[serde(default)]
    pub output: ActorOutputFormat,
    /// Names of variables passed through from the worker's environment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Variables to set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set_env: BTreeMap<String, String>,
    /// Paths the program may write, in addition to its sandbox.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writable: Vec<String>,
    /// Paths the program may read, in addition to system directories.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub readable: Vec<String>,
    /// Longest single run.
    #[serde(
        default,
        rename = "timeout_seconds",
        with = "crate::time::in_seconds",
        skip_serializing_if = "Option::is_none"
    )]
    pub timeout: Option<Span>,
    #[serde(default)]
    pub isolation: ActorIsolation,
    /// How the program is told about the server with the tools of its run. If unset, it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp: Option<McpConfigFormat>,
    /// Limits on the tool calls that the program reports.
    #[serde(default, skip_serializing_if = "ToolGuards::is_empty")]
    pub guards: ToolGuards,
}

/// How a program that speaks the Agent Client Protocol is started, and how it works. An argument that is
/// exactly `{sandbox}` is replaced.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcpCommand {
    /// Program and arguments.
    pub command: Vec<String>,
    /// The mode to choose in a session, as the agent names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The model to choose in a session, as the agent names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Names of variables passed through from the worker's environment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Variables to set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set_env: BTreeMap<String, String>,
    /// Paths the program may write, in addition to its sandbox.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writable: Vec<String>,
    /// Paths the program may read, in addition to system directories.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub readable: Vec<String>,
    /// Longest single run.
    #[serde(
        default,
        rename = "timeout_seconds",
        with = "crate::time::in_seconds",
        skip_serializing_if = "Option::is_none"
    )]
    pub timeout: Option<Span>,
    #[serde(default)]
    pub isolation: ActorIsolation,
    /// Which tool calls are allowed when the agent asks.
    #[serde(default, skip_serializing_if = "ToolPolicy::is_empty")]
    pub tools: ToolPolicy,
}

impl AcpCommand {
    /// Modes in which well-known agents make every call without asking.
    const BYPASS_MODES: [&str; 4] = [
        "agent-full-access",
        "auto-approve",
        "bypassPermissions",
        "yolo",
    ];

    /// The agent is told to ask nothing.
    pub fn is_in_bypass_mode(&self) -> bool {
        let mode = self.mode.as_deref();
        mode.is_some_and(|mode| Self::BYPASS_MODES.contains(&mode))
    }

    /// The program and what it gets, as for an agent of kind `command`.
    pub fn to_command_line(&self) -> CommandLine {
        CommandLine {
            command: self.command.clone(),
            env: self.env.clone(),
            set_env: self.set_env.clone(),
            writable: self.writable.clone(),
            readable: self.readable.clone(),
            timeout: self.timeout,
            isolation: self.isolation,
            ..CommandLine::default()
        }
    }
}

/// What a program receives on its standard input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActorStdin {
    /// The assignment as JSON.
    Assignment,
    Prompt,
    #[default]
    None,
}

/// What a program writes to its standard output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ActorOutputFormat {
    #[default]
    Text,
    /// JSON lines of Claude Code.
    ClaudeJson,
    /// JSON lines of Codex.
    CodexJson,
    /// JSON lines of Gemini CLI.
    GeminiJson,
    /// JSON lines of OpenCode.
    OpencodeJson,
    /// What Aider prints for people.
    AiderText,
    /// JSON lines of GitHub Copilot CLI.
    CopilotJson,
    /// JSON lines of Kimi Code.
    KimiJson,
    /// JSON lines of Mistral Vibe.
    VibeJson,
}

/// How a program takes servers of the Model Context Protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum McpConfigFormat {
    /// The argument `--mcp-config` of Claude Code.
    Claude,
    /// Arguments `-c` of Codex.
    Codex,
}

impl ActorOutputFormat {
    /// Guards see the tool calls of such a program.
    pub fn reports_tool_calls(self) -> bool {
        match self {
            Self::Text | Self::AiderText => false,
            Self::ClaudeJson
            | Self::CodexJson
            | Self::GeminiJson
            | Self::OpencodeJson
            | Self::CopilotJson
            | Self::KimiJson
            | Self::VibeJson => true,
        }
    }
}

/// Whether a program is confined to its sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActorIsolation {
    /// Confined if the system supports it. Each run records whether it was.
    #[default]
    WherePossible,
    /// Refuses to run unconfined.
    Required,
    Off,
}

impl ActorDefinition {
    /// Returns whether the actor runs in strategize although no strategy was requested. If not, the
    /// goal is the strategy.
    pub fn strategizes_by_default(&self) -> bool {
        match &self.kind {
            ActorKind::Command(line) => line.strategize.is_some(),
            ActorKind::Acp(_) | ActorKind::Human { .. } => false,
        }
    }
}

impl ActorKind {
    /// The program that is started, with its arguments; `None` for a person.
    pub fn program_words(&self) -> Option<&[String]> {
        match self {
            Self::Command(line) => Some(&line.command),
            Self::Acp(agent) => Some(&agent.command),
            Self::Human { .. } => None,
        }
    }

    /// How the program is confined; `None` for a person.
    pub fn isolation(&self) -> Option<ActorIsolation> {
        match self {
            Self::Command(line) => Some(line.isolation),
            Self::Acp(agent) => Some(agent.isolation),
            Self::Human { .. } => None,
        }
    }
}
