//! `cargo xtask mutants`: runs mutation tests on the pure core.

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

/// Nextest can stop at the first test that fails, which saves most of the time.
const CARGO_NEXTEST: CargoTool = CargoTool {
    name: "cargo-nextest",
    version: "0.9.143",
};

/// The profiles are in `.config/nextest.toml` and `Cargo.toml`. The timeout for mutants that loop is many times the
/// duration of all tests.
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

/// Run mutation tests: every small change to plan must make one of its tests fail.
#[derive(clap::Args)]
pub struct MutantsArgs {
    /// Passed to cargo mutants, for instance `--file crates/plan/src/evolve.rs`.
    #[arg(last = true, value_name = "ARGUMENT")]
    arguments: Vec<String>,
}

pub fn run(arguments: &MutantsArgs) -> anyhow::Result<ExitCode> {
    let signals = StopSignals::register()?;
    let tool = CARGO_MUTANTS.find_or_install(&signals)?;
    let nextest = CARGO_NEXTEST.find_or_install(&signals)?;
    let mut mutants = cargo::command_without_cargo_env(&tool);
    mutants
        .current_dir(cargo::workspace_root())
        .env("PATH", search_path_with(nextest.parent())?)
        // A failing input of one mutant must not be replayed for the next.
        .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1")
        .args(MUTANTS_ARGS)
        .arg(cargo::target_directory()?)
        .args(&arguments.arguments);
    let status = child::run_child(&mut mutants, &signals).context("could not run cargo-mutants")?;
    Ok(child::exit_code(status))
}

/// PATH with `directory` in front.
fn search_path_with(directory: Option<&Path>) -> anyhow::Result<OsString> {
    let path = env::var_os("PATH").unwrap_or_default();
    let rest = env::split_paths(&path);
    env::join_paths(directory.map(Path::to_owned).into_iter().chain(rest))
        .context("could not add the tools to PATH")
}
