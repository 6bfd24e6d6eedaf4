//! Whether a definition can be meant: told when it is given, not when a plan fails on it.

use plan::ActorDefinition;
use plan::actor::{ActorKind, CommandLine};
use plan::time::Span;

use crate::stream;

/// What is wrong with a definition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ActorDefinitionError {
    /// There is nothing to start.
    #[error("`{key}` names no program")]
    NoProgram {
        /// The key of the definition.
        key: &'static str,
    },
    /// What is started would depend on the plan.
    #[error("`{key}` starts with `{word}`: the program itself is not replaced")]
    PlaceholderAsProgram {
        /// The key of the definition.
        key: &'static str,
        /// The word.
        word: String,
    },
    /// A word that looks as if it were replaced.
    #[error("`{key}`: `{word}` is replaced by nothing: use {{prompt}}, {{session}} or {{sandbox}}")]
    UnknownPlaceholder {
        /// The key of the definition.
        key: &'static str,
        /// The word.
        word: String,
    },
    /// Only whole words are replaced.
    #[error("`{key}`: `{placeholder}` is replaced only as a word of its own, not within `{word}`")]
    PlaceholderInsideWord {
        /// The key of the definition.
        key: &'static str,
        /// What would be replaced.
        placeholder: &'static str,
        /// The word.
        word: String,
    },
    /// Only a resumed conversation has a name.
    #[error("`{key}`: `{{session}}` is known only in `resume`")]
    SessionOutsideResume {
        /// The key of the definition.
        key: &'static str,
    },
    /// It could not be passed on.
    #[error("`{key}` holds a NUL character")]
    NulCharacter {
        /// The key of the definition.
        key: &'static str,
    },
    /// No variable can be called that.
    #[error("`{key}`: `{name}` is no name of a variable: use letters, digits and `_`")]
    InvalidVariableName {
        /// The key of the definition.
        key: &'static str,
        /// The name.
        name: String,
    },
    /// These are Planwright's to set.
    #[error("`{key}`: `{name}` is set by Planwright and cannot be given")]
    ReservedVariable {
        /// The key of the definition.
        key: &'static str,
        /// The name.
        name: String,
    },
    /// It would mean another place for everybody who starts it.
    #[error("`{key}`: `{path}` is relative: start it with `/` or `~/`")]
    RelativePath {
        /// The key of the definition.
        key: &'static str,
        /// The path.
        path: String,
    },
    /// It holds what no actor may reach.
    #[error("`{key}`: `{path}` holds everything: name what is needed in it")]
    PathTooBroad {
        /// The key of the definition.
        key: &'static str,
        /// The path.
        path: String,
    },
    /// Its calls cannot be seen.
    #[error("`guards` see the calls of agents that tell of them: `output` must not be text")]
    GuardsWithTextOutput,
    /// Nothing can be done in it.
    #[error("`timeout` is a length of time greater than zero")]
    ZeroTimeout,
}

impl ActorDefinitionError {
    /// The key of the definition that it is about.
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
            Self::ZeroTimeout => "timeout",
        }
    }
}

/// Words that are replaced.
pub(crate) const PROMPT_PLACEHOLDER: &str = "{prompt}";
pub(crate) const SESSION_PLACEHOLDER: &str = "{session}";
pub(crate) const SANDBOX_PLACEHOLDER: &str = "{sandbox}";

/// Is a definition one that can be run?
pub fn check_definition(definition: &ActorDefinition) -> Result<(), ActorDefinitionError> {
    match &definition.kind {
        ActorKind::Human { timeout } => check_timeout(*timeout),
        ActorKind::Command(command_line) => check_command_line(command_line),
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
    if !command_line.guards.is_empty() && !stream::reports_tool_calls(command_line.output) {
        return Err(ActorDefinitionError::GuardsWithTextOutput);
    }
    check_timeout(command_line.timeout)
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

/// `{word}`, as nobody writes it who means the braces; `{}` and JSON are meant.
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
    let given = path.to_owned();
    if !path.starts_with('/') && path != "~" && !path.starts_with("~/") {
        return Err(ActorDefinitionError::RelativePath { key, path: given });
    }
    if path.split('/').all(|part| matches!(part, "" | "." | "~"))
        || path.split('/').any(|part| part == "..")
    {
        return Err(ActorDefinitionError::PathTooBroad { key, path: given });
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
