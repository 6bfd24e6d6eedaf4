//! G12: tampering with the log is detected.

use plan::PlanId;
use store::verify::verify_store;
use testkit::StoreDump;

use crate::store_fixture::StoreFixture;

super::on_every_database! {
    tampering_is_detected,
    a_plan_with_wrong_project_rows_is_reported,
}

fn tampering_is_detected(fixture: &StoreFixture) {
    let client = fixture.client();
    let plan = client.create_landed_plan("be tampered with");
    let other = client.create_landed_plan("be left alone");
    let one = format!("plan_id = '{plan}'");
    let before = StoreDump::read_store(client.store());
    // Changes that can be reverted; the store is then intact again.
    let forge = |table: &str, from: &str, to: &str, which: &str| {
        fixture.sql(&format!(
            "UPDATE {table} SET body = replace(body, '{from}', '{to}') WHERE {one} {which}"
        ));
    };
    for (table, which) in [
        ("events", "AND version = 1"),
        ("events", "AND version = 5"),
        ("plans", ""),
    ] {
        forge(table, "ada", "bob", which);
        assert_found(fixture, plan, other, table);
        forge(table, "bob", "ada", which);
        assert_eq!(problems(fixture), Vec::<String>::new());
        StoreDump::read_store(client.store()).assert_same(&before, "after taking it back");
    }
    // Changes that cannot be reverted, from the end of the log to its start.
    let last = format!("(SELECT max(version) FROM events WHERE {one})");
    for change in [
        format!("DELETE FROM events WHERE {one} AND version = {last}"),
        format!("UPDATE events SET body = '{{}}' WHERE {one} AND version = 6"),
        format!("DELETE FROM events WHERE {one} AND version = 4"),
        format!(
            "UPDATE events SET hash = (SELECT head FROM plans WHERE {one})
             WHERE {one} AND version = 3"
        ),
        format!("DELETE FROM events WHERE {one}"),
    ] {
        fixture.sql(&change);
        assert_found(fixture, plan, other, &change);
    }
}

fn a_plan_with_wrong_project_rows_is_reported(fixture: &StoreFixture) {
    let client = fixture.client();
    let plan = client.create_queued_plan("be looked for");
    let other = client.create_landed_plan("be found");
    assert_eq!(problems(fixture), Vec::<String>::new());
    let one = format!("plan_id = '{plan}'");
    let set = |what: &str| format!("UPDATE plan_projects SET {what} WHERE {one}");
    for (change, back) in [
        (set("live = NOT live"), Some(set("live = NOT live"))),
        (
            set("project = 'local/other'"),
            Some(set("project = 'local/sample'")),
        ),
        (
            format!(
                "INSERT INTO plan_projects (project, plan_id, live)
                 SELECT 'local/other', plan_id, live FROM plan_projects WHERE {one}"
            ),
            Some(format!(
                "DELETE FROM plan_projects WHERE {one} AND project = 'local/other'"
            )),
        ),
        (format!("DELETE FROM plan_projects WHERE {one}"), None),
    ] {
        fixture.sql(&change);
        assert_found(fixture, plan, other, &change);
        if let Some(back) = back {
            fixture.sql(&back);
            assert_eq!(problems(fixture), Vec::<String>::new());
        }
    }
}

/// SQLite checks its foreign key instead.
#[test]
fn a_transcript_without_a_plan_is_reported_in_postgres() {
    let fixture = StoreFixture::postgres();
    fixture.client().create_queued_plan("exist");
    assert_eq!(problems(&fixture), Vec::<String>::new());
    fixture.sql("INSERT INTO transcript_entries VALUES ('nobody', 1, 1, '{}')");
    assert_eq!(
        problems(&fixture),
        ["transcript of nobody has no parent row"]
    );
}

fn assert_found(fixture: &StoreFixture, tampered: PlanId, other: PlanId, what: &str) {
    let problems = problems(fixture);
    let named = |plan: PlanId| {
        let plan = plan.to_string();
        problems.iter().any(|problem| problem.contains(&plan))
    };
    assert!(named(tampered), "{what}: {problems:?}");
    assert!(!named(other), "{what}: {problems:?}");
}

fn problems(fixture: &StoreFixture) -> Vec<String> {
    verify_store(fixture.open().as_ref()).unwrap().problems
}
