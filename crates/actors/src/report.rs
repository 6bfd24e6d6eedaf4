//! What an actor gives: what it says it did, never what is believed.

use plan::decision::ReportedDecision;
use plan::stage::FailureCategory;
use plan::{Epoch, Span};
use serde::Serialize;

use crate::excerpt::TextExcerpt;

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// How it ended.
    pub outcome: ReportOutcome,
    /// What was found or done, in its words: in strategize the strategy, in execute a summary.
    pub summary: Option<String>,
    /// What was decided.
    pub decisions: Vec<ReportedDecision>,
    /// What it says it used.
    pub usage: Usage,
    /// Lost runs of the same conversation whose use is part of `usage`, because the agent counts by conversation.
    pub includes_usage_of: Vec<Epoch>,
    /// Its own name for the conversation, to be resumed later.
    pub session: Option<String>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReportOutcome {
    /// It is done; in execute the sandbox holds the result.
    Done,
    /// It failed.
    Failed {
        /// What sort of failure.
        category: FailureCategory,
        /// What happened, for people.
        message: String,
    },
    /// A person has to answer first.
    NeedsAnswer {
        /// What.
        question: String,
        /// Given up after.
        timeout: Option<Span>,
    },
    /// It was asked to stop, and did.
    Stopped,
}

/// What a run used, as far as it said so.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Tokens read.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// Millionths of a US dollar.
    pub cost_micros: u64,
}

impl Report {
    /// A run that ended like this and said nothing else.
    pub fn with_outcome(outcome: ReportOutcome) -> Self {
        Self {
            outcome,
            summary: None,
            decisions: Vec::new(),
            usage: Usage::default(),
            includes_usage_of: Vec::new(),
            session: None,
        }
    }

    /// A run that is done and says this of it: in strategize the strategy, in execute a summary.
    pub fn done(summary: impl Into<String>) -> Self {
        Self {
            summary: Some(summary.into()),
            ..Self::with_outcome(ReportOutcome::Done)
        }
    }

    /// A run that failed.
    pub fn failed(category: FailureCategory, message: impl Into<String>) -> Self {
        Self::with_outcome(ReportOutcome::Failed {
            category,
            message: message.into(),
        })
    }

    /// The last of what it said, in a line.
    pub fn summary_tail(&self) -> Option<String> {
        const MAX_TAIL_BYTES: usize = 500;
        let ending = TextExcerpt::from_text(self.summary.as_deref()?).last_lines(MAX_TAIL_BYTES);
        let words: Vec<&str> = ending.split_whitespace().collect();
        (!words.is_empty()).then(|| words.join(" "))
    }
}
