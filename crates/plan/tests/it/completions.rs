//! The last completion of a verb, looked up in the log. The reference keeps all of them up to date
//! with every event, as plans once did; the lookup must give the same answers.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use planwright_plan as plan;

use plan::completion::{CompletedCommand, CompletionSearch, KnownCompletions, collect_completions};
use plan::decide::{DecisionRequest, decide_batch};
use plan::event::RemovedChangeResolution;
use plan::plan::PlanOrigin;
use plan::{Epoch, Event, Phase, Plan, ReceiptOutcome, RecordedEvent, Refusal, Verb, evolve};

use crate::spot::Spot;
use crate::world::{CommandInput, PlanWorld, ada, worker};

/// Adds events of a plan to the completions. Every verb has an entry afterwards.
pub fn fold_completions(
    known: &mut KnownCompletions,
    mut plan: Option<Plan>,
    events: &[RecordedEvent],
) {
    for verb in Verb::ALL {
        known.entry(*verb).or_insert(None);
    }
    for recorded in events {
        let holder = plan.as_ref().and_then(|plan| plan.stage().holder());
        let held_epoch = holder.map(|holder| holder.epoch);
        match &recorded.event {
            Event::ApplyPrepared { .. } => known.insert(Verb::WithdrawApply, None),
            Event::ApplyWithdrawn { .. }
            | Event::Answered {
                fate: None | Some(RemovedChangeResolution::Again | RemovedChangeResolution::Drop),
                ..
            } => known.insert(Verb::PrepareApply, None),
            _ => None,
        };
        if let Some((verb, epoch)) = completed_verb(&recorded.event, held_epoch) {
            let completed = CompletedCommand {
                at: recorded.at,
                by: recorded.by.clone(),
                epoch,
            };
            known.insert(verb, Some(completed));
        }
        plan = Some(evolve(plan, recorded).unwrap());
    }
}

fn completed_verb(event: &Event, held_epoch: Option<Epoch>) -> Option<(Verb, Option<Epoch>)> {
    Some(match event {
        Event::GateHeld { .. } | Event::DecisionsRecorded { .. } | Event::RetryScheduled { .. } => {
            return None;
        }
        Event::Created(created) => match created.origin {
            PlanOrigin::Use => (Verb::Use, None),
            PlanOrigin::UndoOf(_) => (Verb::Undo, None),
            PlanOrigin::RestOf(_) => return None,
        },
        Event::Claimed { phase, epoch, .. } => match phase {
            Phase::Strategize => (Verb::StartStrategize, Some(*epoch)),
            Phase::Execute => (Verb::StartExecute, Some(*epoch)),
            Phase::Apply => (Verb::StartApply, Some(*epoch)),
        },
        Event::BasesRecorded { epoch, .. } => (Verb::RecordBases, Some(*epoch)),
        Event::StrategizeCompleted { epoch } => (Verb::CompleteStrategize, Some(*epoch)),
        Event::ExecuteEntered { .. } => (Verb::ExecutePlan, None),
        Event::ChangesetSealed { .. } => (Verb::SealChangeset, None),
        Event::ExecuteCompleted { epoch, .. } => (Verb::CompleteExecute, Some(*epoch)),
        Event::ResultPicked { .. } => (Verb::Pick, None),
        Event::Approved { .. } => (Verb::Approve, None),
        Event::ApplyEntered { .. } => (Verb::ApplyPlan, None),
        Event::ApplyPrepared { epoch, .. } => (Verb::PrepareApply, Some(*epoch)),
        Event::ApplyWithdrawn { epoch } => (Verb::WithdrawApply, Some(*epoch)),
        Event::Landed { epoch } => (Verb::CompleteApply, Some(*epoch)),
        Event::Constrained { constraint } => (Verb::Constrain, Some(constraint.epoch)),
        Event::Failed { failure } if held_epoch != Some(failure.epoch) => (Verb::Reclaim, None),
        Event::Failed { failure } => (Verb::Fail, Some(failure.epoch)),
        Event::Retried { .. } => (Verb::Retry, None),
        Event::Asked { question } => (Verb::Ask, Some(question.epoch)),
        Event::Answered { .. } => (Verb::Answer, None),
        Event::QuestionExpired => (Verb::ExpireQuestion, None),
        Event::PermissionAsked { epoch, .. } => (Verb::AskPermission, Some(*epoch)),
        Event::PermissionAnswered { .. } => (Verb::AnswerPermission, None),
        Event::Revised { .. } => (Verb::Revise, None),
        Event::Reverted { .. } => (Verb::Revert, None),
        Event::Released { epoch } => (Verb::Release, Some(*epoch)),
        Event::Reclaimed { .. } => (Verb::Reclaim, None),
        Event::Waived { .. } => (Verb::Waive, None),
        Event::RuledOn { .. } => (Verb::RuleOn, None),
        Event::Cancelled { .. } => (Verb::Cancel, None),
    })
}

/// Looks a completion up as a store does: only events of the wanted kinds, newest first.
pub fn search_log(verb: Verb, log: &[RecordedEvent]) -> Option<CompletedCommand> {
    let mut search = CompletionSearch::new(verb);
    let kinds = search.event_kinds();
    let wanted = |one: &&RecordedEvent| kinds.contains(&one.event.kind());
    for recorded in log.iter().rev().filter(wanted) {
        if let ControlFlow::Break(found) = search.visit_event(recorded) {
            return found;
        }
    }
    None
}

/// Compares the lookup, and the completions collected from the whole log, with the reference.
pub fn check_completions(world: &PlanWorld) {
    let collected = collect_completions(&world.log);
    for verb in Verb::ALL {
        let expected = world.facts.completions[verb].as_ref();
        assert_eq!(search_log(*verb, &world.log).as_ref(), expected, "{verb}");
        assert_eq!(collected.get(verb), expected, "{verb}");
    }
}

#[test]
fn a_decision_asks_for_a_completion_only_if_its_answer_depends_on_it() {
    let world_without = |spot: Spot| {
        let mut world = spot.default_world();
        world.facts.completions.clear();
        world
    };
    // It applies.
    let world = world_without(Spot::ExecuteProcessing);
    let complete = world.default_command(Verb::CompleteExecute);
    assert!(world.decide(&worker(), complete).is_ok());
    // The plan has ended, and the command carries no epoch.
    let world = world_without(Spot::ApplyApplied);
    let refusal = world.expect_refusal(&ada(), world.default_command(Verb::Retry));
    assert!(matches!(refusal, Refusal::Final { .. }), "{refusal}");
    // An epoch may have done it before.
    let complete = world.default_command(Verb::CompleteApply);
    let verb = Verb::CompleteApply;
    let refusal = world.expect_refusal(&worker(), complete);
    assert_eq!(refusal, Refusal::CompletionNotRead { verb });
    // The refusal says when it was done.
    let world = world_without(Spot::ExecuteQueued);
    let refusal = world.expect_refusal(&ada(), world.default_command(Verb::Retry));
    let verb = Verb::Retry;
    assert_eq!(refusal, Refusal::CompletionNotRead { verb });
}

/// Within a batch, the events decided so far count as well. They are not in the log yet.
#[test]
fn a_batch_answers_already_done_for_its_own_events() {
    let world = Spot::ExecuteProcessing.default_world();
    let release = DecisionRequest {
        command: world.default_command(Verb::Release),
        plan_id: Some(world.plan().id()),
        caller: worker(),
        if_version: None,
    };
    let requests = [release.clone(), release];
    let decision = decide_batch(&world.facts, &requests, world.now).unwrap();
    assert_eq!(decision.receipt.outcome, ReceiptOutcome::AlreadyDone);
    assert_eq!(decision.plans[0].events.len(), 1);
}

/// Every pair of commands from every state. Random walks rarely withdraw a landing.
#[test]
fn the_log_tells_the_last_completion_after_any_two_commands() {
    fn explore(world: &PlanWorld, depth: usize, checked: &mut BTreeSet<Verb>) {
        check_completions(world);
        if depth == 0 {
            return;
        }
        for verb in Verb::ALL {
            for variant in 0..3 {
                let input = CommandInput {
                    variant,
                    ..world.default_input()
                };
                let mut next = world.clone();
                let command = world.command_with(*verb, input);
                let carried_out = command.is_some_and(|one| next.submit(&ada(), one).is_ok());
                if carried_out && next.log.len() > world.log.len() {
                    checked.insert(*verb);
                    explore(&next, depth - 1, checked);
                }
            }
        }
    }
    let mut checked = BTreeSet::new();
    for spot in Spot::ALL {
        explore(&spot.default_world(), 2, &mut checked);
    }
    assert!(checked.contains(&Verb::WithdrawApply), "{checked:?}");
    assert!(checked.contains(&Verb::Reclaim), "{checked:?}");
}
