//! What a run needs besides its assignment: directories, limits and callbacks.

use std::path::PathBuf;
use std::time::Duration;

use plan::decision::ReportedDecision;
use plan::permission_question::ProposedToolCall;
use plan::transcript::{TranscriptContent, Usage};
use plan::{Caller, Profile};
use sandbox::Stop;

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
    /// Records a decision of the agent in its plan, and fails with the reason. Without it, decisions are recorded only
    /// at the end of the run.
    pub record_decision: Option<&'a RecordDecisionFn<'a>>,
    /// Receives the transcript while the agent works, from any thread, in order.
    pub on_progress: &'a (dyn Fn(RunProgress) + Send + Sync),
}

pub type AskPersonFn<'a> = dyn Fn(ProposedToolCall, &Stop) -> PersonDecision + Send + Sync + 'a;

pub type RecordDecisionFn<'a> = dyn Fn(ReportedDecision) -> Result<(), String> + Send + Sync + 'a;

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
