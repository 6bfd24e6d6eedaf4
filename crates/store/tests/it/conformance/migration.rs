//! A store of schema 4, which kept each plan as one value, migrates to separate terms; one of
//! schema 5 gains transcripts. No event changes.

use plan::command::CancelPlan;
use plan::transcript::{TranscriptContent, TranscriptEntry};
use plan::{Command, PlanId};
use serde_json::{Value, json};
use store::StoreError;
use store::verify::verify_store;
use testkit::StoreDump;
use testkit::client::LONG_LEASE;
use testkit::dump::read_all_events;

use crate::store_fixture::{SUPPORTED_SCHEMA_VERSION, StoreFixture};

super::on_every_database! {
    plans_of_schema_4_are_split,
    a_store_of_schema_5_gains_transcripts,
    an_unreadable_plan_does_not_stop_the_migration,
    missing_terms_are_reported,
}

fn plans_of_schema_4_are_split(fixture: &StoreFixture) {
    let client = fixture.client();
    let queued = client.create_queued_plan("it's waiting");
    let (executing, _) = client.create_executing_plan("work", LONG_LEASE);
    let landed = client.create_landed_plan("land");
    let ids = [queued, executing, landed];
    let before = StoreDump::read_store(client.store());
    let logs = ids.map(|id| read_all_events(client.store(), id));
    drop(client);
    return_to_schema_4(fixture, &ids);
    let store = fixture.open();
    assert_eq!(
        store.migrate_schema().unwrap(),
        (4, SUPPORTED_SCHEMA_VERSION)
    );
    StoreDump::read_store(&*store).assert_same(&before, "after the migration");
    assert_eq!(ids.map(|id| read_all_events(&*store, id)), logs);
    let report = verify_store(&*store).unwrap();
    assert_eq!((report.plans, report.problems), (3, Vec::new()));
    let bodies = fixture.sql("SELECT body FROM plans").concat();
    assert!(!bodies.contains("\"done\"") && !bodies.contains("\"goal\""));
    // Plans go on.
    let reason = None;
    let client = fixture.client();
    client.must_submit(executing, Command::from(CancelPlan { reason }));
    assert_eq!(
        verify_store(&*store).unwrap().problems,
        Vec::<String>::new()
    );
}

fn a_store_of_schema_5_gains_transcripts(fixture: &StoreFixture) {
    let client = fixture.client();
    let (executing, epoch) = client.create_executing_plan("work", LONG_LEASE);
    client.create_landed_plan("land");
    let before = StoreDump::read_store(client.store());
    drop(client);
    fixture.sql("DROP TABLE reviews");
    fixture.sql("DROP TABLE transcript_entries");
    set_schema_version(fixture, 5);
    let store = fixture.open();
    let refused = store.read_transcript(executing, None, 10);
    assert!(
        matches!(refused, Err(StoreError::OlderSchema { found: 5, .. })),
        "{refused:?}"
    );
    assert_eq!(
        store.migrate_schema().unwrap(),
        (5, SUPPORTED_SCHEMA_VERSION)
    );
    StoreDump::read_store(&*store).assert_same(&before, "after the migration");
    let entry = TranscriptEntry {
        elapsed_ms: 0,
        content: TranscriptContent::Text {
            text: "done".to_owned(),
        },
    };
    store
        .append_transcript(executing, epoch, 1, &[entry])
        .unwrap();
    assert_eq!(store.read_transcript(executing, None, 10).unwrap().len(), 1);
    assert_eq!(
        verify_store(&*store).unwrap().problems,
        Vec::<String>::new()
    );
}

fn an_unreadable_plan_does_not_stop_the_migration(fixture: &StoreFixture) {
    let client = fixture.client();
    let good = client.create_landed_plan("be kept");
    let bad = client.create_queued_plan("be damaged");
    let before = client.store().read_plan(good).unwrap();
    drop(client);
    return_to_schema_4(fixture, &[good, bad]);
    fixture.sql(&format!(
        "UPDATE plans SET body = '{{}}' WHERE plan_id = '{bad}'"
    ));
    let store = fixture.open();
    store.migrate_schema().unwrap();
    assert_eq!(store.read_plan(good).unwrap(), before);
    assert!(store.read_plan(bad).is_err());
}

fn missing_terms_are_reported(fixture: &StoreFixture) {
    let client = fixture.client();
    let plan = client.create_queued_plan("lose the terms");
    fixture.sql("DELETE FROM plan_terms");
    let problems = client.store().check_integrity().unwrap();
    assert!(
        problems.iter().any(|one| one.contains(&plan.to_string())),
        "{problems:?}"
    );
    assert!(client.store().read_plan(plan).is_err());
}

/// Stores plans as schema 4 did. What it kept in `done` is not read any more.
fn return_to_schema_4(fixture: &StoreFixture, plans: &[PlanId]) {
    for plan_id in plans {
        let body = |table: &str| -> Value {
            let found = fixture.sql(&format!(
                "SELECT body FROM {table} WHERE plan_id = '{plan_id}'"
            ));
            serde_json::from_str(&found[0]).unwrap()
        };
        let mut whole = body("plan_terms");
        let fields = whole.as_object_mut().unwrap();
        fields.remove("created_by");
        fields.extend(body("plans").as_object().unwrap().clone());
        fields.insert("done".to_owned(), json!({ "use": { "at": "then" } }));
        let whole = whole.to_string().replace('\'', "''");
        fixture.sql(&format!(
            "UPDATE plans SET body = '{whole}' WHERE plan_id = '{plan_id}'"
        ));
    }
    fixture.sql("DROP TABLE reviews");
    fixture.sql("DROP TABLE transcript_entries");
    fixture.sql("DROP TABLE plan_terms");
    set_schema_version(fixture, 4);
}

fn set_schema_version(fixture: &StoreFixture, version: u32) {
    fixture.sql(&match fixture.open().read_info().unwrap().kind {
        "sqlite" => format!("PRAGMA user_version = {version}"),
        _ => format!("UPDATE schema_version SET version = {version}"),
    });
}
