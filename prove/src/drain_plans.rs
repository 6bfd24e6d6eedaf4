//! Brings every plan to a final state after the clients have ended. Whatever the clients did, every plan must have a way
//! out.

use lifecycle::{Call, Lifecycle, LifecycleError};
use plan::command::{AnswerQuestion, CompleteApply, CompleteStrategize};
use plan::invariant::RuleScope;
use plan::stage::{ResultContent, StateName};
use plan::{Caller, Epoch, Phase, Plan, PlanId, Refusal, Span};
use store::PlanFilter;

use crate::check::{HARNESS_CALLER, Violation, ViolationKind};

/// More steps than the longest way to a final state.
const MAX_STEPS: usize = 60;

fn harness_call() -> Call {
    Call::by(Caller::Person(HARNESS_CALLER.to_owned()))
}

/// Takes every plan to a final state; returns a violation for each plan that does not get there. `wait` lets time pass,
/// so that leases expire and retries become due.
pub fn drain_plans(
    lifecycle: &Lifecycle,
    wait: &mut dyn FnMut(),
) -> Result<Vec<Violation>, LifecycleError> {
    let mut stuck = Vec::new();
    let mut after = None;
    loop {
        let page = lifecycle.list_plans(&PlanFilter::default(), after, 200)?;
        let Some(last) = page.last() else {
            return Ok(stuck);
        };
        after = Some(last.plan.id());
        for row in page {
            stuck.extend(drain_plan(lifecycle, row.plan.id(), wait)?);
        }
    }
}

fn drain_plan(
    lifecycle: &Lifecycle,
    plan_id: PlanId,
    wait: &mut dyn FnMut(),
) -> Result<Option<Violation>, LifecycleError> {
    let mut claimed_epoch = None;
    let mut last_refusal = String::new();
    for _ in 0..MAX_STEPS {
        let plan = lifecycle.get_plan(plan_id)?.plan;
        if plan.stage().is_final() {
            return Ok(None);
        }
        match take_step(lifecycle, &plan, &mut claimed_epoch) {
            Ok(()) => {}
            Err(LifecycleError::Refused(Refusal::NotDue { .. } | Refusal::LeaseRuns { .. })) => {
                wait()
            }
            Err(LifecycleError::Blocked(_)) => remove_plan_rules(lifecycle, &plan)?,
            Err(LifecycleError::Refused(refusal)) => last_refusal = refusal.to_string(),
            Err(error) => return Err(error),
        }
    }
    let plan = lifecycle.get_plan(plan_id)?.plan;
    Ok(Some(Violation {
        kind: ViolationKind::StuckPlan,
        message: format!(
            "still {} after {MAX_STEPS} steps: {last_refusal}",
            plan.stage()
        ),
        plan_id: Some(plan_id),
        calls: Vec::new(),
        versions: Some(plan.version().0.saturating_sub(6)..=plan.version().0),
    }))
}

/// Takes one step towards a final state.
fn take_step(
    lifecycle: &Lifecycle,
    plan: &Plan,
    claimed_epoch: &mut Option<Epoch>,
) -> Result<(), LifecycleError> {
    let call = harness_call();
    let id = plan.id();
    match (plan.stage().state_name(), plan.phase(), *claimed_epoch) {
        (StateName::Queued, phase, _) => {
            let lease = Span::from_seconds(3600);
            let claim = match phase {
                Phase::Strategize => {
                    lifecycle
                        .claims()
                        .start_strategize(id, HARNESS_CALLER, lease, &call)?
                }
                Phase::Execute => {
                    lifecycle
                        .claims()
                        .start_execute(id, HARNESS_CALLER, lease, &call)?
                }
                Phase::Apply => lifecycle
                    .claims()
                    .start_apply(id, HARNESS_CALLER, lease, &call)?,
            };
            *claimed_epoch = Some(claim.epoch());
        }
        (StateName::Processing, phase, Some(epoch)) if epoch == plan.epoch() => {
            match phase {
                Phase::Strategize => lifecycle.submit_command(
                    id,
                    CompleteStrategize::new(epoch, Vec::new()),
                    &call,
                )?,
                Phase::Execute => {
                    lifecycle.complete_execute(id, epoch, &ResultContent::default(), &call)?
                }
                Phase::Apply => lifecycle.submit_command(
                    id,
                    CompleteApply::new(epoch, Vec::new(), None),
                    &call,
                )?,
            };
        }
        (StateName::Processing, ..) => drop(lifecycle.leases().reclaim_lease(id, &call)?),
        (StateName::AwaitingInput, ..) => {
            let text = if plan.is_prepared() { "again" } else { "go on" };
            lifecycle.submit_command(id, AnswerQuestion::new(text), &call)?;
        }
        (StateName::Complete, Phase::Strategize, _) => drop(lifecycle.execute_plan(id, &call)?),
        (StateName::Complete, ..) => drop(lifecycle.apply_plan(id, &call)?),
        (StateName::Errored | StateName::Constrained, ..) => {
            lifecycle.retry_phase(id, false, None, &call)?;
        }
        (StateName::Applied | StateName::Cancelled, ..) => {}
    }
    Ok(())
}

fn remove_plan_rules(lifecycle: &Lifecycle, plan: &Plan) -> Result<(), LifecycleError> {
    let scope = RuleScope::Plan(plan.id());
    let book = lifecycle.rules().rules_for_plan(plan)?;
    for rule in book.rules.iter().filter(|rule| rule.scope == scope) {
        lifecycle
            .rules()
            .remove_rule(scope.clone(), rule.draft.name.clone(), &harness_call())?;
    }
    Ok(())
}
