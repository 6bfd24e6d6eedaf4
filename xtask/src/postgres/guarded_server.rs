//! A handle to a temporary PostgreSQL server, for tasks that need one.

use std::env;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};
use clap::ValueEnum;

use super::{Durability, ServerPrograms};
use crate::cargo;

/// A running server with one superuser and no data. Dropping it stops the server and removes its files.
pub struct GuardedServer {
    guard: Child,
    url: String,
    programs: PathBuf,
}

impl GuardedServer {
    /// Starts an empty server and waits until it accepts connections.
    pub fn start(programs: &ServerPrograms, durability: Durability) -> anyhow::Result<Self> {
        let mut guard = guard_command(programs, durability)?
            .spawn()
            .context("could not start the guard")?;
        let mut url = String::new();
        if let Some(output) = guard.stdout.take() {
            BufReader::new(output).read_line(&mut url)?;
        }
        let server = Self {
            guard,
            url: url.trim().to_owned(),
            programs: programs.directory().to_owned(),
        };
        if server.url.is_empty() {
            bail!("the PostgreSQL server did not start");
        }
        Ok(server)
    }

    /// The environment variables that tell tests and benchmarks where the server is.
    pub fn environment(&self) -> [(&'static str, OsString); 2] {
        [
            ("PLANWRIGHT_TEST_POSTGRES", self.url.clone().into()),
            ("PLANWRIGHT_TEST_PGBIN", self.programs.clone().into()),
        ]
    }
}

impl Drop for GuardedServer {
    fn drop(&mut self) {
        // The guard stops the server when its input ends. Wait until it has cleaned up.
        drop(self.guard.stdin.take());
        if let Err(error) = self.guard.wait() {
            eprintln!("xtask: could not wait for the PostgreSQL server to stop: {error}");
        }
    }
}

fn guard_command(programs: &ServerPrograms, durability: Durability) -> anyhow::Result<Command> {
    // On Linux this path stays valid even if the program is rebuilt while it runs.
    let own_program = if cfg!(target_os = "linux") {
        PathBuf::from("/proc/self/exe")
    } else {
        env::current_exe()?
    };
    let durability = durability
        .to_possible_value()
        .context("this durability has no name")?;
    let mut command = cargo::command_without_cargo_env(own_program);
    command
        .arg0("planwright-postgres-guard")
        .arg("postgres-guard")
        .arg(programs.directory())
        .arg(durability.get_name())
        // Its own process group: neither Ctrl-C nor a signal to our group may end the guard before us.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    Ok(command)
}
