//! Is what was charged what was used, and no more than might be?

use std::collections::{BTreeMap, BTreeSet};

use plan::ledger::{BudgetAccount, BudgetAmount, BudgetLedger, BudgetReservation, BudgetUnit};
use plan::plan::PlanLimits;
use plan::{Epoch, Event};

use super::{Life, Outcome};
use crate::crowd::LEASE;
use crate::gating::spender::{CALL, PRICE};

/// The accounts of all plans, added up.
#[derive(Default)]
pub struct Books {
    plans: BudgetAccount,
    global: BudgetAccount,
    /// Tokens that nobody could keep within bounds.
    unwatched: u64,
}

impl Books {
    /// Takes in the accounts of a plan.
    pub(super) fn add(&mut self, life: &Life<'_>, ledger: &BudgetLedger, outcome: &mut Outcome) {
        let BudgetAccount {
            settled,
            forfeited,
            reserved,
        } = ledger.plan;
        self.plans.settled = self.plans.settled.saturating_add(settled);
        self.plans.forfeited = self.plans.forfeited.saturating_add(forfeited);
        self.plans.reserved = self.plans.reserved.saturating_add(reserved);
        self.global = ledger.global;
        outcome.tally.forfeited += ledger.reservations.len();
        let plan = life.row.plan.id;
        if reserved != BudgetAmount::default()
            || ledger.reservations.iter().any(BudgetReservation::is_open)
        {
            let why = format!("{plan}: {reserved:?} are set aside, and nobody works");
            outcome.violations.push(why);
        }
        outcome.violations.extend(charged(life, ledger));
        let unwatched = unwatched(life, ledger);
        self.unwatched += unwatched;
        outcome.violations.extend(kept(life, settled, unwatched));
    }

    /// All plans together are what all plans are one by one, and within the budget.
    pub(super) fn balance(&self, most: u64, violations: &mut Vec<String>) {
        if self.plans != self.global {
            let Self { plans, global, .. } = self;
            violations.push(format!(
                "all plans used {plans:?}, and are charged {global:?}"
            ));
        }
        let used = self.global.settled.tokens;
        let most = most + self.unwatched;
        if used > most {
            violations.push(format!("all plans used {used} tokens of {most} at most"));
        }
    }
}

/// What is charged is what was told, and what was set aside for those who told nothing.
fn charged(life: &Life<'_>, ledger: &BudgetLedger) -> Option<String> {
    let silent: BTreeMap<u64, BudgetAmount> = ledger
        .reservations
        .iter()
        .filter_map(|one| Some((one.epoch.0, one.forfeited?)))
        .collect();
    let handed_in: BTreeSet<u64> = life
        .history
        .iter()
        .filter_map(|one| match &one.event {
            Event::ExecuteCompleted { epoch, .. } => Some(epoch.0),
            _ => None,
        })
        .collect();
    let forfeited = silent
        .values()
        .fold(BudgetAmount::default(), |sum, one| sum.saturating_add(*one));
    if forfeited != ledger.plan.forfeited {
        let (plan, told) = (life.row.plan.id, ledger.plan.forfeited);
        return Some(format!(
            "{plan} forfeited {forfeited:?}, and is charged {told:?}"
        ));
    }
    let (mut least, mut most) = (0, 0);
    for note in life
        .notes
        .iter()
        .filter(|note| !silent.contains_key(&note.epoch))
    {
        most += note.tokens;
        // An actor that was stopped may not have come to use all of it.
        if note.told || handed_in.contains(&note.epoch) {
            least += note.tokens;
        }
    }
    let told = ledger.plan.settled.saturating_sub(forfeited);
    for (means, price) in [(BudgetUnit::Tokens, 1), (BudgetUnit::Cost, PRICE)] {
        let told = told.in_unit(means);
        if told < least * price || told > most * price {
            let (plan, least, most) = (life.row.plan.id, least * price, most * price);
            return Some(format!(
                "{plan} used {least} to {most} of {means:?}, and is charged {told}"
            ));
        }
    }
    None
}

/// What the actors of workers used who slept: whoever is stopped stops nobody. They told it when they woke, whatever
/// had become of the plan. Those who were killed told nothing, and are charged what was set aside for them.
fn unwatched(life: &Life<'_>, ledger: &BudgetLedger) -> u64 {
    let told = |epoch: u64| {
        let mut forfeited = ledger.reservations.iter();
        !forfeited.any(|one| one.epoch.0 == epoch && one.forfeited.is_some())
    };
    let notes = life.notes.iter();
    notes
        .filter(|note| told(note.epoch) && slept(life, note.epoch))
        .map(|note| note.tokens)
        .sum()
}

/// Was the worker with this authority asleep while it had it, or when it was over?
fn slept(life: &Life<'_>, epoch: u64) -> bool {
    let mut events = life.history.iter().zip(&life.plans);
    let claimed = events.find_map(|(one, _)| match &one.event {
        Event::Claimed {
            epoch: own, owner, ..
        } if own.0 == epoch => Some((owner, one.at.0)),
        _ => None,
    });
    let over = events.find(|(_, plan)| !plan.is_held_by(Epoch(epoch)));
    let over = over.map_or(i64::MAX, |(one, _)| one.at.0);
    // It takes a moment until a worker that is awake has noticed that, and its actor is gone.
    let gone = over.saturating_add(i64::try_from(LEASE.as_micros()).unwrap_or(0));
    claimed.is_some_and(|(owner, at)| life.deeds.slept(owner, at, gone))
}

/// A plan used no more than a call beyond the most that it was ever given, but for what nobody watched.
fn kept(life: &Life<'_>, settled: BudgetAmount, unwatched: u64) -> Option<String> {
    let plan = life.row.plan.id;
    let limits: Vec<&PlanLimits> = life
        .history
        .iter()
        .filter_map(|one| match &one.event {
            Event::Created(created) => Some(&created.limits),
            Event::Retried { limits, .. } => Some(limits),
            _ => None,
        })
        .collect();
    for (means, price) in [(BudgetUnit::Tokens, 1), (BudgetUnit::Cost, PRICE)] {
        let limit = limits
            .iter()
            .map(|limits| limits.limit_for(means).unwrap_or(u64::MAX))
            .max();
        let beyond = (CALL + unwatched) * price;
        let limit = limit.unwrap_or(u64::MAX).saturating_add(beyond);
        if settled.in_unit(means) > limit {
            let used = settled.in_unit(means);
            return Some(format!(
                "{plan} used {used} of {means:?}, more than a call beyond its limit"
            ));
        }
    }
    None
}
