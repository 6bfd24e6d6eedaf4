//! Operations through the library.

use lifecycle::{Claim, Lifecycle, LifecycleError, OperationOutcome, UseRequest};
use plan::changeset::{ChangesetEntry, Node, PathOperation as Change, TreePath};
use plan::command::ChangesetSelector as Target;
use plan::invariant::{Gate, RuleCheck, RuleDraft, RuleScope};
use plan::stage::{ConstraintKind, FailureCategory, ResultContent};
use plan::{Caller, Epoch, Phase, PlanId, Refusal, Span};
use store::{PlanFilter, PlanRow};

use crate::operation::{Answer, Call, Operation, Receipt, Refused, Seen};

/// The action all plans are made of.
pub const ACTION: &str = "proof";

/// How many plans a player sees at a time.
const PAGE: usize = 12;

/// Makes the call and tells what was answered.
pub fn perform(lifecycle: &Lifecycle, call: &Call) -> Answer {
    match attempt(lifecycle, call) {
        Ok(answer) => answer,
        Err(error) => failed(error),
    }
}

fn attempt(lifecycle: &Lifecycle, call: &Call) -> Result<Answer, LifecycleError> {
    let caller = call.id.to_string();
    let mut by = lifecycle::Call::by(match call.by_person {
        true => Caller::Person(caller),
        false => Caller::Worker(caller),
    });
    if let Some(key) = &call.key {
        by = by.with_key(key);
    }
    let by = &by;
    let ms = |ms: u32| Span(i64::from(ms) * 1000);
    let label = call.label();
    let text = label.as_str();
    let result = match call.operation.clone() {
        Operation::Use => lifecycle.use_action(request(), by)?,
        Operation::UseAndStart { lease_ms } => {
            let claim = lifecycle.use_and_start(request(), text, ms(lease_ms), by)?;
            claim.outcome().clone()
        }
        Operation::Start {
            plan,
            phase,
            lease_ms,
        } => {
            let lease = ms(lease_ms);
            let claim: Claim = match phase {
                Phase::Strategize => lifecycle.start_strategize(plan, text, lease, by)?,
                Phase::Execute => lifecycle.start_execute(plan, text, lease, by)?,
                Phase::Apply => lifecycle.start_apply(plan, text, lease, by)?,
            };
            claim.outcome().clone()
        }
        Operation::Complete { plan, phase, epoch } => {
            let epoch = Epoch(epoch);
            match phase {
                Phase::Strategize => lifecycle.complete_strategize(plan, epoch, Vec::new(), by)?,
                Phase::Execute => {
                    let result = ResultContent {
                        report: Some(format!("done by {label}").into()),
                        ..ResultContent::default()
                    };
                    lifecycle.complete_execute(plan, epoch, &result, by)?
                }
                Phase::Apply => lifecycle.complete_apply(plan, epoch, Vec::new(), None, by)?,
            }
        }
        Operation::ExecutePlan { plan } => lifecycle.execute_plan(plan, by)?,
        Operation::ApplyPlan { plan } => lifecycle.apply_plan(plan, by)?,
        Operation::Approve { plan } => {
            lifecycle.approve_result(plan, &plan::LandingOptions::default(), by)?
        }
        Operation::PrepareApply { plan, epoch } => {
            lifecycle.prepare_apply(plan, Epoch(epoch), &[], by)?
        }
        Operation::WithdrawApply { plan, epoch } => {
            lifecycle.withdraw_apply(plan, Epoch(epoch), by)?
        }
        Operation::Constrain { plan, epoch } => lifecycle.constrain_landing(
            plan,
            Epoch(epoch),
            ConstraintKind::Conflict,
            text,
            Vec::new(),
            by,
        )?,
        Operation::Renew {
            plan,
            epoch,
            lease_ms,
        } => lifecycle.renew_lease(plan, Epoch(epoch), ms(lease_ms), by)?,
        Operation::Release { plan, epoch } => lifecycle.release_lease(plan, Epoch(epoch), by)?,
        Operation::Reclaim { plan } => lifecycle.reclaim_lease(plan, by)?,
        Operation::Fail {
            plan,
            epoch,
            transient,
        } => {
            let category = match transient {
                true => FailureCategory::Transient,
                false => FailureCategory::Actor,
            };
            lifecycle.fail_work(plan, Epoch(epoch), category, text, by)?
        }
        Operation::Ask {
            plan,
            epoch,
            patience_ms,
        } => lifecycle.ask_question(plan, Epoch(epoch), text, patience_ms.map(ms), by)?,
        Operation::Answer { plan } => lifecycle.answer_question(plan, text, by)?,
        Operation::ExpireQuestion { plan } => lifecycle.expire_question(plan, by)?,
        Operation::Retry { plan } => lifecycle.retry_phase(plan, false, None, by)?,
        Operation::Revise { plan } => lifecycle.revise_plan(plan, text, Vec::new(), by)?,
        Operation::Revert { plan } => lifecycle.revert_to_strategize(plan, text, by)?,
        Operation::Cancel { plan } => lifecycle.cancel_plan(plan, Some(text), by)?,
        Operation::OpenChangeset { plan, epoch, node } => {
            lifecycle.open_changeset(plan, Epoch(epoch), named(&node), by)?
        }
        Operation::RecordChange { plan, epoch, node } => {
            let path = TreePath::new(label.clone()).expect("BUG: a call's name is a path");
            let entry = ChangesetEntry::new(path, Change::Create);
            let into = Target::Node(named(&node));
            lifecycle.record_change(plan, Epoch(epoch), into, entry, by)?
        }
        Operation::SealChangeset {
            plan,
            epoch,
            changeset,
        } => lifecycle.seal_changeset(plan, Epoch(epoch), changeset, by)?,
        Operation::AddRule { plan, rule, holds } => {
            let draft = RuleDraft {
                name: rule.parse().expect("BUG: the rule has a good name"),
                check: RuleCheck::Expr(holds.to_string()),
                at: vec![Gate::Strategize, Gate::Execute, Gate::Apply],
                advisory: false,
                non_overridable: false,
            };
            lifecycle.add_rule(RuleScope::Plan(plan), draft, by)?;
            return Ok(beside(plan));
        }
        Operation::RemoveRule { plan, rule } => {
            let rule = rule.parse().expect("BUG: the rule has a good name");
            lifecycle.remove_rule(RuleScope::Plan(plan), rule, by)?;
            return Ok(beside(plan));
        }
        Operation::Look { plan } => {
            return Ok(Answer::Saw(vec![seen(&lifecycle.get_plan(plan)?)]));
        }
        Operation::List => {
            let rows = lifecycle.list_plans(&PlanFilter::default(), None, PAGE)?;
            return Ok(Answer::Saw(rows.iter().map(seen).collect()));
        }
    };
    Ok(done(&result))
}

fn request() -> UseRequest {
    UseRequest {
        action: Some(ACTION.parse().expect("BUG: the action has a good name")),
        ..UseRequest::default()
    }
}

/// A plan as a player writes it down.
pub fn seen(row: &PlanRow) -> Seen {
    Seen {
        plan: row.plan.id,
        version: row.plan.version.0,
        stage: plain(&row.plan.stage.to_string()),
        epoch: Some(row.plan.epoch.0),
        lease: Some(row.lease.as_ref().map(|lease| lease.epoch.0)),
    }
}

/// Phase and state, without whether it is prepared, which the program does not show.
pub fn plain(stage: &str) -> String {
    stage.split(',').next().unwrap_or(stage).to_owned()
}

fn named(node: &str) -> Node {
    node.parse().expect("BUG: the node has a good name")
}

/// Done, beside the plan: it neither moved nor was it read.
fn beside(plan: PlanId) -> Answer {
    Answer::Done(Receipt {
        plan: Some(plan),
        version: None,
        epoch: None,
        changeset: None,
        repeated: false,
    })
}

fn done(done: &OperationOutcome) -> Answer {
    Answer::Done(Receipt {
        plan: done.receipt.plan,
        version: done.receipt.version.map(|version| version.0),
        epoch: done.receipt.epoch.map(|epoch| epoch.0),
        changeset: done.receipt.changeset,
        repeated: done.repeated,
    })
}

fn failed(error: LifecycleError) -> Answer {
    let refused = |why: String| Refused {
        why,
        ..Refused::default()
    };
    match error {
        LifecycleError::Refused(refusal) => {
            let mut told = refused(refusal.to_string());
            match refusal {
                Refusal::WrongState { stage, .. } => told.stage = Some(plain(&stage)),
                Refusal::Final {
                    state: "applied", ..
                } => told.stage = Some("apply/applied".to_owned()),
                Refusal::NoSuchPlan(_) => told.absent = true,
                Refusal::Fenced { current, .. } => {
                    told.fenced = true;
                    told.epoch = Some(current.0);
                }
                Refusal::Held { holder, .. } => told.epoch = Some(holder.epoch.0),
                _ => {}
            }
            Answer::Refused(told)
        }
        LifecycleError::Blocked(_) => Answer::Blocked,
        LifecycleError::KeyReused { .. }
        | LifecycleError::InvalidRule(_)
        | LifecycleError::UnreadableRules(_)
        | LifecycleError::Sandbox(_)
        | LifecycleError::NoLocalHost
        | LifecycleError::WaitingForHost { .. }
        | LifecycleError::ResourceGone { .. }
        | LifecycleError::LandedOnBranch { .. }
        | LifecycleError::Stopped => Answer::Refused(refused(error.to_string())),
        LifecycleError::Store(error) => Answer::Failed(error.to_string()),
        LifecycleError::CommitUnknown(error) => Answer::Unknown(error.to_string()),
    }
}
