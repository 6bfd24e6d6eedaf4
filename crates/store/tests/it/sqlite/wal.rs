//! Tests that the write-ahead log does not grow forever and that readers do not block writers.

use std::sync::Mutex;

use planwright_store::StoreWriter;
use planwright_store::fault::{FaultPoint, StoreFault, StoreFaults};
use planwright_store::sqlite::{SqliteOptions, SqliteStore};

use crate::sqlite::support::{
    DatabaseDir, create, creates, plan_id, submission_for, verify_counts,
};

const MEBIBYTE: u64 = 1024 * 1024;

#[test]
fn a_long_reader_blocks_no_writer_and_the_log_is_truncated_afterwards() {
    let dir = DatabaseDir::new();
    let store = dir.store();
    create(&store, plan_id(0)).unwrap();
    let wal = dir.directory.path().join("planwright.db-wal");
    let wal_length = || std::fs::metadata(&wal).unwrap().len();
    let goal = "x".repeat(400_000);
    let mut next = 1;
    let mut write = |mebibytes: u64| {
        // The text is stored twice: in the plan's row and lease_verdict_and_evidence its event.
        for _ in 0..mebibytes * MEBIBYTE / 800_000 {
            let id = plan_id(next);
            store
                .commit(submission_for(id, creates(id, &goal)))
                .unwrap();
            next += 1;
        }
    };

    let reader = rusqlite::Connection::open(&dir.path).unwrap();
    reader.execute_batch("BEGIN").unwrap();
    let plans = || -> i64 {
        let count = "SELECT count(*) FROM plans";
        reader.query_row(count, [], |row| row.get(0)).unwrap()
    };
    assert_eq!(plans(), 1);
    write(40);
    assert_eq!(plans(), 1, "its snapshot stays");
    assert!(
        wal_length() > 32 * MEBIBYTE,
        "it cannot be emptied: {}",
        wal_length()
    );
    reader.execute_batch("COMMIT").unwrap();
    write(40);
    assert!(
        wal_length() < 24 * MEBIBYTE,
        "it was emptied: {}",
        wal_length()
    );
    verify_counts(&store);
}

/// A short read at every commit. SQLite's own checkpoints then never reach the end of the log, so
/// the log is never restarted.
#[test]
fn short_readers_at_every_commit_do_not_make_the_log_grow_forever() {
    let dir = DatabaseDir::new();
    let reading = Mutex::new(None);
    let path = dir.path.clone();
    let faults = StoreFaults::new(move |point| {
        let mut reading = reading.lock().unwrap();
        match point {
            FaultPoint::Decided => {}
            FaultPoint::BeforeCommit => {
                let reader = rusqlite::Connection::open(&path).unwrap();
                reader
                    .execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema")
                    .unwrap();
                *reading = Some(reader);
            }
            FaultPoint::AfterCommit => *reading = None,
        }
        StoreFault::None
    });
    let options = SqliteOptions {
        faults,
        ..SqliteOptions::default()
    };
    let store = SqliteStore::new(&dir.path, options);
    let wal = dir.directory.path().join("planwright.db-wal");
    let goal = "x".repeat(400_000);
    let mut longest = 0;
    for number in 0..100 {
        let id = plan_id(number);
        store
            .commit(submission_for(id, creates(id, &goal)))
            .unwrap();
        longest = longest.max(std::fs::metadata(&wal).unwrap().len());
    }
    assert!(longest > 16 * MEBIBYTE, "worth emptying: {longest}");
    assert!(
        longest < 40 * MEBIBYTE,
        "of 80 that were written: {longest}"
    );
    verify_counts(&store);
}

#[test]
fn closing_does_not_checkpoint() {
    let dir = DatabaseDir::new();
    let store = dir.store();
    create(&store, plan_id(0)).unwrap();
    drop(store);
    let wal = dir.directory.path().join("planwright.db-wal");
    assert!(
        std::fs::metadata(wal).unwrap().len() > 0,
        "no checkpoint on close"
    );
    assert_eq!(verify_counts(&dir.store()), (1, 1));
}
