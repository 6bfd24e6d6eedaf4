//! G12: a log that was tampered with is found out.

use plan::PlanId;
use store::verify::verify_store;
use testkit::StoreDump;

use crate::bench::Bench;

super::on_every_database! {
    tampering_is_found,
    a_plan_that_cannot_be_found_by_its_project_is_told,
}

fn tampering_is_found(bench: &Bench) {
    let client = bench.client();
    let plan = client.create_landed_plan("be tampered with");
    let other = client.create_landed_plan("be left alone");
    let one = format!("plan_id = '{plan}'");
    let before = StoreDump::read_store(client.store());
    // What can be taken back, and is then found to be right again.
    let forge = |table: &str, from: &str, to: &str, which: &str| {
        bench.sql(&format!(
            "UPDATE {table} SET body = replace(body, '{from}', '{to}') WHERE {one} {which}"
        ));
    };
    for (table, which) in [
        ("events", "AND version = 1"),
        ("events", "AND version = 5"),
        ("plans", ""),
    ] {
        forge(table, "ada", "bob", which);
        assert_found(bench, plan, other, table);
        forge(table, "bob", "ada", which);
        assert_eq!(problems(bench), Vec::<String>::new());
        StoreDump::read_store(client.store()).assert_same(&before, "after taking it back");
    }
    // What cannot, from the end of the log to its beginning.
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
        bench.sql(&change);
        assert_found(bench, plan, other, &change);
    }
}

fn a_plan_that_cannot_be_found_by_its_project_is_told(bench: &Bench) {
    let client = bench.client();
    let plan = client.create_queued_plan("be looked for");
    let other = client.create_landed_plan("be found");
    assert_eq!(problems(bench), Vec::<String>::new());
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
        bench.sql(&change);
        assert_found(bench, plan, other, &change);
        if let Some(back) = back {
            bench.sql(&back);
            assert_eq!(problems(bench), Vec::<String>::new());
        }
    }
}

fn assert_found(bench: &Bench, tampered: PlanId, other: PlanId, what: &str) {
    let problems = problems(bench);
    let named = |plan: PlanId| {
        let plan = plan.to_string();
        problems.iter().any(|problem| problem.contains(&plan))
    };
    assert!(named(tampered), "{what}: {problems:?}");
    assert!(!named(other), "{what}: {problems:?}");
}

fn problems(bench: &Bench) -> Vec<String> {
    verify_store(bench.open().as_ref()).unwrap().problems
}
