//! Schedules from seeds: some that are always the same, and some that nobody tried before.

#![allow(
    clippy::unwrap_used,
    reason = "a test whose set-up fails has failed, and the panic says where"
)]

use std::sync::Arc;

use planwright_prove::Answer;
use planwright_prove::broken::{Broken, Bug};
use planwright_prove::check::{Kind, Least, Tally, tell};
use planwright_prove::simulation::{Played, Stage, play};
use store::{PostgresOptions, PostgresStore, SqliteOptions, SqliteStore};
use testkit::{PostgresDatabase, SqliteFile, StoreDump};

const STEPS: usize = 60;

/// Plays a schedule that must go well.
#[track_caller]
fn check(stage: &Stage, seed: u64, steps: usize) -> Played {
    let played = play(stage, seed, steps).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    if let Some(first) = played.violations.first() {
        let told = tell(first, &played.history, &played.stored);
        panic!("seed {seed} with {steps} steps:\n{told}");
    }
    played
}

#[test]
fn schedules_that_are_always_the_same_go_well() {
    for seed in 0..150 {
        check(&Stage::in_memory(), seed, STEPS);
    }
}

#[test]
fn schedules_nobody_tried_before_go_well() {
    let first = fastrand::u64(..);
    for seed in (0..150).map(|number| first.wrapping_add(number)) {
        check(&Stage::in_memory(), seed, STEPS);
    }
}

#[test]
fn a_seed_plays_the_same_schedule_again() {
    let dump = || {
        let stage = Stage::in_memory();
        let played = check(&stage, 7, STEPS);
        (played.history, StoreDump::read_store(stage.store()))
    };
    let ((history, first), (again, second)) = (dump(), dump());
    assert_eq!(history.calls, again.calls);
    first.assert_same(&second, "played again");
}

#[test]
fn a_long_schedule_does_everything_there_is() {
    let played = check(&Stage::in_memory(), 1, 6_000);
    let least = Least {
        done: 1_000,
        of_each: 1,
        fenced: 5,
        through_program: 0,
    };
    let missing = least.missing(&Tally::of(&played.history));
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn the_same_schedules_end_in_the_same_state_in_every_store() {
    for seed in 0..6 {
        let file = SqliteFile::new();
        let database = PostgresDatabase::new();
        let stages = [
            Stage::in_memory(),
            Stage::on(|clock, faults| {
                let options = SqliteOptions {
                    clock,
                    faults: faults.faults(),
                };
                Arc::new(SqliteStore::new(file.path(), options))
            }),
            Stage::on(|_, faults| {
                let options = PostgresOptions {
                    faults: faults.faults(),
                    ..PostgresOptions::default()
                };
                Arc::new(PostgresStore::new(&database.url(), options).unwrap())
            }),
        ];
        let ends = stages.map(|stage| {
            let mut played = check(&stage, seed, STEPS);
            let answers = played.history.calls.values_mut();
            for (_, answer) in answers.filter_map(|made| made.answered.as_mut()) {
                // How a database says that it failed is its own affair.
                if let Answer::Failed(why) = answer {
                    why.clear();
                }
            }
            (played.history, StoreDump::read_store(stage.store()))
        });
        for (history, dump) in &ends[1..] {
            for (made, first) in history.calls.values().zip(ends[0].0.calls.values()) {
                assert_eq!(made, first, "seed {seed}");
            }
            dump.assert_same(&ends[0].1, &format!("seed {seed}"));
        }
    }
}

/// What the checker says of schedules with a planted bug.
#[track_caller]
fn check_bug(bug: Bug, expected: Kind) {
    for seed in 0..100 {
        let stage = Stage::in_memory().with_doors(Broken::new(bug));
        let played = play(&stage, seed, 5 * STEPS).unwrap();
        if let Some(first) = played.violations.first() {
            let told = tell(first, &played.history, &played.stored);
            assert_eq!(first.kind, expected, "{told}");
            return;
        }
    }
    panic!("{bug:?} was not found in 100 schedules");
}

#[test]
fn a_stale_read_is_found() {
    check_bug(Bug::StaleRead, Kind::Order);
}

#[test]
fn a_missing_fence_is_found() {
    check_bug(Bug::NoFence, Kind::Fenced);
}

#[test]
fn a_change_in_the_wrong_changeset_is_found() {
    check_bug(Bug::WrongChangeset, Kind::Entry);
}

#[test]
fn two_winners_of_a_race_are_found() {
    check_bug(Bug::DoubleTransition, Kind::Illegal);
}

#[test]
fn half_a_commit_is_found() {
    check_bug(Bug::HalfCommit, Kind::Half);
}

#[test]
fn a_lost_event_is_found() {
    check_bug(Bug::LostEvent, Kind::Reader);
}
