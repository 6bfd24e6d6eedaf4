//! Checks that the calls on one plan have an order that explains every answer.
//!
//! Version `v` took effect at some time `c(v)`, and `c` increases with `v`. Each answer bounds it:
//!
//! - the call that wrote `v` was made before `c(v)` and, if it was answered, answered after it;
//! - a call that observed `v` was answered after `c(v)` and made before `c(v + 1)`.
//!
//! Carry the lower bounds forward and the upper bounds back. Such times exist if and only if no lower bound then exceeds
//! its upper bound. This is linearizability of a register whose states are numbered, decided in one pass.

use super::store_contents::StoredPlan;
use super::{Violation, ViolationKind, calling_client};
use crate::history::{CallHistory, MonotonicNanos, RecordedCall};
use crate::operation::{CallAnswer, CallId, ObservedPlan};

/// A bound, and the call that sets it.
type TimeBound = (MonotonicNanos, Option<CallId>);

const NO_LOWER_BOUND: TimeBound = (0, None);
const NO_UPPER_BOUND: TimeBound = (MonotonicNanos::MAX, None);

/// Bounds for the time at which each version took effect. The vectors also have entries for version 0 and for the
/// version after the last one.
struct VersionTimeline {
    earliest: Vec<TimeBound>,
    latest: Vec<TimeBound>,
}

/// Checks all calls that concern one plan.
pub fn check_timeline(
    history: &CallHistory,
    plan: &StoredPlan,
    calls: &[&RecordedCall],
) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut timeline = VersionTimeline {
        earliest: vec![NO_LOWER_BOUND; plan.statuses.len() + 2],
        latest: vec![NO_UPPER_BOUND; plan.statuses.len() + 2],
    };
    for (index, event) in plan.events.iter().take(plan.statuses.len()).enumerate() {
        let call = calling_client(&event.by).and_then(|id| history.calls.get(&id));
        if let Some(call) = call {
            timeline.add_write(index + 1, call);
        }
    }
    for recorded in calls {
        if let Some((_, answer)) = &recorded.answered {
            match answer {
                CallAnswer::Observed(plans) => {
                    for observed in plans
                        .iter()
                        .filter(|observed| observed.plan_id == plan.id())
                    {
                        found.extend(timeline.add_observation(plan, recorded, observed));
                    }
                }
                CallAnswer::Done(receipt) => {
                    if let Some(version) = receipt.version
                        && receipt.plan_id == Some(plan.id())
                        && !receipt.repeated
                    {
                        found.extend(timeline.add_done_answer(plan, recorded, version));
                    }
                }
                CallAnswer::Blocked
                | CallAnswer::Refused(_)
                | CallAnswer::Failed(_)
                | CallAnswer::Unknown(_) => {}
            }
        }
    }
    found.extend(timeline.propagate_bounds(plan));
    for recorded in calls {
        found.extend(timeline.check_refusal(plan, recorded));
    }
    found
}

impl VersionTimeline {
    fn raise_lower_bound(&mut self, version: usize, at: MonotonicNanos, call: CallId) {
        let bound = &mut self.earliest[version];
        if at > bound.0 {
            *bound = (at, Some(call));
        }
    }

    fn lower_upper_bound(&mut self, version: usize, at: MonotonicNanos, call: CallId) {
        let bound = &mut self.latest[version];
        if at < bound.0 {
            *bound = (at, Some(call));
        }
    }

    fn add_write(&mut self, version: usize, recorded: &RecordedCall) {
        self.raise_lower_bound(version, recorded.called_at, recorded.call.id);
        if let Some((at, CallAnswer::Done(_))) = recorded.answered {
            self.lower_upper_bound(version, at, recorded.call.id);
        }
    }

    /// A call read the plan at a version.
    fn add_observation(
        &mut self,
        plan: &StoredPlan,
        recorded: &RecordedCall,
        observed: &ObservedPlan,
    ) -> Option<Violation> {
        let report = |kind, message| {
            Some(new_violation(
                plan,
                kind,
                message,
                &[recorded.call.id],
                observed.version,
            ))
        };
        let Some(status) = plan.status_at(observed.version) else {
            let message = format!("version {} was read but never existed", observed.version);
            return report(ViolationKind::NotLinearizable, message);
        };
        self.bound_by_observation(observed.version, recorded);
        let stage = status.stage_text();
        if stage != observed.stage || observed.epoch.is_some_and(|epoch| epoch != status.epoch) {
            let message = format!(
                "version {} was read as {} with epoch {:?}, but is {stage} with epoch {}",
                observed.version, observed.stage, observed.epoch, status.epoch
            );
            return report(ViolationKind::NotLinearizable, message);
        }
        let holder = status.holder;
        match observed.lease {
            Some(lease) if lease != holder => {
                let message = format!(
                    "version {} was read with the lease of {lease:?}, but its holder is {holder:?}",
                    observed.version
                );
                report(ViolationKind::PartialCommit, message)
            }
            _ => None,
        }
    }

    /// A call was answered `done` with a version.
    fn add_done_answer(
        &mut self,
        plan: &StoredPlan,
        recorded: &RecordedCall,
        version: u64,
    ) -> Option<Violation> {
        let operation = &recorded.call.operation;
        let Some(status) = plan.status_at(version) else {
            let message = format!("the answer has version {version}, which never existed");
            return Some(new_violation(
                plan,
                ViolationKind::NotLinearizable,
                message,
                &[recorded.call.id],
                version,
            ));
        };
        if operation.writes_event() {
            if recorded.call.through_program
                && let Ok(index) = usize::try_from(version)
            {
                self.add_write(index, recorded);
            }
            return None;
        }
        // It wrote other rows while the plan was at this version.
        self.bound_by_observation(version, recorded);
        let holder = status.holder;
        if let Some(epoch) = operation.epoch()
            && holder != Some(epoch)
        {
            let message =
                format!("{operation} was done at version {version}, whose holder is {holder:?}");
            return Some(new_violation(
                plan,
                ViolationKind::WriteWithoutLease,
                message,
                &[recorded.call.id],
                version,
            ));
        }
        None
    }

    fn bound_by_observation(&mut self, version: u64, recorded: &RecordedCall) {
        let (Ok(version), Some((answered_at, _))) = (usize::try_from(version), &recorded.answered)
        else {
            return;
        };
        self.lower_upper_bound(version, *answered_at, recorded.call.id);
        self.raise_lower_bound(version + 1, recorded.called_at, recorded.call.id);
    }

    /// Carries the bounds through, and reports the first version whose bounds contradict each other.
    fn propagate_bounds(&mut self, plan: &StoredPlan) -> Option<Violation> {
        for version in 1..self.earliest.len() {
            let before = self.earliest[version - 1];
            if before.0 > self.earliest[version].0 {
                self.earliest[version] = before;
            }
        }
        for version in (1..self.latest.len()).rev() {
            let after = self.latest[version];
            if after.0 < self.latest[version - 1].0 {
                self.latest[version - 1] = after;
            }
        }
        let version = (1..=plan.statuses.len())
            .find(|version| self.earliest[*version].0 > self.latest[*version].0)?;
        let calls: Vec<CallId> = [self.latest[version].1, self.earliest[version].1]
            .into_iter()
            .flatten()
            .collect();
        let message = format!(
            "version {version} must exist before the first of these calls was answered, but not \
             before the last of them was made"
        );
        Some(new_violation(
            plan,
            ViolationKind::NotLinearizable,
            message,
            &calls,
            version as u64,
        ))
    }

    /// Checks that at some time during the call the plan was as the refusal says.
    fn check_refusal(&self, plan: &StoredPlan, recorded: &RecordedCall) -> Option<Violation> {
        let Some((answered_at, CallAnswer::Refused(refusal))) = &recorded.answered else {
            return None;
        };
        if refusal.plan_missing && self.latest[1].0 < recorded.called_at {
            let message = format!(
                "{} did not find the plan, which existed",
                recorded.call.operation
            );
            return Some(new_violation(
                plan,
                ViolationKind::NotLinearizable,
                message,
                &[recorded.call.id],
                1,
            ));
        }
        if refusal.stage.is_none() && refusal.epoch.is_none() {
            return None;
        }
        // The versions that may have been current during the call: the next one may have come after the call was made,
        // and they may have come before it was answered. Both bounds increase with the version.
        let first = self
            .latest
            .partition_point(|bound| bound.0 < recorded.called_at);
        let end = self
            .earliest
            .partition_point(|bound| bound.0 <= *answered_at);
        let candidates = first.saturating_sub(1).max(1)..end.min(plan.statuses.len() + 1);
        let is_explained = candidates.into_iter().any(|version| {
            let status = &plan.statuses[version - 1];
            let stage = status.stage_text();
            refusal
                .stage
                .as_ref()
                .is_none_or(|refused| *refused == stage)
                && refusal.epoch.is_none_or(|refused| refused == status.epoch)
        });
        if is_explained {
            return None;
        }
        let message = format!(
            "{} was refused ({}), but that was never true during the call",
            recorded.call.operation, refusal.reason
        );
        Some(new_violation(
            plan,
            ViolationKind::NotLinearizable,
            message,
            &[recorded.call.id],
            plan.version_count(),
        ))
    }
}

fn new_violation(
    plan: &StoredPlan,
    kind: ViolationKind,
    message: String,
    calls: &[CallId],
    version: u64,
) -> Violation {
    Violation {
        kind,
        message,
        plan_id: Some(plan.id()),
        calls: calls.to_vec(),
        versions: Some(version.saturating_sub(1)..=version + 1),
    }
}
