//! Means: set aside before work, charged after it. Nothing here moves a plan.

use crate::decide::draft::DecisionDraft;
use crate::ledger::{
    AccountName, BudgetAmount, BudgetLedger, BudgetReservation, BudgetUnit, GlobalBudget,
    MeteringLevel, grant_budget,
};
use crate::plan::PlanLimits;
use crate::{
    Decision, DecisionFacts, Epoch, Phase, Plan, ReceiptOutcome, Refusal, RowWrite, Timestamp,
};

pub(super) fn reserve_budget(
    mut draft: DecisionDraft<'_>,
    epoch: Epoch,
    metering: MeteringLevel,
    budget: &GlobalBudget,
) -> Result<Decision, Refusal> {
    // Landing has no actor, and takes nothing.
    if draft.require_holder(epoch).is_err() || draft.plan.phase() == Phase::Apply {
        return draft.answer_not_applicable();
    }
    let mut ledger = draft.facts.ledger.clone();
    forfeit_fenced_reservations(&mut ledger, draft.facts, &draft.plan, draft.now);
    let (plan_id, limits) = (draft.plan.id, draft.plan.limits);
    if ledger.reservation(epoch).is_some() {
        // Asked for again: told what is left for it besides what others have.
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

/// Whoever worked may tell what that took, held or not: it knows, and it is charged once.
pub(super) fn settle_usage(
    draft: DecisionDraft<'_>,
    epoch: Epoch,
    used: BudgetAmount,
) -> Result<Decision, Refusal> {
    if epoch > draft.plan.epoch {
        return draft.answer_not_applicable();
    }
    let mut ledger = draft.facts.ledger.clone();
    if !ledger.settle_reservation(epoch, used) {
        return Ok(draft.finish_with_rows(Vec::new(), ReceiptOutcome::AlreadyDone));
    }
    let rows = changed_rows(&draft.facts.ledger, &ledger, &draft.plan);
    Ok(draft.finish_with_rows(rows, ReceiptOutcome::Done))
}

/// What is to be written for something that was used beside the work of any holder.
pub(super) fn charge_rows(facts: &DecisionFacts, plan: &Plan, used: BudgetAmount) -> Vec<RowWrite> {
    let mut ledger = facts.ledger.clone();
    ledger.charge_usage(used);
    changed_rows(&facts.ledger, &ledger, plan)
}

/// What is to be written because the plan, as it is now, has holders no more for whom something was set
/// aside.
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
        // Nobody saw it work after that.
        let until = lease.map_or(now, |lease| lease.expires_at.min(now));
        ledger.forfeit_reservation(epoch, until);
    }
}

/// The rows in which the books differ.
fn changed_rows(before: &BudgetLedger, after: &BudgetLedger, plan: &Plan) -> Vec<RowWrite> {
    let mut rows = Vec::new();
    if before.global != after.global {
        rows.push(RowWrite::PutAccount(AccountName::Global, after.global));
    }
    if before.plan != after.plan {
        rows.push(RowWrite::PutAccount(AccountName::Plan(plan.id), after.plan));
    }
    for reservation in &after.reservations {
        if before.reservation(reservation.epoch) != Some(reservation) {
            rows.push(RowWrite::PutReservation(*reservation));
        }
    }
    for reservation in &before.reservations {
        if after.reservation(reservation.epoch).is_none() {
            rows.push(RowWrite::DropReservation(plan.id, reservation.epoch));
        }
    }
    rows
}

/// Limits that leave nothing to work with are refused when they are given, and not first when they are
/// met. Landing takes nothing of them.
pub(super) fn require_budget_left(
    draft: &DecisionDraft<'_>,
    limits: &PlanLimits,
    given: Option<&PlanLimits>,
) -> Result<(), Refusal> {
    for unit in BudgetUnit::ALL {
        let changed =
            given.is_some_and(|given| given.limit_for(unit) != draft.plan.limits.limit_for(unit));
        if !changed && draft.plan.phase() == Phase::Apply {
            continue;
        }
        let spent = draft.facts.ledger.plan.settled.in_unit(unit);
        match limits.limit_for(unit) {
            Some(limit) if limit <= spent => {
                return Err(Refusal::LimitTooLow {
                    means: unit,
                    limit,
                    spent,
                });
            }
            Some(_) | None => {}
        }
    }
    Ok(())
}
