//! Projects: creating, using, pausing, relinking and deleting them.

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

fn open_engine() -> Lifecycle {
    let lifecycle = Lifecycle::open(MemoryStore::new());
    let project = lifecycle
        .projects()
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
        Ok(_) => panic!("not refused"),
    }
}

#[test]
fn creating_an_identical_project_is_idempotent() {
    let lifecycle = open_engine();
    let first = lifecycle.projects().get_project(&project_name()).unwrap();
    let create = |resources, call: &Call| {
        lifecycle
            .projects()
            .create_project(&project_name(), resources, call)
    };
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
    assert_eq!(
        lifecycle.projects().list_projects(None, 10).unwrap(),
        [first]
    );
}

#[test]
fn relinking_a_resource_does_not_change_live_plans() {
    let lifecycle = open_engine();
    let plan = lifecycle
        .use_action(make_request(project_name()), &call_as_ada())
        .unwrap()
        .plan;
    assert_eq!(plan.resources()[0].name, "shop/code");
    let place = ResourcePlace::Git {
        path: "/elsewhere".to_owned(),
        branch: "refs/heads/main".to_owned(),
    };
    let host: plan::project::HostId = "other-host".parse().unwrap();
    let moved = lifecycle
        .projects()
        .relink_resource(
            &project_name(),
            &code_resource().name,
            host,
            place,
            &call_as_ada(),
        )
        .unwrap();
    assert_eq!(moved.resources[0].host.as_str(), "other-host");
    assert_eq!(lifecycle.get_plan(plan.id()).unwrap().plan, plan);
    // This engine has no local host, so the plan waits for one that does.
    let claim = lifecycle
        .claims()
        .start_strategize(plan.id(), "w", TEST_LEASE, &call_as_ada());
    assert!(matches!(claim, Err(LifecycleError::NoLocalHost)));
    let waiting = lifecycle.get_plan(plan.id()).unwrap().plan;
    assert!(waiting.stage().queue_entry().is_some());
    assert_eq!(waiting.resources(), plan.resources());
}

#[test]
fn a_worker_skips_unreachable_plans_and_paused_projects() {
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
        let claim = lifecycle
            .claims()
            .claim_next(Phase::Strategize, "w", TEST_LEASE, &robot);
        claim.unwrap().map(|claim: Claim| claim.plan().id())
    };
    assert_eq!(claim(), Some(second.id()));
    assert_eq!(claim(), None);
    lifecycle
        .projects()
        .pause_project(&project_name(), &call_as_ada())
        .unwrap();
    lifecycle
        .projects()
        .pause_project(&project_name(), &call_as_ada())
        .unwrap();
    let claim = lifecycle
        .claims()
        .start_strategize(first.id(), "w", TEST_LEASE, &call_as_ada());
    assert!(matches!(claim, Err(LifecycleError::NoLocalHost)));
}

#[test]
fn a_refused_claim_creates_no_plan() {
    let lifecycle = open_engine();
    let start = |name: QualifiedName| {
        lifecycle
            .claims()
            .use_and_start(make_request(name), "w", TEST_LEASE, &call_as_ada())
    };
    assert!(matches!(
        start(project_name()),
        Err(LifecycleError::NoLocalHost)
    ));
    let refusal = expect_refusal(start(samples::parse_name("shed")));
    assert_eq!(refusal, Refusal::NoSuchProject(samples::parse_name("shed")));
    // All or nothing: the refused call left no plan.
    let of_shop = PlanFilter {
        project: Some(project_name()),
        ..PlanFilter::default()
    };
    assert_eq!(lifecycle.list_plans(&of_shop, None, 10).unwrap().len(), 0);
}

#[test]
fn a_project_in_use_can_only_be_deleted_by_force() {
    let lifecycle = open_engine();
    lifecycle
        .projects()
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
        plans: vec![plan.id()],
    };
    let refusal = expect_refusal(lifecycle.projects().unlink_resource(
        &project_name(),
        &docs,
        ForceRemoval::No,
        &call_as_ada(),
    ));
    assert_eq!(refusal, in_use);
    assert_eq!(
        expect_refusal(lifecycle.projects().delete_project(
            &project_name(),
            ForceRemoval::No,
            &call_as_ada()
        )),
        in_use
    );
    let remaining = lifecycle.projects().unlink_resource(
        &project_name(),
        &docs,
        ForceRemoval::Yes,
        &call_as_ada(),
    );
    assert_eq!(remaining.unwrap().resources, [code_resource()]);
    lifecycle
        .projects()
        .delete_project(&project_name(), ForceRemoval::Yes, &call_as_ada())
        .unwrap();
    let gone = Refusal::NoSuchProject(project_name());
    assert_eq!(
        expect_refusal(lifecycle.projects().get_project(&project_name())),
        gone
    );
    let refusal = expect_refusal(lifecycle.claims().start_strategize(
        plan.id(),
        "w",
        TEST_LEASE,
        &call_as_ada(),
    ));
    assert_eq!(refusal, gone);
    lifecycle
        .cancel_plan(plan.id(), None, &call_as_ada())
        .unwrap();
}
