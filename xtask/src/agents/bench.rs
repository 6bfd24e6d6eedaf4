//! The surroundings of one agent: a home, a Planwright home, a repository, and an environment with nothing else in it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;

use super::model_access::AccessSetup;
use crate::signals::StopSignals;

pub struct AgentBench<'a> {
    root: PathBuf,
    variables: Vec<(&'static str, OsString)>,
    planwright: &'a Path,
    signals: &'a StopSignals,
}

/// What a command of Planwright did.
pub struct PlanwrightRun {
    /// `None` if it was stopped because it took too long.
    pub exit_code: Option<i32>,
    /// The last line of its output, with `--format json`.
    pub envelope: Value,
    /// Everything it said.
    pub text: String,
    pub duration: Duration,
}

impl<'a> AgentBench<'a> {
    /// Makes the directories anew. `search_path` has the agent and its interpreter.
    pub fn create(
        root: PathBuf,
        planwright: &'a Path,
        search_path: &[PathBuf],
        setup: &AccessSetup,
        signals: &'a StopSignals,
    ) -> anyhow::Result<Self> {
        if root.exists() {
            fs::remove_dir_all(&root)?;
        }
        let system = ["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from);
        let path = std::env::join_paths(search_path.iter().chain(&system))?;
        let (home, temporary) = (root.join("home"), root.join("tmp"));
        for directory in [&home, &temporary, &root.join("repository")] {
            fs::create_dir_all(directory)?;
        }
        if let Some((path, text)) = &setup.file {
            let path = home.join(path);
            fs::create_dir_all(path.parent().context("a file has a directory")?)?;
            fs::write(path, text)?;
        }
        let mut variables = vec![
            ("HOME", home.into_os_string()),
            ("PLANWRIGHT_HOME", root.join("planwright").into_os_string()),
            ("PATH", path),
            ("TMPDIR", temporary.into_os_string()),
            ("USER", "ada".into()),
            ("LANG", "C.UTF-8".into()),
            ("TERM", "xterm-256color".into()),
            // Agents also look for updates and report statistics. They reach nothing but loopback.
            ("HTTP_PROXY", REFUSING_PROXY.into()),
            ("HTTPS_PROXY", REFUSING_PROXY.into()),
            ("NO_PROXY", "127.0.0.1,localhost".into()),
        ];
        let given = setup.variables.iter();
        variables.extend(given.map(|(name, value)| (*name, value.into())));
        let bench = Self {
            root,
            variables,
            planwright,
            signals,
        };
        bench.make_repository()?;
        Ok(bench)
    }

    fn make_repository(&self) -> anyhow::Result<()> {
        fs::write(
            self.repository().join("README.md"),
            "# Shop\n\nSome text.\n",
        )?;
        for words in [
            &["init", "--quiet", "--initial-branch=main"][..],
            &["config", "user.name", "Ada"],
            &["config", "user.email", "ada@example.com"],
            &["add", "."],
            &["commit", "--quiet", "--message=Begin"],
        ] {
            let mut git = Command::new("git");
            git.args(words).current_dir(self.repository());
            let status = git.env_clear().envs(self.variables()).status()?;
            ensure!(status.success(), "git {words:?} failed");
        }
        Ok(())
    }

    fn repository(&self) -> PathBuf {
        self.root.join("repository")
    }

    fn variables(&self) -> impl Iterator<Item = (&str, &OsString)> {
        self.variables.iter().map(|(name, value)| (*name, value))
    }

    pub fn read_file(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.repository().join(name)).ok()
    }

    /// Runs a command of Planwright, and ends it and its children if it takes longer than `limit`.
    pub fn run(&self, words: &[&str], limit: Duration) -> anyhow::Result<PlanwrightRun> {
        let output_file = |name: &str| self.root.join(name);
        let mut command = Command::new("nice");
        command
            .arg(self.planwright)
            .args(["--format", "json"])
            .args(words)
            .current_dir(self.repository())
            .env_clear()
            .envs(self.variables())
            .stdin(Stdio::null())
            .stdout(File::create(output_file("stdout"))?)
            .stderr(File::create(output_file("stderr"))?)
            .process_group(0);
        let start = Instant::now();
        let mut process = command.spawn().context("could not start planwright")?;
        let exit_code = self.wait(&mut process, start + limit)?;
        let stdout = String::from_utf8_lossy(&fs::read(output_file("stdout"))?).into_owned();
        let stderr = String::from_utf8_lossy(&fs::read(output_file("stderr"))?).into_owned();
        let last_line = stdout.lines().last().unwrap_or_default();
        Ok(PlanwrightRun {
            exit_code,
            envelope: serde_json::from_str(last_line).unwrap_or_default(),
            text: format!("{stdout}{stderr}"),
            duration: start.elapsed(),
        })
    }

    fn wait(&self, process: &mut Child, deadline: Instant) -> anyhow::Result<Option<i32>> {
        loop {
            if let Some(status) = process.try_wait()? {
                return Ok(status.code());
            }
            let is_stopped = self.signals.received_signal().is_some();
            if is_stopped || Instant::now() > deadline {
                // It ends its agent first if it can.
                let _already_ended = kill_process_group(Pid::from_child(process), Signal::TERM);
                let grace = Instant::now() + STOP_TIMEOUT;
                while process.try_wait()?.is_none() && Instant::now() < grace {
                    thread::sleep(POLL_INTERVAL);
                }
                let _already_ended = kill_process_group(Pid::from_child(process), Signal::KILL);
                process.wait()?;
                ensure!(!is_stopped, "interrupted");
                return Ok(None);
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// The commands of processes that still run with this home. Waits for those that are about to end. They are killed
    /// when the bench is dropped.
    pub fn wait_for_leftovers(&self) -> anyhow::Result<Vec<String>> {
        let deadline = Instant::now() + LEFTOVER_TIMEOUT;
        loop {
            let leftovers = self.find_leftovers()?;
            if leftovers.is_empty() || Instant::now() > deadline {
                return Ok(leftovers.into_iter().map(|(_, command)| command).collect());
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Every process inherits the home, unless it hides its environment.
    fn find_leftovers(&self) -> anyhow::Result<Vec<(Pid, String)>> {
        let home = format!("HOME={}\0", self.root.join("home").display());
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc")?.flatten() {
            let name = entry.file_name();
            let pid = name.to_str().and_then(|name| name.parse().ok());
            let Some(pid) = pid.and_then(Pid::from_raw) else {
                continue;
            };
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            let has_home = environment
                .windows(home.len())
                .any(|window| window == home.as_bytes());
            if has_home {
                let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
                let command = String::from_utf8_lossy(&command).replace('\0', " ");
                found.push((pid, command.trim().to_owned()));
            }
        }
        Ok(found)
    }
}

impl Drop for AgentBench<'_> {
    fn drop(&mut self) {
        for (pid, _) in self.find_leftovers().unwrap_or_default() {
            let _already_ended = kill_process(pid, Signal::KILL);
        }
    }
}

/// Nothing listens on the port of the discard service.
const REFUSING_PROXY: &str = "http://127.0.0.1:9";
const POLL_INTERVAL: Duration = Duration::from_millis(50);
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
const LEFTOVER_TIMEOUT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_the_home_of_a_bench_is_found_and_ended() {
        let directory = tempfile::tempdir().unwrap();
        let signals = StopSignals::register().unwrap();
        let root = directory.path().join("bench");
        let setup = AccessSetup::default();
        let bench = AgentBench::create(root, Path::new("true"), &[], &setup, &signals).unwrap();
        assert_eq!(
            bench.read_file("README.md").as_deref(),
            Some("# Shop\n\nSome text.\n")
        );
        assert_eq!(bench.wait_for_leftovers().unwrap(), [""; 0]);
        let mut sleep = Command::new("sleep");
        let mut left = sleep.arg("600").envs(bench.variables()).spawn().unwrap();
        let found = bench.find_leftovers().unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].1, "sleep 600");
        drop(bench);
        assert!(!left.wait().unwrap().success());
    }

    #[test]
    fn a_command_that_takes_too_long_is_ended() {
        let directory = tempfile::tempdir().unwrap();
        let signals = StopSignals::register().unwrap();
        let program = directory.path().join("program");
        let text = "#!/bin/sh\n[ \"$3\" = wait ] && sleep 600\necho '{\"data\": 1}'\nexit 3\n";
        fs::write(&program, text).unwrap();
        fs::set_permissions(
            &program,
            std::os::unix::fs::PermissionsExt::from_mode(0o755),
        )
        .unwrap();
        let setup = AccessSetup::default();
        let root = directory.path().join("bench");
        let bench = AgentBench::create(root, &program, &[], &setup, &signals).unwrap();
        let quick = bench.run(&["now"], Duration::from_secs(60)).unwrap();
        assert_eq!(
            (quick.exit_code, &quick.envelope["data"]),
            (Some(3), &Value::from(1))
        );
        let late = bench.run(&["wait"], Duration::from_millis(100)).unwrap();
        assert_eq!(late.exit_code, None);
        assert_eq!(bench.wait_for_leftovers().unwrap(), [""; 0]);
    }
}
