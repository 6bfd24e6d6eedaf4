//! Connections that end at the worst moment.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use plan::{Digest, PlanVersion};
use store::verify::verify_store;
use store::{
    CommitError, IdempotencyKey, PostgresOptions, PostgresStore, StoreError, StoreMaintenance,
    StoreReader, StoreWriter,
};

use crate::database::{Database, server};
use crate::decisions::{append, append_once, create, plan_id};
use crate::proxy::{Cut, Proxy};

struct Behind {
    proxy: Proxy,
    store: PostgresStore,
    database: Database,
}

/// A store whose connections go through a proxy.
fn behind_a_proxy(patience: Duration) -> Behind {
    let database = Database::new();
    let proxy = Proxy::before(&server());
    let options = PostgresOptions {
        wait_timeout: patience,
        ..PostgresOptions::default()
    };
    let store = PostgresStore::new(&proxy.url(&database.url()), options).unwrap();
    Behind {
        proxy,
        store,
        database,
    }
}

/// Guards settling by inserting the id as aborted (`settle.rs`): the commit did not happen, and it is
/// certain that it will not.
#[test]
fn a_commit_that_never_arrived_failed_for_certain() {
    for cut in [Cut::BeforeCommit, Cut::Between] {
        let Behind {
            proxy,
            store,
            database,
        } = behind_a_proxy(Duration::from_secs(30));
        let plan = plan_id();
        store.commit(create(plan)).unwrap();
        proxy.cut_next(cut);
        let submission = append(plan);
        let id = submission.id;
        let answer = store.commit(submission);
        assert!(proxy.is_done());
        assert!(
            matches!(
                answer,
                Err(CommitError::Failed(StoreError::Unreachable { .. }))
            ),
            "{cut:?} {answer:?}"
        );
        assert_eq!(
            store.read_plan(plan).unwrap().unwrap().plan.version,
            PlanVersion(1)
        );
        let settled = database.sql().value(&format!(
            "SELECT committed FROM commands WHERE command_id = '{id}'"
        ));
        assert_eq!(settled, "f", "a straggler would collide with this row");
        store.commit(append(plan)).unwrap();
        assert_eq!(verify_store(&store).unwrap().problems, Vec::<String>::new());
    }
}

/// Guards settling by finding the committed id: the caller gets the real receipt, not an error.
#[test]
fn a_commit_whose_answer_was_lost_is_answered() {
    let Behind {
        proxy,
        store,
        database: _database,
    } = behind_a_proxy(Duration::from_secs(30));
    let plan = plan_id();
    store.commit(create(plan)).unwrap();
    proxy.cut_next(Cut::BeforeAnswer);
    let committed = store.commit(append(plan)).unwrap();
    assert!(proxy.is_done());
    assert_eq!(committed.receipt.version, Some(PlanVersion(2)));
    let stored = store.read_plan(plan).unwrap().unwrap().plan;
    assert_eq!(committed.plan.as_deref(), Some(&stored));
}

/// Guards `CommitError::Unknown`, and that repeating under the key is safe after it.
#[test]
fn a_commit_that_cannot_be_settled_is_unknown_and_safe_to_repeat() {
    for (cut, happened) in [(Cut::BeforeAnswer, true), (Cut::BeforeCommit, false)] {
        let Behind {
            proxy,
            store,
            database: _database,
        } = behind_a_proxy(Duration::from_secs(30));
        let plan = plan_id();
        store.commit(create(plan)).unwrap();
        let key = || IdempotencyKey {
            scope: "s".to_owned(),
            key: "k".to_owned(),
            fingerprint: Digest::hash_bytes(b""),
        };
        proxy.close_with_cut();
        proxy.cut_next(cut);
        let submission = append_once(plan, key());
        let id = submission.id;
        let began = Instant::now();
        match store.commit(submission) {
            Err(CommitError::Unknown {
                id: of,
                source: StoreError::Unreachable { .. },
            }) => assert_eq!(of, id),
            other => panic!("{other:?}"),
        }
        assert!(began.elapsed() < Duration::from_secs(25), "bounded");
        proxy.open();
        let again = store.commit(append_once(plan, key())).unwrap();
        assert_eq!(again.is_repeat, happened);
        assert_eq!(
            store.read_plan(plan).unwrap().unwrap().plan.version,
            PlanVersion(2)
        );
    }
}

/// Guards the bound on waiting for an answer, and the server's bound on an idle transaction, without
/// which the locks would be held and the commit stay unsettled for as long as the silence lasts.
#[test]
fn silence_is_an_answer_after_a_while() {
    let Behind {
        proxy,
        store,
        database,
    } = behind_a_proxy(Duration::from_secs(1));
    let plan = plan_id();
    store.commit(create(plan)).unwrap();
    proxy.cut_next(Cut::Silence);
    let answer = store.commit(append(plan));
    assert!(
        matches!(
            answer,
            Err(CommitError::Failed(StoreError::Unreachable { .. }))
        ),
        "{answer:?}"
    );
    database.store().commit(append(plan)).unwrap();
    assert_eq!(
        store.read_plan(plan).unwrap().unwrap().plan.version,
        PlanVersion(2)
    );
}

/// Guards the second try on another connection when a pooled one turns out to be dead.
#[test]
fn dead_pooled_connections_are_nobodys_problem() {
    let database = Database::new();
    let store = database.store();
    let plan = plan_id();
    store.commit(create(plan)).unwrap();
    std::thread::scope(|scope| {
        (0..4).for_each(|_| drop(scope.spawn(|| store.commit(append(plan)).unwrap())));
    });
    terminate(&database);
    store.commit(append(plan)).unwrap();
    terminate(&database);
    assert_eq!(
        store.read_plan(plan).unwrap().unwrap().plan.version,
        PlanVersion(6)
    );
}

/// Guards the same for a change of the schema, with more dead connections than it has attempts.
#[test]
fn dead_pooled_connections_do_not_keep_the_schema_from_being_migrated() {
    const MANY: usize = 8;
    let database = Database::new();
    let store = database.store();
    store.commit(create(plan_id())).unwrap();
    // As many at once as there are to be connections.
    let all = Arc::new(Barrier::new(MANY));
    std::thread::scope(|scope| {
        for _ in 0..MANY {
            let mut submission = create(plan_id());
            let all = Arc::clone(&all);
            let mut decide = submission.decide;
            submission.decide = Box::new(move |facts, now| {
                all.wait();
                decide(facts, now)
            });
            scope.spawn(|| store.commit(submission).unwrap());
        }
    });
    terminate(&database);
    assert_eq!(store.migrate_schema().unwrap(), (4, 4));
}

/// Guards the verdict on every way a connection can end under a commit (`judge`): what was answered
/// is what happened, exactly.
#[test]
fn connections_ended_during_work_leave_exactly_what_was_answered() {
    let database = Database::new();
    let store = database.store();
    let plans: Vec<_> = (0..4).map(|_| plan_id()).collect();
    for plan in &plans {
        store.commit(create(*plan)).unwrap();
    }
    let stop = AtomicBool::new(false);
    let failed = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let writers: Vec<_> = plans
            .iter()
            .map(|plan| {
                let (store, stop, failed) = (&store, &stop, &failed);
                scope.spawn(move || {
                    let mut committed = 0;
                    while !stop.load(Ordering::Relaxed) {
                        match store.commit(append(*plan)) {
                            Ok(_) => committed += 1,
                            Err(CommitError::Failed(StoreError::Unreachable { .. })) => {
                                failed.fetch_add(1, Ordering::Relaxed);
                            }
                            Err(other) => panic!("{other:?}"),
                        }
                    }
                    committed
                })
            })
            .collect();
        let mut sql = database.sql();
        for _ in 0..60 {
            std::thread::sleep(Duration::from_millis(40));
            sql.run(TERMINATE);
        }
        stop.store(true, Ordering::Relaxed);
        for (plan, writer) in plans.iter().zip(writers) {
            let committed: u64 = writer.join().unwrap();
            assert_eq!(
                store.read_plan(*plan).unwrap().unwrap().plan.version,
                PlanVersion(1 + committed)
            );
        }
    });
    assert_eq!(verify_store(&store).unwrap().problems, Vec::<String>::new());
}

const TERMINATE: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                         WHERE datname = current_database() AND application_name = 'planwright'";

fn terminate(database: &Database) {
    let mut sql = database.sql();
    sql.run(TERMINATE);
    let left = "SELECT count(*) FROM pg_stat_activity \
                WHERE datname = current_database() AND application_name = 'planwright'";
    while sql.value(left) != "0" {
        std::thread::sleep(Duration::from_millis(10));
    }
}
