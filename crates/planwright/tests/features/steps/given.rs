//! What is there when a scenario begins.

use cucumber::given;

use crate::scenario_commands::{self, EXPIRED_LEASE};
use crate::scenario_store::ScenarioStore;
use crate::world::{World, call_by_ada};
use plan::command::RenewLease;

#[given(regex = r"^a (memory|sqlite|postgres) store$")]
fn a_store(world: &mut World, kind: String) {
    world.use_store(ScenarioStore::new(&kind));
}

#[given(regex = r"^a plan that is (.+)$")]
fn a_plan_that_is(world: &mut World, stage: String) {
    let ready = scenario_commands::plan_at(&world.open_engine(), &stage);
    world.plan = Some(ready.plan_id);
    world.epoch = ready.epoch;
    world.changeset = ready.changeset;
    world.remember_store();
}

#[given("its lease has expired")]
fn its_lease_has_expired(world: &mut World) {
    let engine = world.open_engine();
    engine
        .submit_command(
            world.plan_id(),
            RenewLease::new(world.epoch(), EXPIRED_LEASE),
            &call_by_ada(),
        )
        .unwrap();
    world.remember_store();
}

#[given("a worker")]
fn a_worker(world: &mut World) {
    world.worker = Some(world.open_engine());
}

#[given("a worker who has read the plan")]
fn a_worker_who_has_read_the_plan(world: &mut World) {
    let worker = world.open_engine();
    world.plan_as_read = Some(worker.get_plan(world.plan_id()).unwrap().plan);
    assert_eq!(
        worker
            .list_plans(&planwright::PlanFilter::default(), None, 10)
            .unwrap()
            .len(),
        1
    );
    world.worker = Some(worker);
}

#[given("a worker who has read the plan, its action and its rules")]
fn a_worker_who_has_read_everything(world: &mut World) {
    a_worker_who_has_read_the_plan(world);
    let worker = world.worker.as_ref().unwrap();
    let plan = world.plan_as_read.as_ref().unwrap();
    worker.actions().get_action(plan.action().unwrap()).unwrap();
    assert_eq!(worker.rules().rules_for_plan(plan).unwrap().rules.len(), 1);
    assert!(
        worker
            .diagnose_plan(plan.id())
            .unwrap()
            .gate
            .unwrap()
            .failed_rules
            .is_empty()
    );
}
