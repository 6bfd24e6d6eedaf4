//! JSON views of plans and changesets.

use std::collections::BTreeMap;

use plan::changeset::{Changeset, ChangesetEntry, TreePath};
use plan::completion::CompletedCommand;
use plan::ledger::{BudgetAccount, BudgetLedger};
use plan::plan::PlanOrigin;
use plan::stage::{ApplyState, IgnoredPaths};
use plan::{PlanId, PlanStage, Timestamp, Verb};
use serde::Serialize;
use serde_json::{Value, json};
use store::PlanRow;

use crate::ui;

/// A plan with everything that programs may need.
#[derive(Debug, Serialize)]
pub struct PlanView {
    pub plan_id: PlanId,
    pub goal: String,
    pub action: Option<String>,
    /// The arguments of the action.
    pub arguments: BTreeMap<String, Value>,
    pub phase: &'static str,
    pub state: &'static str,
    /// The status word that people see.
    pub standing: &'static str,
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
    pub profile: &'static str,
    /// Where the profile comes from.
    pub profile_source: &'static str,
    pub actors: Value,
    /// A missing limit means unlimited.
    pub limits: Value,
    pub used: UsageView,
    pub read_only: bool,
    pub resources: Vec<Value>,
    /// How each target moved; empty until the plan lands.
    pub landed: Vec<Value>,
    /// How the plan was created, with the plan it undoes or continues.
    pub origin: Value,
    /// The plan waits for a person.
    pub needs_person: bool,
    pub lease: Option<LeaseView>,
    /// The failed rules of the gate that blocks the plan now.
    pub verdict: Option<Value>,
    /// The open question of the agent.
    pub question: Option<Value>,
    /// The earliest time of the next automatic retry.
    pub retry_at: Option<Timestamp>,
    /// The agent's report on the result.
    pub report: Option<String>,
    /// Ignored files that were found when the result was captured, by resource.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub ignored: BTreeMap<String, IgnoredPaths>,
    /// Who approved the current result.
    pub approved_by: Option<String>,
    pub waivers: Vec<Value>,
    pub timestamps: BTreeMap<&'static str, Timestamp>,
    pub changesets: Vec<ChangesetView>,
    /// The failure or landing conflict that stopped the plan.
    pub error: Option<Value>,
}

/// What a plan spent and reserved.
#[derive(Debug, Clone, Copy, Serialize)]
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

#[derive(Debug, Serialize)]
pub struct LeaseView {
    pub owner: String,
    pub epoch: u64,
    pub expires_at: Timestamp,
}

#[derive(Debug, Serialize)]
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
#[derive(Debug, Serialize)]
pub struct EntryView {
    /// A string, or a list of bytes if it is not UTF-8.
    pub path: TreePath,
    pub operation: &'static str,
    /// The old path of a renamed file.
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

/// A row of `list`.
#[derive(Debug, Serialize)]
pub struct PlanSummary {
    pub plan_id: PlanId,
    /// The shortest unique suffix of the id.
    pub handle: String,
    /// The first line of its goal.
    pub goal: String,
    pub action: Option<String>,
    pub phase: &'static str,
    pub state: &'static str,
    /// The status word that people see.
    pub standing: &'static str,
    /// The number of the plan's events.
    pub version: u64,
    /// The plan waits for a person.
    pub needs_person: bool,
    pub updated_at: Timestamp,
    /// The command that continues it.
    pub next: Option<String>,
    /// The plan that this one undoes.
    pub undo_of: Option<PlanId>,
    /// The plan that undid this one.
    pub undone_by: Option<PlanId>,
    /// Only with `--cost`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<UsageView>,
}

impl PlanView {
    pub fn new(
        row: &PlanRow,
        changesets: &[(Changeset, Vec<ChangesetEntry>)],
        ledger: &BudgetLedger,
        completions: &BTreeMap<Verb, CompletedCommand>,
    ) -> Self {
        let plan = &row.plan;
        let verdict = row.current_verdict();
        Self {
            plan_id: plan.id,
            goal: plan.goal.to_string(),
            action: plan.action.as_ref().map(ToString::to_string),
            arguments: plan.arguments.iter().map(|(name, value)| (name.clone(), value.to_json())).collect(),
            phase: plan.phase().as_str(),
            state: plan.stage.state_name().as_str(),
            standing: ui::plan_standing(row).0,
            prepared: plan.is_prepared(),
            version: plan.version.0,
            epoch: plan.epoch.0,
            attempt: plan.attempt,
            reversion_count: plan.reversions,
            profile: plan.profile.as_str(),
            profile_source: plan.profile_source.as_str(),
            actors: json!({
                "strategy": plan.actors.strategy.to_string(),
                "execution": plan.actors.execution.to_string(),
                "invariant": plan.actors.invariant.as_ref().map(ToString::to_string),
            }),
            limits: json!(plan.limits),
            used: UsageView::new(&ledger.plan),
            read_only: plan.read_only,
            resources: plan
                .resources
                .iter()
                .map(|resource| {
                    json!({
                        "resource": resource.name,
                        "project": resource.project.to_string(),
                        "kind": resource.kind,
                        "target": resource.target,
                        "base": plan.base_commit(&resource.name),
                    })
                })
                .collect(),
            landed: plan.landed.iter().map(|step| json!(step)).collect(),
            origin: match plan.origin {
                PlanOrigin::Use => json!({ "kind": "use" }),
                PlanOrigin::UndoOf(id) => json!({ "kind": "undo_of", "plan_id": id }),
                PlanOrigin::RestOf(id) => json!({ "kind": "rest_of", "plan_id": id }),
            },
            needs_person: row.needs_person(),
            lease: row.lease.as_ref().map(|lease| LeaseView {
                owner: lease.owner.clone(),
                epoch: lease.epoch.0,
                expires_at: lease.expires_at,
            }),
            verdict: verdict.map(|verdict| {
                json!({ "gate": verdict.gate, "failed": verdict.failed, "at": verdict.at })
            }),
            question: plan.stage.question().map(|question| {
                json!({
                    "text": question.text.as_str(),
                    "asked_at": question.asked_at,
                    "deadline": question.deadline,
                })
            }),
            retry_at: plan.stage.queue_entry().and_then(|queued| queued.retry_at),
            report: plan.result.as_ref().and_then(|result| Some(result.report.as_ref()?.to_string())),
            ignored: ignored_by_resource(plan),
            approved_by: plan.valid_approval().map(|approval| approval.by.to_string()),
            waivers: plan
                .waivers
                .iter()
                .map(|waiver| {
                    json!({
                        "rule": waiver.rule.name,
                        "scope": waiver.rule.scope,
                        "reason": waiver.reason.as_str(),
                        "by": waiver.by.to_string(),
                        "at": waiver.at,
                    })
                })
                .collect(),
            timestamps: collect_timestamps(row, completions),
            changesets: changesets.iter().map(|(changeset, entries)| ChangesetView::new(changeset, entries)).collect(),
            error: error_value(row),
        }
    }
}

/// The ignored files that were found when the result was captured.
fn ignored_by_resource(plan: &plan::Plan) -> BTreeMap<String, IgnoredPaths> {
    let trees = plan.result.iter().flat_map(|result| &result.trees);
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

fn collect_timestamps(
    row: &PlanRow,
    completions: &BTreeMap<Verb, CompletedCommand>,
) -> BTreeMap<&'static str, Timestamp> {
    let plan = &row.plan;
    let mut stamps = BTreeMap::from([
        ("created_at", plan.created_at),
        ("updated_at", plan.updated_at),
    ]);
    let named = [
        (Verb::StartStrategize, "strategize_started_at"),
        (Verb::CompleteStrategize, "strategize_completed_at"),
        (Verb::ExecutePlan, "execute_entered_at"),
        (Verb::StartExecute, "execute_started_at"),
        (Verb::CompleteExecute, "execute_completed_at"),
        (Verb::ApplyPlan, "apply_entered_at"),
        (Verb::StartApply, "apply_started_at"),
        (Verb::CompleteApply, "applied_at"),
        (Verb::Cancel, "cancelled_at"),
    ];
    for (verb, name) in named {
        if let Some(done) = completions.get(&verb) {
            stamps.insert(name, done.at);
        }
    }
    stamps
}

fn error_value(row: &PlanRow) -> Option<Value> {
    if let Some(failure) = row.plan.stage.failure() {
        return Some(json!({
            "category": failure.category,
            "message": failure.message.as_str(),
            "retriable": failure.category.is_transient(),
            "at": failure.at,
        }));
    }
    if let PlanStage::Apply(ApplyState::Constrained(constraint)) = &row.plan.stage {
        return Some(json!({
            "category": constraint.kind,
            "message": constraint.message.as_str(),
            "paths": constraint.paths,
            "commits": constraint.commits,
            "at": constraint.at,
        }));
    }
    None
}
