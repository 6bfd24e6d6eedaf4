//! `cargo xtask prove`: searches for a history that Planwright must never produce.

use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus};

use anyhow::Context;
use clap::ValueEnum;
use clap::builder::PossibleValuesParser;

use crate::postgres::ServerPrograms;
use crate::signals::StopSignals;
use crate::step::StepReport;
use crate::{cargo, child, signals, test};

/// Run many processes on shared plans, disturb them, and check every answer they get
#[derive(clap::Args)]
pub struct ProveArgs {
    /// The duration of each trial
    #[arg(long, default_value_t = 1.0, value_parser = parse_minutes)]
    minutes: f64,

    /// The number of processes
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=200))]
    processes: u32,

    /// The seed of all random choices [default: random]
    #[arg(long)]
    seed: Option<u64>,

    /// The store to run on
    #[arg(long, value_enum, default_value = "both")]
    store: ProveStores,

    /// Plant a bug, to test that it is found
    #[arg(long = "break", value_name = "BUG", value_parser = PossibleValuesParser::new(BUGS.map(|(bug, _)| bug)))]
    bug: Option<String>,

    /// Run the short trials that CI runs, with and without planted bugs, in a debug build
    #[arg(long, conflicts_with_all = ["minutes", "processes", "seed", "store", "bug"])]
    quick: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ProveStores {
    Sqlite,
    Postgres,
    Both,
}

/// The trials of `planwright-prove`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ProveTrial {
    /// Random calls.
    Run,
    /// Landing on a repository.
    Land,
    /// Workers with a program.
    Work,
    /// Rules, approvals and budgets.
    Gates,
}

/// The bugs that can be planted, each with the trial that must find it. The names are those of the bug enums in `prove`,
/// which xtask does not depend on: it is only built once the arguments are valid.
const BUGS: [(&str, ProveTrial); 22] = [
    ("stale-read", ProveTrial::Run),
    ("no-fence", ProveTrial::Run),
    ("wrong-changeset", ProveTrial::Run),
    ("double-transition", ProveTrial::Run),
    ("half-commit", ProveTrial::Run),
    ("lost-event", ProveTrial::Run),
    ("double-apply", ProveTrial::Land),
    ("lost-work", ProveTrial::Land),
    ("lost-ignored", ProveTrial::Land),
    ("told-held", ProveTrial::Land),
    ("two-owners", ProveTrial::Work),
    ("orphan-process", ProveTrial::Work),
    ("unheard-hangup", ProveTrial::Work),
    ("fast-clock", ProveTrial::Work),
    ("unknown-full-disk", ProveTrial::Work),
    ("stale-permission", ProveTrial::Work),
    ("skip-strategize-gate", ProveTrial::Gates),
    ("skip-execute-gate", ProveTrial::Gates),
    ("skip-result-gate", ProveTrial::Gates),
    ("skip-apply-gate", ProveTrial::Gates),
    ("stale-approval", ProveTrial::Gates),
    ("free-spending", ProveTrial::Gates),
];

/// All trials, in order. Landing needs no other store than SQLite.
const ALL_TRIALS: [(ProveTrial, ProveStores); 7] = [
    (ProveTrial::Land, ProveStores::Both),
    (ProveTrial::Work, ProveStores::Sqlite),
    (ProveTrial::Gates, ProveStores::Sqlite),
    (ProveTrial::Run, ProveStores::Sqlite),
    (ProveTrial::Work, ProveStores::Postgres),
    (ProveTrial::Gates, ProveStores::Postgres),
    (ProveTrial::Run, ProveStores::Postgres),
];

fn parse_minutes(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(minutes) if (0.01..=600.0).contains(&minutes) => Ok(minutes),
        Ok(_) | Err(_) => Err("must be between 0.01 and 600".to_owned()),
    }
}

/// Builds in release mode, then runs schedules and the trials on each store. Stops at the first failure.
pub fn run(arguments: &ProveArgs) -> anyhow::Result<ExitCode> {
    let signals = StopSignals::register()?;
    if arguments.quick {
        let programs = ServerPrograms::find_or_install(&signals)?;
        let mut report = StepReport::new(&signals);
        test::run_trials(&programs, &mut report)?;
        return Ok(report.print_summary());
    }
    let mut trials = ALL_TRIALS.to_vec();
    trials.retain(|(trial, store)| arguments.includes_trial(*trial, *store));
    // Find the server before the long build, so that a missing one is reported at once.
    let needs_server = |(_, store): &(ProveTrial, ProveStores)| *store == ProveStores::Postgres;
    let programs = match trials.iter().any(needs_server) {
        true => Some(ServerPrograms::find_or_install(&signals)?),
        false => None,
    };
    let built = arguments.build_programs(&signals)?;
    if !built.success() {
        return Ok(child::exit_code(built));
    }
    let release = cargo::target_directory()?.join("release");
    let run_prove = |mut command: Command| {
        // In the target directory: /tmp may be in memory, but a proof needs a disk.
        command.current_dir(&release);
        child::run_child(&mut command, &signals).context("could not run planwright-prove")
    };
    let prove_command = || cargo::command_without_cargo_env(release.join("planwright-prove"));
    if arguments.bug.is_none() {
        let mut simulate = prove_command();
        simulate.arg("simulate");
        arguments.add_seed(&mut simulate);
        let status = run_prove(simulate)?;
        if !status.success() {
            return Ok(child::exit_code(status));
        }
    }
    for (trial, store) in trials {
        let mut command = prove_command();
        arguments.add_trial_arguments(&mut command, trial, &release);
        if let (ProveStores::Postgres, Some(programs)) = (store, &programs) {
            command
                .args(["--store", "postgres"])
                .env("PLANWRIGHT_TEST_PGBIN", programs.directory());
        }
        let status = run_prove(command)?;
        if !status.success() {
            return Ok(child::exit_code(status));
        }
        if let Some(signal) = signals.received_signal() {
            return Ok(signals::signal_exit_code(signal));
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl ProveArgs {
    fn build_programs(&self, signals: &StopSignals) -> anyhow::Result<ExitStatus> {
        let mut build = cargo::cargo_command();
        build.args(["build", "--release", "--package=planwright"]);
        build.arg("--package=planwright-prove");
        if self.bug.is_some() {
            build.arg("--features=broken");
        }
        child::run_child(&mut build, signals).context("could not run cargo")
    }

    /// Whether to run this trial on this store. With a planted bug, only the trial that must find it runs.
    fn includes_trial(&self, trial: ProveTrial, store: ProveStores) -> bool {
        let planted = BUGS
            .iter()
            .find(|(bug, _)| Some(*bug) == self.bug.as_deref());
        let is_selected = planted.is_none_or(|(_, finder)| *finder == trial);
        is_selected
            && (store == self.store
                || store == ProveStores::Both
                || self.store == ProveStores::Both)
    }

    /// Adds the subcommand and the arguments of a trial.
    fn add_trial_arguments(&self, command: &mut Command, trial: ProveTrial, release: &Path) {
        // Other trials start several processes per client or worker, so they get a quarter of the number.
        let fewer = (self.processes / 4).clamp(2, 50);
        let (subcommand, processes) = match trial {
            ProveTrial::Run => ("run", self.processes),
            ProveTrial::Land => ("land", fewer),
            ProveTrial::Work => ("work", fewer),
            ProveTrial::Gates => ("gates", fewer),
        };
        command
            .args([subcommand, "--program"])
            .arg(release.join("planwright"))
            .args(["--minutes", &self.minutes.to_string()])
            .args(["--processes", &processes.to_string()]);
        self.add_seed(command);
        if let Some(bug) = &self.bug {
            command.args(["--break", bug]);
        }
    }

    fn add_seed(&self, command: &mut Command) {
        if let Some(seed) = self.seed {
            command.args(["--seed", &seed.to_string()]);
        }
    }
}
