//! Projects: what is checked before one is stored, what plans freeze of them, and when they keep a
//! plan from starting.

use planwright_plan as plan;

use plan::command::{LinkedPlan, NewPlan};
use plan::decide::Request;
use plan::facts::LivePlans;
use plan::plan::Limits;
use plan::project::{Paused, Place, Project, ProjectDifference, Resource, ResourceKind};
use plan::stage::ResultContent;
use plan::{
    Actors, Command, Decision, Facts, Name, Outcome, Plan, PlanId, Profile, Refusal, Row, Verb,
    decide,
};

use crate::spot::Spot;
use crate::world::{Lands, START, World, ada, shop, worker};

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn dir(resource: &str, path: &str) -> Resource {
    Resource {
        name: resource.parse().unwrap(),
        host: "here".parse().unwrap(),
        place: Place::Dir { path: path.into() },
    }
}

fn git(resource: &str, path: &str, branch: &str) -> Resource {
    Resource {
        place: Place::Git {
            path: path.into(),
            branch: branch.into(),
        },
        ..dir(resource, path)
    }
}

fn on(projects: &[Project]) -> Facts {
    Facts {
        projects: projects.to_vec(),
        ..Facts::default()
    }
}

fn ask(facts: &Facts, command: Command) -> Result<Decision, Refusal> {
    let request = Request {
        command,
        plan: None,
        caller: ada(),
        if_version: None,
    };
    decide(facts, &request, START)
}

/// The one project that is stored.
#[track_caller]
fn stored(answer: Result<Decision, Refusal>) -> Project {
    let decision = answer.unwrap();
    assert_eq!(decision.receipt.outcome, Outcome::Done);
    match decision.rows.as_slice() {
        [Row::PutProject(project)] => project.clone(),
        rows => panic!("{rows:?}"),
    }
}

#[track_caller]
fn already_done(answer: Result<Decision, Refusal>) {
    let decision = answer.unwrap();
    assert_eq!(decision.receipt.outcome, Outcome::AlreadyDone);
    assert_eq!((decision.rows, decision.plans), (Vec::new(), Vec::new()));
}

fn create(resources: &[Resource]) -> Command {
    Command::CreateProject {
        name: name("shop"),
        resources: resources.to_vec(),
    }
}

fn link(resource: Resource) -> Command {
    Command::LinkResource {
        project: name("shop"),
        resource,
    }
}

fn relink(resource: Resource) -> Command {
    Command::RelinkResource {
        project: name("shop"),
        name: resource.name,
        host: resource.host,
        place: resource.place,
    }
}

fn unlink(resource: &str, force: bool) -> Command {
    Command::UnlinkResource {
        project: name("shop"),
        name: resource.parse().unwrap(),
        force,
    }
}

fn delete(force: bool) -> Command {
    Command::DeleteProject {
        name: name("shop"),
        force,
    }
}

fn new_plan(projects: &[&str]) -> NewPlan {
    NewPlan {
        definitions: Vec::new(),
        strategy_wanted: false,
        bases: Vec::new(),
        ways: Default::default(),
        id: PlanId::from_parts(1, 1),
        action: None,
        goal: Some("tidy up".into()),
        arguments: Vec::new(),
        fallback_actors: Some(Actors::both(name("bot"))),
        profile: None,
        fallback_profile: None,
        limits: Limits::default(),
        projects: projects.iter().map(|text| name(text)).collect(),
    }
}

fn used(facts: &Facts, projects: &[&str]) -> Result<Plan, Refusal> {
    let decision = ask(facts, Command::Use(new_plan(projects)))?;
    Ok(Plan::clone(&decision.plans[0].plan))
}

#[test]
fn a_project_is_created_once_and_the_very_same_again_is_fine() {
    let resources = shop().resources;
    let project = stored(ask(&on(&[]), create(&resources)));
    assert_eq!(project, shop());
    // In whatever order.
    let turned: Vec<Resource> = resources.iter().rev().cloned().collect();
    assert_eq!(stored(ask(&on(&[]), create(&turned))), shop());
    already_done(ask(&on(&[shop()]), create(&turned)));
    // That it is paused does not make it another one.
    let paused = stored(ask(&on(&[shop()]), Command::PauseProject(name("shop"))));
    already_done(ask(&on(&[paused]), create(&resources)));
}

#[test]
fn a_project_of_that_name_that_differs_is_told_how() {
    let asked = [
        git("app", "/src/app", "refs/heads/next"),
        dir("more", "/more"),
    ];
    let refusal = ask(&on(&[shop()]), create(&asked)).unwrap_err();
    let one = |text: &str| vec![text.parse().unwrap()];
    assert_eq!(
        refusal,
        Refusal::ProjectExists {
            name: name("shop"),
            at: START,
            difference: ProjectDifference {
                missing: one("more"),
                more: one("docs"),
                elsewhere: one("app"),
            },
        }
    );
    assert_eq!(
        refusal.to_string(),
        "project `shop` exists since 2026-01-01T00:00:00.000000Z, without `more`, also with \
         `docs`, with another place for `app`"
    );
}

#[test]
fn what_is_no_resource_is_refused_before_anything_is_stored() {
    let refused = |resources: &[Resource]| ask(&on(&[]), create(resources)).unwrap_err();
    let bad = |resource: &str, why| Refusal::BadResource {
        name: resource.parse().unwrap(),
        why,
    };
    assert_eq!(
        refused(&[dir("a", "src")]),
        bad("a", "its path is not absolute")
    );
    assert_eq!(
        refused(&[dir("a", "/a"), dir("a", "/b")]),
        bad("a", "it is named twice")
    );
    assert_eq!(
        ask(&on(&[shop()]), link(git("new", "/new", "main"))),
        Err(bad(
            "new",
            "its branch is not a full name such as refs/heads/main"
        ))
    );
    assert_eq!(
        ask(&on(&[shop()]), relink(dir("docs", ""))),
        Err(bad("docs", "its path is empty"))
    );
    let branch = |length: usize| {
        let branch = format!("refs/heads/{}", "b".repeat(length - "refs/heads/".len()));
        ask(&on(&[shop()]), link(git("new", "/new", &branch)))
    };
    assert!(branch(255).is_ok());
    assert_eq!(
        branch(256),
        Err(bad("new", "its branch is no name that git takes"))
    );
}

#[test]
fn two_resources_of_a_project_are_not_the_same_directory() {
    let taken = |name_: &str, other: &str| {
        Err(Refusal::PlaceTaken {
            project: name("shop"),
            name: name_.parse().unwrap(),
            other: other.parse().unwrap(),
        })
    };
    let twice = [
        git("a", "/src", "refs/heads/a"),
        git("b", "/src/", "refs/heads/b"),
    ];
    assert_eq!(ask(&on(&[]), create(&twice)), taken("b", "a"));
    let facts = on(&[shop()]);
    assert_eq!(ask(&facts, link(dir("b", "/src/app"))), taken("b", "app"));
    assert_eq!(
        ask(&facts, relink(dir("docs", "/src/app"))),
        taken("docs", "app")
    );
    // On another host it is another directory.
    let elsewhere = Resource {
        host: "there".parse().unwrap(),
        ..dir("b", "/src/app")
    };
    stored(ask(&facts, link(elsewhere)));
}

#[test]
fn a_resource_is_linked_once_and_moved_by_relinking_only() {
    let facts = on(&[shop()]);
    let more = dir("assets", "/assets");
    let project = stored(ask(&facts, link(more.clone())));
    let names: Vec<&str> = project.resources.iter().map(|r| r.name.as_str()).collect();
    assert_eq!(names, ["app", "assets", "docs"]);
    already_done(ask(&on(&[project]), link(more)));
    let moved = git("app", "/src/app", "refs/heads/next");
    assert_eq!(
        ask(&facts, link(moved.clone())),
        Err(Refusal::ResourceExists {
            project: name("shop"),
            name: moved.name.clone(),
        })
    );
    let project = stored(ask(&facts, relink(moved.clone())));
    assert_eq!(project.resource(&moved.name), Some(&moved));
    assert_eq!(project.resources.len(), 2);
    already_done(ask(&on(&[project]), relink(moved)));
    assert_eq!(
        ask(&facts, relink(dir("app", "/src/app"))),
        Err(Refusal::ResourceKind {
            project: name("shop"),
            name: "app".parse().unwrap(),
            kind: ResourceKind::Git,
        })
    );
}

#[test]
fn what_is_not_there_is_not_changed() {
    let commands = [
        link(dir("a", "/a")),
        relink(dir("a", "/a")),
        unlink("a", true),
        Command::PauseProject(name("shop")),
        Command::ResumeProject(name("shop")),
        delete(true),
    ];
    for command in commands {
        let verb = command.verb();
        let answer = ask(&on(&[]), command);
        assert_eq!(answer, Err(Refusal::NoSuchProject(name("shop"))), "{verb}");
    }
    for command in [relink(dir("a", "/a")), unlink("a", true)] {
        let verb = command.verb();
        let no_such = Refusal::NoSuchResource {
            project: name("shop"),
            name: "a".parse().unwrap(),
        };
        assert_eq!(ask(&on(&[shop()]), command), Err(no_such), "{verb}");
    }
}

#[test]
fn living_plans_keep_a_project_and_its_resources_unless_forced() {
    let plans: Vec<PlanId> = (1..=7).map(|one| PlanId::from_parts(one, 1)).collect();
    let facts = Facts {
        live_plans: LivePlans {
            count: 12,
            newest: plans.clone(),
        },
        ..on(&[shop()])
    };
    for command in [delete(false), unlink("docs", false)] {
        let refusal = ask(&facts, command).unwrap_err();
        let Refusal::ProjectInUse {
            count,
            plans: named,
            ..
        } = &refusal
        else {
            panic!("{refusal}");
        };
        assert_eq!((*count, named.as_slice()), (12, &plans[..5]));
        let said = refusal.to_string();
        assert!(said.ends_with(" and 7 more"), "{said}");
    }
    let dropped = ask(&facts, delete(true)).unwrap().rows;
    assert_eq!(dropped, [Row::DropProject(name("shop"))]);
    let left = stored(ask(&facts, unlink("docs", true)));
    assert_eq!(left.resources, shop().resources[..1]);
    // Linking, moving and pausing are what living plans need, not what harms them.
    stored(ask(&facts, link(dir("more", "/more"))));
    stored(ask(&facts, relink(dir("docs", "/elsewhere"))));
    stored(ask(&facts, Command::PauseProject(name("shop"))));
    // Nobody uses it: no force is needed.
    ask(&on(&[shop()]), delete(false)).unwrap();
}

#[test]
fn pausing_and_resuming_twice_changes_nothing() {
    let pause = || Command::PauseProject(name("shop"));
    let resume = || Command::ResumeProject(name("shop"));
    let paused = stored(ask(&on(&[shop()]), pause()));
    let by_ada = Paused {
        at: START,
        by: ada(),
    };
    assert_eq!(paused.paused, Some(by_ada));
    already_done(ask(&on(std::slice::from_ref(&paused)), pause()));
    assert_eq!(stored(ask(&on(&[paused]), resume())), shop());
    already_done(ask(&on(&[shop()]), resume()));
}

#[test]
fn a_plan_freezes_what_it_works_on_but_not_where_that_lies() {
    let other = Project {
        name: name("acme/site"),
        resources: vec![git("code", "/site", "refs/heads/live")],
        ..shop()
    };
    let facts = on(&[shop(), other]);
    let plan = used(&facts, &["shop", "acme/site", "local/shop"]).unwrap();
    let frozen: Vec<(&str, ResourceKind, Option<&str>)> = plan
        .resources
        .iter()
        .map(|one| (one.name.as_str(), one.kind, one.target.as_deref()))
        .collect();
    assert_eq!(
        frozen,
        [
            ("shop/app", ResourceKind::Git, Some("refs/heads/main")),
            ("shop/docs", ResourceKind::Dir, None),
            ("acme/site/code", ResourceKind::Git, Some("refs/heads/live")),
        ]
    );
    let projects: Vec<&Name> = plan.projects().into_iter().collect();
    assert_eq!(projects, [&name("acme/site"), &name("shop")]);
    let written = serde_json::to_string(&plan).unwrap();
    assert!(!written.contains("/src/app"), "{written}");
}

#[test]
fn only_projects_with_resources_are_used() {
    let empty = Project {
        resources: Vec::new(),
        ..shop()
    };
    assert_eq!(
        used(&on(&[empty]), &["shop"]),
        Err(Refusal::ProjectEmpty(name("shop")))
    );
    assert_eq!(
        used(&on(&[shop()]), &["shop", "shed"]),
        Err(Refusal::NoSuchProject(name("shed")))
    );
    assert!(used(&on(&[]), &[]).unwrap().resources.is_empty());
}

/// Every place a claim starts from, with the verb that claims it.
fn claimable() -> Vec<(World, Verb)> {
    let mut found = Vec::new();
    for spot in Spot::ALL {
        let world = spot.world();
        let verb = match world.plan().phase() {
            plan::Phase::Strategize => Verb::StartStrategize,
            plan::Phase::Execute => Verb::StartExecute,
            plan::Phase::Apply => Verb::StartApply,
        };
        if world.plan().stage.waiting().is_some() {
            found.push((world, verb));
        }
    }
    assert!(found.iter().any(|(world, _)| world.plan().is_prepared()));
    assert!(found.len() >= 4);
    found
}

#[test]
fn no_phase_starts_while_a_project_is_paused_unless_the_change_is_landing() {
    for (mut world, verb) in claimable() {
        let paused = Paused {
            at: START,
            by: ada(),
        };
        world.facts.projects[0].paused = Some(paused.clone());
        for caller in [ada(), worker()] {
            let answer = world.decide(&caller, world.command(verb));
            if world.plan().is_prepared() {
                assert!(answer.is_ok(), "{} {answer:?}", world.stage());
                continue;
            }
            let refusal = Refusal::ProjectPaused {
                project: name("shop"),
                paused: paused.clone(),
            };
            assert_eq!(answer, Err(refusal), "{verb} in {}", world.stage());
        }
    }
}

#[test]
fn no_phase_starts_without_what_it_works_on_unless_the_change_is_landing() {
    for (mut world, verb) in claimable() {
        let prepared = world.plan().is_prepared();
        let mut refuses = |projects: Vec<Project>, refusal: Refusal| {
            world.facts.projects = projects;
            let answer = world.decide(&ada(), world.command(verb));
            match answer {
                Ok(_) => assert!(prepared, "{verb} in {}", world.stage()),
                Err(told) => assert_eq!((prepared, told), (false, refusal)),
            }
        };
        refuses(Vec::new(), Refusal::NoSuchProject(name("shop")));
        let mut less = shop();
        less.resources.remove(1);
        let no_such = Refusal::NoSuchResource {
            project: name("shop"),
            name: "docs".parse().unwrap(),
        };
        refuses(vec![less], no_such);
    }
}

#[test]
fn a_holder_finishes_what_it_began_on_a_paused_project() {
    let mut world = World::new(Profile::Review, Lands::OnTargets);
    world.person(Verb::StartStrategize);
    world.facts.projects[0].paused = Some(Paused {
        at: START,
        by: ada(),
    });
    world.person(Verb::CompleteStrategize);
}

#[test]
fn a_plan_out_of_another_takes_only_what_that_one_works_on() {
    let world = Spot::ApplyApplied.world();
    let undo = |resources: &[&str]| {
        Command::Undo(LinkedPlan {
            id: PlanId::from_parts(9, 9),
            resources: resources.iter().map(|one| (*one).to_owned()).collect(),
            result: ResultContent::default(),
        })
    };
    let made = world.decide(&ada(), undo(&["shop/docs"])).unwrap();
    let expected = world.plan().resource("shop/docs").unwrap();
    assert_eq!(
        made.plans[0].plan.resources,
        std::slice::from_ref(expected).to_vec()
    );
    let refusal = world.refused(&ada(), undo(&["shop/docs", "docs"]));
    assert_eq!(refusal, Refusal::NotOfThePlan("docs".into()));
    let mut world = world;
    world.facts.projects.clear();
    let refusal = world.refused(&ada(), undo(&["shop/docs"]));
    assert_eq!(refusal, Refusal::NoSuchProject(name("shop")));
}
