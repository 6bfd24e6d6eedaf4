//! The write-ahead log does not grow forever, and readers do not hold writers up.

use std::sync::Mutex;

use planwright_store::StoreWriter;
use planwright_store::fault::{FaultPoint, StoreFault, StoreFaults};
use planwright_store::sqlite::{SqliteOptions, SqliteStore};

use crate::support::{Place, about, create, creates, plan_id, sound};

const MEBIBYTE: u64 = 1024 * 1024;

#[test]
fn a_long_reader_holds_nobody_up_and_the_log_is_emptied_once_it_ends() {
    let place = Place::new();
    let store = place.store();
    create(&store, plan_id(0)).unwrap();
    let wal = place.directory.path().join("planwright.db-wal");
    let wal_length = || std::fs::metadata(&wal).unwrap().len();
    let goal = "x".repeat(400_000);
    let mut next = 1;
    let mut write = |mebibytes: u64| {
        // Text in the plan's row and beside its event: twice.
        for _ in 0..mebibytes * MEBIBYTE / 800_000 {
            let id = plan_id(next);
            store.commit(about(id, creates(id, &goal))).unwrap();
            next += 1;
        }
    };

    let reader = rusqlite::Connection::open(&place.path).unwrap();
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
    sound(&store);
}

/// Somebody reads at every single commit, each of them only for that moment. The database's own
/// checkpoints never get to the end of the log then, and the log is never started over.
#[test]
fn short_readers_at_every_commit_do_not_make_the_log_grow_forever() {
    let place = Place::new();
    let reading = Mutex::new(None);
    let path = place.path.clone();
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
    let store = SqliteStore::new(&place.path, options);
    let wal = place.directory.path().join("planwright.db-wal");
    let goal = "x".repeat(400_000);
    let mut longest = 0;
    for number in 0..100 {
        let id = plan_id(number);
        store.commit(about(id, creates(id, &goal))).unwrap();
        longest = longest.max(std::fs::metadata(&wal).unwrap().len());
    }
    assert!(longest > 16 * MEBIBYTE, "worth emptying: {longest}");
    assert!(
        longest < 40 * MEBIBYTE,
        "of 80 that were written: {longest}"
    );
    sound(&store);
}

#[test]
fn closing_leaves_the_log_to_the_next() {
    let place = Place::new();
    let store = place.store();
    create(&store, plan_id(0)).unwrap();
    drop(store);
    let wal = place.directory.path().join("planwright.db-wal");
    assert!(
        std::fs::metadata(wal).unwrap().len() > 0,
        "no checkpoint on close"
    );
    assert_eq!(sound(&place.store()), (1, 1));
}
