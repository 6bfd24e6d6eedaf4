//! Means: set aside before work, charged after it. Nothing here moves a plan.

use crate::decide::draft::Draft;
use crate::ledger::{AccountName, Amount, Budget, Ledger, Means, Metering, Reservation, grant};
use crate::plan::Limits;
use crate::{Decision, Epoch, Facts, Outcome, Phase, Plan, Refusal, Row, Timestamp};

pub(super) fn reserve(
    mut draft: Draft<'_>,
    epoch: Epoch,
    metering: Metering,
    budget: &Budget,
) -> Result<Decision, Refusal> {
    // Landing has no actor, and takes nothing.
    if draft.require_holder(epoch).is_err() || draft.plan.phase() == Phase::Apply {
        return draft.not_now();
    }
    let mut books = draft.facts.ledger.clone();
    forfeit_fenced(&mut books, draft.facts, &draft.plan, draft.now);
    let (plan, limits) = (draft.plan.id, draft.plan.limits);
    if books.reservation(epoch).is_some() {
        // Asked for again: told what is left for it besides what others have.
        books.settle(epoch, Amount::default());
        draft.grant = grant(&books, plan, &limits, budget, metering).ok();
        return Ok(draft.beside(Vec::new(), Outcome::AlreadyDone));
    }
    let granted = grant(&books, plan, &limits, budget, metering).map_err(Refusal::OverBudget)?;
    books.reserve(Reservation {
        plan,
        epoch,
        amount: granted.to_reserve(metering),
        at: draft.now,
        forfeited: None,
    });
    let rows = written(&draft.facts.ledger, &books, &draft.plan);
    draft.grant = Some(granted);
    Ok(draft.beside(rows, Outcome::Done))
}

/// Whoever worked may tell what that took, held or not: it knows, and it is charged once.
pub(super) fn settle(draft: Draft<'_>, epoch: Epoch, used: Amount) -> Result<Decision, Refusal> {
    if epoch > draft.plan.epoch {
        return draft.not_now();
    }
    let mut books = draft.facts.ledger.clone();
    if !books.settle(epoch, used) {
        return Ok(draft.beside(Vec::new(), Outcome::AlreadyDone));
    }
    let rows = written(&draft.facts.ledger, &books, &draft.plan);
    Ok(draft.beside(rows, Outcome::Done))
}

/// What is to be written for something that was used beside the work of any holder.
pub(super) fn charged(facts: &Facts, plan: &Plan, used: Amount) -> Vec<Row> {
    let mut books = facts.ledger.clone();
    books.charge(used);
    written(&facts.ledger, &books, plan)
}

/// What is to be written because the plan, as it is now, has holders no more for whom something was set
/// aside.
pub(super) fn fenced(facts: &Facts, plan: &Plan, now: Timestamp) -> Vec<Row> {
    let mut books = facts.ledger.clone();
    forfeit_fenced(&mut books, facts, plan, now);
    written(&facts.ledger, &books, plan)
}

fn forfeit_fenced(books: &mut Ledger, facts: &Facts, plan: &Plan, now: Timestamp) {
    let is_fenced = |one: &&Reservation| one.is_open() && !plan.is_held_by(one.epoch);
    let fenced: Vec<Epoch> = books
        .reservations
        .iter()
        .filter(is_fenced)
        .map(|one| one.epoch)
        .collect();
    for epoch in fenced {
        let lease = facts.lease.as_ref().filter(|lease| lease.epoch == epoch);
        // Nobody saw it work after that.
        let until = lease.map_or(now, |lease| lease.expires_at.min(now));
        books.forfeit(epoch, until);
    }
}

/// The rows in which the books differ.
fn written(before: &Ledger, after: &Ledger, plan: &Plan) -> Vec<Row> {
    let mut rows = Vec::new();
    if before.global != after.global {
        rows.push(Row::PutAccount(AccountName::Global, after.global));
    }
    if before.plan != after.plan {
        rows.push(Row::PutAccount(AccountName::Plan(plan.id), after.plan));
    }
    for reservation in &after.reservations {
        if before.reservation(reservation.epoch) != Some(reservation) {
            rows.push(Row::PutReservation(*reservation));
        }
    }
    for reservation in &before.reservations {
        if after.reservation(reservation.epoch).is_none() {
            rows.push(Row::DropReservation(plan.id, reservation.epoch));
        }
    }
    rows
}

/// Limits that leave nothing to work with are refused when they are given, and not first when they are
/// met. Landing takes nothing of them.
pub(super) fn require_something_left(
    draft: &Draft<'_>,
    limits: &Limits,
    given: Option<&Limits>,
) -> Result<(), Refusal> {
    for means in Means::ALL {
        let changed = given.is_some_and(|given| given.of(means) != draft.plan.limits.of(means));
        if !changed && draft.plan.phase() == Phase::Apply {
            continue;
        }
        let spent = draft.facts.ledger.plan.settled.of(means);
        match limits.of(means) {
            Some(limit) if limit <= spent => {
                return Err(Refusal::LimitTooLow {
                    means,
                    limit,
                    spent,
                });
            }
            Some(_) | None => {}
        }
    }
    Ok(())
}
