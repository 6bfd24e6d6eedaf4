//! Idempotency keys: repeating is safe, and only what was committed is remembered.

use plan::invariant::{Gate, Scope};
use plan::{Command, Outcome};
use store::fault::FaultPoint;
use store::{CommitError, PlanFilter};
use testkit::client::{LONG, done};
use testkit::{Client, Dump, samples};

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
fn use_with_key(client: &Client, key: &str, goal: &str) -> Result<store::Committed, CommitError> {
    let new = samples::goal(client.ids().plan(), goal);
    client.with_key(key, goal, None, Command::Use(new))
}

fn the_same_key_gives_the_same_receipt_and_nothing_is_done_twice(bench: &Bench) {
    let client = bench.client();
    let first = done(use_with_key(&client, "k", "once"));
    assert!(!first.remembered);
    let before = Dump::of(client.store());
    for client in [&client, &bench.client()] {
        let again = use_with_key(client, "k", "once").unwrap();
        assert_eq!(again.receipt, first.receipt);
        assert!(again.remembered);
        assert_eq!(again.plan, None);
    }
    Dump::of(client.store()).assert_same(&before, "after an answer that did nothing");

    // The receipt is that of the commit, even if the plan moved on since.
    let plan = first.receipt.plan.unwrap();
    client.must(plan, Command::Cancel { reason: None });
    assert_eq!(
        use_with_key(&client, "k", "once").unwrap().receipt,
        first.receipt
    );
}

fn sixteen_callers_with_one_key_do_it_once(bench: &Bench) {
    let created = bench.race(16, |_, client| use_with_key(client, "k", "once").unwrap());
    let news = created.iter().filter(|committed| !committed.remembered);
    assert_eq!(news.count(), 1);
    let store = bench.open();
    let plans = store.plans(&PlanFilter::default(), None, 100).unwrap();
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
        let start = client
            .person("ada")
            .start(plan, plan::Phase::Strategize, LONG);
        client
            .with_key("claim", "as ada", Some(plan), start)
            .unwrap()
    });
    assert!(
        claimed
            .iter()
            .all(|committed| committed.receipt == claimed[0].receipt)
    );
    assert_eq!(store.plan(plan).unwrap().unwrap().plan.epoch.0, 1);
}

fn the_same_key_with_other_arguments_is_a_conflict(bench: &Bench) {
    let client = bench.client();
    done(use_with_key(&client, "k", "one thing"));
    let before = Dump::of(client.store());
    let other = use_with_key(&client, "k", "another thing");
    match other {
        Err(CommitError::KeyReused { key }) => assert_eq!(key, "k"),
        other => panic!("{other:?}"),
    }
    Dump::of(client.store()).assert_same(&before, "after an answer that did nothing");
    done(use_with_key(&client, "k2", "another thing"));
}

fn a_key_belongs_to_a_verb_and_a_plan(bench: &Bench) {
    let client = bench.client();
    let (one, other) = (client.queued("one"), client.queued("other"));
    let cancel = |plan| {
        let command = Command::Cancel { reason: None };
        client.with_key("k", "", Some(plan), command).unwrap()
    };
    let start = client.start(one, plan::Phase::Strategize, LONG);
    let started = client.with_key("k", "", Some(one), start).unwrap();
    let answers = [started, cancel(one), cancel(other)];
    assert!(answers.iter().all(|committed| !committed.remembered));
    assert!(cancel(other).remembered);
}

fn a_blocked_answer_is_not_remembered(bench: &Bench) {
    let client = bench.client();
    let plan = client.strategized("be blocked first");
    let (scope, rule) = (
        Scope::Plan(plan),
        samples::rule("never", "false", &[Gate::Execute]),
    );
    client.add_rule(scope.clone(), rule.clone());
    let go_on = || {
        let judgement = client.judge(plan, Gate::Execute);
        client.with_key("k", "", Some(plan), Command::ExecutePlan { judgement })
    };
    for _ in 0..2 {
        let blocked = go_on().unwrap();
        assert!(matches!(blocked.receipt.outcome, Outcome::Blocked(_)));
        assert!(!blocked.remembered, "a gate is judged again");
    }
    done(client.submit(Command::RemoveRule {
        scope,
        name: rule.name,
    }));
    let passed = done(go_on());
    assert!(!passed.remembered);
    assert_eq!(go_on().unwrap().receipt, passed.receipt);
}

fn a_refused_or_failed_answer_is_not_remembered(bench: &Bench) {
    let client = bench.client();
    let plan = client.queued("not yet");
    let approve = || client.with_key("k", "", Some(plan), Command::Cancel { reason: None });
    bench.faults.arm(FaultPoint::BeforeCommit);
    let failed = approve();
    bench.faults.disarm();
    assert!(matches!(failed, Err(CommitError::Failed(_))), "{failed:?}");
    assert!(!done(approve()).remembered);

    let name = samples::name("later");
    let archive = || {
        let command = Command::ArchiveAction(name.clone());
        client.with_key("k", "", None, command)
    };
    let refused = archive();
    assert!(
        matches!(refused, Err(CommitError::Refused(_))),
        "{refused:?}"
    );
    client.add_action(samples::action("later"));
    assert!(!done(archive()).remembered);
}

fn an_answer_that_was_lost_is_remembered(bench: &Bench) {
    let client = bench.client();
    bench.faults.arm(FaultPoint::AfterCommit);
    let first = use_with_key(&client, "k", "once");
    bench.faults.disarm();
    let again = use_with_key(&client, "k", "once").unwrap();
    assert!(again.remembered);
    assert_eq!(again.receipt, done(first).receipt);
}

fn an_answer_that_it_was_done_before_is_remembered(bench: &Bench) {
    let client = bench.client();
    let plan = client.queued("be released");
    let epoch = client.claim(plan, LONG);
    client.must(plan, Command::Release { epoch });
    let release = |arguments| {
        let command = Command::Release { epoch };
        client.with_key("k", arguments, Some(plan), command)
    };
    let first = release("").unwrap();
    assert_eq!(first.receipt.outcome, Outcome::AlreadyDone);
    let again = release("").unwrap();
    assert_eq!((again.receipt, again.remembered), (first.receipt, true));
    let other = release("other");
    assert!(
        matches!(other, Err(CommitError::KeyReused { .. })),
        "{other:?}"
    );
}
