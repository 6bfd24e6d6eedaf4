//! A temporary PostgreSQL server for tests and benchmarks.
//!
//! `find` looks for the server's programs and `install` installs them. Tasks hold a `guarded_server` while they need a
//! server. The server belongs to a second process, the `guard`, which runs `server` as an unprivileged `account`;
//! `guard` explains why.

mod account;
mod find;
mod guard;
mod guarded_server;
mod install;
mod postmaster;
mod server;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Context;

pub use find::ServerPrograms;
pub use guard::{GuardArgs as GuardArguments, run as guard};
pub use guarded_server::GuardedServer;

use crate::signals::{self, StopSignals};
use crate::{cargo, child};

/// Run a command with a temporary PostgreSQL server: its URL is in PLANWRIGHT_TEST_POSTGRES, the directory
/// of the server's programs in PLANWRIGHT_TEST_PGBIN.
#[derive(clap::Args)]
pub struct PostgresArgs {
    /// Sync commits to disk, as benchmarks need it.
    #[arg(long)]
    durable: bool,

    /// The command to run.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Whether the server's commits survive a power failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Durability {
    /// They do not: nothing waits for the disk, which makes tests fast.
    Throwaway,
    /// They do: PostgreSQL's defaults, which benchmarks must measure.
    Full,
}

/// Runs the given command; its exit code becomes ours.
pub fn run(arguments: &PostgresArgs) -> anyhow::Result<ExitCode> {
    let signals = StopSignals::register()?;
    let durability = if arguments.durable {
        Durability::Full
    } else {
        Durability::Throwaway
    };
    let server = GuardedServer::start(&ServerPrograms::find_or_install(&signals)?, durability)?;
    if let Some(signal) = signals.received_signal() {
        return Ok(signals::signal_exit_code(signal));
    }
    let (program, rest) = arguments
        .command
        .split_first()
        .context("no command was given")?;
    let mut command = cargo::command_without_cargo_env(program);
    command.args(rest).envs(server.environment());
    let status = child::run_child(&mut command, &signals)
        .with_context(|| format!("could not run {}", program.display()))?;
    Ok(child::exit_code(status))
}
