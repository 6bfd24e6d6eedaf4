//! Projects as a program embeds them: made, used, paused, moved, and removed.

#![cfg(not(feature = "shuttle"))]
#![allow(
    clippy::unwrap_used,
    reason = "a test whose set-up fails has failed, and the panic says where"
)]

use plan::project::{Place, Resource};
use plan::{Actors, Caller, Name, Phase, Refusal, Span};
use planwright_lifecycle::{Call, Claim, Error, Force, Lifecycle, UseRequest};
use store::{MemoryStore, PlanFilter};
use testkit::samples;

const LEASE: Span = Span::seconds(60);

fn ada() -> Call {
    Call::by(Caller::Person("ada".to_owned()))
}

fn shop() -> Name {
    samples::name("shop")
}

fn code() -> Resource {
    samples::git("code")
}

/// An engine with a project.
fn engine() -> Lifecycle {
    let lifecycle = Lifecycle::open(MemoryStore::new());
    let project = lifecycle
        .create_project(&shop(), vec![code()], &ada())
        .unwrap();
    assert_eq!(project.resources, [code()]);
    lifecycle
}

fn request(project: Name) -> UseRequest {
    UseRequest {
        goal: Some("Look around".to_owned()),
        fallback_actors: Some(Actors::both(samples::name("robot"))),
        projects: vec![project],
        ..UseRequest::default()
    }
}

#[track_caller]
fn refusal<T>(answer: Result<T, Error>) -> Refusal {
    match answer {
        Err(Error::Refused(refusal)) => refusal,
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("it was done"),
    }
}

#[test]
fn a_project_is_created_again_and_again_with_the_same_answer() {
    let lifecycle = engine();
    let first = lifecycle.get_project(&shop()).unwrap();
    let create = |resources, call: &Call| lifecycle.create_project(&shop(), resources, call);
    assert_eq!(create(vec![code()], &ada()).unwrap(), first);
    let keyed = ada().with_key("set-up");
    for _ in 0..2 {
        assert_eq!(create(vec![code()], &keyed).unwrap(), first);
    }
    let other = create(Vec::new(), &keyed);
    assert!(matches!(other, Err(Error::KeyReused { .. })), "{other:?}");
    let other = refusal(create(Vec::new(), &ada()));
    assert!(matches!(other, Refusal::ProjectExists { .. }), "{other:?}");
    assert_eq!(lifecycle.list_projects(None, 10).unwrap(), [first]);
}

#[test]
fn a_resource_that_moved_is_moved_under_living_plans() {
    let lifecycle = engine();
    let plan = lifecycle.use_action(request(shop()), &ada()).unwrap().plan;
    assert_eq!(plan.resources[0].name, "shop/code");
    let place = Place::Git {
        path: "/elsewhere".to_owned(),
        branch: "refs/heads/main".to_owned(),
    };
    let host: plan::project::HostId = "other-host".parse().unwrap();
    let moved = lifecycle
        .relink_resource(&shop(), &code().name, host, place, &ada())
        .unwrap();
    assert_eq!(moved.resources[0].host.as_str(), "other-host");
    assert_eq!(lifecycle.get_plan(plan.id).unwrap().plan, plan);
    // Nothing here can reach it, wherever it lies; it waits for somebody who can.
    let claim = lifecycle.start_strategize(plan.id, "w", LEASE, &ada());
    assert!(matches!(claim, Err(Error::NoHands)));
    let waiting = lifecycle.get_plan(plan.id).unwrap().plan;
    assert!(waiting.stage.waiting().is_some());
    assert_eq!(waiting.resources, plan.resources);
}

#[test]
fn a_worker_passes_over_plans_it_cannot_reach_and_those_of_a_paused_project() {
    let lifecycle = engine();
    let robot = Call::by(Caller::Worker("w".to_owned()));
    let first = lifecycle.use_action(request(shop()), &ada()).unwrap().plan;
    let unbound = UseRequest {
        projects: Vec::new(),
        ..request(shop())
    };
    let second = lifecycle.use_action(unbound, &ada()).unwrap().plan;
    let claim = || {
        let claim = lifecycle.claim(Phase::Strategize, "w", LEASE, &robot);
        claim.unwrap().map(|claim: Claim| claim.plan().id)
    };
    assert_eq!(claim(), Some(second.id));
    assert_eq!(claim(), None);
    lifecycle.pause_project(&shop(), &ada()).unwrap();
    lifecycle.pause_project(&shop(), &ada()).unwrap();
    let claim = lifecycle.start_strategize(first.id, "w", LEASE, &ada());
    assert!(matches!(claim, Err(Error::NoHands)));
}

#[test]
fn a_plan_is_made_and_claimed_at_once_on_a_project() {
    let lifecycle = engine();
    let start = |name: Name| lifecycle.use_and_start(request(name), "w", LEASE, &ada());
    assert!(matches!(start(shop()), Err(Error::NoHands)));
    let told = refusal(start(samples::name("shed")));
    assert_eq!(told, Refusal::NoSuchProject(samples::name("shed")));
    // All or nothing: what was refused left no plan.
    let of_shop = PlanFilter {
        project: Some(shop()),
        ..PlanFilter::default()
    };
    assert_eq!(lifecycle.list_plans(&of_shop, None, 10).unwrap().len(), 0);
}

#[test]
fn a_project_in_use_is_removed_by_force_only() {
    let lifecycle = engine();
    lifecycle
        .link_resource(&shop(), samples::git("docs"), &ada())
        .unwrap();
    let plan = lifecycle.use_action(request(shop()), &ada()).unwrap().plan;
    let docs = samples::git("docs").name;
    let in_use = Refusal::ProjectInUse {
        project: shop(),
        count: 1,
        plans: vec![plan.id],
    };
    let told = refusal(lifecycle.unlink_resource(&shop(), &docs, Force::No, &ada()));
    assert_eq!(told, in_use);
    assert_eq!(
        refusal(lifecycle.delete_project(&shop(), Force::No, &ada())),
        in_use
    );
    let left = lifecycle.unlink_resource(&shop(), &docs, Force::Yes, &ada());
    assert_eq!(left.unwrap().resources, [code()]);
    lifecycle
        .delete_project(&shop(), Force::Yes, &ada())
        .unwrap();
    let gone = Refusal::NoSuchProject(shop());
    assert_eq!(refusal(lifecycle.get_project(&shop())), gone);
    let told = refusal(lifecycle.start_strategize(plan.id, "w", LEASE, &ada()));
    assert_eq!(told, gone);
    lifecycle.cancel(plan.id, None, &ada()).unwrap();
}
