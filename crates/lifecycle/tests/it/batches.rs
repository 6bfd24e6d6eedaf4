//! Batches: several commands share one commit where possible, and have the same result where not.

use std::sync::Arc;

use plan::command::ReleaseLease;
use plan::invariant::{Gate, RuleScope};
use plan::stage::ResultContent;
use plan::{Caller, PlanActors, PlanId, Profile, RecordedEvent, Refusal, Span};
use planwright_lifecycle::{Call, Claim, Lifecycle, LifecycleError, NextPhase, UseRequest};
use store::verify::verify_store;
use store::{MemoryStore, PostgresOptions, PostgresStore, SqliteOptions, SqliteStore, Store};
use testkit::{PostgresDatabase, SqliteFile, samples};

const TEST_LEASE: Span = Span(60_000_000);

fn call_as_ada() -> Call {
    Call::by(Caller::Person("ada".to_owned()))
}

fn make_request() -> UseRequest {
    UseRequest {
        goal: Some("Look around".to_owned()),
        fallback_actors: Some(PlanActors::for_both_phases(samples::parse_name("robot"))),
        ..UseRequest::default()
    }
}

/// Runs the test on each store and verifies the store afterwards.
fn run_on_each_store(test: impl Fn(Lifecycle)) {
    let (file, database) = (SqliteFile::new(), PostgresDatabase::new());
    let sqlite = SqliteStore::new(file.path(), SqliteOptions::default());
    let postgres = PostgresStore::new(&database.url(), PostgresOptions::default()).unwrap();
    let stores: [Arc<dyn Store>; 3] = [
        Arc::new(MemoryStore::new()),
        Arc::new(sqlite),
        Arc::new(postgres),
    ];
    for store in stores {
        test(Lifecycle::on(Arc::clone(&store)));
        assert_eq!(
            verify_store(store.as_ref()).unwrap().problems,
            Vec::<String>::new()
        );
    }
}

fn make_report() -> ResultContent {
    ResultContent {
        report: Some("all quiet".into()),
        ..ResultContent::default()
    }
}

#[track_caller]
fn expect_claimed(next_phase: NextPhase) -> Claim {
    match next_phase {
        NextPhase::Claimed(claim) => *claim,
        NextPhase::Waits(done) | NextPhase::Landed(done) => {
            panic!("not claimed: {}", done.plan.stage())
        }
    }
}

#[track_caller]
fn expect_landed(next_phase: NextPhase) -> PlanId {
    match next_phase {
        NextPhase::Landed(done) => done.plan.id(),
        NextPhase::Waits(done) => panic!("not landed: {}", done.plan.stage()),
        NextPhase::Claimed(claim) => panic!("not landed: {}", claim.plan().stage()),
    }
}

fn event_kinds(events: &[RecordedEvent]) -> Vec<&'static str> {
    events
        .iter()
        .map(|recorded| recorded.event.kind())
        .collect()
}

/// Counts the commits behind these events. Events of one commit have the same timestamp.
fn count_commits(events: &[RecordedEvent]) -> usize {
    let mut timestamps: Vec<_> = events.iter().map(|recorded| recorded.at).collect();
    timestamps.dedup();
    timestamps.len()
}

fn run_whole_plan(lifecycle: &Lifecycle) -> Vec<RecordedEvent> {
    let claim = lifecycle
        .claims()
        .use_and_start(make_request(), "worker", TEST_LEASE, &call_as_ada())
        .unwrap();
    let claim = expect_claimed(
        claim
            .complete_strategize_and_continue(Vec::new(), TEST_LEASE)
            .unwrap(),
    );
    let plan_id = expect_landed(
        claim
            .complete_execute_and_continue(&make_report(), TEST_LEASE)
            .unwrap(),
    );
    lifecycle.history().read_history(plan_id).unwrap()
}

fn run_whole_plan_in_steps(lifecycle: &Lifecycle) -> Vec<RecordedEvent> {
    let ada = call_as_ada();
    let plan_id = lifecycle
        .use_action(make_request(), &ada)
        .unwrap()
        .plan
        .id();
    let claim = lifecycle
        .claims()
        .start_strategize(plan_id, "worker", TEST_LEASE, &ada)
        .unwrap();
    claim.complete_strategize(Vec::new()).unwrap();
    lifecycle.execute_plan(plan_id, &ada).unwrap();
    let claim = lifecycle
        .claims()
        .start_execute(plan_id, "worker", TEST_LEASE, &ada)
        .unwrap();
    claim.complete_execute(&make_report()).unwrap();
    lifecycle.apply_plan(plan_id, &ada).unwrap();
    let claim = lifecycle
        .claims()
        .start_apply(plan_id, "worker", TEST_LEASE, &ada)
        .unwrap();
    claim.complete_apply(Vec::new()).unwrap();
    lifecycle.history().read_history(plan_id).unwrap()
}

#[test]
fn a_whole_plan_takes_three_commits_and_keeps_every_event() {
    run_on_each_store(|lifecycle| {
        let in_batches = run_whole_plan(&lifecycle);
        assert_eq!(
            event_kinds(&in_batches),
            event_kinds(&run_whole_plan_in_steps(&lifecycle))
        );
        assert_eq!(count_commits(&in_batches), 3);
    });
}

#[test]
fn with_rules_the_commands_are_submitted_one_by_one() {
    run_on_each_store(|lifecycle| {
        let gates = [Gate::Strategize, Gate::Execute, Gate::Apply];
        let rule = samples::rule_draft("always", "true", &gates);
        lifecycle
            .rules()
            .add_rule(RuleScope::Global, rule, &call_as_ada())
            .unwrap();
        let in_batches = run_whole_plan(&lifecycle);
        assert_eq!(
            event_kinds(&in_batches),
            event_kinds(&run_whole_plan_in_steps(&lifecycle))
        );
        assert!(count_commits(&in_batches) > 3);
    });
}

#[test]
fn a_closed_gate_keeps_the_submitted_result() {
    run_on_each_store(|lifecycle| {
        let rule = samples::rule_draft("never", "false", &[Gate::Execute]);
        lifecycle
            .rules()
            .add_rule(RuleScope::Global, rule, &call_as_ada())
            .unwrap();
        let claim = lifecycle
            .claims()
            .use_and_start(make_request(), "worker", TEST_LEASE, &call_as_ada())
            .unwrap();
        match claim
            .complete_strategize_and_continue(Vec::new(), TEST_LEASE)
            .unwrap()
        {
            NextPhase::Waits(done) => {
                assert_eq!(done.plan.stage().to_string(), "strategize/complete");
            }
            NextPhase::Claimed(_) | NextPhase::Landed(_) => panic!("the plan continued"),
        }
    });
}

#[test]
fn a_worker_stops_where_the_profile_requires_a_person() {
    run_on_each_store(|lifecycle| {
        let manual = UseRequest {
            profile: Some(Profile::Manual),
            ..make_request()
        };
        let plan_id = lifecycle
            .use_action(manual, &call_as_ada())
            .unwrap()
            .plan
            .id();
        lifecycle
            .claims()
            .start_strategize(plan_id, "ada", TEST_LEASE, &call_as_ada())
            .unwrap()
            .release()
            .unwrap();
        let worker = Call::by(Caller::Worker("w1".to_owned()));
        let claim = lifecycle
            .claims()
            .start_strategize(plan_id, "w1", TEST_LEASE, &worker)
            .unwrap();
        match claim
            .complete_strategize_and_continue(Vec::new(), TEST_LEASE)
            .unwrap()
        {
            NextPhase::Waits(done) => assert!(done.plan.needs_person()),
            NextPhase::Claimed(_) | NextPhase::Landed(_) => panic!("the plan continued"),
        }
    });
}

#[test]
fn a_former_holder_is_fenced() {
    run_on_each_store(|lifecycle| {
        let claim = lifecycle
            .claims()
            .use_and_start(make_request(), "worker", TEST_LEASE, &call_as_ada())
            .unwrap();
        let plan_id = claim.plan().id();
        lifecycle
            .submit_command(
                plan_id,
                ReleaseLease {
                    epoch: claim.epoch(),
                },
                &call_as_ada(),
            )
            .unwrap();
        let other = lifecycle
            .claims()
            .start_strategize(plan_id, "other", TEST_LEASE, &call_as_ada())
            .unwrap();
        let before = lifecycle.get_plan(plan_id).unwrap();
        match claim.complete_strategize_and_continue(Vec::new(), TEST_LEASE) {
            Err(LifecycleError::Refused(Refusal::Fenced { .. })) => {}
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("the plan continued"),
        }
        assert_eq!(lifecycle.get_plan(plan_id).unwrap(), before);
        assert_eq!(other.epoch(), before.plan.epoch());
    });
}
