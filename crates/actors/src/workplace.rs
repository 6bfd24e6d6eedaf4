//! What a run needs besides its assignment: directories, limits and callbacks.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use plan::permission_question::ProposedToolCall;
use plan::transcript::{TranscriptContent, Usage};
use plan::{Caller, Profile};

pub struct Workplace<'a> {
    /// The directory of this run: assignment, transcript, report. No other run writes there.
    pub run_dir: PathBuf,
    /// What a confined agent must be able to read besides its sandboxes: the objects they borrow.
    pub readable_paths: Vec<PathBuf>,
    /// Locked by the processes of the run until all of them are gone.
    pub lock_files: Vec<PathBuf>,
    pub time_limit: Option<Duration>,
    /// A strategy was requested: work in strategize even if the actor has no separate command for
    /// it.
    pub strategy_wanted: bool,
    /// Of the plan. It decides tool calls that an agent asks for in a run that is not confined.
    pub profile: Profile,
    pub stop: Stop,
    /// Asks a person about a tool call and waits for the answer, or until the stop is requested. Without it,
    /// nobody can be asked.
    pub ask_person: Option<&'a AskPersonFn<'a>>,
    /// Receives the transcript while the agent works, from any thread, in order.
    pub on_progress: &'a (dyn Fn(RunProgress) + Send + Sync),
}

pub type AskPersonFn<'a> = dyn Fn(ProposedToolCall, &Stop) -> PersonDecision + Send + Sync + 'a;

/// What became of a question to a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PersonDecision {
    Allowed {
        by: Caller,
    },
    Rejected {
        by: Caller,
    },
    /// The stop was requested, or the run no longer holds the plan.
    Withdrawn,
    /// The question could not be stored.
    Unavailable(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunProgress {
    Started {
        /// How it is confined, for people.
        isolation: String,
    },
    /// What the agent says and does, without secrets.
    Entry(TranscriptContent),
}

impl RunProgress {
    /// The total usage so far, if this tells it.
    pub fn usage(&self) -> Option<Usage> {
        match self {
            Self::Entry(TranscriptContent::Usage(usage)) => Some(*usage),
            Self::Entry(_) | Self::Started { .. } => None,
        }
    }
}

/// A stop request that several threads can check and wait for.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<(Mutex<bool>, Condvar)>);

impl Stop {
    pub fn request(&self) {
        let (requested, condvar) = &*self.0;
        *requested.lock().unwrap_or_else(PoisonError::into_inner) = true;
        condvar.notify_all();
    }

    pub fn is_requested(&self) -> bool {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the request, at most `timeout`. Returns whether it was made.
    pub fn wait_for_request(&self, timeout: Duration) -> bool {
        let (requested, condvar) = &*self.0;
        let deadline = Instant::now() + timeout;
        let mut requested = requested.lock().unwrap_or_else(PoisonError::into_inner);
        while !*requested {
            let remaining = deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return false;
            }
            let waited = condvar.wait_timeout(requested, remaining);
            requested = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}
