//! Projects: checks before they are stored, what plans freeze, and when a project stops a plan from
//! starting.

use planwright_plan as plan;

use plan::command::{
    CreatePlan, CreateProject, DeleteProject, LinkResource, PauseProject, RelinkResource,
    ResumeProject, UndoLanding, UnlinkResource,
};
use plan::command::{LinkedPlan, NewPlan};
use plan::decide::DecisionRequest;
use plan::facts::LivePlans;
use plan::plan::PlanLimits;
use plan::project::{
    Project, ProjectDifference, ProjectPause, Resource, ResourceKind, ResourcePlace,
};
use plan::stage::ResultContent;
use plan::{
    Command, Decision, DecisionFacts, Plan, PlanActors, PlanId, Profile, QualifiedName,
    ReceiptOutcome, Refusal, RowWrite, Verb, decide,
};

use crate::spot::Spot;
use crate::world::{LandingSetup, PlanWorld, START_TIME, ada, shop_project, worker};

fn parse_name(text: &str) -> QualifiedName {
    text.parse().unwrap()
}

fn dir_resource(resource: &str, path: &str) -> Resource {
    Resource {
        name: resource.parse().unwrap(),
        host: "here".parse().unwrap(),
        place: ResourcePlace::Dir { path: path.into() },
    }
}

fn git_resource(resource: &str, path: &str, branch: &str) -> Resource {
    Resource {
        place: ResourcePlace::Git {
            path: path.into(),
            branch: branch.into(),
        },
        ..dir_resource(resource, path)
    }
}

fn facts_with_projects(projects: &[Project]) -> DecisionFacts {
    DecisionFacts {
        projects: projects.to_vec(),
        ..DecisionFacts::default()
    }
}

fn decide_command(facts: &DecisionFacts, command: Command) -> Result<Decision, Refusal> {
    let request = DecisionRequest {
        command,
        plan_id: None,
        caller: ada(),
        if_version: None,
    };
    decide(facts, &request, START_TIME)
}

/// Returns the only project that the decision stores.
#[track_caller]
fn stored_project(answer: Result<Decision, Refusal>) -> Project {
    let decision = answer.unwrap();
    assert_eq!(decision.receipt.outcome, ReceiptOutcome::Done);
    match decision.rows.as_slice() {
        [RowWrite::PutProject(project)] => project.clone(),
        rows => panic!("{rows:?}"),
    }
}

#[track_caller]
fn assert_already_done(answer: Result<Decision, Refusal>) {
    let decision = answer.unwrap();
    assert_eq!(decision.receipt.outcome, ReceiptOutcome::AlreadyDone);
    assert_eq!((decision.rows, decision.plans), (Vec::new(), Vec::new()));
}

fn create_command(resources: &[Resource]) -> Command {
    Command::from(CreateProject {
        name: parse_name("shop"),
        resources: resources.to_vec(),
    })
}

fn link_command(resource: Resource) -> Command {
    Command::from(LinkResource {
        project: parse_name("shop"),
        resource,
    })
}

fn relink_command(resource: Resource) -> Command {
    Command::from(RelinkResource {
        project: parse_name("shop"),
        name: resource.name,
        host: resource.host,
        place: resource.place,
    })
}

fn unlink_command(resource: &str, force: bool) -> Command {
    Command::from(UnlinkResource {
        project: parse_name("shop"),
        name: resource.parse().unwrap(),
        force,
    })
}

fn delete_command(force: bool) -> Command {
    Command::from(DeleteProject {
        name: parse_name("shop"),
        force,
    })
}

fn new_plan_on(projects: &[&str]) -> NewPlan {
    NewPlan {
        definitions: Vec::new(),
        strategy_wanted: false,
        bases: Vec::new(),
        policy: Default::default(),
        id: PlanId::from_parts(1, 1),
        action: None,
        goal: Some("tidy up".into()),
        arguments: Vec::new(),
        fallback_actors: Some(PlanActors::for_both_phases(parse_name("bot"))),
        profile: None,
        fallback_profile: None,
        limits: PlanLimits::default(),
        projects: projects.iter().map(|text| parse_name(text)).collect(),
    }
}

fn use_projects(facts: &DecisionFacts, projects: &[&str]) -> Result<Plan, Refusal> {
    let decision = decide_command(facts, Command::from(CreatePlan(new_plan_on(projects))))?;
    Ok(Plan::clone(&decision.plans[0].plan))
}

#[test]
fn creating_the_same_project_again_succeeds() {
    let resources = shop_project().resources;
    let project = stored_project(decide_command(
        &facts_with_projects(&[]),
        create_command(&resources),
    ));
    assert_eq!(project, shop_project());
    // The order of resources does not matter.
    let turned: Vec<Resource> = resources.iter().rev().cloned().collect();
    assert_eq!(
        stored_project(decide_command(
            &facts_with_projects(&[]),
            create_command(&turned)
        )),
        shop_project()
    );
    assert_already_done(decide_command(
        &facts_with_projects(&[shop_project()]),
        create_command(&turned),
    ));
    // A paused project still counts as the same.
    let paused = stored_project(decide_command(
        &facts_with_projects(&[shop_project()]),
        Command::from(PauseProject(parse_name("shop"))),
    ));
    assert_already_done(decide_command(
        &facts_with_projects(&[paused]),
        create_command(&resources),
    ));
}

#[test]
fn a_different_project_of_the_same_name_is_refused_with_the_difference() {
    let asked = [
        git_resource("app", "/src/app", "refs/heads/next"),
        dir_resource("more", "/more"),
    ];
    let refusal = decide_command(
        &facts_with_projects(&[shop_project()]),
        create_command(&asked),
    )
    .unwrap_err();
    let one = |text: &str| vec![text.parse().unwrap()];
    assert_eq!(
        refusal,
        Refusal::ProjectExists {
            name: parse_name("shop"),
            at: START_TIME,
            difference: ProjectDifference {
                missing: one("more"),
                unexpected: one("docs"),
                relocated: one("app"),
            },
        }
    );
    assert_eq!(
        refusal.to_string(),
        "project `shop` already exists, without `more`, also with \
         `docs`, with another location for `app`"
    );
}

#[test]
fn invalid_resources_are_refused() {
    let refused = |resources: &[Resource]| {
        decide_command(&facts_with_projects(&[]), create_command(resources)).unwrap_err()
    };
    let bad = |resource: &str, why| Refusal::BadResource {
        name: resource.parse().unwrap(),
        why,
    };
    assert_eq!(
        refused(&[dir_resource("a", "src")]),
        bad("a", "its path is not absolute")
    );
    assert_eq!(
        refused(&[dir_resource("a", "/a"), dir_resource("a", "/b")]),
        bad("a", "it is listed twice")
    );
    assert_eq!(
        decide_command(
            &facts_with_projects(&[shop_project()]),
            link_command(git_resource("new", "/new", "main"))
        ),
        Err(bad(
            "new",
            "its branch is not a full name such as refs/heads/main"
        ))
    );
    assert_eq!(
        decide_command(
            &facts_with_projects(&[shop_project()]),
            relink_command(dir_resource("docs", ""))
        ),
        Err(bad("docs", "its path is empty"))
    );
    let branch = |length: usize| {
        let branch = format!("refs/heads/{}", "b".repeat(length - "refs/heads/".len()));
        decide_command(
            &facts_with_projects(&[shop_project()]),
            link_command(git_resource("new", "/new", &branch)),
        )
    };
    assert!(branch(255).is_ok());
    assert_eq!(
        branch(256),
        Err(bad("new", "its branch is not a valid git branch name"))
    );
}

#[test]
fn two_resources_of_a_project_cannot_share_a_directory() {
    let taken = |name_: &str, other: &str| {
        Err(Refusal::PlaceTaken {
            project: parse_name("shop"),
            name: name_.parse().unwrap(),
            other: other.parse().unwrap(),
        })
    };
    let twice = [
        git_resource("a", "/src", "refs/heads/a"),
        git_resource("b", "/src/", "refs/heads/b"),
    ];
    assert_eq!(
        decide_command(&facts_with_projects(&[]), create_command(&twice)),
        taken("b", "a")
    );
    let facts = facts_with_projects(&[shop_project()]);
    assert_eq!(
        decide_command(&facts, link_command(dir_resource("b", "/src/app"))),
        taken("b", "app")
    );
    assert_eq!(
        decide_command(&facts, relink_command(dir_resource("docs", "/src/app"))),
        taken("docs", "app")
    );
    // The same path on another host is another directory.
    let elsewhere = Resource {
        host: "there".parse().unwrap(),
        ..dir_resource("b", "/src/app")
    };
    stored_project(decide_command(&facts, link_command(elsewhere)));
}

#[test]
fn a_resource_is_linked_once_and_moved_by_relinking_only() {
    let facts = facts_with_projects(&[shop_project()]);
    let more = dir_resource("assets", "/assets");
    let project = stored_project(decide_command(&facts, link_command(more.clone())));
    let names: Vec<&str> = project.resources.iter().map(|r| r.name.as_str()).collect();
    assert_eq!(names, ["app", "assets", "docs"]);
    assert_already_done(decide_command(
        &facts_with_projects(&[project]),
        link_command(more),
    ));
    let moved = git_resource("app", "/src/app", "refs/heads/next");
    assert_eq!(
        decide_command(&facts, link_command(moved.clone())),
        Err(Refusal::ResourceExists {
            project: parse_name("shop"),
            name: moved.name.clone(),
        })
    );
    let project = stored_project(decide_command(&facts, relink_command(moved.clone())));
    assert_eq!(project.resource(&moved.name), Some(&moved));
    assert_eq!(project.resources.len(), 2);
    assert_already_done(decide_command(
        &facts_with_projects(&[project]),
        relink_command(moved),
    ));
    assert_eq!(
        decide_command(&facts, relink_command(dir_resource("app", "/src/app"))),
        Err(Refusal::ResourceKind {
            project: parse_name("shop"),
            name: "app".parse().unwrap(),
            kind: ResourceKind::Git,
        })
    );
}

#[test]
fn missing_projects_and_resources_are_refused() {
    let commands = [
        link_command(dir_resource("a", "/a")),
        relink_command(dir_resource("a", "/a")),
        unlink_command("a", true),
        Command::from(PauseProject(parse_name("shop"))),
        Command::from(ResumeProject(parse_name("shop"))),
        delete_command(true),
    ];
    for command in commands {
        let verb = command.verb();
        let answer = decide_command(&facts_with_projects(&[]), command);
        assert_eq!(
            answer,
            Err(Refusal::NoSuchProject(parse_name("shop"))),
            "{verb}"
        );
    }
    for command in [
        relink_command(dir_resource("a", "/a")),
        unlink_command("a", true),
    ] {
        let verb = command.verb();
        let no_such = Refusal::NoSuchResource {
            project: parse_name("shop"),
            name: "a".parse().unwrap(),
        };
        assert_eq!(
            decide_command(&facts_with_projects(&[shop_project()]), command),
            Err(no_such),
            "{verb}"
        );
    }
}

#[test]
fn unfinished_plans_keep_a_project_and_its_resources_unless_forced() {
    let plans: Vec<PlanId> = (1..=7).map(|one| PlanId::from_parts(one, 1)).collect();
    let facts = DecisionFacts {
        live_plans: LivePlans {
            count: 12,
            newest: plans.clone(),
        },
        ..facts_with_projects(&[shop_project()])
    };
    for command in [delete_command(false), unlink_command("docs", false)] {
        let refusal = decide_command(&facts, command).unwrap_err();
        let Refusal::ProjectInUse {
            count,
            plans: named,
            ..
        } = &refusal
        else {
            panic!("{refusal}");
        };
        assert_eq!((*count, named.as_slice()), (12, &plans[..5]));
        let message = refusal.to_string();
        assert!(message.ends_with(" and 7 more"), "{message}");
    }
    let dropped = decide_command(&facts, delete_command(true)).unwrap().rows;
    assert_eq!(dropped, [RowWrite::DropProject(parse_name("shop"))]);
    let remaining = stored_project(decide_command(&facts, unlink_command("docs", true)));
    assert_eq!(remaining.resources, shop_project().resources[..1]);
    // Linking, relinking and pausing do not harm unfinished plans, so they need no force.
    stored_project(decide_command(
        &facts,
        link_command(dir_resource("more", "/more")),
    ));
    stored_project(decide_command(
        &facts,
        relink_command(dir_resource("docs", "/elsewhere")),
    ));
    stored_project(decide_command(
        &facts,
        Command::from(PauseProject(parse_name("shop"))),
    ));
    // Without unfinished plans no force is needed.
    decide_command(
        &facts_with_projects(&[shop_project()]),
        delete_command(false),
    )
    .unwrap();
}

#[test]
fn pausing_and_resuming_twice_changes_nothing() {
    let pause = || Command::from(PauseProject(parse_name("shop")));
    let resume = || Command::ResumeProject(ResumeProject(parse_name("shop")));
    let paused = stored_project(decide_command(
        &facts_with_projects(&[shop_project()]),
        pause(),
    ));
    let by_ada = ProjectPause {
        at: START_TIME,
        by: ada(),
    };
    assert_eq!(paused.paused, Some(by_ada));
    assert_already_done(decide_command(
        &facts_with_projects(std::slice::from_ref(&paused)),
        pause(),
    ));
    assert_eq!(
        stored_project(decide_command(&facts_with_projects(&[paused]), resume())),
        shop_project()
    );
    assert_already_done(decide_command(
        &facts_with_projects(&[shop_project()]),
        resume(),
    ));
}

#[test]
fn a_plan_freezes_its_resources_but_not_their_locations() {
    let other = Project {
        name: parse_name("acme/site"),
        resources: vec![git_resource("code", "/site", "refs/heads/live")],
        ..shop_project()
    };
    let facts = facts_with_projects(&[shop_project(), other]);
    let plan = use_projects(&facts, &["shop", "acme/site", "local/shop"]).unwrap();
    let frozen: Vec<(&str, ResourceKind, Option<&str>)> = plan
        .resources()
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
    let projects: Vec<&QualifiedName> = plan.projects().into_iter().collect();
    assert_eq!(projects, [&parse_name("acme/site"), &parse_name("shop")]);
    let written = serde_json::to_string(&(&**plan.terms(), plan.state())).unwrap();
    assert!(!written.contains("/src/app"), "{written}");
}

#[test]
fn projects_without_resources_cannot_be_used() {
    let empty = Project {
        resources: Vec::new(),
        ..shop_project()
    };
    assert_eq!(
        use_projects(&facts_with_projects(&[empty]), &["shop"]),
        Err(Refusal::ProjectEmpty(parse_name("shop")))
    );
    assert_eq!(
        use_projects(&facts_with_projects(&[shop_project()]), &["shop", "shed"]),
        Err(Refusal::NoSuchProject(parse_name("shed")))
    );
    assert!(
        use_projects(&facts_with_projects(&[]), &[])
            .unwrap()
            .resources()
            .is_empty()
    );
}

/// Every claimable state, with the verb that claims it.
fn claimable() -> Vec<(PlanWorld, Verb)> {
    let mut found = Vec::new();
    for spot in Spot::ALL {
        let world = spot.default_world();
        let verb = match world.plan().phase() {
            plan::Phase::Strategize => Verb::StartStrategize,
            plan::Phase::Execute => Verb::StartExecute,
            plan::Phase::Apply => Verb::StartApply,
        };
        if world.plan().stage().queue_entry().is_some() {
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
        let paused = ProjectPause {
            at: START_TIME,
            by: ada(),
        };
        world.facts.projects[0].paused = Some(paused.clone());
        for caller in [ada(), worker()] {
            let answer = world.decide(&caller, world.default_command(verb));
            if world.plan().is_prepared() {
                assert!(answer.is_ok(), "{} {answer:?}", world.stage());
                continue;
            }
            let refusal = Refusal::ProjectPaused {
                project: parse_name("shop"),
                paused: paused.clone(),
            };
            assert_eq!(answer, Err(refusal), "{verb} in {}", world.stage());
        }
    }
}

#[test]
fn no_phase_starts_without_its_resources_unless_the_change_is_landing() {
    for (mut world, verb) in claimable() {
        let prepared = world.plan().is_prepared();
        let mut refuses = |projects: Vec<Project>, refusal: Refusal| {
            world.facts.projects = projects;
            let answer = world.decide(&ada(), world.default_command(verb));
            match answer {
                Ok(_) => assert!(prepared, "{verb} in {}", world.stage()),
                Err(actual) => assert_eq!((prepared, actual), (false, refusal)),
            }
        };
        refuses(Vec::new(), Refusal::NoSuchProject(parse_name("shop")));
        let mut less = shop_project();
        less.resources.remove(1);
        let no_such = Refusal::NoSuchResource {
            project: parse_name("shop"),
            name: "docs".parse().unwrap(),
        };
        refuses(vec![less], no_such);
    }
}

#[test]
fn a_holder_can_finish_on_a_paused_project() {
    let mut world = PlanWorld::new(Profile::Review, LandingSetup::OnTargets);
    world.submit_as_person(Verb::StartStrategize);
    world.facts.projects[0].paused = Some(ProjectPause {
        at: START_TIME,
        by: ada(),
    });
    world.submit_as_person(Verb::CompleteStrategize);
}

#[test]
fn a_linked_plan_can_use_only_the_resources_of_its_origin() {
    let world = Spot::ApplyApplied.default_world();
    let undo = |resources: &[&str]| {
        Command::from(UndoLanding(LinkedPlan {
            id: PlanId::from_parts(9, 9),
            resources: resources.iter().map(|one| (*one).to_owned()).collect(),
            result: ResultContent::default(),
        }))
    };
    let made = world.decide(&ada(), undo(&["shop/docs"])).unwrap();
    let expected = world.plan().resource("shop/docs").unwrap();
    assert_eq!(
        made.plans[0].plan.resources(),
        std::slice::from_ref(expected).to_vec()
    );
    let refusal = world.expect_refusal(&ada(), undo(&["shop/docs", "docs"]));
    assert_eq!(refusal, Refusal::ResourceNotInPlan("docs".into()));
    let mut world = world;
    world.facts.projects.clear();
    let refusal = world.expect_refusal(&ada(), undo(&["shop/docs"]));
    assert_eq!(refusal, Refusal::NoSuchProject(parse_name("shop")));
}
