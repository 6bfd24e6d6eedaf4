//! Tests the event log: every event once and in order, and waits that end on a commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use planwright_store::{Cursor, EventLog, StoreReader};

use crate::sqlite::child::ChildProcess;
use crate::sqlite::support::{DatabaseDir, create, plan_id, toggle};

#[test]
fn every_event_is_seen_once_and_in_order_while_others_write() {
    let dir = DatabaseDir::new();
    let store = Arc::new(dir.store());
    let done = Arc::new(AtomicBool::new(false));
    let tailing = std::thread::spawn({
        let (store, done) = (Arc::clone(&store), Arc::clone(&done));
        move || {
            let mut seen = Vec::new();
            let mut cursor = Cursor::START;
            loop {
                let last_look = done.load(Ordering::SeqCst);
                let page = store.read_events(&cursor, 7).unwrap();
                seen.extend(page.events.iter().map(|event| event.recorded.clone()));
                if page.events.is_empty() {
                    assert_eq!(page.next, cursor);
                    if last_look {
                        return seen;
                    }
                    store.wait_for_commit(Duration::from_millis(500)).unwrap();
                }
                cursor = page.next.to_string().parse().unwrap();
            }
        }
    });
    let other_process = ChildProcess::start("write", &dir.path, 100);
    let writers: Vec<_> = (0..8)
        .map(|number| {
            let store = Arc::clone(&store);
            std::thread::spawn(move || {
                create(&store, plan_id(number)).unwrap();
                for _ in 1..20 {
                    toggle(&store, plan_id(number)).unwrap();
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().unwrap();
    }
    other_process.finish();
    done.store(true, Ordering::SeqCst);
    let seen = tailing.join().unwrap();
    assert_eq!(seen.len(), 9 * 20);
    for number in (0..8).chain([100]) {
        let versions: Vec<u64> = seen
            .iter()
            .filter(|event| event.plan == plan_id(number))
            .map(|event| event.version.0)
            .collect();
        assert_eq!(versions, (1..=20).collect::<Vec<_>>());
    }
    assert_eq!(
        store
            .read_events(&store.read_latest_cursor().unwrap(), 10)
            .unwrap()
            .events,
        []
    );
}

#[test]
fn a_wait_ends_when_another_process_commits_or_creates_the_store() {
    let dir = DatabaseDir::new();
    let store = dir.store();
    for number in 0..2 {
        let other = ChildProcess::start("commit-once", &dir.path, number);
        let began = Instant::now();
        while store.read_plan(plan_id(number)).unwrap().is_none() {
            store.wait_for_commit(Duration::from_secs(60)).unwrap();
        }
        assert!(began.elapsed() < Duration::from_secs(30));
        other.finish();
    }
}

#[test]
fn a_wait_times_out() {
    let dir = DatabaseDir::new();
    let store = dir.store();
    let began = Instant::now();
    store.wait_for_commit(Duration::from_millis(50)).unwrap();
    create(&store, plan_id(0)).unwrap();
    store.wait_for_commit(Duration::from_millis(50)).unwrap();
    store.wait_for_commit(Duration::ZERO).unwrap();
    assert!(began.elapsed() >= Duration::from_millis(100));
    assert_eq!(dir.store().find_plan_ids("", 10).unwrap(), [plan_id(0)]);
}
