//! `cargo xtask coverage`: measures which lines of the engine the tests run.

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

/// Only plan, store and lifecycle are counted.
const UNCOUNTED_PATHS: &str = "crates/(actors|testkit|planwright|sandbox)/|/(bench|prove|xtask)/";

/// The tests of the engine and of the program, which cover most of landing, and the proof's schedules. The proof's trials
/// are left out: they kill their processes, which then write no coverage.
///
/// The first packages are built together. If a crate is built twice with different features, llvm-cov reports the better
/// of the two builds and not the union.
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
        "--test=it",
        "--",
        "simulation::",
        "checker::",
    ],
];

/// Run the tests of plan, store, lifecycle and the program, and the proof's schedules; report the line coverage of plan,
/// store and lifecycle.
#[derive(clap::Args)]
pub struct CoverageArgs {
    /// Fail if less than this percentage of lines ran.
    #[arg(long, default_value_t = 97)]
    least: u8,

    /// Also write HTML pages to target/llvm-cov/html.
    #[arg(long)]
    html: bool,
}

pub fn run(arguments: &CoverageArgs) -> anyhow::Result<ExitCode> {
    let signals = StopSignals::register()?;
    let tool = CARGO_LLVM_COV.find_or_install(&signals)?;
    let mut component = cargo::command_without_cargo_env("rustup");
    component.args(["component", "add", "llvm-tools"]);
    let added = child::run_child(&mut component, &signals).context("could not run rustup")?;
    ensure!(
        added.success(),
        "could not install llvm-tools. Try it yourself: rustup component add llvm-tools"
    );
    let server = GuardedServer::start(
        &ServerPrograms::find_or_install(&signals)?,
        Durability::Throwaway,
    )?;
    let measure = |arguments: &[&str]| {
        let mut command = cargo::command_without_cargo_env(&tool);
        command
            .current_dir(cargo::workspace_root())
            .arg("llvm-cov")
            .args(arguments)
            .envs(server.environment());
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
