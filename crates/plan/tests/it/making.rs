//! Actions, rules and the plans made of them: everything is checked before anything is stored.

use planwright_plan as plan;

use plan::actor::ActorKind;
use plan::argument::{ArgumentSpec, ArgumentType, ArgumentValue};
use plan::command::NewPlan;
use plan::decide::Request;
use plan::facts::PlanChange;
use plan::invariant::{Check, Gate, RuleDraft, Scope};
use plan::plan::{Limits, ProfileSource};
use plan::profile::Step;
use plan::{
    Action, ActionState, ActorDefinition, Actors, Command, Decision, Facts, Phase, PlanId, Profile,
    Refusal, Row, decide,
};

use crate::spot::Spot;
use crate::world::{Lands, START, World, ada, worker};

fn ask(facts: &Facts, command: Command) -> Result<Decision, Refusal> {
    let request = Request {
        command,
        plan: None,
        caller: ada(),
        if_version: None,
    };
    decide(facts, &request, START)
}

fn facts() -> Facts {
    World::new(Profile::Review, Lands::OnTargets).facts
}

fn with_action(change: impl FnOnce(&mut Action)) -> Facts {
    let mut facts = facts();
    change(facts.action.as_mut().unwrap());
    facts
}

fn new_plan() -> NewPlan {
    NewPlan {
        definitions: Vec::new(),
        strategy_wanted: false,
        id: PlanId::from_parts(1, 1),
        action: Some("tidy".parse().unwrap()),
        goal: None,
        arguments: Vec::new(),
        fallback_actors: None,
        profile: None,
        fallback_profile: None,
        limits: Limits::default(),
        bases: Vec::new(),
        ways: Default::default(),
        projects: vec!["shop".parse().unwrap()],
    }
}

fn made(facts: &Facts, new: NewPlan) -> PlanChange {
    ask(facts, Command::Use(new)).unwrap().plans.remove(0)
}

#[test]
fn a_used_action_gives_a_plan_its_goal_and_actors() {
    let plan = made(&facts(), new_plan()).plan;
    assert_eq!(plan.goal.as_str(), "Tidy up");
    assert_eq!(plan.actors, Actors::both("bot".parse().unwrap()));
    assert_eq!(plan.stage.to_string(), "strategize/queued");
    assert_eq!((plan.version.0, plan.epoch.0, plan.attempt), (1, 0, 1));
}

#[test]
fn a_plan_keeps_the_definitions_of_those_who_work_on_it() {
    let human = |name: &str| ActorDefinition {
        name: name.parse().unwrap(),
        description: None,
        kind: ActorKind::Human { timeout: None },
    };
    let new = NewPlan {
        definitions: vec![human("bot"), human("somebody-else")],
        ..new_plan()
    };
    let plan = made(&facts(), new).plan;
    assert_eq!(plan.definitions, [human("bot")]);
    let bot = plan.actor_in(Phase::Execute).unwrap();
    assert_eq!(plan.definition(bot), Some(&human("bot")));
    assert_eq!(plan.actor_in(Phase::Apply), None);
}

#[test]
fn whoever_wants_a_strategy_is_asked_before_execute() {
    for profile in Profile::ALL {
        let new = NewPlan {
            strategy_wanted: true,
            profile: Some((profile, ProfileSource::Flag)),
            ..new_plan()
        };
        let plan = made(&facts(), new).plan;
        assert!(!plan.goes(Step::StartExecute), "{profile}");
        assert_eq!(plan.goes(Step::Apply), profile == Profile::Auto);
    }
}

#[test]
fn the_narrowest_word_on_the_profile_wins() {
    let action = |profile| with_action(|action| action.definition.automation_profile = profile);
    let plan_of = |action_says, flag, user| {
        let new = NewPlan {
            profile: flag,
            fallback_profile: user,
            ..new_plan()
        };
        let plan = made(&action(action_says), new).plan;
        (plan.profile, plan.profile_source)
    };
    let flag = Some((Profile::Manual, ProfileSource::Flag));
    let (auto, user) = (
        Some(Profile::Auto),
        Some((Profile::Supervised, ProfileSource::User)),
    );
    assert_eq!(
        plan_of(auto, flag, user),
        (Profile::Manual, ProfileSource::Flag)
    );
    assert_eq!(
        plan_of(auto, None, user),
        (Profile::Auto, ProfileSource::Action)
    );
    assert_eq!(
        plan_of(None, None, user),
        (Profile::Supervised, ProfileSource::User)
    );
    assert_eq!(
        plan_of(None, None, None),
        (Profile::Review, ProfileSource::Default)
    );
}

#[test]
fn an_action_that_cannot_be_used_is_refused() {
    let none = Facts::default();
    let refusal = ask(&none, Command::Use(new_plan())).unwrap_err();
    assert!(matches!(refusal, Refusal::NoSuchAction(_)));
    let archived = with_action(|action| {
        action.state = ActionState::Archived {
            at: START,
            by: ada(),
        };
    });
    let refusal = ask(&archived, Command::Use(new_plan())).unwrap_err();
    assert!(matches!(refusal, Refusal::ActionArchived { .. }));
}

#[test]
fn an_action_for_one_use_is_used_up_by_the_commit_that_uses_it() {
    let facts = with_action(|action| action.definition.reusable = false);
    let decision = ask(&facts, Command::Use(new_plan())).unwrap();
    let [Row::PutAction(used)] = decision.rows.as_slice() else {
        panic!("{:?}", decision.rows);
    };
    assert_eq!(used.used_by, Some(new_plan().id));
    let after = with_action(|action| *action = used.clone());
    let refusal = ask(&after, Command::Use(new_plan())).unwrap_err();
    assert!(matches!(refusal, Refusal::ActionUsedUp { .. }));
}

#[test]
fn a_plan_needs_a_goal_and_somebody_to_work_on_it() {
    let bare = NewPlan {
        action: None,
        fallback_actors: Some(Actors::both("bot".parse().unwrap())),
        projects: Vec::new(),
        ..new_plan()
    };
    let none = Facts::default();
    assert_eq!(
        ask(&none, Command::Use(bare.clone())).unwrap_err(),
        Refusal::NoGoal
    );
    for goal in ["", " \n", "a\0b"] {
        let new = NewPlan {
            goal: Some(goal.into()),
            ..bare.clone()
        };
        let refusal = ask(&none, Command::Use(new)).unwrap_err();
        assert!(matches!(refusal, Refusal::BadText { .. }), "{goal:?}");
    }
    let new = NewPlan {
        goal: Some("tidy".into()),
        ..bare
    };
    assert_eq!(made(&none, new.clone()).plan.goal.as_str(), "tidy");
    let nobody = NewPlan {
        fallback_actors: None,
        ..new
    };
    assert_eq!(
        ask(&none, Command::Use(nobody)).unwrap_err(),
        Refusal::NoActor
    );
}

#[test]
fn arguments_are_checked_before_a_plan_is_made_of_them() {
    let facts = with_action(|action| {
        action.definition.arguments = vec![ArgumentSpec {
            name: "depth".into(),
            kind: ArgumentType::Integer,
            required: true,
            default: None,
            min: None,
            max: Some(9.0),
            pattern: None,
            description: None,
        }];
    });
    let given = |arguments: &[(&str, &str)]| NewPlan {
        arguments: arguments
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()))
            .collect(),
        ..new_plan()
    };
    for bad in [
        &[][..],
        &[("depth", "ten")],
        &[("depth", "10")],
        &[("depth", "1"), ("width", "2")],
    ] {
        let refusal = ask(&facts, Command::Use(given(bad))).unwrap_err();
        assert!(matches!(refusal, Refusal::Arguments(_)), "{bad:?}");
    }
    let plan = made(&facts, given(&[("depth", "9")])).plan;
    assert_eq!(plan.arguments["depth"], ArgumentValue::Integer(9));
}

#[test]
fn an_action_is_created_once_with_its_rules() {
    let mut definition = facts().action.unwrap().definition;
    definition.invariants = vec![draft("small"), draft("clean")];
    let empty = Facts::default();
    let decision = ask(&empty, Command::CreateAction(definition.clone())).unwrap();
    assert!(matches!(
        decision.rows.as_slice(),
        [Row::PutAction(_), Row::PutRule(_), Row::PutRule(_)]
    ));
    // Rules that were removed with an action of this name count: a wording is never taken for an earlier one.
    let mut after = Facts::default();
    let scope = Scope::Action(definition.name.clone());
    after.rules.revisions.insert(scope, 4);
    let decision = ask(&after, Command::CreateAction(definition.clone())).unwrap();
    let Some(Row::PutRule(rule_of_it)) = decision.rows.last() else {
        panic!("{:?}", decision.rows);
    };
    assert_eq!(rule_of_it.revision, 5);
    let refusal = ask(&facts(), Command::CreateAction(definition.clone())).unwrap_err();
    assert!(matches!(refusal, Refusal::ActionExists { .. }));
    definition.invariants.push(draft("small"));
    let refusal = ask(&empty, Command::CreateAction(definition)).unwrap_err();
    assert!(matches!(refusal, Refusal::RuleExists { .. }));
}

#[test]
fn an_action_is_archived_once() {
    let name: plan::Name = "tidy".parse().unwrap();
    let decision = ask(&facts(), Command::ArchiveAction(name.clone())).unwrap();
    let [Row::PutAction(archived)] = decision.rows.as_slice() else {
        panic!("{:?}", decision.rows);
    };
    let after = with_action(|action| *action = archived.clone());
    let refusal = ask(&after, Command::ArchiveAction(name.clone())).unwrap_err();
    assert!(matches!(refusal, Refusal::ActionArchived { .. }));
    let refusal = ask(&Facts::default(), Command::ArchiveAction(name)).unwrap_err();
    assert!(matches!(refusal, Refusal::NoSuchAction(_)));
}

#[test]
fn a_rule_has_a_subject_and_a_name_of_its_own() {
    let facts = facts();
    let plan = Scope::Plan(facts.plan.as_ref().unwrap().id);
    let add = |facts: &Facts, scope: &Scope, name: &str| {
        let command = Command::AddRule {
            scope: scope.clone(),
            draft: draft(name),
        };
        ask(facts, command)
    };
    let decision = add(&facts, &Scope::Global, "small").unwrap();
    let [Row::PutRule(rule)] = decision.rows.as_slice() else {
        panic!("{:?}", decision.rows);
    };
    assert_eq!(rule.revision, facts.rules.revision(&Scope::Global) + 1);
    assert!(
        add(&facts, &plan, "clean").is_ok(),
        "narrower replaces wider"
    );
    for (facts, scope, name) in [
        (&facts, &Scope::Global, "clean"),
        (&facts, &plan, "hard"),
        (&Facts::default(), &plan, "small"),
        (
            &Facts::default(),
            &Scope::Action("tidy".parse().unwrap()),
            "small",
        ),
    ] {
        assert!(add(facts, scope, name).is_err(), "{name} in {scope}");
    }
    let action = Scope::Action("tidy".parse().unwrap());
    assert!(add(&facts, &action, "small").is_ok());
    let project = Scope::Project("shop".parse().unwrap());
    assert!(add(&facts, &project, "small").is_ok());
    let unknown = Scope::Project("house".parse().unwrap());
    assert!(matches!(
        add(&facts, &unknown, "small"),
        Err(Refusal::NoSuchProject(_))
    ));
    // What has changed can be asked only where there is a result.
    let mut early = draft("docs-only");
    early.check = Check::Allow(vec!["docs/**".into()]);
    for (gate, is_fine) in [(Gate::Execute, false), (Gate::Result, true)] {
        early.at = vec![gate];
        let scope = Scope::Global;
        let draft = early.clone();
        let added = ask(&facts, Command::AddRule { scope, draft });
        assert_eq!(added.is_ok(), is_fine, "{added:?}");
    }
    let mut narrower = facts.clone();
    narrower.rules.rules[1].scope = plan.clone();
    assert!(
        add(&narrower, &Scope::Global, "hard").is_ok(),
        "only a wider rule overrules"
    );
    let ended = Spot::StrategizeCancelled.world();
    let refusal = add(&ended.facts, &plan, "small").unwrap_err();
    assert!(matches!(refusal, Refusal::Final { .. }));
}

#[test]
fn a_removed_rule_leaves_a_new_revision_of_its_scope() {
    let facts = facts();
    let remove = |name: &str| Command::RemoveRule {
        scope: Scope::Global,
        name: name.parse().unwrap(),
    };
    let decision = ask(&facts, remove("clean")).unwrap();
    let [Row::DropRule { revision, .. }] = decision.rows.as_slice() else {
        panic!("{:?}", decision.rows);
    };
    assert_eq!(*revision, facts.rules.revision(&Scope::Global) + 1);
    let refusal = ask(&facts, remove("unknown")).unwrap_err();
    assert!(matches!(refusal, Refusal::NoSuchRule { .. }));
}

#[test]
fn another_version_than_the_expected_is_refused_before_anything_else() {
    let world = Spot::StrategizeQueued.world();
    let version = world.plan().version;
    let request = |if_version| Request {
        command: world.command(plan::Verb::StartStrategize),
        plan: Some(world.plan().id),
        caller: worker(),
        if_version: Some(if_version),
    };
    assert!(decide(&world.facts, &request(version), world.now).is_ok());
    let refusal = decide(&world.facts, &request(version.next()), world.now).unwrap_err();
    assert!(matches!(refusal, Refusal::VersionMismatch { .. }));
}

#[test]
fn a_command_about_a_plan_that_is_not_there_says_so() {
    let mut world = Spot::StrategizeQueued.world();
    let command = world.command(plan::Verb::Approve);
    let id = world.plan().id;
    let request = Request {
        command,
        plan: Some(id),
        caller: ada(),
        if_version: None,
    };
    world.facts.plan = None;
    let refusal = decide(&world.facts, &request, world.now).unwrap_err();
    assert_eq!(refusal, Refusal::NoSuchPlan(id));
}

fn draft(name: &str) -> RuleDraft {
    RuleDraft {
        name: name.parse().unwrap(),
        check: Check::Expr("true".into()),
        at: vec![Gate::Apply],
        advisory: false,
        non_overridable: false,
    }
}
