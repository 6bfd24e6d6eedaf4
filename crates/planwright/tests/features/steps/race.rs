//! Real processes that try the same thing at once.

use cucumber::{then, when};
use plan::Event;
use planwright::plan;
use testkit::{TestProcess, TestRun, TestRunOutput};

use crate::steps::tries::command_run;
use crate::world::World;

/// Starts them all, then waits for them all.
fn run_together(runs: &[TestRun]) -> Vec<TestRunOutput> {
    let running: Vec<TestProcess> = runs.iter().map(TestRun::start).collect();
    running.into_iter().map(TestProcess::finish).collect()
}

fn outputs_with_code(world: &World, code: i32) -> Vec<&TestRunOutput> {
    world
        .race_outputs
        .iter()
        .filter(|said| said.exit_code() == Some(code))
        .collect()
}

/// The one that was told yes.
fn winner_output(world: &World) -> &TestRunOutput {
    let won = outputs_with_code(world, 0);
    assert_eq!(won.len(), 1, "one wins: {:?}", world.race_outputs);
    won[0]
}

#[when(regex = r"^(\d+) processes start the (strategize|execute|apply) phase at once$")]
fn processes_start_a_phase(world: &mut World, count: usize, phase: String) {
    let plan = world.plan_id().to_string();
    let runs: Vec<TestRun> = (0..count)
        .map(|number| {
            let owner = format!("racer-{number}");
            let verb = format!("start-{phase}");
            world
                .program
                .run(["plumbing", &verb, &plan, "--owner", &owner])
        })
        .collect();
    world.race_outputs = run_together(&runs);
}

#[when(regex = r"^(\d+) processes try ([a-z-]+) at once$")]
fn processes_try(world: &mut World, count: usize, command: String) {
    let runs = vec![command_run(world, &command); count];
    world.race_outputs = run_together(&runs);
}

#[when(regex = r"^(\d+) processes try ([a-z-]+) at once, all with the same key$")]
fn processes_try_with_one_key(world: &mut World, count: usize, command: String) {
    world.key = Some("all of us".to_owned());
    processes_try(world, count, command);
}

#[then("one of them wins")]
fn one_of_them_wins(world: &mut World) {
    let winner = winner_output(world).data();
    let holder = world.open_engine().get_plan(world.plan_id()).unwrap().lease;
    assert_eq!(winner["lease"]["owner"], holder.unwrap().owner);
}

#[then("one of them does it")]
fn one_of_them_does_it(world: &mut World) {
    winner_output(world);
}

#[then(regex = r"^the (\d+) others end with exit code 4 and name the winner$")]
fn the_others_name_the_winner(world: &mut World, count: usize) {
    let owner = winner_output(world).data()["lease"]["owner"].clone();
    let owner = owner.as_str().unwrap();
    let lost = outputs_with_code(world, 4);
    assert_eq!(lost.len(), count, "{:?}", world.race_outputs);
    for said in lost {
        assert_eq!(said.data()["owner"], owner);
        assert!(said.messages().contains(owner), "{said:?}");
    }
}

#[then(regex = r"^the (\d+) others end with exit code 4 and say when and by whom it was done$")]
fn the_others_say_when_and_by_whom(world: &mut World, count: usize) {
    let done = winner_output(world).data()["receipt"]["at"].clone();
    let lost = outputs_with_code(world, 4);
    assert_eq!(lost.len(), count, "{:?}", world.race_outputs);
    for said in lost {
        let told = said.messages();
        assert_eq!(said.data()["done"]["at"], done, "{told}");
        assert!(told.contains(" by "), "{told}");
    }
}

#[then("the phase was claimed once")]
fn the_phase_was_claimed_once(world: &mut World) {
    let known = world
        .store_before()
        .find_plan(world.plan_id())
        .unwrap()
        .events
        .len();
    let history = world
        .open_engine()
        .history()
        .read_history(world.plan_id())
        .unwrap();
    let claims = history[known..]
        .iter()
        .filter(|recorded| matches!(recorded.event, Event::Claimed { .. }));
    assert_eq!(claims.count(), 1);
}

#[then("all of them are told the same plan")]
fn all_are_told_the_same_plan(world: &mut World) {
    let mut plans: Vec<String> = world
        .race_outputs
        .iter()
        .map(|said| {
            assert_eq!(said.exit_code(), Some(0), "{said:?}");
            said.data()["plan_id"].to_string()
        })
        .collect();
    plans.dedup();
    assert_eq!(plans.len(), 1, "{plans:?}");
}

#[then(regex = r"^there are (\d+) plans$")]
fn there_are_plans(world: &mut World, count: usize) {
    assert_eq!(world.dump_store().plans.len(), count);
}
