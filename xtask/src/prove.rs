//! `cargo xtask prove`: looks for a history that Planwright must never produce.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::Context;
use clap::ValueEnum;

use crate::postgres::ServerPrograms;
use crate::signals::Signals;
use crate::{cargo, child};

/// Let many processes loose on shared plans, disturb them, and check every answer they were given.
#[derive(clap::Args)]
pub struct Arguments {
    /// For how long, on each store.
    #[arg(long, default_value_t = 1.0)]
    minutes: f64,

    /// How many processes.
    #[arg(long, default_value_t = 16)]
    processes: u32,

    /// What all choices follow from; a new one if not said.
    #[arg(long)]
    seed: Option<u64>,

    /// On which store.
    #[arg(long, value_enum, default_value = "both")]
    store: Stores,

    /// Plant a bug, to see it found: stale-read, no-fence, wrong-changeset, double-transition, half-commit,
    /// lost-event, double-apply, lost-work, two-owners, orphan-process, skip-strategize-gate, skip-execute-gate,
    /// skip-result-gate, skip-apply-gate, stale-approval or free-spending.
    #[arg(long = "break", value_name = "BUG")]
    bug: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Stores {
    Sqlite,
    Postgres,
    Both,
}

/// Builds everything in release mode; plays schedules, then tries with processes on each store.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let signals = Signals::catch()?;
    let mut build = cargo::cargo();
    build.args([
        "build",
        "--release",
        "-p",
        "planwright",
        "-p",
        "planwright-prove",
    ]);
    if arguments.bug.is_some() {
        build.arg("--features=broken");
    }
    let built = child::run(&mut build, &signals).context("could not run cargo")?;
    if !built.success() {
        return Ok(child::exit_code(built));
    }
    let release = cargo::target_directory()?.join("release");
    let prove = || {
        let mut command = cargo::command(release.join("planwright-prove"));
        // In the target directory, because /tmp may be memory and a proof has to wait for a disk.
        command.current_dir(&release);
        command
    };
    if arguments.bug.is_none() {
        let mut simulate = prove();
        simulate.arg("simulate");
        if let Some(seed) = arguments.seed {
            simulate.args(["--seed", &seed.to_string()]);
        }
        let status =
            child::run(&mut simulate, &signals).context("could not run planwright-prove")?;
        if !status.success() {
            return Ok(child::exit_code(status));
        }
    }
    let planted = arguments.bug.as_deref();
    let of_landing = matches!(planted, Some("double-apply" | "lost-work"));
    let mode_of_planted = match planted {
        Some("two-owners" | "orphan-process") => "work",
        Some("stale-approval" | "free-spending") => "gates",
        Some(skip) if skip.starts_with("skip-") => "gates",
        Some(_) | None => "run",
    };
    // Every call of these is a process or ten; a quarter of the players is a crowd.
    let few = (arguments.processes / 4).max(2);
    if planted.is_none() || of_landing {
        let mut land = prove();
        land.arg("land");
        arguments.settle(&mut land, &release, few);
        let status = child::run(&mut land, &signals).context("could not run planwright-prove")?;
        if !status.success() || of_landing {
            return Ok(child::exit_code(status));
        }
    }
    for store in [Stores::Sqlite, Stores::Postgres] {
        if arguments.store != Stores::Both && arguments.store != store {
            continue;
        }
        for mode in ["work", "gates", "run"] {
            if planted.is_some() && mode != mode_of_planted {
                continue;
            }
            let mut trial = prove();
            trial.arg(mode);
            let processes = match mode {
                "run" => arguments.processes,
                _ => few,
            };
            arguments.settle(&mut trial, &release, processes);
            if store == Stores::Postgres {
                let programs = ServerPrograms::find_or_install(&signals)?;
                trial
                    .args(["--store", "postgres"])
                    .env("PLANWRIGHT_TEST_PGBIN", programs.directory());
            }
            let status =
                child::run(&mut trial, &signals).context("could not run planwright-prove")?;
            if !status.success() {
                return Ok(child::exit_code(status));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl Arguments {
    /// Tells a trial what all of them are told.
    fn settle(&self, trial: &mut Command, release: &Path, processes: u32) {
        trial
            .arg("--program")
            .arg(release.join("planwright"))
            .args(["--minutes", &self.minutes.to_string()])
            .args(["--processes", &processes.to_string()]);
        if let Some(seed) = self.seed {
            trial.args(["--seed", &seed.to_string()]);
        }
        if let Some(bug) = &self.bug {
            trial.args(["--break", bug]);
        }
    }
}
