//! A store that an earlier release wrote: `stores/schema_4.sql` is a dump of one, with plans in
//! every state, made by that release and not by hand.

use std::path::Path;

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::shell::TranscriptShell;

const SCHEMA_4: &str = include_str!("stores/schema_4.sql");

#[test]
fn store_of_an_earlier_release_migrates_and_its_plans_continue() {
    let shell = TranscriptShell::new();
    write_store(&shell.store_path(), SCHEMA_4);
    let events = read_events(&shell.store_path());
    assert_eq!(events.len(), 148);

    let migrated = shell.run_quietly(&["store", "migrate"]);
    assert_eq!(migrated["before"], 4, "{migrated}");
    assert_eq!(
        read_events(&shell.store_path()),
        events,
        "an event was rewritten"
    );
    let checked = shell.run_quietly(&["store", "verify"]);
    assert_eq!(
        (&checked["plans"], &checked["problems"]),
        (&json!(12), &json!([])),
        "{checked}"
    );

    let plans = shell.run_quietly(&["list", "--all"]);
    for (goal, state) in [
        ("Land a line", "applied"),
        ("Be cancelled", "cancelled"),
        ("Fail early", "errored"),
        ("Break a rule", "complete"),
        ("Wait in the queue", "queued"),
        ("Think first", "complete"),
        ("Be reviewed", "complete"),
        ("Be revised", "complete"),
        ("Be killed", "processing"),
    ] {
        let plan = find_plan(&plans, goal);
        assert_eq!(plan["state"], state, "{plan}");
        let handle = plan["plan_id"].as_str().unwrap();
        for view in [["status", handle], ["log", handle], ["why", handle]] {
            shell.run_quietly(&view);
        }
    }

    let queued = find_plan(&plans, "Wait in the queue");
    shell.run_quietly(&["cancel", queued["plan_id"].as_str().unwrap()]);
    let checked = shell.run_quietly(&["store", "verify"]);
    assert_eq!(checked["problems"], json!([]), "{checked}");
}

fn write_store(path: &Path, dump: &str) {
    let database = Connection::open(path).unwrap();
    // A dump creates tables by name, so that some come before those they refer to.
    database.pragma_update(None, "foreign_keys", false).unwrap();
    database.execute_batch(dump).unwrap();
}

/// Every event as it is stored, with its hash.
fn read_events(path: &Path) -> Vec<String> {
    let database = Connection::open(path).unwrap();
    let mut rows = database
        .prepare("SELECT hex(hash) || body || ifnull(texts, '') FROM events ORDER BY position")
        .unwrap();
    let events = rows.query_map([], |row| row.get(0)).unwrap();
    events.map(Result::unwrap).collect()
}

fn find_plan<'a>(plans: &'a Value, goal: &str) -> &'a Value {
    let plans = plans["plans"].as_array().unwrap();
    let found = plans.iter().find(|plan| plan["goal"] == goal);
    found.unwrap_or_else(|| panic!("no plan {goal:?} in {plans:?}"))
}
