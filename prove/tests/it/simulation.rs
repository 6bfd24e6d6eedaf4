//! Schedules from fixed seeds and from random seeds.

use std::sync::Arc;

use planwright_prove::CallAnswer;
use planwright_prove::check::{CallCounts, MinimumCounts, ViolationKind, format_violation};
use planwright_prove::simulation::{ScheduleOutcome, SimulatedStore, run_schedule};
use planwright_prove::store_bugs::{StoreBug, StoreBugHooks};
use store::{PostgresOptions, PostgresStore, SqliteOptions, SqliteStore};
use testkit::{PostgresDatabase, SqliteFile, StoreDump};

const STEPS_PER_SCHEDULE: usize = 60;

/// Runs a schedule that must have no violations.
#[track_caller]
fn check_schedule(simulated: &SimulatedStore, seed: u64, steps: usize) -> ScheduleOutcome {
    let outcome =
        run_schedule(simulated, seed, steps).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    if let Some(first) = outcome.violations.first() {
        let message = format_violation(first, &outcome.history, &outcome.stored);
        panic!("seed {seed} with {steps} steps:\n{message}");
    }
    outcome
}

#[test]
fn schedules_with_fixed_seeds_have_no_violations() {
    for seed in 0..150 {
        check_schedule(&SimulatedStore::in_memory(), seed, STEPS_PER_SCHEDULE);
    }
}

#[test]
fn schedules_with_random_seeds_have_no_violations() {
    let first_seed = fastrand::u64(..);
    for seed in (0..150).map(|number| first_seed.wrapping_add(number)) {
        check_schedule(&SimulatedStore::in_memory(), seed, STEPS_PER_SCHEDULE);
    }
}

#[test]
fn the_same_seed_repeats_the_same_schedule() {
    let dump = || {
        let simulated = SimulatedStore::in_memory();
        let outcome = check_schedule(&simulated, 7, STEPS_PER_SCHEDULE);
        (outcome.history, StoreDump::read_store(simulated.store()))
    };
    let ((history, first), (repeated, second)) = (dump(), dump());
    assert_eq!(history.calls, repeated.calls);
    first.assert_same(&second, "repeated");
}

#[test]
fn a_long_schedule_covers_every_operation() {
    let outcome = check_schedule(&SimulatedStore::in_memory(), 1, 6_000);
    let minimum = MinimumCounts {
        done: 1_000,
        of_each: 1,
        fenced: 5,
        through_program: 0,
    };
    let missing = minimum.find_missing(&CallCounts::from_history(&outcome.history));
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn the_same_schedule_ends_in_the_same_state_in_every_store() {
    for seed in 0..6 {
        let file = SqliteFile::new();
        let database = PostgresDatabase::new();
        let stores = [
            SimulatedStore::in_memory(),
            SimulatedStore::open_with(|clock, faults| {
                let options = SqliteOptions {
                    clock,
                    faults: faults.faults(),
                };
                Arc::new(SqliteStore::new(file.path(), options))
            }),
            SimulatedStore::open_with(|_, faults| {
                let options = PostgresOptions {
                    faults: faults.faults(),
                    ..PostgresOptions::default()
                };
                Arc::new(PostgresStore::new(&database.url(), options).unwrap())
            }),
        ];
        let results = stores.map(|simulated| {
            let mut outcome = check_schedule(&simulated, seed, STEPS_PER_SCHEDULE);
            let answers = outcome.history.calls.values_mut();
            for (_, answer) in answers.filter_map(|recorded| recorded.answered.as_mut()) {
                // Each database has error messages of its own.
                if let CallAnswer::Failed(error) = answer {
                    error.clear();
                }
            }
            (outcome.history, StoreDump::read_store(simulated.store()))
        });
        for (history, dump) in &results[1..] {
            for (recorded, first) in history.calls.values().zip(results[0].0.calls.values()) {
                assert_eq!(recorded, first, "seed {seed}");
            }
            dump.assert_same(&results[0].1, &format!("seed {seed}"));
        }
    }
}

/// Runs schedules with a planted bug until the checker finds a violation.
#[track_caller]
fn check_bug(bug: StoreBug, expected: ViolationKind) {
    for seed in 0..100 {
        let simulated = SimulatedStore::in_memory().with_hooks(StoreBugHooks::new(bug));
        let outcome = run_schedule(&simulated, seed, 5 * STEPS_PER_SCHEDULE).unwrap();
        if let Some(first) = outcome.violations.first() {
            let message = format_violation(first, &outcome.history, &outcome.stored);
            assert_eq!(first.kind, expected, "{message}");
            return;
        }
    }
    panic!("{bug:?} was not found in 100 schedules");
}

#[test]
fn a_stale_read_is_found() {
    check_bug(StoreBug::StaleRead, ViolationKind::NotLinearizable);
}

#[test]
fn a_missing_fence_is_found() {
    check_bug(StoreBug::NoFence, ViolationKind::WriteWithoutLease);
}

#[test]
fn a_change_in_the_wrong_changeset_is_found() {
    check_bug(StoreBug::WrongChangeset, ViolationKind::MisplacedChange);
}

#[test]
fn two_winners_of_a_race_are_found() {
    check_bug(StoreBug::DoubleTransition, ViolationKind::IllegalTransition);
}

#[test]
fn a_partial_commit_is_found() {
    check_bug(StoreBug::HalfCommit, ViolationKind::PartialCommit);
}

#[test]
fn a_lost_event_is_found() {
    check_bug(StoreBug::LostEvent, ViolationKind::InconsistentLogRead);
}
