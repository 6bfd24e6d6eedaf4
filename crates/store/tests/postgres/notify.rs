//! Waiting for commits.

use std::time::{Duration, Instant};

use store::{EventLog, StoreWriter};

use crate::database::Database;
use crate::decisions::{append, create, plan_id};

/// Guards LISTEN and NOTIFY between processes: far sooner than the timeout.
#[test]
fn a_commit_of_another_store_ends_the_waiting() {
    let database = Database::new();
    let (here, there) = (database.store(), database.store());
    let plan = plan_id();
    there.commit(create(plan)).unwrap();
    listen(&database, &here);
    for _ in 0..3 {
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let began = Instant::now();
                here.wait_for_commit(Duration::from_secs(60)).unwrap();
                began.elapsed()
            });
            // Whatever is announced late by an earlier commit has been by then.
            std::thread::sleep(Duration::from_millis(100));
            there.commit(append(plan)).unwrap();
            assert!(waiting.join().unwrap() < Duration::from_secs(20));
        });
    }
}

/// Guards the hint inside a process, which waits for no server.
#[test]
fn a_commit_of_this_store_ends_the_waiting() {
    let database = Database::new();
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

/// Guards the timeout, which is the safety net.
#[test]
fn waiting_ends_by_itself() {
    let database = Database::new();
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

/// Guards the last announcement being sent when the store ends right after a commit, as every
/// one-shot program does.
#[test]
fn what_was_committed_last_is_announced_before_the_end() {
    let database = Database::new();
    let here = database.store();
    let plan = plan_id();
    here.commit(create(plan)).unwrap();
    listen(&database, &here);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let began = Instant::now();
            here.wait_for_commit(Duration::from_secs(60)).unwrap();
            began.elapsed()
        });
        std::thread::sleep(Duration::from_millis(100));
        let there = database.store();
        there.commit(append(plan)).unwrap();
        drop(there);
        assert!(waiting.join().unwrap() < Duration::from_secs(20));
    });
}

/// Guards the listener coming back: it is heard again after its connection was ended.
#[test]
fn a_listener_that_was_cut_off_listens_again() {
    let database = Database::new();
    let (here, there) = (database.store(), database.store());
    let plan = plan_id();
    there.commit(create(plan)).unwrap();
    listen(&database, &here);
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
            here.wait_for_commit(Duration::from_secs(60)).unwrap();
            began.elapsed()
        });
        std::thread::sleep(Duration::from_millis(200));
        there.commit(append(plan)).unwrap();
        assert!(waiting.join().unwrap() < Duration::from_secs(20));
    });
}

/// Guards the threads and connections ending with the store.
#[test]
fn a_store_that_ended_leaves_no_connection() {
    let database = Database::new();
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

/// Makes a store listen, and waits until it does and has said so.
fn listen(database: &Database, store: &store::PostgresStore) {
    let began = Instant::now();
    while database.sql().rows(LISTENING).is_empty() {
        assert!(began.elapsed() < Duration::from_secs(20));
        store.wait_for_commit(Duration::from_millis(20)).unwrap();
    }
    std::thread::sleep(Duration::from_millis(200));
}
