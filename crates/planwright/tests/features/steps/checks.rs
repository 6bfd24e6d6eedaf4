//! What a scenario finds at its end.

use std::collections::BTreeSet;

use cucumber::{then, when};
use plan::Refusal;
use planwright::{LifecycleError, plan};
use testkit::TestRunOutput;

use crate::world::{TryOutcome, World};

/// Everything the last try was told, as one text.
pub fn last_output_text(world: &World) -> String {
    match world.outcome.as_ref().expect("something was tried") {
        TryOutcome::Process(said) => said.messages(),
        TryOutcome::Call(Ok(())) => String::new(),
        TryOutcome::Call(Err(error)) => error.to_string(),
    }
}

/// The refusal the last call got.
pub fn last_refusal(world: &World) -> &Refusal {
    match &world.outcome {
        Some(TryOutcome::Call(Err(LifecycleError::Refused(refusal)))) => refusal,
        other => panic!("this is no refusal: {other:?}"),
    }
}

#[when("everything is looked at")]
fn everything_is_looked_at(world: &mut World) {
    world.remember_store();
}

#[then("everything is as it was")]
fn everything_is_as_it_was(world: &mut World) {
    assert_eq!(&world.dump_store(), world.store_before());
}

#[then(regex = r"^the plan is (.+)$")]
fn the_plan_is(world: &mut World, stage: String) {
    assert_eq!(world.stored_plan().stage().to_string(), stage);
}

/// Something was stored, and no event of it twice.
#[then("the step was taken once")]
fn the_step_was_taken_once(world: &mut World) {
    let (now, before) = (world.dump_store(), world.store_before());
    assert_ne!(&now, before, "nothing was stored");
    let new_plans = now.plans.len() - before.plans.len();
    let new_actions = now.actions.len() - before.actions.len();
    assert!(new_plans + new_actions <= 1, "made more than once");
    for plan in &now.plans {
        let id = plan.row.plan.id();
        let known = before.find_plan(id).map_or(0, |plan| plan.events.len());
        let kinds: Vec<&str> = plan.events[known..]
            .iter()
            .map(|stored| stored.recorded.event.kind())
            .collect();
        let different: BTreeSet<&&str> = kinds.iter().collect();
        assert_eq!(different.len(), kinds.len(), "taken twice: {kinds:?}");
        let open =
            |dump: &testkit::StoreDump| dump.find_plan(id).map_or(0, |plan| plan.changesets.len());
        assert!(open(&now) <= open(before) + 1, "opened twice");
    }
}

#[then("the store is sound")]
fn the_store_is_sound(world: &mut World) {
    if world.store().address().is_some() {
        let said = world
            .program
            .run(["--format", "json", "store", "verify"])
            .finish();
        assert_eq!(said.exit_code(), Some(0), "{said:?}");
        assert_eq!(said.data()["problems"], serde_json::json!([]));
    } else {
        let verified = store::verify::verify_store(world.open_engine().store()).unwrap();
        assert_eq!(verified.problems, Vec::<String>::new());
    }
}

#[then("it succeeds")]
fn it_succeeds(world: &mut World) {
    match world.outcome.as_ref().unwrap() {
        TryOutcome::Process(said) => assert_eq!(said.exit_code(), Some(0), "{said:?}"),
        TryOutcome::Call(result) => assert!(result.is_ok(), "{result:?}"),
    }
}

#[then(regex = r"^it ends with exit code (\d+)$")]
fn it_ends_with_exit_code(world: &mut World, code: i32) {
    assert_eq!(
        world.last_output().exit_code(),
        Some(code),
        "{:?}",
        world.last_output()
    );
}

#[then(regex = r#"^it says "(.+)"$"#)]
fn it_says(world: &mut World, words: String) {
    let told = last_output_text(world);
    assert!(told.contains(&words), "{told}");
}

#[then("it is told that nothing was stored")]
fn it_is_told_that_nothing_was_stored(world: &mut World) {
    match world.outcome.as_ref().unwrap() {
        TryOutcome::Call(result) => assert!(
            matches!(result, Err(LifecycleError::Store(_))),
            "{result:?}"
        ),
        TryOutcome::Process(said) => assert_says_nothing_was_stored(said),
    }
}

/// Insists on exit code 1 and on words that leave no doubt.
fn assert_says_nothing_was_stored(said: &TestRunOutput) {
    assert_eq!(said.exit_code(), Some(1), "{said:?}");
    let told = said.messages();
    assert!(told.to_lowercase().contains("nothing was stored"), "{told}");
}

#[then("it is told that it had been done before")]
fn it_is_told_that_it_had_been_done(world: &mut World) {
    let said = world.last_output();
    let repeated = said.data()["receipt"]["repeated"] == true;
    assert!(
        repeated || said.messages().contains("Already done"),
        "{said:?}"
    );
}

#[then("what it is told is the truth")]
fn what_it_is_told_is_the_truth(world: &mut World) {
    match world.last_output().exit_code() {
        Some(0) => the_step_was_taken_once(world),
        Some(1) => everything_is_as_it_was(world),
        Some(9) => {}
        other => panic!("it ended with {other:?}: {:?}", world.last_output()),
    }
}
