//! Paths that are no files, copies in the way of others, and decisions on rows that are not there.

use std::fs;
use std::path::Path;

use plan::{Event, PlanVersion};
use planwright_store::sqlite::{SqliteOptions, SqliteStore};
use planwright_store::{CommitError, StoreError, StoreMaintenance, StoreReader, StoreWriter};

use crate::support::{Place, about, create, creates, one_event, plan_id, sound, toggle, version};

/// What a write says.
#[track_caller]
fn refused(store: &SqliteStore) -> StoreError {
    match create(store, plan_id(1)) {
        Err(CommitError::Failed(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_no_file_is_no_store() {
    let place = Place::new();
    let pipe = place.directory.path().join("pipe");
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
        refused(&at(&pipe)),
    ] {
        assert!(
            matches!(&error, StoreError::Unusable { why, .. } if why == "it is not a regular file"),
            "{error}"
        );
    }
    let nameless = place.directory.path().join("deep/..");
    let error = refused(&at(&nameless));
    assert!(
        matches!(&error, StoreError::Unusable { why, .. } if why == "it is not the name of a file"),
        "{error}"
    );
}

#[test]
fn a_copy_replaces_what_an_unfinished_one_left_and_nothing_else() {
    let place = Place::new();
    let store = place.store();
    create(&store, plan_id(1)).unwrap();
    let copy = place.directory.path().join("copy.db");
    let left_over = place
        .directory
        .path()
        .join(format!("copy.db.unfinished-{}", std::process::id()));
    fs::write(&left_over, "half a copy").unwrap();
    store.write_backup(&copy).unwrap();
    assert!(!left_over.exists());
    let copied = SqliteStore::new(&copy, SqliteOptions::default());
    assert_eq!(sound(&copied), (1, 1));
    toggle(&store, plan_id(1)).unwrap();
    let again = store.write_backup(&copy).unwrap_err();
    assert!(
        matches!(&again, StoreError::Unusable { why, .. } if why.contains("exists already")),
        "{again}"
    );
    assert_eq!(version(&copied, plan_id(1)), 1);
}

/// Guards the version in the statement that changes a plan: nothing is written over what a decision did
/// not see.
#[test]
fn a_decision_on_what_is_not_stored_is_not_stored() {
    let place = Place::new();
    let store = place.store();
    create(&store, plan_id(1)).unwrap();
    let first = store.read_plan(plan_id(1)).unwrap().unwrap().plan;
    toggle(&store, plan_id(1)).unwrap();
    let cancel = || Event::Cancelled {
        epoch: first.epoch.next(),
        reason: None,
    };
    let stale = {
        let (first, event) = (first.clone(), cancel());
        about(
            plan_id(1),
            Box::new(move |_, now| {
                let before = Some(first.clone());
                Ok(one_event(before, plan_id(1), event.clone(), vec![], now))
            }),
        )
    };
    let absent = {
        let mut never = first.clone();
        never.id = plan_id(2);
        let event = cancel();
        about(
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
            "plan {} was decided at version 1, which is not what is stored",
            plan_id(1)
        )
    );
    assert_eq!(
        absent,
        format!("plan {} is not there to change", plan_id(2))
    );
    assert_eq!(version(&store, plan_id(1)), 2);
    assert_eq!(store.read_plan(plan_id(2)).unwrap(), None);
    store
        .commit(about(plan_id(2), creates(plan_id(2), "tidy up")))
        .unwrap();
    assert_eq!(sound(&store), (2, 3));
    assert_eq!(
        store.read_plan(plan_id(2)).unwrap().unwrap().plan.version,
        PlanVersion(1)
    );
}
