//! Idempotency keys: repeating is safe, and only what was committed is remembered.

use plan::invariant::{Gate, RuleScope};
use plan::{Command, ReceiptOutcome};
use store::fault::FaultPoint;
use store::{CommitError, PlanFilter};
use testkit::client::{LONG_LEASE, expect_done};
use testkit::{StoreDump, TestClient, samples};

use crate::bench::Bench;

super::on_every_store! {
    the_same_key_gives_the_same_receipt_and_nothing_is_done_twice,
    sixteen_callers_with_one_key_do_it_once,
    the_same_key_with_other_arguments_is_a_conflict,
    a_key_belongs_to_a_verb_and_a_plan,
    a_blocked_answer_is_not_remembered,
    a_refused_or_failed_answer_is_not_remembered,
    an_answer_that_was_lost_is_remembered,
    an_answer_that_it_was_done_before_is_remembered,
}

/// Uses a goal under a key, with an id of its own as every try has.
fn use_with_key(
    client: &TestClient,
    key: &str,
    goal: &str,
) -> Result<store::CommitOutcome, CommitError> {
    let new = samples::plan_for_goal(client.ids().next_plan_id(), goal);
    client.submit_with_key(key, goal, None, Command::Use(new))
}

fn the_same_key_gives_the_same_receipt_and_nothing_is_done_twice(bench: &Bench) {
    let client = bench.client();
    let first = expect_done(use_with_key(&client, "k", "once"));
    assert!(!first.is_repeat);
    let before = StoreDump::read_store(client.store());
    for client in [&client, &bench.client()] {
        let again = use_with_key(client, "k", "once").unwrap();
        assert_eq!(again.receipt, first.receipt);
        assert!(again.is_repeat);
        assert_eq!(again.plan, None);
    }
    StoreDump::read_store(client.store()).assert_same(&before, "after an answer that did nothing");

    // The receipt is that of the commit, even if the plan moved on since.
    let plan = first.receipt.plan.unwrap();
    client.must_submit(plan, Command::Cancel { reason: None });
    assert_eq!(
        use_with_key(&client, "k", "once").unwrap().receipt,
        first.receipt
    );
}

fn sixteen_callers_with_one_key_do_it_once(bench: &Bench) {
    let created = bench.race(16, |_, client| use_with_key(client, "k", "once").unwrap());
    let news = created.iter().filter(|committed| !committed.is_repeat);
    assert_eq!(news.count(), 1);
    let store = bench.open();
    let plans = store.list_plans(&PlanFilter::default(), None, 100).unwrap();
    assert_eq!(plans.len(), 1);
    let plan = plans[0].plan.id;
    assert!(
        created
            .iter()
            .all(|committed| committed.receipt == created[0].receipt)
    );
    assert_eq!(created[0].receipt.plan, Some(plan));

    // A claim may be repeated by its key only.
    let claimed = bench.race(16, |_, client| {
        let start =
            client
                .as_person("ada")
                .start_command(plan, plan::Phase::Strategize, LONG_LEASE);
        client
            .submit_with_key("claim", "as ada", Some(plan), start)
            .unwrap()
    });
    assert!(
        claimed
            .iter()
            .all(|committed| committed.receipt == claimed[0].receipt)
    );
    assert_eq!(store.read_plan(plan).unwrap().unwrap().plan.epoch.0, 1);
}

fn the_same_key_with_other_arguments_is_a_conflict(bench: &Bench) {
    let client = bench.client();
    expect_done(use_with_key(&client, "k", "one thing"));
    let before = StoreDump::read_store(client.store());
    let other = use_with_key(&client, "k", "another thing");
    match other {
        Err(CommitError::KeyReused { key }) => assert_eq!(key, "k"),
        other => panic!("{other:?}"),
    }
    StoreDump::read_store(client.store()).assert_same(&before, "after an answer that did nothing");
    expect_done(use_with_key(&client, "k2", "another thing"));
}

fn a_key_belongs_to_a_verb_and_a_plan(bench: &Bench) {
    let client = bench.client();
    let (one, other) = (
        client.create_queued_plan("one"),
        client.create_queued_plan("other"),
    );
    let cancel = |plan| {
        let command = Command::Cancel { reason: None };
        client
            .submit_with_key("k", "", Some(plan), command)
            .unwrap()
    };
    let start = client.start_command(one, plan::Phase::Strategize, LONG_LEASE);
    let started = client.submit_with_key("k", "", Some(one), start).unwrap();
    let answers = [started, cancel(one), cancel(other)];
    assert!(answers.iter().all(|committed| !committed.is_repeat));
    assert!(cancel(other).is_repeat);
}

fn a_blocked_answer_is_not_remembered(bench: &Bench) {
    let client = bench.client();
    let plan = client.create_strategized_plan("be blocked first");
    let (scope, rule) = (
        RuleScope::Plan(plan),
        samples::rule_draft("never", "false", &[Gate::Execute]),
    );
    client.add_rule(scope.clone(), rule.clone());
    let go_on = || {
        let judgement = client.judge_rules(plan, Gate::Execute);
        client.submit_with_key("k", "", Some(plan), Command::ExecutePlan { judgement })
    };
    for _ in 0..2 {
        let blocked = go_on().unwrap();
        assert!(matches!(
            blocked.receipt.outcome,
            ReceiptOutcome::Blocked(_)
        ));
        assert!(!blocked.is_repeat, "a gate is judged again");
    }
    expect_done(client.submit(Command::RemoveRule {
        scope,
        name: rule.name,
    }));
    let passed = expect_done(go_on());
    assert!(!passed.is_repeat);
    assert_eq!(go_on().unwrap().receipt, passed.receipt);
}

fn a_refused_or_failed_answer_is_not_remembered(bench: &Bench) {
    let client = bench.client();
    let plan = client.create_queued_plan("not yet");
    let approve = || client.submit_with_key("k", "", Some(plan), Command::Cancel { reason: None });
    bench.faults.arm(FaultPoint::BeforeCommit);
    let failed = approve();
    bench.faults.disarm();
    assert!(matches!(failed, Err(CommitError::Failed(_))), "{failed:?}");
    assert!(!expect_done(approve()).is_repeat);

    let name = samples::parse_name("later");
    let archive = || {
        let command = Command::ArchiveAction(name.clone());
        client.submit_with_key("k", "", None, command)
    };
    let refused = archive();
    assert!(
        matches!(refused, Err(CommitError::Refused(_))),
        "{refused:?}"
    );
    client.add_action(samples::reusable_action("later"));
    assert!(!expect_done(archive()).is_repeat);
}

fn an_answer_that_was_lost_is_remembered(bench: &Bench) {
    let client = bench.client();
    bench.faults.arm(FaultPoint::AfterCommit);
    let first = use_with_key(&client, "k", "once");
    bench.faults.disarm();
    let again = use_with_key(&client, "k", "once").unwrap();
    assert!(again.is_repeat);
    assert_eq!(again.receipt, expect_done(first).receipt);
}

fn an_answer_that_it_was_done_before_is_remembered(bench: &Bench) {
    let client = bench.client();
    let plan = client.create_queued_plan("be released");
    let epoch = client.claim_phase(plan, LONG_LEASE);
    client.must_submit(plan, Command::Release { epoch });
    let release = |arguments| {
        let command = Command::Release { epoch };
        client.submit_with_key("k", arguments, Some(plan), command)
    };
    let first = release("").unwrap();
    assert_eq!(first.receipt.outcome, ReceiptOutcome::AlreadyDone);
    let again = release("").unwrap();
    assert_eq!((again.receipt, again.is_repeat), (first.receipt, true));
    let other = release("other");
    assert!(
        matches!(other, Err(CommitError::KeyReused { .. })),
        "{other:?}"
    );
}
