//! Trying a command: by a process where the store can be shared with one, else by a call.

use cucumber::when;
use planwright::Lifecycle;
use store::fault::FaultPoint;
use testkit::{Run, Said};

use crate::moves;
use crate::place::Place;
use crate::world::{Outcome, World, ada};

/// Where a database fails, or a process is killed.
fn point(words: &str) -> (FaultPoint, &'static str) {
    match words {
        "once it is decided" => (FaultPoint::Decided, "decided"),
        "before the commit" => (FaultPoint::BeforeCommit, "before-commit"),
        "after the commit" => (FaultPoint::AfterCommit, "after-commit"),
        other => panic!("there is no such moment: {other}"),
    }
}

/// A process that tries a command.
pub fn process(world: &World, command: &str) -> Run {
    let mut words = vec!["--format".to_owned(), "json".to_owned()];
    words.extend(moves::words(world, command));
    if let Some(key) = &world.key {
        words.extend(["--idempotency-key".to_owned(), key.clone()]);
    }
    world.program.run(words)
}

/// Tries a command in this process.
pub fn by_call(world: &World, engine: &Lifecycle, command: &str) -> Outcome {
    Outcome::Call(moves::call(engine, world, command, &ada()))
}

/// Runs a process to its end, and takes the authority it may have got.
pub fn run(world: &mut World, run: &Run) -> Said {
    let said = run.finish();
    let row = world.engine().store().plan(world.plan()).unwrap();
    // What a second holder claimed is its own; the first keeps what it had.
    if let Some(row) = row
        && world.epoch.is_none()
    {
        world.epoch = Some(row.plan.epoch);
    }
    said
}

/// Takes a step that must succeed.
pub fn take(world: &mut World, command: &str) {
    if world.place().address().is_some() {
        let said = process(world, command).finish();
        assert_eq!(said.code(), Some(0), "{command}: {said:?}");
    } else {
        let engine = world.engine();
        moves::call(&engine, world, command, &ada()).unwrap();
    }
    world.epoch = Some(world.stored().epoch);
}

#[when(regex = r"^([a-z-]+) is tried$")]
fn is_tried(world: &mut World, command: String) {
    world.outcome = Some(if world.place().address().is_some() {
        let process = process(world, &command);
        Outcome::Process(run(world, &process))
    } else {
        by_call(world, &world.engine(), &command)
    });
}

#[when(
    regex = r"^([a-z-]+) is tried and the database fails (once it is decided|before the commit)$"
)]
fn is_tried_and_the_database_fails(world: &mut World, command: String, moment: String) {
    try_with_fault(world, &command, &moment);
}

#[when(regex = r"^([a-z-]+) is tried and the answer to the commit is lost$")]
fn is_tried_and_the_answer_is_lost(world: &mut World, command: String) {
    try_with_fault(world, &command, "after the commit");
}

fn try_with_fault(world: &mut World, command: &str, moment: &str) {
    let (point, name) = point(moment);
    world.outcome = Some(match world.place() {
        Place::Memory { faults, .. } => {
            faults.arm(point);
            let outcome = by_call(world, &world.engine(), command);
            faults.disarm();
            outcome
        }
        Place::Sqlite(_) | Place::Postgres { .. } => {
            let process = process(world, command).set("PLANWRIGHT_FAULT", format!("{name}:fail"));
            Outcome::Process(run(world, &process))
        }
    });
}

#[when(regex = r"^the worker tries ([a-z-]+)$")]
fn the_worker_tries(world: &mut World, command: String) {
    let worker = world.worker.clone().expect("there is a worker");
    world.outcome = Some(by_call(world, &worker, &command));
}

#[when(regex = r"^a process tries ([a-z-]+)$")]
fn a_process_tries(world: &mut World, command: String) {
    let process = process(world, &command);
    world.outcome = Some(Outcome::Process(run(world, &process)));
}

#[when(regex = r"^a process tries ([a-z-]+) under the same key$")]
fn a_process_tries_under_the_same_key(world: &mut World, command: String) {
    assert!(world.key.is_some(), "it was tried under a key before");
    a_process_tries(world, command);
}

#[when(regex = r"^a process tries ([a-z-]+) and is killed (.+)$")]
fn a_process_is_killed(world: &mut World, command: String, moment: String) {
    let (_, name) = point(&moment);
    let process = process(world, &command).set("PLANWRIGHT_FAULT", format!("{name}:kill"));
    let said = process.finish();
    assert!(said.was_killed(), "{said:?}");
    world.outcome = Some(Outcome::Process(said));
}

#[when(regex = r"^a process tries ([a-z-]+) under a key and is killed (.+)$")]
fn a_process_is_killed_under_a_key(world: &mut World, command: String, moment: String) {
    world.key = Some("once".to_owned());
    a_process_is_killed(world, command, moment);
}

#[when(regex = r"^([a-z-]+) is tried again unless it was done$")]
fn is_tried_again_unless_done(world: &mut World, command: String) {
    if world.said().code() != Some(0) && &world.dump() == world.before() {
        is_tried(world, command);
        assert_eq!(world.said().code(), Some(0), "{:?}", world.said());
    }
}
