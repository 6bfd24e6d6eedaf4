//! Commands: requests to change a plan, an action, a project or a rule. They carry everything a
//! decision needs that is not stored, such as new ids and judgements, so that repeating a decision
//! gives the same answer.

use crate::action::ActionDefinition;
use crate::changeset::{ChangesetEntry, Node, TreePath};
use crate::decision::ReportedDecision;
use crate::invariant::{RuleDraft, RuleName, RuleScope};
use crate::judgement::{GateJudgement, PlanTargets, RuleOutcome};
use crate::ledger::{BudgetAmount, GlobalBudget, MeteringLevel};
use crate::plan::{PlanLimits, ProfileSource};
use crate::project::{HostId, Resource, ResourceName, ResourcePlace};
use crate::stage::{ConstraintKind, FailureCategory, RefMove, ResultContent};
use crate::{
    ActorDefinition, ChangesetId, Digest, Epoch, LandingOptions, Phase, PlanActors, PlanId,
    Profile, QualifiedName, RepositoryPolicy, ResourceCommit, Span, Timestamp, Verb,
};

/// A request to the engine.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Store a new action.
    CreateAction(ActionDefinition),
    /// Archive an action. Existing plans are not affected.
    ArchiveAction(QualifiedName),
    /// Add a rule to a scope.
    AddRule {
        scope: RuleScope,
        draft: RuleDraft,
    },
    /// Remove a rule from its scope.
    RemoveRule {
        scope: RuleScope,
        name: RuleName,
    },
    /// Store a new project.
    CreateProject {
        name: QualifiedName,
        resources: Vec<Resource>,
    },
    /// Add a resource to a project.
    LinkResource {
        project: QualifiedName,
        resource: Resource,
    },
    /// Remove a resource from a project.
    UnlinkResource {
        project: QualifiedName,
        name: ResourceName,
        /// Remove it even if unfinished plans use the project.
        force: bool,
    },
    /// Change the location of a resource.
    RelinkResource {
        project: QualifiedName,
        name: ResourceName,
        host: HostId,
        place: ResourcePlace,
    },
    /// Stop a project's plans from starting work.
    PauseProject(QualifiedName),
    /// Let a paused project's plans start work again.
    ResumeProject(QualifiedName),
    /// Remove a project.
    DeleteProject {
        name: QualifiedName,
        /// Delete it even if unfinished plans use it.
        force: bool,
    },
    /// Create a plan from an action or a goal.
    Use(NewPlan),
    /// Claim a phase.
    Start {
        phase: Phase,
        /// Name of the holder.
        owner: String,
        /// Time until the lease expires unless it is renewed.
        lease: Span,
        /// Required for strategize only.
        judgement: Option<GateJudgement>,
    },
    /// Record that the sandboxes are ready, and their base commits.
    RecordBases {
        epoch: Epoch,
        /// One per resource.
        bases: Vec<ResourceCommit>,
    },
    /// Submit the strategy.
    CompleteStrategize {
        epoch: Epoch,
        decisions: Vec<ReportedDecision>,
    },
    /// Move a finished strategy into execute.
    ExecutePlan {
        judgement: GateJudgement,
    },
    /// Open a changeset.
    OpenChangeset {
        epoch: Epoch,
        id: ChangesetId,
        node: Node,
    },
    /// Record one change.
    RecordChange {
        epoch: Epoch,
        into: ChangesetSelector,
        entry: ChangesetEntry,
    },
    /// Seal a changeset. It cannot be reopened.
    SealChangeset {
        epoch: Epoch,
        changeset: ChangesetId,
    },
    /// Submit the result.
    CompleteExecute {
        epoch: Epoch,
        result: ResultContent,
        /// Changes as captured from the sandboxes.
        captured: Vec<CapturedNodeChanges>,
        /// Accept a result without changes.
        allow_empty: bool,
        /// A failing rule blocks apply, but not this command.
        judgement: GateJudgement,
    },
    /// Approve the result.
    Approve {
        options: LandingOptions,
        /// The plan's targets as the person who approves sees them.
        targets: PlanTargets,
        /// Valid only for the landing that the caller is about to start.
        once: bool,
    },
    /// Move a finished result into apply.
    ApplyPlan {
        judgement: GateJudgement,
    },
    /// Store the landing intent, before any target is changed.
    PrepareApply {
        epoch: Epoch,
        /// One move per changed resource.
        moves: Vec<RefMove>,
        /// Judgement of the merged tree.
        judgement: GateJudgement,
    },
    /// Withdraw the landing intent. The caller has checked that no target has the change.
    WithdrawApply {
        epoch: Epoch,
    },
    /// Record that everything landed.
    CompleteApply {
        epoch: Epoch,
        /// Resources whose target was read back and contains the new commit.
        landed: Vec<String>,
        /// A new plan for the part that does not land.
        rest: Option<LinkedPlan>,
    },
    /// Record that the result cannot land as it is.
    Constrain {
        epoch: Epoch,
        kind: ConstraintKind,
        message: String,
        paths: Vec<TreePath>,
        commits: Vec<String>,
    },
    /// Renew a lease.
    Renew {
        epoch: Epoch,
        /// Time from now until the lease expires.
        lease: Span,
    },
    /// Reserve budget for a holder before its run starts.
    Reserve {
        epoch: Epoch,
        /// What the actor reports about its usage.
        metering: MeteringLevel,
        /// Limits for all plans together.
        budget: GlobalBudget,
    },
    /// Charge a holder's usage. Repeating it changes nothing.
    Settle {
        /// The epoch under which it worked; may be an earlier one.
        epoch: Epoch,
        used: BudgetAmount,
    },
    /// Release a lease.
    Release {
        epoch: Epoch,
    },
    /// Take the lease from a holder that is gone.
    Reclaim {
        grounds: ReclaimGrounds,
    },
    /// End the run with an error.
    Fail {
        epoch: Epoch,
        category: FailureCategory,
        message: String,
    },
    /// Ask a person.
    Ask {
        epoch: Epoch,
        question: String,
        /// Time after which the question expires.
        answer_timeout: Option<Span>,
    },
    Answer {
        text: String,
    },
    /// Fail the phase because its question was not answered in time.
    ExpireQuestion,
    /// Retry the phase.
    Retry {
        /// Discard partial work and start over.
        fresh: bool,
        /// New limits; `None` keeps the current ones.
        limits: Option<PlanLimits>,
    },
    /// Send the work back to the actor with feedback.
    Revise {
        feedback: String,
        /// Paths to restore to their base version.
        dropped: Vec<TreePath>,
    },
    /// Go back to strategize.
    Revert {
        reason: String,
    },
    /// Waive a rule for this plan.
    Waive {
        rule: RuleName,
        reason: String,
        targets: PlanTargets,
    },
    /// Record a person's verdict on a rule that asks.
    RuleOn {
        rule: RuleName,
        /// Digest of what the person looked at.
        subject: Digest,
        outcome: RuleOutcome,
        targets: PlanTargets,
    },
    /// Store the verdicts of checks, and charge what running them used.
    KeepEvidence {
        judgement: GateJudgement,
        /// Usage of the actors that judged.
        used: BudgetAmount,
    },
    Cancel {
        reason: Option<String>,
    },
    /// Create a plan that undoes a landed one.
    Undo(LinkedPlan),
}

/// A plan to create from an action or a goal.
#[derive(Debug, Clone, PartialEq)]
pub struct NewPlan {
    pub id: PlanId,
    pub action: Option<QualifiedName>,
    /// Defaults to the action's description.
    pub goal: Option<String>,
    /// Arguments as `name=value` pairs, not yet parsed.
    pub arguments: Vec<(String, String)>,
    /// Actors to use if the action names none.
    pub fallback_actors: Option<PlanActors>,
    /// Actor definitions that the caller knows. Those of actors that do not work on the plan are
    /// dropped.
    pub definitions: Vec<ActorDefinition>,
    /// A person wants to review a strategy before execute.
    pub strategy_wanted: bool,
    /// Overrides the action's profile.
    pub profile: Option<(Profile, ProfileSource)>,
    /// Used if the action sets no profile.
    pub fallback_profile: Option<(Profile, ProfileSource)>,
    pub policy: RepositoryPolicy,
    /// Base commits that are already known.
    pub bases: Vec<ResourceCommit>,
    pub limits: PlanLimits,
    pub projects: Vec<QualifiedName>,
}

/// The changes of one unit of work, as captured from its sandbox.
#[derive(Debug, Clone, PartialEq)]
pub struct CapturedNodeChanges {
    /// Id of the changeset to open if the unit has none.
    pub changeset: ChangesetId,
    pub node: Node,
    /// One entry per path.
    pub entries: Vec<ChangesetEntry>,
}

/// A new plan that starts with a result and is linked to its origin.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkedPlan {
    pub id: PlanId,
    /// Names of its resources in the original plan.
    pub resources: Vec<String>,
    pub result: ResultContent,
}

/// Selects the changeset of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangesetSelector {
    Changeset(ChangesetId),
    /// The open changeset of this unit of work.
    Node(Node),
    /// The only open changeset. Refused if there are several.
    OnlyOpen,
}

/// Why a holder counts as gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReclaimGrounds {
    /// Its lease expired. Checked against the stored expiry.
    Expired,
    /// The process that holds this epoch is dead. Refused if another holder has claimed the plan
    /// since.
    OwnerDead(Epoch),
    /// The caller watched this lease for its whole length on a monotonic clock and saw no renewal.
    /// Refused if the stored expiry differs: then the lease was renewed.
    Unrenewed { epoch: Epoch, expires_at: Timestamp },
}

impl Command {
    /// Returns the kind of command, without its details.
    pub fn verb(&self) -> Verb {
        match self {
            Self::CreateAction(_) => Verb::CreateAction,
            Self::ArchiveAction(_) => Verb::ArchiveAction,
            Self::AddRule { .. } => Verb::AddRule,
            Self::RemoveRule { .. } => Verb::RemoveRule,
            Self::CreateProject { .. } => Verb::CreateProject,
            Self::LinkResource { .. } => Verb::LinkResource,
            Self::UnlinkResource { .. } => Verb::UnlinkResource,
            Self::RelinkResource { .. } => Verb::RelinkResource,
            Self::PauseProject(_) => Verb::PauseProject,
            Self::ResumeProject(_) => Verb::ResumeProject,
            Self::DeleteProject { .. } => Verb::DeleteProject,
            Self::Use(_) => Verb::Use,
            Self::Start {
                phase: Phase::Strategize,
                ..
            } => Verb::StartStrategize,
            Self::Start {
                phase: Phase::Execute,
                ..
            } => Verb::StartExecute,
            Self::Start {
                phase: Phase::Apply,
                ..
            } => Verb::StartApply,
            Self::RecordBases { .. } => Verb::RecordBases,
            Self::CompleteStrategize { .. } => Verb::CompleteStrategize,
            Self::ExecutePlan { .. } => Verb::ExecutePlan,
            Self::OpenChangeset { .. } => Verb::OpenChangeset,
            Self::RecordChange { .. } => Verb::RecordChange,
            Self::SealChangeset { .. } => Verb::SealChangeset,
            Self::CompleteExecute { .. } => Verb::CompleteExecute,
            Self::Approve { .. } => Verb::Approve,
            Self::ApplyPlan { .. } => Verb::ApplyPlan,
            Self::PrepareApply { .. } => Verb::PrepareApply,
            Self::WithdrawApply { .. } => Verb::WithdrawApply,
            Self::CompleteApply { .. } => Verb::CompleteApply,
            Self::Constrain { .. } => Verb::Constrain,
            Self::Renew { .. } => Verb::Renew,
            Self::Reserve { .. } => Verb::Reserve,
            Self::Settle { .. } => Verb::Settle,
            Self::Release { .. } => Verb::Release,
            Self::Reclaim { .. } => Verb::Reclaim,
            Self::Fail { .. } => Verb::Fail,
            Self::Ask { .. } => Verb::Ask,
            Self::Answer { .. } => Verb::Answer,
            Self::ExpireQuestion => Verb::ExpireQuestion,
            Self::Retry { .. } => Verb::Retry,
            Self::Revise { .. } => Verb::Revise,
            Self::Revert { .. } => Verb::Revert,
            Self::Waive { .. } => Verb::Waive,
            Self::RuleOn { .. } => Verb::RuleOn,
            Self::KeepEvidence { .. } => Verb::KeepEvidence,
            Self::Cancel { .. } => Verb::Cancel,
            Self::Undo(_) => Verb::Undo,
        }
    }

    /// Returns the epoch that the command claims, if it needs one.
    pub fn epoch(&self) -> Option<Epoch> {
        match self {
            Self::RecordBases { epoch, .. }
            | Self::CompleteStrategize { epoch, .. }
            | Self::OpenChangeset { epoch, .. }
            | Self::RecordChange { epoch, .. }
            | Self::SealChangeset { epoch, .. }
            | Self::CompleteExecute { epoch, .. }
            | Self::PrepareApply { epoch, .. }
            | Self::WithdrawApply { epoch }
            | Self::CompleteApply { epoch, .. }
            | Self::Constrain { epoch, .. }
            | Self::Renew { epoch, .. }
            | Self::Reserve { epoch, .. }
            | Self::Settle { epoch, .. }
            | Self::Release { epoch }
            | Self::Fail { epoch, .. }
            | Self::Ask { epoch, .. } => Some(*epoch),
            Self::CreateAction(_)
            | Self::ArchiveAction(_)
            | Self::AddRule { .. }
            | Self::RemoveRule { .. }
            | Self::CreateProject { .. }
            | Self::LinkResource { .. }
            | Self::UnlinkResource { .. }
            | Self::RelinkResource { .. }
            | Self::PauseProject(_)
            | Self::ResumeProject(_)
            | Self::DeleteProject { .. }
            | Self::Use(_)
            | Self::Start { .. }
            | Self::ExecutePlan { .. }
            | Self::Approve { .. }
            | Self::ApplyPlan { .. }
            | Self::Reclaim { .. }
            | Self::Answer { .. }
            | Self::ExpireQuestion
            | Self::Retry { .. }
            | Self::Revise { .. }
            | Self::Revert { .. }
            | Self::Waive { .. }
            | Self::RuleOn { .. }
            | Self::KeepEvidence { .. }
            | Self::Cancel { .. }
            | Self::Undo(_) => None,
        }
    }

    /// Returns the judgement, if the command carries one.
    pub(crate) fn judgement_mut(&mut self) -> Option<&mut GateJudgement> {
        match self {
            Self::Start { judgement, .. } => judgement.as_mut(),
            Self::ExecutePlan { judgement }
            | Self::KeepEvidence { judgement, .. }
            | Self::CompleteExecute { judgement, .. }
            | Self::ApplyPlan { judgement }
            | Self::PrepareApply { judgement, .. } => Some(judgement),
            Self::CreateAction(_)
            | Self::ArchiveAction(_)
            | Self::AddRule { .. }
            | Self::RemoveRule { .. }
            | Self::CreateProject { .. }
            | Self::LinkResource { .. }
            | Self::UnlinkResource { .. }
            | Self::RelinkResource { .. }
            | Self::PauseProject(_)
            | Self::ResumeProject(_)
            | Self::DeleteProject { .. }
            | Self::Use(_)
            | Self::RecordBases { .. }
            | Self::CompleteStrategize { .. }
            | Self::OpenChangeset { .. }
            | Self::RecordChange { .. }
            | Self::SealChangeset { .. }
            | Self::Approve { .. }
            | Self::WithdrawApply { .. }
            | Self::CompleteApply { .. }
            | Self::Constrain { .. }
            | Self::Renew { .. }
            | Self::Reserve { .. }
            | Self::Settle { .. }
            | Self::Release { .. }
            | Self::Reclaim { .. }
            | Self::Fail { .. }
            | Self::Ask { .. }
            | Self::Answer { .. }
            | Self::ExpireQuestion
            | Self::Retry { .. }
            | Self::Revise { .. }
            | Self::Revert { .. }
            | Self::Waive { .. }
            | Self::RuleOn { .. }
            | Self::Cancel { .. }
            | Self::Undo(_) => None,
        }
    }
}
