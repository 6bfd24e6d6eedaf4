//! The file: absent, foreign, damaged, replaced, copied.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use plan::{Phase, PlanVersion};
use planwright_store::sqlite::{SqliteOptions, SqliteStore};
use planwright_store::{
    CommitError, Cursor, EventLog, PlanFilter, StoreError, StoreMaintenance, StoreReader,
    verify::verify_store,
};

use crate::child::Process;
use crate::support::{Place, create, plan_id, sound, toggle, version};

fn mode(path: &std::path::Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// What a write says.
fn refused(store: &SqliteStore) -> StoreError {
    match create(store, plan_id(1)).unwrap_err() {
        CommitError::Failed(error) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_absent_store_reads_as_empty_and_stays_absent() {
    let place = Place::new();
    let deep = place.directory.path().join("not/there/planwright.db");
    for path in [&place.path, &deep] {
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
                .write_backup(&place.directory.path().join("copy"))
                .is_err()
        );
    }
    assert_eq!(place.files(), Vec::<String>::new());
}

#[test]
fn the_first_write_makes_directory_and_file_for_the_owner_only() {
    let place = Place::new();
    let path = place.directory.path().join("some/where/planwright.db");
    let store = SqliteStore::new(&path, SqliteOptions::default());
    create(&store, plan_id(1)).unwrap();
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    assert_eq!(mode(&place.directory.path().join("some")), 0o700);
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
        ("sqlite", Some(4), 4)
    );
    assert_eq!(info.place, path.display().to_string());
    assert_eq!(store.migrate_schema().unwrap(), (4, 4));
}

#[test]
fn migrating_an_absent_store_makes_it() {
    let place = Place::new();
    assert_eq!(place.store().migrate_schema().unwrap(), (0, 4));
    assert_eq!(place.store().read_info().unwrap().schema_version, Some(4));
}

#[test]
fn an_empty_file_reads_as_empty_and_becomes_a_store() {
    let place = Place::new();
    fs::write(&place.path, b"").unwrap();
    let store = place.store();
    assert_eq!(store.read_plan(plan_id(1)).unwrap(), None);
    assert_eq!(store.read_info().unwrap().schema_version, None);
    assert_eq!(fs::metadata(&place.path).unwrap().len(), 0);
    create(&store, plan_id(1)).unwrap();
    assert_eq!(sound(&store), (1, 1));
}

#[test]
fn what_is_no_store_is_told_apart_and_left_alone() {
    let place = Place::new();
    let store = place.store();

    fs::create_dir(&place.path).unwrap();
    assert!(
        matches!(refused(&store), StoreError::Unusable { why, .. } if why.contains("directory"))
    );
    assert!(matches!(
        store.read_plan(plan_id(1)),
        Err(StoreError::Unusable { .. })
    ));
    fs::remove_dir(&place.path).unwrap();

    let text = "to be, or not to be\n".repeat(100);
    fs::write(&place.path, &text).unwrap();
    assert!(matches!(refused(&store), StoreError::NotAStore { .. }));
    assert!(matches!(
        store.read_plan(plan_id(1)),
        Err(StoreError::NotAStore { .. })
    ));
    assert!(matches!(
        store.read_info(),
        Err(StoreError::NotAStore { .. })
    ));
    assert_eq!(fs::read_to_string(&place.path).unwrap(), text);
    fs::remove_file(&place.path).unwrap();

    let theirs = rusqlite::Connection::open(&place.path).unwrap();
    theirs.execute_batch("CREATE TABLE theirs (x)").unwrap();
    drop(theirs);
    let before = fs::read(&place.path).unwrap();
    assert!(matches!(refused(&store), StoreError::NotAStore { .. }));
    assert!(matches!(
        store.read_plan(plan_id(1)),
        Err(StoreError::NotAStore { .. })
    ));
    assert!(matches!(
        store.migrate_schema(),
        Err(StoreError::NotAStore { .. })
    ));
    assert_eq!(fs::read(&place.path).unwrap(), before);
    fs::remove_file(&place.path).unwrap();

    std::os::unix::fs::symlink("nowhere", &place.path).unwrap();
    assert!(
        matches!(refused(&store), StoreError::Unusable { why, .. } if why.contains("symbolic"))
    );

    let below_a_file = place.directory.path().join("planwright.db-turn/x.db");
    fs::write(place.directory.path().join("planwright.db-turn"), b"").unwrap();
    let store = SqliteStore::new(below_a_file, SqliteOptions::default());
    assert!(matches!(refused(&store), StoreError::Unusable { .. }));
}

#[test]
fn a_newer_schema_is_refused_and_told() {
    let place = Place::new();
    let store = place.store();
    create(&store, plan_id(1)).unwrap();
    let newer = rusqlite::Connection::open(&place.path).unwrap();
    newer.pragma_update(None, "user_version", 9).unwrap();
    // By a store that has the file open, and by a new one.
    for store in [store, place.store()] {
        let told = [store.read_plan(plan_id(1)).unwrap_err(), refused(&store)];
        for error in told {
            assert!(
                matches!(
                    error,
                    StoreError::NewerSchema {
                        found: 9,
                        known: 4,
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
fn no_permission_is_said_as_such() {
    let place = Place::new();
    create(&place.store(), plan_id(0)).unwrap();
    let nobody = 65_534;
    if !rustix::process::geteuid().is_root() {
        // Only root can become somebody else; others can try on themselves.
        fs::set_permissions(&place.path, fs::Permissions::from_mode(0o000)).unwrap();
    }
    fs::set_permissions(place.directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = crate::child::command("look", &place.path, 0);
    if rustix::process::geteuid().is_root() {
        use std::os::unix::process::CommandExt;
        // The test binary itself must be readable for them.
        let binary = place.directory.path().join("binary");
        fs::copy(std::env::current_exe().unwrap(), &binary).unwrap();
        command = std::process::Command::new(binary);
        command
            .args(crate::child::ARGUMENTS)
            .uid(nobody)
            .gid(nobody);
        crate::child::set_up(&mut command, "look", &place.path, 0);
    }
    let mut process = Process::run(&mut command);
    let (reading, writing) = (process.hear().unwrap(), process.hear().unwrap());
    process.finish();
    for said in [reading, writing] {
        assert!(
            said.contains("cannot be used as a store")
                && said.to_lowercase().contains("permission"),
            "{said}"
        );
    }
}

#[test]
fn a_file_that_was_replaced_is_noticed() {
    let place = Place::new();
    let store = place.store();
    create(&store, plan_id(1)).unwrap();
    store
        .write_backup(&place.directory.path().join("copy.db"))
        .unwrap();
    create(&store, plan_id(2)).unwrap();
    // Back to the copy, as a person would do it.
    for suffix in ["", "-wal", "-shm"] {
        fs::remove_file(
            place
                .directory
                .path()
                .join(format!("planwright.db{suffix}")),
        )
        .unwrap();
    }
    assert_eq!(store.read_plan(plan_id(1)).unwrap(), None);
    fs::rename(place.directory.path().join("copy.db"), &place.path).unwrap();
    assert_eq!(
        (version(&store, plan_id(1)), version(&store, plan_id(2))),
        (1, 0)
    );
    create(&store, plan_id(3)).unwrap();
    assert_eq!(sound(&place.store()), (2, 2));
    // And away with everything, its directory included.
    fs::remove_dir_all(place.directory.path()).unwrap();
    assert_eq!(store.read_plan(plan_id(1)).unwrap(), None);
    create(&store, plan_id(4)).unwrap();
    assert_eq!(sound(&store), (1, 1));
}

/// The log of a database that is gone holds pages of that one. A new database of the same name would
/// read them as its own.
#[test]
fn the_log_of_a_file_that_is_gone_does_not_get_into_a_new_one() {
    let place = Place::new();
    let beside = |suffix: &str| {
        let name = format!("planwright.db{suffix}");
        place.directory.path().join(name)
    };
    // Another process has it open all the time, and with it the index of the log.
    let mut command = crate::child::command("commit-slowly", &place.path, 0);
    let (read_end, write_end) = std::io::pipe().unwrap();
    let mut other = Process::run(command.stdin(read_end));
    other.expect("1");
    for number in 1..50 {
        create(&place.store(), plan_id(number)).unwrap();
    }
    let elsewhere = place.directory.path().join("elsewhere.db");
    fs::rename(&place.path, &elsewhere).unwrap();
    let told = refused(&place.store());
    // Nor does an empty file of that name own the log.
    fs::write(&place.path, "").unwrap();
    for told in [told, refused(&place.store())] {
        assert!(
            matches!(&told, StoreError::Unusable { why, .. } if why.contains("planwright.db-wal")),
            "{told:?}"
        );
    }
    // Nothing was lost: with its file, the log is whole again.
    fs::rename(&elsewhere, &place.path).unwrap();
    assert_eq!(sound(&place.store()), (50, 50));
    // And without its log, nothing of the old one is left.
    fs::remove_file(&place.path).unwrap();
    fs::remove_file(beside("-wal")).unwrap();
    create(&place.store(), plan_id(1)).unwrap();
    assert_eq!(sound(&place.store()), (1, 1));
    drop(write_end);
    other.finish();
}

#[test]
fn another_name_of_the_file_leads_to_the_same_turnstile() {
    let place = Place::new();
    create(&place.store(), plan_id(1)).unwrap();
    let link = place.directory.path().join("link.db");
    std::os::unix::fs::symlink(&place.path, &link).unwrap();
    let store = SqliteStore::new(&link, SqliteOptions::default());
    toggle(&store, plan_id(1)).unwrap();
    let files = place.files();
    assert!(
        !files.iter().any(|name| name.starts_with("link.db-")),
        "{files:?}"
    );
}

#[test]
fn a_copy_is_whole_while_others_write_and_never_replaces_anything() {
    let place = Place::new();
    let store = Arc::new(place.store());
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
        let to = place.directory.path().join(format!("copy-{copies}.db"));
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
    let leftovers = place
        .files()
        .into_iter()
        .filter(|name| name.contains("unfinished"));
    assert_eq!(leftovers.count(), 0);
    let nowhere = place.directory.path().join("no/such/copy.db");
    assert!(matches!(
        store.write_backup(&nowhere),
        Err(StoreError::Unusable { .. })
    ));
}

#[test]
fn damage_is_found() {
    let place = Place::new();
    let store = place.store();
    create(&store, plan_id(1)).unwrap();
    let vandal = rusqlite::Connection::open(&place.path).unwrap();
    vandal
        .execute_batch("PRAGMA foreign_keys = OFF; UPDATE events SET plan_id = 'nobody'")
        .unwrap();
    let found = store.check_integrity().unwrap();
    assert_eq!(
        found,
        ["a row of events refers to a row of plans that is not there"]
    );
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
    let found = place.store().check_integrity().unwrap();
    assert!(!found.is_empty());
}
