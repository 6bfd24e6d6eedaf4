//! Tests waiting for commits.

use std::time::{Duration, Instant};

use store::{EventLog, StoreWriter};

use crate::postgres::database::ScratchDatabase;
use crate::postgres::decisions::{append, create, plan_id};

/// Guards LISTEN and NOTIFY between processes: the wait ends long before the timeout.
#[test]
fn a_commit_of_another_store_ends_the_wait() {
    let database = ScratchDatabase::new();
    let (store_one, store_two) = (database.store(), database.store());
    let plan = plan_id();
    store_two.commit(create(plan)).unwrap();
    listen(&database, &store_one);
    for _ in 0..3 {
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let began = Instant::now();
                store_one.wait_for_commit(Duration::from_secs(60)).unwrap();
                began.elapsed()
            });
            // By then, late notifications of earlier commits have arrived.
            std::thread::sleep(Duration::from_millis(100));
            store_two.commit(append(plan)).unwrap();
            assert!(waiting.join().unwrap() < Duration::from_secs(20));
        });
    }
}

/// Guards the signal within a process, which does not need the server.
#[test]
fn a_commit_of_this_store_ends_the_wait() {
    let database = ScratchDatabase::new();
    let store = database.store();
    let plan = plan_id();
    store.commit(create(plan)).unwrap();
    listen(&database, &store);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let began = Instant::now();
            store.wait_for_commit(Duration::from_secs(60)).unwrap();
            began.elapsed()
        });
        std::thread::sleep(Duration::from_millis(100));
        store.commit(append(plan)).unwrap();
        assert!(waiting.join().unwrap() < Duration::from_secs(20));
    });
}

/// Guards the timeout, which is the fallback.
#[test]
fn a_wait_times_out() {
    let database = ScratchDatabase::new();
    let store = database.store();
    listen(&database, &store);
    let began = Instant::now();
    store.wait_for_commit(Duration::from_millis(300)).unwrap();
    let waited = began.elapsed();
    assert!(
        waited >= Duration::from_millis(290) && waited < Duration::from_secs(10),
        "{waited:?}"
    );
}

/// Guards the last notification of a store that is dropped right after a commit, as in one-shot
/// programs.
#[test]
fn the_last_commit_is_announced_before_the_store_is_dropped() {
    let database = ScratchDatabase::new();
    let store_one = database.store();
    let plan = plan_id();
    store_one.commit(create(plan)).unwrap();
    listen(&database, &store_one);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let began = Instant::now();
            store_one.wait_for_commit(Duration::from_secs(60)).unwrap();
            began.elapsed()
        });
        std::thread::sleep(Duration::from_millis(100));
        let store_two = database.store();
        store_two.commit(append(plan)).unwrap();
        drop(store_two);
        assert!(waiting.join().unwrap() < Duration::from_secs(20));
    });
}

/// Guards that the listener reconnects after its connection was lost.
#[test]
fn a_disconnected_listener_reconnects() {
    let database = ScratchDatabase::new();
    let (store_one, store_two) = (database.store(), database.store());
    let plan = plan_id();
    store_two.commit(create(plan)).unwrap();
    listen(&database, &store_one);
    let mut sql = database.sql();
    sql.run(&format!(
        "SELECT pg_terminate_backend(pid) FROM ({LISTENING}) listening"
    ));
    let began = Instant::now();
    while sql.rows(LISTENING).is_empty() {
        assert!(began.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let began = Instant::now();
            store_one.wait_for_commit(Duration::from_secs(60)).unwrap();
            began.elapsed()
        });
        std::thread::sleep(Duration::from_millis(200));
        store_two.commit(append(plan)).unwrap();
        assert!(waiting.join().unwrap() < Duration::from_secs(20));
    });
}

/// Guards that threads and connections end with the store.
#[test]
fn a_dropped_store_closes_its_connections() {
    let database = ScratchDatabase::new();
    let store = database.store();
    store.commit(create(plan_id())).unwrap();
    listen(&database, &store);
    drop(store);
    let mut sql = database.sql();
    let began = Instant::now();
    let open = "SELECT count(*) FROM pg_stat_activity \
                WHERE datname = current_database() AND application_name = 'planwright'";
    while sql.value(open) != "0" {
        assert!(began.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(20));
    }
}

const LISTENING: &str = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() \
                         AND application_name = 'planwright' AND query LIKE 'LISTEN%'";

/// Starts the listener of a store, and waits until it has signalled once.
fn listen(database: &ScratchDatabase, store: &store::PostgresStore) {
    let began = Instant::now();
    while database.sql().rows(LISTENING).is_empty() {
        assert!(began.elapsed() < Duration::from_secs(20));
        store.wait_for_commit(Duration::from_millis(20)).unwrap();
    }
    std::thread::sleep(Duration::from_millis(200));
}
