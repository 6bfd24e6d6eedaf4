//! Plans and changesets as programs see them.

use std::collections::BTreeMap;

use plan::changeset::{Changeset, ChangesetEntry, TreePath};
use plan::ledger::{BudgetAccount, BudgetLedger};
use plan::plan::PlanOrigin;
use plan::stage::{ApplyState, IgnoredPaths};
use plan::{PlanId, PlanStage, Timestamp, Verb};
use serde::Serialize;
use serde_json::{Value, json};
use store::PlanRow;

use crate::ui;

/// The plan view of plumbing; stable.
#[derive(Debug, Serialize)]
pub struct PlanView {
    /// Its id.
    pub plan_id: PlanId,
    /// What it is for.
    pub goal: String,
    /// The action it was made of.
    pub action: Option<String>,
    /// The arguments given to that action.
    pub arguments: BTreeMap<String, Value>,
    /// Its phase.
    pub phase: &'static str,
    /// Its state.
    pub state: &'static str,
    /// As people see it.
    pub standing: &'static str,
    /// A stored intent is neither landed nor withdrawn.
    pub prepared: bool,
    /// The number of its events.
    pub version: u64,
    /// The current fencing number.
    pub epoch: u64,
    /// How often the phase was tried since it was entered.
    pub attempt: u32,
    /// How often it went back to strategize.
    pub reversion_count: u32,
    /// Where it stops and asks.
    pub profile: &'static str,
    /// Where that was said.
    pub profile_source: &'static str,
    /// Who works on it.
    pub actors: Value,
    /// What it may use; what is not there is not limited.
    pub limits: Value,
    /// What it used, what is set aside for whoever works on it, and what was charged unseen.
    pub used: UsageView,
    /// It may write nothing.
    pub read_only: bool,
    /// What it works on.
    pub resources: Vec<Value>,
    /// What was done to its targets, once it landed.
    pub landed: Vec<Value>,
    /// The plan it comes from.
    pub origin: Value,
    /// A person has to do something before it goes on.
    pub needs_person: bool,
    /// Who works, until when.
    pub lease: Option<LeaseView>,
    /// Why a gate did not open, if one holds it as it stands.
    pub verdict: Option<Value>,
    /// What is asked of a person.
    pub question: Option<Value>,
    /// Not before, after an automatic retry.
    pub retry_at: Option<Timestamp>,
    /// The report it ended with.
    pub report: Option<String>,
    /// What became of files that git ignores, by resource, where there are any.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub ignored: BTreeMap<String, IgnoredPaths>,
    /// Who approved the result as it stands.
    pub approved_by: Option<String>,
    /// Rules set aside.
    pub waivers: Vec<Value>,
    /// When what happened.
    pub timestamps: BTreeMap<&'static str, Timestamp>,
    /// What it changed.
    pub changesets: Vec<ChangesetView>,
    /// Why it halted.
    pub error: Option<Value>,
}

/// What a plan used.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct UsageView {
    /// Millionths of a US dollar.
    pub cost_micros: u64,
    /// Tokens, read and written.
    pub tokens: u64,
    /// Seconds of all runs.
    pub seconds: u64,
    /// Of the money, what is set aside for whoever works now.
    pub reserved_cost_micros: u64,
    /// Of the money, what was charged because a worker vanished without telling what it used.
    pub forfeited_cost_micros: u64,
}

impl UsageView {
    /// The view of a plan's account.
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

/// Who works, until when.
#[derive(Debug, Serialize)]
pub struct LeaseView {
    /// Who.
    pub owner: String,
    /// With which authority.
    pub epoch: u64,
    /// Until when, unless renewed.
    pub expires_at: Timestamp,
}

/// A changeset as programs see it.
#[derive(Debug, Serialize)]
pub struct ChangesetView {
    /// Its id.
    pub changeset_id: String,
    /// Its unit of work.
    pub node: String,
    /// The holder that opened it.
    pub epoch: u64,
    /// Is it closed?
    pub sealed: bool,
    /// Digest of its entries, once closed.
    pub digest: Option<String>,
    /// What it holds.
    pub entries: Vec<EntryView>,
}

/// A change as programs see it.
#[derive(Debug, Serialize)]
pub struct EntryView {
    /// The path; a list of bytes where it is not UTF-8.
    pub path: TreePath,
    /// What happened to it.
    pub operation: &'static str,
    /// Where it came from.
    pub from: Option<TreePath>,
    /// Hash before.
    pub before: Option<String>,
    /// Hash after.
    pub after: Option<String>,
    /// File mode after.
    pub mode: Option<String>,
    /// Who reported it.
    pub actor: Option<String>,
    /// With which tool.
    pub tool: Option<String>,
    /// The plan's resource it is in.
    pub resource: Option<String>,
    /// It was reported, and the tree does not show it.
    pub unseen: bool,
}

/// A plan in a list.
#[derive(Debug, Serialize)]
pub struct PlanSummary {
    /// Its id.
    pub plan_id: PlanId,
    /// The shortest end of the id that names only it.
    pub handle: String,
    /// The first line of its goal.
    pub goal: String,
    /// The action it was made of.
    pub action: Option<String>,
    /// Its phase.
    pub phase: &'static str,
    /// Its state.
    pub state: &'static str,
    /// As people see it.
    pub standing: &'static str,
    /// The number of its events.
    pub version: u64,
    /// A person has to do something before it goes on.
    pub needs_person: bool,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// The command to go on with.
    pub next: Option<String>,
    /// The plan that it takes back.
    pub undo_of: Option<PlanId>,
    /// The plan that took it back.
    pub undone_by: Option<PlanId>,
    /// What it used, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<UsageView>,
}

impl PlanView {
    /// The view of a plan, its changesets and its account.
    pub fn new(
        row: &PlanRow,
        changesets: &[(Changeset, Vec<ChangesetEntry>)],
        ledger: &BudgetLedger,
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
            timestamps: collect_timestamps(row),
            changesets: changesets.iter().map(|(changeset, entries)| ChangesetView::new(changeset, entries)).collect(),
            error: error_value(row),
        }
    }
}

/// What became of ignored files when the result was captured.
fn ignored_by_resource(plan: &plan::Plan) -> BTreeMap<String, IgnoredPaths> {
    let trees = plan.result.iter().flat_map(|result| &result.trees);
    let trees = trees.filter(|tree| !tree.ignored.is_empty());
    trees
        .map(|tree| (tree.resource.clone(), tree.ignored.clone()))
        .collect()
}

impl ChangesetView {
    /// The view of a changeset and its entries.
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

fn collect_timestamps(row: &PlanRow) -> BTreeMap<&'static str, Timestamp> {
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
        if let Some(done) = plan.done.get(&verb) {
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
