//! Actors: who does the work of a plan, and how they are started. Frozen into each plan at use, so that
//! whoever works on it starts what was agreed on then.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::guard::ToolGuards;
use crate::{QualifiedName, Span};

/// One actor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActorDefinition {
    /// Its name.
    pub name: QualifiedName,
    /// What it is, in a line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How it works.
    #[serde(flatten)]
    pub kind: ActorKind,
}

/// How an actor works.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum ActorKind {
    /// A program is started.
    Command(Box<CommandLine>),
    /// A person is asked.
    Human {
        /// How long they have to answer.
        #[serde(
            default,
            rename = "timeout_seconds",
            with = "crate::time::in_seconds",
            skip_serializing_if = "Option::is_none"
        )]
        timeout: Option<Span>,
    },
}

/// How a program is started. Words that are `{prompt}`, `{session}` or `{sandbox}` are replaced whole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandLine {
    /// The words of the command, in execute; also in strategize if a strategy was asked for and there
    /// is no other.
    pub command: Vec<String>,
    /// In strategize. Without it the goal is the strategy, unless one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategize: Option<Vec<String>>,
    /// To go on with the conversation of an earlier run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<Vec<String>>,
    /// What it reads.
    #[serde(default)]
    pub stdin: ActorStdin,
    /// What it writes.
    #[serde(default)]
    pub output: ActorOutputFormat,
    /// Variables that are passed through from the worker's environment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Variables that are set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set_env: BTreeMap<String, String>,
    /// Paths it may write beside its sandbox.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writable: Vec<String>,
    /// Paths it may read beside the system's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub readable: Vec<String>,
    /// How long one run may take.
    #[serde(
        default,
        rename = "timeout_seconds",
        with = "crate::time::in_seconds",
        skip_serializing_if = "Option::is_none"
    )]
    pub timeout: Option<Span>,
    /// What it may reach.
    #[serde(default)]
    pub isolation: ActorIsolation,
    /// What it may do with its tools, as far as it tells.
    #[serde(default, skip_serializing_if = "ToolGuards::is_empty")]
    pub guards: ToolGuards,
}

/// What a program is given to read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActorStdin {
    /// The assignment as JSON.
    Assignment,
    /// The prompt.
    Prompt,
    /// Nothing.
    #[default]
    None,
}

/// What a program writes to its standard output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ActorOutputFormat {
    /// Text for people.
    #[default]
    Text,
    /// Claude Code's stream of JSON lines.
    ClaudeJson,
    /// Codex's stream of JSON lines.
    CodexJson,
    /// Gemini CLI's stream of JSON lines.
    GeminiJson,
    /// OpenCode's stream of JSON lines.
    OpencodeJson,
}

/// Whether a program may reach more than its sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActorIsolation {
    /// It is confined where the system can do that, and each run says whether it was.
    #[default]
    WherePossible,
    /// It does not run unconfined.
    Required,
    /// It is not confined.
    Off,
}

impl ActorDefinition {
    /// Does it do anything in strategize unless a strategy was asked for? If not, the goal is the
    /// strategy.
    pub fn strategizes_by_default(&self) -> bool {
        match &self.kind {
            ActorKind::Command(line) => line.strategize.is_some(),
            ActorKind::Human { .. } => false,
        }
    }
}
