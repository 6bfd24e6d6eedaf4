//! G2: a transition happens at most once. Of racing callers one wins, the others learn who did.

use plan::invariant::{Gate, Scope};
use plan::{Caller, Command, Epoch, Event, Outcome, Phase, PlanId, Refusal, Version};
use store::verify::verify;
use store::{CommitError, Committed, Store};
use testkit::client::LONG;
use testkit::dump::all_events;
use testkit::{Dump, samples};

use crate::bench::{Bench, commit_while};

super::on_every_store! {
    of_sixteen_claims_one_wins_and_the_others_learn_who,
    of_sixteen_forward_moves_one_wins_and_the_others_learn_who,
    of_sixteen_results_of_one_holder_one_is_taken,
    an_unrelated_commit_leads_to_a_new_decision_not_to_a_refusal,
    a_plan_that_was_read_is_held_to_the_commit,
    a_refusal_writes_nothing,
    a_plan_is_created_once,
}

const RACERS: usize = 16;

fn of_sixteen_claims_one_wins_and_the_others_learn_who(bench: &Bench) {
    let client = bench.client();
    let queued = client.queued("be claimed");
    let strategized = client.strategized("be claimed");
    let judgement = client.judge(strategized, Gate::Execute);
    client.must(strategized, Command::ExecutePlan { judgement });
    for (plan, phase) in [(queued, Phase::Strategize), (strategized, Phase::Execute)] {
        let answers = bench.race(RACERS, |_, racer| {
            racer.on(plan, racer.start(plan, phase, LONG))
        });
        let winner = only_winner(&answers);
        let owner = format!("w{winner}");
        for answer in others(&answers, winner) {
            let Err(CommitError::Refused(Refusal::Held { holder, .. })) = answer else {
                panic!("a loser was told {answer:?}");
            };
            assert_eq!(holder.owner, owner);
        }
        let row = client.store().plan(plan).unwrap().unwrap();
        assert_eq!(row.plan.stage.holder().unwrap().owner, owner);
        assert_eq!(row.lease.unwrap().owner, owner);
        let claims = count(
            client.store(),
            plan,
            |event| matches!(event, Event::Claimed { phase: claimed, .. } if *claimed == phase),
        );
        assert_eq!(claims, 1);
    }
}

fn of_sixteen_forward_moves_one_wins_and_the_others_learn_who(bench: &Bench) {
    let client = bench.client();
    let plan = client.strategized("go on");
    let judgement = client.judge(plan, Gate::Execute);
    let answers = bench.race(RACERS, |_, racer| {
        let judgement = judgement.clone();
        racer.on(plan, Command::ExecutePlan { judgement })
    });
    let winner = only_winner(&answers);
    for answer in others(&answers, winner) {
        let Err(CommitError::Refused(Refusal::WrongState { done, .. })) = answer else {
            panic!("a loser was told {answer:?}");
        };
        let by = done.as_ref().map(|done| done.by.clone());
        assert_eq!(by, Some(Caller::Worker(format!("w{winner}"))));
    }
    assert_eq!(client.plan(plan).entry(Phase::Execute), 1);
}

fn of_sixteen_results_of_one_holder_one_is_taken(bench: &Bench) {
    let client = bench.client();
    let plan = client.queued("be done once");
    let epoch = client.claim(plan, LONG);
    let answers = bench.race(RACERS, |_, racer| {
        let decisions = Vec::new();
        racer.on(plan, Command::CompleteStrategize { epoch, decisions })
    });
    let winner = only_winner(&answers);
    for answer in others(&answers, winner) {
        let outcome = &answer.as_ref().unwrap().receipt.outcome;
        assert_eq!(*outcome, Outcome::AlreadyDone);
    }
    let taken = |event: &Event| matches!(event, Event::StrategizeCompleted { .. });
    assert_eq!(count(client.store(), plan, taken), 1);
}

fn an_unrelated_commit_leads_to_a_new_decision_not_to_a_refusal(bench: &Bench) {
    let client = bench.client();
    let plan = client.finished("be signed often");
    let before = client.plan(plan).version.0;
    let mut versions: Vec<Version> = bench
        .race(8, |number, racer| {
            let racer = racer.person(&format!("p{number}"));
            let sign = |_| {
                racer
                    .must(plan, testkit::samples::approve())
                    .receipt
                    .version
                    .unwrap()
            };
            (0..5).map(sign).collect::<Vec<_>>()
        })
        .concat();
    versions.sort_unstable();
    let expected: Vec<Version> = (before + 1..=before + 40).map(Version).collect();
    assert_eq!(
        versions, expected,
        "every commit is one version, none is shared"
    );
}

/// While a decision about a plan is being made nobody moves it; or if somebody could, the decision
/// is made again.
fn a_plan_that_was_read_is_held_to_the_commit(bench: &Bench) {
    let client = bench.client();
    let plan = client.queued("be claimed and cancelled at once");
    let start = client.start(plan, Phase::Strategize, LONG);
    let submission = client.submission(Some(plan), start);
    let other = bench.client();
    let cancel = move || drop(other.must(plan, Command::Cancel { reason: None }));
    let (answer, cancelled) = commit_while(&client, submission, cancel);
    match answer {
        Err(CommitError::Refused(Refusal::Final { .. })) if cancelled => {}
        Ok(_) if !cancelled => {}
        other => panic!("cancelled: {cancelled}, and yet {other:?}"),
    }
    let row = client.store().plan(plan).unwrap().unwrap();
    assert!(row.plan.stage.is_final());
    assert_eq!(row.lease, None);
    assert_eq!(
        verify(client.store()).unwrap().problems,
        Vec::<String>::new()
    );
}

fn a_refusal_writes_nothing(bench: &Bench) {
    let client = bench.client();
    let action = client.add_action(samples::action("tidy"));
    client.add_rule(Scope::Global, samples::rule("fine", "true", &Gate::ALL));
    let queued = client.queued("wait");
    let (working, epoch) = client.executing("work", LONG);
    let landed = client.landed("land");
    let before = Dump::of(client.store());

    let nobody = client.ids().plan();
    let refused = [
        client.submit(Command::CreateAction(samples::action("tidy"))),
        client.submit(Command::ArchiveAction(samples::name("nothing"))),
        client.submit(Command::AddRule {
            scope: Scope::Global,
            draft: samples::rule("fine", "false", &Gate::ALL),
        }),
        client.submit(Command::AddRule {
            scope: Scope::Plan(nobody),
            draft: samples::rule("new", "true", &Gate::ALL),
        }),
        client.submit(Command::Use(plan::command::NewPlan {
            arguments: vec![("unknown".to_owned(), "1".to_owned())],
            ..samples::use_of(client.ids().plan(), &action)
        })),
        client.submit(Command::Use(samples::goal(client.ids().plan(), " "))),
        client.on(nobody, Command::Cancel { reason: None }),
        client.on(queued, testkit::samples::approve()),
        client.on(
            working,
            client.worker("late").start(working, Phase::Execute, LONG),
        ),
        client.on(
            working,
            Command::Release {
                epoch: Epoch(epoch.0 + 1),
            },
        ),
        client.on(landed, Command::Cancel { reason: None }),
    ];
    for (number, answer) in refused.iter().enumerate() {
        assert!(
            matches!(answer, Err(CommitError::Refused(_))),
            "{number}: {answer:?}"
        );
    }
    Dump::of(bench.open().as_ref()).assert_same(&before, "after refusals");
}

/// The id of a new plan is chosen by the caller; a second plan of the same id must not appear.
fn a_plan_is_created_once(bench: &Bench) {
    let client = bench.client();
    let id = client.queued("first");
    let before = Dump::of(client.store());
    let again = client.submit(Command::Use(samples::goal(id, "second")));
    assert!(matches!(again, Err(CommitError::Failed(_))), "{again:?}");
    Dump::of(client.store()).assert_same(&before, "after refusals");
}

/// The one whose command was done.
fn only_winner(answers: &[Result<Committed, CommitError>]) -> usize {
    let done = |answer: &Result<Committed, CommitError>| matches!(answer, Ok(committed) if committed.receipt.outcome == Outcome::Done);
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
    all_events(store, plan)
        .iter()
        .filter(|stored| wanted(&stored.recorded.event))
        .count()
}
