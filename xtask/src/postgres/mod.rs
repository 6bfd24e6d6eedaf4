//! A real PostgreSQL server for tests and benches, made for one run and gone after it.
//!
//! `find` looks for the server's programs, `install` asks the package manager for them, `cluster` is what the
//! other tasks hold while they need a server. The server itself belongs to a second process, the `guard`,
//! which runs `server` as an unprivileged `account`; `guard` says why.

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

/// Run a command with a PostgreSQL server made for it: its URL is in PLANWRIGHT_TEST_POSTGRES, the directory
/// of the server's programs in PLANWRIGHT_TEST_PGBIN.
#[derive(clap::Args)]
pub struct PostgresArgs {
    /// Let the server keep its promises across a power cut, as benches need it.
    #[arg(long)]
    durable: bool,

    /// The command to run.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Whether what the server has committed survives a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Durability {
    /// It does not: nothing waits for the disk, which makes tests fast.
    Throwaway,
    /// It does: PostgreSQL's own defaults, which is what a bench has to measure.
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
    let cluster = GuardedServer::start(&ServerPrograms::find_or_install(&signals)?, durability)?;
    if let Some(signal) = signals.received_signal() {
        return Ok(signals::signal_exit_code(signal));
    }
    let (program, rest) = arguments
        .command
        .split_first()
        .context("no command was given")?;
    let mut command = cargo::command_without_cargo_env(program);
    command.args(rest).envs(cluster.environment());
    let status = child::run_child(&mut command, &signals)
        .with_context(|| format!("could not run {}", program.display()))?;
    Ok(child::exit_code(status))
}
