//! Counts calls and answers. A trial in which too little happened proves nothing.

use std::collections::BTreeMap;
use std::fmt;

use crate::history::CallHistory;
use crate::operation::CallAnswer;

/// The number of calls by answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallCounts {
    pub calls: usize,
    /// Successful calls, by operation.
    pub done: BTreeMap<&'static str, usize>,
    /// Successful calls through the program.
    pub through_program: usize,
    /// Answers that repeat the outcome of an earlier call with the same key.
    pub repeated: usize,
    /// Refused because of an old lease epoch.
    pub fenced: usize,
    /// Refused for another reason.
    pub refused: usize,
    pub blocked: usize,
    /// Failures of the store.
    pub failed: usize,
    /// Calls without a known outcome: the store does not know it, or the client was killed.
    pub unknown: usize,
}

impl CallCounts {
    pub fn from_history(history: &CallHistory) -> Self {
        let mut counts = Self {
            calls: history.calls.len(),
            ..Self::default()
        };
        for recorded in history.calls.values() {
            match recorded.answer() {
                Some(CallAnswer::Done(receipt)) => {
                    *counts
                        .done
                        .entry(recorded.call.operation.name())
                        .or_default() += 1;
                    counts.repeated += usize::from(receipt.repeated);
                    counts.through_program += usize::from(recorded.call.through_program);
                }
                Some(CallAnswer::Observed(_)) => {
                    *counts
                        .done
                        .entry(recorded.call.operation.name())
                        .or_default() += 1;
                    counts.through_program += usize::from(recorded.call.through_program);
                }
                Some(CallAnswer::Refused(refusal)) if refusal.fenced => counts.fenced += 1,
                Some(CallAnswer::Refused(_)) => counts.refused += 1,
                Some(CallAnswer::Blocked) => counts.blocked += 1,
                Some(CallAnswer::Failed(_)) => counts.failed += 1,
                Some(CallAnswer::Unknown(_)) | None => counts.unknown += 1,
            }
        }
        counts
    }
}

/// The minimum counts for a trial to prove something.
#[derive(Debug, Clone, Copy)]
pub struct MinimumCounts {
    /// Successful calls in total.
    pub done: usize,
    /// Successful calls of each operation.
    pub of_each: usize,
    /// Calls refused because of an old lease epoch.
    pub fenced: usize,
    /// Successful calls through the program.
    pub through_program: usize,
}

/// Operations that occur in every trial.
const COMMON_OPERATIONS: [&str; 26] = [
    "use",
    "use and claim",
    "claim",
    "renew",
    "release",
    "complete",
    "fail",
    "ask",
    "answer",
    "expire",
    "execute",
    "approve",
    "apply",
    "prepare",
    "retry",
    "revise",
    "revert",
    "cancel",
    "reclaim",
    "open",
    "record",
    "seal",
    "add rule",
    "remove rule",
    "show",
    "list",
];

/// Operations that occur a tenth as often, because they need a rare state.
const RARE_OPERATIONS: [&str; 2] = ["withdraw", "constrain"];

impl MinimumCounts {
    /// Lists the counts that are too low.
    pub fn find_missing(&self, counts: &CallCounts) -> Vec<String> {
        let common = COMMON_OPERATIONS.map(|name| (name, self.of_each));
        let rare = RARE_OPERATIONS.map(|name| (name, self.of_each / 10));
        let mut missing = Vec::new();
        for (name, minimum) in common.into_iter().chain(rare) {
            let done = counts.done.get(name).copied().unwrap_or(0);
            if done < minimum {
                missing.push(format!(
                    "{done} calls of `{name}`, expected at least {minimum}"
                ));
            }
        }
        for (name, count, minimum) in [
            ("successful calls", counts.done.values().sum(), self.done),
            ("fenced calls", counts.fenced, self.fenced),
            (
                "successful calls through the program",
                counts.through_program,
                self.through_program,
            ),
        ] {
            if count < minimum {
                missing.push(format!("{count} {name}, expected at least {minimum}"));
            }
        }
        missing
    }
}

impl fmt::Display for CallCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let done: usize = self.done.values().sum();
        write!(
            f,
            "{} calls: {done} done ({} through the program, {} repeated with their key), {} refused, \
             {} fenced, {} blocked, {} failed, {} without a known outcome",
            self.calls,
            self.through_program,
            self.repeated,
            self.refused,
            self.fenced,
            self.blocked,
            self.failed,
            self.unknown
        )?;
        let mut names: Vec<String> = self
            .done
            .iter()
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        names.sort();
        write!(f, "\n  {}", names.join(", "))
    }
}
