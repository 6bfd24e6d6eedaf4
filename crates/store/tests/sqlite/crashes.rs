//! Killed in the middle: all of it or none of it, and what was told stays.

use std::time::Duration;

use planwright_store::{StoreReader, StoreWriter};

use crate::child::{self, Process};
use crate::support::{Place, about, create, creates, key, plan_id, sound, toggle, version};

/// What became of eight submissions when their process was killed in the middle of a batch.
struct Killed {
    /// Committed before that batch.
    before: usize,
    /// Committed if that batch was.
    with_it: usize,
    /// There afterwards.
    there: usize,
    /// Told that they were done.
    told: usize,
}

fn killed_at(point: &str) -> Killed {
    let place = Place::new();
    let mut process = Process::start(point, &place.path, 0);
    let mut told = Vec::new();
    let mut batch = None;
    while let Some(line) = process.hear() {
        match line
            .strip_prefix("dying ")
            .and_then(|numbers| numbers.split_once(' '))
        {
            Some((before, with_it)) => {
                batch = Some((before.parse().unwrap(), with_it.parse().unwrap()));
            }
            None => told.push(line.parse::<u64>().unwrap()),
        }
    }
    process.wait();
    let (before, with_it) = batch.expect("it died in a batch");
    let store = place.store();
    sound(&store);
    let there: Vec<u64> = (1..=8)
        .filter(|n| version(&store, plan_id(*n)) > 0)
        .collect();
    for number in &told {
        assert!(there.contains(number), "{number} was told and is lost");
    }
    // Submitting the same again is safe, whatever became of it: the key knows.
    for number in 1..=8 {
        let mut submission = about(plan_id(number), creates(plan_id(number), "batch"));
        submission.key = Some(key(&number.to_string()));
        let committed = store.commit(submission).unwrap();
        assert_eq!(committed.is_repeat, there.contains(&number), "{number}");
    }
    assert_eq!(sound(&store), (9, 9));
    Killed {
        before,
        with_it,
        there: there.len(),
        told: told.len(),
    }
}

#[test]
fn killed_after_deciding_nothing_of_the_batch_is_there() {
    let killed = killed_at("Decided");
    assert_eq!(killed.there, killed.before);
}

#[test]
fn killed_before_commit_nothing_of_the_batch_is_there() {
    let killed = killed_at("BeforeCommit");
    assert_eq!(killed.there, killed.before);
}

#[test]
fn killed_after_commit_all_of_the_batch_is_there_and_nobody_was_told() {
    let killed = killed_at("AfterCommit");
    assert_eq!(killed.there, killed.with_it);
    assert!(
        killed.told <= killed.before,
        "nobody is told before the commit"
    );
}

#[test]
fn what_was_told_survives_a_kill_at_any_moment() {
    let place = Place::new();
    for round in 0..12 {
        let mut processes: Vec<Process> = (0..3)
            .map(|number| Process::start("write-until-killed", &place.path, number))
            .collect();
        for process in &mut processes {
            process.hear().unwrap();
        }
        std::thread::sleep(Duration::from_millis(7 * round));
        for (number, mut process) in processes.into_iter().enumerate() {
            process.kill();
            let mut told = 0;
            while let Some(version) = process.hear() {
                told = version.parse().unwrap_or(told);
            }
            let there = version(&place.store(), plan_id(number as u64));
            assert!(there >= told, "told {told}, there {there}");
            assert!(there <= told + 1 || told == 0, "told {told}, there {there}");
        }
    }
    sound(&place.store());
}

/// A file may not grow beyond a limit: COMMIT itself fails, in the middle of writing the log. What
/// is answered is that nothing was written, and that is so.
#[test]
fn a_commit_that_cannot_be_written_says_that_nothing_was() {
    let place = Place::new();
    create(&place.store(), plan_id(1_000)).unwrap();
    // The signal that would kill the process is ignored, and that is inherited.
    let mut command = std::process::Command::new("sh");
    command
        .args(["-c", "trap '' XFSZ; ulimit -f 2000; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(child::ARGUMENTS);
    child::set_up(&mut command, "fill", &place.path, 0);
    let mut process = Process::run(&mut command);
    let written: u64 = process.hear().unwrap().parse().unwrap();
    let error = process.hear().unwrap();
    process.finish();
    assert!(error.starts_with("Failed("), "{error}");
    assert!(written > 5, "{written}");
    let store = place.store();
    assert_eq!(sound(&store), (written + 1, written + 1));
    assert!(store.read_plan(plan_id(written)).unwrap().is_none());
    toggle(&store, plan_id(1_000)).unwrap();
    assert_eq!(sound(&store), (written + 1, written + 2));
}

/// Killed while it makes directory, file, log and schema: whoever comes next finishes it.
#[test]
fn a_store_that_was_half_made_is_made_by_the_next() {
    for delay in 0..25 {
        let place = Place::new();
        let mut process = Process::start("commit-once", &place.path, 0);
        process.expect("starting");
        std::thread::sleep(Duration::from_micros(delay * 200));
        process.kill();
        let store = place.store();
        let there = version(&store, plan_id(0));
        create(&store, plan_id(1)).unwrap();
        assert_eq!(sound(&store), (1 + there, 1 + there));
    }
}
