//! Tests idempotency keys: retries are safe, and only committed receipts are stored.

use plan::command::{ArchiveAction, CancelPlan, CreatePlan, ExecutePlan, ReleaseLease, RemoveRule};
use plan::invariant::{Gate, RuleScope};
use plan::{Command, ReceiptOutcome};
use store::fault::FaultPoint;
use store::{CommitError, PlanFilter};
use testkit::client::{LONG_LEASE, expect_done};
use testkit::{StoreDump, TestClient, samples};

use crate::store_fixture::StoreFixture;

super::on_every_store! {
    the_same_key_returns_the_same_receipt_and_commits_once,
    sixteen_callers_with_one_key_commit_once,
    the_same_key_with_other_arguments_is_a_conflict,
    a_key_belongs_to_a_verb_and_a_plan,
    a_blocked_receipt_is_not_stored,
    a_refusal_or_failure_is_not_stored,
    a_receipt_with_a_lost_response_is_stored,
    an_already_done_receipt_is_stored,
}

/// Creates a plan under a key. Every attempt has its own plan id.
fn use_with_key(
    client: &TestClient,
    key: &str,
    goal: &str,
) -> Result<store::CommitOutcome, CommitError> {
    let new = samples::plan_for_goal(client.ids().next_plan_id(), goal);
    client.submit_with_key(key, goal, None, Command::from(CreatePlan(new)))
}

fn the_same_key_returns_the_same_receipt_and_commits_once(fixture: &StoreFixture) {
    let client = fixture.client();
    let first = expect_done(use_with_key(&client, "k", "once"));
    assert!(!first.is_repeat);
    let before = StoreDump::read_store(client.store());
    for client in [&client, &fixture.client()] {
        let again = use_with_key(client, "k", "once").unwrap();
        assert_eq!(again.receipt, first.receipt);
        assert!(again.is_repeat);
        assert_eq!(again.plan, None);
    }
    StoreDump::read_store(client.store()).assert_same(&before, "after an answer that did nothing");

    // The receipt is that of the commit, even if the plan has advanced since.
    let plan = first.receipt.plan.unwrap();
    client.must_submit(plan, Command::from(CancelPlan { reason: None }));
    assert_eq!(
        use_with_key(&client, "k", "once").unwrap().receipt,
        first.receipt
    );
}

fn sixteen_callers_with_one_key_commit_once(fixture: &StoreFixture) {
    let created = fixture.race(16, |_, client| use_with_key(client, "k", "once").unwrap());
    let news = created.iter().filter(|committed| !committed.is_repeat);
    assert_eq!(news.count(), 1);
    let store = fixture.open();
    let plans = store.list_plans(&PlanFilter::default(), None, 100).unwrap();
    assert_eq!(plans.len(), 1);
    let plan = plans[0].plan.id();
    assert!(
        created
            .iter()
            .all(|committed| committed.receipt == created[0].receipt)
    );
    assert_eq!(created[0].receipt.plan, Some(plan));

    // A claim can be repeated only with its key.
    let claimed = fixture.race(16, |_, client| {
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
    assert_eq!(store.read_plan(plan).unwrap().unwrap().plan.epoch().0, 1);
}

fn the_same_key_with_other_arguments_is_a_conflict(fixture: &StoreFixture) {
    let client = fixture.client();
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

fn a_key_belongs_to_a_verb_and_a_plan(fixture: &StoreFixture) {
    let client = fixture.client();
    let (one, other) = (
        client.create_queued_plan("one"),
        client.create_queued_plan("other"),
    );
    let cancel = |plan| {
        let command = Command::from(CancelPlan { reason: None });
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

fn a_blocked_receipt_is_not_stored(fixture: &StoreFixture) {
    let client = fixture.client();
    let plan = client.create_strategized_plan("be blocked first");
    let (scope, rule) = (
        RuleScope::Plan(plan),
        samples::rule_draft("never", "false", &[Gate::Execute]),
    );
    client.add_rule(scope.clone(), rule.clone());
    let go_on = || {
        let judgement = client.judge_rules(plan, Gate::Execute);
        client.submit_with_key(
            "k",
            "",
            Some(plan),
            Command::from(ExecutePlan { judgement }),
        )
    };
    for _ in 0..2 {
        let blocked = go_on().unwrap();
        assert!(matches!(
            blocked.receipt.outcome,
            ReceiptOutcome::Blocked(_)
        ));
        assert!(!blocked.is_repeat, "a gate is judged again");
    }
    expect_done(client.submit(Command::from(RemoveRule {
        scope,
        name: rule.name,
    })));
    let passed = expect_done(go_on());
    assert!(!passed.is_repeat);
    assert_eq!(go_on().unwrap().receipt, passed.receipt);
}

fn a_refusal_or_failure_is_not_stored(fixture: &StoreFixture) {
    let client = fixture.client();
    let plan = client.create_queued_plan("not yet");
    let approve = || {
        client.submit_with_key(
            "k",
            "",
            Some(plan),
            Command::from(CancelPlan { reason: None }),
        )
    };
    fixture.faults.arm(FaultPoint::BeforeCommit);
    let failed = approve();
    fixture.faults.disarm();
    assert!(matches!(failed, Err(CommitError::Failed(_))), "{failed:?}");
    assert!(!expect_done(approve()).is_repeat);

    let name = samples::parse_name("later");
    let archive = || {
        let command = Command::from(ArchiveAction(name.clone()));
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

fn a_receipt_with_a_lost_response_is_stored(fixture: &StoreFixture) {
    let client = fixture.client();
    fixture.faults.arm(FaultPoint::AfterCommit);
    let first = use_with_key(&client, "k", "once");
    fixture.faults.disarm();
    let again = use_with_key(&client, "k", "once").unwrap();
    assert!(again.is_repeat);
    assert_eq!(again.receipt, expect_done(first).receipt);
}

fn an_already_done_receipt_is_stored(fixture: &StoreFixture) {
    let client = fixture.client();
    let plan = client.create_queued_plan("be released");
    let epoch = client.claim_phase(plan, LONG_LEASE);
    client.must_submit(plan, Command::from(ReleaseLease { epoch }));
    let release = |arguments| {
        let command = Command::from(ReleaseLease { epoch });
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
