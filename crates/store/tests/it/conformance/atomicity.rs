//! G3: all or nothing. After any failure the plan is unchanged and usable, and every answer is
//! true.

use plan::changeset::Node;
use plan::command::LinkedPlan;
use plan::command::{
    AddRule, ArchiveAction, ClaimPhase, CompleteApply, CompleteExecute, CreateAction, CreatePlan,
    ExecutePlan, OpenChangeset, PrepareApply, RecordChange, ReleaseLease, RemoveRule, RenewLease,
};
use plan::invariant::{Gate, RuleScope};
use plan::plan::PlanOrigin;
use plan::stage::StateName;
use plan::{Command, Phase, PlanId, ReceiptOutcome};
use store::fault::FaultPoint;
use store::{CommitError, PlanFilter, Store};
use testkit::client::{LONG_LEASE, expect_done};
use testkit::dump::read_all_events;
use testkit::{StoreDump, TestClient, samples};

use crate::store_fixture::{StoreFixture, watched};

super::on_every_store! {
    a_failed_commit_changes_nothing_and_can_be_retried,
    a_lost_response_is_resolved_with_the_real_receipt,
    a_blocked_gate_stores_its_verdict_and_nothing_else,
    every_answer_is_true_while_commits_fail,
    a_reader_sees_a_commit_whole_or_not_at_all,
}

/// Commands that together write every kind of row, each on a prepared plan.
fn commands(client: &TestClient) -> Vec<(Option<PlanId>, Command)> {
    let action = client.add_action(samples::reusable_action("ready"));
    let queued = client.create_queued_plan("start");
    let strategized = client.create_strategized_plan("enter execute");
    let (executing, epoch) = client.create_executing_plan("open and finish", LONG_LEASE);
    let main = client.ids().next_changeset_id();
    let open = |id, node| Command::from(OpenChangeset { epoch, id, node });
    client.must_submit(executing, open(main, Node::main()));
    let (landing, landing_epoch) = client.create_landing_plan("land");
    client.add_rule(
        RuleScope::Plan(landing),
        samples::rule_draft("never", "false", &[Gate::Apply]),
    );
    client.add_rule(
        RuleScope::Plan(executing),
        samples::rule_draft("fine", "true", &[Gate::Result]),
    );
    vec![
        (
            None,
            Command::from(CreateAction(samples::reusable_action("new"))),
        ),
        (
            None,
            Command::from(CreatePlan(samples::plan_of_action(
                client.ids().next_plan_id(),
                &action,
            ))),
        ),
        (None, Command::from(ArchiveAction(action))),
        (
            None,
            Command::from(AddRule {
                scope: RuleScope::Global,
                draft: samples::rule_draft("advice", "true", &[Gate::Strategize]),
            }),
        ),
        (
            Some(queued),
            client.start_command(queued, Phase::Strategize, LONG_LEASE),
        ),
        (
            Some(strategized),
            Command::from(ExecutePlan {
                judgement: client.judge_rules(strategized, Gate::Execute),
            }),
        ),
        (
            Some(executing),
            Command::from(RecordChange {
                epoch,
                into: plan::command::ChangesetSelector::Changeset(main),
                entry: samples::created_entry("a"),
            }),
        ),
        (
            Some(executing),
            open(client.ids().next_changeset_id(), "other".parse().unwrap()),
        ),
        (
            Some(executing),
            Command::from(RenewLease {
                epoch,
                lease: LONG_LEASE,
            }),
        ),
        (
            Some(executing),
            Command::from(CompleteExecute {
                epoch,
                result: samples::result_content("it"),
                captured: Vec::new(),
                allow_empty: false,
                judgement: client.judge_rules(executing, Gate::Result),
            }),
        ),
        (
            Some(landing),
            Command::from(PrepareApply {
                epoch: landing_epoch,
                moves: samples::landing_moves(),
                judgement: client.judge_rules(landing, Gate::Apply),
            }),
        ),
    ]
}

fn a_failed_commit_changes_nothing_and_can_be_retried(fixture: &StoreFixture) {
    let client = fixture.client();
    for (plan, command) in commands(&client) {
        // The store's rules have changed since this command was built.
        let command = judged_again(&client, plan, command);
        let before = StoreDump::read_store(client.store());
        for point in [FaultPoint::Decided, FaultPoint::BeforeCommit] {
            fixture.faults.arm(point);
            let answer = client
                .store()
                .commit(client.build_submission(plan, command.clone()));
            fixture.faults.disarm();
            assert!(
                matches!(answer, Err(CommitError::Failed(_))),
                "{command:?}: {answer:?}"
            );
            StoreDump::read_store(fixture.open().as_ref())
                .assert_same(&before, &format!("{point:?} {command:?}"));
        }
        let answer = client
            .store()
            .commit(client.build_submission(plan, command.clone()));
        assert!(answer.is_ok(), "{command:?}: {answer:?}");
        assert_ne!(StoreDump::read_store(client.store()), before, "{command:?}");
    }
}

fn a_lost_response_is_resolved_with_the_real_receipt(fixture: &StoreFixture) {
    let client = fixture.client();
    for (plan, command) in commands(&client) {
        let command = judged_again(&client, plan, command);
        let before = StoreDump::read_store(client.store());
        fixture.faults.arm(FaultPoint::AfterCommit);
        let answer = client
            .store()
            .commit(client.build_submission(plan, command.clone()));
        fixture.faults.disarm();
        let committed = answer.unwrap_or_else(|error| panic!("{command:?}: {error:?}"));
        assert_eq!(committed.receipt.verb, command.verb());
        assert!(!committed.is_repeat);
        let after = StoreDump::read_store(fixture.open().as_ref());
        assert_ne!(after, before, "{command:?}");
        if let Some(plan) = committed.receipt.plan {
            let row = &after.find_plan(plan).unwrap().row;
            assert_eq!(
                committed.receipt.version,
                Some(row.plan.version()),
                "{command:?}"
            );
            assert_eq!(committed.plan.as_deref(), Some(&row.plan), "{command:?}");
        }
    }
}

fn a_blocked_gate_stores_its_verdict_and_nothing_else(fixture: &StoreFixture) {
    let client = fixture.client();
    let plan = client.create_strategized_plan("be blocked");
    client.add_rule(
        RuleScope::Plan(plan),
        samples::rule_draft("never", "false", &[Gate::Execute]),
    );
    let before = StoreDump::read_store(client.store());
    let judgement = client.judge_rules(plan, Gate::Execute);
    let committed = client
        .submit_for_plan(plan, Command::from(ExecutePlan { judgement }))
        .unwrap();
    let ReceiptOutcome::Blocked(blocked) = &committed.receipt.outcome else {
        panic!("not blocked: {committed:?}");
    };
    assert_eq!(
        (blocked.plan, blocked.gate, blocked.failed.len()),
        (plan, Gate::Execute, 1)
    );
    assert_eq!(
        committed.plan.as_deref(),
        Some(&before.find_plan(plan).unwrap().row.plan)
    );

    let mut after = StoreDump::read_store(fixture.open().as_ref());
    let beside = after
        .plans
        .iter_mut()
        .find(|dumped| dumped.row.plan.id() == plan)
        .unwrap();
    let bytes =
        |plan: &plan::Plan| serde_json::to_string(&(&**plan.terms(), plan.state())).unwrap();
    assert_eq!(
        bytes(&beside.row.plan),
        bytes(&before.find_plan(plan).unwrap().row.plan)
    );
    let verdict = beside.row.verdict.take().unwrap();
    assert_eq!(verdict.failed, blocked.failed);
    assert_eq!(verdict.version, beside.row.plan.version());
    after.assert_same(&before, "apart from the verdict");

    // The rule is removed, the plan advances, and the verdict no longer applies.
    let (scope, name) = (RuleScope::Plan(plan), "never".parse().unwrap());
    expect_done(client.submit(Command::from(RemoveRule { scope, name })));
    let judgement = client.judge_rules(plan, Gate::Execute);
    client.must_submit(plan, Command::from(ExecutePlan { judgement }));
}

fn every_answer_is_true_while_commits_fail(fixture: &StoreFixture) {
    let shared = fixture.client().create_executed_plan("be signed by all");
    for point in [
        FaultPoint::Decided,
        FaultPoint::BeforeCommit,
        FaultPoint::AfterCommit,
    ] {
        let signed = |store: &dyn Store| read_all_events(store, shared).len();
        let before = signed(fixture.open().as_ref());
        fixture.faults.arm_every(3, point);
        let answers = fixture.race(8, |_, client| {
            let person = client.as_person("ada");
            (0..6)
                .map(|_| {
                    let id = person.ids().next_plan_id();
                    let new = Command::from(CreatePlan(samples::plan_for_goal(id, "maybe")));
                    let created = is_done(&person.submit(new));
                    (
                        id,
                        created,
                        is_done(
                            &person.submit_for_plan(shared, testkit::samples::approve_command()),
                        ),
                    )
                })
                .collect::<Vec<_>>()
        });
        fixture.faults.disarm();
        let store = fixture.open();
        let answers = answers.concat();
        for (id, created, _) in &answers {
            assert_eq!(
                store.read_plan(*id).unwrap().is_some(),
                *created,
                "{point:?}"
            );
        }
        let approvals = answers.iter().filter(|(_, _, approved)| *approved).count();
        assert_eq!(signed(store.as_ref()) - before, approvals, "{point:?}");
        let answered_all = answers
            .iter()
            .all(|(_, created, approved)| *created && *approved);
        // A lost response is always resolved. A failure may be too: when a batch fails, each member
        // is decided again alone.
        assert!(
            answered_all || point != FaultPoint::AfterCommit,
            "{point:?}"
        );
    }
    let verified = store::verify::verify_store(fixture.open().as_ref()).unwrap();
    assert_eq!(verified.problems, Vec::<String>::new());
}

/// Checks that a commit succeeded or failed without writing. These faults allow no other outcome.
fn is_done(answer: &Result<store::CommitOutcome, CommitError>) -> bool {
    match answer {
        Ok(committed) => committed.receipt.outcome == ReceiptOutcome::Done,
        Err(CommitError::Failed(_)) => false,
        Err(other) => panic!("{other:?}"),
    }
}

fn a_reader_sees_a_commit_whole_or_not_at_all(fixture: &StoreFixture) {
    let writer = fixture.client();
    let worked_on = writer.create_queued_plan("claimed and released");
    let reader = fixture.open();
    let look = || {
        a_holder_has_its_lease(reader.as_ref(), worked_on);
        a_rest_is_there_when_its_plan_landed(reader.as_ref());
    };
    watched(3, look, || {
        for round in 0..6 {
            for _ in 0..3 {
                let epoch = writer.claim_phase(worked_on, LONG_LEASE);
                writer.must_submit(worked_on, Command::from(ReleaseLease { epoch }));
            }
            land_in_part(&writer, &format!("round {round}"));
        }
    });
}

fn a_holder_has_its_lease(reader: &dyn Store, plan: PlanId) {
    let row = reader.read_plan(plan).unwrap().unwrap();
    let holder = row.plan.stage().holder().map(|holder| holder.epoch);
    assert_eq!(row.lease.map(|lease| lease.epoch), holder);
    let snapshot = reader.read_snapshot(plan).unwrap().unwrap().row;
    let holder = snapshot.plan.stage().holder().map(|holder| holder.epoch);
    assert_eq!(snapshot.lease.map(|lease| lease.epoch), holder);
}

/// One commit ends a plan and creates the plan for its remaining work. A page shows both or
/// neither.
fn a_rest_is_there_when_its_plan_landed(reader: &dyn Store) {
    let page = reader
        .list_plans(&PlanFilter::default(), None, 1000)
        .unwrap();
    let mut landed: Vec<PlanId> = page
        .iter()
        .filter(|row| row.plan.stage().state_name() == StateName::Applied)
        .map(|row| row.plan.id())
        .collect();
    let mut rest_of: Vec<PlanId> = page
        .iter()
        .filter_map(|row| match row.plan.origin() {
            PlanOrigin::RestOf(plan) => Some(plan),
            PlanOrigin::Use | PlanOrigin::UndoOf(_) => None,
        })
        .collect();
    landed.sort_unstable();
    rest_of.sort_unstable();
    assert_eq!(landed, rest_of);
}

fn land_in_part(client: &TestClient, goal: &str) {
    let (plan, epoch) = client.create_landing_plan(goal);
    let mut moves = samples::landing_moves();
    moves.push(plan::stage::RefMove {
        resource: samples::OTHER_RESOURCE_NAME.to_owned(),
        ..moves[0].clone()
    });
    let judgement = client.judge_rules(plan, Gate::Apply);
    client.must_submit(
        plan,
        Command::from(PrepareApply {
            epoch,
            moves,
            judgement,
        }),
    );
    let rest = LinkedPlan {
        id: client.ids().next_plan_id(),
        resources: vec![samples::OTHER_RESOURCE_NAME.to_owned()],
        result: samples::result_content("rest"),
    };
    let landed = vec![samples::RESOURCE_NAME.to_owned()];
    client.must_submit(
        plan,
        Command::from(CompleteApply {
            epoch,
            landed,
            rest: Some(rest),
        }),
    );
}

/// Returns the same command with a current judgement, if it has one.
fn judged_again(client: &TestClient, plan: Option<PlanId>, command: Command) -> Command {
    let judge = |gate| client.judge_rules(plan.unwrap(), gate);
    match command {
        Command::ClaimPhase(ClaimPhase {
            phase: Phase::Strategize,
            ..
        }) => client.start_command(plan.unwrap(), Phase::Strategize, LONG_LEASE),
        Command::ExecutePlan(_) => Command::from(ExecutePlan {
            judgement: judge(Gate::Execute),
        }),
        Command::CompleteExecute(CompleteExecute { epoch, result, .. }) => {
            Command::from(CompleteExecute {
                epoch,
                result,
                captured: Vec::new(),
                allow_empty: false,
                judgement: judge(Gate::Result),
            })
        }
        Command::PrepareApply(PrepareApply { epoch, moves, .. }) => Command::from(PrepareApply {
            epoch,
            moves,
            judgement: judge(Gate::Apply),
        }),
        other => other,
    }
}
