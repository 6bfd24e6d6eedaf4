//! `cargo xtask mutants`: changes the pure core in small ways, one at a time, and sees whether a test
//! notices.

use std::process::ExitCode;

use anyhow::Context;

use crate::signals::Signals;
use crate::tools::Tool;
use crate::{cargo, child};

const MUTANTS: Tool = Tool {
    name: "cargo-mutants",
    version: "27.1.0",
};

/// Change plan in small ways, one at a time; every change must be noticed by a test of plan.
#[derive(clap::Args)]
pub struct Arguments {
    /// Passed to cargo mutants, for instance `--file crates/plan/src/evolve.rs`.
    #[arg(last = true, value_name = "ARGUMENT")]
    arguments: Vec<String>,
}

/// Runs cargo mutants; the exit code says whether every mutant was caught.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let signals = Signals::catch()?;
    let tool = MUTANTS.find_or_install(&signals)?;
    let mut mutants = cargo::command(&tool);
    mutants
        .current_dir(cargo::workspace_root())
        .args(["mutants", "--package", "planwright-plan"])
        .arg("--output")
        .arg(cargo::target_directory()?)
        .args(&arguments.arguments);
    let status = child::run(&mut mutants, &signals).context("could not run cargo-mutants")?;
    Ok(child::exit_code(status))
}
