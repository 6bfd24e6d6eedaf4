//! `planwright demo --open`: a small repository with plans in every state, shown on the page.
//!
//! Only the agent is a script. It runs as any agent does, so the plans, their changes and rules are real.

use std::path::{Path, PathBuf};

use sandbox::create_demo_repository;
use serde_json::Value;

use super::defect_error;
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::nested_run::NestedProgram;
use crate::{home, settings};

/// Where the example is, below the demo's directory.
pub struct ExamplePlans {
    directory: PathBuf,
}

impl ExamplePlans {
    pub fn new(demo_home: &Path) -> Self {
        Self {
            directory: demo_home.join("page"),
        }
    }

    pub fn exists(&self) -> bool {
        self.finished_marker().exists()
    }

    /// Makes the repository and its plans, unless an earlier demo did.
    pub fn ensure_created(&self) -> Result<(), CommandError> {
        if self.exists() {
            return Ok(());
        }
        // What an interrupted demo left.
        if self.directory.exists() {
            std::fs::remove_dir_all(&self.directory).map_err(|error| self.file_error(&error))?;
        }
        self.create_files()
            .map_err(|error| self.file_error(&error))?;
        create_demo_repository(&settings::read_git_env(), &self.repository(), &[])
            .map_err(lifecycle::LifecycleError::Sandbox)?;
        self.create_plans()?;
        home::write_private_file(&self.finished_marker(), "")
            .map_err(|error| self.file_error(&error))
    }

    /// Runs `planwright` in the example.
    pub fn run_json(&self, words: &[&str]) -> Result<(Option<i32>, Value), CommandError> {
        let program = NestedProgram {
            home: self.planwright_home(),
            directory: self.repository(),
        };
        program
            .run_json(words)
            .map_err(|error| self.file_error(&error))
    }

    fn create_files(&self) -> std::io::Result<()> {
        home::make_private_directory(&self.directory)?;
        for (name, text) in REPOSITORY_FILES {
            let file = self.repository().join(name);
            file.parent().map_or(Ok(()), std::fs::create_dir_all)?;
            std::fs::write(file, text)?;
        }
        std::fs::write(self.agent_script(), AGENT_SCRIPT)?;
        std::fs::write(self.agent_definition(), self.define_agent())
    }

    fn define_agent(&self) -> String {
        let script = serde_json::json!(self.agent_script());
        format!(
            "name: {AGENT}\nkind: command\ndescription: The script of the demo\ncommand: [sh, {script}]\n\
             readable: [{script}]\nstdin: prompt\noutput: claude-json\ntimeout: 15m\n"
        )
    }

    fn create_plans(&self) -> Result<(), CommandError> {
        let definition = self.agent_definition().display().to_string();
        self.run_expecting(&[0], &["agent", "add", &definition])?;
        for goal in ["Wait longer between retries", "Fix the flaky retry test"] {
            self.run_agent(goal)?;
            self.run_expecting(&[0], &["apply", "@", "--yes"])?;
            if goal.starts_with("Wait") {
                self.run_expecting(&[0], &["undo", "@", "--yes"])?;
            }
        }
        // Both change the same line. The first one lands, the second one is in conflict.
        self.run_agent("Round tax up")?;
        let conflicting = self.newest_plan()?;
        self.run_agent("Round tax half up")?;
        self.run_expecting(&[0], &["apply", "@", "--yes"])?;
        self.run_expecting(
            &[i32::from(CommandExit::Conflict.code())],
            &["apply", &conflicting, "--yes"],
        )?;
        for goal in [
            "Publish the prices",
            "Upgrade the parser",
            "Read the payment key from the environment",
            "Split billing.rs: invoices and tax",
        ] {
            self.run_agent(goal)?;
        }
        // Two for the server's workers, and one that waits for them.
        for goal in [
            "Translate the docs into German",
            "Translate the docs into French",
            "Send invoices as PDF",
        ] {
            self.run_expecting(&[0], &["run", "--agent", AGENT, "--detach", goal])?;
        }
        Ok(())
    }

    /// Runs the agent until its plan needs a person.
    fn run_agent(&self, goal: &str) -> Result<(), CommandError> {
        let stopped = [
            CommandExit::Blocked,
            CommandExit::NeedsPerson,
            CommandExit::NotLanded,
        ];
        let stopped = stopped.map(|exit| i32::from(exit.code()));
        self.run_expecting(&stopped, &["run", "--agent", AGENT, goal])
    }

    fn newest_plan(&self) -> Result<String, CommandError> {
        let (_, listed) = self.run_json(&["list", "--limit", "1"])?;
        let plan_id = listed["data"]["plans"][0]["plan_id"].as_str();
        plan_id
            .map(str::to_owned)
            .ok_or_else(|| defect_error("the list has no plan"))
    }

    fn run_expecting(&self, exit_codes: &[i32], words: &[&str]) -> Result<(), CommandError> {
        match self.run_json(words)? {
            (Some(code), _) if exit_codes.contains(&code) => Ok(()),
            (_, envelope) => Err(defect_error(&format!(
                "planwright {} answered {envelope}",
                words.join(" ")
            ))),
        }
    }

    /// The example's own `PLANWRIGHT_HOME`.
    pub fn planwright_home(&self) -> PathBuf {
        self.directory.join("home")
    }

    pub fn repository(&self) -> PathBuf {
        self.directory.join("shop")
    }

    fn agent_script(&self) -> PathBuf {
        self.directory.join("agent.sh")
    }

    fn agent_definition(&self) -> PathBuf {
        self.directory.join("agent.yaml")
    }

    fn finished_marker(&self) -> PathBuf {
        self.directory.join("finished")
    }

    fn file_error(&self, error: &std::io::Error) -> CommandError {
        CommandError::new(
            CommandExit::Error,
            format!(
                "Cannot use the demo's directory {}: {error}",
                self.directory.display()
            ),
        )
    }
}

const AGENT: &str = "demo";
const AGENT_SCRIPT: &str = include_str!("agent.sh");
const REPOSITORY_FILES: [(&str, &str); 8] = [
    ("Cargo.toml", include_str!("shop/Cargo.toml.txt")),
    ("docs/refunds.md", include_str!("shop/docs/refunds.md")),
    ("planwright.yaml", include_str!("shop/planwright.yaml")),
    ("src/billing.rs", include_str!("shop/src/billing.rs")),
    ("src/lib.rs", include_str!("shop/src/lib.rs")),
    ("src/retry.rs", include_str!("shop/src/retry.rs")),
    ("tests/billing.rs", include_str!("shop/tests/billing.rs")),
    ("tests/retry.rs", include_str!("shop/tests/retry.rs")),
];
