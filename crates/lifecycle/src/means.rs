//! Means of a plan: what it used, what is set aside for its work, and what it waits for.

use plan::ledger::{Amount, Budget, Grant, Ledger, Metering, Over, grant};
use plan::{Command, Epoch, Plan, PlanId};
use store::Committed;

use crate::{Call, Error, Lifecycle};

impl Lifecycle {
    /// With this for all plans together, whatever each of them may use.
    #[must_use]
    pub fn with_budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// What all plans together may use.
    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// What a plan used and what is set aside for it, beside all plans together.
    pub fn ledger(&self, plan: PlanId) -> Result<Ledger, Error> {
        Ok(self.store.ledger(plan)?)
    }

    /// Sets aside what a holder may use, before its work begins. Refused with
    /// [`plan::Refusal::OverBudget`] if nothing is left.
    pub fn reserve(
        &self,
        plan: PlanId,
        epoch: Epoch,
        metering: Metering,
        call: &Call,
    ) -> Result<Grant, Error> {
        let budget = self.budget;
        let command = Command::Reserve {
            epoch,
            metering,
            budget,
        };
        let committed = self.submit(command, &self.subject(plan)?, call)?;
        Ok(granted(&committed))
    }

    /// Charges what a holder used. However often it is told, it is charged once.
    pub fn settle(
        &self,
        plan: PlanId,
        epoch: Epoch,
        used: Amount,
        call: &Call,
    ) -> Result<(), Error> {
        self.submit(Command::Settle { epoch, used }, &self.subject(plan)?, call)?;
        Ok(())
    }

    /// Takes back what was charged for a lost run, except its time: a later run of the same conversation told what both
    /// used.
    pub(crate) fn settle_lost_run(
        &self,
        plan: PlanId,
        epoch: Epoch,
        call: &Call,
    ) -> Result<(), Error> {
        let ledger = self.ledger(plan)?;
        let charged = ledger.reservation(epoch).and_then(|one| one.forfeited);
        let Some(charged) = charged else {
            return Ok(());
        };
        let used = Amount {
            time: charged.time,
            ..Amount::default()
        };
        self.settle(plan, epoch, used, call)
    }

    /// What leaves a plan nothing to work with as things are. Only looked at: who works asks for it.
    pub fn over_budget(&self, plan: &Plan, metering: Metering) -> Result<Option<Over>, Error> {
        Ok(self.in_prospect(plan, metering)?.err())
    }

    /// What a run of a plan may use as things are, or what leaves it nothing. Nothing is set aside.
    pub(crate) fn in_prospect(
        &self,
        plan: &Plan,
        metering: Metering,
    ) -> Result<Result<Grant, Over>, Error> {
        let limited = plan::ledger::Means::ALL
            .into_iter()
            .any(|means| plan.limits.of(means).is_some() || self.budget.of(means).is_some());
        if !limited {
            return Ok(Ok(Grant::default()));
        }
        let ledger = self.ledger(plan.id)?;
        Ok(grant(
            &ledger,
            plan.id,
            &plan.limits,
            &self.budget,
            metering,
        ))
    }
}

/// What a reservation that was committed allows.
pub(crate) fn granted(committed: &Committed) -> Grant {
    let grant = committed.receipt.grant.as_deref();
    grant.cloned().unwrap_or_default()
}
