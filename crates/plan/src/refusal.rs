//! Refusals: why a command was not carried out. Typed, with what a person needs to go on.
//!
//! Nothing is stored for a refusal. The words here are plain facts; hints and exit codes are added
//! where people are spoken to.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::argument::ArgumentProblem;
use crate::changeset::{Changeset, Node};
use crate::invariant::{Gate, RuleName, RuleRef, RuleScope};
use crate::judgement::FailedRule;
use crate::ledger::{BudgetShortfall, BudgetUnit};
use crate::plan::CompletedCommand;
use crate::project::{ProjectDifference, ProjectPause, ResourceKind, ResourceName};
use crate::stage::{LeaseHolder, PlanEnding};
use crate::{
    Caller, ChangesetId, Epoch, PlanId, PlanVersion, Profile, QualifiedName, Timestamp, Verb,
};

/// Why a command was not carried out.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// There is no such plan.
    #[error("there is no plan {0}")]
    NoSuchPlan(PlanId),
    /// There is no such action.
    #[error("there is no action `{0}`")]
    NoSuchAction(QualifiedName),
    /// There is no such project.
    #[error("there is no project `{0}`")]
    NoSuchProject(QualifiedName),
    /// The project has no such resource.
    #[error("project `{project}` has no resource `{name}`")]
    NoSuchResource {
        /// The project.
        project: QualifiedName,
        /// What was asked for.
        name: ResourceName,
    },
    /// There is no such rule.
    #[error("there is no rule `{name}` in scope {scope}")]
    NoSuchRule {
        /// Where it was looked for.
        scope: RuleScope,
        /// Its name.
        name: RuleName,
    },
    /// No rule of that name bears on the plan.
    #[error("no rule named `{name}` bears on plan {plan}")]
    NoRuleOnPlan {
        /// The plan.
        plan: PlanId,
        /// Its name.
        name: RuleName,
    },
    /// There is no such changeset in this plan.
    #[error("plan {plan} has no open changeset {changeset} of this holder")]
    NoSuchChangeset {
        /// The plan.
        plan: PlanId,
        /// Its id.
        changeset: ChangesetId,
    },
    /// The plan is not at the version that was expected.
    #[error("the plan is at version {actual}, not {expected}")]
    VersionMismatch {
        /// What was said.
        expected: PlanVersion,
        /// What is.
        actual: PlanVersion,
    },
    /// The verb does nothing in the state the plan is in.
    #[error("{}", describe_wrong_state(.verb, .stage, .done.as_ref()))]
    WrongState {
        /// What was asked.
        verb: Verb,
        /// Where the plan stands.
        stage: String,
        /// When and by whom it had been done before.
        done: Option<CompletedCommand>,
        /// What can be done instead.
        helps: Vec<Verb>,
    },
    /// The plan ended.
    #[error("the plan is {state} since {}, by {}", .ending.at, .ending.by)]
    Final {
        /// What was asked.
        verb: Verb,
        /// `applied` or `cancelled`.
        state: &'static str,
        /// How it ended.
        ending: PlanEnding,
    },
    /// Somebody else works on it.
    #[error("it is held by {} since {} (epoch {})", .holder.owner, .holder.since, .holder.epoch)]
    Held {
        /// Who.
        holder: LeaseHolder,
        /// Until when, unless renewed.
        expires_at: Option<Timestamp>,
    },
    /// The caller's authority is over.
    #[error("{}", describe_fenced(*.given, *.current))]
    Fenced {
        /// The caller's.
        given: Epoch,
        /// The plan's.
        current: Epoch,
    },
    /// Not before a moment.
    #[error("it may not be claimed before {retry_at}")]
    NotDue {
        /// That moment.
        retry_at: Timestamp,
    },
    /// Nothing is left to work with, for good or for now.
    #[error("{0}")]
    OverBudget(BudgetShortfall),
    /// A limit that leaves nothing to work with.
    #[error("a limit of {} leaves nothing: {} are used already", .means.format_amount(*.limit), .means.format_amount(*.spent))]
    LimitTooLow {
        /// Of what.
        means: BudgetUnit,
        /// The limit.
        limit: u64,
        /// What was used.
        spent: u64,
    },
    /// The lease has not expired.
    #[error("the lease of {} runs until {expires_at}", .holder.owner)]
    LeaseRuns {
        /// Who holds it.
        holder: LeaseHolder,
        /// Until when.
        expires_at: Timestamp,
    },
    /// The question's deadline has not passed, or it has none.
    #[error("the question may still be answered")]
    QuestionOpen,
    /// The profile wants a person for this.
    #[error("profile {profile} asks a person before {verb}")]
    NeedsPerson {
        /// What was asked.
        verb: Verb,
        /// The plan's profile.
        profile: Profile,
    },
    /// The result is not signed.
    #[error("the result is not approved")]
    NeedsApproval,
    /// The result was signed, but not as it would land now.
    #[error("the approval is void: {0}")]
    ApprovalVoid(String),
    /// Rules of a repository are in its `planwright.yaml`.
    #[error("rules of a repository are in its planwright.yaml, and nowhere else")]
    RuleOfRepository,
    /// Before there is a result there is nothing such a rule could judge.
    #[error("rule {rule} judges by `{kind}`, and at the {gate} gate there is no result yet")]
    NothingToJudge {
        /// Which rule.
        rule: RuleName,
        /// Of which kind.
        kind: &'static str,
        /// Where.
        gate: Gate,
    },
    /// A rule that judges by itself.
    #[error("rule {rule} is a rule by `{kind}`: it judges by itself, and nobody is asked")]
    RuleDoesNotAsk {
        /// Which.
        rule: RuleRef,
        /// Of which kind.
        kind: &'static str,
    },
    /// Nobody but a person sends work back that meets its rules, or that was sent back often enough.
    #[error("the result is not sent back by itself: no rule says so, or it was often enough")]
    NothingToFix,
    /// Only these answers make sense here.
    #[error("the change landed and was removed again: answer `landed`, `again` or `drop`")]
    NeedsFate,
    /// The plan is past the point of no return.
    #[error("the change is being landed: {verb} has to wait until that is finished or withdrawn")]
    PointOfNoReturn {
        /// What was asked.
        verb: Verb,
    },
    /// The plan or the rules changed while they were judged; judge again.
    #[error("the plan or its rules changed while they were judged")]
    JudgementStale {
        /// At which gate.
        gate: Gate,
    },
    /// The plan went back by itself often enough.
    #[error("the plan went back to strategize by itself {0} times already")]
    ReversionLimit(u32),
    /// The result of a plan that changes something is empty.
    #[error("the result is empty: nothing was changed")]
    EmptyResult,
    /// What the sandboxes start from was not said of each resource once.
    #[error("what work starts from must be said of each of the plan's resources, once")]
    BasesMismatch,
    /// What is to be done was not said of each resource that changed.
    #[error("what is to be done must be said of each resource that changed, once")]
    MovesMismatch,
    /// A target does not show the change.
    #[error("the change is not in {}", .missing.join(", "))]
    NotLanded {
        /// The resources without it.
        missing: Vec<String>,
    },
    /// There is nothing to take back.
    #[error("the plan changed nothing, so there is nothing to undo")]
    NothingToUndo,
    /// There is an action of that name.
    #[error("action `{name}` exists since {at}, created by {by}")]
    ActionExists {
        /// Its name.
        name: QualifiedName,
        /// When it was created.
        at: Timestamp,
        /// By whom.
        by: Caller,
    },
    /// The action was taken out of use.
    #[error("action `{name}` was archived at {at} by {by}")]
    ActionArchived {
        /// Its name.
        name: QualifiedName,
        /// When.
        at: Timestamp,
        /// By whom.
        by: Caller,
    },
    /// The action may be used once only, and was.
    #[error("action `{name}` is not reusable, and plan {plan} was made of it")]
    ActionUsedUp {
        /// Its name.
        name: QualifiedName,
        /// The plan.
        plan: PlanId,
    },
    /// There is a project of that name, and it is not the same.
    #[error("project `{name}` exists since {at}, {difference}")]
    ProjectExists {
        /// Its name.
        name: QualifiedName,
        /// When it was created.
        at: Timestamp,
        /// How it differs from what was asked for.
        difference: ProjectDifference,
    },
    /// The project has nothing a plan could work on.
    #[error("project `{0}` has no resources")]
    ProjectEmpty(QualifiedName),
    /// The project is paused.
    #[error("project `{project}` is paused since {} by {}", .paused.at, .paused.by)]
    ProjectPaused {
        /// Which.
        project: QualifiedName,
        /// Since when and by whom.
        paused: ProjectPause,
    },
    /// Plans that have not ended use the project.
    #[error("project `{project}` is used by {}", describe_live_plans(*.count, .plans))]
    ProjectInUse {
        /// Which.
        project: QualifiedName,
        /// How many plans.
        count: u64,
        /// Some of them, newest first.
        plans: Vec<PlanId>,
    },
    /// The project has a resource of that name somewhere else.
    #[error("project `{project}` has a resource `{name}` at another place")]
    ResourceExists {
        /// The project.
        project: QualifiedName,
        /// Its name.
        name: ResourceName,
    },
    /// Another resource of the project is the same directory.
    #[error("resource `{other}` of project `{project}` lies where `{name}` would")]
    PlaceTaken {
        /// The project.
        project: QualifiedName,
        /// The resource that was to be there.
        name: ResourceName,
        /// The one that is.
        other: ResourceName,
    },
    /// A resource cannot become one of another sort.
    #[error("resource `{name}` of project `{project}` is of kind {kind} and stays so")]
    ResourceKind {
        /// The project.
        project: QualifiedName,
        /// Its name.
        name: ResourceName,
        /// What it is.
        kind: ResourceKind,
    },
    /// A resource is not described as it has to be.
    #[error("resource `{name}`: {why}")]
    BadResource {
        /// Its name.
        name: ResourceName,
        /// What is wrong.
        why: &'static str,
    },
    /// The plan does not work on that resource.
    #[error("the plan has no resource `{0}`")]
    ResourceNotInPlan(String),
    /// Neither the action nor the settings say who works.
    #[error("nothing says which actor works on the plan")]
    NoActor,
    /// Neither an action nor a goal was given.
    #[error("a plan needs an action or a goal")]
    NoGoal,
    /// A text is empty, too long or holds a NUL.
    #[error("the {what} {why}")]
    BadText {
        /// Which text.
        what: &'static str,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Arguments that were given or declared are wrong.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Arguments(Vec<ArgumentProblem>),
    /// A reported decision does not fit.
    #[error("decision {number}: {why}")]
    BadDecision {
        /// Which, from 1 in the order they were given.
        number: usize,
        /// What is wrong.
        why: &'static str,
    },
    /// There is a rule of that name in the scope.
    #[error("rule `{name}` exists in scope {scope}")]
    RuleExists {
        /// Where.
        scope: RuleScope,
        /// Its name.
        name: RuleName,
    },
    /// The rule is non-overridable.
    #[error("rule {rule} is non-overridable")]
    NonOverridable {
        /// Which.
        rule: RuleRef,
    },
    /// Its unit of work has an open changeset.
    #[error("node `{}` has an open changeset: {}", .open.node, .open.id)]
    NodeHasOpenChangeset {
        /// Which.
        open: Changeset,
    },
    /// No changeset is open to record into.
    #[error("{}", describe_no_open_changeset(.node.as_ref()))]
    NoOpenChangeset {
        /// For this unit of work, if one was named.
        node: Option<Node>,
    },
    /// Several are open and nothing says which is meant.
    #[error("{} changesets are open; say which is meant", .open.len())]
    AmbiguousChangeset {
        /// Those.
        open: Vec<Changeset>,
    },
    /// A read-only plan writes nothing.
    #[error("the plan is read-only: it may not change {0}")]
    ReadOnly(String),
}

/// A gate did not open. The plan's phase, state, version and timestamps are as before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{} {} at the {gate} gate of plan {plan}", .failed.len(), if .failed.len() == 1 { "rule fails" } else { "rules fail" })]
pub struct GateBlocked {
    /// The plan.
    pub plan: PlanId,
    /// The gate.
    pub gate: Gate,
    /// The rules that failed, with their evidence.
    pub failed: Vec<FailedRule>,
}

fn describe_wrong_state(verb: &Verb, stage: &str, done: Option<&CompletedCommand>) -> String {
    match done {
        Some(done) => {
            format!(
                "{verb} was done at {} by {}; the plan is {stage}",
                done.at, done.by
            )
        }
        None => format!("{verb} is not possible while the plan is {stage}"),
    }
}

fn describe_live_plans(count: u64, plans: &[PlanId]) -> String {
    let named: Vec<String> = plans.iter().map(ToString::to_string).collect();
    let more = count.saturating_sub(named.len() as u64);
    let named = named.join(", ");
    match (count, more) {
        (1, _) => format!("a plan that has not ended: {named}"),
        (_, 0) => format!("{count} plans that have not ended: {named}"),
        (_, _) => format!("{count} plans that have not ended: {named} and {more} more"),
    }
}

fn describe_no_open_changeset(node: Option<&Node>) -> String {
    match node {
        Some(node) => format!("node `{node}` has no open changeset"),
        None => "no changeset is open".to_owned(),
    }
}

fn describe_fenced(given: Epoch, current: Epoch) -> String {
    match given.cmp(&current) {
        Ordering::Equal => format!("the work under epoch {given} has ended"),
        Ordering::Greater => {
            format!("epoch {given} was never given: the plan is at epoch {current}")
        }
        Ordering::Less => format!("epoch {given} is over: the plan is at epoch {current}"),
    }
}
