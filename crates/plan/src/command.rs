//! Commands: what is asked of the engine, with everything a decision needs that is not a stored
//! fact. New ids and judgements come in here, so that deciding again gives the same answer.

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

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Store a new action.
    CreateAction(ActionDefinition),
    /// Take an action out of use.
    ArchiveAction(QualifiedName),
    /// Add a rule to a scope.
    AddRule {
        /// Where it shall hold.
        scope: RuleScope,
        /// What it says.
        draft: RuleDraft,
    },
    /// Remove a rule from its scope.
    RemoveRule {
        /// Where it holds.
        scope: RuleScope,
        /// Its name.
        name: RuleName,
    },
    /// Store a new project.
    CreateProject {
        /// Its name.
        name: QualifiedName,
        /// What its plans work on.
        resources: Vec<Resource>,
    },
    /// Add a resource to a project.
    LinkResource {
        /// Which project.
        project: QualifiedName,
        /// What to add.
        resource: Resource,
    },
    /// Take a resource from a project.
    UnlinkResource {
        /// Which project.
        project: QualifiedName,
        /// Which of its resources.
        name: ResourceName,
        /// Even if living plans use the project.
        force: bool,
    },
    /// Say where a resource lies now.
    RelinkResource {
        /// Which project.
        project: QualifiedName,
        /// Which of its resources.
        name: ResourceName,
        /// The host it lies on.
        host: HostId,
        /// Where it lies there.
        place: ResourcePlace,
    },
    /// Keep a project's plans from starting to work.
    PauseProject(QualifiedName),
    /// Let a project's plans start again.
    ResumeProject(QualifiedName),
    /// Remove a project.
    DeleteProject {
        /// Its name.
        name: QualifiedName,
        /// Even if living plans use it.
        force: bool,
    },
    /// Make a plan.
    Use(NewPlan),
    /// Claim a phase.
    Start {
        /// Which.
        phase: Phase,
        /// Who claims it.
        owner: String,
        /// For how long without a renewal.
        lease: Span,
        /// What the rules say; asked for strategize only.
        judgement: Option<GateJudgement>,
    },
    /// Say that the sandboxes are ready, and what they start from.
    RecordBases {
        /// The authority.
        epoch: Epoch,
        /// One per resource.
        bases: Vec<ResourceCommit>,
    },
    /// Hand in the strategy.
    CompleteStrategize {
        /// The authority.
        epoch: Epoch,
        /// What was decided.
        decisions: Vec<ReportedDecision>,
    },
    /// Move a finished strategy into execute.
    ExecutePlan {
        /// What the rules say.
        judgement: GateJudgement,
    },
    /// Open a changeset.
    OpenChangeset {
        /// The authority.
        epoch: Epoch,
        /// Its id.
        id: ChangesetId,
        /// Its unit of work.
        node: Node,
    },
    /// Record one change.
    RecordChange {
        /// The authority.
        epoch: Epoch,
        /// Where it belongs.
        into: ChangesetSelector,
        /// What changed.
        entry: ChangesetEntry,
    },
    /// Close a changeset for good.
    SealChangeset {
        /// The authority.
        epoch: Epoch,
        /// Which.
        changeset: ChangesetId,
    },
    /// Hand in the result.
    CompleteExecute {
        /// The authority.
        epoch: Epoch,
        /// What it is.
        result: ResultContent,
        /// What changed, as read from the sandboxes.
        captured: Vec<CapturedNodeChanges>,
        /// Hand it in even if nothing changed.
        allow_empty: bool,
        /// What the rules say of it; a failing one blocks apply, not this.
        judgement: GateJudgement,
    },
    /// Sign the result.
    Approve {
        /// How it shall arrive.
        how: LandingOptions,
        /// The plan's targets as whoever signs sees them.
        targets: PlanTargets,
        /// For the landing that the caller is about to begin, and no other.
        once: bool,
    },
    /// Move a finished result into apply.
    ApplyPlan {
        /// What the rules say.
        judgement: GateJudgement,
    },
    /// Store what is about to be done to the targets.
    PrepareApply {
        /// The authority.
        epoch: Epoch,
        /// One move per resource.
        moves: Vec<RefMove>,
        /// What the rules say of the merged tree.
        judgement: GateJudgement,
    },
    /// Take that back, nothing having been done.
    WithdrawApply {
        /// The authority.
        epoch: Epoch,
    },
    /// Record that everything landed.
    CompleteApply {
        /// The authority.
        epoch: Epoch,
        /// The resources whose target was looked up and contains its `new`.
        landed: Vec<String>,
        /// What can no longer be merged, as a plan of its own.
        rest: Option<LinkedPlan>,
    },
    /// Record that it cannot land as it is.
    Constrain {
        /// The authority.
        epoch: Epoch,
        /// What sort of obstacle.
        kind: ConstraintKind,
        /// What happened.
        message: String,
        /// The paths concerned.
        paths: Vec<TreePath>,
        /// The commits concerned.
        commits: Vec<String>,
    },
    /// Keep a lease.
    Renew {
        /// The authority.
        epoch: Epoch,
        /// For how long from now.
        lease: Span,
    },
    /// Set means aside for the work of a holder, before it begins.
    Reserve {
        /// The authority.
        epoch: Epoch,
        /// What the actor tells of its use.
        metering: MeteringLevel,
        /// What all plans together may use.
        budget: GlobalBudget,
    },
    /// Charge what a holder used, once.
    Settle {
        /// The authority it had.
        epoch: Epoch,
        /// What it used.
        used: BudgetAmount,
    },
    /// Give a lease back.
    Release {
        /// The authority.
        epoch: Epoch,
    },
    /// Take a lease from a holder that is gone.
    Reclaim {
        /// How we know.
        grounds: ReclaimGrounds,
    },
    /// End work with an error.
    Fail {
        /// The authority.
        epoch: Epoch,
        /// What sort.
        category: FailureCategory,
        /// What happened.
        message: String,
    },
    /// Ask a person.
    Ask {
        /// The authority.
        epoch: Epoch,
        /// What.
        question: String,
        /// Give up after.
        answer_timeout: Option<Span>,
    },
    /// Answer the question.
    Answer {
        /// What is said.
        text: String,
    },
    /// Give up on an unanswered question.
    ExpireQuestion,
    /// Try the phase again.
    Retry {
        /// Start from scratch.
        fresh: bool,
        /// New limits, if they shall change.
        limits: Option<PlanLimits>,
    },
    /// Send the work back with feedback.
    Revise {
        /// What to do better.
        feedback: String,
        /// Paths that go back to where they were.
        dropped: Vec<TreePath>,
    },
    /// Go back to strategize.
    Revert {
        /// Why.
        reason: String,
    },
    /// Set a rule aside for this plan.
    Waive {
        /// Its name.
        rule: RuleName,
        /// Why.
        reason: String,
        /// The plan's targets.
        targets: PlanTargets,
    },
    /// Say whether a rule that asks holds.
    RuleOn {
        /// Its name.
        rule: RuleName,
        /// What exactly was looked at.
        subject: Digest,
        /// What is said.
        outcome: RuleOutcome,
        /// The plan's targets.
        targets: PlanTargets,
    },
    /// Keep what checks said of a subject, and charge what asking them took.
    KeepEvidence {
        /// What they said.
        judgement: GateJudgement,
        /// What actors that were asked used.
        used: BudgetAmount,
    },
    /// End the plan without landing.
    Cancel {
        /// Why.
        reason: Option<String>,
    },
    /// Make a plan that takes a landed one back.
    Undo(LinkedPlan),
}

/// A plan to be made of an action or a goal.
#[derive(Debug, Clone, PartialEq)]
pub struct NewPlan {
    /// Its id.
    pub id: PlanId,
    /// The action to use.
    pub action: Option<QualifiedName>,
    /// What it is for; the action's description if not said.
    pub goal: Option<String>,
    /// Arguments as they were given.
    pub arguments: Vec<(String, String)>,
    /// Who works, if neither the action nor anybody narrower says so.
    pub fallback_actors: Option<PlanActors>,
    /// How actors are started, as far as the caller knows. Those that do not work on the plan are left
    /// out.
    pub definitions: Vec<ActorDefinition>,
    /// A strategy is to be looked at before execute.
    pub strategy_wanted: bool,
    /// The profile and who said so, if it is not the action's to say.
    pub profile: Option<(Profile, ProfileSource)>,
    /// The profile and who said so, if the action says nothing.
    pub fallback_profile: Option<(Profile, ProfileSource)>,
    /// How its resources want to be worked on.
    pub policy: RepositoryPolicy,
    /// What work on its resources starts from, where that is known already.
    pub bases: Vec<ResourceCommit>,
    /// What it may use.
    pub limits: PlanLimits,
    /// The projects whose resources it works on.
    pub projects: Vec<QualifiedName>,
}

/// What one unit of work changed, as read from its sandbox.
#[derive(Debug, Clone, PartialEq)]
pub struct CapturedNodeChanges {
    /// The changeset to open if the unit has none.
    pub changeset: ChangesetId,
    /// The unit of work.
    pub node: Node,
    /// Path by path.
    pub entries: Vec<ChangesetEntry>,
}

/// A plan that starts with a result, linked to the one it comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkedPlan {
    /// Its id.
    pub id: PlanId,
    /// The resources it works on, by what they are called in the plan it comes from.
    pub resources: Vec<String>,
    /// The result it starts with.
    pub result: ResultContent,
}

/// Where a change belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangesetSelector {
    /// To this changeset.
    Changeset(ChangesetId),
    /// To the open changeset of this unit of work.
    Node(Node),
    /// To the only open changeset; refused if there are several.
    OnlyOpen,
}

/// How we know that a holder is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReclaimGrounds {
    /// Its lease expired; checked against the stored expiry.
    Expired,
    /// The holder of this epoch was seen to be dead. Another may have come since, who is not.
    OwnerDead(Epoch),
    /// Somebody watched this lease for its whole length, by a clock that only goes forward, and it was not renewed.
    /// Checked against the stored lease: a renewal changes its expiry.
    Unrenewed {
        /// Of the lease that was watched.
        epoch: Epoch,
        /// Of the lease that was watched.
        expires_at: Timestamp,
    },
}

impl Command {
    /// What it does, without its details.
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

    /// The authority it claims, where it needs one.
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

    /// What the rules said, where they are asked.
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
