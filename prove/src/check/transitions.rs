//! A second implementation of the table of transitions, independent of the engine's. Checks for each event whether it may
//! follow the state before it, whether its author held the lease, and whether all counters increased.

use plan::Phase;
use plan::event::Event;
use plan::stage::StateName;

use super::store_contents::{RecordedPlanStatus, StoredPlan};
use super::{Violation, ViolationKind, calling_client};
use crate::operation::CallId;

/// Checks every event in the log of a plan.
pub fn check_transitions(plan: &StoredPlan) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut last_claim = None;
    // Includes the first event that could not be replayed, because that one needs a check most.
    for (index, recorded) in plan.events.iter().enumerate().take(plan.statuses.len() + 1) {
        let before = index.checked_sub(1).map(|before| &plan.statuses[before]);
        let mut report = |kind, message: String| {
            let mut calls: Vec<CallId> = last_claim.into_iter().collect();
            calls.extend(calling_client(&recorded.by).filter(|id| Some(*id) != last_claim));
            found.push(Violation {
                kind,
                message,
                plan_id: Some(plan.id()),
                calls,
                versions: Some(recorded.version.0.saturating_sub(2)..=recorded.version.0),
            });
        };
        let stage = before.map_or("nothing".to_owned(), RecordedPlanStatus::stage_text);
        if !is_allowed_after(before, &recorded.event) {
            report(
                ViolationKind::IllegalTransition,
                format!("`{}` follows {stage}", recorded.event.kind()),
            );
        }
        let holder = before.and_then(|before| before.holder);
        // The last allowed reclaim of an expired lease fails the plan, under the next epoch.
        let reclaims = |epoch| {
            matches!(recorded.event, Event::Failed { .. })
                && before.is_some_and(|before| epoch == before.epoch + 1)
        };
        if let Some(epoch) = required_epoch(&recorded.event)
            && holder != Some(epoch)
            && !reclaims(epoch)
        {
            let holder = holder.map_or("nobody".to_owned(), |epoch| format!("epoch {epoch}"));
            report(
                ViolationKind::WriteWithoutLease,
                format!(
                    "epoch {epoch} wrote `{}`, but the holder was {holder}",
                    recorded.event.kind()
                ),
            );
        }
        if let Some(before) = before
            && let Some(after) = plan.statuses.get(index)
            && let Some(counter) = find_decreased_counter(before, after)
        {
            report(
                ViolationKind::IllegalTransition,
                format!("{counter} decreased"),
            );
        }
        if matches!(recorded.event, Event::Claimed { .. }) {
            last_claim = calling_client(&recorded.by);
        }
    }
    let lease = plan.row.lease.as_ref().map(|lease| lease.epoch.0);
    let holder = plan.row.plan.stage().holder().map(|holder| holder.epoch.0);
    if lease != holder {
        let describe =
            |epoch: Option<u64>| epoch.map_or("nobody".to_owned(), |e| format!("epoch {e}"));
        found.push(Violation {
            kind: ViolationKind::PartialCommit,
            message: format!(
                "the holder of the plan is {}, but the holder of its lease is {}",
                describe(holder),
                describe(lease)
            ),
            plan_id: Some(plan.id()),
            calls: Vec::new(),
            versions: Some(plan.version_count().saturating_sub(2)..=plan.version_count()),
        });
    }
    found
}

fn is_allowed_after(before: Option<&RecordedPlanStatus>, event: &Event) -> bool {
    use StateName::{AwaitingInput, Complete, Constrained, Errored, Processing, Queued};
    let Some(before) = before else {
        return matches!(event, Event::Created(_));
    };
    let RecordedPlanStatus {
        phase,
        state,
        prepared,
        ..
    } = *before;
    if before.is_final() {
        return false;
    }
    match event {
        Event::Created(_) => false,
        // Recorded with another event in the same commit.
        Event::GateHeld { .. }
        | Event::DecisionsRecorded { .. }
        | Event::Waived { .. }
        | Event::RuledOn { .. } => true,
        Event::Claimed {
            phase: claimed,
            epoch,
            ..
        } => state == Queued && *claimed == phase && epoch.0 == before.epoch + 1,
        Event::BasesRecorded { .. } => phase != Phase::Apply && state == Processing,
        Event::StrategizeCompleted { .. } => phase == Phase::Strategize && state == Processing,
        Event::ExecuteEntered { .. } => phase == Phase::Strategize && state == Complete,
        Event::ChangesetSealed { .. } => phase == Phase::Execute && state == Processing,
        Event::ExecuteCompleted { .. } => phase == Phase::Execute && state == Processing,
        Event::ResultPicked { .. } => {
            !prepared
                && match phase {
                    Phase::Strategize => false,
                    Phase::Execute => state == Complete,
                    Phase::Apply => matches!(state, Queued | Errored | Constrained),
                }
        }
        Event::Approved { .. } => matches!(
            (phase, state),
            (Phase::Execute, Complete) | (Phase::Apply, Constrained)
        ),
        Event::ApplyEntered { .. } => phase == Phase::Execute && state == Complete,
        Event::ApplyPrepared { .. } | Event::Constrained { .. } => {
            phase == Phase::Apply && state == Processing && !prepared
        }
        Event::ApplyWithdrawn { .. } | Event::Landed { .. } => {
            phase == Phase::Apply && state == Processing && prepared
        }
        Event::Failed { .. } => state == Processing && !prepared,
        Event::Asked { .. } => state == Processing,
        Event::Released { .. } | Event::Reclaimed { .. } => state == Processing,
        Event::RetryScheduled { .. } => state == Errored,
        Event::Retried { .. } => matches!(state, Errored | Constrained),
        Event::Answered { .. } => state == AwaitingInput,
        Event::QuestionExpired => state == AwaitingInput && !prepared,
        Event::PermissionAsked { .. } | Event::PermissionAnswered { .. } => {
            state == Processing && phase != Phase::Apply
        }
        Event::Revised { .. } => {
            !prepared
                && match phase {
                    Phase::Strategize => matches!(state, Complete | Errored),
                    Phase::Execute => matches!(state, Complete | Errored | AwaitingInput),
                    Phase::Apply => state != Processing,
                }
        }
        Event::Reverted { .. } => !prepared && phase != Phase::Strategize,
        Event::Cancelled { .. } => !prepared,
    }
}

/// The epoch in the event, if only the holder may write such an event.
fn required_epoch(event: &Event) -> Option<u64> {
    match event {
        Event::BasesRecorded { epoch, .. }
        | Event::StrategizeCompleted { epoch }
        | Event::ExecuteCompleted { epoch, .. }
        | Event::ApplyPrepared { epoch, .. }
        | Event::ApplyWithdrawn { epoch }
        | Event::Landed { epoch }
        | Event::Released { epoch } => Some(epoch.0),
        Event::Constrained { constraint } => Some(constraint.epoch.0),
        Event::Asked { question } => Some(question.epoch.0),
        Event::Failed { failure } => Some(failure.epoch.0),
        _ => None,
    }
}

fn find_decreased_counter(
    before: &RecordedPlanStatus,
    after: &RecordedPlanStatus,
) -> Option<&'static str> {
    let pairs = before.counters.iter().zip(&after.counters);
    let counter = pairs.into_iter().find(|(before, after)| before.1 > after.1);
    // The last three counters count the entries into each phase, and an entry resets the attempt.
    let entered_phase = before.counters[6..] != after.counters[6..];
    counter
        .map(|(counter, _)| counter.0)
        .or((!entered_phase && before.attempt > after.attempt).then_some("the attempt"))
}
