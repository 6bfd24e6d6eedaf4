//! Decisions in a row: one commit where that is possible, the same end where it is not.

#![cfg(not(feature = "shuttle"))]
#![allow(
    clippy::unwrap_used,
    reason = "a test whose set-up fails has failed, and the panic says where"
)]

use std::sync::Arc;

use plan::invariant::{Gate, Scope};
use plan::stage::ResultContent;
use plan::{Actors, Caller, PlanId, Profile, Recorded, Refusal, Span};
use planwright_lifecycle::{Call, Claim, Error, Lifecycle, UseRequest, WentOn};
use store::verify::verify;
use store::{MemoryStore, PostgresOptions, PostgresStore, SqliteOptions, SqliteStore, Store};
use testkit::{PostgresDatabase, SqliteFile, samples};

const LEASE: Span = Span(60_000_000);

fn ada() -> Call {
    Call::by(Caller::Person("ada".to_owned()))
}

fn request() -> UseRequest {
    UseRequest {
        goal: Some("Look around".to_owned()),
        fallback_actors: Some(Actors::both(samples::name("robot"))),
        ..UseRequest::default()
    }
}

/// The same on every store.
fn on_each(test: impl Fn(Lifecycle)) {
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
            verify(store.as_ref()).unwrap().problems,
            Vec::<String>::new()
        );
    }
}

fn report() -> ResultContent {
    ResultContent {
        report: Some("all quiet".into()),
        ..ResultContent::default()
    }
}

#[track_caller]
fn claimed(went: WentOn) -> Claim {
    match went {
        WentOn::Claimed(claim) => *claim,
        WentOn::Waits(done) | WentOn::Landed(done) => panic!("it is {}", done.plan.stage),
    }
}

#[track_caller]
fn landed(went: WentOn) -> PlanId {
    match went {
        WentOn::Landed(done) => done.plan.id,
        WentOn::Waits(done) => panic!("it waits, {}", done.plan.stage),
        WentOn::Claimed(claim) => panic!("it is {}", claim.plan().stage),
    }
}

fn kinds(events: &[Recorded]) -> Vec<&'static str> {
    events
        .iter()
        .map(|recorded| recorded.event.kind())
        .collect()
}

/// How many commits made these events: those of one commit happened at one moment.
fn commits(events: &[Recorded]) -> usize {
    let mut moments: Vec<_> = events.iter().map(|recorded| recorded.at).collect();
    moments.dedup();
    moments.len()
}

fn whole_life(lifecycle: &Lifecycle) -> Vec<Recorded> {
    let claim = lifecycle
        .use_and_start(request(), "worker", LEASE, &ada())
        .unwrap();
    let claim = claimed(
        claim
            .complete_strategize_and_go_on(Vec::new(), LEASE)
            .unwrap(),
    );
    let plan = landed(claim.complete_execute_and_go_on(&report(), LEASE).unwrap());
    lifecycle.history(plan).unwrap()
}

fn whole_life_step_by_step(lifecycle: &Lifecycle) -> Vec<Recorded> {
    let ada = ada();
    let plan = lifecycle.use_action(request(), &ada).unwrap().plan.id;
    let claim = lifecycle
        .start_strategize(plan, "worker", LEASE, &ada)
        .unwrap();
    claim.complete_strategize(Vec::new()).unwrap();
    lifecycle.execute_plan(plan, &ada).unwrap();
    let claim = lifecycle
        .start_execute(plan, "worker", LEASE, &ada)
        .unwrap();
    claim.complete_execute(&report()).unwrap();
    lifecycle.apply_plan(plan, &ada).unwrap();
    let claim = lifecycle.start_apply(plan, "worker", LEASE, &ada).unwrap();
    claim.complete_apply(Vec::new()).unwrap();
    lifecycle.history(plan).unwrap()
}

#[test]
fn a_whole_life_takes_three_commits_and_leaves_every_event() {
    on_each(|lifecycle| {
        let in_a_row = whole_life(&lifecycle);
        assert_eq!(
            kinds(&in_a_row),
            kinds(&whole_life_step_by_step(&lifecycle))
        );
        assert_eq!(commits(&in_a_row), 3);
    });
}

#[test]
fn rules_are_judged_step_by_step() {
    on_each(|lifecycle| {
        let gates = [Gate::Strategize, Gate::Execute, Gate::Apply];
        let rule = samples::rule("always", "true", &gates);
        lifecycle.add_rule(Scope::Global, rule, &ada()).unwrap();
        let in_a_row = whole_life(&lifecycle);
        assert_eq!(
            kinds(&in_a_row),
            kinds(&whole_life_step_by_step(&lifecycle))
        );
        assert!(commits(&in_a_row) > 3);
    });
}

#[test]
fn a_gate_that_stays_shut_keeps_the_result() {
    on_each(|lifecycle| {
        let rule = samples::rule("never", "false", &[Gate::Execute]);
        lifecycle.add_rule(Scope::Global, rule, &ada()).unwrap();
        let claim = lifecycle
            .use_and_start(request(), "worker", LEASE, &ada())
            .unwrap();
        match claim
            .complete_strategize_and_go_on(Vec::new(), LEASE)
            .unwrap()
        {
            WentOn::Waits(done) => {
                assert_eq!(done.plan.stage.to_string(), "strategize/complete");
            }
            WentOn::Claimed(_) | WentOn::Landed(_) => panic!("it went on"),
        }
    });
}

#[test]
fn a_worker_goes_no_further_than_the_profile_lets_it() {
    on_each(|lifecycle| {
        let manual = UseRequest {
            profile: Some(Profile::Manual),
            ..request()
        };
        let plan = lifecycle.use_action(manual, &ada()).unwrap().plan.id;
        lifecycle
            .start_strategize(plan, "ada", LEASE, &ada())
            .unwrap()
            .release()
            .unwrap();
        let worker = Call::by(Caller::Worker("w1".to_owned()));
        let claim = lifecycle
            .start_strategize(plan, "w1", LEASE, &worker)
            .unwrap();
        match claim
            .complete_strategize_and_go_on(Vec::new(), LEASE)
            .unwrap()
        {
            WentOn::Waits(done) => assert!(done.plan.needs_person()),
            WentOn::Claimed(_) | WentOn::Landed(_) => panic!("it went on"),
        }
    });
}

#[test]
fn a_holder_whose_authority_is_over_changes_nothing() {
    on_each(|lifecycle| {
        let claim = lifecycle
            .use_and_start(request(), "worker", LEASE, &ada())
            .unwrap();
        let plan = claim.plan().id;
        lifecycle.release(plan, claim.epoch(), &ada()).unwrap();
        let other = lifecycle
            .start_strategize(plan, "other", LEASE, &ada())
            .unwrap();
        let before = lifecycle.get_plan(plan).unwrap();
        match claim.complete_strategize_and_go_on(Vec::new(), LEASE) {
            Err(Error::Refused(Refusal::Fenced { .. })) => {}
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("it went on"),
        }
        assert_eq!(lifecycle.get_plan(plan).unwrap(), before);
        assert_eq!(other.epoch(), before.plan.epoch);
    });
}
