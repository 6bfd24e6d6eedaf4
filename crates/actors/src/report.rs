//! What an actor gives: what it says it did, never what is believed.

use plan::decision::ReportedDecision;
use plan::stage::Category;
use plan::{Epoch, Span};
use serde::Serialize;

use crate::excerpt::Excerpt;

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// How it ended.
    pub outcome: Outcome,
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
pub enum Outcome {
    /// It is done; in execute the sandbox holds the result.
    Done,
    /// It failed.
    Failed {
        /// What sort of failure.
        category: Category,
        /// What happened, for people.
        message: String,
    },
    /// A person has to answer first.
    Asks {
        /// What.
        question: String,
        /// Given up after.
        patience: Option<Span>,
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
    pub fn of(outcome: Outcome) -> Self {
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
            ..Self::of(Outcome::Done)
        }
    }

    /// A run that failed.
    pub fn failed(category: Category, message: impl Into<String>) -> Self {
        Self::of(Outcome::Failed {
            category,
            message: message.into(),
        })
    }

    /// The last of what it said, in a line.
    pub fn last_words(&self) -> Option<String> {
        const MOST: usize = 500;
        let ending = Excerpt::of(self.summary.as_deref()?).ending(MOST);
        let words: Vec<&str> = ending.split_whitespace().collect();
        (!words.is_empty()).then(|| words.join(" "))
    }
}
