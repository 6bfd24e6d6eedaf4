//! `cargo xtask prove`: looks for a history that Planwright must never produce.

use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus};

use anyhow::Context;
use clap::ValueEnum;
use clap::builder::PossibleValuesParser;

use crate::postgres::ServerPrograms;
use crate::signals::Signals;
use crate::{cargo, child, signals};

/// Let many processes loose on shared plans, disturb them, and check every answer they were given.
#[derive(clap::Args)]
pub struct Arguments {
    /// For how long, on each store.
    #[arg(long, default_value_t = 1.0, value_parser = minutes)]
    minutes: f64,

    /// How many processes.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=200))]
    processes: u32,

    /// What all choices follow from; a new one if not said.
    #[arg(long)]
    seed: Option<u64>,

    /// On which store.
    #[arg(long, value_enum, default_value = "both")]
    store: Stores,

    /// Plant a bug, to see it found.
    #[arg(long = "break", value_name = "BUG", value_parser = PossibleValuesParser::new(BUGS.map(|(bug, _)| bug)))]
    bug: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Stores {
    Sqlite,
    Postgres,
    Both,
}

/// What is tried.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trial {
    /// Random calls.
    Run,
    /// Landing on a repository.
    Land,
    /// Workers with a program.
    Work,
    /// Rules, signatures and budgets.
    Gates,
}

/// The bugs that can be planted, each with the trial that is to find it. Their names are those of the `Bug`s in `prove`,
/// which nothing here depends on: it is built only once the arguments are known to be right.
const BUGS: [(&str, Trial); 20] = [
    ("stale-read", Trial::Run),
    ("no-fence", Trial::Run),
    ("wrong-changeset", Trial::Run),
    ("double-transition", Trial::Run),
    ("half-commit", Trial::Run),
    ("lost-event", Trial::Run),
    ("double-apply", Trial::Land),
    ("lost-work", Trial::Land),
    ("lost-ignored", Trial::Land),
    ("told-held", Trial::Land),
    ("two-owners", Trial::Work),
    ("orphan-process", Trial::Work),
    ("unheard-hangup", Trial::Work),
    ("fast-clock", Trial::Work),
    ("skip-strategize-gate", Trial::Gates),
    ("skip-execute-gate", Trial::Gates),
    ("skip-result-gate", Trial::Gates),
    ("skip-apply-gate", Trial::Gates),
    ("stale-approval", Trial::Gates),
    ("free-spending", Trial::Gates),
];

/// Everything, in its order. What lands needs no other store than a file.
const TRIALS: [(Trial, Stores); 7] = [
    (Trial::Land, Stores::Both),
    (Trial::Work, Stores::Sqlite),
    (Trial::Gates, Stores::Sqlite),
    (Trial::Run, Stores::Sqlite),
    (Trial::Work, Stores::Postgres),
    (Trial::Gates, Stores::Postgres),
    (Trial::Run, Stores::Postgres),
];

fn minutes(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(minutes) if (0.01..=600.0).contains(&minutes) => Ok(minutes),
        Ok(_) | Err(_) => Err("between 0.01 and 600".to_owned()),
    }
}

/// Builds everything in release mode; plays schedules, then tries with processes on each store. Stops at the first
/// that fails.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let signals = Signals::catch()?;
    let mut trials = TRIALS.to_vec();
    trials.retain(|(trial, store)| arguments.asks_for(*trial, *store));
    // Found before anything is built: half an hour later nobody wants to hear that it is missing.
    let on_a_server = |(_, store): &(Trial, Stores)| *store == Stores::Postgres;
    let programs = match trials.iter().any(on_a_server) {
        true => Some(ServerPrograms::find_or_install(&signals)?),
        false => None,
    };
    let built = arguments.build(&signals)?;
    if !built.success() {
        return Ok(child::exit_code(built));
    }
    let release = cargo::target_directory()?.join("release");
    let play = |mut command: Command| {
        // In the target directory, because /tmp may be memory and a proof has to wait for a disk.
        command.current_dir(&release);
        child::run(&mut command, &signals).context("could not run planwright-prove")
    };
    let prove = || cargo::command(release.join("planwright-prove"));
    if arguments.bug.is_none() {
        let mut simulate = prove();
        simulate.arg("simulate");
        arguments.seed(&mut simulate);
        let status = play(simulate)?;
        if !status.success() {
            return Ok(child::exit_code(status));
        }
    }
    for (trial, store) in trials {
        let mut command = prove();
        arguments.settle(&mut command, trial, &release);
        if let (Stores::Postgres, Some(programs)) = (store, &programs) {
            command
                .args(["--store", "postgres"])
                .env("PLANWRIGHT_TEST_PGBIN", programs.directory());
        }
        let status = play(command)?;
        if !status.success() {
            return Ok(child::exit_code(status));
        }
        if let Some(signal) = signals.received() {
            return Ok(signals::exit_code(signal));
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl Arguments {
    fn build(&self, signals: &Signals) -> anyhow::Result<ExitStatus> {
        let mut build = cargo::cargo();
        build.args(["build", "--release", "--package=planwright"]);
        build.arg("--package=planwright-prove");
        if self.bug.is_some() {
            build.arg("--features=broken");
        }
        child::run(&mut build, signals).context("could not run cargo")
    }

    /// Is this trial wanted on this store? A planted bug is looked for where it can be found.
    fn asks_for(&self, trial: Trial, store: Stores) -> bool {
        let planted = BUGS
            .iter()
            .find(|(bug, _)| Some(*bug) == self.bug.as_deref());
        let is_wanted = planted.is_none_or(|(_, finds)| *finds == trial);
        is_wanted && (store == self.store || store == Stores::Both || self.store == Stores::Both)
    }

    /// Tells a trial what it is to do.
    fn settle(&self, command: &mut Command, trial: Trial, release: &Path) {
        // Every call of most is a process or ten; a quarter of the players is a crowd.
        let few = (self.processes / 4).clamp(2, 50);
        let (verb, processes) = match trial {
            Trial::Run => ("run", self.processes),
            Trial::Land => ("land", few),
            Trial::Work => ("work", few),
            Trial::Gates => ("gates", few),
        };
        command
            .args([verb, "--program"])
            .arg(release.join("planwright"))
            .args(["--minutes", &self.minutes.to_string()])
            .args(["--processes", &processes.to_string()]);
        self.seed(command);
        if let Some(bug) = &self.bug {
            command.args(["--break", bug]);
        }
    }

    fn seed(&self, command: &mut Command) {
        if let Some(seed) = self.seed {
            command.args(["--seed", &seed.to_string()]);
        }
    }
}
