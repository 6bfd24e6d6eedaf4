//! Tests lists: sorted, filtered, and in pages without repeats or gaps while others write.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use plan::command::{
    AskPerson, CancelPlan, ConstrainApply, ExecutePlan, FailRun, LinkedPlan, NewPlan, ReleaseLease,
};
use plan::command::{CreateProject, UndoLanding};
use plan::plan::ProfileSource;
use plan::stage::{FailureCategory, StateName};
use plan::{Command, Phase, PlanId, Profile, Refusal, Span, Timestamp};
use store::{CommitError, PlanFilter, PlanRow, Store};
use testkit::client::{EXPIRED_LEASE, LONG_LEASE, expect_done};
use testkit::{TestClient, samples};

use crate::store_fixture::{StoreFixture, due, watched};

super::on_every_store! {
    plans_are_listed_by_the_plan_they_undo,
    pages_are_newest_first_and_hold_what_the_filter_says,
    no_plan_is_listed_twice_or_left_out_while_others_are_added,
    plans_are_found_by_either_end_of_their_id,
    claimable_plans_are_listed_longest_waiting_first,
    a_retry_is_not_due_before_its_time,
    actions_are_listed_by_the_bytes_of_their_names,
    page_limits_are_clamped,
}

fn pages_are_newest_first_and_hold_what_the_filter_says(fixture: &StoreFixture) {
    let client = fixture.client();
    let tidy = client.add_action(samples::reusable_action("tidy"));
    populate(&client, &tidy);
    let store = fixture.open();
    let all = pages(store.as_ref(), &PlanFilter::default(), 1000);
    assert_eq!(all.len(), 12);
    assert!(all.is_sorted_by(|newer, older| newer.plan.id() > older.plan.id()));

    let phases = [
        None,
        Some(Phase::Strategize),
        Some(Phase::Execute),
        Some(Phase::Apply),
    ];
    let states = std::iter::once(None).chain(StateName::ALL.map(Some));
    let actions = [None, Some(tidy), Some(samples::parse_name("unused"))];
    let mut told_apart = BTreeSet::new();
    for state in states {
        for phase in phases {
            for action in &actions {
                for needs_person in [false, true] {
                    let action = action.clone();
                    let filter = PlanFilter {
                        phase,
                        state,
                        action,
                        needs_person,
                        project: None,
                        origin: None,
                    };
                    let expected: Vec<&PlanRow> =
                        all.iter().filter(|row| filter.matches(row)).collect();
                    let found = pages(store.as_ref(), &filter, 2);
                    assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{filter:?}");
                    told_apart.insert(expected.len());
                }
            }
        }
    }
    assert!(
        told_apart.len() > 4,
        "the filters hardly filter: {told_apart:?}"
    );
}

/// Creates plans in a dozen different states, some from an action.
fn populate(client: &TestClient, action: &plan::QualifiedName) {
    let of_action =
        || client.add_plan(samples::plan_of_action(client.ids().next_plan_id(), action));
    let manual = |goal| {
        client.add_plan(NewPlan {
            profile: Some((Profile::Manual, ProfileSource::Flag)),
            ..samples::plan_for_goal(client.ids().next_plan_id(), goal)
        })
    };
    of_action();
    client.claim_phase(of_action(), LONG_LEASE);
    client.must_submit(of_action(), Command::from(CancelPlan { reason: None }));
    client.create_queued_plan("queued");
    manual("asks to be started");
    client.create_strategized_plan("strategized");
    client.create_executing_plan("executing", EXPIRED_LEASE);
    client.create_executed_plan("finished");
    client.create_landed_plan("landed");
    let (errored, epoch) = client.create_executing_plan("errored", LONG_LEASE);
    let (category, message) = (FailureCategory::Actor, "broke".to_owned());
    client.must_submit(
        errored,
        Command::from(FailRun {
            epoch,
            category,
            message,
        }),
    );
    let asking = client.create_queued_plan("asking");
    let epoch = client.claim_phase(asking, LONG_LEASE);
    let (question, patience) = ("which?".to_owned(), None);
    client.must_submit(
        asking,
        Command::from(AskPerson {
            epoch,
            question,
            answer_timeout: patience,
        }),
    );
    let (constrained, epoch) = client.create_landing_plan("constrained");
    client.must_submit(
        constrained,
        Command::from(ConstrainApply {
            epoch,
            kind: plan::stage::ConstraintKind::Conflict,
            message: "both changed it".to_owned(),
            paths: vec![samples::tree_path("a")],
            commits: vec!["c".repeat(40)],
        }),
    );
}

fn no_plan_is_listed_twice_or_left_out_while_others_are_added(fixture: &StoreFixture) {
    let client = fixture.client();
    let before: BTreeSet<PlanId> = (0..40)
        .map(|_| client.create_queued_plan("before"))
        .collect();
    let (adder, added) = (fixture.client(), AtomicU64::new(0));
    let add = || {
        let count = added.fetch_add(1, Ordering::Relaxed);
        // Clocks of other machines differ, so new ids can sort anywhere.
        let milliseconds = 1_750_000_000_000 + (count * 7919 % 101);
        let id = PlanId::from_parts(milliseconds, u128::from(count) << 40);
        adder.add_plan(samples::plan_for_goal(id, "meanwhile"));
    };
    let store = fixture.open();
    watched(2, add, || {
        for _ in 0..5 {
            let listed = pages(store.as_ref(), &PlanFilter::default(), 3);
            let ids: Vec<PlanId> = listed.iter().map(|row| row.plan.id()).collect();
            let distinct: BTreeSet<PlanId> = ids.iter().copied().collect();
            assert_eq!(distinct.len(), ids.len(), "a plan is listed twice");
            assert!(before.is_subset(&distinct), "a plan is missing");
            assert!(ids.is_sorted_by(|newer, older| newer > older));
        }
    });
}

fn plans_are_found_by_either_end_of_their_id(fixture: &StoreFixture) {
    let client = fixture.client();
    let id = |text: &str| -> PlanId { text.parse().unwrap() };
    let one = id("01AAAAAAAAAAAAAAAAAAAAAXYZ");
    let two = id("01AAAAAAAAAAAAAAAAAAAAB7KQ");
    let three = id("01BBBBBBBBBBBBBBBBBBBBB7KQ");
    // Its id starts and ends with the same characters.
    let four = id("01CCCCCCCCCCCCCCCCCCCCC01C");
    for plan in [one, two, three, four] {
        client.add_plan(samples::plan_for_goal(plan, "be found"));
    }
    let store = fixture.open();
    let found = |fragment: &str| {
        let mut found = store.find_plan_ids(fragment, 10).unwrap();
        found.sort_unstable();
        found
    };
    assert_eq!(found("01A"), [one, two]);
    assert_eq!(found("XYZ"), [one]);
    assert_eq!(found("7KQ"), [two, three]);
    assert_eq!(found("B7KQ"), [two, three]);
    assert_eq!(found("BB7KQ"), [three]);
    assert_eq!(found("01C"), [four], "found by both ends, listed once");
    assert_eq!(found(&two.to_string()), [two]);
    assert_eq!(found("01"), [one, two, three, four]);
    assert_eq!(store.find_plan_ids("01", 2).unwrap().len(), 2);
    for nothing in [
        "AAXY",
        "%",
        "_",
        "01%",
        "0_",
        "*",
        "\\",
        "'",
        "x",
        "7kq",
        "01AAAAAAAAAAAAAAAAAAAAAXYZZ",
    ] {
        assert!(found(nothing).is_empty(), "{nothing}");
    }
}

fn claimable_plans_are_listed_longest_waiting_first(fixture: &StoreFixture) {
    let now = fixture.open().now().unwrap();
    let ago = |seconds: i64| {
        fixture
            .client()
            .with_decision_time(now.saturating_add(Span::from_seconds(-seconds)))
    };
    let recent = ago(10).create_queued_plan("recent");
    let oldest = ago(3000).create_queued_plan("oldest");
    let old = ago(200).create_queued_plan("old");
    let executed = ago(100).create_strategized_plan("to be executed");
    let judgement = fixture
        .client()
        .judge_rules(executed, plan::invariant::Gate::Execute);
    ago(100).must_submit(executed, Command::from(ExecutePlan { judgement }));
    let asks = NewPlan {
        profile: Some((Profile::Manual, ProfileSource::Flag)),
        ..samples::plan_for_goal(fixture.ids.next_plan_id(), "ask first")
    };
    let asking = ago(1000).add_plan(asks);
    let store = fixture.open();
    let waiting = |phase| due(store.as_ref(), phase);
    assert_eq!(waiting(Phase::Strategize), [oldest, old, recent]);
    assert_eq!(waiting(Phase::Execute), [executed]);
    assert!(waiting(Phase::Apply).is_empty());
    let mut behind = None;
    for expected in [oldest, old, recent] {
        let page = store.list_due_plans(Phase::Strategize, behind, 1).unwrap();
        assert_eq!(
            page.iter().map(|due| due.plan_id).collect::<Vec<_>>(),
            [expected]
        );
        behind = page.last().copied();
    }
    assert!(
        store
            .list_due_plans(Phase::Strategize, behind, 1)
            .unwrap()
            .is_empty()
    );

    // The same in one call.
    let latest = || store.read_latest_cursor().unwrap();
    let (before, queues, after) = (latest(), store.read_due_queues(2).unwrap(), latest());
    // Transactions of other databases may still hold events back, and end meanwhile.
    assert!((before..=after).contains(&queues.latest_cursor));
    let first = [Phase::Apply, Phase::Execute, Phase::Strategize]
        .map(|phase| (phase, store.list_due_plans(phase, None, 2).unwrap()));
    assert_eq!(queues.queues, first);

    // A plan that only needs to change its phase is due, but cannot be claimed.
    let to_move = ago(500).create_strategized_plan("to be moved");
    assert_eq!(waiting(Phase::Strategize), [oldest, to_move, old, recent]);
    let claimable = |behind, limit| {
        let page = store
            .list_claimable_plans(Phase::Strategize, behind, limit)
            .unwrap();
        (
            page.iter().map(|due| due.plan_id).collect::<Vec<_>>(),
            page.last().copied(),
        )
    };
    let (first, behind) = claimable(None, 2);
    assert_eq!(first, [oldest, old]);
    assert_eq!(claimable(behind, 2).0, [recent]);
    let gone_on = fixture.client();
    let judgement = gone_on.judge_rules(to_move, plan::invariant::Gate::Execute);
    gone_on.must_submit(to_move, Command::from(ExecutePlan { judgement }));
    assert_eq!(waiting(Phase::Execute), [executed, to_move]);

    let client = fixture.client();
    let epoch = client.claim_phase(oldest, LONG_LEASE);
    assert_eq!(waiting(Phase::Strategize), [old, recent]);
    // A release restarts the waiting time. A phase that a person started once needs no second
    // start.
    client.must_submit(oldest, Command::from(ReleaseLease { epoch }));
    assert_eq!(waiting(Phase::Strategize), [old, recent, oldest]);
    let epoch = client.claim_phase(asking, LONG_LEASE);
    client.must_submit(asking, Command::from(ReleaseLease { epoch }));
    assert_eq!(waiting(Phase::Strategize), [old, recent, oldest, asking]);
}

fn a_retry_is_not_due_before_its_time(fixture: &StoreFixture) {
    let now = fixture.open().now().unwrap();
    let failed_at = |moment: Timestamp| {
        let client = fixture.client().with_decision_time(moment);
        let plan = client.create_queued_plan("stumble");
        let epoch = client.claim_phase(plan, LONG_LEASE);
        let (category, message) = (FailureCategory::Transient, "no network".to_owned());
        client.must_submit(
            plan,
            Command::from(FailRun {
                epoch,
                category,
                message,
            }),
        );
        plan
    };
    let ahead = failed_at(now.saturating_add(Span::from_seconds(3600)));
    let passed = failed_at(now.saturating_add(Span::from_seconds(-3600)));
    let client = fixture.client();
    assert_eq!(due(client.store(), Phase::Strategize), [passed]);
    let early = client.as_worker("eager");
    let answer = early.submit_for_plan(
        ahead,
        early.start_command(ahead, Phase::Strategize, LONG_LEASE),
    );
    assert!(
        matches!(answer, Err(CommitError::Refused(Refusal::NotDue { .. }))),
        "{answer:?}"
    );
    early.claim_phase(passed, LONG_LEASE);
}

fn actions_are_listed_by_the_bytes_of_their_names(fixture: &StoreFixture) {
    let client = fixture.client();
    let mut names = [
        "b",
        "a-b",
        "a.b",
        "a_b",
        "ab",
        "a0",
        "acme/b",
        "z/a",
        "lo/cal",
        "local-x/a",
    ]
    .map(samples::parse_name);
    for name in &names {
        client.add_action(plan::action::ActionDefinition {
            name: name.clone(),
            ..samples::reusable_action("any")
        });
    }
    names.sort_unstable();
    let store = fixture.open();
    let mut listed: Vec<plan::QualifiedName> = Vec::new();
    loop {
        let page = store.list_actions(listed.last(), 3).unwrap();
        if page.is_empty() {
            break;
        }
        listed.extend(page.iter().map(|action| action.name().clone()));
    }
    assert_eq!(listed, names);
}

/// Limits are clamped to the range 1 to 1000.
fn page_limits_are_clamped(fixture: &StoreFixture) {
    let client = fixture.client();
    let plan = client.create_queued_plan("one");
    client.create_queued_plan("two");
    client.claim_phase(plan, EXPIRED_LEASE);
    client.add_action(samples::reusable_action("one"));
    client.add_action(samples::reusable_action("two"));
    let store = client.store();
    for (limit, most) in [(0, 1), (1, 1), (usize::MAX, 1000)] {
        let counts = [
            store
                .list_plans(&PlanFilter::default(), None, limit)
                .unwrap()
                .len(),
            store.find_plan_ids("0", limit).unwrap().len(),
            store
                .list_due_plans(Phase::Strategize, None, limit)
                .unwrap()
                .len(),
            store.list_expired_leases(limit).unwrap().len(),
            store.list_actions(None, limit).unwrap().len(),
            store
                .read_plan_events(plan, plan::PlanVersion(0), limit)
                .unwrap()
                .len(),
            first_events(store, limit),
        ];
        assert!(
            counts.iter().all(|count| (1..=most).contains(count)),
            "{limit}: {counts:?}"
        );
    }
}

/// Returns the number of events on the first page, once there are any. PostgreSQL shows events only
/// when no older transaction is open, and other tests may have some.
fn first_events(store: &dyn Store, limit: usize) -> usize {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let page = store.read_events(&store::Cursor::START, limit).unwrap();
        if !page.events.is_empty() || Instant::now() > deadline {
            return page.events.len();
        }
        store.wait_for_commit(Duration::from_millis(100)).unwrap();
    }
}

/// Returns all plans that match a filter, read in pages.
fn pages(store: &dyn Store, filter: &PlanFilter, limit: usize) -> Vec<PlanRow> {
    let mut rows: Vec<PlanRow> = Vec::new();
    loop {
        let after = rows.last().map(|row| row.plan.id());
        let page = store.list_plans(filter, after, limit).unwrap();
        assert!(page.len() <= limit);
        if page.is_empty() {
            return rows;
        }
        rows.extend(page);
    }
}

/// Also with other filters, an undo of another plan beside it, and a plan that nothing undoes.
fn plans_are_listed_by_the_plan_they_undo(fixture: &StoreFixture) {
    let client = fixture.client();
    let name = samples::parse_name(samples::PROJECT_NAME);
    let resources = samples::sample_project().resources;
    expect_done(client.submit(Command::from(CreateProject {
        name: name.clone(),
        resources,
    })));
    let undo = |landed| {
        let linked = LinkedPlan {
            id: client.ids().next_plan_id(),
            resources: vec![samples::RESOURCE_NAME.to_owned()],
            result: samples::result_content("undo"),
        };
        let id = linked.id;
        expect_done(client.submit_for_plan(landed, Command::from(UndoLanding(linked))));
        id
    };
    let [first, second] = ["one", "two"].map(|goal| client.create_landed_plan(goal));
    let (undo_first, undo_second) = (undo(first), undo(second));
    let list = |filter: PlanFilter| -> Vec<PlanId> {
        let rows = client.store().list_plans(&filter, None, 10).unwrap();
        rows.iter().map(|row| row.plan.id()).collect()
    };
    let of = |origin| PlanFilter {
        origin: Some(origin),
        ..PlanFilter::default()
    };
    assert_eq!(list(of(first)), [undo_first]);
    assert_eq!(list(of(second)), [undo_second]);
    assert_eq!(list(of(undo_first)), []);
    let project = Some(name);
    assert_eq!(
        list(PlanFilter {
            project,
            ..of(first)
        }),
        [undo_first]
    );
    let project = Some("elsewhere".parse().unwrap());
    assert_eq!(
        list(PlanFilter {
            project,
            ..of(first)
        }),
        []
    );
    let phase = Some(Phase::Strategize);
    assert_eq!(list(PlanFilter { phase, ..of(first) }), []);
}
