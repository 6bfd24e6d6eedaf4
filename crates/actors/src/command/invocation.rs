//! The command line that a program is started with.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use plan::Phase;
use plan::actor::CommandLine;

use crate::check::{PROMPT_PLACEHOLDER, SANDBOX_PLACEHOLDER, SESSION_PLACEHOLDER};
use crate::{Assignment, EarlierSession, HostEnv, build_prompt, build_resume_prompt};

/// The kernel accepts little more in one argument.
const MAX_ARGUMENT_BYTES: usize = 100 * 1024;

/// How the program is started this time.
pub(crate) struct CommandInvocation<'a> {
    /// With placeholders.
    words: &'a [String],
    pub(crate) prompt: String,
    session: Option<&'a str>,
}

impl<'a> CommandInvocation<'a> {
    /// Chooses the command for an assignment. `None` if the program has nothing to do in
    /// strategize.
    ///
    /// A session is resumed only in execute. In strategize, the arguments of the command keep an
    /// agent from writing, and the arguments for resuming do not.
    pub(crate) fn for_assignment(
        command_line: &'a CommandLine,
        assignment: &'a Assignment,
        strategy_wanted: bool,
    ) -> Option<Self> {
        let in_new_session = |words| Self::in_new_session(words, assignment);
        if assignment.phase == Phase::Strategize {
            return match &command_line.strategize {
                Some(words) => Some(in_new_session(words)),
                None => strategy_wanted.then(|| in_new_session(&command_line.command)),
            };
        }
        let earlier = assignment.earlier.as_ref();
        let session = earlier.map(|earlier| earlier.session.as_str());
        Some(
            match (
                &command_line.resume,
                session.filter(|name| is_valid_session(name)),
            ) {
                (Some(words), Some(session)) => Self {
                    words,
                    prompt: build_resume_prompt(assignment),
                    session: Some(session),
                },
                (_, _) => in_new_session(&command_line.command),
            },
        )
    }

    /// The command to fall back to if a session cannot be resumed, for example because the agent
    /// has lost it. `None` if this does not resume one.
    pub(crate) fn with_new_session(
        &self,
        command_line: &'a CommandLine,
        assignment: &'a Assignment,
    ) -> Option<Self> {
        let session = self.session;
        session.map(|_| Self::in_new_session(&command_line.command, assignment))
    }

    /// The session that this command resumes.
    pub(crate) fn resumed_session(&self, assignment: &Assignment) -> Option<EarlierSession> {
        let earlier = assignment.earlier.clone();
        earlier.filter(|_| self.session.is_some())
    }

    /// A new session in which this command is started.
    pub(crate) fn in_new_session(words: &'a [String], assignment: &Assignment) -> Self {
        Self {
            words,
            prompt: build_prompt(assignment),
            session: None,
        }
    }

    /// The arguments with placeholders replaced, and `~/` at the start of one replaced by the home
    /// directory.
    pub(crate) fn resolve_words(
        &self,
        sandbox: &Path,
        host_env: &HostEnv,
    ) -> Result<Vec<OsString>, String> {
        self.words
            .iter()
            .map(|word| match word.as_str() {
                PROMPT_PLACEHOLDER if self.prompt.len() > MAX_ARGUMENT_BYTES => Err(format!(
                    "the prompt has {} bytes, too many for an argument: define the agent with \
                     `stdin: prompt` and without `{PROMPT_PLACEHOLDER}`",
                    self.prompt.len()
                )),
                PROMPT_PLACEHOLDER => Ok(OsString::from(&self.prompt)),
                SANDBOX_PLACEHOLDER => Ok(sandbox.as_os_str().to_owned()),
                SESSION_PLACEHOLDER => match self.session {
                    Some(session) => Ok(OsString::from(session)),
                    None => Err(format!("there is no session for `{SESSION_PLACEHOLDER}`")),
                },
                word => host_env
                    .expand(word)
                    .map(PathBuf::into_os_string)
                    .ok_or_else(|| format!("there is no home directory for `{word}`")),
            })
            .collect()
    }
}

/// Is this a valid session id? It comes from the agent and becomes one of its arguments again, so
/// it must not look like an option.
pub(crate) fn is_valid_session(name: &str) -> bool {
    const MAX_SESSION_BYTES: usize = 256;
    name.starts_with(|char: char| char.is_ascii_alphanumeric())
        && name.len() <= MAX_SESSION_BYTES
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.:/@".contains(&byte))
}
