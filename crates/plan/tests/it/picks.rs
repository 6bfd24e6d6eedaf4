//! Picking a part of a result: it is a person's edit, voids what was decided about the whole, and nothing goes on
//! without a person.

use planwright_plan as plan;

use plan::command::PickResult;
use plan::decide::{EngineStep, IdleReason, next_engine_step};
use plan::stage::{ApplyState, UnpickedRest, WorkState};
use plan::{Command, Digest, PlanStage, Profile, Refusal, Verb};

use crate::spot::{Spot, StepCaller};
use crate::world::{CommandInput, JudgementVariant, LandingSetup, PlanWorld, ada, worker};

fn world_at(spot: Spot, profile: Profile) -> PlanWorld {
    spot.reach_world(profile, LandingSetup::OnTargets, StepCaller::Person)
}

/// What a worker would do with the plan next.
fn next_step(world: &PlanWorld) -> EngineStep {
    next_engine_step(world.plan(), &worker(), world.now)
}

fn pick_keeping_rest(world: &mut PlanWorld) {
    let keep = world.command_variant(Verb::Pick, 1);
    world.submit(&ada(), keep).unwrap();
}

#[test]
fn a_pick_leads_to_execute_complete_from_wherever_the_result_waits() {
    for spot in [
        Spot::ExecuteComplete,
        Spot::ApplyQueued,
        Spot::ApplyErrored,
        Spot::ApplyConstrained,
    ] {
        let mut world = world_at(spot, Profile::Review);
        let before = world.plan().epoch();
        world.submit_as_person(Verb::Pick);
        let plan = world.plan();
        assert_eq!(*plan.stage(), PlanStage::Execute(WorkState::Complete));
        assert_eq!(plan.epoch(), before.next());
        assert_eq!(plan.approval(), None);
        assert_eq!(plan.result().unwrap().trees[0].tree, format!("p{before}"));
        assert_eq!(plan.sandbox_preparation().picked.len(), 2);
        assert!(plan.needs_person());
    }
}

#[test]
fn only_the_result_that_was_shown_is_picked_from() {
    let mut world = world_at(Spot::ExecuteComplete, Profile::Review);
    let Command::PickResult(pick) = world.default_command(Verb::Pick) else {
        panic!("a pick");
    };
    let refuse = |pick: PickResult| world.expect_refusal(&ada(), pick.into());
    let shown = Digest::hash_bytes(b"an earlier result");
    assert_eq!(
        refuse(PickResult {
            shown,
            ..pick.clone()
        }),
        Refusal::ResultChanged
    );
    let mut nothing = pick.clone();
    for tree in &mut nothing.result.trees {
        tree.changes = Some(0);
    }
    assert_eq!(refuse(nothing), Refusal::NothingPicked);
    let mut other_base = pick.clone();
    other_base.result.trees[0].base = "b9".into();
    assert_eq!(refuse(other_base), Refusal::PickMismatch);
    let mut fewer = pick.clone();
    fewer.result.trees.pop();
    assert_eq!(refuse(fewer), Refusal::PickMismatch);
    world.submit(&ada(), pick.clone().into()).unwrap();
    // The same pick again is about a result that is gone.
    assert_eq!(
        world.expect_refusal(&ada(), pick.into()),
        Refusal::ResultChanged
    );
}

#[test]
fn nothing_is_fixed_or_landed_after_a_pick_until_a_person_acts() {
    let mut world = world_at(Spot::ExecuteProcessing, Profile::Auto);
    let failing = CommandInput {
        judged: JudgementVariant::Failed,
        ..world.default_input()
    };
    let complete = world.command_with(Verb::CompleteExecute, failing);
    world.submit(&worker(), complete.unwrap()).unwrap();
    assert!(matches!(next_step(&world), EngineStep::Remedy(_)));
    world.submit_as_person(Verb::Pick);
    assert_eq!(next_step(&world), EngineStep::Idle(IdleReason::NeedsPerson));
    assert_eq!(world.plan().due_at(), None);
    for verb in [Verb::ApplyPlan, Verb::Revise] {
        let refused = world.decide(&worker(), world.default_command(verb));
        assert!(refused.is_err(), "{verb}: {refused:?}");
    }
    world
        .submit_as_person(Verb::Approve)
        .submit_as_person(Verb::ApplyPlan);
    assert!(!world.plan().is_picked());
    let queued = matches!(
        world.plan().stage(),
        PlanStage::Apply(ApplyState::Queued(..))
    );
    assert!(queued);
}

#[test]
fn a_revision_after_a_pick_starts_from_the_picked_tree() {
    let mut world = world_at(Spot::ExecuteComplete, Profile::Auto);
    world
        .submit_as_person(Verb::Pick)
        .submit_as_person(Verb::Revise);
    assert!(!world.plan().is_picked());
    assert_eq!(world.plan().sandbox_preparation().picked.len(), 2);
    world
        .submit_as(&worker(), Verb::StartExecute)
        .submit_as(&worker(), Verb::RecordBases);
    assert!(world.plan().sandbox_preparation().is_default());
}

#[test]
fn a_rest_grows_with_each_pick_and_goes_with_the_result() {
    let mut world = world_at(Spot::ExecuteComplete, Profile::Review);
    let whole = world.plan().result().unwrap().trees.clone();
    pick_keeping_rest(&mut world);
    pick_keeping_rest(&mut world);
    let picked = world.plan().result().unwrap().trees.clone();
    let rest = UnpickedRest { whole, picked };
    assert_eq!(world.plan().unpicked_rest(), Some(&rest));
    // What is dropped now is not part of the rest.
    world.submit_as_person(Verb::Pick);
    assert_eq!(world.plan().unpicked_rest(), Some(&rest));
    let keep = world.command_variant(Verb::Pick, 1);
    assert_eq!(world.expect_refusal(&ada(), keep), Refusal::RestWaits);
    world.submit_as_person(Verb::Revert);
    assert_eq!(world.plan().unpicked_rest(), None);
    assert!(!world.plan().is_picked());
}

#[test]
fn a_prepared_landing_is_not_picked_from() {
    let world = world_at(Spot::ApplyQueuedPrepared, Profile::Review);
    let pick = world.default_command(Verb::Pick);
    assert_eq!(
        world.expect_refusal(&ada(), pick),
        Refusal::PointOfNoReturn { verb: Verb::Pick }
    );
}
