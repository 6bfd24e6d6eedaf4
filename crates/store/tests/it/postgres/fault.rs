//! Tests injected faults: nothing is partially written, and a lost response is recovered.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plan::PlanVersion;
use store::fault::{FaultPoint, StoreFault, StoreFaults};
use store::{CommitError, PostgresOptions, PostgresStore, StoreError, StoreReader, StoreWriter};

use crate::postgres::database::ScratchDatabase;
use crate::postgres::decisions::{append, create, plan_id};

/// Creates a store that fails at a point while the switch is on.
fn failing(database: &ScratchDatabase, at: FaultPoint) -> (PostgresStore, Arc<AtomicBool>) {
    let switch = Arc::new(AtomicBool::new(false));
    let on = Arc::clone(&switch);
    let faults = StoreFaults::new(move |point| {
        if point == at && on.load(Ordering::SeqCst) {
            StoreFault::Fail
        } else {
            StoreFault::None
        }
    });
    (
        database.store_with(PostgresOptions {
            faults,
            ..PostgresOptions::default()
        }),
        switch,
    )
}

/// Guards the rollback at both points before COMMIT, and that the connection can be reused.
#[test]
fn a_fault_before_commit_changes_nothing() {
    for at in [FaultPoint::Decided, FaultPoint::BeforeCommit] {
        let database = ScratchDatabase::new();
        let (store, switch) = failing(&database, at);
        let plan = plan_id();
        store.commit(create(plan)).unwrap();
        switch.store(true, Ordering::SeqCst);
        let answer = store.commit(append(plan));
        assert!(
            matches!(
                answer,
                Err(CommitError::Failed(StoreError::Database { .. }))
            ),
            "{answer:?}"
        );
        assert_eq!(
            store.read_plan(plan).unwrap().unwrap().plan.version(),
            PlanVersion(1)
        );
        assert_eq!(database.sql().value("SELECT count(*) FROM events"), "1");
        switch.store(false, Ordering::SeqCst);
        let committed = store.commit(append(plan)).unwrap();
        assert_eq!(committed.receipt.version, Some(PlanVersion(2)));
    }
}

/// Guards resolving: the commit happened, so the caller gets its receipt.
#[test]
fn a_fault_after_commit_is_resolved_as_committed() {
    let database = ScratchDatabase::new();
    let (store, switch) = failing(&database, FaultPoint::AfterCommit);
    let plan = plan_id();
    store.commit(create(plan)).unwrap();
    switch.store(true, Ordering::SeqCst);
    let committed = store.commit(append(plan)).unwrap();
    assert_eq!(committed.receipt.version, Some(PlanVersion(2)));
    assert_eq!(committed.plan.unwrap().version(), PlanVersion(2));
    assert!(!committed.is_repeat);
    assert_eq!(
        database
            .sql()
            .value("SELECT count(*) FROM commands WHERE NOT committed"),
        "0"
    );
}
