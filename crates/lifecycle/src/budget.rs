//! A plan's budget: spent, reserved, and what it is waiting for.

use plan::command::{ReserveBudget, SettleUsage};
use plan::ledger::{
    BudgetAmount, BudgetGrant, BudgetLedger, BudgetShortfall, GlobalBudget, MeteringLevel,
    grant_budget,
};
use plan::{Epoch, Plan, PlanId};
use store::CommitOutcome;

use crate::{Call, Lifecycle, LifecycleError};

/// What plans spent, reserved and may still spend.
#[derive(Clone, Copy)]
pub struct Budgets<'a> {
    lifecycle: &'a Lifecycle,
}

impl Lifecycle {
    pub fn budgets(&self) -> Budgets<'_> {
        Budgets { lifecycle: self }
    }
}

impl Lifecycle {
    /// Sets a budget for all plans together, in addition to each plan's limits.
    #[must_use]
    pub fn with_budget(mut self, budget: GlobalBudget) -> Self {
        self.budget = budget;
        self
    }

    /// The budget for all plans together.
    pub fn budget(&self) -> GlobalBudget {
        self.budget
    }
}

impl Budgets<'_> {
    /// Returns what a plan has spent and reserved, and the totals of all plans.
    pub fn read_ledger(&self, plan_id: PlanId) -> Result<BudgetLedger, LifecycleError> {
        Ok(self.lifecycle.store.read_ledger(plan_id)?)
    }

    /// Reserves budget for a holder before its work begins. Refused with
    /// [`plan::Refusal::OverBudget`] if nothing is left.
    pub fn reserve_budget(
        &self,
        plan_id: PlanId,
        epoch: Epoch,
        metering: MeteringLevel,
        call: &Call,
    ) -> Result<BudgetGrant, LifecycleError> {
        let budget = self.lifecycle.budget;
        let command = ReserveBudget {
            epoch,
            metering,
            budget,
        };
        let committed =
            self.lifecycle
                .submit(command, &self.lifecycle.read_command_target(plan_id)?, call)?;
        Ok(read_grant(&committed))
    }

    /// Charges what a holder used. Idempotent: each epoch is charged once.
    pub fn settle_usage(
        &self,
        plan_id: PlanId,
        epoch: Epoch,
        used: BudgetAmount,
        call: &Call,
    ) -> Result<(), LifecycleError> {
        self.lifecycle.submit(
            SettleUsage { epoch, used },
            &self.lifecycle.read_command_target(plan_id)?,
            call,
        )?;
        Ok(())
    }

    /// Corrects the charge for a lost run to its time only. A later run of the same session reported the cost and
    /// tokens of both.
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

    /// Checks whether any budget is left for a run. Reserves nothing.
    pub fn check_over_budget(
        &self,
        plan: &Plan,
        metering: MeteringLevel,
    ) -> Result<Option<BudgetShortfall>, LifecycleError> {
        Ok(self.preview_grant(plan, metering)?.err())
    }

    /// Computes what a run could use now, or why nothing is left. Reserves nothing.
    pub(crate) fn preview_grant(
        &self,
        plan: &Plan,
        metering: MeteringLevel,
    ) -> Result<Result<BudgetGrant, BudgetShortfall>, LifecycleError> {
        let is_limited = plan::ledger::BudgetUnit::ALL.into_iter().any(|unit| {
            plan.limits().limit_for(unit).is_some()
                || self.lifecycle.budget.limit_for(unit).is_some()
        });
        if !is_limited {
            return Ok(Ok(BudgetGrant::default()));
        }
        let ledger = self.read_ledger(plan.id())?;
        Ok(grant_budget(
            &ledger,
            plan.id(),
            &plan.limits(),
            &self.lifecycle.budget,
            metering,
        ))
    }
}

/// Reads the grant from the receipt of a reservation.
pub(crate) fn read_grant(committed: &CommitOutcome) -> BudgetGrant {
    let grant = committed.receipt.grant.as_deref();
    grant.cloned().unwrap_or_default()
}
