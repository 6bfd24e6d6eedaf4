//! The repository in the pictures, its plans in different states, and a server that shows them.

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::child;
use crate::signals::StopSignals;

/// A repository with a Planwright home of its own, below a scratch directory.
pub struct ExampleShop<'a> {
    scratch: &'a Path,
    /// The directory with `planwright`.
    programs: &'a Path,
    pub signals: &'a StopSignals,
}

impl<'a> ExampleShop<'a> {
    pub fn create(
        scratch: &'a Path,
        programs: &'a Path,
        signals: &'a StopSignals,
    ) -> anyhow::Result<Self> {
        let shop = Self {
            scratch,
            programs,
            signals,
        };
        for (name, content) in FILES {
            let file = shop.repository().join(name);
            std::fs::create_dir_all(file.parent().context("a file has a directory")?)?;
            std::fs::write(file, content)?;
        }
        for directory in ["home", "user", "tools"] {
            std::fs::create_dir_all(scratch.join(directory))?;
        }
        for (name, script) in TOOLS {
            let file = scratch.join("tools").join(name);
            std::fs::write(&file, script)?;
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755))?;
        }
        for words in [
            &["init", "--quiet", "--initial-branch=main"][..],
            &["config", "user.name", "Ada"],
            &["config", "user.email", "ada@example.com"],
            &["add", "--all"],
            &["commit", "--quiet", "--message=A small shop"],
        ] {
            let mut git = Command::new("git");
            git.args(words);
            shop.run_command(git)?;
        }
        Ok(shop)
    }

    /// Makes a plan for nearly every state. Returns the handle of the one to review.
    pub fn make_plans(&self) -> anyhow::Result<String> {
        for goal in ["Fix the flaky retry test", "Round tax half up"] {
            self.run_agent(goal)?;
            self.run(&["apply", "--yes"])?;
        }
        self.run_agent("Upgrade the parser")?;
        self.run_agent("Read the payment key from the environment")?;
        let ended = self.run_agent("Split billing.rs: invoices and tax")?;
        // The last line is `HANDLE needs review`.
        let handle = ended.lines().last().and_then(|line| line.split(' ').next());
        let handle = handle.context("run named no plan")?.to_owned();
        // One for the server's only worker, and one that has to wait for it.
        for goal in ["Translate the docs into German", "Send invoices as PDF"] {
            self.run(&["run", "--agent", "claude", "--detach", goal])?;
        }
        Ok(handle)
    }

    /// Waits until the plans are in the states that the board is to show.
    pub fn wait_for_standings(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + WAIT_TIMEOUT;
        loop {
            let list = self.run(&["list"])?;
            let is_shown = |standing| list.contains(standing);
            if STANDINGS.iter().all(is_shown) {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "the plans are in other states than expected:\n{list}"
            );
            thread::sleep(POLL_INTERVAL);
        }
    }

    pub fn start_server(&self) -> anyhow::Result<PageServer> {
        let mut command = self.planwright(&["serve", "--listen", "127.0.0.1:0", "--work", "1"]);
        let log = self.scratch.join("server.log");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?);
        let mut server = PageServer {
            child: command.spawn().context("could not start the server")?,
            address: String::new(),
        };
        let deadline = Instant::now() + WAIT_TIMEOUT;
        while server.address.is_empty() {
            let said = std::fs::read_to_string(&log)?;
            ensure!(
                Instant::now() < deadline && self.signals.received_signal().is_none(),
                "the server named no address: {said}"
            );
            // `Serving http://127.0.0.1:PORT with 1 worker.`
            let mut words = said.split_inclusive(char::is_whitespace);
            if let Some(word) = words.find(|word| word.starts_with("http://")) {
                server.address = word.trim_end().to_owned();
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(server)
    }

    /// Runs planwright without a terminal, and returns its standard output.
    pub fn run(&self, words: &[&str]) -> anyhow::Result<String> {
        self.run_command(self.planwright(words))
    }

    pub fn planwright(&self, words: &[&str]) -> Command {
        // Found in PATH, so that its messages name it as users type it.
        let mut command = Command::new("planwright");
        command.args(words);
        self.set_place(&mut command);
        command
    }

    fn run_agent(&self, goal: &str) -> anyhow::Result<String> {
        self.run(&["run", "--agent", "claude", goal])
    }

    fn repository(&self) -> PathBuf {
        self.scratch.join("shop")
    }

    fn set_place(&self, command: &mut Command) {
        let path = std::env::var("PATH").unwrap_or_default();
        let tools = self.scratch.join("tools");
        let programs = self.programs;
        command
            .current_dir(self.repository())
            .env("HOME", self.scratch.join("user"))
            .env("PLANWRIGHT_HOME", self.scratch.join("home"))
            .env(
                "PATH",
                format!("{}:{}:{path}", tools.display(), programs.display()),
            )
            .env("TERM", "xterm-256color")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env_remove("NO_COLOR")
            .env_remove("PLANWRIGHT_STORE");
    }

    fn run_command(&self, mut command: Command) -> anyhow::Result<String> {
        let (output, errors) = (self.scratch.join("stdout"), self.scratch.join("stderr"));
        self.set_place(&mut command);
        command
            .stdin(Stdio::null())
            .stdout(File::create(&output)?)
            .stderr(File::create(&errors)?);
        let status = child::run_child(&mut command, self.signals)?;
        if self.signals.received_signal().is_some() {
            bail!("stopped by a signal");
        }
        // A plan that needs a person, or that a rule holds up, is what some runs are for.
        ensure!(
            matches!(status.code(), Some(0 | 5 | 6)),
            "{command:?} failed ({status}): {}",
            std::fs::read_to_string(errors)?
        );
        Ok(std::fs::read_to_string(output)?.trim_end().to_owned())
    }
}

/// Ends the server when it is dropped.
pub struct PageServer {
    child: Child,
    address: String,
}

impl PageServer {
    pub fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for PageServer {
    fn drop(&mut self) {
        let _already_ended = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let deadline = Instant::now() + WAIT_TIMEOUT;
        while let Ok(None) = self.child.try_wait() {
            if Instant::now() > deadline {
                let _already_ended = self.child.kill();
            }
            thread::sleep(POLL_INTERVAL);
        }
    }
}

/// The agent, and a pager that shows everything at once.
const TOOLS: [(&str, &str); 2] = [
    ("claude", include_str!("agent.sh")),
    ("less", "#!/bin/sh\nexec cat\n"),
];
const FILES: [(&str, &str); 8] = [
    ("Cargo.toml", include_str!("shop/Cargo.toml.txt")),
    ("docs/refunds.md", include_str!("shop/docs/refunds.md")),
    ("planwright.yaml", include_str!("shop/planwright.yaml")),
    ("src/billing.rs", include_str!("shop/src/billing.rs")),
    ("src/lib.rs", include_str!("shop/src/lib.rs")),
    ("src/retry.rs", include_str!("shop/src/retry.rs")),
    ("tests/billing.rs", include_str!("shop/tests/billing.rs")),
    ("tests/retry.rs", include_str!("shop/tests/retry.rs")),
];
const STANDINGS: [&str; 7] = [
    "needs review",
    "needs answer",
    "blocked",
    "working",
    "waiting",
    "landed",
    "undone",
];
const POLL_INTERVAL: Duration = Duration::from_millis(100);
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);
