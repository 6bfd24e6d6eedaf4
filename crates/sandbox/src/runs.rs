//! Files of each agent run on a plan: its assignment, its transcript and its usage.
//!
//! ```text
//! runs/<plan>/<epoch>/assignment.json   what the agent was given
//! runs/<plan>/<epoch>/transcript.jsonl  its output
//! runs/<plan>/<epoch>/run.json          actor, outcome and usage; written last
//! runs/<plan>/rule-<name>/…             the last check of a rule; `check.json` is written last
//! ```
//!
//! They stay on the host where the run took place, because the agent's own sessions are there, too.

use std::io::Read;
use std::path::{Path, PathBuf};

use plan::invariant::RuleName;
use plan::judgement::RuleOutcome;
use plan::{Digest, Epoch, Phase, PlanId, QualifiedName, Timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::FileErrorContext;
use crate::local_resource::SandboxKey;
use crate::sandboxes::Sandboxes;
use crate::{SandboxError, files};

/// Larger files were not written by the engine.
const MAX_RECORD_BYTES: u64 = 1 << 20;

const TRANSCRIPT_FILE: &str = "transcript.jsonl";

/// How many object directories are followed through alternates.
const MAX_FOLLOWED_LENDERS: usize = 16;

/// A finished run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    pub actor: QualifiedName,
    pub phase: Phase,
    /// By this host's clock.
    pub began: Timestamp,
    /// By this host's clock.
    pub ended: Timestamp,
    /// One word, such as `done`.
    pub outcome: String,
    /// How it was confined, as text.
    pub isolation: Option<String>,
    /// The agent's own id for the conversation.
    pub session: Option<String>,
    /// As reported by the agent.
    pub input_tokens: u64,
    /// As reported by the agent.
    pub output_tokens: u64,
    /// Millionths of a US dollar, as reported by the agent.
    pub cost_micros: u64,
}

/// The last check of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckRecord {
    pub rule: RuleName,
    /// The digest of what was checked.
    pub subject: Digest,
    /// By this host's clock.
    pub began: Timestamp,
    /// By this host's clock.
    pub ended: Timestamp,
    pub outcome: RuleOutcome,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckRun {
    /// The path of the transcript.
    pub transcript: PathBuf,
    pub record: CheckRecord,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedRun {
    /// The epoch of the lease it ran under.
    pub epoch: Epoch,
    /// The directory with its files.
    pub path: PathBuf,
    /// `None` while it runs, or if its worker was killed.
    pub record: Option<RunRecord>,
}

impl RecordedRun {
    pub fn transcript_path(&self) -> PathBuf {
        self.path.join(TRANSCRIPT_FILE)
    }
}

/// The directories and records of agents' runs and rule checks.
#[derive(Clone, Copy)]
pub struct RunFiles<'a> {
    sandboxes: &'a Sandboxes,
}

impl Sandboxes {
    pub fn runs(&self) -> RunFiles<'_> {
        RunFiles { sandboxes: self }
    }
}

impl RunFiles<'_> {
    /// Creates an empty directory for a run. Removes what an earlier attempt of the same holder
    /// left.
    pub fn create_run_dir(&self, plan_id: PlanId, epoch: Epoch) -> Result<PathBuf, SandboxError> {
        let path = self.runs_dir(plan_id).join(epoch.to_string());
        files::remove_tree(&path)?;
        self.sandboxes.home().make_home_directory(&path)?;
        Ok(path)
    }

    /// Records how a run ended and removes its temporary files.
    pub fn write_run_record(&self, run: &Path, record: &RunRecord) -> Result<(), SandboxError> {
        let text = serde_json::to_vec(record).expect("BUG: a record always encodes");
        files::write_atomically(&run.join("run.json"), &text)?;
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

    /// Stores the transcript and the record of a check, replacing those of the rule's last check.
    pub fn save_check_run(
        &self,
        plan_id: PlanId,
        run: &Path,
        record: &CheckRecord,
    ) -> Result<(), SandboxError> {
        let check_dir = self.runs_dir(plan_id).join(format!("rule-{}", record.rule));
        files::remove_tree(&check_dir)?;
        self.sandboxes.home().make_home_directory(&check_dir)?;
        let (source, transcript) = (run.join(TRANSCRIPT_FILE), check_dir.join(TRANSCRIPT_FILE));
        std::fs::rename(&source, &transcript).while_being("written", &transcript)?;
        let text = serde_json::to_vec(record).expect("BUG: a record always encodes");
        files::write_atomically(&check_dir.join("check.json"), &text)
    }

    /// The last check of each rule, in the order in which they began.
    pub fn list_check_runs(&self, plan_id: PlanId) -> Result<Vec<CheckRun>, SandboxError> {
        let directory = self.runs_dir(plan_id);
        let names: Vec<String> = files::list_names(&directory)?;
        let ours = names.iter().filter(|name| name.starts_with("rule-"));
        let mut checks: Vec<CheckRun> = ours
            .filter_map(|name| {
                let check_dir = directory.join(name);
                Some(CheckRun {
                    transcript: check_dir.join(TRANSCRIPT_FILE),
                    record: read_record(&check_dir.join("check.json"))?,
                })
            })
            .collect();
        checks.sort_by_key(|check| check.record.began);
        Ok(checks)
    }

    /// The object directories that a sandbox borrows from. An agent must be able to read them.
    pub fn list_borrowed_objects(
        &self,
        key: &SandboxKey<'_>,
    ) -> Result<Vec<PathBuf>, SandboxError> {
        let user_objects = self
            .sandboxes
            .open_repository(key.resource)?
            .common_dir()
            .join("objects");
        let mut lenders = vec![
            self.sandboxes.vaults().vault_for(key).objects_dir(),
            user_objects,
        ];
        let mut next = 0;
        while let Some(lender) = lenders.get(next).cloned() {
            next += 1;
            for further in crate::vault::read_alternates(&lender) {
                if lenders.len() < MAX_FOLLOWED_LENDERS && !lenders.contains(&further) {
                    lenders.push(further);
                }
            }
        }
        // Alternates that an agent may have written are not followed. Otherwise it could choose
        // what it may read.
        if let Some(sandbox) = self.sandboxes.current_sandbox(key)? {
            lenders.extend(crate::open_for_person::list_set_aside_objects(&sandbox)?);
        }
        Ok(lenders)
    }

    fn runs_dir(&self, plan_id: PlanId) -> PathBuf {
        self.sandboxes.home().join("runs").join(plan_id.to_string())
    }
}

/// A damaged or unreadable record counts as missing, so that it does not block a plan.
fn read_record<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let mut text = Vec::new();
    let file = std::fs::File::open(path).ok()?;
    file.take(MAX_RECORD_BYTES).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}
