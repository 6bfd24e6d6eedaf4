//! The process that owns the server. It outlives us until the server has stopped.
//!
//! Nothing we do ourselves can clean up after SIGKILL, and asking the kernel to signal the server when its
//! parent dies takes unsafe code between fork and exec, exists on Linux only and is lost on changing the
//! user. So the server is the child of this small process, which reads from a pipe that we hold open and
//! never write to. However we end, the kernel closes the pipe; the guard then stops the server and removes
//! its directory. This covers success, failure, panic, Ctrl-C and SIGKILL.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;

use super::Durability;
use super::server::PostgresServer;
use crate::signals::StopSignals;

/// Own a PostgreSQL server until standard input ends.
#[derive(clap::Args)]
pub struct GuardArgs {
    programs: PathBuf,
    durability: Durability,
}

/// Starts a server, prints its URL, and stops it when standard input ends.
pub fn run(arguments: &GuardArgs) -> anyhow::Result<ExitCode> {
    // Signals are caught and ignored: only the end of the input ends the guard.
    let _ignored = StopSignals::register()?;
    let server = PostgresServer::start(&arguments.programs, arguments.durability)?;
    // Fails if the parent process has ended. Returning the error drops the server, which stops it.
    writeln!(io::stdout(), "{}", server.url()).context("the parent process has ended")?;
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(ExitCode::SUCCESS)
}
