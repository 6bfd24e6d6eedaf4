//! Compares the log with the rules there were, the signatures with what landed, and the accounts with what
//! was used.

mod gates;
mod means;
mod signatures;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use anyhow::Context;
use plan::invariant::Gate;
use plan::stage::FailureCategory;
use plan::{Caller, Event, Plan, RecordedEvent, evolve};
use store::PlanRow;

use super::Settings;
use super::notes::{Note, Notes};
use super::statutes::Statutes;
use crate::chronicle::Log;
use crate::crowd::Deeds;
use crate::ground::Ground;

/// What came of a trial.
#[derive(Debug, Default)]
pub struct Outcome {
    /// How often what happened.
    pub tally: Tally,
    /// What must never happen.
    pub violations: Vec<String>,
    /// What did not happen often enough for the trial to mean anything.
    pub missing: Vec<String>,
}

/// How often what happened.
#[derive(Debug, Default)]
pub struct Tally {
    plans: usize,
    /// With rules that were asked.
    passed: BTreeMap<Gate, usize>,
    blocked: BTreeMap<Gate, usize>,
    /// Blocked through the program.
    shut: usize,
    waived: usize,
    ruled: usize,
    signed: usize,
    applied: usize,
    halted: usize,
    forfeited: usize,
    kills: usize,
}

/// A plan as it came to be, event by event.
struct Life<'a> {
    row: &'a PlanRow,
    history: &'a [RecordedEvent],
    /// The plan after each event.
    plans: Vec<Plan>,
    notes: Vec<&'a Note>,
    ground: &'a Ground,
    statutes: &'a Statutes,
    deeds: &'a Deeds,
}

/// Everything that is wrong, and how much happened.
pub fn check(
    settings: &Settings,
    ground: &Ground,
    statutes: &Statutes,
    notes: &Notes,
    most: u64,
    deeds: &Deeds,
) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::default();
    let runs = notes.runs()?;
    let kills = deeds.kills + notes.kills.load(Ordering::Relaxed);
    outcome.tally.kills = usize::try_from(kills)?;
    outcome.tally.shut += usize::try_from(notes.shut.load(Ordering::Relaxed))?;
    let mut log = Log::create(&ground.ledger)?;
    let mut callers: BTreeMap<String, String> = BTreeMap::new();
    let mut books = means::Books::default();
    for plan in ground.plans()? {
        let (row, id) = (ground.lifecycle.get_plan(plan.id)?, plan.id.to_string());
        let history = ground.lifecycle.read_history(plan.id)?;
        log.write(&history)?;
        for recorded in &history {
            let (Caller::Person(name) | Caller::Worker(name)) = &recorded.by;
            callers.insert(name.clone(), format!("{id} {:?}", recorded.event.kind()));
        }
        let life = Life {
            plans: replayed(&history)?,
            row: &row,
            history: &history,
            notes: runs.iter().filter(|note| note.plan == id).collect(),
            ground,
            statutes,
            deeds,
        };
        life.check(&mut outcome);
        let ledger = ground.store.read_ledger(plan.id)?;
        books.add(&life, &ledger, &mut outcome);
    }
    books.balance(most, &mut outcome.violations);
    let blocked = notes.blocked.lock().unwrap_or_else(PoisonError::into_inner);
    for one in &*blocked {
        *outcome.tally.blocked.entry(one.gate).or_default() += 1;
        if let Some(event) = callers.get(&one.caller) {
            let (caller, plan, gate) = (&one.caller, one.plan, one.gate);
            outcome.violations.push(format!(
                "{caller} was told that the {gate} gate kept {plan} where it was, and did: {event}"
            ));
        }
    }
    if let Err(error) = ground.must(&["store", "verify"]) {
        outcome.violations.push(error.to_string());
    }
    outcome.missing = outcome.tally.missing(settings);
    Ok(outcome)
}

fn replayed(history: &[RecordedEvent]) -> anyhow::Result<Vec<Plan>> {
    let mut plans: Vec<Plan> = Vec::new();
    for recorded in history {
        plans.push(evolve(plans.last().cloned(), recorded).context("the log does not add up")?);
    }
    Ok(plans)
}

impl Life<'_> {
    fn check(&self, outcome: &mut Outcome) {
        outcome.tally.plans += 1;
        if self.plans.last() != Some(&self.row.plan) {
            let id = self.row.plan.id;
            outcome
                .violations
                .push(format!("{id} is not what its log adds up to"));
        }
        self.gates(outcome);
        self.signatures(outcome);
        self.verdict(outcome);
        for recorded in self.history {
            let tally = &mut outcome.tally;
            match &recorded.event {
                Event::Landed { .. } => tally.applied += 1,
                Event::Failed { failure } if failure.category == FailureCategory::Budget => {
                    tally.halted += 1;
                }
                _ => {}
            }
        }
    }

    /// The plan before an event.
    fn before(&self, at: usize) -> &Plan {
        &self.plans[at.saturating_sub(1)]
    }

    /// Something is wrong with an event.
    fn wrong(&self, at: usize, what: &str) -> String {
        let RecordedEvent {
            plan, version, by, ..
        } = &self.history[at];
        format!("{plan}, event {version} by {by}: {what}")
    }
}

impl Tally {
    fn missing(&self, settings: &Settings) -> Vec<String> {
        let some = 1 + settings.trial.at(2);
        let mut least = vec![
            (self.waived, some, "waivers".to_owned()),
            (self.ruled, some, "answers to rules that ask".to_owned()),
            (self.signed, some, "signatures of people".to_owned()),
            (self.applied, 2 + some, "plans that were applied".to_owned()),
            (
                self.halted,
                some,
                "runs that were halted by a budget".to_owned(),
            ),
        ];
        if !settings.by_library {
            let shut = "gates that the program found shut".to_owned();
            least.push((self.shut, some, shut));
            least.push((self.kills, 1 + some, "kills".to_owned()));
        }
        for gate in Gate::ALL {
            let of = |counts: &BTreeMap<Gate, usize>| counts.get(&gate).copied().unwrap_or(0);
            least.push((
                of(&self.passed),
                some,
                format!("rules that let plans pass the {gate} gate"),
            ));
            least.push((
                of(&self.blocked),
                some,
                format!("plans that did not pass the {gate} gate"),
            ));
        }
        let too_few = least.into_iter().filter(|(count, least, _)| count < least);
        too_few
            .map(|(count, least, what)| format!("{count} {what} of at least {least}"))
            .collect()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = |counts: &BTreeMap<Gate, usize>| {
            let each = counts.iter().map(|(gate, count)| format!("{gate} {count}"));
            each.collect::<Vec<_>>().join(", ")
        };
        write!(
            f,
            "{} plans, {} applied; passed under rules: {}; blocked: {}; {} waivers, {} answers, {} signatures; \
             {} halts, {} forfeits; {} processes killed",
            self.plans,
            self.applied,
            told(&self.passed),
            told(&self.blocked),
            self.waived,
            self.ruled,
            self.signed,
            self.halted,
            self.forfeited,
            self.kills
        )
    }
}
