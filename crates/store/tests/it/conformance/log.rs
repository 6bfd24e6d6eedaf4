//! G12: every transition is an event in a hash chain, replay yields the plan, and readers of the
//! log see every event once and in order.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use plan::command::ReclaimGrounds;
use plan::command::{
    CancelPlan, CompleteStrategize, ExpireQuestion, FailRun, PrepareApply, ReclaimLease,
    ReleaseLease, RetryPhase, ReviseWork, WithdrawApply,
};
use plan::completion::collect_completions;
use plan::evolve::replay_events;
use plan::invariant::Gate;
use plan::stage::FailureCategory;
use plan::{Command, Digest, PlanId, PlanVersion, RecordedEvent, Refusal, Verb};
use store::event_codec::chain_hash;
use store::verify::verify_store;
use store::{CommitError, Cursor, Store, StoredEvent};
use testkit::client::LONG_LEASE;
use testkit::dump::read_all_events;
use testkit::{TestClient, samples};

use crate::store_fixture::StoreFixture;

super::on_every_store! {
    the_events_of_a_plan_are_in_order_and_chained,
    replay_yields_the_plan_at_every_version,
    a_decision_that_asks_gets_the_last_completion_of_a_verb,
    tailers_see_every_event_exactly_once_in_the_order_of_its_plan,
    a_stored_cursor_continues_where_it_was,
    the_latest_cursor_is_after_every_event,
    a_wait_ends_when_another_handle_commits,
    a_commit_after_the_mark_ends_the_wait,
    a_wait_without_commits_times_out,
}

/// Far more than any test needs; reached only by a hang.
const TOO_LONG: Duration = Duration::from_secs(30);

fn the_events_of_a_plan_are_in_order_and_chained(fixture: &StoreFixture) {
    let client = fixture.client();
    let plan = client.create_landed_plan("leave traces");
    client.create_landed_plan("another, whose events are not ours");
    let store = fixture.open();
    let events = store.read_plan_events(plan, PlanVersion(0), 1000).unwrap();
    let mut head = Digest::ZERO;
    for (version, stored) in (1..).zip(&events) {
        assert_eq!(
            (stored.recorded.plan, stored.recorded.version),
            (plan, PlanVersion(version))
        );
        head = chain_hash(head, &stored.body);
        assert_eq!(stored.hash, head, "the chain breaks at {version}");
        assert_eq!(
            stored.cursor, None,
            "its place among all plans was not asked for"
        );
    }
    let row = store.read_plan(plan).unwrap().unwrap();
    assert_eq!(
        (row.head, row.plan.version()),
        (head, PlanVersion(events.len() as u64))
    );

    let after = PlanVersion(3);
    assert_eq!(
        store.read_plan_events(plan, after, 1000).unwrap(),
        events[3..]
    );
    assert_eq!(
        store.read_plan_events(plan, after, 2).unwrap(),
        events[3..5]
    );
    assert!(
        store
            .read_plan_events(plan, row.plan.version(), 10)
            .unwrap()
            .is_empty()
    );
    assert!(
        store
            .read_plan_events(plan, PlanVersion(u64::MAX), 10)
            .unwrap()
            .is_empty()
    );
    assert!(
        store
            .read_plan_events(client.ids().next_plan_id(), PlanVersion(0), 10)
            .unwrap()
            .is_empty()
    );
}

fn replay_yields_the_plan_at_every_version(fixture: &StoreFixture) {
    let client = fixture.client();
    let plan = client.create_queued_plan("be replayed");
    let mut states = vec![Arc::new(client.load_plan(plan))];
    let steps: [fn(&TestClient, PlanId) -> Command; 4] = [
        |client, plan| client.start_command(plan, plan::Phase::Strategize, LONG_LEASE),
        |client, plan| {
            Command::from(CompleteStrategize {
                epoch: client.load_plan(plan).epoch(),
                decisions: Vec::new(),
            })
        },
        |_, _| {
            Command::from(ReviseWork {
                comments: Default::default(),
                feedback: "better".to_owned(),
                dropped: Vec::new(),
            })
        },
        |_, _| {
            Command::from(CancelPlan {
                reason: Some("enough".to_owned()),
            })
        },
    ];
    for step in steps {
        states.push(client.must_submit(plan, step(&client, plan)).plan.unwrap());
    }
    let recorded: Vec<RecordedEvent> = read_all_events(fixture.open().as_ref(), plan)
        .into_iter()
        .map(|stored| stored.recorded)
        .collect();
    for state in states {
        let until = usize::try_from(state.version().0).unwrap();
        assert_eq!(
            replay_events(&recorded[..until]).unwrap().as_ref(),
            Some(&*state)
        );
    }
    let verified = verify_store(fixture.open().as_ref()).unwrap();
    assert_eq!((verified.plans, verified.problems), (1, Vec::new()));
    assert_eq!(verified.events, recorded.len() as u64);
}

/// Every verb, on a plan with many claims, a failure, a reclaim and a landing that was withdrawn and
/// prepared again.
fn a_decision_that_asks_gets_the_last_completion_of_a_verb(fixture: &StoreFixture) {
    let client = fixture.client();
    let (plan, epoch) = client.create_executing_plan("be tried often", LONG_LEASE);
    let fail = |epoch| {
        Command::from(FailRun {
            epoch,
            category: FailureCategory::Actor,
            message: "no".into(),
        })
    };
    let retry = || {
        Command::from(RetryPhase {
            fresh: false,
            limits: None,
        })
    };
    client.must_submit(plan, fail(epoch));
    for _ in 0..3 {
        client.must_submit(plan, retry());
        for _ in 0..6 {
            let epoch = client.claim_phase(plan, LONG_LEASE);
            client.must_submit(plan, Command::from(ReleaseLease { epoch }));
        }
        let dead = client.claim_phase(plan, LONG_LEASE);
        let grounds = ReclaimGrounds::OwnerDead(dead);
        client.must_submit(plan, Command::from(ReclaimLease { grounds }));
        let epoch = client.claim_phase(plan, LONG_LEASE);
        client.must_submit(plan, fail(epoch));
    }
    let (landing, epoch) = client.create_landing_plan("be withdrawn");
    for _ in 0..2 {
        let moves = samples::landing_moves();
        let judgement = client.judge_rules(landing, Gate::Apply);
        let prepare = Command::from(PrepareApply {
            epoch,
            moves,
            judgement,
        });
        client.must_submit(landing, prepare);
        client.must_submit(landing, Command::from(WithdrawApply { epoch }));
    }
    let landed = client.create_landed_plan("land");
    for plan_id in [plan, landing, landed] {
        let log = read_all_events(client.store(), plan_id);
        let expected = collect_completions(log.iter().map(|stored| &stored.recorded));
        assert!(expected.len() > 4, "{expected:?}");
        let found = Arc::new(Mutex::new(None));
        let seen = Arc::clone(&found);
        let mut submission = client.build_submission(Some(plan_id), Command::from(ExpireQuestion));
        submission.decide = Box::new(move |facts, _| {
            for verb in Verb::ALL {
                if !facts.completions.contains_key(verb) {
                    return Err(Refusal::CompletionNotRead { verb: *verb });
                }
            }
            *seen.lock().unwrap() = Some(facts.completions.clone());
            Err(Refusal::NothingToUndo)
        });
        let refused = client.store().commit(submission);
        assert!(matches!(
            refused,
            Err(CommitError::Refused(Refusal::NothingToUndo))
        ));
        let found = found.lock().unwrap().take().unwrap();
        for verb in Verb::ALL {
            assert_eq!(found[verb].as_ref(), expected.get(verb), "{verb}");
        }
        assert_eq!(client.store().read_completions(plan_id).unwrap(), expected);
    }
}

fn tailers_see_every_event_exactly_once_in_the_order_of_its_plan(fixture: &StoreFixture) {
    const WRITERS: usize = 8;
    let client = fixture.client();
    let shared = client.create_executed_plan("be signed by all");
    let committed = AtomicUsize::new(read_all_events(client.store(), shared).len());
    let writing = AtomicUsize::new(WRITERS);
    let write = |client: &TestClient| {
        let count = |events: u64| committed.fetch_add(events.try_into().unwrap(), Ordering::SeqCst);
        let own = client.create_queued_plan("be tailed");
        for _ in 0..4 {
            let epoch = client.claim_phase(own, LONG_LEASE);
            client.must_submit(own, Command::from(ReleaseLease { epoch }));
            client
                .as_person("ada")
                .must_submit(shared, testkit::samples::approve_command());
            count(1);
        }
        count(client.load_plan(own).version().0);
        writing.fetch_sub(1, Ordering::SeqCst);
    };
    let tail_all = || {
        let store = fixture.open();
        let (mut seen, mut cursor) = (Vec::new(), Cursor::START);
        let started = Instant::now();
        loop {
            let over = writing.load(Ordering::SeqCst) == 0;
            let page = store.read_events(&cursor, 5).unwrap();
            assert!(page.events.len() <= 5);
            // As a process does after a restart.
            cursor = page.next.to_string().parse().unwrap();
            if page.events.is_empty() {
                assert_eq!(cursor.to_string(), page.next.to_string());
                if over && seen.len() >= committed.load(Ordering::SeqCst) {
                    return seen;
                }
                assert!(started.elapsed() < TOO_LONG, "{} seen", seen.len());
                store.wait_for_commit(Duration::from_millis(20)).unwrap();
            }
            seen.extend(page.events);
        }
    };
    let (first, second) = thread::scope(|scope| {
        let tailers = [scope.spawn(tail_all), scope.spawn(tail_all)];
        fixture.race(WRITERS, |_, client| write(client));
        let [first, second] = tailers.map(|tailer| tailer.join().unwrap());
        (first, second)
    });
    assert_eq!(first.len(), committed.load(Ordering::SeqCst));
    for seen in [&first, &second] {
        let mut by_plan: BTreeMap<PlanId, Vec<StoredEvent>> = BTreeMap::new();
        for event in seen.iter().cloned() {
            let of_plan = by_plan.entry(event.recorded.plan).or_default();
            of_plan.push(StoredEvent {
                cursor: None,
                ..event
            });
        }
        assert_eq!(by_plan.len(), WRITERS + 1);
        for (plan, events) in by_plan {
            assert_eq!(
                events,
                read_all_events(client.store(), plan),
                "in its order, each once"
            );
        }
    }
    assert_eq!(first, second, "all tails are the same tail");
}

fn a_stored_cursor_continues_where_it_was(fixture: &StoreFixture) {
    let client = fixture.client();
    client.create_landed_plan("leave traces");
    client.create_landed_plan("and more");
    let total = client
        .store()
        .list_plans(&store::PlanFilter::default(), None, 10)
        .unwrap()
        .iter()
        .map(|row| usize::try_from(row.plan.version().0).unwrap())
        .sum();
    let all = tail(client.store(), &Cursor::START, total);
    // The cursor of each event leads to exactly the events after it, in any process.
    for (place, event) in all.iter().enumerate() {
        let stored = event.cursor.as_ref().unwrap().to_string();
        let cursor: Cursor = stored.parse().unwrap();
        let rest = fixture.open().read_events(&cursor, 1000).unwrap();
        assert_eq!(rest.events, all[place + 1..], "after {stored}");
    }
    for bad in ["", "x", "1", "1.x", "-1.0", "1.2.3"] {
        assert!(bad.parse::<Cursor>().is_err(), "{bad}");
    }
}

fn the_latest_cursor_is_after_every_event(fixture: &StoreFixture) {
    let client = fixture.client();
    let old = client.create_queued_plan("before");
    tail(client.store(), &Cursor::START, 1);
    let latest = client.store().read_latest_cursor().unwrap();
    let nothing = client.store().read_events(&latest, 10).unwrap();
    assert!(nothing.events.is_empty());
    let new = client.create_queued_plan("after");
    let seen = tail(fixture.open().as_ref(), &nothing.next, 1);
    assert_eq!(
        seen.iter()
            .map(|event| event.recorded.plan)
            .collect::<Vec<_>>(),
        [new]
    );
    assert_ne!(old, new);
}

fn a_wait_ends_when_another_handle_commits(fixture: &StoreFixture) {
    let client = fixture.client();
    let plan = client.create_executed_plan("be signed");
    let waiter = fixture.open();
    // The first wait may start a listener.
    waiter.wait_for_commit(Duration::from_millis(1)).unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(move || {
            let started = Instant::now();
            waiter.wait_for_commit(TOO_LONG).unwrap();
            started.elapsed()
        });
        // More than one commit, since the first may happen before the wait begins.
        let started = Instant::now();
        while !waiting.is_finished() && started.elapsed() < TOO_LONG {
            client.must_submit(plan, testkit::samples::approve_command());
            thread::sleep(Duration::from_millis(20));
        }
        let waited = waiting.join().unwrap();
        assert!(waited < TOO_LONG / 3, "woken after {waited:?}");
    });
}

/// Guards against a commit that falls between a read and the wait after it.
fn a_commit_after_the_mark_ends_the_wait(fixture: &StoreFixture) {
    let (client, other) = (fixture.client(), fixture.client());
    client.create_queued_plan("begin the log");
    // The first wait may start a listener.
    wait_until_listening(client.store());
    for writer in [&client, &other] {
        let mark = client.store().mark_commits().unwrap();
        writer.create_queued_plan("come in between");
        let started = Instant::now();
        client
            .store()
            .wait_for_commit_after(mark, TOO_LONG)
            .unwrap();
        assert!(started.elapsed() < TOO_LONG / 3);
    }
    let mark = client.store().mark_commits().unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            client
                .store()
                .wait_for_commit_after(mark, TOO_LONG)
                .unwrap();
        });
        let started = Instant::now();
        client.store().wake_waiters();
        waiting.join().unwrap();
        assert!(started.elapsed() < TOO_LONG / 3);
    });
}

/// A listener signals once when it begins. Other stores have none.
fn wait_until_listening(store: &dyn Store) {
    let mark = store.mark_commits().unwrap();
    if store.read_info().unwrap().kind == "postgres" {
        store.wait_for_commit_after(mark, TOO_LONG).unwrap();
    }
}

fn a_wait_without_commits_times_out(fixture: &StoreFixture) {
    let store = fixture
        .client()
        .store()
        .wait_for_commit(Duration::from_millis(30));
    store.unwrap();
    let client = fixture.client();
    client.create_queued_plan("before the wait began");
    let started = Instant::now();
    client
        .store()
        .wait_for_commit(Duration::from_millis(30))
        .unwrap();
    assert!(started.elapsed() < TOO_LONG / 3);
}

/// Returns events after a cursor. Waits for them, because a store may show commits with a delay.
fn tail(store: &dyn Store, after: &Cursor, wanted: usize) -> Vec<StoredEvent> {
    let (mut seen, mut cursor) = (Vec::new(), after.clone());
    let started = Instant::now();
    while seen.len() < wanted {
        let page = store.read_events(&cursor, 1000).unwrap();
        cursor = page.next;
        seen.extend(page.events);
        assert!(started.elapsed() < TOO_LONG, "{} of {wanted}", seen.len());
    }
    assert_eq!(seen.len(), wanted);
    seen
}
