//! Trying a command: by a process where the store can be shared with one, else by a call.

use cucumber::when;
use planwright::Lifecycle;
use store::fault::FaultPoint;
use testkit::{TestRun, TestRunOutput};

use crate::scenario_commands;
use crate::scenario_store::ScenarioStore;
use crate::world::{TryOutcome, World, call_by_ada};

/// Where a database fails, or a process is killed.
fn fault_point(words: &str) -> (FaultPoint, &'static str) {
    match words {
        "once it is decided" => (FaultPoint::Decided, "decided"),
        "before the commit" => (FaultPoint::BeforeCommit, "before-commit"),
        "after the commit" => (FaultPoint::AfterCommit, "after-commit"),
        other => panic!("there is no such moment: {other}"),
    }
}

/// A process that tries a command.
pub fn command_run(world: &World, command: &str) -> TestRun {
    let mut words = vec!["--format".to_owned(), "json".to_owned()];
    words.extend(scenario_commands::command_words(world, command));
    if let Some(key) = &world.key {
        words.extend(["--idempotency-key".to_owned(), key.clone()]);
    }
    world.program.run(words)
}

/// Tries a command in this process.
pub fn try_call(world: &World, engine: &Lifecycle, command: &str) -> TryOutcome {
    TryOutcome::Call(scenario_commands::run_call(
        engine,
        world,
        command,
        &call_by_ada(),
    ))
}

/// Runs a process to its end, and takes the authority it may have got.
pub fn run_process(world: &mut World, run: &TestRun) -> TestRunOutput {
    let said = run.finish();
    let row = world
        .open_engine()
        .store()
        .read_plan(world.plan_id())
        .unwrap();
    // What a second holder claimed is its own; the first keeps what it had.
    if let Some(row) = row
        && world.epoch.is_none()
    {
        world.epoch = Some(row.plan.epoch());
    }
    said
}

/// Takes a step that must succeed.
pub fn take_step(world: &mut World, command: &str) {
    if world.store().address().is_some() {
        let said = command_run(world, command).finish();
        assert_eq!(said.exit_code(), Some(0), "{command}: {said:?}");
    } else {
        let engine = world.open_engine();
        scenario_commands::run_call(&engine, world, command, &call_by_ada()).unwrap();
    }
    world.epoch = Some(world.stored_plan().epoch());
}

#[when(regex = r"^([a-z-]+) is tried$")]
fn is_tried(world: &mut World, command: String) {
    world.outcome = Some(if world.store().address().is_some() {
        let process = command_run(world, &command);
        TryOutcome::Process(run_process(world, &process))
    } else {
        try_call(world, &world.open_engine(), &command)
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
    let (point, name) = fault_point(moment);
    world.outcome = Some(match world.store() {
        ScenarioStore::Memory { faults, .. } => {
            faults.arm(point);
            let outcome = try_call(world, &world.open_engine(), command);
            faults.disarm();
            outcome
        }
        ScenarioStore::Sqlite(_) | ScenarioStore::Postgres { .. } => {
            let process = command_run(world, command)
                .with_variable("PLANWRIGHT_FAULT", format!("{name}:fail"));
            TryOutcome::Process(run_process(world, &process))
        }
    });
}

#[when(regex = r"^the worker tries ([a-z-]+)$")]
fn the_worker_tries(world: &mut World, command: String) {
    let worker = world.worker.clone().expect("there is a worker");
    world.outcome = Some(try_call(world, &worker, &command));
}

#[when(regex = r"^a process tries ([a-z-]+)$")]
fn a_process_tries(world: &mut World, command: String) {
    let process = command_run(world, &command);
    world.outcome = Some(TryOutcome::Process(run_process(world, &process)));
}

#[when(regex = r"^a process tries ([a-z-]+) under the same key$")]
fn a_process_tries_under_the_same_key(world: &mut World, command: String) {
    assert!(world.key.is_some(), "it was tried under a key before");
    a_process_tries(world, command);
}

#[when(regex = r"^a process tries ([a-z-]+) and is killed (.+)$")]
fn a_process_is_killed(world: &mut World, command: String, moment: String) {
    let (_, name) = fault_point(&moment);
    let process =
        command_run(world, &command).with_variable("PLANWRIGHT_FAULT", format!("{name}:kill"));
    let said = process.finish();
    assert!(said.was_killed(), "{said:?}");
    world.outcome = Some(TryOutcome::Process(said));
}

#[when(regex = r"^a process tries ([a-z-]+) under a key and is killed (.+)$")]
fn a_process_is_killed_under_a_key(world: &mut World, command: String, moment: String) {
    world.key = Some("once".to_owned());
    a_process_is_killed(world, command, moment);
}

#[when(regex = r"^([a-z-]+) is tried again unless it was done$")]
fn is_tried_again_unless_done(world: &mut World, command: String) {
    if world.last_output().exit_code() != Some(0) && &world.dump_store() == world.store_before() {
        is_tried(world, command);
        assert_eq!(
            world.last_output().exit_code(),
            Some(0),
            "{:?}",
            world.last_output()
        );
    }
}
