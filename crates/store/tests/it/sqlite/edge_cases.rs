//! Tests paths that are not files, backups that exist already, and decisions on absent rows.

use std::fs;
use std::path::Path;

use plan::{Event, PlanVersion};
use planwright_store::sqlite::{SqliteOptions, SqliteStore};
use planwright_store::{CommitError, StoreError, StoreMaintenance, StoreReader, StoreWriter};
use testkit::edit_plan;

use crate::sqlite::support::{
    DatabaseDir, create, creates, one_event, plan_id, submission_for, toggle, verify_counts,
    version,
};

/// Returns the error of a write.
#[track_caller]
fn write_error(store: &SqliteStore) -> StoreError {
    match create(store, plan_id(1)) {
        Err(CommitError::Failed(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_path_that_is_not_a_file_is_refused() {
    let dir = DatabaseDir::new();
    let pipe = dir.directory.path().join("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let at = |path: &Path| SqliteStore::new(path, SqliteOptions::default());
    for error in [
        at(&pipe).read_plan(plan_id(1)).unwrap_err(),
        write_error(&at(&pipe)),
    ] {
        assert!(
            matches!(&error, StoreError::Unusable { why, .. } if why == "it is not a regular file"),
            "{error}"
        );
    }
    let nameless = dir.directory.path().join("deep/..");
    let error = write_error(&at(&nameless));
    assert!(
        matches!(&error, StoreError::Unusable { why, .. } if why == "it is not a file name"),
        "{error}"
    );
}

#[test]
fn a_backup_replaces_only_leftovers_of_an_unfinished_one() {
    let dir = DatabaseDir::new();
    let store = dir.store();
    create(&store, plan_id(1)).unwrap();
    let copy = dir.directory.path().join("copy.db");
    let left_over = dir
        .directory
        .path()
        .join(format!("copy.db.unfinished-{}", std::process::id()));
    fs::write(&left_over, "half a copy").unwrap();
    store.write_backup(&copy).unwrap();
    assert!(!left_over.exists());
    let copied = SqliteStore::new(&copy, SqliteOptions::default());
    assert_eq!(verify_counts(&copied), (1, 1));
    toggle(&store, plan_id(1)).unwrap();
    let again = store.write_backup(&copy).unwrap_err();
    assert!(
        matches!(&again, StoreError::Unusable { why, .. } if why.contains("already exists")),
        "{again}"
    );
    assert_eq!(version(&copied, plan_id(1)), 1);
}

/// Guards the version check in `UPDATE_PLAN`: a row that the decision has not seen is not
/// overwritten.
#[test]
fn a_decision_on_absent_rows_is_not_written() {
    let dir = DatabaseDir::new();
    let store = dir.store();
    create(&store, plan_id(1)).unwrap();
    let first = store.read_plan(plan_id(1)).unwrap().unwrap().plan;
    toggle(&store, plan_id(1)).unwrap();
    let cancel = || Event::Cancelled {
        epoch: first.epoch().next(),
        reason: None,
    };
    let stale = {
        let (first, event) = (first.clone(), cancel());
        submission_for(
            plan_id(1),
            Box::new(move |_, now| {
                let before = Some(first.clone());
                Ok(one_event(before, plan_id(1), event.clone(), vec![], now))
            }),
        )
    };
    let absent = {
        let never = edit_plan(&first, |fields| {
            fields.insert("id".to_owned(), serde_json::json!(plan_id(2)));
        });
        let event = cancel();
        submission_for(
            plan_id(2),
            Box::new(move |_, now| {
                let before = Some(never.clone());
                Ok(one_event(before, plan_id(2), event.clone(), vec![], now))
            }),
        )
    };
    let says = |submission| match store.commit(submission) {
        Err(CommitError::Failed(StoreError::Database { why })) => why,
        other => panic!("{other:?}"),
    };
    let (stale, absent) = (says(stale), says(absent));
    assert_eq!(
        stale,
        format!(
            "plan {} was decided at version 1, but another version is stored",
            plan_id(1)
        )
    );
    assert_eq!(absent, format!("plan {} does not exist", plan_id(2)));
    assert_eq!(version(&store, plan_id(1)), 2);
    assert_eq!(store.read_plan(plan_id(2)).unwrap(), None);
    store
        .commit(submission_for(plan_id(2), creates(plan_id(2), "tidy up")))
        .unwrap();
    assert_eq!(verify_counts(&store), (2, 3));
    assert_eq!(
        store.read_plan(plan_id(2)).unwrap().unwrap().plan.version(),
        PlanVersion(1)
    );
}
