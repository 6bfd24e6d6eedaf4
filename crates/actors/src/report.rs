//! The report of a run: what the agent claims, not what is believed.

use plan::decision::ReportedDecision;
use plan::stage::FailureCategory;
use plan::transcript::Usage;
use plan::{Epoch, Span};

use crate::excerpt::TextExcerpt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub outcome: ReportOutcome,
    /// In strategize the strategy, in execute a summary, in the agent's words.
    pub summary: Option<String>,
    pub decisions: Vec<ReportedDecision>,
    /// As reported by the agent.
    pub usage: Usage,
    /// Lost runs whose usage is included in `usage`, because the agent counts per session.
    pub includes_usage_of: Vec<Epoch>,
    /// The agent's own id for the session, to resume it later.
    pub session: Option<String>,
    /// How the agent's program exited; `None` if it was ended by a signal, did not start or is not a program.
    pub exit_code: Option<i32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReportOutcome {
    /// In execute, the sandbox has the result.
    Done,
    Failed {
        category: FailureCategory,
        /// What happened, for people.
        message: String,
    },
    /// A person has to answer first.
    NeedsAnswer {
        question: String,
        /// How long to wait for the answer.
        timeout: Option<Span>,
    },
    Stopped,
}

impl Report {
    /// A report with only an outcome.
    pub fn with_outcome(outcome: ReportOutcome) -> Self {
        Self {
            outcome,
            summary: None,
            decisions: Vec::new(),
            usage: Usage::default(),
            includes_usage_of: Vec::new(),
            session: None,
            exit_code: None,
        }
    }

    /// A successful run: in strategize the strategy, in execute a summary.
    pub fn done(summary: impl Into<String>) -> Self {
        Self {
            summary: Some(summary.into()),
            ..Self::with_outcome(ReportOutcome::Done)
        }
    }

    pub fn failed(category: FailureCategory, message: impl Into<String>) -> Self {
        Self::with_outcome(ReportOutcome::Failed {
            category,
            message: message.into(),
        })
    }

    /// The end of the summary, in one line.
    pub fn summary_tail(&self) -> Option<String> {
        const MAX_TAIL_BYTES: usize = 500;
        let ending = TextExcerpt::from_text(self.summary.as_deref()?).last_lines(MAX_TAIL_BYTES);
        let words: Vec<&str> = ending.split_whitespace().collect();
        (!words.is_empty()).then(|| words.join(" "))
    }
}
