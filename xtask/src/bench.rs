//! `cargo xtask bench`: figures for `docs/performance.md`, on a server that really writes to disk.

use std::process::ExitCode;

use anyhow::Context;

use crate::postgres::{Cluster, Durability, ServerPrograms};
use crate::signals::{self, Signals};
use crate::{cargo, child};

/// Measure Planwright; prints a table for docs/performance.md.
#[derive(clap::Args)]
pub struct Arguments {
    /// What to measure: `store`, or a part of it: `store sqlite`, `store postgres`, `store size`.
    #[arg(required = true, num_args = 1..=2, value_name = "WHAT")]
    what: Vec<String>,
}

/// Builds everything in release mode, then runs the measuring program.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let signals = Signals::catch()?;
    let mut build = cargo::cargo();
    build.args([
        "build",
        "--release",
        "-p",
        "planwright",
        "-p",
        "planwright-bench",
    ]);
    let built = child::run(&mut build, &signals).context("could not run cargo")?;
    if !built.success() {
        return Ok(child::exit_code(built));
    }
    let cluster = Cluster::start(
        &ServerPrograms::find_or_install(&signals)?,
        Durability::Full,
    )?;
    if let Some(signal) = signals.received() {
        return Ok(signals::exit_code(signal));
    }
    let mut bench = cargo::command(
        cargo::target_directory()?
            .join("release")
            .join("planwright-bench"),
    );
    // In the target directory, because /tmp may be memory and a bench has to wait for a disk.
    bench
        .current_dir(cargo::target_directory()?)
        .args(&arguments.what)
        .envs(cluster.environment());
    let status = child::run(&mut bench, &signals).context("could not run planwright-bench")?;
    Ok(child::exit_code(status))
}
