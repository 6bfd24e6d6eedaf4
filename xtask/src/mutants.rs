//! `cargo xtask mutants`: changes the pure core in small ways, one at a time, and sees whether a test
//! notices.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;

use crate::signals::StopSignals;
use crate::tools::CargoTool;
use crate::{cargo, child};

const CARGO_MUTANTS: CargoTool = CargoTool {
    name: "cargo-mutants",
    version: "27.1.0",
};

/// Its runner can stop at the first test that fails, which most mutants make one of the first.
const CARGO_NEXTEST: CargoTool = CargoTool {
    name: "cargo-nextest",
    version: "0.9.143",
};

/// What is run for each mutant, as `.config/nextest.toml` and the profile in `Cargo.toml` say. A mutant that
/// loops is given up after a time many times that of all tests.
const MUTANTS_ARGS: [&str; 10] = [
    "mutants",
    "--package=planwright-plan",
    "--test-package=planwright-plan",
    "--test-tool=nextest",
    "--profile=mutants",
    "--cargo-test-arg=--profile=mutants",
    "--timeout=120",
    "--build-timeout=600",
    "--no-shuffle",
    "--output",
];

/// Change plan in small ways, one at a time; every change must be noticed by a test of plan.
#[derive(clap::Args)]
pub struct MutantsArgs {
    /// Passed to cargo mutants, for instance `--file crates/plan/src/evolve.rs`.
    #[arg(last = true, value_name = "ARGUMENT")]
    arguments: Vec<String>,
}

/// Runs cargo mutants; the exit code says whether every mutant was caught.
pub fn run(arguments: &MutantsArgs) -> anyhow::Result<ExitCode> {
    let signals = StopSignals::register()?;
    let tool = CARGO_MUTANTS.find_or_install(&signals)?;
    let nextest = CARGO_NEXTEST.find_or_install(&signals)?;
    let mut mutants = cargo::command_without_cargo_env(&tool);
    mutants
        .current_dir(cargo::workspace_root())
        .env("PATH", search_path_with(nextest.parent())?)
        // What a mutant fails with is nothing to keep for the next.
        .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1")
        .args(MUTANTS_ARGS)
        .arg(cargo::target_directory()?)
        .args(&arguments.arguments);
    let status = child::run_child(&mut mutants, &signals).context("could not run cargo-mutants")?;
    Ok(child::exit_code(status))
}

/// The search path, with a directory that is looked into before all others.
fn search_path_with(directory: Option<&Path>) -> anyhow::Result<OsString> {
    let path = env::var_os("PATH").unwrap_or_default();
    let rest = env::split_paths(&path);
    env::join_paths(directory.map(Path::to_owned).into_iter().chain(rest))
        .context("the path of the tools cannot be searched")
}
