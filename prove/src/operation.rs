//! What players do, and what they are told: values that can be written down.

use std::fmt;
use std::str::FromStr;

use plan::{ChangesetId, Phase, PlanId};
use serde::{Deserialize, Serialize};

/// Names one call of one player. It is also the name under which the player calls, so that every event
/// tells which call made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct CallId {
    /// Which player.
    pub player: u32,
    /// How often it was killed before.
    pub life: u32,
    /// The number of the call in that life.
    pub number: u32,
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}.{}.{}", self.player, self.life, self.number)
    }
}

impl FromStr for CallId {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        let parse = || {
            let mut parts = given.strip_prefix('p')?.split('.');
            let mut next = || parts.next()?.parse().ok();
            Some(Self {
                player: next()?,
                life: next()?,
                number: next()?,
            })
        };
        parse().ok_or_else(|| format!("`{given}` names no call"))
    }
}

impl From<CallId> for String {
    fn from(id: CallId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for CallId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// One call, as it was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Its name.
    pub id: CallId,
    /// Through the program, or through the library?
    pub through_program: bool,
    /// On a person's word, or a worker's?
    pub by_person: bool,
    /// Makes repeating it safe: the name of the first call under it.
    pub key: Option<String>,
    /// What was asked.
    pub operation: Operation,
}

impl Call {
    /// What stands in the texts and paths it gives: the same whenever it is repeated under its key.
    pub fn label(&self) -> String {
        match &self.key {
            Some(key) => key.clone(),
            None => self.id.to_string(),
        }
    }
}

/// What was asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "named as the engine's own operations")]
pub enum Operation {
    Use,
    /// Two decisions in one commit.
    UseAndStart {
        lease_ms: u32,
    },
    Start {
        plan: PlanId,
        phase: Phase,
        lease_ms: u32,
    },
    Complete {
        plan: PlanId,
        phase: Phase,
        epoch: u64,
    },
    ExecutePlan {
        plan: PlanId,
    },
    ApplyPlan {
        plan: PlanId,
    },
    Approve {
        plan: PlanId,
    },
    PrepareApply {
        plan: PlanId,
        epoch: u64,
    },
    WithdrawApply {
        plan: PlanId,
        epoch: u64,
    },
    Constrain {
        plan: PlanId,
        epoch: u64,
    },
    Renew {
        plan: PlanId,
        epoch: u64,
        lease_ms: u32,
    },
    Release {
        plan: PlanId,
        epoch: u64,
    },
    Reclaim {
        plan: PlanId,
    },
    Fail {
        plan: PlanId,
        epoch: u64,
        transient: bool,
    },
    Ask {
        plan: PlanId,
        epoch: u64,
        patience_ms: Option<u32>,
    },
    Answer {
        plan: PlanId,
    },
    ExpireQuestion {
        plan: PlanId,
    },
    Retry {
        plan: PlanId,
    },
    Revise {
        plan: PlanId,
    },
    Revert {
        plan: PlanId,
    },
    Cancel {
        plan: PlanId,
    },
    OpenChangeset {
        plan: PlanId,
        epoch: u64,
        node: String,
    },
    /// Records a change to the path that is the call's label.
    RecordChange {
        plan: PlanId,
        epoch: u64,
        node: String,
    },
    SealChangeset {
        plan: PlanId,
        epoch: u64,
        changeset: ChangesetId,
    },
    AddRule {
        plan: PlanId,
        rule: String,
        holds: bool,
    },
    RemoveRule {
        plan: PlanId,
        rule: String,
    },
    Look {
        plan: PlanId,
    },
    List,
}

impl Operation {
    /// The plan it is about.
    pub fn plan(&self) -> Option<PlanId> {
        match self {
            Self::Use | Self::UseAndStart { .. } | Self::List => None,
            Self::Start { plan, .. }
            | Self::Complete { plan, .. }
            | Self::ExecutePlan { plan }
            | Self::ApplyPlan { plan }
            | Self::Approve { plan }
            | Self::PrepareApply { plan, .. }
            | Self::WithdrawApply { plan, .. }
            | Self::Constrain { plan, .. }
            | Self::Renew { plan, .. }
            | Self::Release { plan, .. }
            | Self::Reclaim { plan }
            | Self::Fail { plan, .. }
            | Self::Ask { plan, .. }
            | Self::Answer { plan }
            | Self::ExpireQuestion { plan }
            | Self::Retry { plan }
            | Self::Revise { plan }
            | Self::Revert { plan }
            | Self::Cancel { plan }
            | Self::OpenChangeset { plan, .. }
            | Self::RecordChange { plan, .. }
            | Self::SealChangeset { plan, .. }
            | Self::AddRule { plan, .. }
            | Self::RemoveRule { plan, .. }
            | Self::Look { plan } => Some(*plan),
        }
    }

    /// The authority it claims.
    pub fn epoch(&self) -> Option<u64> {
        match self {
            Self::Complete { epoch, .. }
            | Self::PrepareApply { epoch, .. }
            | Self::WithdrawApply { epoch, .. }
            | Self::Constrain { epoch, .. }
            | Self::Renew { epoch, .. }
            | Self::Release { epoch, .. }
            | Self::Fail { epoch, .. }
            | Self::Ask { epoch, .. }
            | Self::OpenChangeset { epoch, .. }
            | Self::RecordChange { epoch, .. }
            | Self::SealChangeset { epoch, .. } => Some(*epoch),
            Self::Use
            | Self::UseAndStart { .. }
            | Self::Start { .. }
            | Self::ExecutePlan { .. }
            | Self::ApplyPlan { .. }
            | Self::Approve { .. }
            | Self::Reclaim { .. }
            | Self::Answer { .. }
            | Self::ExpireQuestion { .. }
            | Self::Retry { .. }
            | Self::Revise { .. }
            | Self::Revert { .. }
            | Self::Cancel { .. }
            | Self::AddRule { .. }
            | Self::RemoveRule { .. }
            | Self::Look { .. }
            | Self::List => None,
        }
    }

    /// Does it leave an event when it succeeds? The others write rows beside the plan, or read.
    pub fn leaves_an_event(&self) -> bool {
        !matches!(
            self,
            Self::Renew { .. }
                | Self::OpenChangeset { .. }
                | Self::RecordChange { .. }
                | Self::AddRule { .. }
                | Self::RemoveRule { .. }
                | Self::Look { .. }
                | Self::List
        )
    }

    /// Its name, to count by.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Use => "use",
            Self::UseAndStart { .. } => "use and claim",
            Self::Start { .. } => "claim",
            Self::Complete { .. } => "complete",
            Self::ExecutePlan { .. } => "execute",
            Self::ApplyPlan { .. } => "apply",
            Self::Approve { .. } => "approve",
            Self::PrepareApply { .. } => "prepare",
            Self::WithdrawApply { .. } => "withdraw",
            Self::Constrain { .. } => "constrain",
            Self::Renew { .. } => "renew",
            Self::Release { .. } => "release",
            Self::Reclaim { .. } => "reclaim",
            Self::Fail { .. } => "fail",
            Self::Ask { .. } => "ask",
            Self::Answer { .. } => "answer",
            Self::ExpireQuestion { .. } => "expire",
            Self::Retry { .. } => "retry",
            Self::Revise { .. } => "revise",
            Self::Revert { .. } => "revert",
            Self::Cancel { .. } => "cancel",
            Self::OpenChangeset { .. } => "open",
            Self::RecordChange { .. } => "record",
            Self::SealChangeset { .. } => "seal",
            Self::AddRule { .. } => "add rule",
            Self::RemoveRule { .. } => "remove rule",
            Self::Look { .. } => "look",
            Self::List => "list",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Self::Start { phase, .. } | Self::Complete { phase, .. } => {
                write!(f, " {}", phase.as_str())?;
            }
            Self::RecordChange { node, .. } | Self::OpenChangeset { node, .. } => {
                write!(f, " in node {node}")?;
            }
            Self::AddRule { rule, .. } | Self::RemoveRule { rule, .. } => write!(f, " {rule}")?,
            _ => {}
        }
        if let Some(epoch) = self.epoch() {
            write!(f, " as epoch {epoch}")?;
        }
        Ok(())
    }
}

/// What was answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It was done.
    Done(Receipt),
    /// A rule stands in the way; nothing happened.
    Blocked,
    /// It is not possible as things are; nothing happened.
    Refused(Refused),
    /// The store failed and says that nothing was written.
    Failed(String),
    /// The store failed, and it says that it does not know.
    Unknown(String),
    /// Plans as they were read.
    Saw(Vec<Seen>),
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The plan it was about, or that came to be.
    pub plan: Option<PlanId>,
    /// Its version.
    pub version: Option<u64>,
    /// The authority that was given.
    pub epoch: Option<u64>,
    /// The changeset that was opened or written to.
    pub changeset: Option<ChangesetId>,
    /// It had been done before, by this caller or under this key.
    pub repeated: bool,
}

/// Why not, and what that tells about the plan at that moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// In words.
    pub why: String,
    /// Its authority was over.
    pub fenced: bool,
    /// There was no such plan.
    pub absent: bool,
    /// The plan's stage, if that was why.
    pub stage: Option<String>,
    /// The plan's epoch, if that was why.
    pub epoch: Option<u64>,
}

/// A plan as it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Which.
    pub plan: PlanId,
    /// At which version.
    pub version: u64,
    /// Phase and state.
    pub stage: String,
    /// Its epoch, where it was shown.
    pub epoch: Option<u64>,
    /// The epoch of the lease stored beside it, where that was shown.
    pub lease: Option<Option<u64>>,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done(receipt) => {
                f.write_str(if receipt.repeated {
                    "done before"
                } else {
                    "done"
                })?;
                if let Some(version) = receipt.version {
                    write!(f, ", version {version}")?;
                }
                if let Some(epoch) = receipt.epoch {
                    write!(f, ", epoch {epoch}")?;
                }
                if let Some(changeset) = receipt.changeset {
                    write!(f, ", changeset {changeset}")?;
                }
                Ok(())
            }
            Self::Blocked => f.write_str("blocked by a rule"),
            Self::Refused(refused) => write!(f, "refused: {}", refused.why),
            Self::Failed(why) => write!(f, "failed, nothing written: {why}"),
            Self::Unknown(why) => write!(f, "outcome unknown: {why}"),
            Self::Saw(plans) => match plans.as_slice() {
                [] => f.write_str("saw nothing"),
                [seen] => write!(f, "saw version {}, {}", seen.version, seen.stage),
                many => write!(f, "saw {} plans", many.len()),
            },
        }
    }
}
