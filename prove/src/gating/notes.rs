//! What is written down outside of the store: what every run changed and used, and who was refused by a
//! gate. So nothing the engine does can change it.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU32;
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use plan::PlanId;
use plan::invariant::Gate;
use serde::{Deserialize, Serialize};

/// What somebody did under one authority.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The plan.
    pub plan: String,
    /// The authority.
    pub epoch: u64,
    /// What it changed.
    pub files: Vec<String>,
    /// The tokens it used, if it was let.
    pub tokens: u64,
    /// The store has taken that it used them.
    pub told: bool,
}

/// Somebody whom a gate kept out.
#[derive(Debug, Clone)]
pub struct Blocked {
    /// The name they acted under, which nobody else has.
    pub caller: String,
    /// The plan.
    pub plan: PlanId,
    /// The gate.
    pub gate: Gate,
}

/// What players write down.
pub struct Notes {
    directory: PathBuf,
    /// Whom gates kept out.
    pub blocked: Mutex<Vec<Blocked>>,
    /// Processes that were killed, workers not among them.
    pub kills: AtomicU32,
    /// Times that the program said a gate was shut.
    pub shut: AtomicU32,
}

impl Notes {
    /// In this directory.
    pub fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            blocked: Mutex::default(),
            kills: AtomicU32::new(0),
            shut: AtomicU32::new(0),
        }
    }

    /// Writes down what was done.
    pub fn run(&self, note: &Note) -> anyhow::Result<()> {
        write(&self.directory, note)
    }

    /// Writes down that somebody was kept out.
    pub fn blocked(&self, blocked: Blocked) {
        let mut all = self.blocked.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(blocked);
    }

    /// Everything that was done.
    pub fn runs(&self) -> anyhow::Result<Vec<Note>> {
        let text = std::fs::read_to_string(file(&self.directory)).unwrap_or_default();
        let parse = |line| serde_json::from_str(line).context("a line of the notes is none");
        text.lines().map(parse).collect()
    }
}

/// One line, whole.
pub fn write(directory: &Path, note: &Note) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(note)?;
    line.push(b'\n');
    let mut file: File = OpenOptions::new()
        .create(true)
        .append(true)
        .open(file(directory))?;
    file.write_all(&line)?;
    Ok(())
}

fn file(directory: &Path) -> PathBuf {
    directory.join("runs")
}
