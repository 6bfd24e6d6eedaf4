//! Landing step by step, for scripts. Each step may be repeated like the whole.

use plan::{Epoch, PlanId, Refusal};
use sandbox::SandboxKey;
use sandbox::land::TargetState;

use super::{LandingOutcome, landed_outcome, parse_proposal};
use crate::{Call, Lifecycle, LifecycleError, OperationOutcome};

/// What one step of a landing came to.
#[derive(Debug, Clone, PartialEq)]
pub enum LandingStep {
    /// It was done; the landing goes on.
    Completed(OperationOutcome),
    /// The targets moved: the intent was withdrawn, and a new one is to be prepared.
    Withdrawn,
    /// The landing has ended.
    Ended(LandingOutcome),
}

impl Lifecycle {
    /// One step of a landing: merges, looks for obstacles and stores the intent; or says why not.
    pub fn prepare_landing(
        &self,
        plan_id: PlanId,
        epoch: Epoch,
        call: &Call,
    ) -> Result<LandingStep, LifecycleError> {
        let row = self.get_plan(plan_id)?;
        if !row.plan.has_targets() || !row.plan.is_held_by(epoch) || row.plan.is_prepared() {
            // Nothing to merge, or for the decision to refuse.
            let done = self.prepare_apply(plan_id, epoch, &[], call)?;
            return Ok(LandingStep::Completed(done));
        }
        self.propose_landing(&row, epoch, call)
    }

    /// One step of a landing: brings in what the intent says.
    pub fn complete_landing(
        &self,
        plan_id: PlanId,
        epoch: Epoch,
        call: &Call,
    ) -> Result<LandingStep, LifecycleError> {
        let row = self.get_plan(plan_id)?;
        let intent = row.plan.stage.intent().cloned();
        let intent = intent.filter(|intent| row.plan.is_held_by(epoch) && intent.vouched.is_none());
        let step = match intent {
            Some(intent) if !intent.moves.is_empty() => {
                self.move_targets(&row.plan, epoch, &intent, call)?
            }
            Some(_) | None => {
                let done = self.complete_apply(plan_id, epoch, Vec::new(), None, call)?;
                LandingStep::Ended(landed_outcome(done, Vec::new(), None))
            }
        };
        if let LandingStep::Ended(LandingOutcome::Landed { done, .. }) = &step {
            self.clean_after_landing(&done.plan);
        }
        Ok(step)
    }

    /// One step of a landing: takes the intent back, after looking that no target has or ever had it.
    pub fn withdraw_landing(
        &self,
        plan_id: PlanId,
        epoch: Epoch,
        call: &Call,
    ) -> Result<OperationOutcome, LifecycleError> {
        let row = self.get_plan(plan_id)?;
        let intent = row
            .plan
            .stage
            .intent()
            .filter(|_| row.plan.is_held_by(epoch));
        for step in intent
            .map(|intent| intent.moves.as_slice())
            .unwrap_or_default()
        {
            let location = self.locate_resource_named(&row.plan, &step.resource)?;
            let sandbox_key = SandboxKey {
                plan_id,
                resource: &location,
            };
            let proposal = parse_proposal(step)?;
            let sandboxes = &self.local_host()?.sandboxes;
            match sandboxes.observe_target(&sandbox_key, &proposal)? {
                TargetState::Untouched | TargetState::Moved => {
                    sandboxes.recover_landing(&sandbox_key, &proposal)?
                }
                TargetState::Landed | TargetState::Removed => {
                    return Err(Refusal::PointOfNoReturn {
                        verb: plan::Verb::WithdrawApply,
                    }
                    .into());
                }
            }
        }
        self.withdraw_apply(plan_id, epoch, call)
    }
}
