//! Directories for a sandbox, a home and a run, with scripts that act as agents.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plan::ActorDefinition;
use plan::actor::{ActorKind, CommandLine};
use plan::decision::ReportedDecision;
use planwright_actors::{
    Actor, AskPersonFn, AssignedSandbox, Assignment, HostEnv, Report, ReportOutcome, RunProgress,
    Stop, Workplace, make_actor,
};
use sandbox::Supervisor;
use tempfile::TempDir;

use crate::script::write_program;

pub struct ActorTestEnv {
    _directory: TempDir,
    /// Scripts; first in PATH.
    pub bin: PathBuf,
    pub home: PathBuf,
    pub planwright_home: PathBuf,
    pub sandbox: PathBuf,
    pub run_dir: PathBuf,
    /// The worker's environment.
    pub environment: BTreeMap<String, String>,
    pub time_limit: Option<Duration>,
    pub strategy_wanted: bool,
    pub profile: plan::Profile,
    pub stop: Stop,
    /// The relay to the tools of the run.
    pub tool_relay: Vec<OsString>,
    /// Answers questions about tool calls.
    pub person: Option<Box<AskPersonFn<'static>>>,
    /// Decisions that were recorded while the agent worked.
    pub recorded_decisions: Mutex<Vec<ReportedDecision>>,
    /// Progress that was reported.
    pub reported: Mutex<Vec<RunProgress>>,
}

impl ActorTestEnv {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let planwright_home = root.join("planwright");
        let test_env = Self {
            bin: root.join("bin"),
            home: root.join("home"),
            sandbox: planwright_home.join("sandboxes/plan/site"),
            run_dir: planwright_home.join("runs/1"),
            environment: BTreeMap::from([
                (
                    "PATH".into(),
                    format!("{}:/usr/bin:/bin", root.join("bin").display()),
                ),
                ("LANG".into(), "C.UTF-8".into()),
            ]),
            time_limit: Some(Duration::from_secs(60)),
            strategy_wanted: false,
            profile: plan::Profile::Review,
            stop: Stop::default(),
            tool_relay: Vec::new(),
            person: None,
            recorded_decisions: Mutex::default(),
            reported: Mutex::default(),
            planwright_home,
            _directory: directory,
        };
        for path in [
            &test_env.bin,
            &test_env.home,
            &test_env.sandbox,
            &test_env.run_dir,
        ] {
            fs::create_dir_all(path).unwrap();
        }
        test_env
    }

    /// Installs a script as a program of this name.
    pub fn install_program(&self, name: &str, script: &str) -> PathBuf {
        let path = self.bin.join(name);
        write_program(&path, &format!("#!/bin/sh\n{script}\n"));
        path
    }

    /// Runs the actor on the assignment, in the sandbox.
    pub fn run_actor(&self, definition: &ActorDefinition, assignment: Assignment) -> Report {
        planwright_actors::check_definition(definition).unwrap();
        self.work_with(assignment, |host_env, supervisor| {
            make_actor(definition, host_env, supervisor)
        })
    }

    /// Runs an actor that is made with what the host provides.
    pub fn work_with(
        &self,
        mut assignment: Assignment,
        make: impl FnOnce(&HostEnv, &Supervisor) -> Arc<dyn Actor>,
    ) -> Report {
        assignment.sandboxes = vec![AssignedSandbox {
            resource: "site".into(),
            path: self.sandbox.clone(),
        }];
        let host_env = HostEnv {
            environment: self
                .environment
                .iter()
                .map(|(name, value)| (OsString::from(name), OsString::from(value)))
                .collect(),
            home: Some(self.home.clone()),
            out_of_reach: vec![self.planwright_home.clone()],
            tool_relay: self.tool_relay.clone(),
        };
        let program = env!("CARGO_BIN_EXE_planwright-actors-test-supervisor");
        let supervisor = Supervisor::new(vec![program.into()]);
        let progress = |progress| self.reported.lock().unwrap().push(progress);
        let record_decision = |decision| {
            self.recorded_decisions.lock().unwrap().push(decision);
            Ok(())
        };
        let workplace = Workplace {
            run_dir: self.run_dir.clone(),
            readable_paths: Vec::new(),
            lock_files: Vec::new(),
            time_limit: self.time_limit,
            strategy_wanted: self.strategy_wanted,
            profile: self.profile,
            stop: self.stop.clone(),
            ask_person: self.person.as_deref(),
            record_decision: Some(&record_decision),
            on_progress: &progress,
        };
        make(&host_env, &supervisor).work(&assignment, &workplace)
    }

    pub fn read_file(&self, name: &str) -> String {
        fs::read_to_string(self.sandbox.join(name))
            .unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub fn read_transcript(&self) -> String {
        fs::read_to_string(self.run_dir.join("transcript.jsonl")).unwrap()
    }

    /// What the agent was doing, as entries tell it.
    pub fn reported_steps(&self) -> Vec<String> {
        let reported = self.reported.lock().unwrap();
        let steps = reported.iter().filter_map(|progress| match progress {
            RunProgress::Entry(entry) => entry.describe_activity(),
            RunProgress::Started { .. } => None,
        });
        steps.collect()
    }
}

/// An actor that starts `agent`.
pub fn agent_definition(change: impl FnOnce(&mut CommandLine)) -> ActorDefinition {
    let mut command_line = CommandLine {
        command: vec!["agent".into()],
        ..CommandLine::default()
    };
    change(&mut command_line);
    ActorDefinition {
        name: "agent".parse().unwrap(),
        description: None,
        kind: ActorKind::Command(Box::new(command_line)),
    }
}

#[track_caller]
pub fn expect_failure(report: &Report) -> (plan::stage::FailureCategory, String) {
    match &report.outcome {
        ReportOutcome::Failed { category, message } => (*category, message.clone()),
        other => panic!("{other:?}"),
    }
}

/// Checks that no file of a run contains the secret.
#[track_caller]
pub fn assert_secret_absent(run_dir: &Path, secret: &str) {
    for name in ["transcript.jsonl", "assignment.json", "prompt.txt"] {
        let text = fs::read_to_string(run_dir.join(name)).unwrap();
        assert!(!text.contains(secret), "{name} holds {secret}");
    }
}
