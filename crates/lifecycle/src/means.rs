//! Means of a plan: what it used, what is set aside for its work, and what it waits for.

use plan::ledger::{
    BudgetAmount, BudgetGrant, BudgetLedger, BudgetShortfall, GlobalBudget, MeteringLevel,
    grant_budget,
};
use plan::{Command, Epoch, Plan, PlanId};
use store::CommitOutcome;

use crate::{Call, Lifecycle, LifecycleError};

impl Lifecycle {
    /// With this for all plans together, whatever each of them may use.
    #[must_use]
    pub fn with_budget(mut self, budget: GlobalBudget) -> Self {
        self.budget = budget;
        self
    }

    /// What all plans together may use.
    pub fn budget(&self) -> GlobalBudget {
        self.budget
    }

    /// What a plan used and what is set aside for it, beside all plans together.
    pub fn read_ledger(&self, plan_id: PlanId) -> Result<BudgetLedger, LifecycleError> {
        Ok(self.store.read_ledger(plan_id)?)
    }

    /// Sets aside what a holder may use, before its work begins. Refused with
    /// [`plan::Refusal::OverBudget`] if nothing is left.
    pub fn reserve_budget(
        &self,
        plan_id: PlanId,
        epoch: Epoch,
        metering: MeteringLevel,
        call: &Call,
    ) -> Result<BudgetGrant, LifecycleError> {
        let budget = self.budget;
        let command = Command::Reserve {
            epoch,
            metering,
            budget,
        };
        let committed = self.submit(command, &self.read_command_target(plan_id)?, call)?;
        Ok(grant_in_receipt(&committed))
    }

    /// Charges what a holder used. However often it is told, it is charged once.
    pub fn settle_usage(
        &self,
        plan_id: PlanId,
        epoch: Epoch,
        used: BudgetAmount,
        call: &Call,
    ) -> Result<(), LifecycleError> {
        self.submit(
            Command::Settle { epoch, used },
            &self.read_command_target(plan_id)?,
            call,
        )?;
        Ok(())
    }

    /// Takes back what was charged for a lost run, except its time: a later run of the same conversation told what both
    /// used.
    pub(crate) fn settle_lost_run(
        &self,
        plan_id: PlanId,
        epoch: Epoch,
        call: &Call,
    ) -> Result<(), LifecycleError> {
        let ledger = self.read_ledger(plan_id)?;
        let forfeited = ledger.reservation(epoch).and_then(|one| one.forfeited);
        let Some(forfeited) = forfeited else {
            return Ok(());
        };
        let used = BudgetAmount {
            time: forfeited.time,
            ..BudgetAmount::default()
        };
        self.settle_usage(plan_id, epoch, used, call)
    }

    /// What leaves a plan nothing to work with as things are. Only looked at: who works asks for it.
    pub fn check_over_budget(
        &self,
        plan: &Plan,
        metering: MeteringLevel,
    ) -> Result<Option<BudgetShortfall>, LifecycleError> {
        Ok(self.preview_grant(plan, metering)?.err())
    }

    /// What a run of a plan may use as things are, or what leaves it nothing. Nothing is set aside.
    pub(crate) fn preview_grant(
        &self,
        plan: &Plan,
        metering: MeteringLevel,
    ) -> Result<Result<BudgetGrant, BudgetShortfall>, LifecycleError> {
        let is_limited = plan::ledger::BudgetUnit::ALL.into_iter().any(|means| {
            plan.limits.limit_for(means).is_some() || self.budget.limit_for(means).is_some()
        });
        if !is_limited {
            return Ok(Ok(BudgetGrant::default()));
        }
        let ledger = self.read_ledger(plan.id)?;
        Ok(grant_budget(
            &ledger,
            plan.id,
            &plan.limits,
            &self.budget,
            metering,
        ))
    }
}

/// What a reservation that was committed allows.
pub(crate) fn grant_in_receipt(committed: &CommitOutcome) -> BudgetGrant {
    let grant = committed.receipt.grant.as_deref();
    grant.cloned().unwrap_or_default()
}
