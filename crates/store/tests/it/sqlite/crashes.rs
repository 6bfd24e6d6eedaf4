//! Tests killed processes: a commit is whole or absent, and acknowledged commits survive.

use std::time::Duration;

use planwright_store::{StoreReader, StoreWriter};

use crate::sqlite::child::{self, ChildProcess};
use crate::sqlite::support::{
    DatabaseDir, create, creates, key, plan_id, submission_for, toggle, verify_counts, version,
};

/// The outcome of eight submissions whose process was killed during a batch.
struct KilledBatch {
    /// Committed before that batch.
    before: usize,
    /// Committed in total if that batch was committed.
    with_it: usize,
    /// Present after the kill.
    stored: usize,
    /// Acknowledged before the kill.
    acknowledged: usize,
}

fn kill_at(point: &str) -> KilledBatch {
    let dir = DatabaseDir::new();
    let mut process = ChildProcess::start(point, &dir.path, 0);
    let mut acknowledged = Vec::new();
    let mut batch = None;
    while let Some(line) = process.read_line() {
        match line
            .strip_prefix("dying ")
            .and_then(|numbers| numbers.split_once(' '))
        {
            Some((before, with_it)) => {
                batch = Some((before.parse().unwrap(), with_it.parse().unwrap()));
            }
            None => acknowledged.push(line.parse::<u64>().unwrap()),
        }
    }
    process.wait();
    let (before, with_it) = batch.expect("it died in a batch");
    let store = dir.store();
    verify_counts(&store);
    let stored: Vec<u64> = (1..=8)
        .filter(|n| version(&store, plan_id(*n)) > 0)
        .collect();
    for number in &acknowledged {
        assert!(
            stored.contains(number),
            "{number} was acknowledged and lost"
        );
    }
    // Submitting again is safe in any case, because of the key.
    for number in 1..=8 {
        let mut submission = submission_for(plan_id(number), creates(plan_id(number), "batch"));
        submission.key = Some(key(&number.to_string()));
        let committed = store.commit(submission).unwrap();
        assert_eq!(committed.is_repeat, stored.contains(&number), "{number}");
    }
    assert_eq!(verify_counts(&store), (9, 9));
    KilledBatch {
        before,
        with_it,
        stored: stored.len(),
        acknowledged: acknowledged.len(),
    }
}

#[test]
fn a_kill_after_deciding_loses_the_whole_batch() {
    let killed = kill_at("Decided");
    assert_eq!(killed.stored, killed.before);
}

#[test]
fn a_kill_before_commit_loses_the_whole_batch() {
    let killed = kill_at("BeforeCommit");
    assert_eq!(killed.stored, killed.before);
}

#[test]
fn a_kill_after_commit_keeps_the_whole_batch_unacknowledged() {
    let killed = kill_at("AfterCommit");
    assert_eq!(killed.stored, killed.with_it);
    assert!(
        killed.acknowledged <= killed.before,
        "no commit is acknowledged before it is durable"
    );
}

#[test]
fn acknowledged_commits_survive_a_kill_at_any_moment() {
    let dir = DatabaseDir::new();
    for round in 0..12 {
        let mut processes: Vec<ChildProcess> = (0..3)
            .map(|number| ChildProcess::start("write-until-killed", &dir.path, number))
            .collect();
        for process in &mut processes {
            process.read_line().unwrap();
        }
        std::thread::sleep(Duration::from_millis(7 * round));
        for (number, mut process) in processes.into_iter().enumerate() {
            process.kill();
            let mut acknowledged = 0;
            while let Some(version) = process.read_line() {
                acknowledged = version.parse().unwrap_or(acknowledged);
            }
            let stored = version(&dir.store(), plan_id(number as u64));
            assert!(
                stored >= acknowledged,
                "acknowledged {acknowledged}, stored {stored}"
            );
            assert!(
                stored <= acknowledged + 1 || acknowledged == 0,
                "acknowledged {acknowledged}, stored {stored}"
            );
        }
    }
    verify_counts(&dir.store());
}

/// A file size limit makes COMMIT fail while it writes the log. The error says that nothing was
/// written, which is true.
#[test]
fn a_commit_that_cannot_be_written_is_reported_as_failed() {
    let dir = DatabaseDir::new();
    create(&dir.store(), plan_id(1_000)).unwrap();
    // The signal that would kill the process is ignored, and children inherit that.
    let mut command = std::process::Command::new("sh");
    command
        .args(["-c", "trap '' XFSZ; ulimit -f 2000; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(child::ARGUMENTS);
    child::set_role(&mut command, "fill", &dir.path, 0);
    let mut process = ChildProcess::run(&mut command);
    let written: u64 = process.read_line().unwrap().parse().unwrap();
    let error = process.read_line().unwrap();
    process.finish();
    assert!(error.starts_with("Failed("), "{error}");
    assert!(written > 5, "{written}");
    let store = dir.store();
    assert_eq!(verify_counts(&store), (written + 1, written + 1));
    assert!(store.read_plan(plan_id(written)).unwrap().is_none());
    toggle(&store, plan_id(1_000)).unwrap();
    assert_eq!(verify_counts(&store), (written + 1, written + 2));
}

/// KilledBatch while it creates directory, file, log and schema: the next process finishes.
#[test]
fn a_half_created_store_is_finished_by_the_next_process() {
    for delay in 0..25 {
        let dir = DatabaseDir::new();
        let mut process = ChildProcess::start("commit-once", &dir.path, 0);
        process.expect("starting");
        std::thread::sleep(Duration::from_micros(delay * 200));
        process.kill();
        let store = dir.store();
        let stored = version(&store, plan_id(0));
        create(&store, plan_id(1)).unwrap();
        assert_eq!(verify_counts(&store), (1 + stored, 1 + stored));
    }
}
