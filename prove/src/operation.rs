//! The calls that clients make and the answers they get, as serializable values.

use std::fmt;
use std::str::FromStr;

use plan::{ChangesetId, Phase, PlanId};
use serde::{Deserialize, Serialize};

/// Identifies one call of one client. The client also uses it as its caller name, so that every event names the call
/// that wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct CallId {
    pub client: u32,
    /// How often the client was killed and restarted before.
    pub incarnation: u32,
    /// The number of the call within the incarnation.
    pub number: u32,
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}.{}.{}", self.client, self.incarnation, self.number)
    }
}

impl FromStr for CallId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let mut parts = text.strip_prefix('p')?.split('.');
            let mut next = || parts.next()?.parse().ok();
            Some(Self {
                client: next()?,
                incarnation: next()?,
                number: next()?,
            })
        };
        parse().ok_or_else(|| format!("`{text}` is not a call id"))
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

/// A call as a client makes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientCall {
    pub id: CallId,
    /// Made through the `planwright` program, not the library.
    pub through_program: bool,
    /// Made as a person, not as a worker.
    pub by_person: bool,
    /// The idempotency key: the id of the first call with this key.
    pub key: Option<String>,
    pub operation: Operation,
}

impl ClientCall {
    /// The text used for the messages and paths of the call. A repeated call has the label of the first one.
    pub fn label(&self) -> String {
        match &self.key {
            Some(key) => key.clone(),
            None => self.id.to_string(),
        }
    }
}

/// An operation of the engine, with its arguments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    Use,
    /// Creates and claims a plan in one commit.
    UseAndStart {
        lease_ms: u32,
    },
    Start {
        plan_id: PlanId,
        phase: Phase,
        lease_ms: u32,
    },
    Complete {
        plan_id: PlanId,
        phase: Phase,
        epoch: u64,
    },
    ExecutePlan {
        plan_id: PlanId,
    },
    ApplyPlan {
        plan_id: PlanId,
    },
    Approve {
        plan_id: PlanId,
    },
    PrepareApply {
        plan_id: PlanId,
        epoch: u64,
    },
    WithdrawApply {
        plan_id: PlanId,
        epoch: u64,
    },
    Constrain {
        plan_id: PlanId,
        epoch: u64,
    },
    Renew {
        plan_id: PlanId,
        epoch: u64,
        lease_ms: u32,
    },
    Release {
        plan_id: PlanId,
        epoch: u64,
    },
    Reclaim {
        plan_id: PlanId,
    },
    Fail {
        plan_id: PlanId,
        epoch: u64,
        transient: bool,
    },
    Ask {
        plan_id: PlanId,
        epoch: u64,
        timeout_ms: Option<u32>,
    },
    Answer {
        plan_id: PlanId,
    },
    ExpireQuestion {
        plan_id: PlanId,
    },
    Retry {
        plan_id: PlanId,
    },
    Revise {
        plan_id: PlanId,
    },
    Revert {
        plan_id: PlanId,
    },
    Cancel {
        plan_id: PlanId,
    },
    OpenChangeset {
        plan_id: PlanId,
        epoch: u64,
        node: String,
    },
    /// Records a change to the path that equals the call's label.
    RecordChange {
        plan_id: PlanId,
        epoch: u64,
        node: String,
    },
    SealChangeset {
        plan_id: PlanId,
        epoch: u64,
        changeset: ChangesetId,
    },
    AddRule {
        plan_id: PlanId,
        rule: String,
        holds: bool,
    },
    RemoveRule {
        plan_id: PlanId,
        rule: String,
    },
    Show {
        plan_id: PlanId,
    },
    List,
}

impl Operation {
    /// The plan it refers to.
    pub fn plan_id(&self) -> Option<PlanId> {
        match self {
            Self::Use | Self::UseAndStart { .. } | Self::List => None,
            Self::Start { plan_id, .. }
            | Self::Complete { plan_id, .. }
            | Self::ExecutePlan { plan_id }
            | Self::ApplyPlan { plan_id }
            | Self::Approve { plan_id }
            | Self::PrepareApply { plan_id, .. }
            | Self::WithdrawApply { plan_id, .. }
            | Self::Constrain { plan_id, .. }
            | Self::Renew { plan_id, .. }
            | Self::Release { plan_id, .. }
            | Self::Reclaim { plan_id }
            | Self::Fail { plan_id, .. }
            | Self::Ask { plan_id, .. }
            | Self::Answer { plan_id }
            | Self::ExpireQuestion { plan_id }
            | Self::Retry { plan_id }
            | Self::Revise { plan_id }
            | Self::Revert { plan_id }
            | Self::Cancel { plan_id }
            | Self::OpenChangeset { plan_id, .. }
            | Self::RecordChange { plan_id, .. }
            | Self::SealChangeset { plan_id, .. }
            | Self::AddRule { plan_id, .. }
            | Self::RemoveRule { plan_id, .. }
            | Self::Show { plan_id } => Some(*plan_id),
        }
    }

    /// The lease epoch it is submitted with.
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
            | Self::Show { .. }
            | Self::List => None,
        }
    }

    /// Whether it writes an event if it succeeds. The other operations read, or write rows other than the plan.
    pub fn writes_event(&self) -> bool {
        !matches!(
            self,
            Self::Renew { .. }
                | Self::OpenChangeset { .. }
                | Self::RecordChange { .. }
                | Self::AddRule { .. }
                | Self::RemoveRule { .. }
                | Self::Show { .. }
                | Self::List
        )
    }

    /// The name it is counted and displayed under.
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
            Self::Show { .. } => "show",
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

/// The answer to a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallAnswer {
    Done(CallReceipt),
    /// A rule blocked the call; nothing was written.
    Blocked,
    /// The engine refused the call in the plan's current state; nothing was written.
    Refused(CallRefusal),
    /// The store failed and reports that nothing was written.
    Failed(String),
    /// The store failed and does not know whether the commit succeeded.
    Unknown(String),
    /// The plans that a read returned.
    Observed(Vec<ObservedPlan>),
}

/// What a successful call returned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallReceipt {
    /// The plan that was changed or created.
    pub plan_id: Option<PlanId>,
    /// The plan's version after the call.
    pub version: Option<u64>,
    /// The epoch of the lease that was granted.
    pub epoch: Option<u64>,
    /// The changeset that was opened or written to.
    pub changeset: Option<ChangesetId>,
    /// An earlier call by this caller or with this key had already taken effect.
    pub repeated: bool,
}

/// Why a call was refused, and what the refusal says about the plan at that time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRefusal {
    pub reason: String,
    /// The lease epoch was no longer valid.
    pub fenced: bool,
    /// The plan did not exist.
    pub plan_missing: bool,
    /// The plan's stage, if that was the reason.
    pub stage: Option<String>,
    /// The plan's epoch, if that was the reason.
    pub epoch: Option<u64>,
}

/// A plan as a read returned it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedPlan {
    pub plan_id: PlanId,
    pub version: u64,
    /// Phase and state.
    pub stage: String,
    /// The plan's epoch, if the output contains it.
    pub epoch: Option<u64>,
    /// The epoch of the stored lease, if the output contains it.
    pub lease: Option<Option<u64>>,
}

impl fmt::Display for CallAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done(receipt) => {
                f.write_str(if receipt.repeated {
                    "already done"
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
            Self::Refused(refusal) => write!(f, "refused: {}", refusal.reason),
            Self::Failed(error) => write!(f, "failed, nothing written: {error}"),
            Self::Unknown(error) => write!(f, "outcome unknown: {error}"),
            Self::Observed(plans) => match plans.as_slice() {
                [] => f.write_str("no plans"),
                [plan] => write!(f, "version {}, {}", plan.version, plan.stage),
                many => write!(f, "{} plans", many.len()),
            },
        }
    }
}
