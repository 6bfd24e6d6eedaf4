//! Records outside the store: what every run changed and used, and which calls a gate blocked. The engine cannot change
//! them.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU32;
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use plan::PlanId;
use plan::invariant::Gate;
use serde::{Deserialize, Serialize};

/// What the holder of one epoch changed and used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpochRecord {
    pub plan_id: String,
    pub epoch: u64,
    /// The changed paths.
    pub files: Vec<String>,
    /// The tokens it uses if nobody stops it.
    pub tokens: u64,
    /// The store has accepted the usage.
    pub settled: bool,
}

/// A call that a gate blocked.
#[derive(Debug, Clone)]
pub struct BlockedCall {
    /// The caller's name, which no other call has.
    pub caller: String,
    pub plan_id: PlanId,
    pub gate: Gate,
}

/// The records of all clients and actors.
pub struct TrialRecords {
    directory: PathBuf,
    pub blocked_calls: Mutex<Vec<BlockedCall>>,
    /// Killed processes, without workers.
    pub kills: AtomicU32,
    /// How often the program reported that a gate blocked it.
    pub blocked_programs: AtomicU32,
}

impl TrialRecords {
    pub fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            blocked_calls: Mutex::default(),
            kills: AtomicU32::new(0),
            blocked_programs: AtomicU32::new(0),
        }
    }

    pub fn add_epoch(&self, record: &EpochRecord) -> anyhow::Result<()> {
        append_epoch_record(&self.directory, record)
    }

    pub fn add_blocked_call(&self, call: BlockedCall) {
        let mut all = self
            .blocked_calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        all.push(call);
    }

    /// Reads the records of all epochs.
    pub fn read_epochs(&self) -> anyhow::Result<Vec<EpochRecord>> {
        let text = std::fs::read_to_string(record_file(&self.directory)).unwrap_or_default();
        let parse = |line| serde_json::from_str(line).context("invalid line in the records");
        text.lines().map(parse).collect()
    }
}

/// Appends a record with a single write, so that a kill cannot tear it.
pub fn append_epoch_record(directory: &Path, record: &EpochRecord) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(record)?;
    line.push(b'\n');
    let mut file: File = OpenOptions::new()
        .create(true)
        .append(true)
        .open(record_file(directory))?;
    file.write_all(&line)?;
    Ok(())
}

fn record_file(directory: &Path) -> PathBuf {
    directory.join("runs")
}
