//! Checks that the charged usage equals the recorded usage and stays within the limits.

use std::collections::{BTreeMap, BTreeSet};

use plan::ledger::{BudgetAccount, BudgetAmount, BudgetLedger, BudgetReservation, BudgetUnit};
use plan::plan::PlanLimits;
use plan::{Epoch, Event};

use super::{GateTrialOutcome, PlanReplay};
use crate::gate_trial::spending_actor::{MAX_TOKENS_PER_CALL, MICROS_PER_TOKEN};
use crate::worker_group::WORKER_LEASE;

/// The sum of all plans' accounts, and the account for all plans.
#[derive(Default)]
pub struct BudgetTotals {
    plans: BudgetAccount,
    global: BudgetAccount,
    /// Tokens of runs whose worker was paused and could not enforce a limit.
    unsupervised: u64,
}

impl BudgetTotals {
    /// Adds and checks the account of a plan.
    pub(super) fn add_plan(
        &mut self,
        replay: &PlanReplay<'_>,
        ledger: &BudgetLedger,
        outcome: &mut GateTrialOutcome,
    ) {
        let BudgetAccount {
            settled,
            forfeited,
            reserved,
        } = ledger.plan;
        self.plans.settled = self.plans.settled.saturating_add(settled);
        self.plans.forfeited = self.plans.forfeited.saturating_add(forfeited);
        self.plans.reserved = self.plans.reserved.saturating_add(reserved);
        self.global = ledger.global;
        outcome.counts.forfeited += ledger.reservations.len();
        let plan_id = replay.row.plan.id();
        if reserved != BudgetAmount::default()
            || ledger.reservations.iter().any(BudgetReservation::is_open)
        {
            let problem =
                format!("{plan_id}: {reserved:?} is still reserved, but nobody works on it");
            outcome.violations.push(problem);
        }
        outcome.violations.extend(check_charges(replay, ledger));
        let unsupervised = tokens_of_paused_workers(replay, ledger);
        self.unsupervised += unsupervised;
        outcome
            .violations
            .extend(check_limits(replay, settled, unsupervised));
    }

    /// The sum of all plans' accounts equals the account for all plans, and the budget was kept.
    pub(super) fn check_totals(&self, maximum: u64, violations: &mut Vec<String>) {
        if self.plans != self.global {
            let Self { plans, global, .. } = self;
            violations.push(format!(
                "all plans used {plans:?}, but are charged {global:?}"
            ));
        }
        let used = self.global.settled.tokens;
        let maximum = maximum + self.unsupervised;
        if used > maximum {
            violations.push(format!(
                "all plans used {used} tokens, at most {maximum} are allowed"
            ));
        }
    }
}

/// The charged amount is the settled usage plus the reservations of runs that never settled.
fn check_charges(replay: &PlanReplay<'_>, ledger: &BudgetLedger) -> Option<String> {
    let forfeited_by_epoch: BTreeMap<u64, BudgetAmount> = ledger
        .reservations
        .iter()
        .filter_map(|reservation| Some((reservation.epoch.0, reservation.forfeited?)))
        .collect();
    let completed_epochs: BTreeSet<u64> = replay
        .history
        .iter()
        .filter_map(|recorded| match &recorded.event {
            Event::ExecuteCompleted { epoch, .. } => Some(epoch.0),
            _ => None,
        })
        .collect();
    let forfeited = forfeited_by_epoch
        .values()
        .fold(BudgetAmount::default(), |sum, amount| {
            sum.saturating_add(*amount)
        });
    if forfeited != ledger.plan.forfeited {
        let (plan_id, charged) = (replay.row.plan.id(), ledger.plan.forfeited);
        return Some(format!(
            "{plan_id} forfeited {forfeited:?}, but is charged {charged:?}"
        ));
    }
    let (mut minimum, mut maximum) = (0, 0);
    for record in replay
        .records
        .iter()
        .filter(|record| !forfeited_by_epoch.contains_key(&record.epoch))
    {
        maximum += record.tokens;
        // An actor that was stopped may have used only a part.
        if record.settled || completed_epochs.contains(&record.epoch) {
            minimum += record.tokens;
        }
    }
    let charged = ledger.plan.settled.saturating_sub(forfeited);
    for (unit, price) in [
        (BudgetUnit::Tokens, 1),
        (BudgetUnit::Cost, MICROS_PER_TOKEN),
    ] {
        let charged = charged.in_unit(unit);
        if charged < minimum * price || charged > maximum * price {
            let (plan_id, minimum, maximum) =
                (replay.row.plan.id(), minimum * price, maximum * price);
            return Some(format!(
                "{plan_id} used {minimum} to {maximum} of {unit:?}, but is charged {charged}"
            ));
        }
    }
    None
}

/// The tokens used by actors of paused workers: a paused worker cannot stop its actor. It settles the usage when it
/// resumes. A killed worker settles nothing, so its reservation is charged instead.
fn tokens_of_paused_workers(replay: &PlanReplay<'_>, ledger: &BudgetLedger) -> u64 {
    let is_settled = |epoch: u64| {
        let mut reservations = ledger.reservations.iter();
        !reservations
            .any(|reservation| reservation.epoch.0 == epoch && reservation.forfeited.is_some())
    };
    let records = replay.records.iter();
    records
        .filter(|record| is_settled(record.epoch) && was_paused(replay, record.epoch))
        .map(|record| record.tokens)
        .sum()
}

/// Whether the worker was paused while it held this epoch, or shortly after.
fn was_paused(replay: &PlanReplay<'_>, epoch: u64) -> bool {
    let mut events = replay.history.iter().zip(&replay.plans);
    let claimed = events.find_map(|(recorded, _)| match &recorded.event {
        Event::Claimed {
            epoch: own, owner, ..
        } if own.0 == epoch => Some((owner, recorded.at.0)),
        _ => None,
    });
    let ended = events.find(|(_, plan)| !plan.is_held_by(Epoch(epoch)));
    let ended = ended.map_or(i64::MAX, |(recorded, _)| recorded.at.0);
    // A running worker notices the loss of its lease, and ends its actor, within this time.
    let actor_ended = ended.saturating_add(i64::try_from(WORKER_LEASE.as_micros()).unwrap_or(0));
    claimed.is_some_and(|(owner, at)| replay.faults.was_paused(owner, at, actor_ended))
}

/// The plan used at most one call more than the highest limit it ever had, not counting paused workers.
fn check_limits(
    replay: &PlanReplay<'_>,
    settled: BudgetAmount,
    unsupervised: u64,
) -> Option<String> {
    let plan_id = replay.row.plan.id();
    let limits: Vec<&PlanLimits> = replay
        .history
        .iter()
        .filter_map(|recorded| match &recorded.event {
            Event::Created(created) => Some(&created.limits),
            Event::Retried { limits, .. } => Some(limits),
            _ => None,
        })
        .collect();
    for (unit, price) in [
        (BudgetUnit::Tokens, 1),
        (BudgetUnit::Cost, MICROS_PER_TOKEN),
    ] {
        let limit = limits
            .iter()
            .map(|limits| limits.limit_for(unit).unwrap_or(u64::MAX))
            .max();
        let tolerance = (MAX_TOKENS_PER_CALL + unsupervised) * price;
        let limit = limit.unwrap_or(u64::MAX).saturating_add(tolerance);
        if settled.in_unit(unit) > limit {
            let used = settled.in_unit(unit);
            return Some(format!(
                "{plan_id} used {used} of {unit:?}, more than one call beyond its limit"
            ));
        }
    }
    None
}
