//! Runs: what an actor was given, what it said and what it used, each time it was started on a plan.
//!
//! ```text
//! runs/<plan>/<epoch>/assignment.json   what it was given
//! runs/<plan>/<epoch>/transcript.jsonl  everything it said
//! runs/<plan>/<epoch>/run.json          who it was and how it ended; written last
//! runs/<plan>/rule-<name>/…             the same of the last time a rule was asked; `check.json` is written last
//! ```
//!
//! They stay on the host they took place on: an agent's own conversations live there, too.

use std::io::Read;
use std::path::{Path, PathBuf};

use plan::invariant::RuleName;
use plan::judgement::RuleOutcome;
use plan::{Digest, Epoch, Phase, PlanId, QualifiedName, Timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::FileErrorContext;
use crate::sandboxes::{SandboxKey, Sandboxes};
use crate::{SandboxError, files};

/// Records are small; what is larger was not written by us.
const MAX_RECORD_BYTES: u64 = 1 << 20;

/// Everything that was said.
const TRANSCRIPT_FILE: &str = "transcript.jsonl";

/// How far borrowed objects are followed that borrow from others in turn.
const MAX_FOLLOWED_LENDERS: usize = 16;

/// One run, once it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    /// The actor.
    pub actor: QualifiedName,
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

/// The last time a rule was asked about a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckRecord {
    /// The rule.
    pub rule: RuleName,
    /// What it was asked about.
    pub subject: Digest,
    /// When that began, by this host's clock.
    pub began: Timestamp,
    /// When it ended.
    pub ended: Timestamp,
    /// What it said.
    pub outcome: RuleOutcome,
}

/// What was said when a rule was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckRun {
    /// Everything that was said.
    pub transcript: PathBuf,
    /// What became of it.
    pub record: CheckRecord,
}

/// A run that is known of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedRun {
    /// Under which authority it worked.
    pub epoch: Epoch,
    /// Where its files are.
    pub path: PathBuf,
    /// What became of it; `None` while it goes on, or if its worker was killed.
    pub record: Option<RunRecord>,
}

impl RecordedRun {
    /// Everything it said.
    pub fn transcript_path(&self) -> PathBuf {
        self.path.join(TRANSCRIPT_FILE)
    }
}

impl Sandboxes {
    /// A directory for a run. Of an earlier try of the same holder nothing is left.
    pub fn create_run_dir(&self, plan_id: PlanId, epoch: Epoch) -> Result<PathBuf, SandboxError> {
        let path = self.runs_dir(plan_id).join(epoch.to_string());
        files::remove_tree(&path)?;
        self.make_home_directory(&path)?;
        Ok(path)
    }

    /// Remembers how a run ended.
    pub fn write_run_record(&self, run: &Path, record: &RunRecord) -> Result<(), SandboxError> {
        let text = serde_json::to_vec(record).expect("BUG: a record always encodes");
        files::write_atomically(&run.join("run.json"), &text)?;
        // Only while it ran.
        let scratch = run.join("tmp");
        files::remove_tree(&scratch)
    }

    /// The runs on a plan, oldest first.
    pub fn list_runs(&self, plan_id: PlanId) -> Result<Vec<RecordedRun>, SandboxError> {
        let directory = self.runs_dir(plan_id);
        let epochs: Vec<u64> = files::list_names(&directory)?;
        let runs = epochs.into_iter().map(|epoch| {
            let path = directory.join(epoch.to_string());
            RecordedRun {
                epoch: Epoch(epoch),
                record: read_record(&path.join("run.json")),
                path,
            }
        });
        Ok(runs.collect())
    }

    /// Keeps what was said when a rule was asked, in place of what was said before.
    pub fn save_check_run(
        &self,
        plan_id: PlanId,
        run: &Path,
        record: &CheckRecord,
    ) -> Result<(), SandboxError> {
        let kept = self.runs_dir(plan_id).join(format!("rule-{}", record.rule));
        files::remove_tree(&kept)?;
        self.make_home_directory(&kept)?;
        let (said, transcript) = (run.join(TRANSCRIPT_FILE), kept.join(TRANSCRIPT_FILE));
        std::fs::rename(&said, &transcript).while_being("written", &transcript)?;
        let text = serde_json::to_vec(record).expect("BUG: a record always encodes");
        files::write_atomically(&kept.join("check.json"), &text)
    }

    /// What was said the last time each rule was asked, in the order in which they were.
    pub fn list_check_runs(&self, plan_id: PlanId) -> Result<Vec<CheckRun>, SandboxError> {
        let directory = self.runs_dir(plan_id);
        let names: Vec<String> = files::list_names(&directory)?;
        let ours = names.iter().filter(|name| name.starts_with("rule-"));
        let mut checks: Vec<CheckRun> = ours
            .filter_map(|name| {
                let kept = directory.join(name);
                Some(CheckRun {
                    transcript: kept.join(TRANSCRIPT_FILE),
                    record: read_record(&kept.join("check.json"))?,
                })
            })
            .collect();
        checks.sort_by_key(|check| check.record.began);
        Ok(checks)
    }

    /// What whoever works in a sandbox must be able to read beside it: the objects it borrows.
    pub fn list_borrowed_objects(
        &self,
        key: &SandboxKey<'_>,
    ) -> Result<Vec<PathBuf>, SandboxError> {
        let users = self
            .open_repository(key.resource)?
            .common_dir()
            .join("objects");
        let mut lenders = vec![self.vault_for(key).objects_dir(), users];
        let mut looked_at = 0;
        while let Some(lender) = lenders.get(looked_at).cloned() {
            looked_at += 1;
            for further in crate::vault::read_alternates(&lender) {
                if lenders.len() < MAX_FOLLOWED_LENDERS && !lenders.contains(&further) {
                    lenders.push(further);
                }
            }
        }
        // What an agent wrote into those is not followed: it would say itself what it may read.
        if let Some(sandbox) = self.current_sandbox(key)? {
            lenders.extend(crate::open_for_person::list_set_aside_objects(&sandbox)?);
        }
        Ok(lenders)
    }

    fn runs_dir(&self, plan_id: PlanId) -> PathBuf {
        self.home().join("runs").join(plan_id.to_string())
    }
}

/// What is damaged or cannot be read is not known; no plan waits for it.
fn read_record<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let mut text = Vec::new();
    let file = std::fs::File::open(path).ok()?;
    file.take(MAX_RECORD_BYTES).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}
