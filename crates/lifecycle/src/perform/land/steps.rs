//! Single landing steps, for scripts. Each step is idempotent.

use plan::command::{CompleteApply, PrepareApply, WithdrawApply};
use plan::invariant::Gate;
use plan::stage::RefMove;
use plan::{Epoch, PlanId, Refusal};
use sandbox::SandboxKey;
use sandbox::land::TargetState;

use super::{LandingOutcome, landed_outcome, parse_proposal};
use crate::{Call, Landing, LifecycleError, OperationOutcome};

/// The outcome of one landing step.
#[derive(Debug, Clone, PartialEq)]
pub enum LandingStep {
    /// The step is done. The landing continues.
    Completed(OperationOutcome),
    /// The targets moved. The intent was withdrawn, so prepare again.
    Withdrawn,
    Ended(LandingOutcome),
}

impl Landing<'_> {
    /// Merges, checks for obstacles and stores the intent. Ends the landing if there is an obstacle.
    pub fn prepare_landing(
        &self,
        plan_id: PlanId,
        epoch: Epoch,
        call: &Call,
    ) -> Result<LandingStep, LifecycleError> {
        let row = self.lifecycle.get_plan(plan_id)?;
        if !row.plan.has_targets() || !row.plan.is_held_by(epoch) || row.plan.is_prepared() {
            // Either there is nothing to merge, or the decision refuses.
            let done = self.prepare_apply(plan_id, epoch, &[], call)?;
            return Ok(LandingStep::Completed(done));
        }
        self.propose_landing(&row, epoch, call)
    }

    /// Moves the targets as the intent says.
    pub fn complete_landing(
        &self,
        plan_id: PlanId,
        epoch: Epoch,
        call: &Call,
    ) -> Result<LandingStep, LifecycleError> {
        let row = self.lifecycle.get_plan(plan_id)?;
        let intent = row.plan.stage().intent().cloned();
        let intent = intent.filter(|intent| row.plan.is_held_by(epoch) && intent.vouched.is_none());
        let step = match intent {
            Some(intent) if !intent.moves.is_empty() => {
                self.move_targets(&row.plan, epoch, &intent, call)?
            }
            Some(_) | None => {
                let done = self.lifecycle.submit_command(
                    plan_id,
                    CompleteApply::new(epoch, Vec::new(), None),
                    call,
                )?;
                LandingStep::Ended(landed_outcome(done, Vec::new(), None))
            }
        };
        if let LandingStep::Ended(LandingOutcome::Landed { done, .. }) = &step {
            self.clean_after_landing(&done.plan);
        }
        Ok(step)
    }

    /// Withdraws the intent. Refused if any target has or ever had the change.
    pub fn withdraw_landing(
        &self,
        plan_id: PlanId,
        epoch: Epoch,
        call: &Call,
    ) -> Result<OperationOutcome, LifecycleError> {
        let row = self.lifecycle.get_plan(plan_id)?;
        let intent = row
            .plan
            .stage()
            .intent()
            .filter(|_| row.plan.is_held_by(epoch));
        for step in intent
            .map(|intent| intent.moves.as_slice())
            .unwrap_or_default()
        {
            let location = self
                .lifecycle
                .projects()
                .locate_resource_named(&row.plan, &step.resource)?;
            let sandbox_key = SandboxKey {
                plan_id,
                resource: &location,
            };
            let proposal = parse_proposal(step)?;
            let sandboxes = &self.lifecycle.local_host()?.sandboxes;
            match sandboxes
                .landings()
                .observe_target(&sandbox_key, &proposal)?
            {
                TargetState::Untouched | TargetState::Moved => sandboxes
                    .landings()
                    .recover_landing(&sandbox_key, &proposal)?,
                TargetState::Landed | TargetState::Removed => {
                    return Err(Refusal::PointOfNoReturn {
                        verb: plan::Verb::WithdrawApply,
                    }
                    .into());
                }
            }
        }
        self.lifecycle
            .submit_command(plan_id, WithdrawApply { epoch }, call)
    }

    /// Stores the intended ref moves. After this, a landing can only be finished or withdrawn.
    pub fn prepare_apply(
        &self,
        plan_id: PlanId,
        epoch: Epoch,
        moves: &[RefMove],
        call: &Call,
    ) -> Result<OperationOutcome, LifecycleError> {
        let row = self.lifecycle.get_plan(plan_id)?;
        let gate_subject = self.lifecycle.gates().read_merged_trees(&row.plan, moves)?;
        let committed = self.lifecycle.gates().submit_judged(
            plan_id,
            Gate::Apply,
            &gate_subject,
            call,
            |judgement| PrepareApply {
                epoch,
                moves: moves.to_vec(),
                judgement,
            },
        )?;
        self.lifecycle.read_outcome(committed)
    }
}
