//! The contract's table of transitions, written down a second time and without looking at the first: may
//! this event follow that state, had its author authority, did every counter go forward?

use plan::Phase;
use plan::event::Event;
use plan::stage::StateName;

use super::stored::{Standing, StoredPlan};
use super::{Kind, Violation, author};
use crate::operation::CallId;

/// Every step of the plan's log.
pub fn check(plan: &StoredPlan) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut last_claim = None;
    // One event beyond those that could be replayed: it is the one to look at.
    for (index, recorded) in plan.events.iter().enumerate().take(plan.states.len() + 1) {
        let before = index.checked_sub(1).map(|before| &plan.states[before]);
        let mut wrong = |kind, what: String| {
            let mut calls: Vec<CallId> = last_claim.into_iter().collect();
            calls.extend(author(&recorded.by).filter(|id| Some(*id) != last_claim));
            found.push(Violation {
                kind,
                what,
                plan: Some(plan.id()),
                calls,
                versions: Some(recorded.version.0.saturating_sub(2)..=recorded.version.0),
            });
        };
        let stage = before.map_or("nothing".to_owned(), Standing::stage);
        if !may_follow(before, &recorded.event) {
            wrong(
                Kind::Illegal,
                format!("`{}` follows {stage}", recorded.event.kind()),
            );
        }
        let holder = before.and_then(|before| before.holder);
        // Who takes an expired lease for the last time halts the plan under the next epoch.
        let reclaims = |epoch| {
            matches!(recorded.event, Event::Failed { .. })
                && before.is_some_and(|before| epoch == before.epoch + 1)
        };
        if let Some(epoch) = authority(&recorded.event)
            && holder != Some(epoch)
            && !reclaims(epoch)
        {
            let holder = holder.map_or("nobody".to_owned(), |epoch| format!("epoch {epoch}"));
            wrong(
                Kind::Fenced,
                format!(
                    "`{}` was written by epoch {epoch} while the holder was {holder}",
                    recorded.event.kind()
                ),
            );
        }
        if let Some(before) = before
            && let Some(after) = plan.states.get(index)
            && let Some(counter) = went_back(before, after)
        {
            wrong(Kind::Illegal, format!("{counter} went back"));
        }
        if matches!(recorded.event, Event::Claimed { .. }) {
            last_claim = author(&recorded.by);
        }
    }
    let lease = plan.row.lease.as_ref().map(|lease| lease.epoch.0);
    let holder = plan.row.plan.stage.holder().map(|holder| holder.epoch.0);
    if lease != holder {
        let shown =
            |epoch: Option<u64>| epoch.map_or("nobody".to_owned(), |e| format!("epoch {e}"));
        found.push(Violation {
            kind: Kind::Half,
            what: format!(
                "the plan is held by {}, its lease by {}",
                shown(holder),
                shown(lease)
            ),
            plan: Some(plan.id()),
            calls: Vec::new(),
            versions: Some(plan.versions().saturating_sub(2)..=plan.versions()),
        });
    }
    found
}

fn may_follow(before: Option<&Standing>, event: &Event) -> bool {
    use StateName::{AwaitingInput, Complete, Constrained, Errored, Processing, Queued};
    let Some(before) = before else {
        return matches!(event, Event::Created(_));
    };
    let Standing {
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
        // Told along with a transition, in the same commit.
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

/// The epoch under whose authority an event was written, where only the holder may write it.
fn authority(event: &Event) -> Option<u64> {
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

fn went_back(before: &Standing, after: &Standing) -> Option<&'static str> {
    let rising = before.counters.iter().zip(&after.counters);
    let counter = rising
        .into_iter()
        .find(|(before, after)| before.1 > after.1);
    let entered_anew = before.counters[6..] != after.counters[6..];
    counter
        .map(|(counter, _)| counter.0)
        .or((!entered_anew && before.attempt > after.attempt).then_some("the attempt"))
}
