//! Compares the events with the rules of the time, the approvals with what landed, and the accounts with the recorded
//! usage.

mod approvals;
mod budgets;
mod gates;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use anyhow::Context;
use plan::invariant::Gate;
use plan::stage::FailureCategory;
use plan::{Event, Plan, RecordedEvent, evolve};
use store::PlanRow;

use super::GateTrialSettings;
use super::rule_history::RuleHistory;
use super::trial_records::{EpochRecord, TrialRecords};
use crate::trial_env::TrialEnv;
use crate::trial_logs::EventDump;
use crate::worker_group::WorkerFaultLog;

/// Counts and verdict of the trial.
#[derive(Debug, Default)]
pub struct GateTrialOutcome {
    pub counts: GateCounts,
    pub violations: Vec<String>,
    /// What did not happen often enough for the trial to count.
    pub missing: Vec<String>,
}

/// How often gates were passed or blocked, and what else happened.
#[derive(Debug, Default)]
pub struct GateCounts {
    plans: usize,
    /// Gates passed with at least one rule.
    passed: BTreeMap<Gate, usize>,
    blocked: BTreeMap<Gate, usize>,
    /// Blocked gates that the program reported.
    blocked_programs: usize,
    waivers: usize,
    rulings: usize,
    approvals: usize,
    applied: usize,
    /// Runs stopped by a budget.
    stopped_runs: usize,
    /// Reservations that were never settled.
    forfeited: usize,
    kills: usize,
}

/// A plan replayed event by event, with everything that its checks need.
struct PlanReplay<'a> {
    row: &'a PlanRow,
    history: &'a [RecordedEvent],
    /// The plan after each event.
    plans: Vec<Plan>,
    records: Vec<&'a EpochRecord>,
    env: &'a TrialEnv,
    rule_history: &'a RuleHistory,
    faults: &'a WorkerFaultLog,
}

/// Counts what happened and finds all violations.
pub fn check_outcome(
    settings: &GateTrialSettings,
    env: &TrialEnv,
    rule_history: &RuleHistory,
    records: &TrialRecords,
    max_tokens: u64,
    faults: &WorkerFaultLog,
) -> anyhow::Result<GateTrialOutcome> {
    let mut outcome = GateTrialOutcome::default();
    let epoch_records = records.read_epochs()?;
    let kills = faults.kills + records.kills.load(Ordering::Relaxed);
    outcome.counts.kills = usize::try_from(kills)?;
    outcome.counts.blocked_programs +=
        usize::try_from(records.blocked_programs.load(Ordering::Relaxed))?;
    let mut event_dump = EventDump::create_in(&env.records_dir)?;
    let mut event_by_caller: BTreeMap<String, String> = BTreeMap::new();
    let mut totals = budgets::BudgetTotals::default();
    for plan in env.list_plans()? {
        let (row, plan_id) = (env.lifecycle.get_plan(plan.id())?, plan.id().to_string());
        let history = env.lifecycle.history().read_history(plan.id())?;
        event_dump.append_events(&history)?;
        for recorded in &history {
            let name = recorded.by.name();
            event_by_caller.insert(
                name.to_owned(),
                format!("{plan_id} {:?}", recorded.event.kind()),
            );
        }
        let replay = PlanReplay {
            plans: replay_events(&history)?,
            row: &row,
            history: &history,
            records: epoch_records
                .iter()
                .filter(|record| record.plan_id == plan_id)
                .collect(),
            env,
            rule_history,
            faults,
        };
        replay.check_plan(&mut outcome);
        let ledger = env.store.read_ledger(plan.id())?;
        totals.add_plan(&replay, &ledger, &mut outcome);
    }
    totals.check_totals(max_tokens, &mut outcome.violations);
    let blocked_calls = records
        .blocked_calls
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    for blocked in &*blocked_calls {
        *outcome.counts.blocked.entry(blocked.gate).or_default() += 1;
        if let Some(event) = event_by_caller.get(&blocked.caller) {
            let (caller, plan_id, gate) = (&blocked.caller, blocked.plan_id, blocked.gate);
            outcome.violations.push(format!(
                "the {gate} gate of {plan_id} blocked {caller}, but it wrote an event: {event}"
            ));
        }
    }
    if let Err(error) = env.run_checked(&["store", "verify"]) {
        outcome.violations.push(error.to_string());
    }
    outcome.missing = outcome.counts.find_missing(settings);
    Ok(outcome)
}

/// The plan after each event.
fn replay_events(history: &[RecordedEvent]) -> anyhow::Result<Vec<Plan>> {
    let mut plans: Vec<Plan> = Vec::new();
    for recorded in history {
        let next = evolve(plans.last().cloned(), recorded).context("could not replay the log")?;
        plans.push(next);
    }
    Ok(plans)
}

impl PlanReplay<'_> {
    fn check_plan(&self, outcome: &mut GateTrialOutcome) {
        outcome.counts.plans += 1;
        if self.plans.last() != Some(&self.row.plan) {
            let id = self.row.plan.id();
            outcome
                .violations
                .push(format!("{id} differs from the replay of its log"));
        }
        self.check_gates(outcome);
        self.check_approvals(outcome);
        self.check_verdict(outcome);
        for recorded in self.history {
            let counts = &mut outcome.counts;
            match &recorded.event {
                Event::Landed { .. } => counts.applied += 1,
                Event::Failed { failure } if failure.category == FailureCategory::Budget => {
                    counts.stopped_runs += 1;
                }
                _ => {}
            }
        }
    }

    /// The plan before the event at an index.
    fn plan_before(&self, index: usize) -> &Plan {
        &self.plans[index.saturating_sub(1)]
    }

    /// The message for a problem with the event at an index.
    fn problem_at(&self, index: usize, problem: &str) -> String {
        let RecordedEvent {
            plan, version, by, ..
        } = &self.history[index];
        format!("{plan}, event {version} by {by}: {problem}")
    }
}

impl GateCounts {
    fn find_missing(&self, settings: &GateTrialSettings) -> Vec<String> {
        let some = 1 + settings.trial.scale_per_minute(2);
        let mut minimums = vec![
            (self.waivers, some, "waivers".to_owned()),
            (self.rulings, some, "answered rules".to_owned()),
            (self.approvals, some, "approvals by people".to_owned()),
            (self.applied, 2 + some, "applied plans".to_owned()),
            (
                self.stopped_runs,
                some,
                "runs stopped by a budget".to_owned(),
            ),
        ];
        if !settings.by_library {
            let name = "blocked gates reported by the program".to_owned();
            minimums.push((self.blocked_programs, some, name));
            minimums.push((self.kills, 1 + some, "kills".to_owned()));
        }
        for gate in Gate::ALL {
            let count_of = |counts: &BTreeMap<Gate, usize>| counts.get(&gate).copied().unwrap_or(0);
            minimums.push((
                count_of(&self.passed),
                some,
                format!("passages of the {gate} gate with rules"),
            ));
            minimums.push((
                count_of(&self.blocked),
                some,
                format!("plans blocked at the {gate} gate"),
            ));
        }
        minimums
            .into_iter()
            .filter(|(count, minimum, _)| count < minimum)
            .map(|(count, minimum, name)| format!("{count} {name}, expected at least {minimum}"))
            .collect()
    }
}

impl fmt::Display for GateCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list_gates = |counts: &BTreeMap<Gate, usize>| {
            let each = counts.iter().map(|(gate, count)| format!("{gate} {count}"));
            each.collect::<Vec<_>>().join(", ")
        };
        write!(
            f,
            "{} plans, {} applied; gates passed with rules: {}; blocked: {}; {} waivers, {} answered rules, \
             {} approvals; {} runs stopped by a budget, {} forfeited reservations; {} processes killed",
            self.plans,
            self.applied,
            list_gates(&self.passed),
            list_gates(&self.blocked),
            self.waivers,
            self.rulings,
            self.approvals,
            self.stopped_runs,
            self.forfeited,
            self.kills
        )
    }
}
