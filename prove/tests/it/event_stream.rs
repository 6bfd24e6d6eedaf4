//! Event streams: every event once, in order and soon, with one reader of the log for all of them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use lifecycle::{Call, EventStream, Lifecycle, UseRequest};
use plan::{Caller, PlanActors, PlanId};
use planwright_prove::hooked_store::{HookedStore, StoreHooks};
use store::{
    Cursor, EventPage, MemoryStore, PostgresOptions, PostgresStore, SqliteOptions, SqliteStore,
    Store,
};
use testkit::{PostgresDatabase, SqliteFile, samples};

/// Commits right after the log was read and found empty.
struct CommitAfterEmptyRead(Arc<dyn Store>);

impl StoreHooks for CommitAfterEmptyRead {
    fn edit_page(&self, page: EventPage) -> EventPage {
        if page.events.is_empty() {
            let request = UseRequest {
                goal: Some("come in between".to_owned()),
                fallback_actors: Some(PlanActors::for_both_phases(samples::parse_name("robot"))),
                ..UseRequest::default()
            };
            let call = Call::by(Caller::Person("ada".to_owned()));
            Lifecycle::on(Arc::clone(&self.0))
                .use_action(request, &call)
                .unwrap();
        }
        page
    }
}

#[test]
fn a_commit_between_reading_and_waiting_is_delivered() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let hooked = HookedStore::new(Arc::clone(&store), CommitAfterEmptyRead(Arc::clone(&store)));
    let timeout = Duration::from_secs(20);
    let start = Instant::now();
    let mut events = Lifecycle::open(hooked).events(Cursor::START);
    let event = events.next_within(timeout).unwrap().unwrap();
    assert_eq!(event.recorded.event.kind(), "created");
    assert!(start.elapsed() < timeout / 2);
}

/// Counts the reads of the log. May lose all notifications.
#[derive(Clone, Default)]
struct ReadCounter {
    count: Arc<AtomicUsize>,
    loses_notifications: bool,
}

impl StoreHooks for ReadCounter {
    fn edit_page(&self, page: EventPage) -> EventPage {
        self.count.fetch_add(1, Ordering::SeqCst);
        page
    }

    fn loses_notifications(&self) -> bool {
        self.loses_notifications
    }
}

/// An engine on a memory store that counts reads, and one that nobody counts.
fn counted_engine(counter: &ReadCounter) -> (Lifecycle, Lifecycle) {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let counted = HookedStore::new(Arc::clone(&store), counter.clone());
    (Lifecycle::open(counted), Lifecycle::on(store))
}

fn create_plan(lifecycle: &Lifecycle) -> PlanId {
    let request = UseRequest {
        goal: Some("be followed".to_owned()),
        fallback_actors: Some(PlanActors::for_both_phases(samples::parse_name("robot"))),
        ..UseRequest::default()
    };
    let call = Call::by(Caller::Person("ada".to_owned()));
    lifecycle.use_action(request, &call).unwrap().plan.id()
}

/// Follows until `count` events came, and returns them as plan and version.
fn take_events(events: &mut EventStream, count: usize) -> Vec<(PlanId, u64)> {
    let mut seen = Vec::new();
    while seen.len() < count {
        let event = events.next_within(TEST_TIMEOUT).unwrap();
        let recorded = event.expect("events keep coming").recorded;
        seen.push((recorded.plan, recorded.version.0));
    }
    seen
}

/// Longer than any of these tests takes.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

#[test]
fn a_hundred_followers_read_the_store_about_as_often_as_one() {
    const EVENTS: usize = 30;
    let count_reads = |followers: usize| {
        let counter = ReadCounter::default();
        let (followed, writing) = counted_engine(&counter);
        let received = AtomicUsize::new(0);
        let start = Barrier::new(followers + 1);
        std::thread::scope(|scope| {
            for _ in 0..followers {
                scope.spawn(|| {
                    let mut events = followed.events(Cursor::START);
                    // The first event is read by each follower itself or from the tail, as it happens.
                    take_events(&mut events, 1);
                    start.wait();
                    for _ in 0..EVENTS {
                        take_events(&mut events, 1);
                        received.fetch_add(1, Ordering::SeqCst);
                    }
                    // The tail ends with its last follower.
                    start.wait();
                });
            }
            create_plan(&writing);
            start.wait();
            let before = counter.count.load(Ordering::SeqCst);
            for number in 1..=EVENTS {
                create_plan(&writing);
                while received.load(Ordering::SeqCst) < number * followers {
                    std::thread::yield_now();
                }
            }
            let reads = counter.count.load(Ordering::SeqCst) - before;
            start.wait();
            reads
        })
    };
    // One read per event. A few more for the safety net, if the machine is slow.
    for followers in [1, 100] {
        let reads = count_reads(followers);
        assert!(reads <= 3 * EVENTS, "{followers} followers: {reads} reads");
    }
}

#[test]
fn a_lost_notification_costs_at_most_two_seconds() {
    let counter = ReadCounter {
        loses_notifications: true,
        ..ReadCounter::default()
    };
    let (followed, writing) = counted_engine(&counter);
    let mut events = followed.events(Cursor::START);
    create_plan(&writing);
    take_events(&mut events, 1);
    for _ in 0..2 {
        create_plan(&writing);
        let committed = Instant::now();
        take_events(&mut events, 1);
        // Two seconds, and time for a slow machine.
        assert!(committed.elapsed() < Duration::from_secs(8));
    }
}

#[test]
fn a_follower_that_lags_gets_every_event_once() {
    let lifecycle = Lifecycle::open(MemoryStore::new());
    let mut late = lifecycle.events(Cursor::START);
    let first = create_plan(&lifecycle);
    assert_eq!(take_events(&mut late, 1), [(first, 1)]);
    // Keeps the tail running while the other one lags.
    let mut early = lifecycle.events(lifecycle.store().read_latest_cursor().unwrap());
    let mut expected = Vec::new();
    for _ in 0..10_000 {
        expected.push((create_plan(&lifecycle), 1));
    }
    assert_eq!(take_events(&mut early, 10_000), expected);
    assert_eq!(take_events(&mut late, 10_000), expected);
    let last = create_plan(&lifecycle);
    assert_eq!(take_events(&mut late, 1), [(last, 1)]);
    assert_eq!(take_events(&mut early, 1), [(last, 1)]);
}

#[test]
fn followers_start_where_they_want_to() {
    let lifecycle = Lifecycle::open(MemoryStore::new());
    let mut cursors = vec![Cursor::START];
    let mut expected = Vec::new();
    for _ in 0..5 {
        expected.push((create_plan(&lifecycle), 1));
        cursors.push(lifecycle.store().read_latest_cursor().unwrap());
    }
    let mut streams: Vec<EventStream> = cursors
        .into_iter()
        .map(|cursor| lifecycle.events(cursor))
        .collect();
    for (number, events) in streams.iter_mut().enumerate() {
        let rest = &expected[number..];
        assert_eq!(take_events(events, rest.len()), rest);
        let nothing = events.next_within(Duration::from_millis(1)).unwrap();
        assert!(nothing.is_none());
    }
    let last = create_plan(&lifecycle);
    for events in &mut streams {
        assert_eq!(take_events(events, 1), [(last, 1)]);
    }
}

/// The store must be free when the last follower is gone: a process may end right after.
#[test]
fn the_tail_ends_with_its_last_follower() {
    let store = Arc::new(MemoryStore::new());
    let lifecycle = Lifecycle::on(Arc::clone(&store) as Arc<dyn Store>);
    for _ in 0..50 {
        let mut streams = [(); 3].map(|()| lifecycle.events(Cursor::START));
        create_plan(&lifecycle);
        for events in &mut streams {
            take_events(events, 1);
        }
        drop(streams);
        assert_eq!(Arc::strong_count(&store), 2, "this test and its engine");
    }
}

/// Many followers, writers and engines on one store: each follower sees each event once, and those of a plan in order.
fn follow_under_load(open: impl Fn() -> Arc<dyn Store> + Sync) {
    const PLANS: usize = 40;
    const EVENTS: usize = 2 * PLANS;
    let engines: Vec<Lifecycle> = (0..3).map(|_| Lifecycle::on(open())).collect();
    let first = create_plan(&engines[0]);
    std::thread::scope(|scope| {
        for number in 0..12 {
            let engine = &engines[number % engines.len()];
            scope.spawn(move || {
                let mut events = engine.events(Cursor::START);
                let mut versions: BTreeMap<PlanId, Vec<u64>> = BTreeMap::new();
                for count in 0..=EVENTS {
                    let event = events.next_within(TEST_TIMEOUT).unwrap().unwrap();
                    let recorded = event.recorded;
                    let seen = versions.entry(recorded.plan).or_default();
                    seen.push(recorded.version.0);
                    // Some come and go, so that the tail ends and starts again.
                    if number % 3 == 0 && count % 10 == 0 {
                        events = engine.events(event.cursor.unwrap());
                    }
                }
                assert_eq!(versions.remove(&first), Some(vec![1]));
                assert_eq!(versions.len(), PLANS);
                for (plan_id, versions) in versions {
                    assert_eq!(versions, [1, 2], "{plan_id}");
                }
            });
        }
        for number in 0..4 {
            let engine = &engines[number % engines.len()];
            scope.spawn(move || {
                let call = Call::by(Caller::Person("ada".to_owned()));
                for _ in 0..PLANS / 4 {
                    let plan_id = create_plan(engine);
                    engine.cancel_plan(plan_id, None, &call).unwrap();
                }
            });
        }
    });
}

#[test]
fn followers_under_load_in_memory() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    follow_under_load(|| Arc::clone(&store));
}

#[test]
fn followers_under_load_on_sqlite() {
    let file = SqliteFile::new();
    follow_under_load(|| Arc::new(SqliteStore::new(file.path(), SqliteOptions::default())));
}

#[test]
fn followers_under_load_on_postgres() {
    let database = PostgresDatabase::new();
    let open = || PostgresStore::new(&database.url(), PostgresOptions::default()).unwrap();
    follow_under_load(|| Arc::new(open()));
}
