//! G1: every read through any handle sees all earlier commits. No decision uses stale rows.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use plan::changeset::Node;
use plan::command::{CancelPlan, OpenChangeset};
use plan::invariant::{Gate, RuleScope};
use plan::{Command, Phase, PlanVersion, Refusal};
use store::{CommitError, Cursor, PlanFilter};
use testkit::client::LONG_LEASE;
use testkit::samples;

use crate::store_fixture::{StoreFixture, due, watched};

super::on_every_store! {
    a_read_through_another_handle_sees_every_commit,
    a_decision_sees_what_another_handle_committed,
    readers_never_see_less_than_what_was_answered,
    an_absent_store_reads_as_empty_and_stays_absent,
}

fn a_read_through_another_handle_sees_every_commit(fixture: &StoreFixture) {
    let (writer, reader) = (fixture.client(), fixture.open());
    let plan = writer.ids().next_plan_id();
    // Anything a reader could cache is from before the commit.
    assert_eq!(reader.read_plan(plan).unwrap(), None);
    assert!(
        reader
            .list_plans(&PlanFilter::default(), None, 10)
            .unwrap()
            .is_empty()
    );
    assert_eq!(
        reader.read_action(&samples::parse_name("tidy")).unwrap(),
        None
    );

    let action = writer.add_action(samples::reusable_action("tidy"));
    assert!(reader.read_action(&action).unwrap().is_some());
    assert_eq!(reader.list_actions(None, 10).unwrap().len(), 1);

    writer.add_plan(samples::plan_of_action(plan, &action));
    assert_eq!(
        reader.read_plan(plan).unwrap().unwrap().plan,
        writer.load_plan(plan)
    );
    assert_eq!(due(reader.as_ref(), Phase::Strategize), [plan]);
    assert_eq!(
        reader
            .list_plans(&PlanFilter::default(), None, 10)
            .unwrap()
            .len(),
        1
    );

    writer.add_rule(
        RuleScope::Plan(plan),
        samples::rule_draft("fine", "true", &Gate::ALL),
    );
    assert_eq!(
        reader
            .read_snapshot(plan)
            .unwrap()
            .unwrap()
            .rules
            .rules
            .len(),
        1
    );
    assert_eq!(
        reader
            .read_rules(&[RuleScope::Plan(plan)])
            .unwrap()
            .revision(&RuleScope::Plan(plan)),
        1
    );

    let claimed = writer.must_submit(
        plan,
        writer.start_command(plan, Phase::Strategize, LONG_LEASE),
    );
    let row = reader.read_plan(plan).unwrap().unwrap();
    assert_eq!(Some(&row.plan), claimed.plan.as_deref());
    assert_eq!(row.lease.map(|lease| lease.epoch), claimed.receipt.epoch);
    assert!(due(reader.as_ref(), Phase::Strategize).is_empty());
    let events = reader.read_plan_events(plan, PlanVersion(0), 100).unwrap();
    assert_eq!(
        events.last().map(|last| last.recorded.version),
        claimed.receipt.version
    );
    assert_eq!(events.last().map(|last| last.hash), Some(row.head));

    let (plan, epoch) = writer.create_executing_plan("change something", LONG_LEASE);
    let id = writer.ids().next_changeset_id();
    writer.must_submit(
        plan,
        Command::from(OpenChangeset {
            epoch,
            id,
            node: Node::main(),
        }),
    );
    assert_eq!(reader.list_changesets(plan).unwrap().len(), 1);
}

/// A bug of CleverAgents: a process continued from a plan it had read earlier.
fn a_decision_sees_what_another_handle_committed(fixture: &StoreFixture) {
    let (first, second) = (fixture.client(), fixture.client());
    let landed = first.create_landed_plan("land once");
    let plan = second.create_queued_plan("cancelled elsewhere");
    assert_eq!(first.load_plan(plan), second.load_plan(plan));
    second.must_submit(plan, Command::from(CancelPlan { reason: None }));
    for plan in [plan, landed] {
        let again = first.submit_for_plan(
            plan,
            first.start_command(plan, Phase::Strategize, LONG_LEASE),
        );
        assert!(
            matches!(again, Err(CommitError::Refused(Refusal::Final { .. }))),
            "{again:?}"
        );
    }
}

fn readers_never_see_less_than_what_was_answered(fixture: &StoreFixture) {
    let writer = fixture.client();
    let plan = writer.create_executed_plan("be signed often");
    let answered = AtomicU64::new(0);
    let readers: Vec<_> = (0..4).map(|_| fixture.open()).collect();
    let next = AtomicUsize::new(0);
    let look = || {
        let reader = &readers[next.fetch_add(1, Ordering::Relaxed) % readers.len()];
        let least = answered.load(Ordering::SeqCst);
        let row = reader.read_plan(plan).unwrap().unwrap();
        assert!(
            row.plan.version() >= PlanVersion(least),
            "{row:?} but {least}"
        );
        let log = reader
            .read_plan_events(plan, PlanVersion(least), 1000)
            .unwrap();
        let seen = least + log.len() as u64;
        assert!(seen >= row.plan.version().0, "the log is behind the plan");
    };
    watched(4, look, || {
        for _ in 0..60 {
            let committed = writer.must_submit(plan, testkit::samples::approve_command());
            answered.store(committed.receipt.version.unwrap().0, Ordering::SeqCst);
        }
    });
}

fn an_absent_store_reads_as_empty_and_stays_absent(fixture: &StoreFixture) {
    let store = fixture.open();
    let before = store.read_info().unwrap();
    let plan = fixture.ids.next_plan_id();
    let name = samples::parse_name("tidy");
    assert_eq!(store.read_plan(plan).unwrap(), None);
    assert_eq!(store.read_snapshot(plan).unwrap(), None);
    assert!(
        store
            .list_plans(&PlanFilter::default(), None, 10)
            .unwrap()
            .is_empty()
    );
    assert!(store.find_plan_ids("01", 10).unwrap().is_empty());
    assert!(due(store.as_ref(), Phase::Execute).is_empty());
    assert!(store.list_expired_leases(10).unwrap().is_empty());
    assert_eq!(store.read_action(&name).unwrap(), None);
    assert!(store.list_actions(None, 10).unwrap().is_empty());
    assert!(store.read_rules(&[]).unwrap().rules.is_empty());
    assert!(store.list_changesets(plan).unwrap().is_empty());
    assert!(
        store
            .read_plan_events(plan, PlanVersion(0), 10)
            .unwrap()
            .is_empty()
    );
    assert!(
        store
            .read_events(&Cursor::START, 10)
            .unwrap()
            .events
            .is_empty()
    );
    let latest = store.read_latest_cursor().unwrap();
    assert!(store.read_events(&latest, 10).unwrap().events.is_empty());
    assert_eq!(store.check_integrity().unwrap(), Vec::<String>::new());
    assert_eq!(
        fixture.open().read_info().unwrap(),
        before,
        "a read wrote something"
    );
}
