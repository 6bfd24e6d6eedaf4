//! Tests many threads on one store: batches, keys, faults, panics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};

use plan::facts::ReceiptOutcome;
use plan::{Digest, Refusal};
use planwright_store::fault::{FaultPoint, StoreFault, StoreFaults};
use planwright_store::sqlite::{SqliteOptions, SqliteStore};
use planwright_store::{
    Clock, CommitError, CommitOutcome, StoreError, StoreReader, StoreWriter, Submission,
};

use crate::sqlite::support::{
    DatabaseDir, create, creates, decide_nothing, key, plan_id, submission_for, toggle, toggles,
    verify_counts, version,
};

fn store_with(dir: &DatabaseDir, faults: StoreFaults) -> SqliteStore {
    let options = SqliteOptions {
        clock: Clock::default(),
        faults,
    };
    SqliteStore::new(&dir.path, options)
}

/// Submits all of these while a leader runs, so that they form one batch in this order. Returns the
/// answer of each and the number of transactions that reached COMMIT.
fn submit_as_batch(
    dir: &DatabaseDir,
    fault: impl Fn(FaultPoint, u64) -> StoreFault + Send + Sync + 'static,
    submissions: Vec<Submission>,
) -> (
    Vec<std::thread::Result<Result<CommitOutcome, CommitError>>>,
    u64,
) {
    let transactions = Arc::new(AtomicU64::new(0));
    let (leading, leads) = mpsc::channel();
    let (release, released) = mpsc::channel();
    let released = Mutex::new(released);
    let faults = StoreFaults::new({
        let transactions = Arc::clone(&transactions);
        move |point| {
            let number = match point {
                FaultPoint::BeforeCommit => transactions.fetch_add(1, Ordering::SeqCst),
                FaultPoint::Decided => transactions.load(Ordering::SeqCst),
                FaultPoint::AfterCommit => transactions.load(Ordering::SeqCst) - 1,
            };
            if point == FaultPoint::BeforeCommit && number == 0 {
                leading.send(()).unwrap();
                released.lock().unwrap().recv().unwrap();
            }
            fault(point, number)
        }
    });
    let store = Arc::new(store_with(dir, faults));
    let leader = std::thread::spawn({
        let store = Arc::clone(&store);
        move || create(&store, plan_id(500)).unwrap()
    });
    leads.recv().unwrap();
    let mut threads = Vec::new();
    for submission in submissions {
        let committing = Arc::clone(&store);
        threads.push(std::thread::spawn(move || committing.commit(submission)));
        // Queue behind the leader, in this order.
        while store.queued_callers() < 1 + threads.len() {
            std::thread::yield_now();
        }
    }
    release.send(()).unwrap();
    leader.join().unwrap();
    let answers = threads
        .into_iter()
        .map(std::thread::JoinHandle::join)
        .collect();
    (answers, transactions.load(Ordering::SeqCst))
}

fn no_fault(_: FaultPoint, _: u64) -> StoreFault {
    StoreFault::None
}

#[test]
fn waiting_submissions_share_a_transaction_and_see_each_others_writes() {
    let dir = DatabaseDir::new();
    let one = plan_id(1);
    let mut submissions = vec![submission_for(one, creates(one, "shared"))];
    submissions.extend((0..10).map(|_| submission_for(one, toggles())));
    let (answers, transactions) = submit_as_batch(&dir, no_fault, submissions);
    let versions: Vec<u64> = answers
        .into_iter()
        .map(|answer| answer.unwrap().unwrap().receipt.version.unwrap().0)
        .collect();
    assert_eq!(versions, (1..=11).collect::<Vec<_>>());
    assert_eq!(transactions, 2, "the leader's, and one for the eleven");
    assert_eq!(verify_counts(&dir.store()), (2, 12));
}

#[test]
fn sixty_four_threads_lose_no_commits() {
    let dir = DatabaseDir::new();
    let store = Arc::new(dir.store());
    create(&store, plan_id(0)).unwrap();
    let start = Arc::new(Barrier::new(64));
    let threads: Vec<_> = (1..=64)
        .map(|number| {
            let (store, start) = (Arc::clone(&store), Arc::clone(&start));
            std::thread::spawn(move || {
                start.wait();
                create(&store, plan_id(number)).unwrap();
                for _ in 0..10 {
                    toggle(&store, plan_id(number)).unwrap();
                    // The same plan for all threads: every update builds on the last.
                    toggle(&store, plan_id(0)).unwrap();
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(version(&store, plan_id(0)), 1 + 640);
    assert_eq!(verify_counts(&store), (65, 1 + 64 + 1280));
}

#[test]
fn a_refusal_a_no_op_and_a_panic_do_not_affect_their_batch() {
    let dir = DatabaseDir::new();
    let refused = plan_id(1);
    let made = plan_id(2);
    let submissions = vec![
        submission_for(refused, toggles()),
        submission_for(made, creates(made, "made")),
        submission_for(made, Box::new(|_, _| panic!("a defect in a decision"))),
        submission_for(made, decide_nothing()),
        submission_for(made, toggles()),
    ];
    let (answers, transactions) = submit_as_batch(&dir, no_fault, submissions);
    let mut answers = answers.into_iter();
    let mut next = || answers.next().unwrap();
    assert!(matches!(
        next().unwrap(),
        Err(CommitError::Refused(Refusal::NoSuchPlan(_)))
    ));
    assert_eq!(
        next().unwrap().unwrap().receipt.outcome,
        ReceiptOutcome::Done
    );
    let panic = next().unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"a defect in a decision"));
    let no_op = next().unwrap().unwrap();
    assert_eq!(no_op.receipt.outcome, ReceiptOutcome::AlreadyDone);
    assert_eq!(no_op.plan.unwrap().version().0, 1);
    assert_eq!(next().unwrap().unwrap().plan.unwrap().version().0, 2);
    assert_eq!(transactions, 2);
    assert_eq!(verify_counts(&dir.store()), (2, 3));
}

#[test]
fn only_the_member_whose_writes_fail_fails() {
    let dir = DatabaseDir::new();
    let (good, twice) = (plan_id(1), plan_id(2));
    create(&dir.store(), twice).unwrap();
    // Creates a plan that already exists, so that its row cannot be inserted.
    let mut recreate = creates(twice, "again");
    let recreate = submission_for(
        twice,
        Box::new(move |_, now| recreate(&plan::DecisionFacts::default(), now)),
    );
    let submissions = vec![
        submission_for(good, creates(good, "good")),
        recreate,
        submission_for(good, toggles()),
        submission_for(twice, toggles()),
    ];
    let (answers, transactions) = submit_as_batch(&dir, no_fault, submissions);
    let failed: Vec<bool> = answers
        .into_iter()
        .map(|answer| match answer.unwrap() {
            Ok(_) => false,
            Err(CommitError::Failed(StoreError::Database { .. })) => true,
            Err(other) => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(failed, [false, true, false, false]);
    assert_eq!(transactions, 1 + 3, "each of the others alone");
    assert_eq!(verify_counts(&dir.store()), (3, 5));
}

#[test]
fn a_failure_before_commit_writes_nothing() {
    for point in [FaultPoint::Decided, FaultPoint::BeforeCommit] {
        let dir = DatabaseDir::new();
        create(&dir.store(), plan_id(1)).unwrap();
        let faults = StoreFaults::new(move |at| {
            if at == point {
                StoreFault::Fail
            } else {
                StoreFault::None
            }
        });
        let store = store_with(&dir, faults);
        let failed = toggle(&store, plan_id(1)).unwrap_err();
        assert!(
            matches!(&failed, CommitError::Failed(StoreError::Database { why }) if why.contains("fault")),
            "{failed:?}"
        );
        assert_eq!(version(&store, plan_id(1)), 1);
        assert_eq!(verify_counts(&dir.store()), (1, 1));
    }
}

#[test]
fn a_batch_that_fails_before_commit_is_decided_again_one_by_one() {
    let dir = DatabaseDir::new();
    let one = plan_id(1);
    let mut submissions = vec![submission_for(one, creates(one, "shared"))];
    submissions.extend((0..3).map(|_| submission_for(one, toggles())));
    let fail_the_batch = |point, number| match (point, number) {
        (FaultPoint::BeforeCommit, 1) => StoreFault::Fail,
        _ => StoreFault::None,
    };
    let (answers, transactions) = submit_as_batch(&dir, fail_the_batch, submissions);
    for answer in answers {
        answer.unwrap().unwrap();
    }
    assert_eq!(transactions, 2 + 4);
    assert_eq!(verify_counts(&dir.store()), (2, 5));
}

#[test]
fn a_lost_commit_response_is_resolved_as_committed() {
    let dir = DatabaseDir::new();
    let one = plan_id(1);
    let submissions = (1..=4)
        .map(|number| submission_for(plan_id(number), creates(plan_id(number), "batch")))
        .chain([
            submission_for(one, decide_nothing()),
            submission_for(one, toggles()),
        ])
        .collect();
    let lose_every_answer = |point, _| match point {
        FaultPoint::AfterCommit => StoreFault::Fail,
        FaultPoint::Decided | FaultPoint::BeforeCommit => StoreFault::None,
    };
    let (answers, transactions) = submit_as_batch(&dir, lose_every_answer, submissions);
    for answer in answers {
        let committed = answer.unwrap().unwrap();
        assert!(committed.plan.is_some() && !committed.is_repeat);
    }
    assert_eq!(transactions, 2, "nothing was done twice");
    assert_eq!(verify_counts(&dir.store()), (5, 6));
}

#[test]
fn an_unresolved_commit_is_unknown() {
    let dir = DatabaseDir::new();
    create(&dir.store(), plan_id(1)).unwrap();
    let path = dir.path.clone();
    // The response is lost, and so is the table that records the outcome.
    let faults = StoreFaults::new(move |point| {
        if point != FaultPoint::AfterCommit {
            return StoreFault::None;
        }
        let direct = rusqlite::Connection::open(&path).unwrap();
        direct.execute_batch("DROP TABLE commands").unwrap();
        StoreFault::Fail
    });
    let submission = submission_for(plan_id(1), toggles());
    let id = submission.id;
    let unknown = store_with(&dir, faults).commit(submission).unwrap_err();
    assert!(
        matches!(unknown, CommitError::Unknown { id: unknown, .. } if unknown == id),
        "{unknown:?}"
    );
}

#[test]
fn a_key_returns_the_stored_receipt() {
    let dir = DatabaseDir::new();
    let store = dir.store();
    let one = plan_id(1);
    let submit = |decide, fingerprint: &[u8]| {
        let mut submission = submission_for(one, decide);
        submission.key = Some(key("k"));
        submission.key.as_mut().unwrap().fingerprint = Digest::hash_bytes(fingerprint);
        store.commit(submission)
    };
    // A refusal is not stored.
    submit(toggles(), b"a").unwrap_err();
    let first = submit(creates(one, "once"), b"a").unwrap();
    assert!(!first.is_repeat);
    let never: planwright_store::DecideFn = Box::new(|_, _| panic!("decided although known"));
    let again = submit(never, b"a").unwrap();
    assert_eq!((&again.receipt, again.is_repeat), (&first.receipt, true));
    assert_eq!(again.plan, None);
    let reused = submit(creates(one, "other"), b"b").unwrap_err();
    assert!(matches!(reused, CommitError::KeyReused { key } if key == "k"));
    assert_eq!(verify_counts(&store), (1, 1));
}

#[test]
fn the_same_key_twice_in_one_batch_commits_once() {
    let dir = DatabaseDir::new();
    let one = plan_id(1);
    let submissions = (0..3)
        .map(|_| {
            let mut submission = submission_for(one, creates(one, "once"));
            submission.key = Some(key("k"));
            submission
        })
        .collect();
    let (answers, _) = submit_as_batch(&dir, no_fault, submissions);
    let remembered: Vec<bool> = answers
        .into_iter()
        .map(|answer| answer.unwrap().unwrap().is_repeat)
        .collect();
    assert_eq!(remembered, [false, true, true]);
}

#[test]
fn readers_beside_writers_see_whole_commits() {
    let dir = DatabaseDir::new();
    let store = Arc::new(dir.store());
    create(&store, plan_id(0)).unwrap();
    let writer = std::thread::spawn({
        let store = Arc::clone(&store);
        move || {
            for _ in 0..200 {
                toggle(&store, plan_id(0)).unwrap();
            }
        }
    });
    let mut before = 0;
    while !writer.is_finished() {
        let row = store.read_plan(plan_id(0)).unwrap().unwrap();
        assert_eq!(
            row.plan.stage().holder().is_some(),
            row.lease.is_some(),
            "plan and lease are of one commit"
        );
        assert!(row.plan.version().0 >= before);
        before = row.plan.version().0;
    }
    writer.join().unwrap();
}
