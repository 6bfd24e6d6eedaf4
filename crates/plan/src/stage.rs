//! Where a plan stands: phase and state in one value, each state carrying what exists in it.
//!
//! The shape makes illegal pairs unwritable: only strategize and execute can be `complete`, only
//! apply can be `constrained`, `applied` or hold an intent. When a lease expires is not here but in
//! a row of its own, because a renewal is not an event.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::changeset::TreePath;
use crate::{
    Caller, Digest, Epoch, ErasableText, LandingOptions, Phase, ResourceCommit, Timestamp,
};

/// Phase and state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "phase", content = "state")]
pub enum PlanStage {
    /// Deciding what to do.
    Strategize(WorkState),
    /// Doing it.
    Execute(WorkState),
    /// Bringing it in.
    Apply(ApplyState),
}

/// States of strategize and execute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkState {
    /// May be claimed.
    Queued(QueueEntry),
    /// One holder works.
    Processing(LeaseHolder),
    /// A person must answer.
    AwaitingInput(PlanQuestion),
    /// The result is in.
    Complete,
    /// Halted, recoverable.
    Errored(PlanFailure),
    /// Final.
    Cancelled(PlanEnding),
}

/// States of apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApplyState {
    /// May be claimed; with an intent, only to resolve it.
    Queued(QueueEntry, Option<LandingIntent>),
    /// One holder works; with an intent, past the point of no return.
    Processing(LeaseHolder, Option<LandingIntent>),
    /// A person must answer; with an intent, what became of the change.
    AwaitingInput(PlanQuestion, Option<LandingIntent>),
    /// Halted, recoverable, targets untouched.
    Errored(PlanFailure),
    /// Cannot land as it is; recoverable, targets untouched.
    Constrained(LandingConstraint),
    /// Final: every target has the change.
    Applied(PlanEnding),
    /// Final.
    Cancelled(PlanEnding),
}

/// Waiting to be claimed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueEntry {
    /// Since when.
    pub since: Timestamp,
    /// Not before, after an automatic retry.
    pub retry_at: Option<Timestamp>,
}

impl QueueEntry {
    /// The moment from which it may be claimed.
    pub fn due_at(&self) -> Timestamp {
        self.retry_at.unwrap_or(self.since)
    }
}

/// The one that works, as the events know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseHolder {
    /// The name the holder gave itself.
    pub owner: String,
    /// Its authority.
    pub epoch: Epoch,
    /// Since when.
    pub since: Timestamp,
}

/// A question to a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanQuestion {
    /// What is asked.
    pub text: ErasableText,
    /// By which epoch.
    pub epoch: Epoch,
    /// When.
    pub asked_at: Timestamp,
    /// Given up at this moment if nobody answered.
    pub deadline: Option<Timestamp>,
}

/// Why work halted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanFailure {
    /// What sort of failure.
    pub category: FailureCategory,
    /// What happened, for people.
    pub message: ErasableText,
    /// Under which epoch.
    pub epoch: Epoch,
    /// When.
    pub at: Timestamp,
}

/// Sorts of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureCategory {
    /// Passing: network, overload; worth trying again.
    Transient,
    /// It took too long.
    Timeout,
    /// The agent itself failed.
    Actor,
    /// The strategy cannot work.
    Strategy,
    /// A tool, repository or file is not as needed.
    Resource,
    /// A limit on money, tokens, time or attempts was reached.
    Budget,
    /// Nobody answered in time.
    Unanswered,
    /// Its workers vanished too often.
    Lost,
    /// A defect of Planwright.
    Internal,
}

impl FailureCategory {
    /// Every category.
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

    /// As it is typed and shown.
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

    /// Is the same strategy worth another try without a person?
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

    fn from_str(given: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|category| category.as_str() == given)
            .ok_or_else(|| {
                let known: Vec<_> = Self::ALL.iter().map(|category| category.as_str()).collect();
                format!("`{given}` is no category: use one of {}", known.join(", "))
            })
    }
}

/// What is about to be done to the targets, stored before it is done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LandingIntent {
    /// One move per resource; none for a plan without resources.
    pub moves: Vec<RefMove>,
    /// A person's word that the change landed although a target no longer shows it.
    pub vouched: Option<Caller>,
}

/// One target's move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefMove {
    /// The plan's resource.
    pub resource: String,
    /// The target.
    #[serde(rename = "ref")]
    pub target: String,
    /// What it points to before.
    pub old: String,
    /// What it shall point to.
    pub new: String,
    /// The commit the result was merged with, where that is not `old`: a new branch points to nothing yet,
    /// and a working tree has no ref.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub onto: Option<String>,
}

impl RefMove {
    /// The commit the result was merged with: what it changes is what differs from that.
    pub fn merge_parent(&self) -> &str {
        self.onto.as_deref().unwrap_or(&self.old)
    }
}

/// Why a result cannot land as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LandingConstraint {
    /// What sort of obstacle.
    pub kind: ConstraintKind,
    /// What happened, for people.
    pub message: ErasableText,
    /// The paths concerned.
    pub paths: Vec<TreePath>,
    /// The commits concerned.
    pub commits: Vec<String>,
    /// Under which epoch.
    pub epoch: Epoch,
    /// When.
    pub at: Timestamp,
}

/// Sorts of obstacle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConstraintKind {
    /// Somebody else changed the same lines.
    Conflict,
    /// A rule fails on the merged tree.
    Gate,
    /// The person has local edits in affected paths.
    LocalEdits,
    /// A rebase, bisect or the like is in progress.
    OperationInProgress,
    /// What was approved is not what would land.
    ApprovalVoid,
}

impl ConstraintKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [
        Self::Conflict,
        Self::Gate,
        Self::LocalEdits,
        Self::OperationInProgress,
        Self::ApprovalVoid,
    ];

    /// As it is typed and shown.
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

    fn from_str(given: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == given)
            .ok_or_else(|| {
                let known: Vec<_> = Self::ALL.iter().map(|kind| kind.as_str()).collect();
                format!(
                    "`{given}` is no kind of constraint: use one of {}",
                    known.join(", ")
                )
            })
    }
}

/// How a plan ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanEnding {
    /// When.
    pub at: Timestamp,
    /// By whom.
    pub by: Caller,
    /// Why, where somebody said so.
    pub reason: Option<ErasableText>,
}

/// What a finished execute left: the content an approval signs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultContent {
    /// The report of a plan that changes nothing, or a summary.
    pub report: Option<ErasableText>,
    /// One per resource.
    pub trees: Vec<ResultTree>,
}

impl ResultContent {
    /// What an approval of this content signs, arriving like this.
    pub fn digest(&self, options: &LandingOptions) -> Digest {
        let parts = self.trees.iter().flat_map(|tree| {
            [&tree.resource, &tree.target, &tree.base, &tree.tree].map(String::as_bytes)
        });
        let encoded_options = (!options.is_default())
            .then(|| serde_json::to_vec(options).expect("BUG: how to land always encodes"));
        Digest::hash_parts(parts.chain(encoded_options.as_deref()))
    }

    /// Why no profile lands it, and a person has to.
    pub fn manual_landing_reason(&self) -> Option<ManualLandingReason> {
        let any = |is_so: fn(&ResultTree) -> bool| self.trees.iter().any(is_so);
        if any(|tree| !tree.ignored.forced.is_empty()) {
            return Some(ManualLandingReason::IgnoredFiles);
        }
        any(|tree| tree.changes_settings).then_some(ManualLandingReason::Settings)
    }

    /// Did the work change nothing, as far as that is known?
    pub fn is_empty(&self) -> bool {
        self.trees.iter().all(|tree| tree.changes == Some(0))
    }
}

/// The result on one resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultTree {
    /// The plan's resource.
    pub resource: String,
    /// The ref it shall land on.
    pub target: String,
    /// The commit it starts from.
    pub base: String,
    /// The tree it ends in.
    pub tree: String,
    /// How many paths differ, where somebody counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<u64>,
    /// What became of files that git ignores.
    #[serde(default, skip_serializing_if = "IgnoredPaths::is_empty")]
    pub ignored: IgnoredPaths,
    /// It changes how plans work on the repository from now on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changes_settings: bool,
}

/// What of a result only a person lands, whatever the profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ManualLandingReason {
    /// Files that an ignore rule matches, and that the agent added all the same.
    IgnoredFiles,
    /// What a repository says about plans: commands, copied files, rules, profile, limits. An agent that could change
    /// them unasked would decide what later plans may do.
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

/// Files that git ignores, by what became of them when a result was captured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IgnoredPaths {
    /// In the result: the agent committed or staged them in its own repository. Only a person can land them.
    #[serde(default, skip_serializing_if = "PathSummary::is_empty")]
    pub forced: PathSummary,
    /// Wanted in the result by the agent, and not in it: they were there before it began.
    #[serde(default, skip_serializing_if = "PathSummary::is_empty")]
    pub withheld: PathSummary,
    /// Made by the agent and not in the result.
    #[serde(default, skip_serializing_if = "PathSummary::is_empty")]
    pub left_out: PathSummary,
}

impl IgnoredPaths {
    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.forced.is_empty() && self.withheld.is_empty() && self.left_out.is_empty()
    }
}

/// How many paths there are, and the first of them as people are shown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathSummary {
    /// How many.
    pub count: u64,
    /// The first of them.
    pub names: Vec<String>,
}

impl PathSummary {
    const MAX_NAMES: usize = 20;
    const MAX_NAME_CHARS: usize = 200;

    /// Of these paths.
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

    /// There are none.
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
    /// What work on its resource starts from.
    pub fn base_commit(&self) -> ResourceCommit {
        ResourceCommit {
            resource: self.resource.clone(),
            commit: self.base.clone(),
        }
    }
}

/// The names of states, as they are filtered for and shown to programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StateName {
    /// May be claimed.
    Queued,
    /// One holder works.
    Processing,
    /// A person must answer.
    AwaitingInput,
    /// The result is in.
    Complete,
    /// Halted, recoverable.
    Errored,
    /// Cannot land as it is.
    Constrained,
    /// Landed.
    Applied,
    /// Ended without landing.
    Cancelled,
}

impl StateName {
    /// Every state.
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

    /// As it is stored and shown to programs.
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

    fn from_str(given: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|state| state.as_str() == given)
            .ok_or_else(|| {
                let known: Vec<_> = Self::ALL.iter().map(|state| state.as_str()).collect();
                format!("`{given}` is no state: use one of {}", known.join(", "))
            })
    }
}

impl PlanStage {
    /// A freshly entered phase.
    pub fn queued_since(phase: Phase, since: Timestamp) -> Self {
        let queued = QueueEntry {
            since,
            retry_at: None,
        };
        Self::queued_with_intent(phase, queued, None)
    }

    /// A phase waiting to be claimed; the intent only counts in apply.
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

    /// The phase.
    pub fn phase(&self) -> Phase {
        match self {
            Self::Strategize(_) => Phase::Strategize,
            Self::Execute(_) => Phase::Execute,
            Self::Apply(_) => Phase::Apply,
        }
    }

    /// The state, by name.
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

    /// The holder, while somebody works.
    pub fn holder(&self) -> Option<&LeaseHolder> {
        match self {
            Self::Strategize(WorkState::Processing(holder))
            | Self::Execute(WorkState::Processing(holder))
            | Self::Apply(ApplyState::Processing(holder, _)) => Some(holder),
            Self::Strategize(_) | Self::Execute(_) | Self::Apply(_) => None,
        }
    }

    /// The waiting, while it may be claimed.
    pub fn queue_entry(&self) -> Option<&QueueEntry> {
        match self {
            Self::Strategize(WorkState::Queued(queued))
            | Self::Execute(WorkState::Queued(queued))
            | Self::Apply(ApplyState::Queued(queued, _)) => Some(queued),
            Self::Strategize(_) | Self::Execute(_) | Self::Apply(_) => None,
        }
    }

    /// The question, while a person must answer.
    pub fn question(&self) -> Option<&PlanQuestion> {
        match self {
            Self::Strategize(WorkState::AwaitingInput(question))
            | Self::Execute(WorkState::AwaitingInput(question))
            | Self::Apply(ApplyState::AwaitingInput(question, _)) => Some(question),
            Self::Strategize(_) | Self::Execute(_) | Self::Apply(_) => None,
        }
    }

    /// The failure, while halted by one.
    pub fn failure(&self) -> Option<&PlanFailure> {
        match self {
            Self::Strategize(WorkState::Errored(failure))
            | Self::Execute(WorkState::Errored(failure))
            | Self::Apply(ApplyState::Errored(failure)) => Some(failure),
            Self::Strategize(_) | Self::Execute(_) | Self::Apply(_) => None,
        }
    }

    /// The intent: set from prepare to landing or withdrawal, the point of no return.
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

    /// How it ended, once it did. Final is final.
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

    /// Nothing can happen to it any more.
    pub fn is_final(&self) -> bool {
        self.ending().is_some()
    }
}

impl fmt::Display for PlanStage {
    /// As in `execute/queued`; a stored intent shows as `, prepared`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prepared = if self.intent().is_some() {
            ", prepared"
        } else {
            ""
        };
        f.pad(&format!("{}/{}{prepared}", self.phase(), self.state_name()))
    }
}
