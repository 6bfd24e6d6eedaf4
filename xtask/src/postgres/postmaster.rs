//! The server process: started as our child, never as a daemon, so that it is ours to wait for and to stop.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::account::Account;
use crate::cargo;

/// PostgreSQL's first process, parent of all its others. Dropping it stops the server.
pub struct Postmaster {
    process: Child,
    directory: PathBuf,
}

/// How starting a server went, if nothing is wrong with it.
pub enum Start {
    /// It accepts connections.
    Ready,
    /// Its port belongs to somebody else, so it ended.
    PortTaken,
}

impl Postmaster {
    /// Starts the server of the cluster in `directory`.
    pub fn spawn(
        programs: &Path,
        directory: &Path,
        account: Account,
        settings: &[String],
    ) -> anyhow::Result<Self> {
        let log = File::create(directory.join(LOG)).context("could not create the server's log")?;
        let mut command = cargo::command(programs.join("postgres"));
        account.apply(&mut command);
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
    pub fn wait_until_ready(&mut self) -> anyhow::Result<Start> {
        let deadline = Instant::now() + START_PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = self.process.try_wait()? {
                let log = self.log();
                if log.contains("Address already in use") {
                    return Ok(Start::PortTaken);
                }
                bail!("the PostgreSQL server ended with {status}; its log:\n{log}");
            }
            let state =
                fs::read_to_string(self.directory.join("data/postmaster.pid")).unwrap_or_default();
            if says_ready(&state, self.process.id()) {
                return Ok(Start::Ready);
            }
            thread::sleep(POLL);
        }
        bail!(
            "the PostgreSQL server was not ready after {START_PATIENCE:?}; its log:\n{}",
            self.log()
        )
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.join(LOG)).unwrap_or_default()
    }
}

impl Drop for Postmaster {
    /// SIGINT is PostgreSQL's fast shutdown: it ends every session and leaves a clean directory. If that does
    /// not help, SIGKILL does; the sessions notice that their postmaster is gone and end on their own.
    fn drop(&mut self) {
        for (signal, patience) in [(Signal::INT, STOP_PATIENCE), (Signal::KILL, KILL_PATIENCE)] {
            // Fails only if the process has ended, which is what we look for next.
            let _ended = kill_process(Pid::from_child(&self.process), signal);
            let deadline = Instant::now() + patience;
            while Instant::now() < deadline {
                match self.process.try_wait() {
                    Ok(None) => thread::sleep(POLL),
                    Ok(Some(_)) | Err(_) => return,
                }
            }
        }
        eprintln!(
            "xtask: the PostgreSQL server {} could not be stopped",
            self.process.id()
        );
    }
}

const LOG: &str = "log";
const POLL: Duration = Duration::from_millis(20);
const START_PATIENCE: Duration = Duration::from_secs(60);
const STOP_PATIENCE: Duration = Duration::from_secs(10);
const KILL_PATIENCE: Duration = Duration::from_secs(5);

/// Whether `postmaster.pid`, in which a server tells its state, says that the server with this process id
/// accepts connections. `pg_ctl --wait` does the same; no client program is needed for it.
fn says_ready(state: &str, process: u32) -> bool {
    let lines: Vec<&str> = state.lines().map(str::trim).collect();
    lines.first() == Some(&process.to_string().as_str()) && lines.get(7) == Some(&"ready")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(state: &str, expected: bool) {
        assert_eq!(says_ready(state, 4711), expected, "{state:?}");
    }

    #[test]
    fn ready_is_what_the_eighth_line_says_for_our_process() {
        let head = "4711\n/tmp/data\n1700000000\n5433\n/tmp\n127.0.0.1\n  123 456\n";
        check(&format!("{head}ready   \n"), true);
        check(&format!("{head}starting\n"), false);
        check(head, false);
        check("", false);
        check(&format!("{head}ready   \n").replace("4711", "4712"), false);
    }
}
