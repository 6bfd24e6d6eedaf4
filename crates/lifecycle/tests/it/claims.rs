//! Claims: taking them from the queue, and every way to end one.

use actors::{Report, ReportOutcome, Usage};
use plan::command::RenewLease;
use plan::invariant::{Gate, RuleScope};
use plan::ledger::MeteringLevel;
use plan::stage::FailureCategory;
use plan::{Caller, Phase, PlanActors, PlanId, PlanVersion, Refusal, Span, Timestamp};
use planwright_lifecycle::{Call, Claim, Lifecycle, LifecycleError, UseRequest};
use store::fault::StoreFaults;
use store::{MemoryStore, StoreMaintenance};
use testkit::{TestClock, samples};

const TEST_LEASE: Span = Span::from_seconds(60);

fn call_as_ada() -> Call {
    Call::by(Caller::Person("ada".to_owned()))
}

fn open_engine() -> (Lifecycle, TestClock) {
    let clock = TestClock::starting_at(Timestamp(1_750_000_000_000_000));
    let store = MemoryStore::with_clock_and_faults(clock.to_store_clock(), StoreFaults::default());
    (Lifecycle::open(store), clock)
}

fn create_plan(lifecycle: &Lifecycle) -> PlanId {
    let request = UseRequest {
        goal: Some("Look around".to_owned()),
        fallback_actors: Some(PlanActors::for_both_phases(samples::parse_name("robot"))),
        ..UseRequest::default()
    };
    lifecycle
        .use_action(request, &call_as_ada())
        .unwrap()
        .plan
        .id()
}

fn claim_next(lifecycle: &Lifecycle, phase: Phase) -> Option<Claim> {
    lifecycle
        .claims()
        .claim_next(phase, "worker", TEST_LEASE, &call_as_ada())
        .unwrap()
}

#[test]
fn the_longest_waiting_plan_is_claimed_first_and_each_once() {
    let (lifecycle, _) = open_engine();
    let (one, two) = (create_plan(&lifecycle), create_plan(&lifecycle));
    let claims: Vec<Claim> =
        std::iter::from_fn(|| claim_next(&lifecycle, Phase::Strategize)).collect();
    let plans: Vec<PlanId> = claims.iter().map(|claim| claim.plan().id()).collect();
    assert_eq!(plans, [one, two]);
    assert!(
        claims
            .iter()
            .all(|claim| claim.phase() == Phase::Strategize)
    );
    assert!(claim_next(&lifecycle, Phase::Execute).is_none());
    assert!(claim_next(&lifecycle, Phase::Apply).is_none());
}

#[test]
fn a_plan_blocked_by_a_rule_is_skipped() {
    let (lifecycle, _) = open_engine();
    let (blocked, free) = (create_plan(&lifecycle), create_plan(&lifecycle));
    let rule = samples::rule_draft("never", "false", &[Gate::Strategize]);
    lifecycle
        .rules()
        .add_rule(RuleScope::Plan(blocked), rule, &call_as_ada())
        .unwrap();
    assert_eq!(
        claim_next(&lifecycle, Phase::Strategize)
            .unwrap()
            .plan()
            .id(),
        free
    );
}

#[test]
fn every_way_to_end_a_claim_ends_it() {
    let (lifecycle, _) = open_engine();
    type ClaimEnding = fn(Claim) -> String;
    let endings: [(ClaimEnding, &str); 4] = [
        (
            |claim| {
                claim
                    .fail(FailureCategory::Actor, "no")
                    .unwrap()
                    .plan
                    .stage()
                    .to_string()
            },
            "strategize/errored",
        ),
        (
            |claim| claim.ask("which?", None).unwrap().plan.stage().to_string(),
            "strategize/awaiting_input",
        ),
        (
            |claim| claim.release().unwrap().plan.stage().to_string(),
            "strategize/queued",
        ),
        (
            |claim| {
                claim
                    .complete_strategize(Vec::new())
                    .unwrap()
                    .plan
                    .stage()
                    .to_string()
            },
            "strategize/complete",
        ),
    ];
    for (end, stage) in endings {
        let plan_id = create_plan(&lifecycle);
        let claim = lifecycle
            .claims()
            .start_strategize(plan_id, "worker", TEST_LEASE, &call_as_ada())
            .unwrap();
        let epoch = claim.epoch();
        assert_eq!(end(claim), stage);
        let late =
            lifecycle.submit_command(plan_id, RenewLease::new(epoch, TEST_LEASE), &call_as_ada());
        assert!(matches!(late, Err(LifecycleError::Refused(_))), "{stage}");
    }
}

#[test]
fn a_renewed_claim_outlives_its_first_lease() {
    let (lifecycle, clock) = open_engine();
    let plan_id = create_plan(&lifecycle);
    let claim = lifecycle
        .claims()
        .start_strategize(plan_id, "worker", TEST_LEASE, &call_as_ada())
        .unwrap();
    clock.advance(Span::from_seconds(50));
    claim.renew(TEST_LEASE).unwrap();
    clock.advance(Span::from_seconds(50));
    let early = lifecycle.leases().reclaim_lease(plan_id, &call_as_ada());
    assert!(matches!(
        early,
        Err(LifecycleError::Refused(Refusal::LeaseRuns { .. }))
    ));
    assert_eq!(
        lifecycle
            .leases()
            .reclaim_expired_leases(10, &call_as_ada())
            .unwrap(),
        Vec::new()
    );
    clock.advance(Span::from_seconds(50));
    let reclaimed = lifecycle
        .leases()
        .reclaim_expired_leases(10, &call_as_ada())
        .unwrap();
    assert_eq!(reclaimed[0].id(), plan_id);
    assert!(matches!(
        claim.complete_strategize(Vec::new()),
        Err(LifecycleError::Refused(Refusal::Fenced { .. }))
    ));
}

#[test]
fn any_past_version_can_be_rebuilt() {
    let (lifecycle, _) = open_engine();
    let plan_id = create_plan(&lifecycle);
    let claim = lifecycle
        .claims()
        .start_strategize(plan_id, "worker", TEST_LEASE, &call_as_ada())
        .unwrap();
    claim.complete_strategize(Vec::new()).unwrap();
    let current = lifecycle.get_plan(plan_id).unwrap().plan;
    let first = lifecycle
        .history()
        .plan_at_version(plan_id, PlanVersion(1))
        .unwrap()
        .unwrap();
    assert_eq!(first.stage().to_string(), "strategize/queued");
    assert_eq!(
        lifecycle
            .history()
            .plan_at_version(plan_id, current.version())
            .unwrap(),
        Some(current.clone())
    );
    let future = lifecycle
        .history()
        .plan_at_version(plan_id, current.version().next())
        .unwrap();
    assert!(future.is_none_or(|plan| plan.version() <= current.version()));
    let root = &lifecycle.history().read_decisions(plan_id).unwrap()[0];
    assert_eq!(root.choice.as_str(), "Look around");
}

#[test]
fn a_memory_store_has_nothing_to_migrate_or_copy() {
    let store = MemoryStore::new();
    let version = store.read_info().unwrap().supported_schema_version;
    assert_eq!(store.migrate_schema().unwrap(), (version, version));
    assert!(store.write_backup("copy.db".as_ref()).is_err());
    assert_eq!(store.read_info().unwrap().kind, "memory");
}

#[test]
fn a_report_ends_a_claim() {
    let (lifecycle, clock) = open_engine();
    let asks = ReportOutcome::NeedsAnswer {
        question: "Which?".to_owned(),
        timeout: None,
    };
    for (report, stage) in [
        (
            Report::done("Left first, then right"),
            "strategize/complete",
        ),
        (
            Report::failed(FailureCategory::Actor, "no"),
            "strategize/errored",
        ),
        (Report::with_outcome(asks), "strategize/awaiting_input"),
        (
            Report::with_outcome(ReportOutcome::Stopped),
            "strategize/queued",
        ),
    ] {
        let plan_id = create_plan(&lifecycle);
        let claim = lifecycle
            .claims()
            .start_strategize(plan_id, "worker", TEST_LEASE, &call_as_ada())
            .unwrap();
        let done = claim.complete(&report).unwrap();
        assert_eq!(done.plan.stage().to_string(), stage);
        assert_eq!(lifecycle.get_plan(plan_id).unwrap().plan, done.plan);
    }

    // The summary becomes the strategy, and the usage is charged against the reservation.
    let plan_id = create_plan(&lifecycle);
    let claim = lifecycle
        .claims()
        .start_strategize(plan_id, "worker", TEST_LEASE, &call_as_ada())
        .unwrap();
    lifecycle
        .budgets()
        .reserve_budget(plan_id, claim.epoch(), MeteringLevel::Cost, &call_as_ada())
        .unwrap();
    clock.advance(Span::from_seconds(5));
    let mut report = Report::done("Left first, then right");
    report.usage = Usage {
        input_tokens: 7,
        output_tokens: 3,
        cost_micros: 500,
    };
    claim.complete(&report).unwrap();
    let decisions = lifecycle.history().read_decisions(plan_id).unwrap();
    let choice = decisions.last().unwrap().choice.to_string();
    assert_eq!(choice, "Left first, then right");
    let settled = lifecycle
        .budgets()
        .read_ledger(plan_id)
        .unwrap()
        .plan
        .settled;
    assert_eq!(
        (settled.cost, settled.tokens, settled.time / 1_000_000),
        (500, 10, 5)
    );
}

#[test]
fn a_report_in_apply_is_refused() {
    let (lifecycle, _) = open_engine();
    let plan_id = create_plan(&lifecycle);
    let claim_phase = |phase| {
        let claim = lifecycle
            .claims()
            .claim_next(phase, "worker", TEST_LEASE, &call_as_ada())
            .unwrap();
        claim.unwrap()
    };
    claim_phase(Phase::Strategize)
        .complete(&Report::done("Go"))
        .unwrap();
    lifecycle.execute_plan(plan_id, &call_as_ada()).unwrap();
    let done = claim_phase(Phase::Execute)
        .complete(&Report::done("Went"))
        .unwrap();
    let result = done.plan.result().unwrap();
    assert_eq!(result.report.as_ref().unwrap().as_str(), "Went");
    lifecycle.apply_plan(plan_id, &call_as_ada()).unwrap();
    let landing = claim_phase(Phase::Apply);
    let epoch = landing.epoch();
    let refused = landing.complete(&Report::done("Landed"));
    assert!(
        matches!(refused, Err(LifecycleError::Refused(_))),
        "{refused:?}"
    );
    assert!(lifecycle.get_plan(plan_id).unwrap().plan.is_held_by(epoch));
}
