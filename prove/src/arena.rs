//! A proof by trial: many processes on one real database, chaos among them, and the checker at the end.

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

use crate::chaos::{Deeds, Troupe};
use crate::check::{self, Least, REFEREE, Stored, Tally, Violation};
use crate::chronicle::Log;
use crate::client::{history_directory, open_store};
use crate::drain::drain;
use crate::history::History;
use crate::library::ACTION;
use crate::trial::{Progress, Trial, say};

/// What is to be tried.
pub struct Settings {
    /// As every trial.
    pub trial: Trial,
    /// Players think so long between two calls, at most.
    pub pace_ms: u64,
    /// With this bug.
    #[cfg(feature = "broken")]
    pub bug: Option<crate::broken::Bug>,
}

/// Databases to prove on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Database {
    /// A file.
    Sqlite,
    /// A server of our own.
    Postgres,
}

/// What came of it.
pub struct Outcome {
    /// Who did what.
    pub history: History,
    /// What is stored in the end.
    pub stored: Stored,
    /// What is wrong.
    pub violations: Vec<Violation>,
    /// How much happened.
    pub tally: Tally,
    /// What chaos did.
    pub deeds: Deeds,
    /// What did not happen often enough for this to be a proof.
    pub missing: Vec<String>,
}

/// Readers of the log of all plans.
const READERS: u32 = 2;

/// How long the processes may take to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// A database that can be reached, and disturbed.
struct Ground {
    address: String,
    /// Past the proxy that is cut.
    direct: String,
    server: Option<(PostgresCluster, CuttingProxy)>,
}

impl Ground {
    fn prepare(trial: &Trial) -> anyhow::Result<Self> {
        match trial.database {
            Database::Sqlite => {
                let path = trial.directory.join("plans.db");
                let address = format!("sqlite:{}", path.display());
                Ok(Self {
                    direct: address.clone(),
                    address,
                    server: None,
                })
            }
            Database::Postgres => {
                let mut cluster = PostgresCluster::create();
                // Those that were killed hold theirs until the server notices.
                cluster.append_settings("max_connections = 300\n");
                cluster.start_server();
                let (proxy, address) = CuttingProxy::for_url(&cluster.url());
                Ok(Self {
                    address,
                    direct: cluster.url(),
                    server: Some((cluster, proxy)),
                })
            }
        }
    }

    /// Strikes at the database, if it can be struck at.
    fn strike(&mut self, random: &mut Rng, troupe: &mut Troupe<'_>) -> anyhow::Result<()> {
        let Some((cluster, proxy)) = &mut self.server else {
            return Ok(());
        };
        match random.u32(..40) {
            0 => {
                // Half of the time without a word to those connected, as when it crashes.
                let crashes = random.bool();
                let how = if crashes { "crashes" } else { "is restarted" };
                troupe.chronicle.write(format_args!("the server {how}"))?;
                match crashes {
                    true => cluster.crash_and_restart(),
                    false => cluster.restart(),
                }
                troupe.chronicle.write("the server was started again")?;
                troupe.deeds.restarts += 1;
            }
            1..=6 => {
                troupe.chronicle.write("all connections are cut")?;
                proxy.cut_all_connections();
                troupe.deeds.cuts += 1;
            }
            _ => {}
        }
        Ok(())
    }
}

/// Tries.
pub fn run(settings: &Settings) -> anyhow::Result<Outcome> {
    let trial = &settings.trial;
    fs::create_dir_all(history_directory(&trial.directory))?;
    let mut ground = Ground::prepare(trial)?;
    let store: Arc<dyn Store> = open_store(&ground.direct)?;
    let lifecycle = Lifecycle::on(Arc::clone(&store));
    let referee = Call::by(Caller::Person(REFEREE.to_owned()));
    lifecycle.create_action(samples::reusable_action(ACTION), &referee)?;

    let mut troupe = Troupe::start(settings, &ground.address, READERS)?;
    let mut random = Rng::with_seed(trial.seed);
    let mut progress = Progress::of(trial);
    while progress.has_time() {
        std::thread::sleep(Duration::from_millis(random.u64(20..250)));
        trial.require_uninterrupted()?;
        troupe.strike(&mut random)?;
        ground.strike(&mut random, &mut troupe)?;
        progress.tell(|| troupe.deeds.told());
    }
    troupe.dismiss(false, PATIENCE)?;
    say("the players are gone; bringing every plan to its end");
    let stuck = drain(&lifecycle, &mut || {
        std::thread::sleep(Duration::from_millis(200));
    })
    .context("the store failed with nobody disturbing it")?;
    troupe.dismiss(true, PATIENCE)?;
    let deeds = troupe.deeds;
    drop(troupe);

    say("comparing what they were told with what is stored");
    let history = History::read(&history_directory(&trial.directory))?;
    let stored = Stored::read(store.as_ref())?;
    let mut log = Log::create(&trial.directory)?;
    for plan in stored.plans.values() {
        log.write(&plan.events)?;
    }
    let mut violations = check::check(&history, &stored);
    violations.extend(stuck);
    let tally = Tally::of(&history);
    let mut missing = least(trial).missing(&tally);
    missing.extend(deeds.missing(trial));
    let reading = history.readers.len();
    if reading < usize::try_from(READERS)? {
        missing.push(format!("{reading} of {READERS} readers saw anything"));
    }
    Ok(Outcome {
        history,
        stored,
        violations,
        tally,
        deeds,
        missing,
    })
}

/// More is asked of longer trials.
fn least(trial: &Trial) -> Least {
    Least {
        done: 100 + trial.at(2000),
        of_each: trial.at(5),
        fenced: trial.at(5),
        through_program: usize::from(trial.processes >= 8) * (1 + trial.at(20)),
    }
}

impl Deeds {
    /// In words.
    pub fn told(&self) -> String {
        format!(
            "{} kills, {} pauses, {} cuts, {} restarts",
            self.kills, self.pauses, self.cuts, self.restarts
        )
    }

    fn missing(self, trial: &Trial) -> Vec<String> {
        let on_server = usize::from(trial.database == Database::Postgres);
        [
            ("a kill", self.kills, 1 + trial.at(20)),
            ("a pause", self.pauses, 1 + trial.at(20)),
            ("a cut connection", self.cuts, on_server * trial.at(5)),
            ("a restart", self.restarts, on_server * trial.at(1)),
        ]
        .into_iter()
        .filter(|(_, is, least)| usize::try_from(*is).is_ok_and(|is| is < *least))
        .map(|(what, is, least)| format!("{what} happened {is} times of at least {least}"))
        .collect()
    }
}

/// Refuses a program that is not there before anything starts.
pub fn require_program(path: &Path) -> anyhow::Result<()> {
    if path.is_file() {
        return Ok(());
    }
    bail!(
        "the program {} is not there; `cargo xtask prove` builds it",
        path.display()
    )
}
