//! Refusals: typed reasons why a command was not carried out.
//!
//! Nothing is stored for a refusal. The texts here state facts; the CLI adds hints and exit codes.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::argument::ArgumentProblem;
use crate::changeset::{Changeset, Node};
use crate::completion::CompletedCommand;
use crate::invariant::{Gate, RuleName, RuleRef, RuleScope};
use crate::judgement::FailedRule;
use crate::ledger::{BudgetShortfall, BudgetUnit};
use crate::permission::UnsupportedToolPolicy;
use crate::permission_question::PermissionAnswer;
use crate::project::{ProjectDifference, ProjectPause, ResourceKind, ResourceName};
use crate::review::CommentId;
use crate::stage::{LeaseHolder, PlanEnding};
use crate::{
    Caller, ChangesetId, Epoch, PlanId, PlanVersion, Profile, QualifiedName, Timestamp, Verb,
};

/// Why a command was not carried out.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refusal {
    #[error("there is no plan {0}")]
    NoSuchPlan(PlanId),
    #[error("there is no action `{0}`")]
    NoSuchAction(QualifiedName),
    #[error("there is no project `{0}`")]
    NoSuchProject(QualifiedName),
    #[error("project `{project}` has no resource `{name}`")]
    NoSuchResource {
        project: QualifiedName,
        name: ResourceName,
    },
    #[error("there is no rule `{name}` in scope {scope}")]
    NoSuchRule { scope: RuleScope, name: RuleName },
    /// No rule in force on the plan has this name.
    #[error("no rule named `{name}` applies to this plan")]
    NoRuleOnPlan { plan: PlanId, name: RuleName },
    /// The holder has no open changeset with this id.
    #[error("this holder has no open changeset {changeset}")]
    NoSuchChangeset {
        plan: PlanId,
        changeset: ChangesetId,
    },
    #[error("the plan is at version {actual}, not {expected}")]
    VersionMismatch {
        expected: PlanVersion,
        actual: PlanVersion,
    },
    /// The answer depends on the verb's last completion, which is not among the facts. The store
    /// reads it from the log and decides again, so no caller sees this.
    #[error("the last completion of {verb} was not read")]
    CompletionNotRead { verb: Verb },
    /// The verb does not apply in the plan's current state.
    #[error("{}", describe_wrong_state(.verb, .stage, .done.as_ref()))]
    WrongState {
        verb: Verb,
        /// The plan's phase and state.
        stage: String,
        /// Set if the verb was carried out earlier.
        done: Option<CompletedCommand>,
        /// Verbs that the plan's state allows.
        possible_verbs: Vec<Verb>,
    },
    #[error("the plan was {state} by {}", .ending.by)]
    Final {
        verb: Verb,
        /// `applied` or `cancelled`.
        state: &'static str,
        ending: PlanEnding,
    },
    /// Another holder has the lease.
    #[error("{} is working on this plan (epoch {})", .holder.owner, .holder.epoch)]
    Held {
        holder: LeaseHolder,
        expires_at: Option<Timestamp>,
    },
    /// The caller's epoch is not the holder's: the lease was taken over, released or never issued.
    #[error("{}", describe_fenced(*.given, *.current))]
    Fenced {
        /// The caller's epoch.
        given: Epoch,
        /// The plan's epoch.
        current: Epoch,
    },
    /// A scheduled retry is not due yet.
    #[error("the plan cannot be claimed before {retry_at}")]
    NotDue { retry_at: Timestamp },
    /// The budget is spent, or reserved for other runs.
    #[error("over budget: {0}")]
    OverBudget(BudgetShortfall),
    /// The new limit is not above what is already spent.
    #[error("a limit of {} leaves nothing to spend: {} already used", .unit.format_amount(*.limit), .unit.format_amount(*.spent))]
    LimitTooLow {
        unit: BudgetUnit,
        limit: u64,
        spent: u64,
    },
    #[error("the lease of {} has not expired", .holder.owner)]
    LeaseRuns {
        holder: LeaseHolder,
        expires_at: Timestamp,
    },
    #[error("the question can still be answered")]
    QuestionOpen,
    /// The agent asks about another tool call than the one that was shown.
    #[error("the agent no longer waits for this answer")]
    PermissionOutdated,
    #[error("{}", describe_permission_answer(.0))]
    PermissionAnswered(PermissionAnswer),
    /// The profile requires a person for this step.
    #[error("profile {profile} requires a person for {verb}")]
    NeedsPerson { verb: Verb, profile: Profile },
    /// This kind of caller may not submit the command, whatever the plan's state.
    #[error("{caller} is not allowed to {verb}")]
    NotAuthorized { verb: Verb, caller: Caller },
    #[error("the result is not approved")]
    NeedsApproval,
    /// The result, its target or the rules changed after the approval.
    #[error("the approval no longer counts: {0}")]
    ApprovalVoid(String),
    /// Repository rules are read from `planwright.yaml` and cannot be stored.
    #[error("a repository's rules are defined only in its planwright.yaml")]
    RuleOfRepository,
    /// The check needs a result, and there is none at this gate.
    #[error(
        "rule {rule} is checked by `{kind}`, which needs a result; there is none at the {gate} gate"
    )]
    NothingToJudge {
        rule: RuleName,
        kind: &'static str,
        gate: Gate,
    },
    /// The rule is checked by the engine, so a person cannot rule on it.
    #[error("rule `{}` does not ask a person: it is checked by `{kind}`", .rule.name)]
    RuleDoesNotAsk { rule: RuleRef, kind: &'static str },
    /// Only a person can send this result back: it meets its rules, or the automatic fixes are used
    /// up.
    #[error(
        "only a person can send this result back: it passes its rules, or the limit of automatic fixes is reached"
    )]
    NothingToFix,
    /// Past the point of no return, only these answers are possible.
    #[error("the change landed and was then removed: answer `landed`, `again` or `drop`")]
    NeedsFate,
    #[error("the change is landing: {verb} has to wait until the landing is finished or withdrawn")]
    PointOfNoReturn { verb: Verb },
    /// The plan or its rules changed while they were judged. The caller judges again and retries.
    #[error("the plan or its rules changed while the rules were being checked")]
    JudgementStale { gate: Gate },
    /// The limit on automatic reversions is reached.
    #[error("the plan already went back to strategize automatically {0} times")]
    ReversionLimit(u32),
    /// The plan has targets, but its result changes nothing.
    #[error("the result is empty: nothing was changed")]
    EmptyResult,
    #[error("nothing of the result would be left")]
    NothingPicked,
    #[error("there is no draft comment {0}")]
    NoSuchComment(CommentId),
    #[error("a review may have {max} {limit}")]
    ReviewTooLarge { limit: ReviewLimit, max: usize },
    /// The caller saw another result than the one that is stored.
    #[error("the result changed since it was shown")]
    ResultChanged,
    #[error("a pick needs one tree for each resource of the result, on the same base and target")]
    PickMismatch,
    #[error("what an earlier pick left out still waits for this plan to land")]
    RestWaits,
    #[error("exactly one base commit is needed for each of the plan's resources")]
    BasesMismatch,
    #[error("exactly one move is needed for each changed resource")]
    MovesMismatch,
    /// Some targets do not contain the change.
    #[error("the change is not in {}", .missing.join(", "))]
    NotLanded { missing: Vec<String> },
    #[error("the plan changed nothing, so there is nothing to undo")]
    NothingToUndo,
    #[error("action `{name}` already exists, created by {by}")]
    ActionExists {
        name: QualifiedName,
        at: Timestamp,
        by: Caller,
    },
    #[error("action `{name}` was archived by {by}")]
    ActionArchived {
        name: QualifiedName,
        at: Timestamp,
        by: Caller,
    },
    #[error("action `{name}` is not reusable, and plan {plan} already used it")]
    ActionUsedUp { name: QualifiedName, plan: PlanId },
    /// A different project of this name exists.
    #[error("project `{name}` already exists, {difference}")]
    ProjectExists {
        name: QualifiedName,
        at: Timestamp,
        /// How the existing project differs from the requested one.
        difference: ProjectDifference,
    },
    #[error("project `{0}` has no resources")]
    ProjectEmpty(QualifiedName),
    #[error("project `{project}` was paused by {}", .paused.by)]
    ProjectPaused {
        project: QualifiedName,
        paused: ProjectPause,
    },
    #[error("project `{project}` is used by {}", describe_live_plans(*.count, .plans))]
    ProjectInUse {
        project: QualifiedName,
        count: u64,
        /// A few of them, newest first.
        plans: Vec<PlanId>,
    },
    #[error("project `{project}` already has a resource `{name}` at another location")]
    ResourceExists {
        project: QualifiedName,
        name: ResourceName,
    },
    #[error("resource `{other}` of project `{project}` already uses the directory of `{name}`")]
    PlaceTaken {
        project: QualifiedName,
        /// The requested resource.
        name: ResourceName,
        /// The resource that already uses the directory.
        other: ResourceName,
    },
    /// A resource cannot change its kind.
    #[error("resource `{name}` of project `{project}` is of kind {kind}, which cannot change")]
    ResourceKind {
        project: QualifiedName,
        name: ResourceName,
        kind: ResourceKind,
    },
    /// The description of a resource is invalid.
    #[error("resource `{name}`: {why}")]
    BadResource {
        name: ResourceName,
        why: &'static str,
    },
    #[error("the plan has no resource `{0}`")]
    ResourceNotInPlan(String),
    #[error(
        "action `{action}` restricts tools, and agent `{actor}` cannot keep to that: {problem}"
    )]
    ToolPolicyUnsupported {
        action: QualifiedName,
        actor: QualifiedName,
        problem: UnsupportedToolPolicy,
    },
    /// Neither the action nor the settings name an actor.
    #[error("no agent is set for the plan")]
    NoActor,
    #[error("a plan needs an action or a goal")]
    NoGoal,
    /// A text is empty, too long or contains a NUL.
    #[error("the {what} {why}")]
    BadText {
        what: &'static str,
        why: &'static str,
    },
    /// Arguments are declared or given incorrectly.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Arguments(Vec<ArgumentProblem>),
    /// A reported decision is invalid.
    #[error("decision {number}: {why}")]
    BadDecision {
        /// Position in the report, from 1.
        number: usize,
        why: &'static str,
    },
    #[error("rule `{name}` already exists in scope {scope}")]
    RuleExists { scope: RuleScope, name: RuleName },
    /// The rule can be neither waived nor replaced.
    #[error("rule `{}` cannot be waived or replaced: it is non-overridable", .rule.name)]
    NonOverridable { rule: RuleRef },
    #[error("node `{}` has an open changeset: {}", .open.node, .open.id)]
    NodeHasOpenChangeset { open: Changeset },
    #[error("{}", describe_no_open_changeset(.node.as_ref()))]
    NoOpenChangeset {
        /// Set if the caller named a unit of work.
        node: Option<Node>,
    },
    /// Several changesets are open, and the caller named none.
    #[error("{} changesets are open; name one", .open.len())]
    AmbiguousChangeset { open: Vec<Changeset> },
    /// A read-only plan must not change anything.
    #[error("the plan is read-only: it may not change {0}")]
    ReadOnly(String),
}

/// What a review may not have more of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewLimit {
    Files,
    Hunks,
    Comments,
    CommentBytes,
}

impl fmt::Display for ReviewLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Files => "files",
            Self::Hunks => "hunks",
            Self::Comments => "draft comments",
            Self::CommentBytes => "bytes of draft comments",
        })
    }
}

/// A gate did not open. The plan's phase, state, version and timestamps are unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("can't {gate}: {}", describe_failed_rules(.failed))]
pub struct GateBlocked {
    pub plan: PlanId,
    pub gate: Gate,
    pub failed: Vec<FailedRule>,
}

/// Names the rules that keep a gate closed.
fn describe_failed_rules(failed: &[FailedRule]) -> String {
    let reasons: Vec<String> = failed
        .iter()
        .map(|failed| match failed.waits {
            None if failed.broken => format!("rule `{}` cannot run", failed.rule.name),
            None => format!("rule `{}` failed", failed.rule.name),
            Some(_) => format!("rule `{}` is pending", failed.rule.name),
        })
        .collect();
    reasons.join(", ")
}

fn describe_wrong_state(verb: &Verb, stage: &str, done: Option<&CompletedCommand>) -> String {
    match done {
        Some(done) => {
            format!(
                "{verb} was already done by {}; the plan is {stage}",
                done.by
            )
        }
        None => format!("{verb} is not possible while the plan is {stage}"),
    }
}

fn describe_permission_answer(answer: &PermissionAnswer) -> String {
    let verb = if answer.allowed {
        "allowed"
    } else {
        "rejected"
    };
    format!("{} has already {verb} this call", answer.by)
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
            format!("epoch {given} was never issued: the plan is at epoch {current}")
        }
        Ordering::Less => format!("epoch {given} is over: the plan is at epoch {current}"),
    }
}
