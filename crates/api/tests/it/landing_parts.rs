//! Landing a part of a result, and what is shown of the plan before and after.

use lifecycle::{LandingOutcome, PartSelection, PickMode};
use plan::repository_policy::RepositoryPolicy;
use plan::{LandingOptions, PlanId};
use planwright_api::PlanStanding;
use planwright_api::landing::{is_pickable, needs_approval, pick_for_landing};
use planwright_api::plan_status::read_status;

use crate::changing_plans::create_result;
use crate::shop_repository::{ShopFixture, call_as_ada};

fn changed_paths(shop: &ShopFixture, plan_id: PlanId) -> Vec<String> {
    let changes = shop.lifecycle.sandboxes().view_changes(plan_id).unwrap();
    let paths = changes[0].comparison.list_changed_paths(&[]).unwrap();
    paths.iter().map(ToString::to_string).collect()
}

#[test]
fn selected_paths_are_picked_until_the_result_has_landed() {
    let shop = ShopFixture::new();
    let plan_id = create_result(&shop, RepositoryPolicy::default());
    let selection = |path: &str| PartSelection {
        paths: vec![path.to_owned()],
        ..PartSelection::default()
    };
    let plan = shop.lifecycle.get_plan(plan_id).unwrap().plan;
    assert!(needs_approval(&plan) && is_pickable(&plan));

    // The version is that of the plan before the pick, so the landing must not require it.
    let call = call_as_ada().if_version(plan.version());
    let mode = PickMode::TakeSelected;
    let call = pick_for_landing(
        &shop.lifecycle,
        &plan,
        None,
        &selection("notes.md"),
        mode,
        &call,
    )
    .unwrap();
    assert_eq!(changed_paths(&shop, plan_id), ["notes.md"]);
    let options = LandingOptions::default();
    let landing = shop.lifecycle.landing();
    let landed = landing.approve_and_land(plan_id, &options, "ada", &call);
    let LandingOutcome::Landed { done, .. } = landed.unwrap() else {
        panic!("it did not land");
    };

    assert!(!needs_approval(&done.plan) && !is_pickable(&done.plan));
    let again = selection("draft.md");
    pick_for_landing(
        &shop.lifecycle,
        &done.plan,
        None,
        &again,
        mode,
        &call_as_ada(),
    )
    .unwrap();
    let after = shop.lifecycle.get_plan(plan_id).unwrap().plan;
    assert_eq!(after.version(), done.plan.version());
}

#[test]
fn a_landed_plan_that_was_undone_has_its_own_standing_and_the_undo() {
    let shop = ShopFixture::new();
    let plan_id = create_result(&shop, RepositoryPolicy::default());
    let status = read_status(&shop.lifecycle, plan_id).unwrap();
    assert_eq!(status.standing(), status.live_standing);
    assert!(status.has_sandbox && status.obstacle.is_none());
    assert_eq!(status.holder_liveness, None);

    let (landing, options) = (shop.lifecycle.landing(), LandingOptions::default());
    let call = call_as_ada();
    landing
        .approve_and_land(plan_id, &options, "ada", &call)
        .unwrap();
    let undo = landing.undo_plan(plan_id, &call).unwrap();
    landing
        .approve_and_land(undo.plan_id, &options, "ada", &call)
        .unwrap();

    let status = read_status(&shop.lifecycle, plan_id).unwrap();
    assert_eq!(status.undone_by, Some(undo.plan_id));
    assert_eq!(status.standing(), PlanStanding::Undone);
    assert_ne!(status.live_standing, PlanStanding::Undone);
}
