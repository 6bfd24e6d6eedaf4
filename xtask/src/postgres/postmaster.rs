//! The server process. It runs as our child, not as a daemon, so that we can wait for it and stop it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::account::ServerAccount;
use crate::cargo;

/// PostgreSQL's first process, parent of all its others. Dropping it stops the server.
pub struct Postmaster {
    process: Child,
    directory: PathBuf,
}

/// The result of starting a server, unless it failed.
pub enum StartOutcome {
    /// It accepts connections.
    Ready,
    /// Another program has its port, so it exited.
    PortTaken,
}

impl Postmaster {
    /// Starts the server of the cluster in `directory`.
    pub fn spawn(
        programs: &Path,
        directory: &Path,
        account: ServerAccount,
        settings: &[String],
    ) -> anyhow::Result<Self> {
        let log =
            File::create(directory.join(LOG_FILE)).context("could not create the server's log")?;
        let mut command = cargo::command_without_cargo_env(programs.join("postgres"));
        account.apply_to(&mut command);
        command
            .current_dir(directory)
            .env("LC_ALL", "C")
            .args(["-D", "data"]);
        for setting in settings {
            command.args(["-c", setting]);
        }
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let process = command.spawn().context("could not start postgres")?;
        Ok(Self {
            process,
            directory: directory.to_owned(),
        })
    }

    /// Waits until the server accepts connections or has ended.
    pub fn wait_until_ready(&mut self) -> anyhow::Result<StartOutcome> {
        let deadline = Instant::now() + START_TIMEOUT;
        while Instant::now() < deadline {
            if let Some(status) = self.process.try_wait()? {
                let log = self.read_log();
                if log.contains("Address already in use") {
                    return Ok(StartOutcome::PortTaken);
                }
                bail!("the PostgreSQL server exited with {status}; its log:\n{log}");
            }
            let state =
                fs::read_to_string(self.directory.join("data/postmaster.pid")).unwrap_or_default();
            if is_ready_state(&state, self.process.id()) {
                return Ok(StartOutcome::Ready);
            }
            thread::sleep(POLL_INTERVAL);
        }
        bail!(
            "the PostgreSQL server was not ready after {START_TIMEOUT:?}; its log:\n{}",
            self.read_log()
        )
    }

    fn read_log(&self) -> String {
        fs::read_to_string(self.directory.join(LOG_FILE)).unwrap_or_default()
    }
}

impl Drop for Postmaster {
    /// SIGINT is PostgreSQL's fast shutdown: it ends every session and leaves a clean directory. If that does
    /// not help, SIGKILL does; the sessions notice that their postmaster is gone and end on their own.
    fn drop(&mut self) {
        for (signal, timeout) in [(Signal::INT, STOP_TIMEOUT), (Signal::KILL, KILL_TIMEOUT)] {
            // Fails only if the process has ended, which is checked next.
            let _ended = kill_process(Pid::from_child(&self.process), signal);
            let deadline = Instant::now() + timeout;
            while Instant::now() < deadline {
                match self.process.try_wait() {
                    Ok(None) => thread::sleep(POLL_INTERVAL),
                    Ok(Some(_)) | Err(_) => return,
                }
            }
        }
        eprintln!(
            "xtask: could not stop the PostgreSQL server (pid {})",
            self.process.id()
        );
    }
}

const LOG_FILE: &str = "log";
const POLL_INTERVAL: Duration = Duration::from_millis(20);
const START_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Whether `postmaster.pid`, the server's state file, says that the server with this process id
/// accepts connections. `pg_ctl --wait` does the same; no client program is needed for it.
fn is_ready_state(state: &str, process: u32) -> bool {
    let lines: Vec<&str> = state.lines().map(str::trim).collect();
    lines.first() == Some(&process.to_string().as_str()) && lines.get(7) == Some(&"ready")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_state(state: &str, expected: bool) {
        assert_eq!(is_ready_state(state, 4711), expected, "{state:?}");
    }

    #[test]
    fn ready_is_what_the_eighth_line_says_for_our_process() {
        let head = "4711\n/tmp/data\n1700000000\n5433\n/tmp\n127.0.0.1\n  123 456\n";
        check_state(&format!("{head}ready   \n"), true);
        check_state(&format!("{head}starting\n"), false);
        check_state(head, false);
        check_state("", false);
        check_state(&format!("{head}ready   \n").replace("4711", "4712"), false);
    }
}
