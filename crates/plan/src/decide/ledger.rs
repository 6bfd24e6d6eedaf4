//! Reserves budget before a run and charges usage after it. Nothing here emits events.

use serde_json::{Value, json};

use crate::command::{CommandDefinition, CommandHeader};
use crate::decide::DecisionInput;
use crate::decide::draft::DecisionDraft;
use crate::ledger::{
    AccountName, BudgetAmount, BudgetLedger, BudgetReservation, BudgetUnit, GlobalBudget,
    MeteringLevel, grant_budget,
};
use crate::plan::PlanLimits;
use crate::reads::{CommandTarget, ReadSet};
use crate::{
    Decision, DecisionFacts, Epoch, Phase, Plan, ReceiptOutcome, Refusal, RowWrite, Timestamp, Verb,
};

/// Reserve budget for a holder before its run starts.
#[derive(Debug, Clone, PartialEq)]
pub struct ReserveBudget {
    pub epoch: Epoch,
    /// What the actor reports about its usage.
    pub metering: MeteringLevel,
    /// Limits for all plans together.
    pub budget: GlobalBudget,
}

impl CommandDefinition for ReserveBudget {
    fn header(&self) -> CommandHeader {
        CommandHeader::for_holder(Verb::Reserve, self.epoch)
    }

    fn reads(&self, target: &CommandTarget) -> ReadSet {
        target.plan_reads_with_ledger()
    }

    fn arguments(&self) -> Value {
        json!([self.epoch, format!("{:?}", self.metering), self.budget])
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        reserve_budget(input.draft()?, self.epoch, self.metering, &self.budget)
    }
}

/// Charge a holder's usage. Repeating it changes nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct SettleUsage {
    /// The epoch under which it worked; may be an earlier one.
    pub epoch: Epoch,
    pub used: BudgetAmount,
}

impl CommandDefinition for SettleUsage {
    fn header(&self) -> CommandHeader {
        CommandHeader::for_holder(Verb::Settle, self.epoch)
    }

    fn reads(&self, target: &CommandTarget) -> ReadSet {
        target.plan_reads_with_ledger()
    }

    fn arguments(&self) -> Value {
        json!([self.epoch, self.used])
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        settle_usage(input.draft()?, self.epoch, self.used)
    }
}

fn reserve_budget(
    mut draft: DecisionDraft<'_>,
    epoch: Epoch,
    metering: MeteringLevel,
    budget: &GlobalBudget,
) -> Result<Decision, Refusal> {
    // A landing has no actor and uses no budget.
    if draft.require_holder(epoch).is_err() || draft.plan.phase() == Phase::Apply {
        return draft.answer_not_applicable();
    }
    let mut ledger = draft.facts.ledger.clone();
    forfeit_fenced_reservations(&mut ledger, draft.facts, &draft.plan, draft.now);
    let (plan_id, limits) = (draft.plan.id(), draft.plan.limits());
    if ledger.reservation(epoch).is_some() {
        // A repeated reserve: return the grant again, computed without the existing reservation.
        ledger.settle_reservation(epoch, BudgetAmount::default());
        draft.grant = grant_budget(&ledger, plan_id, &limits, budget, metering).ok();
        return Ok(draft.finish_with_rows(Vec::new(), ReceiptOutcome::AlreadyDone));
    }
    let granted =
        grant_budget(&ledger, plan_id, &limits, budget, metering).map_err(Refusal::OverBudget)?;
    ledger.add_reservation(BudgetReservation {
        plan: plan_id,
        epoch,
        amount: granted.amount_to_reserve(metering),
        at: draft.now,
        forfeited: None,
    });
    let rows = changed_rows(&draft.facts.ledger, &ledger, &draft.plan);
    draft.grant = Some(granted);
    Ok(draft.finish_with_rows(rows, ReceiptOutcome::Done))
}

/// Charges a holder's usage. Accepted after the lease is lost, because the usage is real and is
/// charged only once.
fn settle_usage(
    draft: DecisionDraft<'_>,
    epoch: Epoch,
    used: BudgetAmount,
) -> Result<Decision, Refusal> {
    if epoch > draft.plan.epoch() {
        return draft.answer_not_applicable();
    }
    let mut ledger = draft.facts.ledger.clone();
    if !ledger.settle_reservation(epoch, used) {
        return Ok(draft.finish_with_rows(Vec::new(), ReceiptOutcome::AlreadyDone));
    }
    let rows = changed_rows(&draft.facts.ledger, &ledger, &draft.plan);
    Ok(draft.finish_with_rows(rows, ReceiptOutcome::Done))
}

/// Returns the rows that charge usage outside of any holder's run, such as judging rules.
pub(super) fn charge_rows(facts: &DecisionFacts, plan: &Plan, used: BudgetAmount) -> Vec<RowWrite> {
    let mut ledger = facts.ledger.clone();
    ledger.charge_usage(used);
    changed_rows(&facts.ledger, &ledger, plan)
}

/// Returns the rows that forfeit open reservations of epochs that no longer hold the plan.
pub(super) fn forfeit_rows(facts: &DecisionFacts, plan: &Plan, now: Timestamp) -> Vec<RowWrite> {
    let mut ledger = facts.ledger.clone();
    forfeit_fenced_reservations(&mut ledger, facts, plan, now);
    changed_rows(&facts.ledger, &ledger, plan)
}

fn forfeit_fenced_reservations(
    ledger: &mut BudgetLedger,
    facts: &DecisionFacts,
    plan: &Plan,
    now: Timestamp,
) {
    let is_fenced = |one: &&BudgetReservation| one.is_open() && !plan.is_held_by(one.epoch);
    let fenced: Vec<Epoch> = ledger
        .reservations
        .iter()
        .filter(is_fenced)
        .map(|one| one.epoch)
        .collect();
    for epoch in fenced {
        let lease = facts.lease.as_ref().filter(|lease| lease.epoch == epoch);
        // The holder cannot be assumed to have worked after its lease expired.
        let until = lease.map_or(now, |lease| lease.expires_at.min(now));
        ledger.forfeit_reservation(epoch, until);
    }
}

/// Returns the rows that differ between two ledgers.
fn changed_rows(before: &BudgetLedger, after: &BudgetLedger, plan: &Plan) -> Vec<RowWrite> {
    let mut rows = Vec::new();
    if before.global != after.global {
        rows.push(RowWrite::PutAccount(AccountName::Global, after.global));
    }
    if before.plan != after.plan {
        rows.push(RowWrite::PutAccount(
            AccountName::Plan(plan.id()),
            after.plan,
        ));
    }
    for reservation in &after.reservations {
        if before.reservation(reservation.epoch) != Some(reservation) {
            rows.push(RowWrite::PutReservation(*reservation));
        }
    }
    for reservation in &before.reservations {
        if after.reservation(reservation.epoch).is_none() {
            rows.push(RowWrite::DropReservation(plan.id(), reservation.epoch));
        }
    }
    rows
}

/// Refuses limits that leave nothing to spend. Otherwise the next run would fail on them. In apply
/// only changed limits are checked, because a landing uses no budget.
pub(super) fn require_budget_left(
    draft: &DecisionDraft<'_>,
    limits: &PlanLimits,
    new_limits: Option<&PlanLimits>,
) -> Result<(), Refusal> {
    for unit in BudgetUnit::ALL {
        let changed = new_limits
            .is_some_and(|new| new.limit_for(unit) != draft.plan.limits().limit_for(unit));
        if !changed && draft.plan.phase() == Phase::Apply {
            continue;
        }
        let spent = draft.facts.ledger.plan.settled.in_unit(unit);
        match limits.limit_for(unit) {
            Some(limit) if limit <= spent => {
                return Err(Refusal::LimitTooLow { unit, limit, spent });
            }
            Some(_) | None => {}
        }
    }
    Ok(())
}
