//! G2: a transition happens at most once. Of racing callers one wins, and the others learn which.

use plan::command::{
    AddRule, ArchiveAction, CancelPlan, CompleteStrategize, CreateAction, CreatePlan, ExecutePlan,
    ReleaseLease,
};
use plan::invariant::{Gate, RuleScope};
use plan::{Caller, Command, Epoch, Event, Phase, PlanId, PlanVersion, ReceiptOutcome, Refusal};
use store::verify::verify_store;
use store::{CommitError, CommitOutcome, Store};
use testkit::client::LONG_LEASE;
use testkit::dump::read_all_events;
use testkit::{StoreDump, samples};

use crate::store_fixture::{StoreFixture, commit_while};

super::on_every_store! {
    of_sixteen_claims_one_wins_and_the_others_learn_who,
    of_sixteen_forward_moves_one_wins_and_the_others_learn_who,
    of_sixteen_results_of_one_holder_one_is_taken,
    an_unrelated_commit_leads_to_a_new_decision_not_to_a_refusal,
    a_plan_that_was_read_is_locked_until_the_commit,
    a_refusal_writes_nothing,
    a_plan_is_created_once,
}

const RACERS: usize = 16;

fn of_sixteen_claims_one_wins_and_the_others_learn_who(fixture: &StoreFixture) {
    let client = fixture.client();
    let queued = client.create_queued_plan("be claimed");
    let strategized = client.create_strategized_plan("be claimed");
    let judgement = client.judge_rules(strategized, Gate::Execute);
    client.must_submit(strategized, Command::from(ExecutePlan { judgement }));
    for (plan, phase) in [(queued, Phase::Strategize), (strategized, Phase::Execute)] {
        let answers = fixture.race(RACERS, |_, racer| {
            racer.submit_for_plan(plan, racer.start_command(plan, phase, LONG_LEASE))
        });
        let winner = only_winner(&answers);
        let owner = format!("w{winner}");
        for answer in others(&answers, winner) {
            let Err(CommitError::Refused(Refusal::Held { holder, .. })) = answer else {
                panic!("unexpected answer for a loser: {answer:?}");
            };
            assert_eq!(holder.owner, owner);
        }
        let row = client.store().read_plan(plan).unwrap().unwrap();
        assert_eq!(row.plan.stage().holder().unwrap().owner, owner);
        assert_eq!(row.lease.unwrap().owner, owner);
        let claims = count(
            client.store(),
            plan,
            |event| matches!(event, Event::Claimed { phase: claimed, .. } if *claimed == phase),
        );
        assert_eq!(claims, 1);
    }
}

fn of_sixteen_forward_moves_one_wins_and_the_others_learn_who(fixture: &StoreFixture) {
    let client = fixture.client();
    let plan = client.create_strategized_plan("go on");
    let judgement = client.judge_rules(plan, Gate::Execute);
    let answers = fixture.race(RACERS, |_, racer| {
        let judgement = judgement.clone();
        racer.submit_for_plan(plan, Command::from(ExecutePlan { judgement }))
    });
    let winner = only_winner(&answers);
    for answer in others(&answers, winner) {
        let Err(CommitError::Refused(Refusal::WrongState { done, .. })) = answer else {
            panic!("unexpected answer for a loser: {answer:?}");
        };
        let by = done.as_ref().map(|done| done.by.clone());
        assert_eq!(by, Some(Caller::Worker(format!("w{winner}"))));
    }
    assert_eq!(client.load_plan(plan).entry_number(Phase::Execute), 1);
}

fn of_sixteen_results_of_one_holder_one_is_taken(fixture: &StoreFixture) {
    let client = fixture.client();
    let plan = client.create_queued_plan("be done once");
    let epoch = client.claim_phase(plan, LONG_LEASE);
    let answers = fixture.race(RACERS, |_, racer| {
        let decisions = Vec::new();
        racer.submit_for_plan(plan, Command::from(CompleteStrategize { epoch, decisions }))
    });
    let winner = only_winner(&answers);
    for answer in others(&answers, winner) {
        let outcome = &answer.as_ref().unwrap().receipt.outcome;
        assert_eq!(*outcome, ReceiptOutcome::AlreadyDone);
    }
    let taken = |event: &Event| matches!(event, Event::StrategizeCompleted { .. });
    assert_eq!(count(client.store(), plan, taken), 1);
}

fn an_unrelated_commit_leads_to_a_new_decision_not_to_a_refusal(fixture: &StoreFixture) {
    let client = fixture.client();
    let plan = client.create_executed_plan("be signed often");
    let before = client.load_plan(plan).version().0;
    let mut versions: Vec<PlanVersion> = fixture
        .race(8, |number, racer| {
            let racer = racer.as_person(&format!("p{number}"));
            let sign = |_| {
                racer
                    .must_submit(plan, testkit::samples::approve_command())
                    .receipt
                    .version
                    .unwrap()
            };
            (0..5).map(sign).collect::<Vec<_>>()
        })
        .concat();
    versions.sort_unstable();
    let expected: Vec<PlanVersion> = (before + 1..=before + 40).map(PlanVersion).collect();
    assert_eq!(
        versions, expected,
        "every commit is one version, none is shared"
    );
}

/// Nobody changes a plan while a decision about it runs. If the store cannot prevent that, it
/// decides again.
fn a_plan_that_was_read_is_locked_until_the_commit(fixture: &StoreFixture) {
    let client = fixture.client();
    let plan = client.create_queued_plan("be claimed and cancelled at once");
    let start = client.start_command(plan, Phase::Strategize, LONG_LEASE);
    let submission = client.build_submission(Some(plan), start);
    let other = fixture.client();
    let cancel = move || drop(other.must_submit(plan, Command::from(CancelPlan { reason: None })));
    let (answer, cancelled) = commit_while(&client, submission, cancel);
    match answer {
        Err(CommitError::Refused(Refusal::Final { .. })) if cancelled => {}
        Ok(_) if !cancelled => {}
        other => panic!("cancelled: {cancelled}, and yet {other:?}"),
    }
    let row = client.store().read_plan(plan).unwrap().unwrap();
    assert!(row.plan.stage().is_final());
    assert_eq!(row.lease, None);
    assert_eq!(
        verify_store(client.store()).unwrap().problems,
        Vec::<String>::new()
    );
}

fn a_refusal_writes_nothing(fixture: &StoreFixture) {
    let client = fixture.client();
    let action = client.add_action(samples::reusable_action("tidy"));
    client.add_rule(
        RuleScope::Global,
        samples::rule_draft("fine", "true", &Gate::ALL),
    );
    let queued = client.create_queued_plan("wait");
    let (working, epoch) = client.create_executing_plan("work", LONG_LEASE);
    let landed = client.create_landed_plan("land");
    let before = StoreDump::read_store(client.store());

    let missing_plan = client.ids().next_plan_id();
    let refused = [
        client.submit(Command::from(CreateAction(samples::reusable_action(
            "tidy",
        )))),
        client.submit(Command::from(ArchiveAction(samples::parse_name("nothing")))),
        client.submit(Command::from(AddRule {
            scope: RuleScope::Global,
            draft: samples::rule_draft("fine", "false", &Gate::ALL),
        })),
        client.submit(Command::from(AddRule {
            scope: RuleScope::Plan(missing_plan),
            draft: samples::rule_draft("new", "true", &Gate::ALL),
        })),
        client.submit(Command::from(CreatePlan(plan::command::NewPlan {
            arguments: vec![("unknown".to_owned(), "1".to_owned())],
            ..samples::plan_of_action(client.ids().next_plan_id(), &action)
        }))),
        client.submit(Command::from(CreatePlan(samples::plan_for_goal(
            client.ids().next_plan_id(),
            " ",
        )))),
        client.submit_for_plan(missing_plan, Command::from(CancelPlan { reason: None })),
        client.submit_for_plan(queued, testkit::samples::approve_command()),
        client.submit_for_plan(
            working,
            client
                .as_worker("late")
                .start_command(working, Phase::Execute, LONG_LEASE),
        ),
        client.submit_for_plan(
            working,
            Command::from(ReleaseLease {
                epoch: Epoch(epoch.0 + 1),
            }),
        ),
        client.submit_for_plan(landed, Command::from(CancelPlan { reason: None })),
    ];
    for (number, answer) in refused.iter().enumerate() {
        assert!(
            matches!(answer, Err(CommitError::Refused(_))),
            "{number}: {answer:?}"
        );
    }
    StoreDump::read_store(fixture.open().as_ref()).assert_same(&before, "after refusals");
}

/// The caller chooses the id of a new plan; a second plan with that id must not appear.
fn a_plan_is_created_once(fixture: &StoreFixture) {
    let client = fixture.client();
    let id = client.create_queued_plan("first");
    let before = StoreDump::read_store(client.store());
    let again = client.submit(Command::from(CreatePlan(samples::plan_for_goal(
        id, "second",
    ))));
    assert!(matches!(again, Err(CommitError::Failed(_))), "{again:?}");
    StoreDump::read_store(client.store()).assert_same(&before, "after refusals");
}

/// Returns the caller whose command succeeded.
fn only_winner(answers: &[Result<CommitOutcome, CommitError>]) -> usize {
    let done = |answer: &Result<CommitOutcome, CommitError>| matches!(answer, Ok(committed) if committed.receipt.outcome == ReceiptOutcome::Done);
    let winners: Vec<usize> = (0..answers.len())
        .filter(|&one| done(&answers[one]))
        .collect();
    let [winner] = winners[..] else {
        panic!("{} won: {answers:?}", winners.len());
    };
    winner
}

fn others<T>(answers: &[T], winner: usize) -> impl Iterator<Item = &T> {
    let lost = move |(number, answer)| (number != winner).then_some(answer);
    answers.iter().enumerate().filter_map(lost)
}

fn count(store: &dyn Store, plan: PlanId, wanted: impl Fn(&Event) -> bool) -> usize {
    read_all_events(store, plan)
        .iter()
        .filter(|stored| wanted(&stored.recorded.event))
        .count()
}
