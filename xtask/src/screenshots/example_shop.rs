//! The repository in the pictures of the terminal, and the demo's page.

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

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

    /// Opens the demo's page: plans in every state, made by `planwright demo --open`.
    pub fn open_demo(&self) -> anyhow::Result<DemoPage<'_, 'a>> {
        let link = self.run(&["demo", "--open", "--print"])?;
        let page = DemoPage { shop: self, link };
        page.wait_for_standings()?;
        Ok(page)
    }

    /// Runs planwright without a terminal, and returns its standard output.
    pub fn run(&self, words: &[&str]) -> anyhow::Result<String> {
        self.run_prepared(self.planwright(words))
    }

    pub fn planwright(&self, words: &[&str]) -> Command {
        // Found in PATH, so that its messages name it as users type it.
        let mut command = Command::new("planwright");
        command.args(words);
        self.set_place(&mut command);
        command
    }

    fn home(&self) -> PathBuf {
        self.scratch.join("home")
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
            .env("PLANWRIGHT_HOME", self.home())
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
        self.set_place(&mut command);
        self.run_prepared(command)
    }

    fn run_prepared(&self, mut command: Command) -> anyhow::Result<String> {
        let (output, errors) = (self.scratch.join("stdout"), self.scratch.join("stderr"));
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

/// The page of the demo. Its server ends when this is dropped.
pub struct DemoPage<'shop, 'a> {
    shop: &'shop ExampleShop<'a>,
    link: String,
}

impl DemoPage<'_, '_> {
    /// Works once.
    pub fn link(&self) -> &str {
        &self.link
    }

    pub fn address(&self) -> &str {
        self.link.split("/enter").next().unwrap_or_default()
    }

    /// Returns the handle of the plan with this goal.
    pub fn find_handle(&self, goal: &str) -> anyhow::Result<String> {
        let list = self.run(&["list", "--all"])?;
        let row = list.lines().find(|line| line.contains(goal));
        let handle = row.and_then(|row| row.split_whitespace().next());
        Ok(handle.context("the demo has no such plan")?.to_owned())
    }

    /// Waits until the server's workers have begun.
    fn wait_for_standings(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + WAIT_TIMEOUT;
        loop {
            let list = self.run(&["list", "--all"])?;
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

    fn run(&self, words: &[&str]) -> anyhow::Result<String> {
        let mut command = self.shop.planwright(words);
        command.env("PLANWRIGHT_HOME", self.shop.home().join("demo/page/home"));
        self.shop.run_prepared(command)
    }
}

impl Drop for DemoPage<'_, '_> {
    fn drop(&mut self) {
        if let Err(error) = self.run(&["open", "--stop"]) {
            eprintln!("the demo's server may still run: {error}");
        }
    }
}

/// The agent, and a pager that shows everything at once.
const TOOLS: [(&str, &str); 2] = [
    (
        "claude",
        include_str!("../../../crates/planwright/src/commands/demo/example/agent.sh"),
    ),
    ("less", "#!/bin/sh\nexec cat\n"),
];
const FILES: [(&str, &str); 8] = [
    (
        "Cargo.toml",
        include_str!("../../../crates/planwright/src/commands/demo/example/shop/Cargo.toml.txt"),
    ),
    (
        "docs/refunds.md",
        include_str!("../../../crates/planwright/src/commands/demo/example/shop/docs/refunds.md"),
    ),
    (
        "planwright.yaml",
        include_str!("../../../crates/planwright/src/commands/demo/example/shop/planwright.yaml"),
    ),
    (
        "src/billing.rs",
        include_str!("../../../crates/planwright/src/commands/demo/example/shop/src/billing.rs"),
    ),
    (
        "src/lib.rs",
        include_str!("../../../crates/planwright/src/commands/demo/example/shop/src/lib.rs"),
    ),
    (
        "src/retry.rs",
        include_str!("../../../crates/planwright/src/commands/demo/example/shop/src/retry.rs"),
    ),
    (
        "tests/billing.rs",
        include_str!("../../../crates/planwright/src/commands/demo/example/shop/tests/billing.rs"),
    ),
    (
        "tests/retry.rs",
        include_str!("../../../crates/planwright/src/commands/demo/example/shop/tests/retry.rs"),
    ),
];
const STANDINGS: [&str; 9] = [
    "needs review",
    "needs answer",
    "failed",
    "conflict",
    "blocked",
    "working",
    "waiting",
    "landed",
    "undone",
];
const POLL_INTERVAL: Duration = Duration::from_millis(100);
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);
