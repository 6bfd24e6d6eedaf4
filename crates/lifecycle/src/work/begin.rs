//! Beginning to work on a plan: a claim, and what its holder may use.
//!
//! What an actor waits for once its plan is due is mostly the disk, commit by commit. So whatever nobody has to be
//! asked about is one commit: a strategize that is nobody's work, the claim, and the means that are set aside for
//! it. Means are set aside as late as they can be. With a sandbox to be made that is a commit of its own behind it:
//! what goes wrong with a sandbox costs nothing, and nobody waits for what is not at work yet.

use std::sync::Arc;

use actors::Actor;
use plan::ledger::BudgetGrant;
use plan::stage::FailureCategory;
use plan::{Phase, Plan, Refusal};

use super::drive::{DriveOutcome, DriveProgress, PlanDriver};
use crate::{Call, Claim, LifecycleError};

impl PlanDriver<'_> {
    /// Claims a phase, and has its actor work on it.
    pub(super) fn claim_and_work(
        &self,
        plan: &Plan,
        phase: Phase,
        actor: &Arc<dyn Actor>,
        call: &Call,
    ) -> Result<Option<DriveOutcome>, LifecycleError> {
        let needs_actor = phase == Phase::Execute || plan.strategy_wanted || actor.strategizes();
        if !needs_actor {
            return self.skip_strategize(plan, call);
        }
        // Looked at before, so that what waits for others is not claimed over and over.
        let over_budget = self.lifecycle.check_over_budget(plan, actor.metering())?;
        if let Some(over) = over_budget.filter(|over| !over.is_spent()) {
            return Ok(Some(DriveOutcome::OverBudget(over)));
        }
        if let Some((claim, grant)) = self.claim_in_one_commit(plan, phase, actor.as_ref(), call)? {
            return self.start_work(&claim, actor.as_ref(), grant);
        }
        self.claim_in_steps(plan, phase, actor.as_ref(), call)
    }

    /// Goes through a strategize that is nobody's work: the goal is the strategy. Who only asked for that
    /// gets that; a worker goes on where it may.
    fn skip_strategize(
        &self,
        plan: &Plan,
        call: &Call,
    ) -> Result<Option<DriveOutcome>, LifecycleError> {
        let executor = self.actor_set.find_actor(plan, Phase::Execute);
        if let Some(executor) = executor.filter(|_| !call.caller.is_person())
            && let Some((claim, grant)) =
                self.claim_in_one_commit(plan, Phase::Execute, executor.as_ref(), call)?
        {
            return self.start_work(&claim, executor.as_ref(), grant);
        }
        self.lifecycle
            .strategize_at_once(plan, self.owner, self.lease, call)?;
        Ok(None)
    }

    /// A claim with its means as one commit, or nothing if that takes more than one.
    fn claim_in_one_commit(
        &self,
        plan: &Plan,
        phase: Phase,
        actor: &dyn Actor,
        call: &Call,
    ) -> Result<Option<(Claim, BudgetGrant)>, LifecycleError> {
        if !plan.resources.is_empty() {
            return Ok(None);
        }
        let metering = actor.metering();
        let claimed = self
            .lifecycle
            .start_with_means(plan, phase, metering, self.owner, self.lease, call);
        match claimed {
            Ok(claimed) => Ok(Some(claimed)),
            // Rules have to be asked, or a person, or nothing is left; or somebody was faster.
            Err(LifecycleError::Refused(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn claim_in_steps(
        &self,
        plan: &Plan,
        phase: Phase,
        actor: &dyn Actor,
        call: &Call,
    ) -> Result<Option<DriveOutcome>, LifecycleError> {
        let (lifecycle, owner, lease) = (self.lifecycle, self.owner, self.lease);
        let claim = match phase {
            Phase::Strategize => lifecycle.start_strategize(plan.id, owner, lease, call)?,
            Phase::Execute | Phase::Apply => {
                lifecycle.start_execute(plan.id, owner, lease, call)?
            }
        };
        let reserved =
            lifecycle.reserve_budget(plan.id, claim.epoch(), actor.metering(), &claim.call());
        match reserved {
            Ok(grant) => self.start_work(&claim, actor, grant),
            Err(LifecycleError::Refused(Refusal::OverBudget(over))) if over.is_spent() => {
                claim.fail(FailureCategory::Budget, &over.to_string())?;
                Ok(None)
            }
            // Somebody was faster. They may leave something.
            Err(LifecycleError::Refused(Refusal::OverBudget(over))) => {
                claim.release()?;
                Ok(Some(DriveOutcome::OverBudget(over)))
            }
            Err(error) => Err(error),
        }
    }

    fn start_work(
        &self,
        claim: &Claim,
        actor: &dyn Actor,
        grant: BudgetGrant,
    ) -> Result<Option<DriveOutcome>, LifecycleError> {
        let phase = claim.phase();
        if let Some(actor) = claim.plan().actor_for_phase(phase).cloned() {
            (self.on_progress)(claim.plan(), &DriveProgress::ActorStarted { actor, phase });
        }
        self.run_and_submit(claim, actor, grant)?;
        Ok(None)
    }
}
