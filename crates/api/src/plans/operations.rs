//! What people decide about a plan: approve, answer, retry, revise, revert, waive, cancel, undo.
//!
//! Each function commits one command. Working on the plan afterwards, or landing it, is the task of a driver.

use std::collections::BTreeSet;

use lifecycle::{Call, Lifecycle, LifecycleError, OperationOutcome, UndoPlan};
use plan::changeset::{InvalidTreePath, TreePath};
use plan::command::{AnswerPermission, AnswerQuestion, RevertPlan, ReviseWork};
use plan::invariant::RuleName;
use plan::judgement::RuleOutcome;
use plan::ledger::BudgetShortfall;
use plan::review::CommentId;
use plan::stage::WorkState;
use plan::{Digest, PlanId, PlanStage};
use serde::Deserialize;

use crate::landing::LandingRequest;
use crate::plan_config::LimitOverrides;

/// Approves the result without landing it.
pub fn approve_result(
    lifecycle: &Lifecycle,
    plan_id: PlanId,
    request: &LandingRequest,
    call: &Call,
) -> Result<OperationOutcome, LifecycleError> {
    let plan = lifecycle.get_plan(plan_id)?.plan;
    lifecycle
        .landing()
        .approve_result(plan_id, &request.options_to_approve(&plan), call)
}

/// Approves the result and asks the engine to land it. Whoever drives the plan next, such as a worker, lands it;
/// follow its events to see how that ends.
pub fn request_landing(
    lifecycle: &Lifecycle,
    plan_id: PlanId,
    request: &LandingRequest,
    call: &Call,
) -> Result<OperationOutcome, LifecycleError> {
    let plan = lifecycle.get_plan(plan_id)?.plan;
    lifecycle
        .landing()
        .request_landing(plan_id, &request.options_to_land(&plan), call)
}

/// A person's answer to an `ask` rule.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RulingRequest {
    pub rule: RuleName,
    /// Why the rule does not hold. Without a reason, it holds.
    #[serde(default)]
    pub reject: Option<String>,
}

/// Records a person's verdict on an `ask` rule, for the plan in its current state.
pub fn record_ruling(
    lifecycle: &Lifecycle,
    plan_id: PlanId,
    request: &RulingRequest,
    call: &Call,
) -> Result<OperationOutcome, LifecycleError> {
    let outcome = match &request.reject {
        Some(reason) => RuleOutcome::Failed(reason.clone()),
        None => RuleOutcome::Held,
    };
    lifecycle
        .rules()
        .record_ruling(plan_id, request.rule.clone(), outcome, call)
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerRequest {
    pub text: String,
}

/// Answers the open question.
pub fn answer_question(
    lifecycle: &Lifecycle,
    plan_id: PlanId,
    request: &AnswerRequest,
    call: &Call,
) -> Result<OperationOutcome, LifecycleError> {
    lifecycle.submit_command(plan_id, AnswerQuestion::new(request.text.clone()), call)
}

/// A person's answer to an agent that waits to make a tool call.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PermissionDecision {
    /// `request` of the permission that was shown, or at least its first 12 digits.
    pub request: String,
    pub allow: bool,
}

/// The fewest digits that name a permission request.
pub const MIN_REQUEST_DIGITS: usize = 12;

/// Why a permission request cannot be answered.
#[derive(Debug, thiserror::Error)]
pub enum PermissionDecisionError {
    #[error("`{0}` does not name a request: it needs at least {MIN_REQUEST_DIGITS} digits of one")]
    BadRequest(String),
    #[error(transparent)]
    Engine(#[from] LifecycleError),
}

/// Allows or rejects the tool call that an agent waits for.
pub fn answer_permission(
    lifecycle: &Lifecycle,
    plan_id: PlanId,
    decision: &PermissionDecision,
    call: &Call,
) -> Result<OperationOutcome, PermissionDecisionError> {
    let named = decision.request.to_ascii_lowercase();
    let is_digest_start = named.bytes().all(|byte| byte.is_ascii_hexdigit());
    if named.len() < MIN_REQUEST_DIGITS || named.len() > 64 || !is_digest_start {
        return Err(PermissionDecisionError::BadRequest(
            decision.request.clone(),
        ));
    }
    let row = lifecycle.get_plan(plan_id)?;
    let holder = row.plan.stage().holder();
    let question = holder.and_then(|holder| holder.permission.as_deref());
    // A request that is not the last one is refused by the engine, with its reason.
    let digest = question
        .map(|question| question.digest)
        .filter(|digest| digest.to_string().starts_with(&named))
        .unwrap_or(Digest::ZERO);
    let command = AnswerPermission {
        digest,
        allowed: decision.allow,
    };
    Ok(lifecycle.submit_command(plan_id, command, call)?)
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetryRequest {
    /// Discard the work so far.
    pub fresh: bool,
    /// Limits to change. The others stay.
    pub limits: LimitOverrides,
}

/// Queues the phase of a halted plan again.
pub fn retry_plan(
    lifecycle: &Lifecycle,
    plan_id: PlanId,
    request: &RetryRequest,
    call: &Call,
) -> Result<OperationOutcome, LifecycleError> {
    let limits = match request.limits.is_any_set() {
        false => None,
        true => {
            let current = lifecycle.get_plan(plan_id)?.plan.limits();
            Some(request.limits.apply_to(current))
        }
    };
    lifecycle.retry_phase(plan_id, request.fresh, limits, call)
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReviseRequest {
    /// Feedback for the agent. May be empty if comments are sent.
    pub text: String,
    /// Draft comments of the caller's review to send. They are deleted in the same commit.
    #[serde(default)]
    pub comments: BTreeSet<CommentId>,
    /// Undo the changes to paths that match these globs. For a plan without targets, these are paths.
    #[serde(default)]
    pub drop: Vec<String>,
    /// Undo the changes to exactly these paths.
    #[serde(default)]
    pub drop_paths: Vec<TreePath>,
}

/// Why a result cannot be sent back.
#[derive(Debug, thiserror::Error)]
pub enum ReviseError {
    #[error("no changed path matches `{0}`")]
    NoPathMatches(String),
    #[error(transparent)]
    InvalidPath(#[from] InvalidTreePath),
    /// No run can follow, so the result would be given up for nothing.
    #[error("{0}")]
    OverBudget(BudgetShortfall),
    #[error(transparent)]
    Engine(#[from] LifecycleError),
}

/// Sends a result back to the agent with feedback. Keeps the result if the budget has nothing left for another run.
pub fn revise_plan(
    lifecycle: &Lifecycle,
    plan_id: PlanId,
    request: &ReviseRequest,
    call: &Call,
) -> Result<OperationOutcome, ReviseError> {
    let plan = lifecycle.get_plan(plan_id)?.plan;
    if matches!(plan.stage(), PlanStage::Execute(WorkState::Complete)) {
        let definition = plan.actor_definition(&plan.actors().execution);
        let metering = definition.map(actors::metering).unwrap_or_default();
        let shortfall = lifecycle.budgets().check_over_budget(&plan, metering)?;
        if let Some(shortfall) = shortfall.filter(BudgetShortfall::is_spent) {
            return Err(ReviseError::OverBudget(shortfall));
        }
    }
    revise_plan_by_hand(lifecycle, plan_id, request, call)
}

/// Takes a result back for a person to edit, who needs no budget.
pub fn revise_plan_by_hand(
    lifecycle: &Lifecycle,
    plan_id: PlanId,
    request: &ReviseRequest,
    call: &Call,
) -> Result<OperationOutcome, ReviseError> {
    let mut dropped = request.drop_paths.clone();
    for glob in &request.drop {
        dropped.extend(match_changed_paths(lifecycle, plan_id, glob)?);
    }
    let revise = ReviseWork {
        feedback: request.text.clone(),
        comments: request.comments.clone(),
        dropped,
    };
    Ok(lifecycle.send_back(plan_id, revise, call)?)
}

/// Returns the changed paths that match a glob. For a plan without targets, the glob is taken as a path.
pub fn match_changed_paths(
    lifecycle: &Lifecycle,
    plan_id: PlanId,
    glob: &str,
) -> Result<Vec<TreePath>, ReviseError> {
    if !lifecycle.get_plan(plan_id)?.plan.has_targets() {
        return Ok(vec![TreePath::new(glob.as_bytes().to_vec())?]);
    }
    let mut found = Vec::new();
    for changes in lifecycle.sandboxes().view_changes(plan_id)? {
        let matching = changes.comparison.list_changed_paths(&[glob.to_owned()]);
        found.extend(matching.map_err(LifecycleError::Sandbox)?);
    }
    match found.is_empty() {
        true => Err(ReviseError::NoPathMatches(glob.to_owned())),
        false => Ok(found),
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RevertRequest {
    /// Passed to the agent.
    pub reason: String,
}

/// Sends a plan back to strategize.
pub fn revert_plan(
    lifecycle: &Lifecycle,
    plan_id: PlanId,
    request: &RevertRequest,
    call: &Call,
) -> Result<OperationOutcome, LifecycleError> {
    lifecycle.submit_command(plan_id, RevertPlan::new(request.reason.clone()), call)
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WaiveRequest {
    pub rule: RuleName,
    pub reason: String,
}

/// Waives a rule for this plan.
pub fn waive_rule(
    lifecycle: &Lifecycle,
    plan_id: PlanId,
    request: &WaiveRequest,
    call: &Call,
) -> Result<OperationOutcome, LifecycleError> {
    lifecycle
        .rules()
        .waive_rule(plan_id, request.rule.clone(), &request.reason, call)
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CancelRequest {
    pub reason: Option<String>,
}

/// Ends a plan without landing it.
pub fn cancel_plan(
    lifecycle: &Lifecycle,
    plan_id: PlanId,
    request: &CancelRequest,
    call: &Call,
) -> Result<OperationOutcome, LifecycleError> {
    lifecycle.cancel_plan(plan_id, request.reason.as_deref(), call)
}

/// Creates the plan that undoes a landed one, or finds the one that is unfinished. Landing it is a second step.
pub fn undo_plan(
    lifecycle: &Lifecycle,
    plan_id: PlanId,
    call: &Call,
) -> Result<UndoPlan, LifecycleError> {
    lifecycle.landing().undo_plan(plan_id, call)
}
