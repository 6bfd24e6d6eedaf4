//! Real processes that try the same thing at once.

use cucumber::{then, when};
use plan::Event;
use planwright::plan;
use testkit::{Run, Running, Said};

use crate::steps::tries::process;
use crate::world::World;

/// Starts them all, then waits for them all.
fn race(runs: &[Run]) -> Vec<Said> {
    let running: Vec<Running> = runs.iter().map(Run::start).collect();
    running.into_iter().map(Running::finish).collect()
}

fn by_code(world: &World, code: i32) -> Vec<&Said> {
    world
        .race
        .iter()
        .filter(|said| said.code() == Some(code))
        .collect()
}

/// The one that was told yes.
fn winner(world: &World) -> &Said {
    let won = by_code(world, 0);
    assert_eq!(won.len(), 1, "one wins: {:?}", world.race);
    won[0]
}

#[when(regex = r"^(\d+) processes start the (strategize|execute|apply) phase at once$")]
fn processes_start_a_phase(world: &mut World, count: usize, phase: String) {
    let plan = world.plan().to_string();
    let runs: Vec<Run> = (0..count)
        .map(|number| {
            let owner = format!("racer-{number}");
            let verb = format!("start-{phase}");
            world
                .program
                .run(["plumbing", &verb, &plan, "--owner", &owner])
        })
        .collect();
    world.race = race(&runs);
}

#[when(regex = r"^(\d+) processes try ([a-z-]+) at once$")]
fn processes_try(world: &mut World, count: usize, command: String) {
    let runs = vec![process(world, &command); count];
    world.race = race(&runs);
}

#[when(regex = r"^(\d+) processes try ([a-z-]+) at once, all with the same key$")]
fn processes_try_with_one_key(world: &mut World, count: usize, command: String) {
    world.key = Some("all of us".to_owned());
    processes_try(world, count, command);
}

#[then("one of them wins")]
fn one_of_them_wins(world: &mut World) {
    let winner = winner(world).data();
    let holder = world.engine().get_plan(world.plan()).unwrap().lease;
    assert_eq!(winner["lease"]["owner"], holder.unwrap().owner);
}

#[then("one of them does it")]
fn one_of_them_does_it(world: &mut World) {
    winner(world);
}

#[then(regex = r"^the (\d+) others end with exit code 4 and name the winner$")]
fn the_others_name_the_winner(world: &mut World, count: usize) {
    let owner = winner(world).data()["lease"]["owner"].clone();
    let owner = owner.as_str().unwrap();
    let lost = by_code(world, 4);
    assert_eq!(lost.len(), count, "{:?}", world.race);
    for said in lost {
        assert_eq!(said.data()["owner"], owner);
        assert!(said.messages().contains(owner), "{said:?}");
    }
}

#[then(regex = r"^the (\d+) others end with exit code 4 and say when and by whom it was done$")]
fn the_others_say_when_and_by_whom(world: &mut World, count: usize) {
    let done = winner(world).data()["receipt"]["at"].clone();
    let lost = by_code(world, 4);
    assert_eq!(lost.len(), count, "{:?}", world.race);
    for said in lost {
        let told = said.messages();
        assert!(told.contains(done.as_str().unwrap()), "{told}");
        assert!(told.contains(" by "), "{told}");
    }
}

#[then("the phase was claimed once")]
fn the_phase_was_claimed_once(world: &mut World) {
    let known = world.before().plan(world.plan()).unwrap().events.len();
    let history = world.engine().history(world.plan()).unwrap();
    let claims = history[known..]
        .iter()
        .filter(|recorded| matches!(recorded.event, Event::Claimed { .. }));
    assert_eq!(claims.count(), 1);
}

#[then("all of them are told the same plan")]
fn all_are_told_the_same_plan(world: &mut World) {
    let mut plans: Vec<String> = world
        .race
        .iter()
        .map(|said| {
            assert_eq!(said.code(), Some(0), "{said:?}");
            said.data()["plan_id"].to_string()
        })
        .collect();
    plans.dedup();
    assert_eq!(plans.len(), 1, "{plans:?}");
}

#[then(regex = r"^there are (\d+) plans$")]
fn there_are_plans(world: &mut World, count: usize) {
    assert_eq!(world.dump().plans.len(), count);
}
