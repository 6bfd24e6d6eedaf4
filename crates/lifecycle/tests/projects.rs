//! Projects as a program embeds them: made, used, paused, moved, and removed.

#![cfg(not(feature = "shuttle"))]
#![allow(
    clippy::unwrap_used,
    reason = "a test whose set-up fails has failed, and the panic says where"
)]

use plan::project::{Resource, ResourcePlace};
use plan::{Caller, Phase, PlanActors, QualifiedName, Refusal, Span};
use planwright_lifecycle::{Call, Claim, ForceRemoval, Lifecycle, LifecycleError, UseRequest};
use store::{MemoryStore, PlanFilter};
use testkit::samples;

const TEST_LEASE: Span = Span::from_seconds(60);

fn call_as_ada() -> Call {
    Call::by(Caller::Person("ada".to_owned()))
}

fn project_name() -> QualifiedName {
    samples::parse_name("shop")
}

fn code_resource() -> Resource {
    samples::git_resource("code")
}

/// An engine with a project.
fn open_engine() -> Lifecycle {
    let lifecycle = Lifecycle::open(MemoryStore::new());
    let project = lifecycle
        .create_project(&project_name(), vec![code_resource()], &call_as_ada())
        .unwrap();
    assert_eq!(project.resources, [code_resource()]);
    lifecycle
}

fn make_request(project: QualifiedName) -> UseRequest {
    UseRequest {
        goal: Some("Look around".to_owned()),
        fallback_actors: Some(PlanActors::for_both_phases(samples::parse_name("robot"))),
        projects: vec![project],
        ..UseRequest::default()
    }
}

#[track_caller]
fn expect_refusal<T>(answer: Result<T, LifecycleError>) -> Refusal {
    match answer {
        Err(LifecycleError::Refused(refusal)) => refusal,
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("it was done"),
    }
}

#[test]
fn a_project_is_created_again_and_again_with_the_same_answer() {
    let lifecycle = open_engine();
    let first = lifecycle.get_project(&project_name()).unwrap();
    let create =
        |resources, call: &Call| lifecycle.create_project(&project_name(), resources, call);
    assert_eq!(
        create(vec![code_resource()], &call_as_ada()).unwrap(),
        first
    );
    let keyed = call_as_ada().with_key("set-up");
    for _ in 0..2 {
        assert_eq!(create(vec![code_resource()], &keyed).unwrap(), first);
    }
    let other = create(Vec::new(), &keyed);
    assert!(
        matches!(other, Err(LifecycleError::KeyReused { .. })),
        "{other:?}"
    );
    let other = expect_refusal(create(Vec::new(), &call_as_ada()));
    assert!(matches!(other, Refusal::ProjectExists { .. }), "{other:?}");
    assert_eq!(lifecycle.list_projects(None, 10).unwrap(), [first]);
}

#[test]
fn a_resource_that_moved_is_moved_under_living_plans() {
    let lifecycle = open_engine();
    let plan = lifecycle
        .use_action(make_request(project_name()), &call_as_ada())
        .unwrap()
        .plan;
    assert_eq!(plan.resources[0].name, "shop/code");
    let place = ResourcePlace::Git {
        path: "/elsewhere".to_owned(),
        branch: "refs/heads/main".to_owned(),
    };
    let host: plan::project::HostId = "other-host".parse().unwrap();
    let moved = lifecycle
        .relink_resource(
            &project_name(),
            &code_resource().name,
            host,
            place,
            &call_as_ada(),
        )
        .unwrap();
    assert_eq!(moved.resources[0].host.as_str(), "other-host");
    assert_eq!(lifecycle.get_plan(plan.id).unwrap().plan, plan);
    // Nothing here can reach it, wherever it lies; it waits for somebody who can.
    let claim = lifecycle.start_strategize(plan.id, "w", TEST_LEASE, &call_as_ada());
    assert!(matches!(claim, Err(LifecycleError::NoLocalHost)));
    let waiting = lifecycle.get_plan(plan.id).unwrap().plan;
    assert!(waiting.stage.queue_entry().is_some());
    assert_eq!(waiting.resources, plan.resources);
}

#[test]
fn a_worker_passes_over_plans_it_cannot_reach_and_those_of_a_paused_project() {
    let lifecycle = open_engine();
    let robot = Call::by(Caller::Worker("w".to_owned()));
    let first = lifecycle
        .use_action(make_request(project_name()), &call_as_ada())
        .unwrap()
        .plan;
    let unbound = UseRequest {
        projects: Vec::new(),
        ..make_request(project_name())
    };
    let second = lifecycle.use_action(unbound, &call_as_ada()).unwrap().plan;
    let claim = || {
        let claim = lifecycle.claim(Phase::Strategize, "w", TEST_LEASE, &robot);
        claim.unwrap().map(|claim: Claim| claim.plan().id)
    };
    assert_eq!(claim(), Some(second.id));
    assert_eq!(claim(), None);
    lifecycle
        .pause_project(&project_name(), &call_as_ada())
        .unwrap();
    lifecycle
        .pause_project(&project_name(), &call_as_ada())
        .unwrap();
    let claim = lifecycle.start_strategize(first.id, "w", TEST_LEASE, &call_as_ada());
    assert!(matches!(claim, Err(LifecycleError::NoLocalHost)));
}

#[test]
fn a_plan_is_made_and_claimed_at_once_on_a_project() {
    let lifecycle = open_engine();
    let start = |name: QualifiedName| {
        lifecycle.use_and_start(make_request(name), "w", TEST_LEASE, &call_as_ada())
    };
    assert!(matches!(
        start(project_name()),
        Err(LifecycleError::NoLocalHost)
    ));
    let told = expect_refusal(start(samples::parse_name("shed")));
    assert_eq!(told, Refusal::NoSuchProject(samples::parse_name("shed")));
    // All or nothing: what was refused left no plan.
    let of_shop = PlanFilter {
        project: Some(project_name()),
        ..PlanFilter::default()
    };
    assert_eq!(lifecycle.list_plans(&of_shop, None, 10).unwrap().len(), 0);
}

#[test]
fn a_project_in_use_is_removed_by_force_only() {
    let lifecycle = open_engine();
    lifecycle
        .link_resource(
            &project_name(),
            samples::git_resource("docs"),
            &call_as_ada(),
        )
        .unwrap();
    let plan = lifecycle
        .use_action(make_request(project_name()), &call_as_ada())
        .unwrap()
        .plan;
    let docs = samples::git_resource("docs").name;
    let in_use = Refusal::ProjectInUse {
        project: project_name(),
        count: 1,
        plans: vec![plan.id],
    };
    let told = expect_refusal(lifecycle.unlink_resource(
        &project_name(),
        &docs,
        ForceRemoval::No,
        &call_as_ada(),
    ));
    assert_eq!(told, in_use);
    assert_eq!(
        expect_refusal(lifecycle.delete_project(&project_name(), ForceRemoval::No, &call_as_ada())),
        in_use
    );
    let left = lifecycle.unlink_resource(&project_name(), &docs, ForceRemoval::Yes, &call_as_ada());
    assert_eq!(left.unwrap().resources, [code_resource()]);
    lifecycle
        .delete_project(&project_name(), ForceRemoval::Yes, &call_as_ada())
        .unwrap();
    let gone = Refusal::NoSuchProject(project_name());
    assert_eq!(expect_refusal(lifecycle.get_project(&project_name())), gone);
    let told = expect_refusal(lifecycle.start_strategize(plan.id, "w", TEST_LEASE, &call_as_ada()));
    assert_eq!(told, gone);
    lifecycle
        .cancel_plan(plan.id, None, &call_as_ada())
        .unwrap();
}
