//! The words that a program is started with.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use plan::Phase;
use plan::actor::CommandLine;

use crate::check::{PROMPT_PLACEHOLDER, SANDBOX_PLACEHOLDER, SESSION_PLACEHOLDER};
use crate::{Assignment, EarlierSession, HostEnv, build_prompt, build_resume_prompt};

/// Longest argument: systems take little more in one.
const MAX_ARGUMENT_BYTES: usize = 100 * 1024;

/// How a program is started this time.
pub(super) struct CommandInvocation<'a> {
    /// Its words, not yet replaced.
    words: &'a [String],
    /// What it is told.
    pub(super) prompt: String,
    session: Option<&'a str>,
}

impl<'a> CommandInvocation<'a> {
    /// The form for an assignment. None if the program has nothing to do in strategize.
    ///
    /// A conversation is gone on with only in execute: in strategize an agent is held to reading by the
    /// words of its command, and those to resume with are others.
    pub(super) fn for_assignment(
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

    /// The form to fall back to if a conversation cannot be gone on with, as when the agent forgot it. None
    /// if this is none that goes on with one.
    pub(super) fn with_new_session(
        &self,
        command_line: &'a CommandLine,
        assignment: &'a Assignment,
    ) -> Option<Self> {
        let session = self.session;
        session.map(|_| Self::in_new_session(&command_line.command, assignment))
    }

    /// The conversation that is gone on with, if one is.
    pub(super) fn resumed_session(&self, assignment: &Assignment) -> Option<EarlierSession> {
        let earlier = assignment.earlier.clone();
        earlier.filter(|_| self.session.is_some())
    }

    fn in_new_session(words: &'a [String], assignment: &Assignment) -> Self {
        Self {
            words,
            prompt: build_prompt(assignment),
            session: None,
        }
    }

    /// The words as they are passed on, each placeholder replaced whole, and `~/` at the beginning of a
    /// word by the home directory.
    pub(super) fn resolve_words(
        &self,
        sandbox: &Path,
        host_env: &HostEnv,
    ) -> Result<Vec<OsString>, String> {
        self.words
            .iter()
            .map(|word| match word.as_str() {
                PROMPT_PLACEHOLDER if self.prompt.len() > MAX_ARGUMENT_BYTES => Err(format!(
                    "the prompt has {} bytes, more than fit in an argument: define the actor with \
                     `stdin: prompt` and without `{PROMPT_PLACEHOLDER}`",
                    self.prompt.len()
                )),
                PROMPT_PLACEHOLDER => Ok(OsString::from(&self.prompt)),
                SANDBOX_PLACEHOLDER => Ok(sandbox.as_os_str().to_owned()),
                SESSION_PLACEHOLDER => match self.session {
                    Some(session) => Ok(OsString::from(session)),
                    None => Err(format!(
                        "there is no conversation for `{SESSION_PLACEHOLDER}` to name"
                    )),
                },
                word => host_env
                    .expand(word)
                    .map(PathBuf::into_os_string)
                    .ok_or_else(|| format!("there is no home directory for `{word}`")),
            })
            .collect()
    }
}

/// Can a conversation be called that? The name comes from the agent and becomes one of its arguments again:
/// it must not be taken for an option.
pub(super) fn is_valid_session(name: &str) -> bool {
    const MAX_SESSION_BYTES: usize = 256;
    name.starts_with(|char: char| char.is_ascii_alphanumeric())
        && name.len() <= MAX_SESSION_BYTES
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.:/@".contains(&byte))
}
