//! Compares what the players were told with what the store holds.
//!
//! A plan is a register whose every write leaves numbered events, and every event names the call that made
//! it. So the order in which the writes took effect need not be guessed: the log is the witness, and one
//! pass over it decides whether the history is linearizable (see `timeline.rs`), where a checker that knows
//! only calls and answers would have to search.

pub mod stored;

mod entries;
mod legal;
mod readers;
mod tally;
mod timeline;
mod told;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

use plan::{Caller, PlanId};

use crate::history::{History, Made};
use crate::operation::{Answer, CallId};
pub use stored::Stored;
pub use tally::{Least, Tally};

/// Under this name the referee acts: sets up, and brings to an end what the players left.
pub const REFEREE: &str = "referee";

/// Something that must never happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// What sort.
    pub kind: Kind,
    /// What happened.
    pub what: String,
    /// The plan concerned.
    pub plan: Option<PlanId>,
    /// The calls that show it, and no others.
    pub calls: Vec<CallId>,
    /// The events that show it.
    pub versions: Option<RangeInclusive<u64>>,
}

/// Sorts of violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// An event that must not follow the one before it.
    Illegal,
    /// Something written by a holder whose authority was over.
    Fenced,
    /// A call took effect twice, or partly, or though its caller was told that it did not.
    Told,
    /// No order of the calls explains the answers.
    Order,
    /// A plan and what is stored beside it do not belong together.
    Half,
    /// A change is lost, doubled or in the wrong changeset.
    Entry,
    /// A reader of the log missed an event, saw it twice or out of order.
    Reader,
    /// A plan that nothing brings to an end.
    Stuck,
    /// A chain is broken, or replay does not yield the stored plan.
    Chain,
}

impl Kind {
    fn title(self) -> &'static str {
        match self {
            Self::Chain => "the log is damaged",
            Self::Illegal => "a transition that must not happen",
            Self::Fenced => "written without authority",
            Self::Told => "an answer that is not true",
            Self::Order => "not linearizable",
            Self::Half => "half a transition",
            Self::Entry => "a change in the wrong place",
            Self::Reader => "a reader of the log was misled",
            Self::Stuck => "a plan that nothing moves",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title())
    }
}

/// The call that made an event; `None` if it came through the program, or from the referee.
fn author(by: &Caller) -> Option<CallId> {
    let (Caller::Person(name) | Caller::Worker(name)) = by;
    name.parse().ok()
}

/// Everything that is wrong; nothing if all is well.
pub fn check(history: &History, stored: &Stored) -> Vec<Violation> {
    let mut found = Vec::new();
    let about = calls_by_plan(history);
    let nobody = Vec::new();
    found.extend(lost(&about, stored));
    for plan in stored.plans.values() {
        found.extend(legal::check(plan));
        let calls = about.get(&plan.id()).unwrap_or(&nobody);
        found.extend(timeline::check(history, plan, calls));
    }
    found.extend(told::check(history, stored));
    found.extend(entries::check(history, stored));
    found.extend(readers::check(history, stored));
    found.extend(stored.problems.iter().map(|problem| Violation {
        kind: Kind::Chain,
        what: problem.clone(),
        plan: None,
        calls: Vec::new(),
        versions: None,
    }));
    // What explains most comes first.
    found.sort_by_key(|violation| violation.kind);
    found
}

/// The calls that say something about a plan.
fn calls_by_plan(history: &History) -> BTreeMap<PlanId, Vec<&Made>> {
    let mut about: BTreeMap<PlanId, Vec<&Made>> = BTreeMap::new();
    for made in history.calls.values() {
        match (made.about(), made.answer()) {
            (Some(plan), _) => about.entry(plan).or_default().push(made),
            (None, Some(Answer::Saw(plans))) => {
                for seen in plans {
                    about.entry(seen.plan).or_default().push(made);
                }
            }
            (None, _) => {}
        }
    }
    about
}

/// Plans that somebody was told of, and that are gone.
fn lost(about: &BTreeMap<PlanId, Vec<&Made>>, stored: &Stored) -> Vec<Violation> {
    let mut found = Vec::new();
    for (plan, calls) in about {
        let told = |made: &&&Made| {
            let answer = made.answer();
            matches!(answer, Some(Answer::Done(_) | Answer::Saw(_)))
        };
        if let Some(first) = calls.iter().find(told)
            && !stored.plans.contains_key(plan)
        {
            found.push(Violation {
                kind: Kind::Told,
                what: "somebody was told of a plan, and it is not there".to_owned(),
                plan: Some(*plan),
                calls: vec![first.call.id],
                versions: None,
            });
        }
    }
    found
}

/// A violation as a person reads it: what happened, the calls in the order of time, the events.
pub fn tell(violation: &Violation, history: &History, stored: &Stored) -> String {
    let mut lines = vec![format!("{}: {}", violation.kind, violation.what)];
    if let Some(plan) = violation.plan {
        lines.push(format!("  plan {plan}"));
    }
    let mut calls: Vec<&Made> = violation
        .calls
        .iter()
        .filter_map(|id| history.calls.get(id))
        .collect();
    calls.sort_by_key(|made| made.called_at);
    let start = calls.first().map_or(0, |made| made.called_at);
    #[expect(
        clippy::cast_precision_loss,
        reason = "shown to a thousandth of a millisecond"
    )]
    let ms = |at: u64| (at.saturating_sub(start)) as f64 / 1e6;
    for made in calls {
        let by = if made.call.through_program {
            " (program)"
        } else {
            ""
        };
        let asked = format!("{}{by} {}", made.call.id, made.call.operation);
        let line = match &made.answered {
            Some((at, answer)) => format!(
                "  {:>10.3} – {:.3} ms  {asked}: {answer}",
                ms(made.called_at),
                ms(*at)
            ),
            None => format!(
                "  {:>10.3} –        ms  {asked}: killed",
                ms(made.called_at)
            ),
        };
        lines.push(line);
    }
    let events = violation
        .plan
        .and_then(|plan| stored.plans.get(&plan))
        .zip(violation.versions.clone());
    if let Some((plan, versions)) = events {
        for recorded in &plan.events {
            if versions.contains(&recorded.version.0) {
                lines.push(format!(
                    "  event {:>4}  {} by {}",
                    recorded.version,
                    recorded.event.kind(),
                    recorded.by
                ));
            }
        }
    }
    lines.join("\n")
}
