//! Creating plans: what they inherit, which agent they get, and what is said about them.

use lifecycle::Lifecycle;
use plan::actor::{ActorKind, CommandLine};
use plan::plan::ProfileSource;
use plan::{ActorDefinition, Money, Profile, QualifiedName, Span};
use planwright_api::actions::{self, ActionError};
use planwright_api::actors::{ActorCatalog, UnreadableActor};
use planwright_api::plan_config::{
    LimitOverrides, PlanConfig, PlanDefaults, RepositoryAction, RepositoryConfig,
};
use planwright_api::plans::{self, CreatePlanError, CreatePlanRequest, CreatedPlan, PlanNotice};
use store::{MemoryStore, PlanFilter};
use testkit::samples;

use crate::shop_repository::{ShopFixture, call_as_ada};

fn open_engine() -> Lifecycle {
    Lifecycle::open(MemoryStore::new())
}

/// An agent that is not searched on the PATH.
fn define_actor(name: &str) -> ActorDefinition {
    ActorDefinition {
        name: samples::parse_name(name),
        description: None,
        kind: ActorKind::Command(Box::new(CommandLine {
            command: vec![format!("/opt/{name}")],
            ..CommandLine::default()
        })),
    }
}

fn config_with_actors(names: &[&str]) -> PlanConfig {
    PlanConfig {
        actors: ActorCatalog {
            own: names.iter().copied().map(define_actor).collect(),
            ..ActorCatalog::default()
        },
        ..PlanConfig::default()
    }
}

fn request_goal(goal: &str) -> CreatePlanRequest {
    CreatePlanRequest {
        goal: Some(goal.to_owned()),
        ..CreatePlanRequest::default()
    }
}

fn create(
    lifecycle: &Lifecycle,
    request: &CreatePlanRequest,
    config: &PlanConfig,
) -> Result<CreatedPlan, CreatePlanError> {
    plans::create_plan(lifecycle, request, config, &call_as_ada())
}

fn list_plan_count(lifecycle: &Lifecycle) -> usize {
    let rows = lifecycle.list_plans(&PlanFilter::default(), None, 10);
    rows.unwrap().len()
}

#[test]
fn a_plan_for_a_registered_project_needs_no_working_directory() {
    let shop = ShopFixture::new();
    let request = CreatePlanRequest {
        projects: vec![samples::parse_name("shop")],
        ..request_goal("Write notes")
    };
    let created = create(&shop.lifecycle, &request, &config_with_actors(&["robot"])).unwrap();
    let plan = &created.outcome.plan;
    assert_eq!(plan.resources().len(), 1);
    assert_eq!(
        plan.resources()[0].target.as_deref(),
        Some("refs/heads/main")
    );
    assert_eq!(plan.actors().execution, samples::parse_name("robot"));
    assert_eq!(plan.definitions(), [define_actor("robot")]);
}

#[test]
fn defaults_rank_request_environment_repository_user() {
    let layer = |attempts, profile| PlanDefaults {
        profile: Some(profile),
        limits: LimitOverrides {
            attempts: Some(attempts),
            ..LimitOverrides::default()
        },
        ..PlanDefaults::default()
    };
    let mut config = config_with_actors(&["robot"]);
    config.user = layer(1, Profile::Manual);
    let check = |config: &PlanConfig, request: &CreatePlanRequest, attempts, profile, source| {
        let plan = create(&open_engine(), request, config)
            .unwrap()
            .outcome
            .plan;
        assert_eq!(plan.limits().attempts, attempts);
        assert_eq!((plan.profile(), plan.profile_source()), (profile, source));
    };
    let mut request = request_goal("Look around");
    check(&config, &request, 1, Profile::Manual, ProfileSource::User);
    config.repository.defaults = layer(2, Profile::Auto);
    check(
        &config,
        &request,
        2,
        Profile::Auto,
        ProfileSource::Repository,
    );
    config.environment = layer(3, Profile::Review);
    check(&config, &request, 3, Profile::Review, ProfileSource::User);
    request.limits.attempts = Some(4);
    request.profile = Some(Profile::Supervised);
    check(
        &config,
        &request,
        4,
        Profile::Supervised,
        ProfileSource::Flag,
    );
}

#[test]
fn each_limit_is_resolved_separately() {
    let mut config = config_with_actors(&["robot"]);
    config.repository.defaults.limits.cost = Some("2.50".parse::<Money>().unwrap());
    config.user.limits.tokens = Some(1000);
    let mut request = request_goal("Look around");
    request.limits.time = Some(Span::from_seconds(60));
    let limits = create(&open_engine(), &request, &config)
        .unwrap()
        .outcome
        .plan
        .limits();
    assert_eq!(limits.cost, Some("2.50".parse().unwrap()));
    assert_eq!(limits.tokens, Some(1000));
    assert_eq!(limits.time, Some(Span::from_seconds(60)));
    // Without it, an agent that hangs would hold its plan forever.
    assert_eq!(limits.timeout, Some(Span::from_seconds(3600)));
}

#[test]
fn a_goal_needs_one_known_and_installed_agent() {
    let lifecycle = open_engine();
    let none = create(&lifecycle, &request_goal("Look"), &config_with_actors(&[]));
    assert!(
        matches!(none, Err(CreatePlanError::NoActorInstalled)),
        "{none:?}"
    );

    let two = config_with_actors(&["one", "other"]);
    match create(&lifecycle, &request_goal("Look"), &two) {
        Err(CreatePlanError::SeveralActors(names)) => {
            assert_eq!(names, ["one", "other"].map(samples::parse_name));
        }
        other => panic!("{other:?}"),
    }

    let named = |name: &str| CreatePlanRequest {
        actor: Some(samples::parse_name(name)),
        ..request_goal("Look")
    };
    match create(&lifecycle, &named("nobody"), &two) {
        Err(CreatePlanError::UnknownActor { name, known }) => {
            assert_eq!(name, samples::parse_name("nobody"));
            assert!(known.contains(&samples::parse_name("other")), "{known:?}");
        }
        other => panic!("{other:?}"),
    }

    let mut missing = config_with_actors(&[]);
    missing.actors.own.push(ActorDefinition {
        kind: ActorKind::Command(Box::new(CommandLine {
            command: vec!["not-installed".to_owned()],
            ..CommandLine::default()
        })),
        ..define_actor("absent")
    });
    match create(&lifecycle, &request_goal("Look"), &missing) {
        Err(CreatePlanError::ProgramMissing { program, .. }) => {
            assert_eq!(program, "not-installed");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(list_plan_count(&lifecycle), 0);

    create(&lifecycle, &named("other"), &two).unwrap();
}

#[test]
fn an_unreadable_definition_only_stops_plans_that_use_it() {
    let mut config = config_with_actors(&["robot"]);
    config.actors.unreadable.push(UnreadableActor {
        name: samples::parse_name("broken"),
        problem: "broken.yaml: no command".to_owned(),
    });
    let request = |name: &str| CreatePlanRequest {
        actor: Some(samples::parse_name(name)),
        ..request_goal("Look")
    };
    let lifecycle = open_engine();
    create(&lifecycle, &request("robot"), &config).unwrap();
    let broken = create(&lifecycle, &request("broken"), &config);
    assert!(
        matches!(broken, Err(CreatePlanError::UnreadableActor(_))),
        "{broken:?}"
    );
}

fn repository_with_action(description: &str) -> RepositoryConfig {
    let mut definition = samples::reusable_action("tidy");
    definition.description = description.to_owned();
    definition.actors = None;
    RepositoryConfig {
        actions: vec![RepositoryAction {
            definition,
            file: "/home/ada/shop/planwright.yaml".into(),
        }],
        ..RepositoryConfig::default()
    }
}

fn request_tidy() -> CreatePlanRequest {
    CreatePlanRequest {
        action: Some(samples::parse_name("tidy")),
        actor: Some(samples::parse_name("robot")),
        ..CreatePlanRequest::default()
    }
}

#[test]
fn a_plan_keeps_the_action_that_its_repository_defined() {
    let lifecycle = open_engine();
    let mut config = config_with_actors(&["robot"]);
    config.repository = repository_with_action("Tidy up");
    let first = create(&lifecycle, &request_tidy(), &config).unwrap();
    config.repository = repository_with_action("Tidy up well");
    let second = create(&lifecycle, &request_tidy(), &config).unwrap();
    let frozen = |created: &CreatedPlan| created.outcome.plan.action().cloned().unwrap();
    assert_ne!(frozen(&first), frozen(&second));
    for (created, description) in [(&first, "Tidy up"), (&second, "Tidy up well")] {
        assert!(actions::is_frozen(&frozen(created)));
        let stored = lifecycle.actions().get_action(&frozen(created)).unwrap();
        assert_eq!(stored.definition.description, description);
    }
}

#[test]
fn a_stored_action_wins_and_the_repositorys_is_mentioned() {
    let lifecycle = open_engine();
    lifecycle
        .actions()
        .create_action(samples::reusable_action("tidy"), &call_as_ada())
        .unwrap();
    let mut config = config_with_actors(&["robot"]);
    config.repository = repository_with_action("Tidy up");
    let created = create(&lifecycle, &request_tidy(), &config).unwrap();
    let action = created.outcome.plan.action();
    assert_eq!(action, Some(&samples::parse_name("tidy")));
    let notices = plans::find_notices(&lifecycle, &request_tidy(), &config, &created);
    assert!(
        notices.contains(&PlanNotice::OtherActionInRepository {
            action: samples::parse_name("tidy"),
            file: "/home/ada/shop/planwright.yaml".into(),
        }),
        "{notices:?}"
    );
}

#[test]
fn repositories_must_agree_on_an_action() {
    let mut config = config_with_actors(&["robot"]);
    let [one, other] = ["Tidy up", "Tidy up well"].map(repository_with_action);
    config.repository.actions = [one.actions, other.actions].concat();
    let refused = create(&open_engine(), &request_tidy(), &config);
    assert!(
        matches!(
            refused,
            Err(CreatePlanError::Action(
                ActionError::DefinitionsDiffer { .. }
            ))
        ),
        "{refused:?}"
    );
}

#[test]
fn an_unknown_action_names_the_known_ones() {
    let config = PlanConfig {
        repository: repository_with_action("Tidy up"),
        ..config_with_actors(&["robot"])
    };
    let request = CreatePlanRequest {
        action: Some(samples::parse_name("tydi")),
        ..CreatePlanRequest::default()
    };
    match create(&open_engine(), &request, &config) {
        Err(CreatePlanError::Action(ActionError::UnknownAction { known, .. })) => {
            assert_eq!(known, [samples::parse_name("tidy")]);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn notices_say_what_the_agent_does_not_see() {
    let shop = ShopFixture::new();
    std::fs::write(shop.path().join("draft.md"), "later").unwrap();
    std::fs::write(shop.path().join("planwright.yaml"), "profile: review\n").unwrap();
    let name: QualifiedName = samples::parse_name("shop");
    let projects = shop.lifecycle.projects();
    projects.pause_project(&name, &call_as_ada()).unwrap();
    let mut request = CreatePlanRequest {
        projects: vec![name.clone()],
        ..request_goal("Write notes")
    };
    let config = config_with_actors(&["robot"]);
    let created = create(&shop.lifecycle, &request, &config).unwrap();
    let notices = plans::find_notices(&shop.lifecycle, &request, &config, &created);
    assert_eq!(
        notices,
        [
            PlanNotice::UncommittedConfig {
                resource: "shop/code".to_owned()
            },
            PlanNotice::UncommittedFiles {
                resource: "shop/code".to_owned(),
                count: 1
            },
            PlanNotice::ProjectPaused { project: name },
        ]
    );
    request.with_uncommitted_changes = true;
    assert_eq!(plans::find_source_notices(&shop.lifecycle, &request), []);
}
