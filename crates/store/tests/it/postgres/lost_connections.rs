//! Tests connections that are lost at critical moments.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use plan::{Digest, PlanVersion};
use store::verify::verify_store;
use store::{
    CommitError, IdempotencyKey, PostgresOptions, PostgresStore, StoreError, StoreMaintenance,
    StoreReader, StoreWriter,
};

use crate::postgres::database::{ScratchDatabase, server};
use crate::postgres::decisions::{append, append_once, create, plan_id};
use crate::postgres::proxy::{CommitCut, CommitProxy};
use crate::store_fixture::SUPPORTED_SCHEMA_VERSION;

struct ProxiedStore {
    proxy: CommitProxy,
    store: PostgresStore,
    database: ScratchDatabase,
}

/// Creates a store whose connections go through a proxy.
fn open_behind_proxy(wait_timeout: Duration) -> ProxiedStore {
    let database = ScratchDatabase::new();
    let proxy = CommitProxy::before(&server());
    let options = PostgresOptions {
        wait_timeout,
        ..PostgresOptions::default()
    };
    let store = PostgresStore::new(&proxy.url(&database.url()), options).unwrap();
    ProxiedStore {
        proxy,
        store,
        database,
    }
}

/// Guards resolving by inserting the id as aborted (`in_doubt.rs`): the commit has not happened and
/// never will.
#[test]
fn a_commit_that_never_arrived_has_failed() {
    for cut in [CommitCut::BeforeCommit, CommitCut::Between] {
        let ProxiedStore {
            proxy,
            store,
            database,
        } = open_behind_proxy(Duration::from_secs(30));
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
            store.read_plan(plan).unwrap().unwrap().plan.version(),
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

/// Guards resolving by finding the committed id: the caller gets the receipt, not an error.
#[test]
fn a_commit_with_a_lost_response_succeeds() {
    let ProxiedStore {
        proxy,
        store,
        database: _database,
    } = open_behind_proxy(Duration::from_secs(30));
    let plan = plan_id();
    store.commit(create(plan)).unwrap();
    proxy.cut_next(CommitCut::BeforeAnswer);
    let committed = store.commit(append(plan)).unwrap();
    assert!(proxy.is_done());
    assert_eq!(committed.receipt.version, Some(PlanVersion(2)));
    let stored = store.read_plan(plan).unwrap().unwrap().plan;
    assert_eq!(committed.plan.as_deref(), Some(&stored));
}

/// Guards `CommitError::Unknown`, and that a retry with the same key is safe.
#[test]
fn an_unresolved_commit_is_unknown_and_safe_to_retry() {
    for (cut, happened) in [
        (CommitCut::BeforeAnswer, true),
        (CommitCut::BeforeCommit, false),
    ] {
        let ProxiedStore {
            proxy,
            store,
            database: _database,
        } = open_behind_proxy(Duration::from_secs(30));
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
            store.read_plan(plan).unwrap().unwrap().plan.version(),
            PlanVersion(2)
        );
    }
}

/// Guards the timeout for answers and the server's timeout for idle transactions. Without the
/// latter, locks would be held and the commit would stay unresolved as long as the silence lasts.
#[test]
fn a_silent_server_times_out() {
    let ProxiedStore {
        proxy,
        store,
        database,
    } = open_behind_proxy(Duration::from_secs(1));
    let plan = plan_id();
    store.commit(create(plan)).unwrap();
    proxy.cut_next(CommitCut::Silence);
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
        store.read_plan(plan).unwrap().unwrap().plan.version(),
        PlanVersion(2)
    );
}

/// Guards the retry on another connection when a pooled one is dead.
#[test]
fn dead_pooled_connections_are_replaced() {
    let database = ScratchDatabase::new();
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
        store.read_plan(plan).unwrap().unwrap().plan.version(),
        PlanVersion(6)
    );
}

/// Guards the same for migrations, with more dead connections than attempts.
#[test]
fn dead_pooled_connections_do_not_prevent_a_migration() {
    const MANY: usize = 8;
    let database = ScratchDatabase::new();
    let store = database.store();
    store.commit(create(plan_id())).unwrap();
    // All threads at once, so that each needs its own connection.
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
    assert_eq!(
        store.migrate_schema().unwrap(),
        (SUPPORTED_SCHEMA_VERSION, SUPPORTED_SCHEMA_VERSION)
    );
}

/// Guards the classification of connection losses during a commit (`evaluate_exchange`): every
/// answer is true.
#[test]
fn lost_connections_leave_exactly_the_acknowledged_commits() {
    let database = ScratchDatabase::new();
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
                store.read_plan(*plan).unwrap().unwrap().plan.version(),
                PlanVersion(1 + committed)
            );
        }
    });
    assert_eq!(verify_store(&store).unwrap().problems, Vec::<String>::new());
}

const TERMINATE: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                         WHERE datname = current_database() AND application_name = 'planwright'";

fn terminate(database: &ScratchDatabase) {
    let mut sql = database.sql();
    sql.run(TERMINATE);
    let left = "SELECT count(*) FROM pg_stat_activity \
                WHERE datname = current_database() AND application_name = 'planwright'";
    while sql.value(left) != "0" {
        std::thread::sleep(Duration::from_millis(10));
    }
}
