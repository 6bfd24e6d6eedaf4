//! The phase and state of a plan in one value. Each state carries its own data.
//!
//! Illegal pairs cannot be written: only strategize and execute can be `complete`, and only apply
//! can be `constrained`, `applied` or hold an intent. The lease expiry is not here but in its own
//! row, because a renewal is not an event.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::changeset::TreePath;
use crate::permission_question::PermissionQuestion;
use crate::{
    Caller, Digest, Epoch, ErasableText, LandingOptions, Phase, ResourceCommit, Timestamp,
};

/// The phase of a plan and its state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "phase", content = "state")]
pub enum PlanStage {
    Strategize(WorkState),
    Execute(WorkState),
    /// Landing the result.
    Apply(ApplyState),
}

/// States of strategize and execute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkState {
    /// Can be claimed.
    Queued(QueueEntry),
    /// A holder has the lease.
    Processing(LeaseHolder),
    /// Waits for a person's answer.
    AwaitingInput(PlanQuestion),
    /// The holder submitted its result.
    Complete,
    /// Stopped by an error; can be retried.
    Errored(PlanFailure),
    Cancelled(PlanEnding),
}

/// States of apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApplyState {
    /// Can be claimed. With an intent, only to finish or withdraw the landing.
    Queued(QueueEntry, Option<LandingIntent>),
    /// A holder has the lease. With an intent, the plan is past the point of no return.
    Processing(LeaseHolder, Option<LandingIntent>),
    /// Waits for a person's answer. With an intent, the question is what to do with a removed
    /// change.
    AwaitingInput(PlanQuestion, Option<LandingIntent>),
    /// Stopped by an error; can be retried. Targets are unchanged.
    Errored(PlanFailure),
    /// Cannot land as it is; can be retried. Targets are unchanged.
    Constrained(LandingConstraint),
    /// Every target has the change.
    Applied(PlanEnding),
    Cancelled(PlanEnding),
}

/// A plan's wait for a claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueEntry {
    pub since: Timestamp,
    /// Earliest claim by a worker, set by an automatic retry.
    pub retry_at: Option<Timestamp>,
}

impl QueueEntry {
    /// Returns the time from which a worker can claim the plan.
    pub fn due_at(&self) -> Timestamp {
        self.retry_at.unwrap_or(self.since)
    }
}

/// The holder of a plan's lease, as recorded in events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseHolder {
    /// Name that the holder gave itself.
    pub owner: String,
    pub epoch: Epoch,
    pub since: Timestamp,
    /// The last tool call of this run that a person was asked about, until the run ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission: Option<Box<PermissionQuestion>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanQuestion {
    pub text: ErasableText,
    /// The epoch of the holder that asked.
    pub epoch: Epoch,
    pub asked_at: Timestamp,
    /// Time at which the question expires. `None` waits forever.
    pub deadline: Option<Timestamp>,
}

/// Why a run failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanFailure {
    pub category: FailureCategory,
    /// Shown to people.
    pub message: ErasableText,
    pub epoch: Epoch,
    pub at: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureCategory {
    /// Network error or overload; worth a retry.
    Transient,
    Timeout,
    Actor,
    Strategy,
    /// A tool, repository or file is missing or unusable.
    Resource,
    Budget,
    /// A question expired without an answer.
    Unanswered,
    /// Workers died too often during the phase.
    Lost,
    /// A bug in Planwright.
    Internal,
}

impl FailureCategory {
    pub const ALL: [Self; 9] = [
        Self::Transient,
        Self::Timeout,
        Self::Actor,
        Self::Strategy,
        Self::Resource,
        Self::Budget,
        Self::Unanswered,
        Self::Lost,
        Self::Internal,
    ];

    /// Returns the name as typed and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::Timeout => "timeout",
            Self::Actor => "actor",
            Self::Strategy => "strategy",
            Self::Resource => "resource",
            Self::Budget => "budget",
            Self::Unanswered => "unanswered",
            Self::Lost => "lost",
            Self::Internal => "internal",
        }
    }

    /// Returns whether the engine may retry without a person.
    pub fn is_transient(self) -> bool {
        matches!(self, Self::Transient | Self::Timeout)
    }
}

impl fmt::Display for FailureCategory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for FailureCategory {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|category| category.as_str() == text)
            .ok_or_else(|| {
                let known: Vec<_> = Self::ALL.iter().map(|category| category.as_str()).collect();
                format!(
                    "`{text}` is not a category: use one of {}",
                    known.join(", ")
                )
            })
    }
}

/// The planned changes to the targets, stored before the first target changes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LandingIntent {
    /// One move per changed resource; empty for a plan without targets.
    pub moves: Vec<RefMove>,
    /// The person who confirmed that the change landed, although a target no longer has it.
    pub vouched: Option<Caller>,
}

/// The planned move of one target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefMove {
    /// Name of the plan's resource.
    pub resource: String,
    /// The ref to move.
    #[serde(rename = "ref")]
    pub target: String,
    /// Commit before the move.
    pub old: String,
    /// Commit after the move.
    pub new: String,
    /// The commit the result was merged with, if it is not `old`. A new branch points to nothing
    /// yet, and a working tree has no ref.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub onto: Option<String>,
}

impl RefMove {
    /// Returns the commit the result was merged with. The landed change is the difference from it.
    pub fn merge_parent(&self) -> &str {
        self.onto.as_deref().unwrap_or(&self.old)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LandingConstraint {
    pub kind: ConstraintKind,
    /// Shown to people.
    pub message: ErasableText,
    /// Affected paths.
    pub paths: Vec<TreePath>,
    /// Conflicting commits on the target.
    pub commits: Vec<String>,
    pub epoch: Epoch,
    pub at: Timestamp,
}

/// What prevents a landing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConstraintKind {
    /// The target changed the same lines.
    Conflict,
    Gate,
    /// The checkout has local edits in affected paths.
    LocalEdits,
    /// A git operation such as a rebase or bisect is in progress.
    OperationInProgress,
    /// The approved result differs from what would land.
    ApprovalVoid,
}

impl ConstraintKind {
    pub const ALL: [Self; 5] = [
        Self::Conflict,
        Self::Gate,
        Self::LocalEdits,
        Self::OperationInProgress,
        Self::ApprovalVoid,
    ];

    /// Returns the name as typed and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Conflict => "conflict",
            Self::Gate => "gate",
            Self::LocalEdits => "local_edits",
            Self::OperationInProgress => "operation_in_progress",
            Self::ApprovalVoid => "approval_void",
        }
    }
}

impl FromStr for ConstraintKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or_else(|| {
                let known: Vec<_> = Self::ALL.iter().map(|kind| kind.as_str()).collect();
                format!(
                    "`{text}` is not a kind of constraint: use one of {}",
                    known.join(", ")
                )
            })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanEnding {
    pub at: Timestamp,
    pub by: Caller,
    pub reason: Option<ErasableText>,
}

/// The result of an execute phase. An approval signs its digest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultContent {
    /// A summary, or the whole result of a plan that changes nothing.
    pub report: Option<ErasableText>,
    pub trees: Vec<ResultTree>,
}

impl ResultContent {
    /// Returns the digest that an approval signs for this result and these landing options.
    pub fn digest(&self, options: &LandingOptions) -> Digest {
        let parts = self.trees.iter().flat_map(|tree| {
            [&tree.resource, &tree.target, &tree.base, &tree.tree].map(String::as_bytes)
        });
        let encoded_options = (!options.is_default())
            .then(|| serde_json::to_vec(options).expect("BUG: landing options always encode"));
        Digest::hash_parts(parts.chain(encoded_options.as_deref()))
    }

    /// Returns why only a person can land the result, under any profile.
    pub fn manual_landing_reason(&self) -> Option<ManualLandingReason> {
        let any = |matches: fn(&ResultTree) -> bool| self.trees.iter().any(matches);
        if any(|tree| !tree.ignored.forced.is_empty()) {
            return Some(ManualLandingReason::IgnoredFiles);
        }
        any(|tree| tree.changes_settings).then_some(ManualLandingReason::Settings)
    }

    /// Returns whether no tree changed. A tree whose changes were not counted counts as changed.
    pub fn is_empty(&self) -> bool {
        self.trees.iter().all(|tree| tree.changes == Some(0))
    }
}

/// The result for one resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultTree {
    /// Name of the plan's resource.
    pub resource: String,
    /// The ref it lands on.
    pub target: String,
    pub base: String,
    /// Id of the resulting git tree.
    pub tree: String,
    /// Number of changed paths, if counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<u64>,
    #[serde(default, skip_serializing_if = "IgnoredPaths::is_empty")]
    pub ignored: IgnoredPaths,
    /// The result changes `planwright.yaml` or `.worktreeinclude`, which control later plans.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changes_settings: bool,
}

/// What a pick left out, to become a plan of its own when the picked part has landed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnpickedRest {
    /// The result with everything that is to land sooner or later.
    pub whole: Vec<ResultTree>,
    /// The picked part of it.
    pub picked: Vec<ResultTree>,
}

impl UnpickedRest {
    /// Returns the whole result of a resource, if something was left out of it.
    pub fn whole_of(&self, resource: &str) -> Option<&ResultTree> {
        let whole = self.whole.iter().find(|tree| tree.resource == resource)?;
        (self.picked_of(resource)?.tree != whole.tree).then_some(whole)
    }

    /// Returns the picked part of a resource's result.
    pub fn picked_of(&self, resource: &str) -> Option<&ResultTree> {
        self.picked.iter().find(|tree| tree.resource == resource)
    }
}

/// Why only a person can land a result, under any profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ManualLandingReason {
    /// The agent added files that an ignore rule matches.
    IgnoredFiles,
    /// The result changes the repository's settings: commands, copied files, rules, profile or
    /// limits. An agent that changes them without review could decide what later plans may do.
    Settings,
}

impl fmt::Display for ManualLandingReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::IgnoredFiles => "ignored files that an agent added",
            Self::Settings => "changes to planwright.yaml or .worktreeinclude",
        })
    }
}

/// Ignored files found when a result was captured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IgnoredPaths {
    /// In the result, because the agent committed or staged them. Only a person can land them.
    #[serde(default, skip_serializing_if = "PathSummary::is_empty")]
    pub forced: PathSummary,
    /// Not in the result, although the agent added them: they existed before the run.
    #[serde(default, skip_serializing_if = "PathSummary::is_empty")]
    pub withheld: PathSummary,
    /// Created by the agent and left out of the result.
    #[serde(default, skip_serializing_if = "PathSummary::is_empty")]
    pub left_out: PathSummary,
}

impl IgnoredPaths {
    pub fn is_empty(&self) -> bool {
        self.forced.is_empty() && self.withheld.is_empty() && self.left_out.is_empty()
    }
}

/// A count of paths, with the first few for display.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathSummary {
    /// The total, including paths not in `names`.
    pub count: u64,
    /// At most 20 paths, each cut to 200 characters.
    pub names: Vec<String>,
}

impl PathSummary {
    const MAX_NAMES: usize = 20;
    const MAX_NAME_CHARS: usize = 200;

    pub fn from_paths<P: fmt::Display>(paths: &[P]) -> Self {
        let names = paths.iter().take(Self::MAX_NAMES);
        let names = names.map(|path| {
            path.to_string()
                .chars()
                .take(Self::MAX_NAME_CHARS)
                .collect()
        });
        Self {
            count: paths.len() as u64,
            names: names.collect(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl fmt::Display for PathSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names.join(", "))?;
        match self.count.saturating_sub(self.names.len() as u64) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

impl ResultTree {
    /// Returns the base as a resource commit.
    pub fn base_commit(&self) -> ResourceCommit {
        ResourceCommit {
            resource: self.resource.clone(),
            commit: self.base.clone(),
        }
    }
}

/// State names, used in filters and JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StateName {
    /// Can be claimed.
    Queued,
    /// A holder has the lease.
    Processing,
    /// Waits for a person's answer.
    AwaitingInput,
    /// The holder submitted its result.
    Complete,
    /// Stopped by an error; can be retried.
    Errored,
    Constrained,
    Applied,
    Cancelled,
}

impl StateName {
    pub const ALL: [Self; 8] = [
        Self::Queued,
        Self::Processing,
        Self::AwaitingInput,
        Self::Complete,
        Self::Errored,
        Self::Constrained,
        Self::Applied,
        Self::Cancelled,
    ];

    /// Returns the name as stored and shown in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Processing => "processing",
            Self::AwaitingInput => "awaiting_input",
            Self::Complete => "complete",
            Self::Errored => "errored",
            Self::Constrained => "constrained",
            Self::Applied => "applied",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for StateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for StateName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or_else(|| {
                let known: Vec<_> = Self::ALL.iter().map(|state| state.as_str()).collect();
                format!("`{text}` is not a state: use one of {}", known.join(", "))
            })
    }
}

impl PlanStage {
    /// Returns the queued state of a phase that was just entered.
    pub fn queued_since(phase: Phase, since: Timestamp) -> Self {
        let queued = QueueEntry {
            since,
            retry_at: None,
        };
        Self::queued_with_intent(phase, queued, None)
    }

    /// Returns the queued state of a phase. Only apply uses the intent.
    pub fn queued_with_intent(
        phase: Phase,
        queued: QueueEntry,
        intent: Option<LandingIntent>,
    ) -> Self {
        match phase {
            Phase::Strategize => Self::Strategize(WorkState::Queued(queued)),
            Phase::Execute => Self::Execute(WorkState::Queued(queued)),
            Phase::Apply => Self::Apply(ApplyState::Queued(queued, intent)),
        }
    }

    pub fn phase(&self) -> Phase {
        match self {
            Self::Strategize(_) => Phase::Strategize,
            Self::Execute(_) => Phase::Execute,
            Self::Apply(_) => Phase::Apply,
        }
    }

    pub fn state_name(&self) -> StateName {
        match self {
            Self::Strategize(work) | Self::Execute(work) => match work {
                WorkState::Queued(_) => StateName::Queued,
                WorkState::Processing(_) => StateName::Processing,
                WorkState::AwaitingInput(_) => StateName::AwaitingInput,
                WorkState::Complete => StateName::Complete,
                WorkState::Errored(_) => StateName::Errored,
                WorkState::Cancelled(_) => StateName::Cancelled,
            },
            Self::Apply(landing) => match landing {
                ApplyState::Queued(..) => StateName::Queued,
                ApplyState::Processing(..) => StateName::Processing,
                ApplyState::AwaitingInput(..) => StateName::AwaitingInput,
                ApplyState::Errored(_) => StateName::Errored,
                ApplyState::Constrained(_) => StateName::Constrained,
                ApplyState::Applied(_) => StateName::Applied,
                ApplyState::Cancelled(_) => StateName::Cancelled,
            },
        }
    }

    /// Returns the holder while the plan is `processing`.
    pub fn holder(&self) -> Option<&LeaseHolder> {
        match self {
            Self::Strategize(WorkState::Processing(holder))
            | Self::Execute(WorkState::Processing(holder))
            | Self::Apply(ApplyState::Processing(holder, _)) => Some(holder),
            Self::Strategize(_) | Self::Execute(_) | Self::Apply(_) => None,
        }
    }

    pub(crate) fn holder_mut(&mut self) -> Option<&mut LeaseHolder> {
        match self {
            Self::Strategize(WorkState::Processing(holder))
            | Self::Execute(WorkState::Processing(holder))
            | Self::Apply(ApplyState::Processing(holder, _)) => Some(holder),
            Self::Strategize(_) | Self::Execute(_) | Self::Apply(_) => None,
        }
    }

    /// Returns the question about a tool call that waits for a person while an agent works.
    pub fn open_permission(&self) -> Option<&PermissionQuestion> {
        let asked = self.holder()?.permission.as_deref();
        asked.filter(|question| question.answer.is_none())
    }

    /// Returns the queue entry while the plan is `queued`.
    pub fn queue_entry(&self) -> Option<&QueueEntry> {
        match self {
            Self::Strategize(WorkState::Queued(queued))
            | Self::Execute(WorkState::Queued(queued))
            | Self::Apply(ApplyState::Queued(queued, _)) => Some(queued),
            Self::Strategize(_) | Self::Execute(_) | Self::Apply(_) => None,
        }
    }

    /// Returns the question while the plan is `awaiting_input`.
    pub fn question(&self) -> Option<&PlanQuestion> {
        match self {
            Self::Strategize(WorkState::AwaitingInput(question))
            | Self::Execute(WorkState::AwaitingInput(question))
            | Self::Apply(ApplyState::AwaitingInput(question, _)) => Some(question),
            Self::Strategize(_) | Self::Execute(_) | Self::Apply(_) => None,
        }
    }

    /// Returns the failure while the plan is `errored`.
    pub fn failure(&self) -> Option<&PlanFailure> {
        match self {
            Self::Strategize(WorkState::Errored(failure))
            | Self::Execute(WorkState::Errored(failure))
            | Self::Apply(ApplyState::Errored(failure)) => Some(failure),
            Self::Strategize(_) | Self::Execute(_) | Self::Apply(_) => None,
        }
    }

    /// Returns the landing intent. It is set from prepare until landing or withdrawal: while it is
    /// set, the plan is past the point of no return.
    pub fn intent(&self) -> Option<&LandingIntent> {
        match self {
            Self::Apply(
                ApplyState::Queued(_, intent)
                | ApplyState::Processing(_, intent)
                | ApplyState::AwaitingInput(_, intent),
            ) => intent.as_ref(),
            Self::Apply(
                ApplyState::Errored(_)
                | ApplyState::Constrained(_)
                | ApplyState::Applied(_)
                | ApplyState::Cancelled(_),
            )
            | Self::Strategize(_)
            | Self::Execute(_) => None,
        }
    }

    /// Returns how the plan ended. A plan with an ending never changes again.
    pub fn ending(&self) -> Option<&PlanEnding> {
        match self {
            Self::Strategize(WorkState::Cancelled(ending))
            | Self::Execute(WorkState::Cancelled(ending))
            | Self::Apply(ApplyState::Cancelled(ending) | ApplyState::Applied(ending)) => {
                Some(ending)
            }
            Self::Strategize(_) | Self::Execute(_) | Self::Apply(_) => None,
        }
    }

    pub fn is_final(&self) -> bool {
        self.ending().is_some()
    }
}

impl fmt::Display for PlanStage {
    /// Writes for example `execute/queued`. A stored intent shows as `, prepared`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prepared = if self.intent().is_some() {
            ", prepared"
        } else {
            ""
        };
        f.pad(&format!("{}/{}{prepared}", self.phase(), self.state_name()))
    }
}
