//! `agent list` and `doctor` say how each agent would be run, and what is missing.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use serde_json::Value;
use testkit::{TestProgram, TestRun};

/// A host on which agents are installed as npm does it.
struct AgentHost {
    program: TestProgram,
    directory: tempfile::TempDir,
}

impl AgentHost {
    fn new() -> Self {
        Self {
            program: TestProgram::new(env!("CARGO_BIN_EXE_planwright")),
            directory: tempfile::TempDir::with_prefix("planwright-agents-").unwrap(),
        }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.directory.path().join(below)
    }

    fn install_agent(&self, name: &str, manifest: &str) {
        let package = self.path("lib/node_modules").join(name);
        std::fs::create_dir_all(&package).unwrap();
        std::fs::write(package.join("package.json"), manifest).unwrap();
        testkit::write_program(&package.join("cli.js"), "#!/usr/bin/env node\n");
        std::fs::create_dir_all(self.path("bin")).unwrap();
        symlink(package.join("cli.js"), self.path("bin").join(name)).unwrap();
    }

    fn install_node(&self, version: &str) {
        let bin = self.path(&format!("{version}/bin"));
        std::fs::create_dir_all(&bin).unwrap();
        testkit::write_program(&bin.join("node"), "#!/bin/sh\nexit 1\n");
        let _ = std::fs::remove_file(self.path("node"));
        symlink(&bin, self.path("node")).unwrap();
    }

    fn run(&self, words: &[&str]) -> TestRun {
        let path = format!(
            "{0}/bin:{0}/node:/usr/bin:/bin",
            self.directory.path().display()
        );
        let run = self.program.run(words.to_vec());
        run.with_variable("PATH", path)
            .with_variable("HOME", self.path("home"))
            // Tests may run as root.
            .with_variable("IS_SANDBOX", "1")
    }

    fn list_agent(&self, name: &str) -> Value {
        let said = self.run(&["--format", "json", "agent", "list"]).finish();
        assert_eq!(said.exit_code(), Some(0), "{said:?}");
        let actors = said.data()["actors"].clone();
        let mut actors = actors.as_array().unwrap().iter();
        actors.find(|one| one["name"] == name).unwrap().clone()
    }
}

#[test]
fn agent_list_says_how_an_agent_is_run_and_what_is_missing() {
    let host = AgentHost::new();
    host.install_node("v20.19.4");
    let manifest = r#"{"version": "999.1.0", "engines": {"node": ">=22"}}"#;
    host.install_agent("claude", manifest);
    let claude = host.list_agent("claude");
    assert_eq!(claude["runs_by"], "stream", "{claude}");
    assert_eq!(claude["version"], "999.1.0", "{claude}");
    assert!(claude["tested_version"].is_string(), "{claude}");
    assert_eq!(claude["missing"][0]["kind"], "node", "{claude}");
    assert_eq!(claude["missing"][0]["found"], "20.19.4", "{claude}");
    assert_eq!(claude["missing"][1]["kind"], "login", "{claude}");
    assert_eq!(claude["acp_variant"]["name"], "claude-acp", "{claude}");
    assert_eq!(
        claude["acp_variant"]["installed_at"],
        Value::Null,
        "{claude}"
    );
    assert_eq!(host.list_agent("claude-acp")["runs_by"], "acp");
    assert_eq!(host.list_agent("aider")["runs_by"], "text");
    let codex = host.list_agent("codex");
    assert_eq!(
        codex["missing"].as_array().unwrap().len(),
        0,
        "not installed"
    );

    host.install_agent("claude-agent-acp", manifest);
    let claude = host.list_agent("claude");
    assert!(
        claude["acp_variant"]["installed_at"].is_string(),
        "{claude}"
    );
    let said = host.run(&["agent", "list"]).finish();
    let line = said.stdout.lines().find(|line| line.starts_with("claude "));
    let words: Vec<&str> = line.unwrap().split_whitespace().collect();
    let expected = [
        "claude", "preset", "999.1.0", "stream", "Node.js", "22,", "login",
    ];
    assert_eq!(words[..expected.len()], expected, "{said:?}");
    assert!(said.stderr.contains("planwright doctor"), "{said:?}");
}

#[test]
fn doctor_says_what_to_do_about_an_agent_that_is_not_ready() {
    let host = AgentHost::new();
    host.install_node("v20.19.4");
    let manifest = r#"{"version": "999.1.0", "engines": {"node": ">=22"}}"#;
    host.install_agent("codex", manifest);
    let said = host.run(&["doctor"]).finish();
    let line = "warn  agents     codex 999.1.0 by stream; it needs Node.js 22 or later, and this is 20.19.4; no login was found\n";
    assert!(said.stdout.contains(line), "{said:?}");
    assert!(
        said.stderr.contains("Install Node.js 22 or later"),
        "{said:?}"
    );
    assert!(
        said.stderr
            .contains("Log in to codex: codex login. Or set CODEX_API_KEY"),
        "{said:?}"
    );
    assert!(said.stdout.contains("isolation"), "{said:?}");

    host.install_node("v24.0.1");
    std::fs::create_dir_all(host.path("home/.codex")).unwrap();
    std::fs::write(host.path("home/.codex/auth.json"), "{}").unwrap();
    let said = host.run(&["doctor"]).finish();
    let line = "ok    agents     codex 999.1.0 by stream\n";
    assert!(said.stdout.contains(line), "{said:?}");
    assert!(!said.stderr.contains("codex"), "{said:?}");
}
