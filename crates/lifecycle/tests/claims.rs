//! Claims: taken from what waits, and every way to end one.

#![cfg(not(feature = "shuttle"))]
#![allow(
    clippy::unwrap_used,
    reason = "a test whose set-up fails has failed, and the panic says where"
)]

use actors::{Outcome, Report, Usage};
use plan::invariant::{Gate, Scope};
use plan::ledger::Metering;
use plan::stage::Category;
use plan::{Actors, Caller, Phase, PlanId, Refusal, Span, Timestamp, Version};
use planwright_lifecycle::{Call, Claim, Error, Lifecycle, UseRequest};
use store::fault::Faults;
use store::{Maintain, MemoryStore};
use testkit::{TestClock, samples};

const LEASE: Span = Span::seconds(60);

fn ada() -> Call {
    Call::by(Caller::Person("ada".to_owned()))
}

fn engine() -> (Lifecycle, TestClock) {
    let clock = TestClock::at(Timestamp(1_750_000_000_000_000));
    let store = MemoryStore::with(clock.clock(), Faults::default());
    (Lifecycle::open(store), clock)
}

fn used(lifecycle: &Lifecycle) -> PlanId {
    let request = UseRequest {
        goal: Some("Look around".to_owned()),
        fallback_actors: Some(Actors::both(samples::name("robot"))),
        ..UseRequest::default()
    };
    lifecycle.use_action(request, &ada()).unwrap().plan.id
}

fn claim(lifecycle: &Lifecycle, phase: Phase) -> Option<Claim> {
    lifecycle.claim(phase, "worker", LEASE, &ada()).unwrap()
}

#[test]
fn what_waited_longest_is_claimed_first_and_each_once() {
    let (lifecycle, _) = engine();
    let (one, two) = (used(&lifecycle), used(&lifecycle));
    let claims: Vec<Claim> = std::iter::from_fn(|| claim(&lifecycle, Phase::Strategize)).collect();
    let plans: Vec<PlanId> = claims.iter().map(|claim| claim.plan().id).collect();
    assert_eq!(plans, [one, two]);
    assert!(
        claims
            .iter()
            .all(|claim| claim.phase() == Phase::Strategize)
    );
    assert!(claim(&lifecycle, Phase::Execute).is_none());
    assert!(claim(&lifecycle, Phase::Apply).is_none());
}

#[test]
fn a_plan_that_a_rule_holds_is_passed_over() {
    let (lifecycle, _) = engine();
    let (held, free) = (used(&lifecycle), used(&lifecycle));
    let rule = samples::rule("never", "false", &[Gate::Strategize]);
    lifecycle.add_rule(Scope::Plan(held), rule, &ada()).unwrap();
    assert_eq!(
        claim(&lifecycle, Phase::Strategize).unwrap().plan().id,
        free
    );
}

#[test]
fn every_way_to_end_a_claim_ends_it() {
    let (lifecycle, _) = engine();
    type End = fn(Claim) -> String;
    let ends: [(End, &str); 4] = [
        (
            |claim| {
                claim
                    .fail(Category::Actor, "no")
                    .unwrap()
                    .plan
                    .stage
                    .to_string()
            },
            "strategize/errored",
        ),
        (
            |claim| claim.ask("which?", None).unwrap().plan.stage.to_string(),
            "strategize/awaiting_input",
        ),
        (
            |claim| claim.release().unwrap().plan.stage.to_string(),
            "strategize/queued",
        ),
        (
            |claim| {
                claim
                    .complete_strategize(Vec::new())
                    .unwrap()
                    .plan
                    .stage
                    .to_string()
            },
            "strategize/complete",
        ),
    ];
    for (end, stage) in ends {
        let plan = used(&lifecycle);
        let claim = lifecycle
            .start_strategize(plan, "worker", LEASE, &ada())
            .unwrap();
        let epoch = claim.epoch();
        assert_eq!(end(claim), stage);
        let late = lifecycle.renew(plan, epoch, LEASE, &ada());
        assert!(matches!(late, Err(Error::Refused(_))), "{stage}");
    }
}

#[test]
fn a_renewed_claim_outlives_its_first_lease() {
    let (lifecycle, clock) = engine();
    let plan = used(&lifecycle);
    let claim = lifecycle
        .start_strategize(plan, "worker", LEASE, &ada())
        .unwrap();
    clock.advance(Span::seconds(50));
    claim.renew(LEASE).unwrap();
    clock.advance(Span::seconds(50));
    let early = lifecycle.reclaim(plan, &ada());
    assert!(matches!(
        early,
        Err(Error::Refused(Refusal::LeaseRuns { .. }))
    ));
    assert_eq!(lifecycle.reclaim_expired(10, &ada()).unwrap(), Vec::new());
    clock.advance(Span::seconds(50));
    let reclaimed = lifecycle.reclaim_expired(10, &ada()).unwrap();
    assert_eq!(reclaimed[0].id, plan);
    assert!(matches!(
        claim.complete_strategize(Vec::new()),
        Err(Error::Refused(Refusal::Fenced { .. }))
    ));
}

#[test]
fn any_past_state_can_be_shown() {
    let (lifecycle, _) = engine();
    let plan = used(&lifecycle);
    let claim = lifecycle
        .start_strategize(plan, "worker", LEASE, &ada())
        .unwrap();
    claim.complete_strategize(Vec::new()).unwrap();
    let now = lifecycle.get_plan(plan).unwrap().plan;
    let then = lifecycle.plan_at(plan, Version(1)).unwrap().unwrap();
    assert_eq!(then.stage.to_string(), "strategize/queued");
    assert_eq!(
        lifecycle.plan_at(plan, now.version).unwrap(),
        Some(now.clone())
    );
    let future = lifecycle.plan_at(plan, now.version.next()).unwrap();
    assert!(future.is_none_or(|plan| plan.version <= now.version));
    let root = &lifecycle.decisions(plan).unwrap()[0];
    assert_eq!(root.choice.as_str(), "Look around");
}

#[test]
fn a_memory_store_has_nothing_to_migrate_or_copy() {
    let store = MemoryStore::new();
    assert_eq!(store.migrate().unwrap(), (3, 3));
    assert!(store.backup("copy.db".as_ref()).is_err());
    assert_eq!(store.info().unwrap().kind, "memory");
}

#[test]
fn a_report_ends_a_claim_as_a_worker_would() {
    let (lifecycle, clock) = engine();
    let asks = Outcome::Asks {
        question: "Which?".to_owned(),
        patience: None,
    };
    for (report, stage) in [
        (
            Report::done("Left first, then right"),
            "strategize/complete",
        ),
        (Report::failed(Category::Actor, "no"), "strategize/errored"),
        (Report::of(asks), "strategize/awaiting_input"),
        (Report::of(Outcome::Stopped), "strategize/queued"),
    ] {
        let plan = used(&lifecycle);
        let claim = lifecycle
            .start_strategize(plan, "worker", LEASE, &ada())
            .unwrap();
        let done = claim.complete(&report).unwrap();
        assert_eq!(done.plan.stage.to_string(), stage);
        assert_eq!(lifecycle.get_plan(plan).unwrap().plan, done.plan);
    }

    // What it says is the strategy; what it used is charged, once something was set aside for it.
    let plan = used(&lifecycle);
    let claim = lifecycle
        .start_strategize(plan, "worker", LEASE, &ada())
        .unwrap();
    lifecycle
        .reserve(plan, claim.epoch(), Metering::Cost, &ada())
        .unwrap();
    clock.advance(Span::seconds(5));
    let mut report = Report::done("Left first, then right");
    report.usage = Usage {
        input_tokens: 7,
        output_tokens: 3,
        cost_micros: 500,
    };
    claim.complete(&report).unwrap();
    let decisions = lifecycle.decisions(plan).unwrap();
    let choice = decisions.last().unwrap().choice.to_string();
    assert_eq!(choice, "Left first, then right");
    let settled = lifecycle.ledger(plan).unwrap().plan.settled;
    assert_eq!(
        (settled.cost, settled.tokens, settled.time / 1_000_000),
        (500, 10, 5)
    );
}

#[test]
fn a_report_of_landing_is_refused() {
    let (lifecycle, _) = engine();
    let plan = used(&lifecycle);
    let start = |phase| {
        let claim = lifecycle.claim(phase, "worker", LEASE, &ada()).unwrap();
        claim.unwrap()
    };
    start(Phase::Strategize)
        .complete(&Report::done("Go"))
        .unwrap();
    lifecycle.execute_plan(plan, &ada()).unwrap();
    let done = start(Phase::Execute)
        .complete(&Report::done("Went"))
        .unwrap();
    let result = done.plan.result.unwrap();
    assert_eq!(result.report.unwrap().as_str(), "Went");
    lifecycle.apply_plan(plan, &ada()).unwrap();
    let landing = start(Phase::Apply);
    let epoch = landing.epoch();
    let refused = landing.complete(&Report::done("Landed"));
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    assert!(lifecycle.get_plan(plan).unwrap().plan.is_held_by(epoch));
}
