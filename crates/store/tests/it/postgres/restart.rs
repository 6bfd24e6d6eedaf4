//! Tests a server restart, and a store that moves to another server.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plan::PlanVersion;
use store::verify::verify_store;
use store::{
    CommitError, Cursor, EventLog, StoreError, StoreMaintenance, StoreReader, StoreWriter,
};

use crate::postgres::database::ScratchDatabase;
use crate::postgres::decisions::{append, create, plan_id};
use testkit::cluster::{PostgresCluster, postgres_programs};

/// Guards the retry after a restart, and the error while the server is down.
#[test]
fn a_store_survives_a_server_restart() {
    let mut cluster = PostgresCluster::start();
    let database = ScratchDatabase::on(&cluster.url());
    let store = database.store();
    let plan = plan_id();
    store.commit(create(plan)).unwrap();
    cluster.restart();
    store.commit(append(plan)).unwrap();
    cluster.restart();
    assert_eq!(
        store.read_plan(plan).unwrap().unwrap().plan.version(),
        PlanVersion(2)
    );
    cluster.stop_server();
    let refused = |error: &StoreError| matches!(error, StoreError::Unreachable { .. });
    assert!(matches!(store.read_plan(plan), Err(error) if refused(&error)));
    assert!(
        matches!(store.commit(append(plan)), Err(CommitError::Failed(error)) if refused(&error))
    );
    cluster.start_server();
    store.commit(append(plan)).unwrap();
    assert_eq!(
        store.read_plan(plan).unwrap().unwrap().plan.version(),
        PlanVersion(3)
    );
}

/// Guards that acknowledged commits survive restarts, and failed ones leave nothing.
#[test]
fn restarts_leave_exactly_the_acknowledged_commits() {
    let mut cluster = PostgresCluster::start();
    let database = ScratchDatabase::on(&cluster.url());
    let store = database.store();
    let plans: Vec<_> = (0..3).map(|_| plan_id()).collect();
    for plan in &plans {
        store.commit(create(*plan)).unwrap();
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = plans
            .iter()
            .map(|plan| {
                let (store, stop) = (&store, &stop);
                scope.spawn(move || {
                    let mut committed = 0;
                    while !stop.load(Ordering::Relaxed) {
                        match store.commit(append(*plan)) {
                            Ok(_) => committed += 1,
                            Err(CommitError::Failed(StoreError::Unreachable { .. })) => {
                                std::thread::sleep(Duration::from_millis(20));
                            }
                            Err(other) => panic!("{other:?}"),
                        }
                    }
                    committed
                })
            })
            .collect();
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(300));
            cluster.restart();
        }
        std::thread::sleep(Duration::from_millis(300));
        stop.store(true, Ordering::Relaxed);
        for (plan, writer) in plans.iter().zip(writers) {
            let committed: u64 = writer.join().unwrap();
            assert!(committed > 0);
            assert_eq!(
                store.read_plan(*plan).unwrap().unwrap().plan.version(),
                PlanVersion(1 + committed)
            );
        }
    });
    assert_eq!(verify_store(&store).unwrap().problems, Vec::<String>::new());
}

/// Guards the command that `backup` suggests, and `ADOPT_SERVER`: the copy can be read and written
/// elsewhere, and old cursors stay valid.
#[test]
fn a_restored_dump_continues_on_another_server() {
    let before = ScratchDatabase::new();
    let store = before.store();
    let plan = plan_id();
    store.commit(create(plan)).unwrap();
    for _ in 0..3 {
        store.commit(append(plan)).unwrap();
    }
    let directory = tempfile::tempdir().unwrap();
    let dump = directory.path().join("the dump");
    let Err(StoreError::Unsupported { what }) = store.write_backup(&dump) else {
        panic!("a backup was made")
    };
    let (_, command) = what.split_once("store: ").unwrap();
    run_shell(command);

    let cluster = PostgresCluster::start();
    let after = ScratchDatabase::on(&cluster.url());
    run_shell(&format!(
        "pg_restore --dbname='{}' '{}'",
        after.url(),
        dump.display()
    ));
    let store = after.store();
    let kept = store.read_events(&Cursor::START, 2).unwrap();
    assert_eq!(kept.events.len(), 2);
    store.commit(append(plan)).unwrap();
    let rest = store.read_events(&kept.next, 100).unwrap();
    let versions: Vec<u64> = rest
        .events
        .iter()
        .map(|event| event.recorded.version.0)
        .collect();
    assert_eq!(versions, [3, 4, 5]);
    assert_eq!(verify_store(&store).unwrap().problems, Vec::<String>::new());
}

#[expect(clippy::disallowed_methods, reason = "what a person would type")]
fn run_shell(command: &str) {
    let output = std::process::Command::new("sh")
        .args([
            "-c",
            &format!("PATH={}:$PATH; {command}", postgres_programs().display()),
        ])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{command}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}
