//! G1: a read after a commit, through whatever handle, sees it. Nobody decides on what was true
//! some time ago.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use plan::changeset::Node;
use plan::invariant::{Gate, Scope};
use plan::{Command, Phase, Refusal, Version};
use store::{CommitError, Cursor, PlanFilter};
use testkit::client::LONG;
use testkit::samples;

use crate::bench::{Bench, due, watched};

super::on_every_store! {
    a_read_through_another_handle_sees_every_commit,
    a_decision_sees_what_another_handle_committed,
    readers_never_see_less_than_what_was_answered,
    an_absent_store_reads_as_empty_and_stays_absent,
}

fn a_read_through_another_handle_sees_every_commit(bench: &Bench) {
    let (writer, reader) = (bench.client(), bench.open());
    let plan = writer.ids().plan();
    // Whatever a reader might keep, it keeps from before.
    assert_eq!(reader.plan(plan).unwrap(), None);
    assert!(
        reader
            .plans(&PlanFilter::default(), None, 10)
            .unwrap()
            .is_empty()
    );
    assert_eq!(reader.action(&samples::name("tidy")).unwrap(), None);

    let action = writer.add_action(samples::action("tidy"));
    assert!(reader.action(&action).unwrap().is_some());
    assert_eq!(reader.actions(None, 10).unwrap().len(), 1);

    writer.add_plan(samples::use_of(plan, &action));
    assert_eq!(reader.plan(plan).unwrap().unwrap().plan, writer.plan(plan));
    assert_eq!(due(reader.as_ref(), Phase::Strategize), [plan]);
    assert_eq!(
        reader
            .plans(&PlanFilter::default(), None, 10)
            .unwrap()
            .len(),
        1
    );

    writer.add_rule(Scope::Plan(plan), samples::rule("fine", "true", &Gate::ALL));
    assert_eq!(reader.snapshot(plan).unwrap().unwrap().rules.rules.len(), 1);
    assert_eq!(
        reader
            .rules(&[Scope::Plan(plan)])
            .unwrap()
            .revision(&Scope::Plan(plan)),
        1
    );

    let claimed = writer.must(plan, writer.start(plan, Phase::Strategize, LONG));
    let row = reader.plan(plan).unwrap().unwrap();
    assert_eq!(Some(&row.plan), claimed.plan.as_deref());
    assert_eq!(row.lease.map(|lease| lease.epoch), claimed.receipt.epoch);
    assert!(due(reader.as_ref(), Phase::Strategize).is_empty());
    let events = reader.plan_events(plan, Version(0), 100).unwrap();
    assert_eq!(
        events.last().map(|last| last.recorded.version),
        claimed.receipt.version
    );
    assert_eq!(events.last().map(|last| last.hash), Some(row.head));

    let (plan, epoch) = writer.executing("change something", LONG);
    let id = writer.ids().changeset();
    writer.must(
        plan,
        Command::OpenChangeset {
            epoch,
            id,
            node: Node::main(),
        },
    );
    assert_eq!(reader.changesets(plan).unwrap().len(), 1);
}

/// What CleverAgents got wrong: a process that had seen the plan earlier went on from there.
fn a_decision_sees_what_another_handle_committed(bench: &Bench) {
    let (here, there) = (bench.client(), bench.client());
    let landed = here.landed("land once");
    let plan = there.queued("cancelled elsewhere");
    assert_eq!(here.plan(plan), there.plan(plan));
    there.must(plan, Command::Cancel { reason: None });
    for plan in [plan, landed] {
        let again = here.on(plan, here.start(plan, Phase::Strategize, LONG));
        assert!(
            matches!(again, Err(CommitError::Refused(Refusal::Final { .. }))),
            "{again:?}"
        );
    }
}

fn readers_never_see_less_than_what_was_answered(bench: &Bench) {
    let writer = bench.client();
    let plan = writer.finished("be signed often");
    let answered = AtomicU64::new(0);
    let readers: Vec<_> = (0..4).map(|_| bench.open()).collect();
    let next = AtomicUsize::new(0);
    let look = || {
        let reader = &readers[next.fetch_add(1, Ordering::Relaxed) % readers.len()];
        let least = answered.load(Ordering::SeqCst);
        let row = reader.plan(plan).unwrap().unwrap();
        assert!(row.plan.version >= Version(least), "{row:?} but {least}");
        let log = reader.plan_events(plan, Version(least), 1000).unwrap();
        let seen = least + log.len() as u64;
        assert!(seen >= row.plan.version.0, "the log is behind the plan");
    };
    watched(4, look, || {
        for _ in 0..60 {
            let committed = writer.must(plan, testkit::samples::approve());
            answered.store(committed.receipt.version.unwrap().0, Ordering::SeqCst);
        }
    });
}

fn an_absent_store_reads_as_empty_and_stays_absent(bench: &Bench) {
    let store = bench.open();
    let before = store.info().unwrap();
    let plan = bench.ids.plan();
    let name = samples::name("tidy");
    assert_eq!(store.plan(plan).unwrap(), None);
    assert_eq!(store.snapshot(plan).unwrap(), None);
    assert!(
        store
            .plans(&PlanFilter::default(), None, 10)
            .unwrap()
            .is_empty()
    );
    assert!(store.plans_like("01", 10).unwrap().is_empty());
    assert!(due(store.as_ref(), Phase::Execute).is_empty());
    assert!(store.expired(10).unwrap().is_empty());
    assert_eq!(store.action(&name).unwrap(), None);
    assert!(store.actions(None, 10).unwrap().is_empty());
    assert!(store.rules(&[]).unwrap().rules.is_empty());
    assert!(store.changesets(plan).unwrap().is_empty());
    assert!(store.plan_events(plan, Version(0), 10).unwrap().is_empty());
    assert!(store.events(&Cursor::START, 10).unwrap().events.is_empty());
    let latest = store.latest().unwrap();
    assert!(store.events(&latest, 10).unwrap().events.is_empty());
    assert_eq!(store.check().unwrap(), Vec::<String>::new());
    assert_eq!(
        bench.open().info().unwrap(),
        before,
        "a read wrote something"
    );
}
