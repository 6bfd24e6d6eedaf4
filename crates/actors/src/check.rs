//! Whether a definition can be meant: told when it is given, not when a plan fails on it.

use plan::ActorDefinition;
use plan::actor::{ActorKind, CommandLine};
use plan::time::Span;

use crate::stream;

/// What is wrong with a definition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ActorProblem {
    /// There is nothing to start.
    #[error("`{key}` names no program")]
    NoProgram {
        /// The key of the definition.
        key: &'static str,
    },
    /// What is started would depend on the plan.
    #[error("`{key}` starts with `{word}`: the program itself is not replaced")]
    ProgramReplaced {
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
    PartOfAWord {
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
    Nul {
        /// The key of the definition.
        key: &'static str,
    },
    /// No variable can be called that.
    #[error("`{key}`: `{name}` is no name of a variable: use letters, digits and `_`")]
    NotAVariable {
        /// The key of the definition.
        key: &'static str,
        /// The name.
        name: String,
    },
    /// These are Planwright's to set.
    #[error("`{key}`: `{name}` is set by Planwright and cannot be given")]
    OurVariable {
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
    Everything {
        /// The key of the definition.
        key: &'static str,
        /// The path.
        path: String,
    },
    /// Its calls cannot be seen.
    #[error("`guards` see the calls of agents that tell of them: `output` must not be text")]
    Blind,
    /// Nothing can be done in it.
    #[error("`timeout` is a length of time greater than zero")]
    NoTime,
}

impl ActorProblem {
    /// The key of the definition that it is about.
    pub fn key(&self) -> &'static str {
        match self {
            Self::NoProgram { key }
            | Self::ProgramReplaced { key, .. }
            | Self::UnknownPlaceholder { key, .. }
            | Self::PartOfAWord { key, .. }
            | Self::SessionOutsideResume { key }
            | Self::Nul { key }
            | Self::NotAVariable { key, .. }
            | Self::OurVariable { key, .. }
            | Self::RelativePath { key, .. }
            | Self::Everything { key, .. } => key,
            Self::Blind => "guards",
            Self::NoTime => "timeout",
        }
    }
}

/// Words that are replaced.
pub(crate) const PROMPT: &str = "{prompt}";
pub(crate) const SESSION: &str = "{session}";
pub(crate) const SANDBOX: &str = "{sandbox}";

/// Is a definition one that can be run?
pub fn check(definition: &ActorDefinition) -> Result<(), ActorProblem> {
    match &definition.kind {
        ActorKind::Human { timeout } => check_time(*timeout),
        ActorKind::Command(line) => check_line(line),
    }
}

fn check_line(line: &CommandLine) -> Result<(), ActorProblem> {
    check_words("command", &line.command)?;
    for (key, words) in [("strategize", &line.strategize), ("resume", &line.resume)] {
        if let Some(words) = words {
            check_words(key, words)?;
        }
    }
    for name in &line.env {
        check_variable("env", name)?;
    }
    for (name, value) in &line.set_env {
        check_variable("set_env", name)?;
        refuse_nul("set_env", value)?;
    }
    for (key, paths) in [("writable", &line.writable), ("readable", &line.readable)] {
        for path in paths {
            check_path(key, path)?;
        }
    }
    if !line.guards.is_empty() && !stream::tells_of_tools(line.output) {
        return Err(ActorProblem::Blind);
    }
    check_time(line.timeout)
}

fn check_words(key: &'static str, words: &[String]) -> Result<(), ActorProblem> {
    match words.first() {
        None => return Err(ActorProblem::NoProgram { key }),
        Some(program) if program.trim().is_empty() => return Err(ActorProblem::NoProgram { key }),
        Some(program) if looks_replaced(program) => {
            let word = program.clone();
            return Err(ActorProblem::ProgramReplaced { key, word });
        }
        Some(_) => {}
    }
    for word in words {
        refuse_nul(key, word)?;
        match word.as_str() {
            PROMPT | SANDBOX => {}
            SESSION if key == "resume" => {}
            SESSION => return Err(ActorProblem::SessionOutsideResume { key }),
            word if looks_replaced(word) => {
                let word = word.to_owned();
                return Err(ActorProblem::UnknownPlaceholder { key, word });
            }
            word => {
                let within = [PROMPT, SESSION, SANDBOX]
                    .into_iter()
                    .find(|placeholder| word.contains(placeholder));
                if let Some(placeholder) = within {
                    return Err(ActorProblem::PartOfAWord {
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
fn looks_replaced(word: &str) -> bool {
    word.strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'))
        .is_some_and(|name| {
            !name.is_empty()
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
        })
}

fn check_variable(key: &'static str, name: &str) -> Result<(), ActorProblem> {
    let fits = !name.starts_with(|char: char| char.is_ascii_digit())
        && !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let name = name.to_owned();
    if !fits {
        return Err(ActorProblem::NotAVariable { key, name });
    }
    if name.starts_with("PLANWRIGHT_") {
        return Err(ActorProblem::OurVariable { key, name });
    }
    Ok(())
}

fn check_path(key: &'static str, path: &str) -> Result<(), ActorProblem> {
    refuse_nul(key, path)?;
    let given = path.to_owned();
    if !path.starts_with('/') && path != "~" && !path.starts_with("~/") {
        return Err(ActorProblem::RelativePath { key, path: given });
    }
    if path.split('/').all(|part| matches!(part, "" | "." | "~"))
        || path.split('/').any(|part| part == "..")
    {
        return Err(ActorProblem::Everything { key, path: given });
    }
    Ok(())
}

fn check_time(timeout: Option<Span>) -> Result<(), ActorProblem> {
    if timeout.is_some_and(|timeout| timeout.0 <= 0) {
        return Err(ActorProblem::NoTime);
    }
    Ok(())
}

fn refuse_nul(key: &'static str, text: &str) -> Result<(), ActorProblem> {
    if text.contains('\0') {
        return Err(ActorProblem::Nul { key });
    }
    Ok(())
}
