//! Leases: claim a phase, renew, release and reclaim.

use serde_json::{Value, json};

use crate::authority::CommandAudience;
use crate::command::{CommandDefinition, CommandHeader, PlainCommand, ReclaimGrounds};
use crate::decide::draft::DecisionDraft;
use crate::decide::{DecisionInput, changeset, create, gate, project, text};
use crate::invariant::Gate;
use crate::judgement::GateJudgement;
use crate::profile::AutomationStep;
use crate::reads::{ChangesetReads, CommandTarget, ReadSet};
use crate::stage::{FailureCategory, PlanFailure};
use crate::{Decision, Epoch, Event, Phase, Refusal, Span, Timestamp, Verb};

/// Claim a phase.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimPhase {
    pub phase: Phase,
    /// Name of the holder.
    pub owner: String,
    /// Time until the lease expires unless it is renewed.
    pub lease: Span,
    /// Required for strategize only.
    pub judgement: Option<GateJudgement>,
}

impl CommandDefinition for ClaimPhase {
    fn header(&self) -> CommandHeader {
        let verb = match self.phase {
            Phase::Strategize => Verb::StartStrategize,
            Phase::Execute => Verb::StartExecute,
            Phase::Apply => Verb::StartApply,
        };
        CommandHeader::new(verb, CommandAudience::Workers)
    }

    fn reads(&self, target: &CommandTarget) -> ReadSet {
        let with_projects = target.plan_reads_with_projects();
        match self.phase {
            Phase::Strategize => with_projects.merge_with(target.gated_reads()),
            Phase::Execute => ReadSet {
                changesets: ChangesetReads::All,
                ..with_projects
            },
            Phase::Apply => with_projects,
        }
    }

    fn arguments(&self) -> Value {
        json!([self.phase, self.owner, self.lease])
    }

    fn judgement_mut(&mut self) -> Option<&mut GateJudgement> {
        self.judgement.as_mut()
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        claim_phase(
            input.draft()?,
            self.phase,
            &self.owner,
            self.lease,
            self.judgement.as_ref(),
        )
    }
}

/// Renew a lease.
#[derive(Debug, Clone, PartialEq)]
pub struct RenewLease {
    pub epoch: Epoch,
    /// Time from now until the lease expires.
    pub lease: Span,
}

impl RenewLease {
    pub fn new(epoch: Epoch, lease: Span) -> Self {
        Self { epoch, lease }
    }
}

impl CommandDefinition for RenewLease {
    fn header(&self) -> CommandHeader {
        CommandHeader::for_holder(Verb::Renew, self.epoch)
    }

    fn arguments(&self) -> Value {
        json!([self.epoch, self.lease])
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        renew_lease(input.draft()?, self.epoch, self.lease)
    }
}

impl PlainCommand for RenewLease {}

/// Release a lease.
#[derive(Debug, Clone, PartialEq)]
pub struct ReleaseLease {
    pub epoch: Epoch,
}

impl CommandDefinition for ReleaseLease {
    fn header(&self) -> CommandHeader {
        CommandHeader::for_holder(Verb::Release, self.epoch)
    }

    fn arguments(&self) -> Value {
        json!(self.epoch)
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        release_lease(input.draft()?, self.epoch)
    }
}

impl PlainCommand for ReleaseLease {}

/// Take the lease from a holder that is gone.
#[derive(Debug, Clone, PartialEq)]
pub struct ReclaimLease {
    pub grounds: ReclaimGrounds,
}

impl CommandDefinition for ReclaimLease {
    fn header(&self) -> CommandHeader {
        CommandHeader::new(Verb::Reclaim, CommandAudience::Workers)
    }

    fn reads(&self, target: &CommandTarget) -> ReadSet {
        target.plan_reads_with_ledger()
    }

    fn arguments(&self) -> Value {
        json!(format!("{:?}", self.grounds))
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        reclaim_lease(input.draft()?, self.grounds)
    }
}

fn claim_phase(
    mut draft: DecisionDraft<'_>,
    phase: Phase,
    owner: &str,
    lease: Span,
    judgement: Option<&GateJudgement>,
) -> Result<Decision, Refusal> {
    let caller = &draft.request.caller;
    if let Some(holder) = draft.plan.stage().holder() {
        let expires_at = draft.facts.lease.as_ref().map(|lease| lease.expires_at);
        return Err(Refusal::Held {
            holder: holder.clone(),
            expires_at,
        });
    }
    let Some(queued) = draft.plan.stage().queue_entry() else {
        return draft.answer_not_applicable();
    };
    if draft.plan.phase() != phase {
        return draft.answer_not_applicable();
    }
    // A landing past the point of no return must be finished, even if its project is paused or
    // gone.
    if !draft.plan.is_prepared() {
        project::require_projects_ready(draft.facts, &draft.plan)?;
    }
    // The retry delay applies to workers only.
    if let Some(retry_at) = queued.retry_at
        && retry_at > draft.now
        && !caller.is_person()
    {
        return Err(Refusal::NotDue { retry_at });
    }
    text::require_text("owner", owner)?;
    let asked = caller.is_person();
    if phase == Phase::Strategize {
        if !draft.plan.asked() {
            draft.require_person_or(AutomationStep::StartStrategize)?;
        }
        let judgement = judgement.ok_or(Refusal::JudgementStale {
            gate: Gate::Strategize,
        })?;
        draft = match gate::pass_gate(draft, Gate::Strategize, judgement)? {
            gate::GatePassage::Open(draft) => *draft,
            gate::GatePassage::Blocked(decision) => return Ok(decision),
        };
    }
    let epoch = draft.plan.epoch().next();
    draft.emit_event(Event::Claimed {
        phase,
        owner: owner.to_owned(),
        epoch,
        asked,
    });
    if draft.plan.decisions() == 0 {
        let mut decisions = vec![create::root_decision(draft.plan.goal())];
        if let Some(judgement) = judgement.filter(|_| phase == Phase::Strategize) {
            decisions.extend(gate::enforcement_decisions(
                &draft,
                Gate::Strategize,
                judgement,
                2,
            ));
        }
        draft.emit_event(Event::DecisionsRecorded { decisions });
    }
    if phase == Phase::Execute {
        // Seal what an earlier holder left open. That holder is fenced and cannot write any more.
        changeset::seal_open_changesets(&mut draft);
    }
    draft.epoch = Some(epoch);
    let expires_at = draft.now.saturating_add(lease);
    draft.put_lease(owner, epoch, expires_at);
    Ok(draft.finish())
}

/// Renews a lease. An expired lease can be renewed until another holder reclaims it.
fn renew_lease(
    mut draft: DecisionDraft<'_>,
    epoch: Epoch,
    lease: Span,
) -> Result<Decision, Refusal> {
    let Some(holder) = draft.plan.stage().holder().cloned() else {
        return draft.answer_not_applicable();
    };
    draft.require_holder(epoch)?;
    let expires_at = draft.now.saturating_add(lease);
    draft.put_lease(&holder.owner, epoch, expires_at);
    Ok(draft.finish())
}

fn release_lease(mut draft: DecisionDraft<'_>, epoch: Epoch) -> Result<Decision, Refusal> {
    if draft.require_holder(epoch).is_err() {
        return draft.answer_not_applicable();
    }
    draft.emit_event(Event::Released { epoch });
    Ok(draft.finish())
}

fn reclaim_lease(
    mut draft: DecisionDraft<'_>,
    grounds: ReclaimGrounds,
) -> Result<Decision, Refusal> {
    let Some(holder) = draft.plan.stage().holder().cloned() else {
        return draft.answer_not_applicable();
    };
    let expires_at = draft
        .facts
        .lease
        .as_ref()
        .map_or(Timestamp(i64::MIN), |lease| lease.expires_at);
    // The caller looked before this decision. Check its grounds against the stored lease: the holder may
    // have renewed, or another may have claimed the plan, in the meantime.
    match grounds {
        ReclaimGrounds::Expired if expires_at > draft.now => {
            return Err(Refusal::LeaseRuns { holder, expires_at });
        }
        ReclaimGrounds::OwnerDead(epoch) if holder.epoch != epoch => {
            return Err(Refusal::LeaseRuns { holder, expires_at });
        }
        ReclaimGrounds::Unrenewed {
            epoch,
            expires_at: watched,
        } if holder.epoch != epoch || expires_at != watched => {
            return Err(Refusal::LeaseRuns { holder, expires_at });
        }
        ReclaimGrounds::Expired
        | ReclaimGrounds::OwnerDead(_)
        | ReclaimGrounds::Unrenewed { .. } => {}
    }
    // The new epoch fences the old holder: if it is alive after all, its commands are refused.
    let epoch = draft.plan.epoch().next();
    let exhausted = draft.plan.unattended_attempts() >= draft.plan.limits().attempts;
    // Past the point of no return the plan must not fail: another holder has to finish the landing.
    if exhausted && !draft.plan.is_prepared() {
        let message = format!(
            "{} vanished; the phase was tried {} times without a result",
            holder.owner,
            draft.plan.unattended_attempts()
        );
        let failure = PlanFailure {
            category: FailureCategory::Lost,
            message: message.into(),
            epoch,
            at: draft.now,
        };
        draft.emit_event(Event::Failed { failure });
    } else {
        draft.emit_event(Event::Reclaimed {
            owner: holder.owner,
            epoch,
        });
    }
    Ok(draft.finish())
}
