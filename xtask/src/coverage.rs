//! `cargo xtask coverage`: which lines of the engine no test runs.

use std::process::ExitCode;

use anyhow::{Context, ensure};

use crate::postgres::{Durability, GuardedServer, ServerPrograms};
use crate::signals::StopSignals;
use crate::tools::CargoTool;
use crate::{cargo, child};

const CARGO_LLVM_COV: CargoTool = CargoTool {
    name: "cargo-llvm-cov",
    version: "0.9.1",
};

/// What is counted is plan, store and lifecycle: not the actors, the sandboxes, what the tests stand on,
/// nor the programs around them.
const UNCOUNTED_PATHS: &str = "crates/(actors|testkit|planwright|sandbox)/|/(bench|prove|xtask)/";

/// The tests of the engine, those of the program, which is what most of landing is tried with, and the
/// schedules of the proof. Trials of the proof kill their processes: what those ran is not counted.
///
/// The first are built at once: lines of a crate that is built twice, with other features, are counted as
/// those of the better of the two, not as those that ran in either.
const LLVM_COV_ARGS: [&[&str]; 3] = [
    &["clean", "--workspace"],
    &[
        "--no-report",
        "--package=planwright-plan",
        "--package=planwright-store",
        "--package=planwright-lifecycle",
        "--package=planwright",
    ],
    &[
        "--no-report",
        "--package=planwright-prove",
        "--test=simulation",
        "--test=checker",
    ],
];

/// Run the tests of plan, store, lifecycle and the program, and schedules of the proof, and count the lines
/// of plan, store and lifecycle that ran.
#[derive(clap::Args)]
pub struct CoverageArgs {
    /// Fail below this share of lines.
    #[arg(long, default_value_t = 97)]
    least: u8,

    /// Also write a page per file below target/llvm-cov/html.
    #[arg(long)]
    html: bool,
}

/// Runs the tests under measurement; the exit code says whether enough lines ran.
pub fn run(arguments: &CoverageArgs) -> anyhow::Result<ExitCode> {
    let signals = StopSignals::register()?;
    let tool = CARGO_LLVM_COV.find_or_install(&signals)?;
    let mut component = cargo::command_without_cargo_env("rustup");
    component.args(["component", "add", "llvm-tools"]);
    let added = child::run_child(&mut component, &signals).context("could not run rustup")?;
    ensure!(
        added.success(),
        "the toolchain's component llvm-tools is missing: rustup component add llvm-tools"
    );
    let cluster = GuardedServer::start(
        &ServerPrograms::find_or_install(&signals)?,
        Durability::Throwaway,
    )?;
    let measure = |arguments: &[&str]| {
        let mut command = cargo::command_without_cargo_env(&tool);
        command
            .current_dir(cargo::workspace_root())
            .arg("llvm-cov")
            .args(arguments)
            .envs(cluster.environment());
        child::run_child(&mut command, &signals).context("could not run cargo-llvm-cov")
    };
    for step in LLVM_COV_ARGS {
        let status = measure(step)?;
        if !status.success() {
            return Ok(child::exit_code(status));
        }
    }
    let report_args = [
        "--failure-mode=all",
        "--ignore-filename-regex",
        UNCOUNTED_PATHS,
    ];
    if arguments.html {
        measure(&[&["report", "--html"], &report_args[..]].concat())?;
    }
    let min_lines_arg = format!("--fail-under-lines={}", arguments.least);
    let summary = ["report", "--summary-only", &min_lines_arg];
    let status = measure(&[&summary[..], &report_args[..]].concat())?;
    Ok(child::exit_code(status))
}
