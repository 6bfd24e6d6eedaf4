//! What is there when a scenario begins.

use cucumber::given;

use crate::moves::{self, OVER};
use crate::place::Place;
use crate::world::{World, ada};

#[given(regex = r"^a (memory|sqlite|postgres) store$")]
fn a_store(world: &mut World, kind: String) {
    world.settle_at(Place::new(&kind));
}

#[given(regex = r"^a plan that is (.+)$")]
fn a_plan_that_is(world: &mut World, stage: String) {
    let ready = moves::plan_at(&world.engine(), &stage);
    world.plan = Some(ready.plan);
    world.epoch = ready.epoch;
    world.changeset = ready.changeset;
    world.remember();
}

#[given("its lease has expired")]
fn its_lease_has_expired(world: &mut World) {
    let engine = world.engine();
    engine
        .renew(world.plan(), world.epoch(), OVER, &ada())
        .unwrap();
    world.remember();
}

#[given("a worker")]
fn a_worker(world: &mut World) {
    world.worker = Some(world.engine());
}

#[given("a worker who has read the plan")]
fn a_worker_who_has_read_the_plan(world: &mut World) {
    let worker = world.engine();
    world.read = Some(worker.get_plan(world.plan()).unwrap().plan);
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
    let plan = world.read.as_ref().unwrap();
    worker.get_action(plan.action.as_ref().unwrap()).unwrap();
    assert_eq!(worker.rules_of(plan).unwrap().rules.len(), 1);
    assert!(worker.why(plan.id).unwrap().gate.unwrap().failed.is_empty());
}
