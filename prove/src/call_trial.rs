//! The `run` trial: many client processes on one real database. The harness kills and pauses them and restarts the
//! database; afterwards the checker compares their answers with the store.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use fastrand::Rng;
use lifecycle::{Call, Lifecycle};
use plan::Caller;
use store::Store;
use testkit::{CuttingProxy, PostgresCluster, samples};

use crate::check::{self, CallCounts, HARNESS_CALLER, MinimumCounts, StoreContents, Violation};
use crate::client_group::{ClientGroup, FaultCounts};
use crate::client_process::{history_directory, open_store};
use crate::drain_plans::drain_plans;
use crate::history::CallHistory;
use crate::library_client::ACTION_NAME;
use crate::trial::{Trial, TrialProgress, print_status};
use crate::trial_logs::EventDump;

pub struct CallTrialSettings {
    pub trial: Trial,
    /// The longest pause of a client between two calls.
    pub pace_ms: u64,
    /// The bug to plant.
    #[cfg(feature = "broken")]
    pub bug: Option<crate::store_bugs::StoreBug>,
}

/// The database of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum TrialDatabase {
    /// SQLite, in a file
    Sqlite,
    /// A PostgreSQL server that the trial starts
    Postgres,
}

/// The recorded history, the final store contents and the verdict on them.
pub struct CallTrialOutcome {
    pub history: CallHistory,
    pub stored: StoreContents,
    pub violations: Vec<Violation>,
    pub call_counts: CallCounts,
    pub fault_counts: FaultCounts,
    /// What did not happen often enough for the trial to count.
    pub missing: Vec<String>,
}

/// The number of processes that read the log of all plans.
const LOG_READER_COUNT: u32 = 2;

/// How long a client may take to end after it was asked to.
const CLIENT_EXIT_TIMEOUT: Duration = Duration::from_secs(60);

/// The database of a trial, and the means to disturb it.
struct DisturbedDatabase {
    /// The address for the clients. On PostgreSQL it leads through the proxy.
    address: String,
    /// The address without the proxy.
    direct_address: String,
    server: Option<(PostgresCluster, CuttingProxy)>,
}

impl DisturbedDatabase {
    fn create(trial: &Trial) -> anyhow::Result<Self> {
        match trial.database {
            TrialDatabase::Sqlite => {
                let path = trial.directory.join("plans.db");
                let address = format!("sqlite:{}", path.display());
                Ok(Self {
                    direct_address: address.clone(),
                    address,
                    server: None,
                })
            }
            TrialDatabase::Postgres => {
                let mut cluster = PostgresCluster::create();
                // The connections of killed clients count until the server notices that they are gone.
                cluster.append_settings("max_connections = 300\n");
                cluster.start_server();
                let (proxy, address) = CuttingProxy::for_url(&cluster.url());
                Ok(Self {
                    address,
                    direct_address: cluster.url(),
                    server: Some((cluster, proxy)),
                })
            }
        }
    }

    /// Sometimes cuts all connections, or restarts or crashes the server. Does nothing on SQLite.
    fn inject_fault(
        &mut self,
        random: &mut Rng,
        clients: &mut ClientGroup<'_>,
    ) -> anyhow::Result<()> {
        let Some((cluster, proxy)) = &mut self.server else {
            return Ok(());
        };
        match random.u32(..40) {
            0 => {
                // A crash closes no connection properly, a restart does.
                let crashes = random.bool();
                let action = if crashes { "crash" } else { "restart" };
                clients
                    .chaos_log
                    .log_action(format_args!("{action} the server"))?;
                match crashes {
                    true => cluster.crash_and_restart(),
                    false => cluster.restart(),
                }
                clients.chaos_log.log_action("the server runs again")?;
                clients.fault_counts.restarts += 1;
            }
            1..=6 => {
                clients.chaos_log.log_action("cut all connections")?;
                proxy.cut_all_connections();
                clients.fault_counts.cuts += 1;
            }
            _ => {}
        }
        Ok(())
    }
}

/// Runs the trial.
pub fn run(settings: &CallTrialSettings) -> anyhow::Result<CallTrialOutcome> {
    let trial = &settings.trial;
    fs::create_dir_all(history_directory(&trial.directory))?;
    let mut database = DisturbedDatabase::create(trial)?;
    let store: Arc<dyn Store> = open_store(&database.direct_address)?;
    let lifecycle = Lifecycle::on(Arc::clone(&store));
    let harness_call = Call::by(Caller::Person(HARNESS_CALLER.to_owned()));
    lifecycle
        .actions()
        .create_action(samples::reusable_action(ACTION_NAME), &harness_call)?;

    let mut clients = ClientGroup::start_all(settings, &database.address, LOG_READER_COUNT)?;
    let mut random = Rng::with_seed(trial.seed);
    let mut progress = TrialProgress::start_now(trial);
    while progress.has_time() {
        std::thread::sleep(Duration::from_millis(random.u64(20..250)));
        trial.require_uninterrupted()?;
        clients.inject_fault(&mut random)?;
        database.inject_fault(&mut random, &mut clients)?;
        progress.print_if_due(|| clients.fault_counts.summary());
    }
    clients.stop_clients(CLIENT_EXIT_TIMEOUT)?;
    print_status("all clients ended; bringing every plan to a final state");
    let stuck = drain_plans(&lifecycle, &mut || {
        std::thread::sleep(Duration::from_millis(200));
    })
    .context("the store failed although nothing disturbed it")?;
    clients.stop_readers(CLIENT_EXIT_TIMEOUT)?;
    let fault_counts = clients.fault_counts;
    drop(clients);

    print_status("comparing the recorded answers with the store");
    let history = CallHistory::read_directory(&history_directory(&trial.directory))?;
    let stored = StoreContents::read_store(store.as_ref())?;
    let mut event_dump = EventDump::create_in(&trial.directory)?;
    for plan in stored.plans.values() {
        event_dump.append_events(&plan.events)?;
    }
    let mut violations = check::check_history(&history, &stored);
    violations.extend(stuck);
    let call_counts = CallCounts::from_history(&history);
    let mut missing = minimum_counts(trial).find_missing(&call_counts);
    missing.extend(fault_counts.find_missing(trial));
    let active_readers = history.readers.len();
    if active_readers < usize::try_from(LOG_READER_COUNT)? {
        missing.push(format!(
            "only {active_readers} of {LOG_READER_COUNT} log readers read anything"
        ));
    }
    Ok(CallTrialOutcome {
        history,
        stored,
        violations,
        call_counts,
        fault_counts,
        missing,
    })
}

/// The minimum counts grow with the duration of the trial.
fn minimum_counts(trial: &Trial) -> MinimumCounts {
    MinimumCounts {
        done: 100 + trial.scale_per_minute(2000),
        of_each: trial.scale_per_minute(5),
        fenced: trial.scale_per_minute(5),
        through_program: usize::from(trial.processes >= 8) * (1 + trial.scale_per_minute(20)),
    }
}

impl FaultCounts {
    /// One line for the progress output.
    pub fn summary(&self) -> String {
        format!(
            "{} kills, {} pauses, {} connection cuts, {} server restarts",
            self.kills, self.pauses, self.cuts, self.restarts
        )
    }

    fn find_missing(self, trial: &Trial) -> Vec<String> {
        let on_server = usize::from(trial.database == TrialDatabase::Postgres);
        [
            ("kills", self.kills, 1 + trial.scale_per_minute(20)),
            ("pauses", self.pauses, 1 + trial.scale_per_minute(20)),
            (
                "connection cuts",
                self.cuts,
                on_server * trial.scale_per_minute(5),
            ),
            (
                "server restarts",
                self.restarts,
                on_server * trial.scale_per_minute(1),
            ),
        ]
        .into_iter()
        .filter(|(_, count, minimum)| usize::try_from(*count).is_ok_and(|count| count < *minimum))
        .map(|(name, count, minimum)| format!("{count} {name}, expected at least {minimum}"))
        .collect()
    }
}

/// Fails before anything starts if the program does not exist.
pub fn require_program(path: &Path) -> anyhow::Result<()> {
    if path.is_file() {
        return Ok(());
    }
    bail!(
        "{} does not exist; `cargo xtask prove` builds it",
        path.display()
    )
}
