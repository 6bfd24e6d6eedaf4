//! The referee brings to an end what the players left: whatever they did, every plan has a way out.

use lifecycle::{Call, Lifecycle, LifecycleError};
use plan::invariant::RuleScope;
use plan::stage::{ResultContent, StateName};
use plan::{Caller, Epoch, Phase, Plan, PlanId, Refusal, Span};
use store::PlanFilter;

use crate::check::{Kind, REFEREE, Violation};

/// More steps than any way out has.
const STEPS: usize = 60;

/// The referee.
fn referee() -> Call {
    Call::by(Caller::Person(REFEREE.to_owned()))
}

/// Takes every plan to its end. `wait` lets time pass, so that leases run out and retries become due.
pub fn drain(
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
        after = Some(last.plan.id);
        for row in page {
            stuck.extend(finish(lifecycle, row.plan.id, wait)?);
        }
    }
}

fn finish(
    lifecycle: &Lifecycle,
    id: PlanId,
    wait: &mut dyn FnMut(),
) -> Result<Option<Violation>, LifecycleError> {
    let mut held = None;
    let mut last_words = String::new();
    for _ in 0..STEPS {
        let plan = lifecycle.get_plan(id)?.plan;
        if plan.stage.is_final() {
            return Ok(None);
        }
        match step(lifecycle, &plan, &mut held) {
            Ok(()) => {}
            Err(LifecycleError::Refused(Refusal::NotDue { .. } | Refusal::LeaseRuns { .. })) => {
                wait()
            }
            Err(LifecycleError::Blocked(_)) => drop_rules(lifecycle, &plan)?,
            Err(LifecycleError::Refused(refusal)) => last_words = refusal.to_string(),
            Err(error) => return Err(error),
        }
    }
    let plan = lifecycle.get_plan(id)?.plan;
    Ok(Some(Violation {
        kind: Kind::Stuck,
        what: format!("it stays {} after {STEPS} tries: {last_words}", plan.stage),
        plan: Some(id),
        calls: Vec::new(),
        versions: Some(plan.version.0.saturating_sub(6)..=plan.version.0),
    }))
}

/// One step towards the end.
fn step(
    lifecycle: &Lifecycle,
    plan: &Plan,
    held: &mut Option<Epoch>,
) -> Result<(), LifecycleError> {
    let call = referee();
    let id = plan.id;
    match (plan.stage.state_name(), plan.phase(), *held) {
        (StateName::Queued, phase, _) => {
            let lease = Span::from_seconds(3600);
            let claim = match phase {
                Phase::Strategize => lifecycle.start_strategize(id, REFEREE, lease, &call)?,
                Phase::Execute => lifecycle.start_execute(id, REFEREE, lease, &call)?,
                Phase::Apply => lifecycle.start_apply(id, REFEREE, lease, &call)?,
            };
            *held = Some(claim.epoch());
        }
        (StateName::Processing, phase, Some(epoch)) if epoch == plan.epoch => {
            match phase {
                Phase::Strategize => lifecycle.complete_strategize(id, epoch, Vec::new(), &call)?,
                Phase::Execute => {
                    lifecycle.complete_execute(id, epoch, &ResultContent::default(), &call)?
                }
                Phase::Apply => lifecycle.complete_apply(id, epoch, Vec::new(), None, &call)?,
            };
        }
        (StateName::Processing, ..) => drop(lifecycle.reclaim_lease(id, &call)?),
        (StateName::AwaitingInput, ..) => {
            let text = if plan.is_prepared() { "again" } else { "go on" };
            lifecycle.answer_question(id, text, &call)?;
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

fn drop_rules(lifecycle: &Lifecycle, plan: &Plan) -> Result<(), LifecycleError> {
    let scope = RuleScope::Plan(plan.id);
    let book = lifecycle.rules_for_plan(plan)?;
    for rule in book.rules.iter().filter(|rule| rule.scope == scope) {
        lifecycle.remove_rule(scope.clone(), rule.draft.name.clone(), &referee())?;
    }
    Ok(())
}
