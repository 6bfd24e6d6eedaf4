//! Registering, finding and deleting projects.

use lifecycle::{ForceRemoval, UseRequest};
use plan::PlanActors;
use planwright_api::projects::{self, PlaceRequest, ProjectError, ResourceRequest};
use sandbox::GitLocation;
use testkit::samples;

use crate::shop_repository::{ShopFixture, call_as_ada};

fn shop_location(shop: &ShopFixture) -> GitLocation {
    GitLocation {
        path: shop.path().canonicalize().unwrap(),
        branch: "refs/heads/main".to_owned(),
    }
}

#[test]
fn a_resource_is_named_after_its_directory_and_lands_on_the_current_branch() {
    let shop = ShopFixture::new();
    let place = PlaceRequest::Git {
        path: shop.path(),
        branch: None,
    };
    let request = ResourceRequest { name: None, place };
    let name = samples::parse_name("store");
    let project =
        projects::create_project(&shop.lifecycle, &name, &[request], &call_as_ada()).unwrap();
    assert_eq!(project.resources[0].name.to_string(), "shop");
    assert_eq!(project.resources[0].place.branch(), Some("refs/heads/main"));
    let empty = projects::create_project(&shop.lifecycle, &name, &[], &call_as_ada());
    assert!(matches!(empty, Err(ProjectError::NoResource)), "{empty:?}");
}

#[test]
fn a_repository_is_registered_once_under_a_free_name() {
    let shop = ShopFixture::new();
    // `shop` is taken by the project of the fixture, which names its resource differently.
    let register = || {
        projects::register_repository(&shop.lifecycle, &shop_location(&shop), &call_as_ada())
            .unwrap()
    };
    let name = register();
    assert_eq!(name, samples::parse_name("shop.main"));
    assert_eq!(register(), name);
}

#[test]
fn a_directory_belongs_to_the_projects_around_it() {
    let shop = ShopFixture::new();
    let below = shop.path().join("src");
    let found = projects::projects_of_directory(&shop.lifecycle, &below).unwrap();
    assert_eq!(found, [samples::parse_name("shop")]);
    let outside = projects::projects_of_directory(&shop.lifecycle, shop.directory.path());
    assert_eq!(outside.unwrap(), []);
    let other_branch = GitLocation {
        branch: "refs/heads/other".to_owned(),
        ..shop_location(&shop)
    };
    let found = projects::find_repository(&shop.lifecycle, &other_branch).unwrap();
    assert_eq!(found, None);
}

#[test]
fn a_deleted_project_names_the_plans_that_it_strands() {
    let shop = ShopFixture::new();
    let name = samples::parse_name("shop");
    let request = UseRequest {
        goal: Some("Write notes".to_owned()),
        fallback_actors: Some(PlanActors::for_both_phases(samples::parse_name("robot"))),
        projects: vec![name.clone()],
        ..UseRequest::default()
    };
    let plan = shop.lifecycle.use_action(request, &call_as_ada()).unwrap();
    let delete = |force| projects::delete_project(&shop.lifecycle, &name, force, &call_as_ada());
    assert!(delete(ForceRemoval::No).is_err());
    let deleted = delete(ForceRemoval::Yes).unwrap();
    assert_eq!(deleted.stranded_plans, [plan.plan.id()]);
    assert_eq!(deleted.project.name, name);
}
