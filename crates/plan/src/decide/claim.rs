//! Leases: claiming a phase, keeping it, giving it back, taking it from the dead.

use crate::command::Grounds;
use crate::decide::draft::Draft;
use crate::decide::{changeset, create, gate, project, text};
use crate::invariant::Gate;
use crate::judgement::Judgement;
use crate::profile::Step;
use crate::stage::{Category, Failure};
use crate::{Decision, Epoch, Event, Phase, Refusal, Span, Timestamp};

pub(super) fn start(
    mut draft: Draft<'_>,
    phase: Phase,
    owner: &str,
    lease: Span,
    judgement: Option<&Judgement>,
) -> Result<Decision, Refusal> {
    let caller = &draft.request.caller;
    if let Some(holder) = draft.plan.stage.holder() {
        let expires_at = draft.facts.lease.as_ref().map(|lease| lease.expires_at);
        return Err(Refusal::Held {
            holder: holder.clone(),
            expires_at,
        });
    }
    let Some(queued) = draft.plan.stage.waiting() else {
        return draft.not_now();
    };
    if draft.plan.phase() != phase {
        return draft.not_now();
    }
    // What has begun to land is finished, whatever became of its projects.
    if !draft.plan.is_prepared() {
        project::require_ready(draft.facts, &draft.plan)?;
    }
    // A person need not wait for the time the engine gave itself.
    if let Some(retry_at) = queued.retry_at
        && retry_at > draft.now
        && !caller.is_person()
    {
        return Err(Refusal::NotDue { retry_at });
    }
    text::checked("owner", owner)?;
    let asked = caller.is_person();
    if phase == Phase::Strategize {
        if !draft.plan.asked {
            draft.require_person_or(Step::StartStrategize)?;
        }
        let judgement = judgement.ok_or(Refusal::JudgementStale {
            gate: Gate::Strategize,
        })?;
        draft = match gate::pass(draft, Gate::Strategize, judgement)? {
            gate::Passage::Open(draft) => *draft,
            gate::Passage::Blocked(decision) => return Ok(decision),
        };
    }
    let epoch = draft.plan.epoch.next();
    draft.emit(Event::Claimed {
        phase,
        owner: owner.to_owned(),
        epoch,
        asked,
    });
    if draft.plan.decisions == 0 {
        let mut decisions = vec![create::root_decision(&draft.plan.goal)];
        if let Some(judgement) = judgement.filter(|_| phase == Phase::Strategize) {
            decisions.extend(gate::enforced(&draft, Gate::Strategize, judgement, 2));
        }
        draft.emit(Event::DecisionsRecorded { decisions });
    }
    if phase == Phase::Execute {
        // What an earlier holder left open is closed as it stands; it can write no more.
        changeset::seal_all(&mut draft);
    }
    draft.epoch = Some(epoch);
    let expires_at = draft.now.plus(lease);
    draft.put_lease(owner, epoch, expires_at);
    Ok(draft.done())
}

/// Extends a lease, expired or not: as long as nobody took it, the holder has it.
pub(super) fn renew(mut draft: Draft<'_>, epoch: Epoch, lease: Span) -> Result<Decision, Refusal> {
    let Some(holder) = draft.plan.stage.holder().cloned() else {
        return draft.not_now();
    };
    draft.require_holder(epoch)?;
    let expires_at = draft.now.plus(lease);
    draft.put_lease(&holder.owner, epoch, expires_at);
    Ok(draft.done())
}

pub(super) fn release(mut draft: Draft<'_>, epoch: Epoch) -> Result<Decision, Refusal> {
    if draft.require_holder(epoch).is_err() {
        return draft.not_now();
    }
    draft.emit(Event::Released { epoch });
    Ok(draft.done())
}

pub(super) fn reclaim(mut draft: Draft<'_>, grounds: Grounds) -> Result<Decision, Refusal> {
    let Some(holder) = draft.plan.stage.holder().cloned() else {
        return draft.not_now();
    };
    let expires_at = draft
        .facts
        .lease
        .as_ref()
        .map_or(Timestamp(i64::MIN), |lease| lease.expires_at);
    match grounds {
        Grounds::Expired if expires_at > draft.now => {
            return Err(Refusal::LeaseRuns { holder, expires_at });
        }
        Grounds::OwnerDead(epoch) if holder.epoch != epoch => {
            return Err(Refusal::LeaseRuns { holder, expires_at });
        }
        Grounds::Unrenewed {
            epoch,
            expires_at: watched,
        } if holder.epoch != epoch || expires_at != watched => {
            return Err(Refusal::LeaseRuns { holder, expires_at });
        }
        Grounds::Expired | Grounds::OwnerDead(_) | Grounds::Unrenewed { .. } => {}
    }
    let epoch = draft.plan.epoch.next();
    let exhausted = draft.plan.unattended_attempts >= draft.plan.limits.attempts;
    if exhausted && !draft.plan.is_prepared() {
        let message = format!(
            "{} vanished; the phase was tried {} times without a result",
            holder.owner, draft.plan.unattended_attempts
        );
        let failure = Failure {
            category: Category::Lost,
            message: message.into(),
            epoch,
            at: draft.now,
        };
        draft.emit(Event::Failed { failure });
    } else {
        draft.emit(Event::Reclaimed {
            owner: holder.owner,
            epoch,
        });
    }
    Ok(draft.done())
}
