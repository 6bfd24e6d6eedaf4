//! Decisions that an agent records while it works.

use planwright_plan as plan;

use plan::command::RecordDecision;
use plan::decision::{DecisionKind, DecisionNode};
use plan::{Command, Decision, Event, Profile, Refusal, Verb};

use crate::spot::{Spot, StepCaller};
use crate::world::{LandingSetup, PlanWorld, ada, worker};

fn world_at(spot: Spot) -> PlanWorld {
    spot.reach_world(Profile::Review, LandingSetup::OnTargets, StepCaller::Person)
}

fn recorded_nodes(decision: &Decision) -> Vec<DecisionNode> {
    let mut nodes = Vec::new();
    let events = decision.plans.iter().flat_map(|change| &change.events);
    for recorded in events {
        match &recorded.event {
            Event::DecisionsRecorded { decisions } => nodes.extend(decisions.clone()),
            other => panic!("{other:?}"),
        }
    }
    nodes
}

#[test]
fn each_decision_of_a_run_becomes_a_node_and_the_run_goes_on() {
    for spot in [Spot::StrategizeProcessing, Spot::ExecuteProcessing] {
        let mut world = world_at(spot);
        let (epoch, before) = (world.plan().epoch(), world.plan().decisions());
        // The same decision twice is two decisions: only the holder knows whether it repeats itself.
        for number in [before + 1, before + 2] {
            let command = world.default_command(Verb::RecordDecision);
            let decision = world.submit(&worker(), command).unwrap();
            let nodes = recorded_nodes(&decision);
            assert_eq!(nodes.len(), 1);
            assert_eq!((nodes[0].number, nodes[0].parent), (number, Some(1)));
        }
        assert!(world.plan().is_held_by(epoch));
        assert_eq!(world.plan().decisions(), before + 2);
    }
}

#[test]
fn only_the_holder_of_this_epoch_records_decisions() {
    let mut world = world_at(Spot::ExecuteProcessing);
    let of_old_run = world.default_command(Verb::RecordDecision);
    world.submit_as_person(Verb::Reclaim);
    let refusal = world.expect_refusal(&worker(), of_old_run.clone());
    assert!(matches!(refusal, Refusal::Fenced { .. }), "{refusal:?}");
    world.submit_as(&worker(), Verb::StartExecute);
    let refusal = world.expect_refusal(&worker(), of_old_run);
    assert!(matches!(refusal, Refusal::Fenced { .. }), "{refusal:?}");
}

#[test]
fn landings_and_finished_runs_record_no_decision() {
    for spot in [Spot::ApplyProcessing, Spot::ExecuteComplete] {
        let world = world_at(spot);
        let before = world.plan().decisions();
        let command = world.default_command(Verb::RecordDecision);
        let refused = world.decide(&worker(), command);
        assert!(refused.is_err(), "{refused:?}");
        assert_eq!(world.plan().decisions(), before);
    }
}

#[test]
fn decisions_of_the_engine_and_unusable_texts_are_refused() {
    let world = world_at(Spot::ExecuteProcessing);
    let refuse = |change: &dyn Fn(&mut plan::decision::ReportedDecision)| {
        let mut command = world.default_command(Verb::RecordDecision);
        let Command::RecordDecision(RecordDecision { decision, .. }) = &mut command else {
            panic!("another command");
        };
        change(decision);
        world.expect_refusal(&ada(), command).to_string()
    };
    let refusal = refuse(&|decision| decision.kind = DecisionKind::UserIntervention);
    assert!(refusal.contains("only the engine records"), "{refusal}");
    let refusal = refuse(&|decision| decision.parent = Some(99));
    assert!(refusal.contains("not an earlier decision"), "{refusal}");
    let refusal = refuse(&|decision| decision.choice = " ".into());
    assert!(refusal.contains("choice"), "{refusal}");
}

/// A loop of an agent must not grow a plan without end.
#[test]
fn plan_takes_a_bounded_number_of_decisions() {
    let mut world = world_at(Spot::ExecuteProcessing);
    while world.plan().decisions() < 1000 {
        world.submit_as(&worker(), Verb::RecordDecision);
    }
    let command = world.default_command(Verb::RecordDecision);
    let refusal = world.expect_refusal(&worker(), command).to_string();
    assert!(refusal.contains("too many decisions"), "{refusal}");
}
