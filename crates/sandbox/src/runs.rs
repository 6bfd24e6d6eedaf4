//! Runs: what an actor was given, what it said and what it used, each time it was started on a plan.
//!
//! ```text
//! runs/<plan>/<epoch>/assignment.json   what it was given
//! runs/<plan>/<epoch>/transcript.jsonl  everything it said
//! runs/<plan>/<epoch>/run.json          who it was and how it ended; written last
//! ```
//!
//! They stay on the host they took place on: an agent's own conversations live there, too.

use std::io::Read;
use std::path::{Path, PathBuf};

use plan::{Epoch, Name, Phase, PlanId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::error::Doing;
use crate::room::{Room, Workshop};
use crate::{SandboxError, files};

/// Records are small; what is larger was not written by us.
const LARGEST_RECORD: u64 = 1 << 20;

/// How far borrowed objects are followed that borrow from others in turn.
const MOST_LENDERS: usize = 16;

/// One run, once it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    /// The actor.
    pub actor: Name,
    /// The phase it worked on.
    pub phase: Phase,
    /// When it began, by this host's clock.
    pub began: Timestamp,
    /// When it ended.
    pub ended: Timestamp,
    /// How it ended, in a word.
    pub outcome: String,
    /// How it was confined, in words.
    pub isolation: Option<String>,
    /// The actor's own name for the conversation.
    pub session: Option<String>,
    /// Tokens it says it read.
    pub input_tokens: u64,
    /// Tokens it says it wrote.
    pub output_tokens: u64,
    /// What it says it cost, in millionths of a US dollar.
    pub cost_micros: u64,
}

/// A run that is known of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Under which authority it worked.
    pub epoch: Epoch,
    /// Where its files are.
    pub path: PathBuf,
    /// What became of it; `None` while it goes on, or if its worker was killed.
    pub record: Option<RunRecord>,
}

impl Run {
    /// Everything it said.
    pub fn transcript(&self) -> PathBuf {
        self.path.join("transcript.jsonl")
    }
}

impl Workshop {
    /// A directory for a run. Of an earlier try of the same holder nothing is left.
    pub fn begin_run(&self, plan: PlanId, epoch: Epoch) -> Result<PathBuf, SandboxError> {
        let path = self.runs_of(plan).join(epoch.to_string());
        files::remove_tree(&path)?;
        std::fs::create_dir_all(&path).doing("made", &path)?;
        Ok(path)
    }

    /// Remembers how a run ended.
    pub fn end_run(&self, run: &Path, record: &RunRecord) -> Result<(), SandboxError> {
        let text = serde_json::to_vec(record).expect("BUG: a record always encodes");
        files::write_whole(&run.join("run.json"), &text)?;
        // Only while it ran.
        let scratch = run.join("tmp");
        files::remove_tree(&scratch)
    }

    /// The runs on a plan, oldest first.
    pub fn runs(&self, plan: PlanId) -> Result<Vec<Run>, SandboxError> {
        let directory = self.runs_of(plan);
        let epochs: Vec<u64> = files::names_in(&directory)?;
        let runs = epochs.into_iter().map(|epoch| {
            let path = directory.join(epoch.to_string());
            Run {
                epoch: Epoch(epoch),
                record: read_record(&path.join("run.json")),
                path,
            }
        });
        Ok(runs.collect())
    }

    /// What whoever works in a sandbox must be able to read beside it: the objects it borrows.
    pub fn borrowed(&self, room: &Room<'_>) -> Result<Vec<PathBuf>, SandboxError> {
        let users = self.repository(room.site)?.common_dir().join("objects");
        let mut lenders = vec![self.vault(room).objects(), users];
        let mut looked_at = 0;
        while let Some(lender) = lenders.get(looked_at).cloned() {
            looked_at += 1;
            let list = std::fs::read(lender.join("info/alternates")).unwrap_or_default();
            for line in list.split(|byte| *byte == b'\n').filter(|l| !l.is_empty()) {
                let further = lender.join(crate::repository::as_path(line));
                if lenders.len() < MOST_LENDERS && !lenders.contains(&further) {
                    lenders.push(further);
                }
            }
        }
        Ok(lenders)
    }

    fn runs_of(&self, plan: PlanId) -> PathBuf {
        self.home().join("runs").join(plan.to_string())
    }
}

/// What is damaged or cannot be read is not known; no plan waits for it.
fn read_record(path: &Path) -> Option<RunRecord> {
    let mut text = Vec::new();
    let file = std::fs::File::open(path).ok()?;
    file.take(LARGEST_RECORD).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}
