//! A place with a sandbox, a home, and programs that play agents.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use plan::ActorDefinition;
use plan::actor::{ActorKind, CommandLine};
use planwright_actors::{
    Ambient, Assignment, Outcome, Progress, Report, SandboxTold, Stop, Workplace, actor,
};
use sandbox::Supervisor;
use tempfile::TempDir;

use crate::script::write_program;

pub struct Yard {
    _place: TempDir,
    /// Programs, first on the path.
    pub bin: PathBuf,
    /// The user's home.
    pub home: PathBuf,
    /// Planwright's home.
    pub ours: PathBuf,
    pub sandbox: PathBuf,
    pub run: PathBuf,
    /// The worker's environment.
    pub environment: BTreeMap<String, String>,
    pub time: Option<Duration>,
    pub strategy_wanted: bool,
    pub stop: Stop,
    /// What was told.
    pub told: Mutex<Vec<Progress>>,
}

impl Yard {
    pub fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        let ours = root.join("planwright");
        let yard = Self {
            bin: root.join("bin"),
            home: root.join("home"),
            sandbox: ours.join("sandboxes/plan/site"),
            run: ours.join("runs/1"),
            environment: BTreeMap::from([
                (
                    "PATH".into(),
                    format!("{}:/usr/bin:/bin", root.join("bin").display()),
                ),
                ("LANG".into(), "C.UTF-8".into()),
            ]),
            time: Some(Duration::from_secs(60)),
            strategy_wanted: false,
            stop: Stop::default(),
            told: Mutex::default(),
            ours,
            _place: place,
        };
        for path in [&yard.bin, &yard.home, &yard.sandbox, &yard.run] {
            fs::create_dir_all(path).unwrap();
        }
        yard
    }

    /// A program of this name that does what the script says, in the sandbox.
    pub fn program(&self, name: &str, script: &str) -> PathBuf {
        let path = self.bin.join(name);
        write_program(&path, &format!("#!/bin/sh\n{script}\n"));
        path
    }

    /// Lets the actor work on the assignment, in the sandbox.
    pub fn work(&self, definition: &ActorDefinition, mut assignment: Assignment) -> Report {
        planwright_actors::check(definition).unwrap();
        assignment.sandboxes = vec![SandboxTold {
            resource: "site".into(),
            path: self.sandbox.clone(),
        }];
        let ambient = Ambient {
            environment: self
                .environment
                .iter()
                .map(|(name, value)| (OsString::from(name), OsString::from(value)))
                .collect(),
            home: Some(self.home.clone()),
            out_of_reach: vec![self.ours.clone()],
        };
        let program = env!("CARGO_BIN_EXE_planwright-actors-test-supervisor");
        let supervisor = Supervisor::new(vec![program.into()]);
        let progress = |progress| self.told.lock().unwrap().push(progress);
        let workplace = Workplace {
            run: self.run.clone(),
            readable: Vec::new(),
            locks: Vec::new(),
            time: self.time,
            strategy_wanted: self.strategy_wanted,
            stop: self.stop.clone(),
            progress: &progress,
        };
        actor(definition, &ambient, &supervisor).work(&assignment, &workplace)
    }

    /// What a file in the sandbox says.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.sandbox.join(name))
            .unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub fn transcript(&self) -> String {
        fs::read_to_string(self.run.join("transcript.jsonl")).unwrap()
    }

    /// The steps that were told.
    pub fn steps(&self) -> Vec<String> {
        let told = self.told.lock().unwrap();
        let steps = told.iter().filter_map(|progress| match progress {
            Progress::Step(step) => Some(step.clone()),
            Progress::Began { .. } | Progress::Used(_) => None,
        });
        steps.collect()
    }
}

/// An actor that starts `agent`.
pub fn agent(change: impl FnOnce(&mut CommandLine)) -> ActorDefinition {
    let mut line = CommandLine {
        command: vec!["agent".into()],
        ..CommandLine::default()
    };
    change(&mut line);
    ActorDefinition {
        name: "agent".parse().unwrap(),
        description: None,
        kind: ActorKind::Command(Box::new(line)),
    }
}

/// What it failed with.
#[track_caller]
pub fn failure(report: &Report) -> (plan::stage::Category, String) {
    match &report.outcome {
        Outcome::Failed { category, message } => (*category, message.clone()),
        other => panic!("{other:?}"),
    }
}

/// Is this file of a run free of it?
#[track_caller]
pub fn holds_nowhere(directory: &Path, secret: &str) {
    for name in ["transcript.jsonl", "assignment.json", "prompt.txt"] {
        let text = fs::read_to_string(directory.join(name)).unwrap();
        assert!(!text.contains(secret), "{name} holds {secret}");
    }
}
