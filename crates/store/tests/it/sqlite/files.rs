//! Tests the file: absent, foreign, damaged, replaced, copied.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use plan::{Phase, PlanVersion};
use planwright_store::sqlite::{SqliteOptions, SqliteStore};
use planwright_store::{
    CommitError, Cursor, EventLog, PlanFilter, StoreError, StoreMaintenance, StoreReader,
    verify::verify_store,
};

use crate::sqlite::child::ChildProcess;
use crate::sqlite::support::{DatabaseDir, create, plan_id, toggle, verify_counts, version};
use crate::store_fixture::SUPPORTED_SCHEMA_VERSION;

fn mode(path: &std::path::Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Returns the error of a write.
fn write_error(store: &SqliteStore) -> StoreError {
    match create(store, plan_id(1)).unwrap_err() {
        CommitError::Failed(error) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_absent_store_reads_as_empty_and_stays_absent() {
    let dir = DatabaseDir::new();
    let deep = dir.directory.path().join("not/there/planwright.db");
    for path in [&dir.path, &deep] {
        let store = SqliteStore::new(path, SqliteOptions::default());
        let id = plan_id(1);
        assert_eq!(store.read_plan(id).unwrap(), None);
        assert_eq!(
            store.list_plans(&PlanFilter::default(), None, 10).unwrap(),
            []
        );
        assert_eq!(store.find_plan_ids("0", 10).unwrap(), []);
        assert_eq!(
            store.list_due_plans(Phase::Strategize, None, 10).unwrap(),
            []
        );
        assert_eq!(store.list_expired_leases(10).unwrap(), []);
        assert_eq!(store.read_snapshot(id).unwrap(), None);
        assert_eq!(store.read_action(&"tidy".parse().unwrap()).unwrap(), None);
        assert_eq!(store.list_actions(None, 10).unwrap(), []);
        assert_eq!(store.read_rules(&[]).unwrap(), Default::default());
        assert_eq!(store.list_changesets(id).unwrap(), []);
        assert_eq!(store.read_plan_events(id, PlanVersion(0), 10).unwrap(), []);
        assert_eq!(store.read_events(&Cursor::START, 10).unwrap().events, []);
        assert_eq!(store.read_latest_cursor().unwrap(), Cursor::START);
        assert_eq!(store.read_info().unwrap().schema_version, None);
        assert_eq!(store.check_integrity().unwrap(), Vec::<String>::new());
        assert!(
            store
                .write_backup(&dir.directory.path().join("copy"))
                .is_err()
        );
    }
    assert_eq!(dir.files(), Vec::<String>::new());
}

#[test]
fn the_first_write_creates_directory_and_file_for_the_owner_only() {
    let dir = DatabaseDir::new();
    let path = dir.directory.path().join("some/where/planwright.db");
    let store = SqliteStore::new(&path, SqliteOptions::default());
    create(&store, plan_id(1)).unwrap();
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    assert_eq!(mode(&dir.directory.path().join("some")), 0o700);
    for entry in fs::read_dir(path.parent().unwrap()).unwrap() {
        let file = entry.unwrap().path();
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
    let info = store.read_info().unwrap();
    assert_eq!(
        (
            info.kind,
            info.schema_version,
            info.supported_schema_version
        ),
        (
            "sqlite",
            Some(SUPPORTED_SCHEMA_VERSION),
            SUPPORTED_SCHEMA_VERSION
        )
    );
    assert_eq!(info.place, path.display().to_string());
    assert_eq!(
        store.migrate_schema().unwrap(),
        (SUPPORTED_SCHEMA_VERSION, SUPPORTED_SCHEMA_VERSION)
    );
}

#[test]
fn migrating_an_absent_store_creates_it() {
    let dir = DatabaseDir::new();
    assert_eq!(
        dir.store().migrate_schema().unwrap(),
        (0, SUPPORTED_SCHEMA_VERSION)
    );
    assert_eq!(
        dir.store().read_info().unwrap().schema_version,
        Some(SUPPORTED_SCHEMA_VERSION)
    );
}

#[test]
fn an_empty_file_reads_as_empty_and_becomes_a_store() {
    let dir = DatabaseDir::new();
    fs::write(&dir.path, b"").unwrap();
    let store = dir.store();
    assert_eq!(store.read_plan(plan_id(1)).unwrap(), None);
    assert_eq!(store.read_info().unwrap().schema_version, None);
    assert_eq!(fs::metadata(&dir.path).unwrap().len(), 0);
    create(&store, plan_id(1)).unwrap();
    assert_eq!(verify_counts(&store), (1, 1));
}

#[test]
fn foreign_files_are_reported_and_left_alone() {
    let dir = DatabaseDir::new();
    let store = dir.store();

    fs::create_dir(&dir.path).unwrap();
    assert!(
        matches!(write_error(&store), StoreError::Unusable { why, .. } if why.contains("directory"))
    );
    assert!(matches!(
        store.read_plan(plan_id(1)),
        Err(StoreError::Unusable { .. })
    ));
    fs::remove_dir(&dir.path).unwrap();

    let text = "to be, or not to be\n".repeat(100);
    fs::write(&dir.path, &text).unwrap();
    assert!(matches!(write_error(&store), StoreError::NotAStore { .. }));
    assert!(matches!(
        store.read_plan(plan_id(1)),
        Err(StoreError::NotAStore { .. })
    ));
    assert!(matches!(
        store.read_info(),
        Err(StoreError::NotAStore { .. })
    ));
    assert_eq!(fs::read_to_string(&dir.path).unwrap(), text);
    fs::remove_file(&dir.path).unwrap();

    let theirs = rusqlite::Connection::open(&dir.path).unwrap();
    theirs.execute_batch("CREATE TABLE theirs (x)").unwrap();
    drop(theirs);
    let before = fs::read(&dir.path).unwrap();
    assert!(matches!(write_error(&store), StoreError::NotAStore { .. }));
    assert!(matches!(
        store.read_plan(plan_id(1)),
        Err(StoreError::NotAStore { .. })
    ));
    assert!(matches!(
        store.migrate_schema(),
        Err(StoreError::NotAStore { .. })
    ));
    assert_eq!(fs::read(&dir.path).unwrap(), before);
    fs::remove_file(&dir.path).unwrap();

    std::os::unix::fs::symlink("nowhere", &dir.path).unwrap();
    assert!(
        matches!(write_error(&store), StoreError::Unusable { why, .. } if why.contains("symbolic"))
    );

    let below_a_file = dir.directory.path().join("planwright.db-turn/x.db");
    fs::write(dir.directory.path().join("planwright.db-turn"), b"").unwrap();
    let store = SqliteStore::new(below_a_file, SqliteOptions::default());
    assert!(matches!(write_error(&store), StoreError::Unusable { .. }));
}

#[test]
fn a_newer_schema_is_refused() {
    let dir = DatabaseDir::new();
    let store = dir.store();
    create(&store, plan_id(1)).unwrap();
    let newer = rusqlite::Connection::open(&dir.path).unwrap();
    newer.pragma_update(None, "user_version", 9).unwrap();
    // A store that has the file open, and a new one.
    for store in [store, dir.store()] {
        let errors = [
            store.read_plan(plan_id(1)).unwrap_err(),
            write_error(&store),
        ];
        for error in errors {
            assert!(
                matches!(
                    error,
                    StoreError::NewerSchema {
                        found: 9,
                        known: SUPPORTED_SCHEMA_VERSION,
                        ..
                    }
                ),
                "{error:?}"
            );
        }
        assert_eq!(store.read_info().unwrap().schema_version, Some(9));
        assert!(matches!(
            store.migrate_schema(),
            Err(StoreError::NewerSchema { .. })
        ));
    }
}

#[test]
fn missing_permission_is_reported() {
    let dir = DatabaseDir::new();
    create(&dir.store(), plan_id(0)).unwrap();
    let nobody = 65_534;
    if !rustix::process::geteuid().is_root() {
        // Only root can switch to another user; other users test their own permissions.
        fs::set_permissions(&dir.path, fs::Permissions::from_mode(0o000)).unwrap();
    }
    fs::set_permissions(dir.directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = crate::sqlite::child::command("look", &dir.path, 0);
    if rustix::process::geteuid().is_root() {
        use std::os::unix::process::CommandExt;
        // The other user must be able to read the test binary.
        let binary = dir.directory.path().join("binary");
        fs::copy(std::env::current_exe().unwrap(), &binary).unwrap();
        command = std::process::Command::new(binary);
        command
            .args(crate::sqlite::child::ARGUMENTS)
            .uid(nobody)
            .gid(nobody);
        crate::sqlite::child::set_role(&mut command, "look", &dir.path, 0);
    }
    let mut process = ChildProcess::run(&mut command);
    let (reading, writing) = (process.read_line().unwrap(), process.read_line().unwrap());
    process.finish();
    for message in [reading, writing] {
        assert!(
            message.contains("cannot be used as a store")
                && message.to_lowercase().contains("permission"),
            "{message}"
        );
    }
}

#[test]
fn a_replaced_file_is_detected() {
    let dir = DatabaseDir::new();
    let store = dir.store();
    create(&store, plan_id(1)).unwrap();
    store
        .write_backup(&dir.directory.path().join("copy.db"))
        .unwrap();
    create(&store, plan_id(2)).unwrap();
    // Restores the backup, as a person would.
    for suffix in ["", "-wal", "-shm"] {
        fs::remove_file(dir.directory.path().join(format!("planwright.db{suffix}"))).unwrap();
    }
    assert_unreachable(&store.read_plan(plan_id(1)).unwrap_err());
    fs::rename(dir.directory.path().join("copy.db"), &dir.path).unwrap();
    assert_eq!(
        (version(&store, plan_id(1)), version(&store, plan_id(2))),
        (1, 0)
    );
    create(&store, plan_id(3)).unwrap();
    assert_eq!(verify_counts(&dir.store()), (2, 2));
    // Removes everything, including the directory.
    fs::remove_dir_all(dir.directory.path()).unwrap();
    assert_unreachable(&store.read_plan(plan_id(1)).unwrap_err());
    assert_unreachable(&write_error(&store));
    // A process that starts without the file gets a new store.
    let store = dir.store();
    create(&store, plan_id(4)).unwrap();
    assert_eq!(verify_counts(&store), (1, 1));
}

#[track_caller]
fn assert_unreachable(error: &StoreError) {
    assert!(matches!(error, StoreError::Unreachable { .. }), "{error:?}");
}

/// A leftover log contains pages of the removed database. A new database with the same name would
/// read them as its own.
#[test]
fn a_leftover_log_is_not_used_by_a_new_database() {
    let dir = DatabaseDir::new();
    let lease_verdict_and_evidence = |suffix: &str| {
        let name = format!("planwright.db{suffix}");
        dir.directory.path().join(name)
    };
    // Another process keeps the database open, and with it the shared-memory file.
    let mut command = crate::sqlite::child::command("commit-slowly", &dir.path, 0);
    let (read_end, write_end) = std::io::pipe().unwrap();
    let mut other = ChildProcess::run(command.stdin(read_end));
    other.expect("1");
    for number in 1..50 {
        create(&dir.store(), plan_id(number)).unwrap();
    }
    let elsewhere = dir.directory.path().join("elsewhere.db");
    fs::rename(&dir.path, &elsewhere).unwrap();
    let error = write_error(&dir.store());
    // An empty file with that name does not own the log either.
    fs::write(&dir.path, "").unwrap();
    for error in [error, write_error(&dir.store())] {
        assert!(
            matches!(&error, StoreError::Unusable { why, .. } if why.contains("planwright.db-wal")),
            "{error:?}"
        );
    }
    // Nothing was lost: with its file, the log is complete again.
    fs::rename(&elsewhere, &dir.path).unwrap();
    assert_eq!(verify_counts(&dir.store()), (50, 50));
    // Without its log, nothing of the old database is left.
    fs::remove_file(&dir.path).unwrap();
    fs::remove_file(lease_verdict_and_evidence("-wal")).unwrap();
    create(&dir.store(), plan_id(1)).unwrap();
    assert_eq!(verify_counts(&dir.store()), (1, 1));
    drop(write_end);
    other.finish();
}

#[test]
fn another_name_of_the_file_uses_the_same_write_queue() {
    let dir = DatabaseDir::new();
    create(&dir.store(), plan_id(1)).unwrap();
    let link = dir.directory.path().join("link.db");
    std::os::unix::fs::symlink(&dir.path, &link).unwrap();
    let store = SqliteStore::new(&link, SqliteOptions::default());
    toggle(&store, plan_id(1)).unwrap();
    let files = dir.files();
    assert!(
        !files.iter().any(|name| name.starts_with("link.db-")),
        "{files:?}"
    );
}

#[test]
fn a_backup_is_consistent_and_never_replaces_a_file() {
    let dir = DatabaseDir::new();
    let store = Arc::new(dir.store());
    create(&store, plan_id(0)).unwrap();
    let writer = std::thread::spawn({
        let store = Arc::clone(&store);
        move || {
            for _ in 0..300 {
                toggle(&store, plan_id(0)).unwrap();
            }
        }
    });
    let mut copies = 0;
    while !writer.is_finished() {
        let to = dir.directory.path().join(format!("copy-{copies}.db"));
        store.write_backup(&to).unwrap();
        assert_eq!(mode(&to), 0o600);
        let again = store.write_backup(&to).unwrap_err();
        assert!(
            matches!(&again, StoreError::Unusable { place, why }
                if *place == to.display().to_string() && why.contains("exists")),
            "{again:?}"
        );
        let copy = SqliteStore::new(&to, SqliteOptions::default());
        let verified = verify_store(&copy).unwrap();
        assert_eq!((verified.plans, verified.problems), (1, vec![]));
        copies += 1;
    }
    writer.join().unwrap();
    assert!(copies > 0);
    let leftovers = dir
        .files()
        .into_iter()
        .filter(|name| name.contains("unfinished"));
    assert_eq!(leftovers.count(), 0);
    let nowhere = dir.directory.path().join("no/such/copy.db");
    assert!(matches!(
        store.write_backup(&nowhere),
        Err(StoreError::Unusable { .. })
    ));
}

#[test]
fn corruption_is_detected() {
    let dir = DatabaseDir::new();
    let store = dir.store();
    create(&store, plan_id(1)).unwrap();
    let vandal = rusqlite::Connection::open(&dir.path).unwrap();
    vandal
        .execute_batch("PRAGMA foreign_keys = OFF; UPDATE events SET plan_id = 'nobody'")
        .unwrap();
    let found = store.check_integrity().unwrap();
    assert_eq!(found, ["a row of events refers to a missing row of plans"]);
    vandal
        .execute_batch("UPDATE plans SET body = '{}'")
        .unwrap();
    assert!(matches!(
        store.read_plan(plan_id(1)),
        Err(StoreError::Corrupt { .. })
    ));
    vandal
        .execute_batch(
            "PRAGMA writable_schema = ON;
             UPDATE sqlite_schema SET rootpage = 2 WHERE name = 'plans_by_stage'",
        )
        .unwrap();
    let found = dir.store().check_integrity().unwrap();
    assert!(!found.is_empty());
}
