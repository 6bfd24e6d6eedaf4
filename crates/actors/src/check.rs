//! Checks an actor definition when it is registered, so that no plan fails on it later.

use plan::ActorDefinition;
use plan::actor::{AcpCommand, ActorKind, CommandLine};
use plan::time::Span;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ActorDefinitionError {
    #[error("`{key}` names no program")]
    NoProgram { key: &'static str },
    /// The program must not depend on the plan.
    #[error("`{key}` starts with `{word}`: the program cannot be a placeholder")]
    PlaceholderAsProgram { key: &'static str, word: String },
    /// An argument that looks like a placeholder but is not one.
    #[error("`{key}`: unknown placeholder `{word}`: use {{prompt}}, {{session}} or {{sandbox}}")]
    UnknownPlaceholder { key: &'static str, word: String },
    /// Placeholders are replaced only as whole arguments.
    #[error("`{key}`: `{placeholder}` must be a separate argument, not part of `{word}`")]
    PlaceholderInsideWord {
        key: &'static str,
        placeholder: &'static str,
        word: String,
    },
    /// Only a resumed session has an id.
    #[error("`{key}`: `{{session}}` can be used only in `resume`")]
    SessionOutsideResume { key: &'static str },
    /// A NUL cannot be passed to a program.
    #[error("`{key}` contains a NUL character")]
    NulCharacter { key: &'static str },
    #[error("`{key}`: `{name}` is not a variable name: use letters, digits and `_`")]
    InvalidVariableName { key: &'static str, name: String },
    #[error("`{key}`: `{name}` is set by Planwright and cannot be defined here")]
    ReservedVariable { key: &'static str, name: String },
    /// A relative path would depend on the working directory.
    #[error("`{key}`: `{path}` is relative: start it with `/` or `~/`")]
    RelativePath { key: &'static str, path: String },
    /// The path contains files that no agent may access.
    #[error("`{key}`: `{path}` is too broad: list the paths inside it that are needed")]
    PathTooBroad { key: &'static str, path: String },
    /// With text output, tool calls cannot be seen.
    #[error("`guards` need an agent that reports its tool calls: `output` must not be text")]
    GuardsWithTextOutput,
    /// The prompt is sent when the agent is ready.
    #[error("`command`: an agent of kind acp gets its prompt by the protocol: remove `{{prompt}}`")]
    PromptInAcpCommand,
    #[error("`tools.ask` needs a mode in which the agent asks, and in `{mode}` it does not")]
    AskInBypassMode { mode: String },
    #[error("`timeout` must be greater than zero")]
    ZeroTimeout,
}

impl ActorDefinitionError {
    /// The key of the definition that the error is about.
    pub fn key(&self) -> &'static str {
        match self {
            Self::NoProgram { key }
            | Self::PlaceholderAsProgram { key, .. }
            | Self::UnknownPlaceholder { key, .. }
            | Self::PlaceholderInsideWord { key, .. }
            | Self::SessionOutsideResume { key }
            | Self::NulCharacter { key }
            | Self::InvalidVariableName { key, .. }
            | Self::ReservedVariable { key, .. }
            | Self::RelativePath { key, .. }
            | Self::PathTooBroad { key, .. } => key,
            Self::GuardsWithTextOutput => "guards",
            Self::PromptInAcpCommand => "command",
            Self::AskInBypassMode { .. } => "tools",
            Self::ZeroTimeout => "timeout",
        }
    }
}

/// Arguments that are replaced when the program is started.
pub(crate) const PROMPT_PLACEHOLDER: &str = "{prompt}";
pub(crate) const SESSION_PLACEHOLDER: &str = "{session}";
pub(crate) const SANDBOX_PLACEHOLDER: &str = "{sandbox}";

/// Checks that a definition can be run.
pub fn check_definition(definition: &ActorDefinition) -> Result<(), ActorDefinitionError> {
    match &definition.kind {
        ActorKind::Human { timeout } => check_timeout(*timeout),
        ActorKind::Command(command_line) => check_command_line(command_line),
        ActorKind::Acp(agent) => check_acp_command(agent),
    }
}

fn check_command_line(command_line: &CommandLine) -> Result<(), ActorDefinitionError> {
    check_words("command", &command_line.command)?;
    for (key, words) in [
        ("strategize", &command_line.strategize),
        ("resume", &command_line.resume),
    ] {
        if let Some(words) = words {
            check_words(key, words)?;
        }
    }
    for name in &command_line.env {
        check_variable_name("env", name)?;
    }
    for (name, value) in &command_line.set_env {
        check_variable_name("set_env", name)?;
        refuse_nul("set_env", value)?;
    }
    for (key, paths) in [
        ("writable", &command_line.writable),
        ("readable", &command_line.readable),
    ] {
        for path in paths {
            check_path(key, path)?;
        }
    }
    if !command_line.guards.is_empty() && !command_line.output.reports_tool_calls() {
        return Err(ActorDefinitionError::GuardsWithTextOutput);
    }
    check_timeout(command_line.timeout)
}

fn check_acp_command(agent: &AcpCommand) -> Result<(), ActorDefinitionError> {
    check_command_line(&agent.to_command_line())?;
    if agent.command.iter().any(|word| word == PROMPT_PLACEHOLDER) {
        return Err(ActorDefinitionError::PromptInAcpCommand);
    }
    if let Some(mode) = agent.mode.as_ref()
        && !agent.tools.ask.is_empty()
        && agent.is_in_bypass_mode()
    {
        return Err(ActorDefinitionError::AskInBypassMode { mode: mode.clone() });
    }
    for (key, value) in [("mode", &agent.mode), ("model", &agent.model)] {
        if let Some(value) = value {
            refuse_nul(key, value)?;
        }
    }
    Ok(())
}

fn check_words(key: &'static str, words: &[String]) -> Result<(), ActorDefinitionError> {
    match words.first() {
        None => return Err(ActorDefinitionError::NoProgram { key }),
        Some(program) if program.trim().is_empty() => {
            return Err(ActorDefinitionError::NoProgram { key });
        }
        Some(program) if looks_like_placeholder(program) => {
            let word = program.clone();
            return Err(ActorDefinitionError::PlaceholderAsProgram { key, word });
        }
        Some(_) => {}
    }
    for word in words {
        refuse_nul(key, word)?;
        match word.as_str() {
            PROMPT_PLACEHOLDER | SANDBOX_PLACEHOLDER => {}
            SESSION_PLACEHOLDER if key == "resume" => {}
            SESSION_PLACEHOLDER => return Err(ActorDefinitionError::SessionOutsideResume { key }),
            word if looks_like_placeholder(word) => {
                let word = word.to_owned();
                return Err(ActorDefinitionError::UnknownPlaceholder { key, word });
            }
            word => {
                let placeholder_inside =
                    [PROMPT_PLACEHOLDER, SESSION_PLACEHOLDER, SANDBOX_PLACEHOLDER]
                        .into_iter()
                        .find(|placeholder| word.contains(placeholder));
                if let Some(placeholder) = placeholder_inside {
                    return Err(ActorDefinitionError::PlaceholderInsideWord {
                        key,
                        placeholder,
                        word: word.to_owned(),
                    });
                }
            }
        }
    }
    Ok(())
}

/// Is this `{word}`? `{}` and JSON are meant literally.
fn looks_like_placeholder(word: &str) -> bool {
    word.strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'))
        .is_some_and(|name| {
            !name.is_empty()
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
        })
}

fn check_variable_name(key: &'static str, name: &str) -> Result<(), ActorDefinitionError> {
    let is_valid = !name.starts_with(|char: char| char.is_ascii_digit())
        && !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let name = name.to_owned();
    if !is_valid {
        return Err(ActorDefinitionError::InvalidVariableName { key, name });
    }
    if name.starts_with("PLANWRIGHT_") {
        return Err(ActorDefinitionError::ReservedVariable { key, name });
    }
    Ok(())
}

fn check_path(key: &'static str, path: &str) -> Result<(), ActorDefinitionError> {
    refuse_nul(key, path)?;
    let path_text = path.to_owned();
    if !path.starts_with('/') && path != "~" && !path.starts_with("~/") {
        return Err(ActorDefinitionError::RelativePath {
            key,
            path: path_text,
        });
    }
    if path.split('/').all(|part| matches!(part, "" | "." | "~"))
        || path.split('/').any(|part| part == "..")
    {
        return Err(ActorDefinitionError::PathTooBroad {
            key,
            path: path_text,
        });
    }
    Ok(())
}

fn check_timeout(timeout: Option<Span>) -> Result<(), ActorDefinitionError> {
    if timeout.is_some_and(|timeout| timeout.0 <= 0) {
        return Err(ActorDefinitionError::ZeroTimeout);
    }
    Ok(())
}

fn refuse_nul(key: &'static str, text: &str) -> Result<(), ActorDefinitionError> {
    if text.contains('\0') {
        return Err(ActorDefinitionError::NulCharacter { key });
    }
    Ok(())
}
