//! Runs this program as a person does, with a home and settings of its own.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::settings::SETTING_KEYS;

/// A home and the directory in which commands run.
pub struct NestedProgram {
    pub home: PathBuf,
    pub directory: PathBuf,
}

impl NestedProgram {
    /// Runs a command and waits for it. It has no terminal, and the person's settings do not apply.
    #[expect(
        clippy::disallowed_methods,
        reason = "runs this program, not a program of a plan"
    )]
    pub fn run(&self, words: &[&str]) -> std::io::Result<Output> {
        let mut command = Command::new(std::env::current_exe()?);
        for key in SETTING_KEYS {
            command.env_remove(key.variable_name());
        }
        command
            .args(words)
            .current_dir(&self.directory)
            .env("PLANWRIGHT_HOME", &self.home)
            .stdin(Stdio::null())
            .output()
    }

    /// Runs a command with `--format json` and returns its exit code and envelope.
    pub fn run_json(&self, words: &[&str]) -> std::io::Result<(Option<i32>, Value)> {
        let output = self.run(&[&["--format", "json"], words].concat())?;
        // Commands that stream print the envelope last.
        let stdout = String::from_utf8_lossy(&output.stdout);
        let last = stdout.lines().last().unwrap_or_default();
        let envelope = serde_json::from_str(last).unwrap_or_default();
        Ok((output.status.code(), envelope))
    }
}
