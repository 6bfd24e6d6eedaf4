//! `cargo xtask coverage`: which lines of the engine no test runs.

use std::process::ExitCode;

use anyhow::{Context, ensure};

use crate::postgres::{Cluster, Durability, ServerPrograms};
use crate::signals::Signals;
use crate::tools::Tool;
use crate::{cargo, child};

const LLVM_COV: Tool = Tool {
    name: "cargo-llvm-cov",
    version: "0.9.1",
};

/// What is counted is the engine: not what its tests stand on, nor the programs around it.
const NOT_COUNTED: &str = "crates/(testkit|planwright)/|/(bench|prove|xtask)/";

/// Run the tests of plan, store and lifecycle, and the proofs, and count the lines of the engine that ran.
#[derive(clap::Args)]
pub struct Arguments {
    /// Fail below this share of lines.
    #[arg(long, default_value_t = 97)]
    least: u8,

    /// Also write a page per file below target/llvm-cov/html.
    #[arg(long)]
    html: bool,
}

/// Runs the tests under measurement; the exit code says whether enough lines ran.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let signals = Signals::catch()?;
    let tool = LLVM_COV.find_or_install(&signals)?;
    let mut component = cargo::command("rustup");
    component.args(["component", "add", "llvm-tools"]);
    let added = child::run(&mut component, &signals).context("could not run rustup")?;
    ensure!(
        added.success(),
        "the toolchain's component llvm-tools is missing: rustup component add llvm-tools"
    );
    let cluster = Cluster::start(
        &ServerPrograms::find_or_install(&signals)?,
        Durability::Throwaway,
    )?;
    let mut measure = cargo::command(&tool);
    measure
        .current_dir(cargo::workspace_root())
        .args(["llvm-cov", "--summary-only", "--no-fail-fast"])
        // Tests of the program run it in processes of its own, in an environment without our instruments.
        .args([
            "--workspace",
            "--exclude=xtask",
            "--exclude=planwright",
            "--exclude=planwright-bench",
        ])
        // A process that is killed while it ends leaves half a profile.
        .args(["--failure-mode", "all"])
        .args(["--ignore-filename-regex", NOT_COUNTED])
        .args(["--fail-under-lines", &arguments.least.to_string()]);
    measure.envs(cluster.environment());
    let status = child::run(&mut measure, &signals).context("could not run cargo-llvm-cov")?;
    if arguments.html {
        let mut pages = cargo::command(&tool);
        pages
            .current_dir(cargo::workspace_root())
            .args(["llvm-cov", "report", "--html"])
            .args(["--ignore-filename-regex", NOT_COUNTED]);
        child::run(&mut pages, &signals).context("could not run cargo-llvm-cov")?;
    }
    Ok(child::exit_code(status))
}
