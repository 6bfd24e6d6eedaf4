//! Idempotency keys: a command with a key is done once, and the key is refused with other arguments.
//! Also covers claims, gates and short handles.

use std::collections::BTreeSet;

use plan::invariant::{Gate, RuleScope};
use plan::project::{Resource, ResourcePlace};
use plan::{Caller, Phase, PlanActors, QualifiedName, Refusal, Span, Verb};
use planwright_lifecycle::{
    Call, ClaimObstacle, ForceRemoval, Lifecycle, LifecycleError, NextPhase, SubmitExceptions,
    UseRequest,
};
use store::MemoryStore;
use testkit::samples;

const TEST_LEASE: Span = Span::from_seconds(60);

fn call_as_ada() -> Call {
    Call::by(Caller::Person("ada".to_owned()))
}

fn open_engine() -> Lifecycle {
    Lifecycle::open(MemoryStore::new())
}

fn make_request() -> UseRequest {
    UseRequest {
        goal: Some("Look around".to_owned()),
        fallback_actors: Some(PlanActors::for_both_phases(samples::parse_name("robot"))),
        ..UseRequest::default()
    }
}

fn dir_resource(name: &str, path: &str) -> Resource {
    Resource {
        name: name.parse().unwrap(),
        host: "somewhere".parse().unwrap(),
        place: ResourcePlace::Dir { path: path.into() },
    }
}

/// Checks that a repetition returns the same answer and that other arguments are refused.
#[track_caller]
fn check_key_applies_once<T: PartialEq + std::fmt::Debug>(
    key: &str,
    operation: impl Fn(&Call) -> Result<T, LifecycleError>,
    other_operation: impl Fn(&Call) -> Result<T, LifecycleError>,
) {
    let call = call_as_ada().with_key(key);
    let first = operation(&call).unwrap();
    assert_eq!(operation(&call).unwrap(), first, "{key}");
    match other_operation(&call) {
        Err(LifecycleError::KeyReused { key: reported_key }) => assert_eq!(reported_key, key),
        other => panic!("{key}: {other:?}"),
    }
}

/// Guards against a remembered answer reaching a caller that was not allowed to get it.
#[test]
fn a_caller_gets_no_answer_of_another() {
    let lifecycle = open_engine();
    let plan_of = |caller: Caller| {
        let call = Call::by(caller).with_key("once");
        lifecycle
            .use_action(make_request(), &call)
            .unwrap()
            .plan
            .id()
    };
    let ada = || Caller::Person("ada".to_owned());
    let of_ada = plan_of(ada());
    assert_eq!(plan_of(ada()), of_ada);
    let others = [
        Caller::Person("bob".to_owned()),
        Caller::Agent("ada".to_owned()),
        Caller::Worker("ada".to_owned()),
        Caller::Person("agent ada".to_owned()),
    ];
    let mut plans = BTreeSet::from([of_ada]);
    for other in others {
        assert!(plans.insert(plan_of(other.clone())), "{other:?}");
    }
    let cancel = |caller: Caller| {
        let call = Call::by(caller).with_key("stop");
        lifecycle.cancel_plan(of_ada, None, &call)
    };
    cancel(ada()).unwrap();
    for other in [
        Caller::Agent("ada".to_owned()),
        Caller::Worker("ada".to_owned()),
    ] {
        let refused = cancel(other);
        assert!(
            matches!(
                refused,
                Err(LifecycleError::Refused(Refusal::NotAuthorized { .. }))
            ),
            "{refused:?}"
        );
    }
}

#[test]
fn commands_on_actions_and_rules_are_done_once_per_key() {
    let lifecycle = open_engine();
    let [tidy, sweep] = ["tidy", "sweep"].map(samples::parse_name);
    check_key_applies_once(
        "make",
        |call| {
            lifecycle
                .actions()
                .create_action(samples::reusable_action("tidy"), call)
        },
        |call| {
            lifecycle
                .actions()
                .create_action(samples::reusable_action("sweep"), call)
        },
    );
    let rule = |name: &str| samples::rule_draft(name, "true", &[Gate::Apply]);
    check_key_applies_once(
        "rule",
        |call| {
            lifecycle
                .rules()
                .add_rule(RuleScope::Global, rule("small"), call)
        },
        |call| {
            lifecycle
                .rules()
                .add_rule(RuleScope::Action(tidy.clone()), rule("small"), call)
        },
    );
    assert_eq!(lifecycle.rules().list_rules().unwrap().rules.len(), 1);
    check_key_applies_once(
        "unrule",
        |call| {
            lifecycle
                .rules()
                .remove_rule(RuleScope::Global, "small".parse().unwrap(), call)
        },
        |call| {
            lifecycle
                .rules()
                .remove_rule(RuleScope::Global, "other".parse().unwrap(), call)
        },
    );
    assert_eq!(lifecycle.rules().list_rules().unwrap().rules.len(), 0);
    check_key_applies_once(
        "away",
        |call| lifecycle.actions().archive_action(&tidy, call),
        |call| lifecycle.actions().archive_action(&sweep, call),
    );
    assert_eq!(
        lifecycle
            .actions()
            .get_action(&tidy)
            .unwrap()
            .state
            .as_str(),
        "archived"
    );
}

#[test]
fn commands_on_projects_are_done_once_per_key() {
    let lifecycle = open_engine();
    let shop = samples::parse_name("shop");
    lifecycle
        .projects()
        .create_project(
            &shop,
            vec![dir_resource("code", "/src/code")],
            &call_as_ada(),
        )
        .unwrap();
    check_key_applies_once(
        "link",
        |call| {
            lifecycle
                .projects()
                .link_resource(&shop, dir_resource("docs", "/src/docs"), call)
        },
        |call| {
            lifecycle
                .projects()
                .link_resource(&shop, dir_resource("docs", "/src/other"), call)
        },
    );
    let docs = "docs".parse().unwrap();
    let place = |path: &str| dir_resource("docs", path);
    check_key_applies_once(
        "move",
        |call| {
            let to = place("/srv/docs");
            lifecycle
                .projects()
                .relink_resource(&shop, &docs, to.host, to.place, call)
        },
        |call| {
            let to = place("/srv/elsewhere");
            lifecycle
                .projects()
                .relink_resource(&shop, &docs, to.host, to.place, call)
        },
    );
    let project = lifecycle.projects().get_project(&shop).unwrap();
    assert_eq!(
        project.resource(&docs).unwrap().place,
        place("/srv/docs").place
    );
    check_key_applies_once(
        "unlink",
        |call| {
            lifecycle
                .projects()
                .unlink_resource(&shop, &docs, ForceRemoval::No, call)
        },
        |call| {
            lifecycle
                .projects()
                .unlink_resource(&shop, &docs, ForceRemoval::Yes, call)
        },
    );
    let nowhere: QualifiedName = samples::parse_name("nowhere");
    check_key_applies_once(
        "pause",
        |call| lifecycle.projects().pause_project(&shop, call),
        |call| lifecycle.projects().pause_project(&nowhere, call),
    );
    assert!(
        lifecycle
            .projects()
            .get_project(&shop)
            .unwrap()
            .paused
            .is_some()
    );
    check_key_applies_once(
        "resume",
        |call| lifecycle.projects().resume_project(&shop, call),
        |call| lifecycle.projects().resume_project(&nowhere, call),
    );
    assert!(
        lifecycle
            .projects()
            .get_project(&shop)
            .unwrap()
            .paused
            .is_none()
    );
    check_key_applies_once(
        "delete",
        |call| {
            lifecycle
                .projects()
                .delete_project(&shop, ForceRemoval::No, call)
        },
        |call| {
            lifecycle
                .projects()
                .delete_project(&shop, ForceRemoval::Yes, call)
        },
    );
    assert!(matches!(
        lifecycle.projects().get_project(&shop),
        Err(LifecycleError::Refused(Refusal::NoSuchProject(_)))
    ));
}

#[test]
fn a_plan_is_created_and_claimed_once_per_key() {
    let lifecycle = open_engine();
    let call = call_as_ada().with_key("begin");
    let first = lifecycle
        .claims()
        .use_and_start(make_request(), "w", TEST_LEASE, &call)
        .unwrap();
    let again = lifecycle
        .claims()
        .use_and_start(make_request(), "w", TEST_LEASE, &call)
        .unwrap();
    assert_eq!(again.plan().id(), first.plan().id());
    assert_eq!(again.epoch(), first.epoch());
    assert!(again.outcome().repeated);
    let listed = lifecycle.list_plans(&store::PlanFilter::default(), None, 10);
    assert_eq!(listed.unwrap().len(), 1);
}

#[test]
fn a_queued_plan_can_be_claimed_in_every_phase() {
    let lifecycle = open_engine();
    assert!(
        lifecycle
            .claims()
            .claim_next(Phase::Apply, "w", TEST_LEASE, &call_as_ada())
            .unwrap()
            .is_none()
    );
    let plan_id = lifecycle
        .use_action(make_request(), &call_as_ada())
        .unwrap()
        .plan
        .id();
    let claim = |phase| {
        let claim = lifecycle
            .claims()
            .claim_next(phase, "w", TEST_LEASE, &call_as_ada())
            .unwrap()
            .unwrap();
        assert_eq!((claim.plan().id(), claim.phase()), (plan_id, phase));
        claim
    };
    claim(Phase::Strategize)
        .complete_strategize(Vec::new())
        .unwrap();
    lifecycle.execute_plan(plan_id, &call_as_ada()).unwrap();
    claim(Phase::Execute)
        .complete_execute(&plan::stage::ResultContent::default())
        .unwrap();
    lifecycle.apply_plan(plan_id, &call_as_ada()).unwrap();
    let done = claim(Phase::Apply).complete_apply(Vec::new()).unwrap();
    assert_eq!(done.plan.stage().to_string(), "apply/applied");
}

#[test]
fn a_closed_apply_gate_keeps_the_submitted_result() {
    let lifecycle = open_engine();
    lifecycle
        .rules()
        .add_rule(
            RuleScope::Global,
            samples::rule_draft("never", "false", &[Gate::Apply]),
            &call_as_ada(),
        )
        .unwrap();
    let claim = lifecycle
        .claims()
        .use_and_start(make_request(), "w", TEST_LEASE, &call_as_ada())
        .unwrap();
    let plan_id = claim.plan().id();
    let next_phase = claim.complete_strategize_and_continue(Vec::new(), TEST_LEASE);
    let Ok(NextPhase::Claimed(claim)) = next_phase else {
        panic!("execute was not claimed");
    };
    let result = plan::stage::ResultContent::default();
    let next_phase = claim
        .complete_execute_and_continue(&result, TEST_LEASE)
        .unwrap();
    let NextPhase::Waits(done) = next_phase else {
        panic!("the plan continued");
    };
    assert_eq!(done.plan.stage().to_string(), "execute/complete");
    let why = lifecycle.diagnose_plan(plan_id).unwrap();
    let gate = why.gate.unwrap();
    assert_eq!(gate.gate, Gate::Apply);
    assert_eq!(gate.failed_rules.len(), 1);
    assert_eq!(gate.failed_rules[0].rule.name.to_string(), "never");
    // After the rule is waived, the plan continues.
    lifecycle
        .rules()
        .waive_rule(
            plan_id,
            "never".parse().unwrap(),
            "for once",
            &call_as_ada(),
        )
        .unwrap();
    lifecycle.apply_plan(plan_id, &call_as_ada()).unwrap();
    let claim = lifecycle
        .claims()
        .start_apply(plan_id, "w", TEST_LEASE, &call_as_ada())
        .unwrap();
    claim.complete_apply(Vec::new()).unwrap();
}

#[test]
fn a_deleted_project_is_reported_as_the_obstacle() {
    let lifecycle = open_engine();
    let shop = samples::parse_name("shop");
    lifecycle
        .projects()
        .create_project(&shop, vec![samples::git_resource("code")], &call_as_ada())
        .unwrap();
    let used = UseRequest {
        projects: vec![shop.clone()],
        ..make_request()
    };
    let plan_id = lifecycle
        .use_action(used, &call_as_ada())
        .unwrap()
        .plan
        .id();
    assert_eq!(lifecycle.diagnose_plan(plan_id).unwrap().obstacle, None);
    lifecycle
        .projects()
        .delete_project(&shop, ForceRemoval::Yes, &call_as_ada())
        .unwrap();
    assert_eq!(
        lifecycle.diagnose_plan(plan_id).unwrap().obstacle,
        Some(ClaimObstacle::ProjectDeleted(shop))
    );
}

#[test]
fn an_unlanded_plan_cannot_be_undone_and_a_valid_lease_cannot_be_reclaimed() {
    let lifecycle = open_engine();
    let claim = lifecycle
        .claims()
        .use_and_start(make_request(), "w", TEST_LEASE, &call_as_ada())
        .unwrap();
    let plan_id = claim.plan().id();
    let undone = lifecycle
        .landing()
        .undo_plan(plan_id, &call_as_ada())
        .map(drop);
    assert!(
        matches!(&undone, Err(LifecycleError::Refused(refusal)) if matches!(
            refusal,
            Refusal::NothingToUndo | Refusal::WrongState { verb: Verb::Undo, .. }
        )),
        "{undone:?}"
    );
    let reclaimed = lifecycle
        .leases()
        .reclaim_from_dead_holder(plan_id, &call_as_ada());
    assert!(
        matches!(
            reclaimed,
            Err(LifecycleError::Refused(Refusal::LeaseRuns { .. }))
        ),
        "{reclaimed:?}"
    );
    // The plan is not held, so there is nothing to reclaim.
    claim.release().unwrap();
    assert!(
        lifecycle
            .leases()
            .reclaim_from_dead_holder(plan_id, &call_as_ada())
            .is_err()
    );
}

#[test]
fn an_empty_result_is_accepted_if_that_is_allowed() {
    let lifecycle = open_engine();
    let plan_id = lifecycle
        .use_action(make_request(), &call_as_ada())
        .unwrap()
        .plan
        .id();
    lifecycle
        .claims()
        .start_strategize(plan_id, "w", TEST_LEASE, &call_as_ada())
        .unwrap()
        .complete_strategize(Vec::new())
        .unwrap();
    lifecycle.execute_plan(plan_id, &call_as_ada()).unwrap();
    let claim = lifecycle
        .claims()
        .start_execute(plan_id, "w", TEST_LEASE, &call_as_ada())
        .unwrap();
    let result = plan::stage::ResultContent::default();
    let allowed = SubmitExceptions {
        empty_result: true,
        ..SubmitExceptions::default()
    };
    let done = lifecycle
        .complete_execute_with(plan_id, claim.epoch(), &result, allowed, &call_as_ada())
        .unwrap();
    assert_eq!(done.plan.stage().to_string(), "execute/complete");
}

#[test]
fn a_short_handle_is_as_long_as_needed_to_be_unique() {
    let ticks = std::sync::atomic::AtomicI64::new(1_750_000_000_000_000);
    let clock = store::Clock::new(move || {
        plan::Timestamp(ticks.fetch_add(1_000_000, std::sync::atomic::Ordering::Relaxed))
    });
    // Ids that differ only in their timestamps, which come first.
    let lifecycle = open_engine().with_ids(clock, || 7);
    let plans = [(); 3].map(|()| {
        lifecycle
            .use_action(make_request(), &call_as_ada())
            .unwrap()
            .plan
            .id()
    });
    for plan in plans {
        let short = lifecycle.short_handle(plan).unwrap();
        assert!(short.len() > 16, "{short}");
        assert_eq!(lifecycle.resolve_handle(&short).unwrap(), plan);
        // One letter less is ambiguous.
        assert!(lifecycle.resolve_handle(&short[1..]).is_err(), "{short}");
    }
}
