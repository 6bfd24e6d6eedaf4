//! How much happened. A proof in which nothing happened proves nothing.

use std::collections::BTreeMap;
use std::fmt;

use crate::history::History;
use crate::operation::Answer;

/// How often each operation was done, and what else came of calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Calls in all.
    pub calls: usize,
    /// Done, by operation.
    pub done: BTreeMap<&'static str, usize>,
    /// Done through the program.
    pub through_program: usize,
    /// Answered from memory of an earlier call under the same key.
    pub repeated: usize,
    /// Refused for lack of authority.
    pub fenced: usize,
    /// Refused otherwise.
    pub refused: usize,
    /// Blocked by a rule.
    pub blocked: usize,
    /// The store failed.
    pub failed: usize,
    /// Outcome unknown to the caller, by answer or by death.
    pub open: usize,
}

impl Tally {
    /// Counts.
    pub fn of(history: &History) -> Self {
        let mut tally = Self {
            calls: history.calls.len(),
            ..Self::default()
        };
        for made in history.calls.values() {
            match made.answer() {
                Some(Answer::Done(receipt)) => {
                    *tally.done.entry(made.call.operation.name()).or_default() += 1;
                    tally.repeated += usize::from(receipt.repeated);
                    tally.through_program += usize::from(made.call.through_program);
                }
                Some(Answer::Saw(_)) => {
                    *tally.done.entry(made.call.operation.name()).or_default() += 1;
                    tally.through_program += usize::from(made.call.through_program);
                }
                Some(Answer::Refused(refused)) if refused.fenced => tally.fenced += 1,
                Some(Answer::Refused(_)) => tally.refused += 1,
                Some(Answer::Blocked) => tally.blocked += 1,
                Some(Answer::Failed(_)) => tally.failed += 1,
                Some(Answer::Unknown(_)) | None => tally.open += 1,
            }
        }
        tally
    }
}

/// The least that must have happened for a proof to count.
#[derive(Debug, Clone, Copy)]
pub struct Least {
    /// So much was done in all.
    pub done: usize,
    /// Every operation was done so often.
    pub of_each: usize,
    /// So many holders were turned away.
    pub fenced: usize,
    /// So much was done through the program.
    pub through_program: usize,
}

/// What every run does, chaos or not.
const USUAL: [&str; 26] = [
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
    "look",
    "list",
];

/// What it does a tenth as often, because much has to come together for it.
const SELDOM: [&str; 2] = ["withdraw", "constrain"];

impl Least {
    /// What is missing; nothing if enough happened.
    pub fn missing(&self, tally: &Tally) -> Vec<String> {
        let usual = USUAL.map(|name| (name, self.of_each));
        let seldom = SELDOM.map(|name| (name, self.of_each / 10));
        let mut missing = Vec::new();
        for (name, least) in usual.into_iter().chain(seldom) {
            let done = tally.done.get(name).copied().unwrap_or(0);
            if done < least {
                missing.push(format!(
                    "`{name}` was done {done} times of at least {least}"
                ));
            }
        }
        for (what, is, least) in [
            ("anything was done", tally.done.values().sum(), self.done),
            ("a holder was turned away", tally.fenced, self.fenced),
            (
                "the program did something",
                tally.through_program,
                self.through_program,
            ),
        ] {
            if is < least {
                missing.push(format!("{what} {is} times of at least {least}"));
            }
        }
        missing
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let done: usize = self.done.values().sum();
        write!(
            f,
            "{} calls: {done} done ({} through the program, {} repeated under their key), {} refused, \
             {} fenced, {} blocked, {} failed, {} unanswered",
            self.calls,
            self.through_program,
            self.repeated,
            self.refused,
            self.fenced,
            self.blocked,
            self.failed,
            self.open
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
