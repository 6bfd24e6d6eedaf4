//! Keys, and what follows a commit: every command under a key is done once, and other arguments under it
//! are another thing.

#![cfg(not(feature = "shuttle"))]
#![allow(
    clippy::unwrap_used,
    reason = "a test whose set-up fails has failed, and the panic says where"
)]

use plan::invariant::{Gate, RuleScope};
use plan::project::{Resource, ResourcePlace};
use plan::{Caller, Phase, PlanActors, QualifiedName, Refusal, Span, Verb};
use planwright_lifecycle::{
    Call, ClaimObstacle, ForceRemoval, Lifecycle, LifecycleError, SubmitExceptions, UseRequest,
    WentOn,
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

/// What is asked a second time is answered as the first time; what differs is told so.
#[track_caller]
fn check_key_applies_once<T: PartialEq + std::fmt::Debug>(
    key: &str,
    ask: impl Fn(&Call) -> Result<T, LifecycleError>,
    differently: impl Fn(&Call) -> Result<T, LifecycleError>,
) {
    let call = call_as_ada().with_key(key);
    let first = ask(&call).unwrap();
    assert_eq!(ask(&call).unwrap(), first, "{key}");
    match differently(&call) {
        Err(LifecycleError::KeyReused { key: reported_key }) => assert_eq!(reported_key, key),
        other => panic!("{key}: {other:?}"),
    }
}

#[test]
fn what_is_done_to_actions_and_rules_is_done_once_under_a_key() {
    let lifecycle = open_engine();
    let [tidy, sweep] = ["tidy", "sweep"].map(samples::parse_name);
    check_key_applies_once(
        "make",
        |call| lifecycle.create_action(samples::reusable_action("tidy"), call),
        |call| lifecycle.create_action(samples::reusable_action("sweep"), call),
    );
    let rule = |name: &str| samples::rule_draft(name, "true", &[Gate::Apply]);
    check_key_applies_once(
        "rule",
        |call| lifecycle.add_rule(RuleScope::Global, rule("small"), call),
        |call| lifecycle.add_rule(RuleScope::Action(tidy.clone()), rule("small"), call),
    );
    assert_eq!(lifecycle.list_rules().unwrap().rules.len(), 1);
    check_key_applies_once(
        "unrule",
        |call| lifecycle.remove_rule(RuleScope::Global, "small".parse().unwrap(), call),
        |call| lifecycle.remove_rule(RuleScope::Global, "other".parse().unwrap(), call),
    );
    assert_eq!(lifecycle.list_rules().unwrap().rules.len(), 0);
    check_key_applies_once(
        "away",
        |call| lifecycle.archive_action(&tidy, call),
        |call| lifecycle.archive_action(&sweep, call),
    );
    assert_eq!(
        lifecycle.get_action(&tidy).unwrap().state.as_str(),
        "archived"
    );
}

#[test]
fn what_is_done_to_projects_is_done_once_under_a_key() {
    let lifecycle = open_engine();
    let shop = samples::parse_name("shop");
    lifecycle
        .create_project(
            &shop,
            vec![dir_resource("code", "/src/code")],
            &call_as_ada(),
        )
        .unwrap();
    check_key_applies_once(
        "link",
        |call| lifecycle.link_resource(&shop, dir_resource("docs", "/src/docs"), call),
        |call| lifecycle.link_resource(&shop, dir_resource("docs", "/src/other"), call),
    );
    let docs = "docs".parse().unwrap();
    let place = |path: &str| dir_resource("docs", path);
    check_key_applies_once(
        "move",
        |call| {
            let to = place("/srv/docs");
            lifecycle.relink_resource(&shop, &docs, to.host, to.place, call)
        },
        |call| {
            let to = place("/srv/elsewhere");
            lifecycle.relink_resource(&shop, &docs, to.host, to.place, call)
        },
    );
    let project = lifecycle.get_project(&shop).unwrap();
    assert_eq!(
        project.resource(&docs).unwrap().place,
        place("/srv/docs").place
    );
    check_key_applies_once(
        "unlink",
        |call| lifecycle.unlink_resource(&shop, &docs, ForceRemoval::No, call),
        |call| lifecycle.unlink_resource(&shop, &docs, ForceRemoval::Yes, call),
    );
    let nowhere: QualifiedName = samples::parse_name("nowhere");
    check_key_applies_once(
        "pause",
        |call| lifecycle.pause_project(&shop, call),
        |call| lifecycle.pause_project(&nowhere, call),
    );
    assert!(lifecycle.get_project(&shop).unwrap().paused.is_some());
    check_key_applies_once(
        "resume",
        |call| lifecycle.resume_project(&shop, call),
        |call| lifecycle.resume_project(&nowhere, call),
    );
    assert!(lifecycle.get_project(&shop).unwrap().paused.is_none());
    check_key_applies_once(
        "delete",
        |call| lifecycle.delete_project(&shop, ForceRemoval::No, call),
        |call| lifecycle.delete_project(&shop, ForceRemoval::Yes, call),
    );
    assert!(matches!(
        lifecycle.get_project(&shop),
        Err(LifecycleError::Refused(Refusal::NoSuchProject(_)))
    ));
}

#[test]
fn a_plan_is_made_and_claimed_once_under_a_key() {
    let lifecycle = open_engine();
    let call = call_as_ada().with_key("begin");
    let first = lifecycle
        .use_and_start(make_request(), "w", TEST_LEASE, &call)
        .unwrap();
    let again = lifecycle
        .use_and_start(make_request(), "w", TEST_LEASE, &call)
        .unwrap();
    assert_eq!(again.plan().id, first.plan().id);
    assert_eq!(again.epoch(), first.epoch());
    assert!(again.outcome().repeated);
    let listed = lifecycle.list_plans(&store::PlanFilter::default(), None, 10);
    assert_eq!(listed.unwrap().len(), 1);
}

#[test]
fn whoever_waits_longest_is_claimed_in_every_phase() {
    let lifecycle = open_engine();
    assert!(
        lifecycle
            .claim(Phase::Apply, "w", TEST_LEASE, &call_as_ada())
            .unwrap()
            .is_none()
    );
    let plan_id = lifecycle
        .use_action(make_request(), &call_as_ada())
        .unwrap()
        .plan
        .id;
    let claim = |phase| {
        let claim = lifecycle
            .claim(phase, "w", TEST_LEASE, &call_as_ada())
            .unwrap()
            .unwrap();
        assert_eq!((claim.plan().id, claim.phase()), (plan_id, phase));
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
    assert_eq!(done.plan.stage.to_string(), "apply/applied");
}

#[test]
fn a_gate_that_does_not_open_keeps_what_was_handed_in() {
    let lifecycle = open_engine();
    lifecycle
        .add_rule(
            RuleScope::Global,
            samples::rule_draft("never", "false", &[Gate::Apply]),
            &call_as_ada(),
        )
        .unwrap();
    let claim = lifecycle
        .use_and_start(make_request(), "w", TEST_LEASE, &call_as_ada())
        .unwrap();
    let plan_id = claim.plan().id;
    let went = claim.complete_strategize_and_go_on(Vec::new(), TEST_LEASE);
    let Ok(WentOn::Claimed(claim)) = went else {
        panic!("it waits");
    };
    let result = plan::stage::ResultContent::default();
    let went = claim
        .complete_execute_and_go_on(&result, TEST_LEASE)
        .unwrap();
    let WentOn::Waits(done) = went else {
        panic!("it went on");
    };
    assert_eq!(done.plan.stage.to_string(), "execute/complete");
    let why = lifecycle.diagnose_plan(plan_id).unwrap();
    let gate = why.gate.unwrap();
    assert_eq!(gate.gate, Gate::Apply);
    assert_eq!(gate.failed_rules.len(), 1);
    assert_eq!(gate.failed_rules[0].rule.name.to_string(), "never");
    // What is in the way can be set aside, and then it goes on.
    lifecycle
        .waive_rule(
            plan_id,
            "never".parse().unwrap(),
            "for once",
            &call_as_ada(),
        )
        .unwrap();
    lifecycle.apply_plan(plan_id, &call_as_ada()).unwrap();
    let claim = lifecycle
        .start_apply(plan_id, "w", TEST_LEASE, &call_as_ada())
        .unwrap();
    claim.complete_apply(Vec::new()).unwrap();
}

#[test]
fn a_plan_whose_project_is_gone_is_told_what_keeps_it() {
    let lifecycle = open_engine();
    let shop = samples::parse_name("shop");
    lifecycle
        .create_project(&shop, vec![samples::git_resource("code")], &call_as_ada())
        .unwrap();
    let used = UseRequest {
        projects: vec![shop.clone()],
        ..make_request()
    };
    let plan_id = lifecycle.use_action(used, &call_as_ada()).unwrap().plan.id;
    assert_eq!(lifecycle.diagnose_plan(plan_id).unwrap().obstacle, None);
    lifecycle
        .delete_project(&shop, ForceRemoval::Yes, &call_as_ada())
        .unwrap();
    assert_eq!(
        lifecycle.diagnose_plan(plan_id).unwrap().obstacle,
        Some(ClaimObstacle::Project(Refusal::NoSuchProject(shop)))
    );
}

#[test]
fn nothing_is_undone_that_did_not_land_and_no_lease_is_taken_that_runs() {
    let lifecycle = open_engine();
    let claim = lifecycle
        .use_and_start(make_request(), "w", TEST_LEASE, &call_as_ada())
        .unwrap();
    let plan_id = claim.plan().id;
    let undone = lifecycle.undo_plan(plan_id, &call_as_ada()).map(drop);
    assert!(
        matches!(&undone, Err(LifecycleError::Refused(refusal)) if matches!(
            refusal,
            Refusal::NothingToUndo | Refusal::WrongState { verb: Verb::Undo, .. }
        )),
        "{undone:?}"
    );
    let taken = lifecycle.reclaim_from_dead_holder(plan_id, &call_as_ada());
    assert!(
        matches!(
            taken,
            Err(LifecycleError::Refused(Refusal::LeaseRuns { .. }))
        ),
        "{taken:?}"
    );
    // Nobody holds it: there is nothing to take.
    claim.release().unwrap();
    assert!(
        lifecycle
            .reclaim_from_dead_holder(plan_id, &call_as_ada())
            .is_err()
    );
}

#[test]
fn a_result_without_anything_is_handed_in_where_that_is_meant() {
    let lifecycle = open_engine();
    let plan_id = lifecycle
        .use_action(make_request(), &call_as_ada())
        .unwrap()
        .plan
        .id;
    lifecycle
        .start_strategize(plan_id, "w", TEST_LEASE, &call_as_ada())
        .unwrap()
        .complete_strategize(Vec::new())
        .unwrap();
    lifecycle.execute_plan(plan_id, &call_as_ada()).unwrap();
    let claim = lifecycle
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
    assert_eq!(done.plan.stage.to_string(), "execute/complete");
}

#[test]
fn a_short_name_is_as_long_as_it_takes_to_name_only_one() {
    let ticks = std::sync::atomic::AtomicI64::new(1_750_000_000_000_000);
    let clock = store::Clock::new(move || {
        plan::Timestamp(ticks.fetch_add(1_000_000, std::sync::atomic::Ordering::Relaxed))
    });
    // Ids that differ in their time only, so in their beginnings.
    let lifecycle = open_engine().with_ids(clock, || 7);
    let plans = [(); 3].map(|()| {
        lifecycle
            .use_action(make_request(), &call_as_ada())
            .unwrap()
            .plan
            .id
    });
    for plan in plans {
        let short = lifecycle.short_handle(plan).unwrap();
        assert!(short.len() > 16, "{short}");
        assert_eq!(lifecycle.resolve_handle(&short).unwrap(), plan);
        // One letter less names several.
        assert!(lifecycle.resolve_handle(&short[1..]).is_err(), "{short}");
    }
}
