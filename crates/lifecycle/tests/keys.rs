//! Keys, and what follows a commit: every command under a key is done once, and other arguments under it
//! are another thing.

#![cfg(not(feature = "shuttle"))]
#![allow(
    clippy::unwrap_used,
    reason = "a test whose set-up fails has failed, and the panic says where"
)]

use plan::invariant::{Gate, Scope};
use plan::project::{Place, Resource};
use plan::{Actors, Caller, Name, Phase, Refusal, Span, Verb};
use planwright_lifecycle::{
    Call, Error, Force, Lifecycle, Obstacle, SubmitExceptions, UseRequest, WentOn,
};
use store::MemoryStore;
use testkit::samples;

const LEASE: Span = Span::seconds(60);

fn ada() -> Call {
    Call::by(Caller::Person("ada".to_owned()))
}

fn engine() -> Lifecycle {
    Lifecycle::open(MemoryStore::new())
}

fn request() -> UseRequest {
    UseRequest {
        goal: Some("Look around".to_owned()),
        fallback_actors: Some(Actors::both(samples::name("robot"))),
        ..UseRequest::default()
    }
}

fn dir(name: &str, path: &str) -> Resource {
    Resource {
        name: name.parse().unwrap(),
        host: "somewhere".parse().unwrap(),
        place: Place::Dir { path: path.into() },
    }
}

/// What is asked a second time is answered as the first time; what differs is told so.
#[track_caller]
fn once<T: PartialEq + std::fmt::Debug>(
    key: &str,
    ask: impl Fn(&Call) -> Result<T, Error>,
    differently: impl Fn(&Call) -> Result<T, Error>,
) {
    let call = ada().with_key(key);
    let first = ask(&call).unwrap();
    assert_eq!(ask(&call).unwrap(), first, "{key}");
    match differently(&call) {
        Err(Error::KeyReused { key: told }) => assert_eq!(told, key),
        other => panic!("{key}: {other:?}"),
    }
}

#[test]
fn what_is_done_to_actions_and_rules_is_done_once_under_a_key() {
    let lifecycle = engine();
    let [tidy, sweep] = ["tidy", "sweep"].map(samples::name);
    once(
        "make",
        |call| lifecycle.create_action(samples::action("tidy"), call),
        |call| lifecycle.create_action(samples::action("sweep"), call),
    );
    let rule = |name: &str| samples::rule(name, "true", &[Gate::Apply]);
    once(
        "rule",
        |call| lifecycle.add_rule(Scope::Global, rule("small"), call),
        |call| lifecycle.add_rule(Scope::Action(tidy.clone()), rule("small"), call),
    );
    assert_eq!(lifecycle.list_rules().unwrap().rules.len(), 1);
    once(
        "unrule",
        |call| lifecycle.remove_rule(Scope::Global, "small".parse().unwrap(), call),
        |call| lifecycle.remove_rule(Scope::Global, "other".parse().unwrap(), call),
    );
    assert_eq!(lifecycle.list_rules().unwrap().rules.len(), 0);
    once(
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
    let lifecycle = engine();
    let shop = samples::name("shop");
    lifecycle
        .create_project(&shop, vec![dir("code", "/src/code")], &ada())
        .unwrap();
    once(
        "link",
        |call| lifecycle.link_resource(&shop, dir("docs", "/src/docs"), call),
        |call| lifecycle.link_resource(&shop, dir("docs", "/src/other"), call),
    );
    let docs = "docs".parse().unwrap();
    let place = |path: &str| dir("docs", path);
    once(
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
    once(
        "unlink",
        |call| lifecycle.unlink_resource(&shop, &docs, Force::No, call),
        |call| lifecycle.unlink_resource(&shop, &docs, Force::Yes, call),
    );
    let nowhere: Name = samples::name("nowhere");
    once(
        "pause",
        |call| lifecycle.pause_project(&shop, call),
        |call| lifecycle.pause_project(&nowhere, call),
    );
    assert!(lifecycle.get_project(&shop).unwrap().paused.is_some());
    once(
        "resume",
        |call| lifecycle.resume_project(&shop, call),
        |call| lifecycle.resume_project(&nowhere, call),
    );
    assert!(lifecycle.get_project(&shop).unwrap().paused.is_none());
    once(
        "delete",
        |call| lifecycle.delete_project(&shop, Force::No, call),
        |call| lifecycle.delete_project(&shop, Force::Yes, call),
    );
    assert!(matches!(
        lifecycle.get_project(&shop),
        Err(Error::Refused(Refusal::NoSuchProject(_)))
    ));
}

#[test]
fn a_plan_is_made_and_claimed_once_under_a_key() {
    let lifecycle = engine();
    let call = ada().with_key("begin");
    let first = lifecycle
        .use_and_start(request(), "w", LEASE, &call)
        .unwrap();
    let again = lifecycle
        .use_and_start(request(), "w", LEASE, &call)
        .unwrap();
    assert_eq!(again.plan().id, first.plan().id);
    assert_eq!(again.epoch(), first.epoch());
    assert!(again.done().repeated);
    let listed = lifecycle.list_plans(&store::PlanFilter::default(), None, 10);
    assert_eq!(listed.unwrap().len(), 1);
}

#[test]
fn whoever_waits_longest_is_claimed_in_every_phase() {
    let lifecycle = engine();
    assert!(
        lifecycle
            .claim(Phase::Apply, "w", LEASE, &ada())
            .unwrap()
            .is_none()
    );
    let plan = lifecycle.use_action(request(), &ada()).unwrap().plan.id;
    let claim = |phase| {
        let claim = lifecycle.claim(phase, "w", LEASE, &ada()).unwrap().unwrap();
        assert_eq!((claim.plan().id, claim.phase()), (plan, phase));
        claim
    };
    claim(Phase::Strategize)
        .complete_strategize(Vec::new())
        .unwrap();
    lifecycle.execute_plan(plan, &ada()).unwrap();
    claim(Phase::Execute)
        .complete_execute(&plan::stage::ResultContent::default())
        .unwrap();
    lifecycle.apply_plan(plan, &ada()).unwrap();
    let done = claim(Phase::Apply).complete_apply(Vec::new()).unwrap();
    assert_eq!(done.plan.stage.to_string(), "apply/applied");
}

#[test]
fn a_gate_that_does_not_open_keeps_what_was_handed_in() {
    let lifecycle = engine();
    lifecycle
        .add_rule(
            Scope::Global,
            samples::rule("never", "false", &[Gate::Apply]),
            &ada(),
        )
        .unwrap();
    let claim = lifecycle
        .use_and_start(request(), "w", LEASE, &ada())
        .unwrap();
    let plan = claim.plan().id;
    let went = claim.complete_strategize_and_go_on(Vec::new(), LEASE);
    let Ok(WentOn::Claimed(claim)) = went else {
        panic!("it waits");
    };
    let result = plan::stage::ResultContent::default();
    let went = claim.complete_execute_and_go_on(&result, LEASE).unwrap();
    let WentOn::Waits(done) = went else {
        panic!("it went on");
    };
    assert_eq!(done.plan.stage.to_string(), "execute/complete");
    let why = lifecycle.why(plan).unwrap();
    let gate = why.gate.unwrap();
    assert_eq!(gate.gate, Gate::Apply);
    assert_eq!(gate.failed.len(), 1);
    assert_eq!(gate.failed[0].rule.name.to_string(), "never");
    // What is in the way can be set aside, and then it goes on.
    lifecycle
        .waive(plan, "never".parse().unwrap(), "for once", &ada())
        .unwrap();
    lifecycle.apply_plan(plan, &ada()).unwrap();
    let claim = lifecycle.start_apply(plan, "w", LEASE, &ada()).unwrap();
    claim.complete_apply(Vec::new()).unwrap();
}

#[test]
fn a_plan_whose_project_is_gone_is_told_what_keeps_it() {
    let lifecycle = engine();
    let shop = samples::name("shop");
    lifecycle
        .create_project(&shop, vec![samples::git("code")], &ada())
        .unwrap();
    let used = UseRequest {
        projects: vec![shop.clone()],
        ..request()
    };
    let plan = lifecycle.use_action(used, &ada()).unwrap().plan.id;
    assert_eq!(lifecycle.why(plan).unwrap().obstacle, None);
    lifecycle.delete_project(&shop, Force::Yes, &ada()).unwrap();
    assert_eq!(
        lifecycle.why(plan).unwrap().obstacle,
        Some(Obstacle::Project(Refusal::NoSuchProject(shop)))
    );
}

#[test]
fn nothing_is_undone_that_did_not_land_and_no_lease_is_taken_that_runs() {
    let lifecycle = engine();
    let claim = lifecycle
        .use_and_start(request(), "w", LEASE, &ada())
        .unwrap();
    let plan = claim.plan().id;
    let undone = lifecycle.undo(plan, &ada()).map(drop);
    assert!(
        matches!(&undone, Err(Error::Refused(refusal)) if matches!(
            refusal,
            Refusal::NothingToUndo | Refusal::WrongState { verb: Verb::Undo, .. }
        )),
        "{undone:?}"
    );
    let taken = lifecycle.reclaim_from_the_gone(plan, &ada());
    assert!(
        matches!(taken, Err(Error::Refused(Refusal::LeaseRuns { .. }))),
        "{taken:?}"
    );
    // Nobody holds it: there is nothing to take.
    claim.release().unwrap();
    assert!(lifecycle.reclaim_from_the_gone(plan, &ada()).is_err());
}

#[test]
fn a_result_without_anything_is_handed_in_where_that_is_meant() {
    let lifecycle = engine();
    let plan = lifecycle.use_action(request(), &ada()).unwrap().plan.id;
    lifecycle
        .start_strategize(plan, "w", LEASE, &ada())
        .unwrap()
        .complete_strategize(Vec::new())
        .unwrap();
    lifecycle.execute_plan(plan, &ada()).unwrap();
    let claim = lifecycle.start_execute(plan, "w", LEASE, &ada()).unwrap();
    let result = plan::stage::ResultContent::default();
    let allowed = SubmitExceptions {
        empty: true,
        ..SubmitExceptions::default()
    };
    let done = lifecycle
        .complete_execute_with(plan, claim.epoch(), &result, allowed, &ada())
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
    let lifecycle = engine().with_ids(clock, || 7);
    let plans = [(); 3].map(|()| lifecycle.use_action(request(), &ada()).unwrap().plan.id);
    for plan in plans {
        let short = lifecycle.short_name(plan).unwrap();
        assert!(short.len() > 16, "{short}");
        assert_eq!(lifecycle.resolve(&short).unwrap(), plan);
        // One letter less names several.
        assert!(lifecycle.resolve(&short[1..]).is_err(), "{short}");
    }
}
