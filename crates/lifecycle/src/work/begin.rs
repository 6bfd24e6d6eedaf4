//! Claims a phase, reserves its budget and starts the actor.
//!
//! Most of the delay before an actor starts is disk writes, one per commit. So a strategize without an actor, the
//! claim and the reservation share one commit where possible. A plan with sandboxes reserves its budget in a second
//! commit after they are ready: a failed sandbox then costs nothing, and no other plan waits for an idle reservation.

use std::sync::Arc;

use actors::Actor;
use plan::ledger::BudgetGrant;
use plan::stage::FailureCategory;
use plan::{Phase, Plan, Refusal};

use super::drive::{DriveOutcome, DriveProgress, PlanDriver};
use crate::{Call, Claim, LifecycleError};

impl PlanDriver<'_> {
    /// Claims a phase and runs its actor.
    pub(super) fn claim_and_work(
        &self,
        plan: &Plan,
        phase: Phase,
        actor: &Arc<dyn Actor>,
        call: &Call,
    ) -> Result<Option<DriveOutcome>, LifecycleError> {
        let needs_actor = phase == Phase::Execute || plan.strategy_wanted() || actor.strategizes();
        if !needs_actor {
            return self.skip_strategize(plan, call);
        }
        // Checked first, so that a plan that waits for budget is not claimed again and again.
        let over_budget = self
            .lifecycle
            .budgets()
            .check_over_budget(plan, actor.metering())?;
        if let Some(shortfall) = over_budget.filter(|shortfall| !shortfall.is_spent()) {
            return Ok(Some(DriveOutcome::OverBudget(shortfall)));
        }
        if let Some((claim, grant)) = self.claim_in_one_commit(plan, phase, actor.as_ref(), call)? {
            return self.start_work(&claim, actor.as_ref(), grant);
        }
        self.claim_in_steps(plan, phase, actor.as_ref(), call)
    }

    /// Completes a strategize that needs no actor: the goal is the strategy. A worker continues with execute
    /// in the same commit if it can; a person who asked for one step gets one.
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
            .claims()
            .strategize_without_actor(plan, self.owner, self.lease, call)?;
        Ok(None)
    }

    /// Claims a phase with its budget in one commit. Returns nothing if that takes more than one.
    fn claim_in_one_commit(
        &self,
        plan: &Plan,
        phase: Phase,
        actor: &dyn Actor,
        call: &Call,
    ) -> Result<Option<(Claim, BudgetGrant)>, LifecycleError> {
        if !plan.resources().is_empty() {
            return Ok(None);
        }
        let metering = actor.metering();
        let claimed = self
            .lifecycle
            .claims()
            .claim_with_budget(plan, phase, metering, self.owner, self.lease, call);
        match claimed {
            Ok(claimed) => Ok(Some(claimed)),
            // A rule or a person has to be asked, no budget is left, or another worker was faster.
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
            Phase::Strategize => {
                lifecycle
                    .claims()
                    .start_strategize(plan.id(), owner, lease, call)?
            }
            Phase::Execute | Phase::Apply => {
                lifecycle
                    .claims()
                    .start_execute(plan.id(), owner, lease, call)?
            }
        };
        let reserved = lifecycle.budgets().reserve_budget(
            plan.id(),
            claim.epoch(),
            actor.metering(),
            &claim.call(),
        );
        match reserved {
            Ok(grant) => self.start_work(&claim, actor, grant),
            Err(LifecycleError::Refused(Refusal::OverBudget(shortfall)))
                if shortfall.is_spent() =>
            {
                claim.fail(FailureCategory::Budget, &shortfall.to_string())?;
                Ok(None)
            }
            // Another plan reserved the rest first, but may not use all of it.
            Err(LifecycleError::Refused(Refusal::OverBudget(shortfall))) => {
                claim.release()?;
                Ok(Some(DriveOutcome::OverBudget(shortfall)))
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
