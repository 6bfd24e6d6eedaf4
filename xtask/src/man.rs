//! `cargo xtask man`: writes the man pages, made from the same texts as `--help`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, ensure};

use crate::signals::StopSignals;
use crate::{cargo, child};

/// Write the man pages: one for planwright and one per command
#[derive(clap::Args)]
pub struct ManArgs {
    /// Directory to write to [default: target/man]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

#[expect(
    clippy::print_stdout,
    reason = "the directory is this command's output"
)]
pub fn run(arguments: &ManArgs) -> anyhow::Result<ExitCode> {
    let signals = StopSignals::register()?;
    let directory = match &arguments.out {
        Some(directory) => directory.clone(),
        None => cargo::target_directory()?.join("man"),
    };
    write_pages(&directory, &signals)?;
    println!("{}", directory.display());
    Ok(ExitCode::SUCCESS)
}

/// Writes the pages into a directory, which is created if necessary.
pub fn write_pages(directory: &Path, signals: &StopSignals) -> anyhow::Result<()> {
    let directory = std::path::absolute(directory)?;
    let mut command = cargo::cargo_command();
    let build = ["run", "--quiet", "--package", "planwright"];
    command.args(build).args(["--example", "man", "--"]);
    let status =
        child::run_child(command.arg(directory), signals).context("could not run cargo")?;
    ensure!(status.success(), "the man pages could not be made");
    Ok(())
}
