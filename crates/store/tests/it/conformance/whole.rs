//! G3: all or nothing. Whatever fails, the plan is as before and goes on; what was answered is true.

use plan::changeset::Node;
use plan::command::LinkedPlan;
use plan::invariant::{Gate, Scope};
use plan::plan::Origin;
use plan::stage::StateName;
use plan::{Command, Outcome, Phase, PlanId};
use store::fault::FaultPoint;
use store::{CommitError, PlanFilter, Store};
use testkit::client::{LONG, done};
use testkit::dump::all_events;
use testkit::{Client, Dump, samples};

use crate::bench::{Bench, watched};

super::on_every_store! {
    a_commit_that_fails_leaves_everything_as_before_and_can_be_repeated,
    a_lost_answer_is_settled_and_the_receipt_is_the_real_one,
    a_blocked_gate_stores_its_verdict_and_nothing_else,
    under_failing_commits_every_answer_is_true,
    a_reader_sees_a_commit_whole_or_not_at_all,
}

/// Commands that between them write every kind of row, each on a store made ready for it.
fn commands(client: &Client) -> Vec<(Option<PlanId>, Command)> {
    let action = client.add_action(samples::action("ready"));
    let queued = client.queued("start");
    let strategized = client.strategized("enter execute");
    let (executing, epoch) = client.executing("open and finish", LONG);
    let main = client.ids().changeset();
    let open = |id, node| Command::OpenChangeset { epoch, id, node };
    client.must(executing, open(main, Node::main()));
    let (landing, landing_epoch) = client.landing("land");
    client.add_rule(
        Scope::Plan(landing),
        samples::rule("never", "false", &[Gate::Apply]),
    );
    client.add_rule(
        Scope::Plan(executing),
        samples::rule("fine", "true", &[Gate::Result]),
    );
    vec![
        (None, Command::CreateAction(samples::action("new"))),
        (
            None,
            Command::Use(samples::use_of(client.ids().plan(), &action)),
        ),
        (None, Command::ArchiveAction(action)),
        (
            None,
            Command::AddRule {
                scope: Scope::Global,
                draft: samples::rule("advice", "true", &[Gate::Strategize]),
            },
        ),
        (Some(queued), client.start(queued, Phase::Strategize, LONG)),
        (
            Some(strategized),
            Command::ExecutePlan {
                judgement: client.judge(strategized, Gate::Execute),
            },
        ),
        (
            Some(executing),
            Command::RecordChange {
                epoch,
                into: plan::command::Into::Changeset(main),
                entry: samples::created("a"),
            },
        ),
        (
            Some(executing),
            open(client.ids().changeset(), "other".parse().unwrap()),
        ),
        (Some(executing), Command::Renew { epoch, lease: LONG }),
        (
            Some(executing),
            Command::CompleteExecute {
                epoch,
                result: samples::result("it"),
                captured: Vec::new(),
                allow_empty: false,
                judgement: client.judge(executing, Gate::Result),
            },
        ),
        (
            Some(landing),
            Command::PrepareApply {
                epoch: landing_epoch,
                moves: samples::landing(),
                judgement: client.judge(landing, Gate::Apply),
            },
        ),
    ]
}

fn a_commit_that_fails_leaves_everything_as_before_and_can_be_repeated(bench: &Bench) {
    let client = bench.client();
    for (plan, command) in commands(&client) {
        // The rules of the store changed since this was judged.
        let command = judged_again(&client, plan, command);
        let before = Dump::of(client.store());
        for point in [FaultPoint::Decided, FaultPoint::BeforeCommit] {
            bench.faults.arm(point);
            let answer = client
                .store()
                .commit(client.submission(plan, command.clone()));
            bench.faults.disarm();
            assert!(
                matches!(answer, Err(CommitError::Failed(_))),
                "{command:?}: {answer:?}"
            );
            Dump::of(bench.open().as_ref()).assert_same(&before, &format!("{point:?} {command:?}"));
        }
        let answer = client
            .store()
            .commit(client.submission(plan, command.clone()));
        assert!(answer.is_ok(), "{command:?}: {answer:?}");
        assert_ne!(Dump::of(client.store()), before, "{command:?}");
    }
}

fn a_lost_answer_is_settled_and_the_receipt_is_the_real_one(bench: &Bench) {
    let client = bench.client();
    for (plan, command) in commands(&client) {
        let command = judged_again(&client, plan, command);
        let before = Dump::of(client.store());
        bench.faults.arm(FaultPoint::AfterCommit);
        let answer = client
            .store()
            .commit(client.submission(plan, command.clone()));
        bench.faults.disarm();
        let committed = answer.unwrap_or_else(|error| panic!("{command:?}: {error:?}"));
        assert_eq!(committed.receipt.verb, command.verb());
        assert!(!committed.remembered);
        let after = Dump::of(bench.open().as_ref());
        assert_ne!(after, before, "{command:?}");
        if let Some(plan) = committed.receipt.plan {
            let row = &after.plan(plan).unwrap().row;
            assert_eq!(
                committed.receipt.version,
                Some(row.plan.version),
                "{command:?}"
            );
            assert_eq!(committed.plan.as_deref(), Some(&row.plan), "{command:?}");
        }
    }
}

fn a_blocked_gate_stores_its_verdict_and_nothing_else(bench: &Bench) {
    let client = bench.client();
    let plan = client.strategized("be blocked");
    client.add_rule(
        Scope::Plan(plan),
        samples::rule("never", "false", &[Gate::Execute]),
    );
    let before = Dump::of(client.store());
    let judgement = client.judge(plan, Gate::Execute);
    let committed = client.on(plan, Command::ExecutePlan { judgement }).unwrap();
    let Outcome::Blocked(blocked) = &committed.receipt.outcome else {
        panic!("not blocked: {committed:?}");
    };
    assert_eq!(
        (blocked.plan, blocked.gate, blocked.failed.len()),
        (plan, Gate::Execute, 1)
    );
    assert_eq!(
        committed.plan.as_deref(),
        Some(&before.plan(plan).unwrap().row.plan)
    );

    let mut after = Dump::of(bench.open().as_ref());
    let beside = after
        .plans
        .iter_mut()
        .find(|dumped| dumped.row.plan.id == plan)
        .unwrap();
    let bytes = |plan: &plan::Plan| serde_json::to_string(plan).unwrap();
    assert_eq!(
        bytes(&beside.row.plan),
        bytes(&before.plan(plan).unwrap().row.plan)
    );
    let verdict = beside.row.verdict.take().unwrap();
    assert_eq!(verdict.failed, blocked.failed);
    assert_eq!(verdict.version, beside.row.plan.version);
    after.assert_same(&before, "apart from the verdict");

    // The way out: the rule goes, the plan goes on, and the verdict is history.
    let (scope, name) = (Scope::Plan(plan), "never".parse().unwrap());
    done(client.submit(Command::RemoveRule { scope, name }));
    let judgement = client.judge(plan, Gate::Execute);
    client.must(plan, Command::ExecutePlan { judgement });
}

fn under_failing_commits_every_answer_is_true(bench: &Bench) {
    let shared = bench.client().finished("be signed by all");
    for point in [
        FaultPoint::Decided,
        FaultPoint::BeforeCommit,
        FaultPoint::AfterCommit,
    ] {
        let signed = |store: &dyn Store| all_events(store, shared).len();
        let before = signed(bench.open().as_ref());
        bench.faults.arm_every(3, point);
        let answers = bench.race(8, |_, client| {
            let person = client.person("ada");
            (0..6)
                .map(|_| {
                    let id = person.ids().plan();
                    let new = Command::Use(samples::goal(id, "maybe"));
                    let created = is_done(&person.submit(new));
                    (
                        id,
                        created,
                        is_done(&person.on(shared, testkit::samples::approve())),
                    )
                })
                .collect::<Vec<_>>()
        });
        bench.faults.disarm();
        let store = bench.open();
        let answers = answers.concat();
        for (id, created, _) in &answers {
            assert_eq!(store.plan(*id).unwrap().is_some(), *created, "{point:?}");
        }
        let approvals = answers.iter().filter(|(_, _, approved)| *approved).count();
        assert_eq!(signed(store.as_ref()) - before, approvals, "{point:?}");
        let answered_all = answers
            .iter()
            .all(|(_, created, approved)| *created && *approved);
        // A lost answer is always settled. A failure may be: a batch that fails as a whole is decided
        // again, each member alone.
        assert!(
            answered_all || point != FaultPoint::AfterCommit,
            "{point:?}"
        );
    }
    let verified = store::verify::verify(bench.open().as_ref()).unwrap();
    assert_eq!(verified.problems, Vec::<String>::new());
}

/// Done, or failed with nothing written: with nothing worse than these faults there is no third.
fn is_done(answer: &Result<store::Committed, CommitError>) -> bool {
    match answer {
        Ok(committed) => committed.receipt.outcome == Outcome::Done,
        Err(CommitError::Failed(_)) => false,
        Err(other) => panic!("{other:?}"),
    }
}

fn a_reader_sees_a_commit_whole_or_not_at_all(bench: &Bench) {
    let writer = bench.client();
    let worked_on = writer.queued("claimed and released");
    let reader = bench.open();
    let look = || {
        a_holder_has_its_lease(reader.as_ref(), worked_on);
        a_rest_is_there_when_its_plan_landed(reader.as_ref());
    };
    watched(3, look, || {
        for round in 0..6 {
            for _ in 0..3 {
                let epoch = writer.claim(worked_on, LONG);
                writer.must(worked_on, Command::Release { epoch });
            }
            land_in_part(&writer, &format!("round {round}"));
        }
    });
}

fn a_holder_has_its_lease(reader: &dyn Store, plan: PlanId) {
    let row = reader.plan(plan).unwrap().unwrap();
    let holder = row.plan.stage.holder().map(|holder| holder.epoch);
    assert_eq!(row.lease.map(|lease| lease.epoch), holder);
    let snapshot = reader.snapshot(plan).unwrap().unwrap().row;
    let holder = snapshot.plan.stage.holder().map(|holder| holder.epoch);
    assert_eq!(snapshot.lease.map(|lease| lease.epoch), holder);
}

/// One commit ends a plan and makes the plan of its rest; a page shows both or neither.
fn a_rest_is_there_when_its_plan_landed(reader: &dyn Store) {
    let page = reader.plans(&PlanFilter::default(), None, 1000).unwrap();
    let mut landed: Vec<PlanId> = page
        .iter()
        .filter(|row| row.plan.stage.state() == StateName::Applied)
        .map(|row| row.plan.id)
        .collect();
    let mut rest_of: Vec<PlanId> = page
        .iter()
        .filter_map(|row| match row.plan.origin {
            Origin::RestOf(plan) => Some(plan),
            Origin::Use | Origin::UndoOf(_) => None,
        })
        .collect();
    landed.sort_unstable();
    rest_of.sort_unstable();
    assert_eq!(landed, rest_of);
}

fn land_in_part(client: &Client, goal: &str) {
    let (plan, epoch) = client.landing(goal);
    let mut moves = samples::landing();
    moves.push(plan::stage::RefMove {
        resource: samples::OTHER_RESOURCE.to_owned(),
        ..moves[0].clone()
    });
    let judgement = client.judge(plan, Gate::Apply);
    client.must(
        plan,
        Command::PrepareApply {
            epoch,
            moves,
            judgement,
        },
    );
    let rest = LinkedPlan {
        id: client.ids().plan(),
        resources: vec![samples::OTHER_RESOURCE.to_owned()],
        result: samples::result("rest"),
    };
    let landed = vec![samples::RESOURCE.to_owned()];
    client.must(
        plan,
        Command::CompleteApply {
            epoch,
            landed,
            rest: Some(rest),
        },
    );
}

/// The same command with a judgement of now, where it has one.
fn judged_again(client: &Client, plan: Option<PlanId>, command: Command) -> Command {
    let judge = |gate| client.judge(plan.unwrap(), gate);
    match command {
        Command::Start {
            phase: Phase::Strategize,
            ..
        } => client.start(plan.unwrap(), Phase::Strategize, LONG),
        Command::ExecutePlan { .. } => Command::ExecutePlan {
            judgement: judge(Gate::Execute),
        },
        Command::CompleteExecute { epoch, result, .. } => Command::CompleteExecute {
            epoch,
            result,
            captured: Vec::new(),
            allow_empty: false,
            judgement: judge(Gate::Result),
        },
        Command::PrepareApply { epoch, moves, .. } => Command::PrepareApply {
            epoch,
            moves,
            judgement: judge(Gate::Apply),
        },
        other => other,
    }
}
