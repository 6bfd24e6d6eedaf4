//! Tests rules: each change of a scope is a revision, and no gate opens on outdated rules.

use std::sync::atomic::{AtomicBool, Ordering};

use plan::command::{AddRule, CompleteExecute, KeepEvidence, ReleaseLease, RemoveRule, ReviseWork};
use plan::invariant::{Gate, RuleDraft, RuleScope};
use plan::ledger::BudgetAmount;
use plan::{Command, Digest, Phase, ReceiptOutcome, Refusal};
use store::CommitError;
use testkit::client::{LONG_LEASE, expect_done};
use testkit::samples;

use crate::store_fixture::{StoreFixture, commit_while};

super::on_every_store! {
    every_change_of_a_scope_is_a_revision,
    a_scope_without_rules_keeps_its_revision,
    the_rules_of_a_plan_are_those_of_its_scopes,
    of_sixteen_rules_with_one_name_one_is_added,
    parallel_changes_of_a_scope_each_get_a_revision,
    a_judgement_made_stale_by_a_change_is_refused,
    no_gate_opens_after_a_rule_that_forbids_it_was_added,
    rules_that_were_read_are_locked_until_the_commit,
    evidence_is_that_of_the_current_entry,
    evidence_is_stored_per_subject,
}

fn add(scope: &RuleScope, name: &str, holds: &str) -> Command {
    Command::from(AddRule {
        scope: scope.clone(),
        draft: samples::rule_draft(name, holds, &Gate::ALL),
    })
}

fn remove(scope: &RuleScope, name: &str) -> Command {
    Command::from(RemoveRule {
        scope: scope.clone(),
        name: name.parse().unwrap(),
    })
}

fn every_change_of_a_scope_is_a_revision(fixture: &StoreFixture) {
    let client = fixture.client();
    let action = client.add_action(samples::reusable_action("tidy"));
    let plan = client.create_queued_plan("be ruled");
    for scope in [
        RuleScope::Global,
        RuleScope::Action(action),
        RuleScope::Plan(plan),
    ] {
        let store = fixture.open();
        let revision = || {
            store
                .read_rules(std::slice::from_ref(&scope))
                .unwrap()
                .revision(&scope)
        };
        assert_eq!(revision(), 0);
        expect_done(client.submit(add(&scope, "one", "true")));
        expect_done(client.submit(add(&scope, "two", "true")));
        assert_eq!(revision(), 2);
        let again = client.submit(add(&scope, "one", "false"));
        assert!(
            matches!(again, Err(CommitError::Refused(Refusal::RuleExists { .. }))),
            "{again:?}"
        );
        expect_done(client.submit(remove(&scope, "one")));
        assert_eq!(revision(), 3);
        let gone = client.submit(remove(&scope, "one"));
        assert!(
            matches!(gone, Err(CommitError::Refused(Refusal::NoSuchRule { .. }))),
            "{gone:?}"
        );
        expect_done(client.submit(add(&scope, "one", "false")));
        let book = store.read_rules(std::slice::from_ref(&scope)).unwrap();
        assert_eq!(book.revision(&scope), 4);
        let wordings: Vec<_> = ["one", "two"]
            .map(|name| book.find_rule(&scope, &name.parse().unwrap()).unwrap())
            .map(|rule| (rule.revision, rule.draft.check.source().to_owned()))
            .into();
        assert_eq!(wordings, [(4, "false".to_owned()), (2, "true".to_owned())]);
    }
    let all = fixture.open().read_rules(&[]).unwrap();
    assert_eq!((all.rules.len(), all.revisions.len()), (6, 3));
}

/// Otherwise an earlier judgement would count as current.
fn a_scope_without_rules_keeps_its_revision(fixture: &StoreFixture) {
    let client = fixture.client();
    let plan = client.create_queued_plan("judged on an empty book");
    let before = client.start_command(plan, Phase::Strategize, LONG_LEASE);
    expect_done(client.submit(add(&RuleScope::Global, "one", "false")));
    expect_done(client.submit(remove(&RuleScope::Global, "one")));
    let book = fixture.open().read_rules(&[RuleScope::Global]).unwrap();
    assert_eq!(
        (book.rules.len(), book.revision(&RuleScope::Global)),
        (0, 2)
    );
    let answer = client.submit_for_plan(plan, before);
    assert!(
        matches!(
            answer,
            Err(CommitError::Refused(Refusal::JudgementStale { .. }))
        ),
        "{answer:?}"
    );
    client.claim_phase(plan, LONG_LEASE);
}

fn the_rules_of_a_plan_are_those_of_its_scopes(fixture: &StoreFixture) {
    let client = fixture.client();
    let hard = RuleDraft {
        non_overridable: true,
        ..samples::rule_draft("hard", "global", &Gate::ALL)
    };
    client.add_rule(
        RuleScope::Global,
        samples::rule_draft("soft", "global", &Gate::ALL),
    );
    client.add_rule(RuleScope::Global, hard);
    let action = client.add_action(plan::action::ActionDefinition {
        invariants: vec![samples::rule_draft("soft", "action", &Gate::ALL)],
        ..samples::reusable_action("tidy")
    });
    let other = client.add_action(plan::action::ActionDefinition {
        invariants: vec![samples::rule_draft("not-ours", "other", &Gate::ALL)],
        ..samples::reusable_action("other")
    });
    let plan = client.add_plan(samples::plan_of_action(
        client.ids().next_plan_id(),
        &action,
    ));
    client.add_plan(samples::plan_of_action(client.ids().next_plan_id(), &other));
    client.add_rule(
        RuleScope::Plan(plan),
        samples::rule_draft("own", "plan", &Gate::ALL),
    );
    let overruled = client.submit(add(&RuleScope::Plan(plan), "hard", "weaker"));
    assert!(
        matches!(
            overruled,
            Err(CommitError::Refused(Refusal::NonOverridable { .. }))
        ),
        "{overruled:?}"
    );
    let snapshot = fixture.open().read_snapshot(plan).unwrap().unwrap();
    let effective: Vec<(&str, String)> = snapshot
        .rules
        .effective_rules()
        .into_iter()
        .map(|rule| (rule.draft.name.as_str(), rule.draft.check.source()))
        .collect();
    assert_eq!(
        effective,
        [("hard", "global"), ("own", "plan"), ("soft", "action")]
            .map(|(name, source)| (name, source.to_owned()))
    );
    assert_eq!(snapshot.rules.rules.len(), 4);
    assert_eq!(snapshot.action.unwrap().name(), &action);
}

fn of_sixteen_rules_with_one_name_one_is_added(fixture: &StoreFixture) {
    let client = fixture.client();
    let plan = client.create_queued_plan("be ruled");
    for scope in [RuleScope::Global, RuleScope::Plan(plan)] {
        let answers = fixture.race(16, |number, client| {
            let person = client.as_person(&format!("person {number}"));
            person.submit(add(&scope, "one", "true"))
        });
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
        for answer in answers.iter().filter_map(|answer| answer.as_ref().err()) {
            assert!(
                matches!(answer, CommitError::Refused(Refusal::RuleExists { .. })),
                "{answer:?}"
            );
        }
        let book = fixture
            .open()
            .read_rules(std::slice::from_ref(&scope))
            .unwrap();
        assert_eq!((book.rules.len(), book.revision(&scope)), (1, 1));
    }
}

fn parallel_changes_of_a_scope_each_get_a_revision(fixture: &StoreFixture) {
    let names: Vec<String> = (0..8).map(|number| format!("rule-{number}")).collect();
    fixture.race(8, |number, client| {
        let person = client.as_person("ada");
        expect_done(person.submit(add(&RuleScope::Global, &names[number], "true")));
    });
    let book = fixture.open().read_rules(&[RuleScope::Global]).unwrap();
    assert_eq!(
        (book.rules.len(), book.revision(&RuleScope::Global)),
        (8, 8)
    );
    let mut revisions: Vec<u64> = book.rules.iter().map(|rule| rule.revision).collect();
    revisions.sort_unstable();
    assert_eq!(revisions, (1..=8).collect::<Vec<_>>());
}

fn a_judgement_made_stale_by_a_change_is_refused(fixture: &StoreFixture) {
    let client = fixture.client();
    let action = client.add_action(samples::reusable_action("tidy"));
    let plan = client.add_plan(samples::plan_of_action(
        client.ids().next_plan_id(),
        &action,
    ));
    for scope in [
        RuleScope::Global,
        RuleScope::Action(action),
        RuleScope::Plan(plan),
    ] {
        let start = client.start_command(plan, Phase::Strategize, LONG_LEASE);
        expect_done(fixture.client().submit(add(&scope, "late", "true")));
        let before = client.store().read_plan(plan).unwrap();
        let answer = client.submit_for_plan(plan, start);
        let Err(CommitError::Refused(Refusal::JudgementStale { gate })) = answer else {
            panic!("{scope}: {answer:?}");
        };
        assert_eq!(gate, Gate::Strategize);
        assert_eq!(client.store().read_plan(plan).unwrap(), before);
    }
    client.claim_phase(plan, LONG_LEASE);
}

fn no_gate_opens_after_a_rule_that_forbids_it_was_added(fixture: &StoreFixture) {
    let client = fixture.client();
    let plans: Vec<_> = (0..8)
        .map(|_| client.create_queued_plan("race a rule"))
        .collect();
    let added = AtomicBool::new(false);
    fixture.race(plans.len() + 1, |number, client| {
        if number == plans.len() {
            let person = client.as_person("ada");
            expect_done(person.submit(add(&RuleScope::Global, "never", "false")));
            added.store(true, Ordering::SeqCst);
            return;
        }
        let plan = plans[number];
        for _ in 0..6 {
            let start = client.start_command(plan, Phase::Strategize, LONG_LEASE);
            let forbidden = added.load(Ordering::SeqCst);
            match client.submit_for_plan(plan, start) {
                Ok(committed) if committed.receipt.outcome == ReceiptOutcome::Done => {
                    assert!(!forbidden, "a gate opened although a rule forbade it");
                    let epoch = committed.receipt.epoch.unwrap();
                    client.must_submit(plan, Command::from(ReleaseLease { epoch }));
                }
                Ok(blocked) => assert!(matches!(
                    blocked.receipt.outcome,
                    ReceiptOutcome::Blocked(_)
                )),
                Err(CommitError::Refused(Refusal::JudgementStale { .. })) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
    });
}

/// Nobody changes the rules while a decision that read them runs. If the store cannot prevent that,
/// it decides again. This includes a scope without a row that could be locked.
fn rules_that_were_read_are_locked_until_the_commit(fixture: &StoreFixture) {
    let client = fixture.client();
    let action = client.add_action(samples::reusable_action("tidy"));
    let plan = client.add_plan(samples::plan_of_action(
        client.ids().next_plan_id(),
        &action,
    ));
    for scope in [
        RuleScope::Global,
        RuleScope::Action(action),
        RuleScope::Plan(plan),
    ] {
        let (other, rule) = (fixture.client(), add(&scope, "meanwhile", "false"));
        let start = client.start_command(plan, Phase::Strategize, LONG_LEASE);
        let submission = client.build_submission(Some(plan), start);
        let (answer, changed) = commit_while(&client, submission, move || {
            drop(expect_done(other.submit(rule)))
        });
        if changed {
            assert!(
                matches!(
                    answer,
                    Err(CommitError::Refused(Refusal::JudgementStale { .. }))
                ),
                "{scope}: decided on rules that had changed: {answer:?}"
            );
        } else {
            let epoch = expect_done(answer).receipt.epoch.unwrap();
            client.must_submit(plan, Command::from(ReleaseLease { epoch }));
        }
        expect_done(client.submit(remove(&scope, "meanwhile")));
    }
}

fn evidence_is_that_of_the_current_entry(fixture: &StoreFixture) {
    let client = fixture.client();
    client.add_rule(
        RuleScope::Global,
        samples::rule_draft("tests-pass", "true", &[Gate::Result]),
    );
    let plan = client.create_executed_plan("be judged");
    let evidence = || {
        fixture
            .open()
            .read_snapshot(plan)
            .unwrap()
            .unwrap()
            .evidence
    };
    let [first] = &evidence()[..] else {
        panic!("{:?}", evidence());
    };
    assert_eq!(
        (first.plan, first.entry, first.verdict.rule.name.as_str()),
        (plan, 1, "tests-pass")
    );
    let (feedback, dropped) = ("better".to_owned(), Vec::new());
    client.must_submit(
        plan,
        Command::from(ReviseWork {
            feedback,
            comments: Default::default(),
            dropped,
        }),
    );
    assert_eq!(evidence(), [], "a new entry has no result yet");
    let epoch = client.claim_phase(plan, LONG_LEASE);
    let judgement = client.judge_rules(plan, Gate::Result);
    let result = samples::result_content("better");
    client.must_submit(
        plan,
        Command::from(CompleteExecute {
            epoch,
            result,
            captured: Vec::new(),
            allow_empty: false,
            judgement,
        }),
    );
    assert_eq!(
        evidence().iter().map(|one| one.entry).collect::<Vec<_>>(),
        [2]
    );
}

/// Evidence for a merged result does not replace evidence for the result itself.
fn evidence_is_stored_per_subject(fixture: &StoreFixture) {
    let client = fixture.client();
    client.add_rule(
        RuleScope::Global,
        samples::rule_draft("tests-pass", "true", &[Gate::Result]),
    );
    let plan = client.create_executed_plan("be judged twice");
    let evidence = || {
        fixture
            .open()
            .read_snapshot(plan)
            .unwrap()
            .unwrap()
            .evidence
    };
    let [of_the_result] = &evidence()[..] else {
        panic!("{:?}", evidence());
    };
    let mut judgement = client.judge_rules(plan, Gate::Result);
    judgement.subject = Digest::hash_bytes(b"merged");
    let keep = || {
        let judgement = judgement.clone();
        let used = BudgetAmount::default();
        client.must_submit(plan, Command::from(KeepEvidence { judgement, used }));
    };
    keep();
    let both = evidence();
    assert_eq!(both.len(), 2, "{both:?}");
    assert!(both.contains(of_the_result), "{both:?}");
    // Storing it again changes nothing.
    keep();
    assert_eq!(evidence().len(), 2);
}
