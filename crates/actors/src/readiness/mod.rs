//! Whether an agent can be run on this host: how, in which version, and what is missing. Reads files and variables,
//! and starts nothing, so what it says about a login is only a guess.

mod login;
mod node_version;

use std::path::PathBuf;

use plan::ActorDefinition;
use plan::actor::{ActorKind, CommandLine};

use crate::command::program_variable;
use crate::{
    HostEnv, find_installed_program, find_installed_version, find_preset, find_tested_version,
};
use login::find_missing_login;
use node_version::find_missing_node;

/// What is known of an agent on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentReadiness {
    pub protocol: RunProtocol,
    /// Its program, if it is installed.
    pub program: Option<PathBuf>,
    /// `None` if its files do not tell.
    pub version: Option<String>,
    /// The version that is known to work, of a preset.
    pub tested_version: Option<&'static str>,
    /// Empty if the program is not installed: nothing else is known then.
    pub missing: Vec<MissingNeed>,
}

/// How Planwright talks with an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunProtocol {
    /// The Agent Client Protocol.
    Acp,
    /// It prints what it does in a format that programs read.
    Stream,
    /// It prints text.
    Text,
    /// A person, who answers.
    Person,
}

/// Something without which an agent is likely to fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MissingNeed {
    /// Its package needs a newer Node.js.
    Node {
        /// The lowest version that is enough, such as `22` or `22.1.0`.
        lowest: String,
        /// `None` if there is none in PATH.
        found: Option<String>,
    },
    /// None of the variables is set, and no login of the agent was found.
    Login {
        variables: &'static [&'static str],
        /// The command to log in.
        command: &'static str,
    },
    /// A variable that must be set, and why.
    Variable {
        name: &'static str,
        value: &'static str,
        reason: &'static str,
    },
}

impl RunProtocol {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Acp => "acp",
            Self::Stream => "stream",
            Self::Text => "text",
            Self::Person => "person",
        }
    }
}

impl AgentReadiness {
    pub fn is_outdated(&self) -> bool {
        match (&self.version, self.tested_version) {
            (Some(version), Some(tested)) => crate::is_older_version(version, tested),
            (None, _) | (_, None) => false,
        }
    }
}

/// Looks an agent up on this host.
pub fn check_readiness(definition: &ActorDefinition, host_env: &HostEnv) -> AgentReadiness {
    let (protocol, command_line) = match &definition.kind {
        ActorKind::Acp(agent) => (RunProtocol::Acp, agent.to_command_line()),
        ActorKind::Command(line) => {
            let protocol = match line.output.reports_tool_calls() {
                true => RunProtocol::Stream,
                false => RunProtocol::Text,
            };
            (protocol, (**line).clone())
        }
        ActorKind::Human { .. } => (RunProtocol::Person, CommandLine::default()),
    };
    let program = find_installed_program(definition, host_env.path());
    let missing = program
        .iter()
        .flat_map(|program| {
            [
                find_missing_node(program, host_env.path()),
                find_missing_login(&command_line, host_env),
                find_missing_variable(&command_line, host_env),
            ]
        })
        .flatten()
        .collect();
    AgentReadiness {
        protocol,
        version: program.as_deref().and_then(find_installed_version),
        tested_version: find_tested_version_of(definition),
        program,
        missing,
    }
}

/// A definition of another program can have the name of a preset.
fn find_tested_version_of(definition: &ActorDefinition) -> Option<&'static str> {
    let name = definition.name.to_string();
    let preset = find_preset(&name)?;
    let runs_same =
        preset.kind.program_words()?.first() == definition.kind.program_words()?.first();
    find_tested_version(&name).filter(|_| runs_same)
}

/// Claude Code refuses its mode without questions to root.
fn find_missing_variable(command_line: &CommandLine, host_env: &HostEnv) -> Option<MissingNeed> {
    const NAME: &str = "IS_SANDBOX";
    let asks_nothing = command_line
        .command
        .iter()
        .any(|word| word == "bypassPermissions");
    let is_set = program_variable(command_line, host_env, NAME).is_some();
    let is_needed = asks_nothing && rustix::process::geteuid().is_root();
    (is_needed && !is_set).then_some(MissingNeed::Variable {
        name: NAME,
        value: "1",
        reason: "Claude Code does not start as root without it",
    })
}

#[cfg(test)]
mod tests;
