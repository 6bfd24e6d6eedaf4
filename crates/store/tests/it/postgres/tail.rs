//! Tests the log of all plans: every event once, in order per plan, none before a cursor.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use plan::{PlanId, PlanVersion};
use store::{Cursor, EventLog, PostgresStore, StoreReader, StoreWriter};

use crate::postgres::database::ScratchDatabase;
use crate::postgres::decisions::{append, create, plan_id};

/// Guards `xid < pg_snapshot_xmin(…)` in `EVENTS`: a transaction that begins early and commits late
/// is not skipped, and nothing is repeated.
#[test]
fn a_transaction_that_commits_late_is_not_skipped() {
    let database = ScratchDatabase::new();
    let store = database.store();
    let (early, late) = (plan_id(), plan_id());
    store.commit(create(early)).unwrap();
    store.commit(create(late)).unwrap();
    let seen = page(&store, &Cursor::START, 2);
    assert_eq!(versions(&seen.events), [(early, 1), (late, 1)]);

    // Direct SQL: a commit that gets its transaction id now and ends later.
    let mut slow = database.sql();
    slow.run("BEGIN");
    slow.run(&format!(
        "SELECT 1 FROM plans WHERE plan_id = '{late}' FOR UPDATE"
    ));
    slow.run("SELECT pg_current_xact_id()");
    for _ in 0..3 {
        store.commit(append(early)).unwrap();
    }
    let held = store.read_events(&seen.next, 1000).unwrap();
    assert_eq!(
        held.events,
        [],
        "what was committed waits for the earlier transaction"
    );
    assert_eq!(held.next, seen.next);
    assert_eq!(store.read_latest_cursor().unwrap(), seen.next);
    // Reading one plan does not wait.
    assert_eq!(
        store
            .read_plan_events(early, PlanVersion(0), 100)
            .unwrap()
            .len(),
        4
    );
    // Wait until all notifications of these commits have arrived.
    store.wait_for_commit(Duration::from_millis(1)).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let began = Instant::now();
    store.wait_for_commit(Duration::from_secs(60)).unwrap();
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "while events are held back one looks again soon"
    );

    slow.run(&format!(
        "INSERT INTO events (xid, position, plan_id, version, body, texts, hash) \
         SELECT pg_current_xact_id()::text::bigint, 1, plan_id, 2, replace(body, '\"version\":1', '\"version\":2'), \
                texts, hash FROM events WHERE plan_id = '{late}'"
    ));
    slow.run("COMMIT");
    let rest = page(&store, &seen.next, 4);
    assert_eq!(
        versions(&rest.events),
        [(late, 2), (early, 2), (early, 3), (early, 4)]
    );
    assert_eq!(store.read_latest_cursor().unwrap(), rest.next);
    assert_eq!(store.read_events(&rest.next, 1000).unwrap().events, []);
}

/// Guards that the lock is taken before the transaction id is assigned: ids are in the order of the
/// plan's events, even if transactions overlap.
#[test]
fn a_follower_sees_every_event_once_and_each_plan_in_order() {
    let database = ScratchDatabase::new();
    let store = database.store();
    let plans: Vec<PlanId> = (0..3).map(|_| plan_id()).collect();
    for plan in &plans {
        store.commit(create(*plan)).unwrap();
    }
    let done = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        let follower = scope.spawn(|| {
            let mut seen = Vec::new();
            let mut cursor = Cursor::START;
            loop {
                let ended = done.load(Ordering::SeqCst);
                let page = store.read_events(&cursor, 7).unwrap();
                seen.extend(versions(&page.events));
                if page.next == cursor {
                    if ended {
                        return seen;
                    }
                    store.wait_for_commit(Duration::from_millis(20)).unwrap();
                }
                cursor = page.next;
            }
        });
        std::thread::scope(|writers| {
            for number in 0..12 {
                let (store, plan) = (&store, plans[number % 3]);
                writers
                    .spawn(move || (0..25).for_each(|_| drop(store.commit(append(plan)).unwrap())));
            }
        });
        // Transactions of other tests on this server must not hold back the log for long.
        let end = store
            .list_plans(&store::PlanFilter::default(), None, 10)
            .unwrap();
        assert!(end.iter().all(|row| row.plan.version() == PlanVersion(101)));
        let began = Instant::now();
        while store
            .read_events(&Cursor::START, 1000)
            .unwrap()
            .events
            .len()
            < 303
        {
            assert!(began.elapsed() < Duration::from_secs(30));
            std::thread::sleep(Duration::from_millis(10));
        }
        done.store(true, Ordering::SeqCst);
        follower.join().unwrap()
    });
    let mut by_plan: BTreeMap<PlanId, Vec<u64>> = BTreeMap::new();
    for (plan, version) in &seen {
        by_plan.entry(*plan).or_default().push(*version);
    }
    assert_eq!(seen.len(), 303);
    for versions in by_plan.values() {
        assert_eq!(*versions, (1..=101).collect::<Vec<_>>());
    }
}

/// Guards `xid_base`: a store restored on a server with smaller transaction ids stays readable, and
/// new events follow the old ones.
#[test]
fn a_store_moved_to_another_server_continues_its_log() {
    let database = ScratchDatabase::new();
    let store = database.store();
    let plan = plan_id();
    store.commit(create(plan)).unwrap();
    store.commit(append(plan)).unwrap();
    drop(store);
    // As after a restore: ids this server will not reach soon, and another server's identity.
    let mut sql = database.sql();
    sql.run("UPDATE events SET xid = xid + 1000000000000");
    sql.run("UPDATE schema_version SET system = system + 1");
    let store = database.store();
    let first = store.read_events(&Cursor::START, 1).unwrap();
    assert_eq!(
        versions(&first.events),
        [(plan, 1)],
        "readable before anything is written"
    );
    store.commit(append(plan)).unwrap();
    store.commit(append(plan)).unwrap();
    let rest = page(&store, &first.next, 3);
    assert_eq!(versions(&rest.events), [(plan, 2), (plan, 3), (plan, 4)]);
    assert_eq!(store.read_latest_cursor().unwrap(), rest.next);
    assert_ne!(sql.value("SELECT xid_base FROM schema_version"), "0");
}

/// Guards that a cursor survives a round trip as text.
#[test]
fn a_cursor_survives_a_round_trip_as_text() {
    let database = ScratchDatabase::new();
    let store = database.store();
    let plan = plan_id();
    assert_eq!(store.read_latest_cursor().unwrap(), Cursor::START);
    store.commit(create(plan)).unwrap();
    store.commit(append(plan)).unwrap();
    page(&store, &Cursor::START, 2);
    let first = store.read_events(&Cursor::START, 1).unwrap();
    let kept: Cursor = first.next.to_string().parse().unwrap();
    assert_eq!(versions(&page(&store, &kept, 1).events), [(plan, 2)]);
    let far: Cursor = format!("{}.0", u64::MAX).parse().unwrap();
    assert_eq!(store.read_events(&far, 1000).unwrap().events, []);
}

/// Waits for a page with this many events. Transactions of other tests may hold them back.
fn page(store: &PostgresStore, after: &Cursor, count: usize) -> store::EventPage {
    let began = Instant::now();
    loop {
        let page = store.read_events(after, 1000).unwrap();
        if page.events.len() >= count {
            return page;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{page:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn versions(events: &[store::StoredEvent]) -> Vec<(PlanId, u64)> {
    events
        .iter()
        .map(|event| (event.recorded.plan, event.recorded.version.0))
        .collect()
}
