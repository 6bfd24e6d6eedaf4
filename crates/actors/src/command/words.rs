//! The words that a program is started with.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use plan::Phase;
use plan::actor::CommandLine;

use crate::check::{PROMPT, SANDBOX, SESSION};
use crate::{Ambient, Assignment, Earlier, prompt, prompt_to_resume};

/// Longest argument: systems take little more in one.
const LONGEST_ARGUMENT: usize = 100 * 1024;

/// How a program is started this time.
pub(super) struct Form<'a> {
    /// Its words, not yet replaced.
    words: &'a [String],
    /// What it is told.
    pub(super) prompt: String,
    session: Option<&'a str>,
}

impl<'a> Form<'a> {
    /// The form for an assignment. None if the program has nothing to do in strategize.
    ///
    /// A conversation is gone on with only in execute: in strategize an agent is held to reading by the
    /// words of its command, and those to resume with are others.
    pub(super) fn choose(
        line: &'a CommandLine,
        assignment: &'a Assignment,
        strategy_wanted: bool,
    ) -> Option<Self> {
        let afresh = |words| Self::afresh(words, assignment);
        if assignment.phase == Phase::Strategize {
            return match &line.strategize {
                Some(words) => Some(afresh(words)),
                None => strategy_wanted.then(|| afresh(&line.command)),
            };
        }
        let earlier = assignment.earlier.as_ref();
        let session = earlier.map(|earlier| earlier.session.as_str());
        Some(
            match (&line.resume, session.filter(|name| is_session(name))) {
                (Some(words), Some(session)) => Self {
                    words,
                    prompt: prompt_to_resume(assignment),
                    session: Some(session),
                },
                (_, _) => afresh(&line.command),
            },
        )
    }

    /// The form to fall back to if a conversation cannot be gone on with, as when the agent forgot it. None
    /// if this is none that goes on with one.
    pub(super) fn without_conversation(
        &self,
        line: &'a CommandLine,
        assignment: &'a Assignment,
    ) -> Option<Self> {
        let session = self.session;
        session.map(|_| Self::afresh(&line.command, assignment))
    }

    /// The conversation that is gone on with, if one is.
    pub(super) fn conversation(&self, assignment: &Assignment) -> Option<Earlier> {
        let earlier = assignment.earlier.clone();
        earlier.filter(|_| self.session.is_some())
    }

    fn afresh(words: &'a [String], assignment: &Assignment) -> Self {
        Self {
            words,
            prompt: prompt(assignment),
            session: None,
        }
    }

    /// The words as they are passed on, each placeholder replaced whole, and `~/` at the beginning of a
    /// word by the home directory.
    pub(super) fn words(&self, sandbox: &Path, ambient: &Ambient) -> Result<Vec<OsString>, String> {
        self.words
            .iter()
            .map(|word| match word.as_str() {
                PROMPT if self.prompt.len() > LONGEST_ARGUMENT => Err(format!(
                    "the prompt has {} bytes, more than fit in an argument: define the actor with \
                     `stdin: prompt` and without `{PROMPT}`",
                    self.prompt.len()
                )),
                PROMPT => Ok(OsString::from(&self.prompt)),
                SANDBOX => Ok(sandbox.as_os_str().to_owned()),
                SESSION => match self.session {
                    Some(session) => Ok(OsString::from(session)),
                    None => Err(format!("there is no conversation for `{SESSION}` to name")),
                },
                word => ambient
                    .expand(word)
                    .map(PathBuf::into_os_string)
                    .ok_or_else(|| format!("there is no home directory for `{word}`")),
            })
            .collect()
    }
}

/// Can a conversation be called that? The name comes from the agent and becomes one of its arguments again:
/// it must not be taken for an option.
pub(super) fn is_session(name: &str) -> bool {
    const LONGEST: usize = 256;
    name.starts_with(|char: char| char.is_ascii_alphanumeric())
        && name.len() <= LONGEST
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.:/@".contains(&byte))
}
