//! Views of plans and changesets.

use std::collections::BTreeMap;

use super::schema::{
    FailedRuleSchema, IgnoredPathsSchema, PathSchema, PlanLimitsSchema, RefMoveSchema,
};
use plan::changeset::{Changeset, ChangesetEntry, TreePath};
use plan::completion::CompletedCommand;
use plan::invariant::{Gate, RuleName, RuleScope};
use plan::judgement::FailedRule;
use plan::ledger::{BudgetAccount, BudgetLedger};
use plan::plan::{PlanLimits, PlanOrigin, RuleWaiver};
use plan::project::ResourceKind;
use plan::stage::{ApplyState, ConstraintKind, FailureCategory, IgnoredPaths, RefMove};
use plan::transcript::ToolKind;
use plan::{Digest, Plan, PlanActors, PlanId, PlanStage, Timestamp, Verb};
use serde::Serialize;
use store::PlanRow;
use utoipa::ToSchema;

use super::ArgumentView;
use crate::standing::PlanStanding;

/// A plan with everything that programs may need.
#[derive(Debug, Serialize, ToSchema)]
pub struct PlanView {
    #[schema(value_type = String)]
    pub plan_id: PlanId,
    pub goal: String,
    pub action: Option<String>,
    /// The arguments of the action.
    pub arguments: BTreeMap<String, ArgumentView>,
    #[schema(value_type = String)]
    pub phase: &'static str,
    #[schema(value_type = String)]
    pub state: &'static str,
    /// The status word that people see.
    #[schema(value_type = String)]
    pub standing: PlanStanding,
    /// A landing was prepared and has neither completed nor been withdrawn.
    pub prepared: bool,
    /// The number of the plan's events.
    pub version: u64,
    /// The number of the current or last lease.
    pub epoch: u64,
    /// Attempts since the plan entered the phase.
    pub attempt: u32,
    /// How often the plan returned to strategize.
    pub reversion_count: u32,
    #[schema(value_type = String)]
    pub profile: &'static str,
    /// Where the profile comes from.
    #[schema(value_type = String)]
    pub profile_source: &'static str,
    pub actors: ActorsView,
    /// A missing limit means unlimited.
    #[schema(value_type = PlanLimitsSchema)]
    pub limits: PlanLimits,
    pub used: UsageView,
    pub read_only: bool,
    pub resources: Vec<ResourceUseView>,
    /// How each target moved; empty until the plan lands.
    #[schema(value_type = Vec<RefMoveSchema>)]
    pub landed: Vec<RefMove>,
    /// How the plan was created, with the plan it undoes or continues.
    pub origin: OriginView,
    /// The plan waits for a person.
    pub needs_person: bool,
    pub lease: Option<LeaseView>,
    /// The failed rules of the gate that blocks the plan now.
    pub verdict: Option<VerdictView>,
    /// The open question of the agent.
    pub question: Option<QuestionView>,
    /// The tool call that the agent waits for, while it works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission: Option<PermissionView>,
    /// The earliest time of the next automatic retry.
    #[schema(value_type = Option<String>)]
    pub retry_at: Option<Timestamp>,
    /// The agent's report on the result.
    pub report: Option<String>,
    /// Ignored files that were found when the result was captured, by resource.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, IgnoredPathsSchema>)]
    pub ignored: BTreeMap<String, IgnoredPaths>,
    /// Who approved the current result.
    pub approved_by: Option<String>,
    pub waivers: Vec<WaiverView>,
    pub timestamps: TimestampsView,
    pub changesets: Vec<ChangesetView>,
    /// The failure or landing conflict that stopped the plan.
    pub error: Option<PlanErrorView>,
}

/// The agents of a plan, by what they do.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ActorsView {
    pub strategy: String,
    pub execution: String,
    /// Answers `ask` rules.
    pub invariant: Option<String>,
}

impl From<&PlanActors> for ActorsView {
    fn from(actors: &PlanActors) -> Self {
        Self {
            strategy: actors.strategy.to_string(),
            execution: actors.execution.to_string(),
            invariant: actors.invariant.as_ref().map(ToString::to_string),
        }
    }
}

/// A resource that a plan works on.
#[derive(Debug, Serialize, ToSchema)]
pub struct ResourceUseView {
    pub resource: String,
    pub project: String,
    #[schema(value_type = String)]
    pub kind: ResourceKind,
    /// The full name of the branch that the plan lands on.
    pub target: Option<String>,
    /// The commit that the work started from, once known.
    pub base: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum OriginView {
    Use,
    UndoOf {
        #[schema(value_type = String)]
        plan_id: PlanId,
    },
    RestOf {
        #[schema(value_type = String)]
        plan_id: PlanId,
    },
}

impl From<PlanOrigin> for OriginView {
    fn from(origin: PlanOrigin) -> Self {
        match origin {
            PlanOrigin::Use => Self::Use,
            PlanOrigin::UndoOf(plan_id) => Self::UndoOf { plan_id },
            PlanOrigin::RestOf(plan_id) => Self::RestOf { plan_id },
        }
    }
}

/// The failed rules of a gate.
#[derive(Debug, Serialize, ToSchema)]
pub struct VerdictView {
    #[schema(value_type = String)]
    pub gate: Gate,
    #[schema(value_type = Vec<FailedRuleSchema>)]
    pub failed: Vec<FailedRule>,
    #[schema(value_type = String)]
    pub at: Timestamp,
}

/// A tool call that an agent waits for a person to allow or reject.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct PermissionView {
    /// Names the request. The answer repeats it.
    #[schema(value_type = String)]
    pub request: Digest,
    pub tool: String,
    #[schema(value_type = String)]
    pub tool_kind: ToolKind,
    /// The call in one line.
    pub summary: String,
    /// What the tool gets, as the agent wrote it.
    pub input: Option<String>,
    /// Why a person is asked.
    pub reason: String,
    #[schema(value_type = String)]
    pub asked_at: Timestamp,
}

impl PermissionView {
    /// The open request of a plan.
    pub fn of_plan(plan: &Plan) -> Option<Self> {
        let question = plan.stage().open_permission()?;
        let call = &question.call;
        Some(Self {
            request: question.digest,
            tool: call.tool.clone(),
            tool_kind: call.tool_kind,
            summary: call.summary.to_string(),
            input: call.input.as_ref().map(ToString::to_string),
            reason: call.reason.clone(),
            asked_at: question.asked_at,
        })
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct QuestionView {
    pub text: String,
    #[schema(value_type = String)]
    pub asked_at: Timestamp,
    /// When the question expires; `null` if it waits forever.
    #[schema(value_type = Option<String>)]
    pub deadline: Option<Timestamp>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct WaiverView {
    #[schema(value_type = String)]
    pub rule: RuleName,
    #[schema(value_type = String)]
    pub scope: RuleScope,
    pub reason: String,
    pub by: String,
    #[schema(value_type = String)]
    pub at: Timestamp,
}

impl From<&RuleWaiver> for WaiverView {
    fn from(waiver: &RuleWaiver) -> Self {
        Self {
            rule: waiver.rule.name.clone(),
            scope: waiver.rule.scope.clone(),
            reason: waiver.reason.to_string(),
            by: waiver.by.to_string(),
            at: waiver.at,
        }
    }
}

/// When each step was last done.
#[derive(Debug, Serialize, ToSchema)]
pub struct TimestampsView {
    #[schema(value_type = String)]
    pub created_at: Timestamp,
    #[schema(value_type = String)]
    pub updated_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub strategize_started_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub strategize_completed_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub execute_entered_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub execute_started_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub execute_completed_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub apply_entered_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub apply_started_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub applied_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub cancelled_at: Option<Timestamp>,
}

/// Why a plan stopped.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum PlanErrorView {
    Failure {
        #[schema(value_type = String)]
        category: FailureCategory,
        message: String,
        /// The engine retries this kind of failure by itself.
        retriable: bool,
        #[schema(value_type = String)]
        at: Timestamp,
    },
    /// The result cannot land as it is.
    Constraint {
        #[schema(value_type = String)]
        category: ConstraintKind,
        message: String,
        #[schema(value_type = Vec<PathSchema>)]
        paths: Vec<TreePath>,
        commits: Vec<String>,
        #[schema(value_type = String)]
        at: Timestamp,
    },
}

/// What a plan spent and reserved.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub struct UsageView {
    /// Millionths of a US dollar.
    pub cost_micros: u64,
    /// Input and output.
    pub tokens: u64,
    /// The duration of all runs.
    pub seconds: u64,
    /// Millionths of a US dollar reserved for the current run.
    pub reserved_cost_micros: u64,
    /// Millionths of a US dollar charged because a worker vanished without reporting its usage.
    pub forfeited_cost_micros: u64,
}

impl UsageView {
    pub fn new(account: &BudgetAccount) -> Self {
        Self {
            cost_micros: account.settled.cost,
            tokens: account.settled.tokens,
            seconds: account.settled.time / 1_000_000,
            reserved_cost_micros: account.reserved.cost,
            forfeited_cost_micros: account.forfeited.cost,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct LeaseView {
    pub owner: String,
    pub epoch: u64,
    #[schema(value_type = String)]
    pub expires_at: Timestamp,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ChangesetView {
    pub changeset_id: String,
    /// The unit of work.
    pub node: String,
    /// The epoch of the lease that opened it.
    pub epoch: u64,
    pub sealed: bool,
    /// The digest of the entries, once sealed.
    pub digest: Option<String>,
    pub entries: Vec<EntryView>,
}

/// A change of one path.
#[derive(Debug, Serialize, ToSchema)]
pub struct EntryView {
    /// A string, or a list of bytes if it is not UTF-8.
    #[schema(value_type = PathSchema)]
    pub path: TreePath,
    #[schema(value_type = String)]
    pub operation: &'static str,
    /// The old path of a renamed file.
    #[schema(value_type = Option<PathSchema>)]
    pub from: Option<TreePath>,
    /// The content hash before the change.
    pub before: Option<String>,
    /// The content hash after the change.
    pub after: Option<String>,
    /// The file mode after the change.
    pub mode: Option<String>,
    /// The agent that reported it.
    pub actor: Option<String>,
    /// The agent's tool that made it.
    pub tool: Option<String>,
    pub resource: Option<String>,
    /// Reported by the agent, but not found in the tree.
    pub unseen: bool,
}

impl PlanView {
    pub fn new(
        row: &PlanRow,
        standing: PlanStanding,
        changesets: &[(Changeset, Vec<ChangesetEntry>)],
        ledger: &BudgetLedger,
        completions: &BTreeMap<Verb, CompletedCommand>,
    ) -> Self {
        let plan = &row.plan;
        Self {
            plan_id: plan.id(),
            goal: plan.goal().to_string(),
            action: plan.action().map(ToString::to_string),
            arguments: plan
                .arguments()
                .iter()
                .map(|(name, value)| (name.clone(), value.into()))
                .collect(),
            phase: plan.phase().as_str(),
            state: plan.stage().state_name().as_str(),
            standing,
            prepared: plan.is_prepared(),
            version: plan.version().0,
            epoch: plan.epoch().0,
            attempt: plan.attempt(),
            reversion_count: plan.reversions(),
            profile: plan.profile().as_str(),
            profile_source: plan.profile_source().as_str(),
            actors: (plan.actors()).into(),
            limits: plan.limits(),
            used: UsageView::new(&ledger.plan),
            read_only: plan.read_only(),
            resources: view_resources(plan),
            landed: plan.landed().to_vec(),
            origin: plan.origin().into(),
            needs_person: row.needs_person(),
            lease: row.lease.as_ref().map(|lease| LeaseView {
                owner: lease.owner.clone(),
                epoch: lease.epoch.0,
                expires_at: lease.expires_at,
            }),
            verdict: row.current_verdict().map(|verdict| VerdictView {
                gate: verdict.gate,
                failed: verdict.failed.clone(),
                at: verdict.at,
            }),
            question: plan.stage().question().map(|question| QuestionView {
                text: question.text.to_string(),
                asked_at: question.asked_at,
                deadline: question.deadline,
            }),
            permission: PermissionView::of_plan(plan),
            retry_at: plan
                .stage()
                .queue_entry()
                .and_then(|queued| queued.retry_at),
            report: plan
                .result()
                .and_then(|result| Some(result.report.as_ref()?.to_string())),
            ignored: ignored_by_resource(plan),
            approved_by: plan
                .valid_approval()
                .map(|approval| approval.by.to_string()),
            waivers: plan.waivers().iter().map(Into::into).collect(),
            timestamps: view_timestamps(plan, completions),
            changesets: changesets
                .iter()
                .map(|(changeset, entries)| ChangesetView::new(changeset, entries))
                .collect(),
            error: view_error(plan),
        }
    }
}

fn view_resources(plan: &Plan) -> Vec<ResourceUseView> {
    let resources = plan.resources().iter();
    resources
        .map(|resource| ResourceUseView {
            resource: resource.name.clone(),
            project: resource.project.to_string(),
            kind: resource.kind,
            target: resource.target.clone(),
            base: plan.base_commit(&resource.name).map(str::to_owned),
        })
        .collect()
}

/// The ignored files that were found when the result was captured.
fn ignored_by_resource(plan: &Plan) -> BTreeMap<String, IgnoredPaths> {
    let trees = plan.result().into_iter().flat_map(|result| &result.trees);
    let trees = trees.filter(|tree| !tree.ignored.is_empty());
    trees
        .map(|tree| (tree.resource.clone(), tree.ignored.clone()))
        .collect()
}

impl ChangesetView {
    pub fn new(changeset: &Changeset, entries: &[ChangesetEntry]) -> Self {
        Self {
            changeset_id: changeset.id.to_string(),
            node: changeset.node.to_string(),
            epoch: changeset.epoch.0,
            sealed: changeset.seal.is_some(),
            digest: changeset.seal.as_ref().map(|seal| seal.digest.to_string()),
            entries: entries
                .iter()
                .map(|entry| EntryView {
                    path: entry.path.clone(),
                    operation: entry.operation.as_str(),
                    from: entry.from.clone(),
                    before: entry.before.clone(),
                    after: entry.after.clone(),
                    mode: entry.mode.clone(),
                    actor: entry.actor.clone(),
                    tool: entry.tool.clone(),
                    resource: entry.resource.clone(),
                    unseen: entry.unseen,
                })
                .collect(),
        }
    }
}

fn view_timestamps(plan: &Plan, completions: &BTreeMap<Verb, CompletedCommand>) -> TimestampsView {
    let last_done = |verb: Verb| completions.get(&verb).map(|done| done.at);
    TimestampsView {
        created_at: plan.created_at(),
        updated_at: plan.updated_at(),
        strategize_started_at: last_done(Verb::StartStrategize),
        strategize_completed_at: last_done(Verb::CompleteStrategize),
        execute_entered_at: last_done(Verb::ExecutePlan),
        execute_started_at: last_done(Verb::StartExecute),
        execute_completed_at: last_done(Verb::CompleteExecute),
        apply_entered_at: last_done(Verb::ApplyPlan),
        apply_started_at: last_done(Verb::StartApply),
        applied_at: last_done(Verb::CompleteApply),
        cancelled_at: last_done(Verb::Cancel),
    }
}

fn view_error(plan: &Plan) -> Option<PlanErrorView> {
    if let Some(failure) = plan.stage().failure() {
        return Some(PlanErrorView::Failure {
            category: failure.category,
            message: failure.message.to_string(),
            retriable: failure.category.is_transient(),
            at: failure.at,
        });
    }
    let PlanStage::Apply(ApplyState::Constrained(constraint)) = plan.stage() else {
        return None;
    };
    Some(PlanErrorView::Constraint {
        category: constraint.kind,
        message: constraint.message.to_string(),
        paths: constraint.paths.clone(),
        commits: constraint.commits.clone(),
        at: constraint.at,
    })
}
