//! Makes calls through the library.

use lifecycle::{Claim, Lifecycle, LifecycleError, OperationOutcome, UseRequest};
use plan::changeset::{ChangesetEntry, Node, PathOperation, TreePath};
use plan::command::{
    AnswerQuestion, AskPerson, ChangesetSelector, CompleteApply, CompleteStrategize,
    ConstrainApply, ExpireQuestion, FailRun, RecordChange, ReleaseLease, RenewLease, RevertPlan,
    SealChangeset, WithdrawApply,
};
use plan::invariant::{Gate, RuleCheck, RuleDraft, RuleScope};
use plan::stage::{ConstraintKind, FailureCategory, ResultContent};
use plan::{Caller, Epoch, Phase, PlanId, Refusal, Span};
use store::{PlanFilter, PlanRow};

use crate::operation::{CallAnswer, CallReceipt, CallRefusal, ClientCall, ObservedPlan, Operation};

/// The name of the action that all plans use.
pub const ACTION_NAME: &str = "proof";

/// How many plans a client lists at a time.
const PAGE_SIZE: usize = 12;

/// Makes a call and converts the result to an answer.
pub fn perform_call(lifecycle: &Lifecycle, call: &ClientCall) -> CallAnswer {
    match try_call(lifecycle, call) {
        Ok(answer) => answer,
        Err(error) => answer_for_error(error),
    }
}

fn try_call(lifecycle: &Lifecycle, call: &ClientCall) -> Result<CallAnswer, LifecycleError> {
    let caller = call.id.to_string();
    let mut by = lifecycle::Call::by(match call.by_person {
        true => Caller::Person(caller),
        false => Caller::Worker(caller),
    });
    if let Some(key) = &call.key {
        // Every call has a name of its own, and repeats the key of an earlier one.
        by = by.with_shared_key(key);
    }
    let by = &by;
    let span_of_ms = |ms: u32| Span(i64::from(ms) * 1000);
    let label = call.label();
    let text = label.as_str();
    let result = match call.operation.clone() {
        Operation::Use => lifecycle.use_action(use_request(), by)?,
        Operation::UseAndStart { lease_ms } => {
            let claim =
                lifecycle
                    .claims()
                    .use_and_start(use_request(), text, span_of_ms(lease_ms), by)?;
            claim.outcome().clone()
        }
        Operation::Start {
            plan_id,
            phase,
            lease_ms,
        } => {
            let lease = span_of_ms(lease_ms);
            let claim: Claim = match phase {
                Phase::Strategize => lifecycle
                    .claims()
                    .start_strategize(plan_id, text, lease, by)?,
                Phase::Execute => lifecycle.claims().start_execute(plan_id, text, lease, by)?,
                Phase::Apply => lifecycle.claims().start_apply(plan_id, text, lease, by)?,
            };
            claim.outcome().clone()
        }
        Operation::Complete {
            plan_id,
            phase,
            epoch,
        } => {
            let epoch = Epoch(epoch);
            match phase {
                Phase::Strategize => lifecycle.submit_command(
                    plan_id,
                    CompleteStrategize::new(epoch, Vec::new()),
                    by,
                )?,
                Phase::Execute => {
                    let result = ResultContent {
                        report: Some(format!("done by {label}").into()),
                        ..ResultContent::default()
                    };
                    lifecycle.complete_execute(plan_id, epoch, &result, by)?
                }
                Phase::Apply => lifecycle.submit_command(
                    plan_id,
                    CompleteApply::new(epoch, Vec::new(), None),
                    by,
                )?,
            }
        }
        Operation::ExecutePlan { plan_id } => lifecycle.execute_plan(plan_id, by)?,
        Operation::ApplyPlan { plan_id } => lifecycle.apply_plan(plan_id, by)?,
        Operation::Approve { plan_id } => {
            lifecycle
                .landing()
                .approve_result(plan_id, &plan::LandingOptions::default(), by)?
        }
        Operation::PrepareApply { plan_id, epoch } => {
            lifecycle
                .landing()
                .prepare_apply(plan_id, Epoch(epoch), &[], by)?
        }
        Operation::WithdrawApply { plan_id, epoch } => lifecycle.submit_command(
            plan_id,
            WithdrawApply {
                epoch: Epoch(epoch),
            },
            by,
        )?,
        Operation::Constrain { plan_id, epoch } => lifecycle.submit_command(
            plan_id,
            ConstrainApply {
                epoch: Epoch(epoch),
                kind: ConstraintKind::Conflict,
                message: text.to_owned(),
                paths: Vec::new(),
                commits: Vec::new(),
            },
            by,
        )?,
        Operation::Renew {
            plan_id,
            epoch,
            lease_ms,
        } => lifecycle.submit_command(
            plan_id,
            RenewLease::new(Epoch(epoch), span_of_ms(lease_ms)),
            by,
        )?,
        Operation::Release { plan_id, epoch } => lifecycle.submit_command(
            plan_id,
            ReleaseLease {
                epoch: Epoch(epoch),
            },
            by,
        )?,
        Operation::Reclaim { plan_id } => lifecycle.leases().reclaim_lease(plan_id, by)?,
        Operation::Fail {
            plan_id,
            epoch,
            transient,
        } => {
            let category = match transient {
                true => FailureCategory::Transient,
                false => FailureCategory::Actor,
            };
            lifecycle.submit_command(plan_id, FailRun::new(Epoch(epoch), category, text), by)?
        }
        Operation::Ask {
            plan_id,
            epoch,
            timeout_ms,
        } => lifecycle.submit_command(
            plan_id,
            AskPerson::new(Epoch(epoch), text, timeout_ms.map(span_of_ms)),
            by,
        )?,
        Operation::Answer { plan_id } => {
            lifecycle.submit_command(plan_id, AnswerQuestion::new(text), by)?
        }
        Operation::ExpireQuestion { plan_id } => {
            lifecycle.submit_command(plan_id, ExpireQuestion, by)?
        }
        Operation::Retry { plan_id } => lifecycle.retry_phase(plan_id, false, None, by)?,
        Operation::Revise { plan_id } => lifecycle.revise_plan(plan_id, text, Vec::new(), by)?,
        Operation::Revert { plan_id } => {
            lifecycle.submit_command(plan_id, RevertPlan::new(text), by)?
        }
        Operation::Cancel { plan_id } => lifecycle.cancel_plan(plan_id, Some(text), by)?,
        Operation::OpenChangeset {
            plan_id,
            epoch,
            node,
        } => lifecycle.open_changeset(plan_id, Epoch(epoch), parse_node(&node), by)?,
        Operation::RecordChange {
            plan_id,
            epoch,
            node,
        } => {
            let path = TreePath::new(label.clone()).expect("BUG: a call's name is a path");
            let entry = ChangesetEntry::new(path, PathOperation::Create);
            let changeset = ChangesetSelector::Node(parse_node(&node));
            lifecycle.submit_command(
                plan_id,
                RecordChange::new(Epoch(epoch), changeset, entry),
                by,
            )?
        }
        Operation::SealChangeset {
            plan_id,
            epoch,
            changeset,
        } => lifecycle.submit_command(plan_id, SealChangeset::new(Epoch(epoch), changeset), by)?,
        Operation::AddRule {
            plan_id,
            rule,
            holds,
        } => {
            let draft = RuleDraft {
                name: rule.parse().expect("BUG: the rule has a good name"),
                check: RuleCheck::Expr(holds.to_string()),
                at: vec![Gate::Strategize, Gate::Execute, Gate::Apply],
                advisory: false,
                non_overridable: false,
            };
            lifecycle
                .rules()
                .add_rule(RuleScope::Plan(plan_id), draft, by)?;
            return Ok(answer_without_version(plan_id));
        }
        Operation::RemoveRule { plan_id, rule } => {
            let rule = rule.parse().expect("BUG: the rule has a good name");
            lifecycle
                .rules()
                .remove_rule(RuleScope::Plan(plan_id), rule, by)?;
            return Ok(answer_without_version(plan_id));
        }
        Operation::Show { plan_id } => {
            return Ok(CallAnswer::Observed(vec![observe_plan(
                &lifecycle.get_plan(plan_id)?,
            )]));
        }
        Operation::List => {
            let rows = lifecycle.list_plans(&PlanFilter::default(), None, PAGE_SIZE)?;
            return Ok(CallAnswer::Observed(
                rows.iter().map(observe_plan).collect(),
            ));
        }
    };
    Ok(answer_for_outcome(&result))
}

fn use_request() -> UseRequest {
    UseRequest {
        action: Some(
            ACTION_NAME
                .parse()
                .expect("BUG: the action has a good name"),
        ),
        ..UseRequest::default()
    }
}

/// Converts a stored plan to the form in which clients record it.
pub fn observe_plan(row: &PlanRow) -> ObservedPlan {
    ObservedPlan {
        plan_id: row.plan.id(),
        version: row.plan.version().0,
        stage: strip_prepared(&row.plan.stage().to_string()),
        epoch: Some(row.plan.epoch().0),
        lease: Some(row.lease.as_ref().map(|lease| lease.epoch.0)),
    }
}

/// Phase and state without the `prepared` suffix, which the program does not show.
pub fn strip_prepared(stage: &str) -> String {
    stage.split(',').next().unwrap_or(stage).to_owned()
}

fn parse_node(node: &str) -> Node {
    node.parse().expect("BUG: the node has a good name")
}

/// The answer to an operation that neither changes nor reads the plan itself.
fn answer_without_version(plan_id: PlanId) -> CallAnswer {
    CallAnswer::Done(CallReceipt {
        plan_id: Some(plan_id),
        version: None,
        epoch: None,
        changeset: None,
        repeated: false,
    })
}

fn answer_for_outcome(outcome: &OperationOutcome) -> CallAnswer {
    CallAnswer::Done(CallReceipt {
        plan_id: outcome.receipt.plan,
        version: outcome.receipt.version.map(|version| version.0),
        epoch: outcome.receipt.epoch.map(|epoch| epoch.0),
        changeset: outcome.receipt.changeset,
        repeated: outcome.repeated,
    })
}

fn answer_for_error(error: LifecycleError) -> CallAnswer {
    let refusal_for = |reason: String| CallRefusal {
        reason,
        ..CallRefusal::default()
    };
    match error {
        LifecycleError::Refused(refusal) => {
            let mut answer = refusal_for(refusal.to_string());
            match refusal {
                Refusal::WrongState { stage, .. } => answer.stage = Some(strip_prepared(&stage)),
                Refusal::Final {
                    state: "applied", ..
                } => answer.stage = Some("apply/applied".to_owned()),
                Refusal::NoSuchPlan(_) => answer.plan_missing = true,
                Refusal::Fenced { current, .. } => {
                    answer.fenced = true;
                    answer.epoch = Some(current.0);
                }
                Refusal::Held { holder, .. } => answer.epoch = Some(holder.epoch.0),
                _ => {}
            }
            CallAnswer::Refused(answer)
        }
        LifecycleError::Blocked(_) => CallAnswer::Blocked,
        LifecycleError::KeyReused { .. }
        | LifecycleError::InvalidRule(_)
        | LifecycleError::UnreadableRules(_)
        | LifecycleError::Sandbox(_)
        | LifecycleError::NoLocalHost
        | LifecycleError::WaitingForHost { .. }
        | LifecycleError::ResourceGone { .. }
        | LifecycleError::LandedOnBranch { .. }
        | LifecycleError::Stopped => CallAnswer::Refused(refusal_for(error.to_string())),
        LifecycleError::Store(error) => CallAnswer::Failed(error.to_string()),
        LifecycleError::CommitUnknown(error) => CallAnswer::Unknown(error.to_string()),
    }
}
