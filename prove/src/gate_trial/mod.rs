//! The `gates` trial: clients change, answer and waive rules, and approve, revise and land plans, while workers run a
//! spending actor and are killed. Afterwards no plan may have passed a gate with an unmet rule, nothing may have landed
//! without an approval, and the charged usage must equal the recorded usage.

#[cfg(feature = "broken")]
pub mod bugs;
pub mod spending_actor;

mod check;
mod gate_client;
mod library_steps;
mod program_steps;
mod rule_history;
mod sample_rules;
mod trial_records;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use lifecycle::{Call, Lifecycle, LifecycleError};
use plan::Caller;

use crate::call_trial::TrialDatabase;
use crate::check::HARNESS_CALLER;
use crate::trial::{Trial, TrialProgress};
use crate::trial_env::{TrialActorSpec, TrialEnv};
use crate::worker_group::{FaultPolicy, WorkerGroup};
pub use check::GateTrialOutcome;
use gate_client::{GateClient, GrowingBudget};
use rule_history::RuleHistory;
use trial_records::TrialRecords;

pub struct GateTrialSettings {
    /// The number of processes is the number of clients. There are half as many workers.
    pub trial: Trial,
    /// All clients use the library and no plan lands, so that more happens in less time.
    pub by_library: bool,
    /// The bug to plant.
    #[cfg(feature = "broken")]
    pub bug: Option<bugs::GateBug>,
}

/// How fast the budget for all plans grows.
const BUDGET_TOKENS_PER_SECOND: u64 = 600;

/// The average interval between two faults of the workers.
const FAULT_INTERVAL: Duration = Duration::from_secs(2);

/// Runs the trial.
pub fn run(settings: &GateTrialSettings) -> anyhow::Result<GateTrialOutcome> {
    let trial = &settings.trial;
    // Runs that started in time may end a little later.
    let budget = BUDGET_TOKENS_PER_SECOND * (trial.duration.as_secs() + 10);
    let actor = TrialActorSpec {
        subcommand: "spender",
        output_format: "claude-json",
        runs_strategize: false,
        program_env: vec![("PLANWRIGHT_BUDGET_TOKENS", budget.to_string())],
    };
    let env = TrialEnv::create(trial, actor)?;
    let rule_history = RuleHistory::default();
    let records = TrialRecords::new(&env.records_dir);
    let worker_count = match settings.by_library {
        true => 0,
        false => (trial.processes / 2).max(1),
    };
    let policy = FaultPolicy {
        interval: FAULT_INTERVAL,
        // A worker that is paused while it holds the lock of a SQLite file would block all clients.
        pauses_and_hangups: trial.database == TrialDatabase::Postgres,
    };
    let mut workers = WorkerGroup::start_all(&env, worker_count, policy)?;
    let is_over = AtomicBool::new(false);
    let global_budget = GrowingBudget {
        started: Instant::now(),
        tokens_per_second: BUDGET_TOKENS_PER_SECOND,
    };
    let run_client = |number| -> anyhow::Result<()> {
        let mut client = GateClient {
            env: &env,
            rule_history: &rule_history,
            records: &records,
            lifecycle: client_engine(settings, &env),
            random: trial.random_for_client(number),
            number,
            by_library: settings.by_library || number % 2 == 1,
            clients: trial.processes,
            global_budget,
            calls: 0,
        };
        while !is_over.load(Ordering::Relaxed) {
            client
                .take_step()
                .inspect_err(|_| is_over.store(true, Ordering::Relaxed))?;
        }
        Ok(())
    };
    std::thread::scope(|scope| -> anyhow::Result<()> {
        let run_client = &run_client;
        let clients: Vec<_> = (0..trial.processes)
            .map(|number| scope.spawn(move || run_client(number)))
            .collect();
        let mut random = trial.random_for_client(trial.processes);
        let mut progress = TrialProgress::start_now(trial);
        let mut inject_faults = || {
            while progress.has_time() && !is_over.load(Ordering::Relaxed) {
                trial.require_uninterrupted()?;
                std::thread::sleep(Duration::from_millis(50));
                workers.inject_fault(&env, &mut random)?;
                progress.print_if_due(|| workers.summary());
            }
            Ok(())
        };
        let faults_injected = inject_faults();
        is_over.store(true, Ordering::Relaxed);
        // A client that waits for a paused worker would wait forever.
        workers.resume_all()?;
        for client in clients {
            client.join().map_err(|_| anyhow!("a client panicked"))??;
        }
        faults_injected
    })?;
    let faults = workers.stop_workers()?;
    rule_history.record_latest(&env)?;
    end_plans(&env)?;
    // Each run may exceed its share by one call, and a worker has at most three runs at once.
    let max_tokens = budget
        + u64::from(trial.processes + 3 * worker_count) * spending_actor::MAX_TOKENS_PER_CALL;
    check::check_outcome(settings, &env, &rule_history, &records, max_tokens, &faults)
}

/// The engine of a client, with the planted bug if there is one.
fn client_engine(settings: &GateTrialSettings, env: &TrialEnv) -> Lifecycle {
    #[cfg(feature = "broken")]
    if let Some(bug) = settings.bug {
        let hooks = bugs::GateBugHooks(bug);
        let store = crate::hooked_store::HookedStore::new(Arc::clone(&env.store), hooks);
        return Lifecycle::on(Arc::new(store));
    }
    let _ = settings;
    Lifecycle::on(Arc::clone(&env.store))
}

/// Finishes interrupted landings and cancels all other plans, now that nobody works on them.
fn end_plans(env: &TrialEnv) -> anyhow::Result<()> {
    env.run_checked(&["doctor", "--fix"])?;
    let call = Call::by(Caller::Person(HARNESS_CALLER.to_owned()));
    for plan in env.list_plans()? {
        match env.lifecycle.cancel_plan(plan.id(), None, &call) {
            Ok(_) | Err(LifecycleError::Refused(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
