//! Compares the answers that clients got with the contents of the store.
//!
//! A plan is a register whose every write leaves numbered events, and every event names the call that wrote it. So the
//! log shows in which order the writes took effect, and one pass over it decides whether the history is linearizable (see
//! `timeline.rs`). A checker that only knows calls and answers would have to search for an order.

pub mod store_contents;

mod call_counts;
mod changesets;
mod effects;
mod log_readers;
mod timeline;
mod transitions;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

use plan::{Caller, PlanId};

use crate::history::{CallHistory, RecordedCall};
use crate::operation::{CallAnswer, CallId};
pub use call_counts::{CallCounts, MinimumCounts};
pub use store_contents::StoreContents;

/// The caller name of the harness itself, which sets up the trial and drains the plans at the end.
pub const HARNESS_CALLER: &str = "harness";

/// Something that must never happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub kind: ViolationKind,
    pub message: String,
    pub plan_id: Option<PlanId>,
    /// The calls that show it, and no others.
    pub calls: Vec<CallId>,
    /// The events that show it.
    pub versions: Option<RangeInclusive<u64>>,
}

/// The kinds of violation, those that explain most first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ViolationKind {
    /// An event that must not follow the one before it.
    IllegalTransition,
    /// A write by a holder whose lease had ended.
    WriteWithoutLease,
    /// A call took effect twice, or partly, or although its caller got an error.
    WrongAnswer,
    /// No order of the calls explains the answers.
    NotLinearizable,
    /// A plan and its lease contradict each other.
    PartialCommit,
    /// A change is lost, duplicated or in the wrong changeset.
    MisplacedChange,
    /// A log reader missed an event, or saw it twice or out of order.
    InconsistentLogRead,
    /// A plan that cannot be brought to a final state.
    StuckPlan,
    /// A hash chain is broken, or replay does not yield the stored plan.
    DamagedLog,
}

impl ViolationKind {
    fn title(self) -> &'static str {
        match self {
            Self::DamagedLog => "damaged log",
            Self::IllegalTransition => "illegal transition",
            Self::WriteWithoutLease => "write without a lease",
            Self::WrongAnswer => "wrong answer",
            Self::NotLinearizable => "not linearizable",
            Self::PartialCommit => "partial commit",
            Self::MisplacedChange => "misplaced change",
            Self::InconsistentLogRead => "inconsistent log read",
            Self::StuckPlan => "stuck plan",
        }
    }
}

impl fmt::Display for ViolationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title())
    }
}

/// The call that wrote an event; `None` if it came through the program or from the harness.
fn calling_client(by: &Caller) -> Option<CallId> {
    let name = by.name();
    name.parse().ok()
}

/// Finds all violations, sorted by kind.
pub fn check_history(history: &CallHistory, stored: &StoreContents) -> Vec<Violation> {
    let mut found = Vec::new();
    let calls_by_plan = group_calls_by_plan(history);
    let no_calls = Vec::new();
    found.extend(find_lost_plans(&calls_by_plan, stored));
    for plan in stored.plans.values() {
        found.extend(transitions::check_transitions(plan));
        let calls = calls_by_plan.get(&plan.id()).unwrap_or(&no_calls);
        found.extend(timeline::check_timeline(history, plan, calls));
    }
    found.extend(effects::check_effects(history, stored));
    found.extend(changesets::check_changesets(history, stored));
    found.extend(log_readers::check_log_readers(history, stored));
    found.extend(stored.problems.iter().map(|problem| Violation {
        kind: ViolationKind::DamagedLog,
        message: problem.clone(),
        plan_id: None,
        calls: Vec::new(),
        versions: None,
    }));
    found.sort_by_key(|violation| violation.kind);
    found
}

/// The calls that refer to or observed each plan.
fn group_calls_by_plan(history: &CallHistory) -> BTreeMap<PlanId, Vec<&RecordedCall>> {
    let mut calls_by_plan: BTreeMap<PlanId, Vec<&RecordedCall>> = BTreeMap::new();
    for recorded in history.calls.values() {
        match (recorded.plan_id(), recorded.answer()) {
            (Some(plan_id), _) => calls_by_plan.entry(plan_id).or_default().push(recorded),
            (None, Some(CallAnswer::Observed(plans))) => {
                for observed in plans {
                    calls_by_plan
                        .entry(observed.plan_id)
                        .or_default()
                        .push(recorded);
                }
            }
            (None, _) => {}
        }
    }
    calls_by_plan
}

/// Finds plans that an answer confirms and that the store does not contain.
fn find_lost_plans(
    calls_by_plan: &BTreeMap<PlanId, Vec<&RecordedCall>>,
    stored: &StoreContents,
) -> Vec<Violation> {
    let mut found = Vec::new();
    for (plan_id, calls) in calls_by_plan {
        let confirms_plan = |recorded: &&&RecordedCall| {
            let answer = recorded.answer();
            matches!(answer, Some(CallAnswer::Done(_) | CallAnswer::Observed(_)))
        };
        if let Some(first) = calls.iter().find(confirms_plan)
            && !stored.plans.contains_key(plan_id)
        {
            found.push(Violation {
                kind: ViolationKind::WrongAnswer,
                message: "an answer mentions a plan that is not stored".to_owned(),
                plan_id: Some(*plan_id),
                calls: vec![first.call.id],
                versions: None,
            });
        }
    }
    found
}

/// Formats a violation with its calls, ordered by time, and its events.
pub fn format_violation(
    violation: &Violation,
    history: &CallHistory,
    stored: &StoreContents,
) -> String {
    let mut lines = vec![format!("{}: {}", violation.kind, violation.message)];
    if let Some(plan_id) = violation.plan_id {
        lines.push(format!("  plan {plan_id}"));
    }
    let mut calls: Vec<&RecordedCall> = violation
        .calls
        .iter()
        .filter_map(|id| history.calls.get(id))
        .collect();
    calls.sort_by_key(|recorded| recorded.called_at);
    let start = calls.first().map_or(0, |recorded| recorded.called_at);
    #[expect(
        clippy::cast_precision_loss,
        reason = "displayed with three decimal places"
    )]
    let ms = |at: u64| (at.saturating_sub(start)) as f64 / 1e6;
    for recorded in calls {
        let suffix = if recorded.call.through_program {
            " (program)"
        } else {
            ""
        };
        let call = format!("{}{suffix} {}", recorded.call.id, recorded.call.operation);
        let line = match &recorded.answered {
            Some((at, answer)) => format!(
                "  {:>10.3} – {:.3} ms  {call}: {answer}",
                ms(recorded.called_at),
                ms(*at)
            ),
            None => format!(
                "  {:>10.3} –        ms  {call}: killed",
                ms(recorded.called_at)
            ),
        };
        lines.push(line);
    }
    let events = violation
        .plan_id
        .and_then(|plan_id| stored.plans.get(&plan_id))
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
