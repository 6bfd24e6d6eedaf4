//! Creating actions, rules and plans: everything is checked before anything is stored.

use planwright_plan as plan;

use plan::actor::ActorKind;
use plan::argument::{ArgumentSpec, ArgumentType, ArgumentValue};
use plan::command::NewPlan;
use plan::command::{AddRule, ArchiveAction, CreateAction, CreatePlan, RemoveRule};
use plan::decide::DecisionRequest;
use plan::facts::PlanChange;
use plan::invariant::{Gate, RuleCheck, RuleDraft, RuleScope};
use plan::plan::{PlanLimits, ProfileSource};
use plan::profile::AutomationStep;
use plan::{
    Action, ActionState, ActorDefinition, Caller, Command, Decision, DecisionFacts, Phase,
    PlanActors, PlanId, Profile, Refusal, RowWrite, decide,
};

use crate::spot::Spot;
use crate::world::{LandingSetup, PlanWorld, START_TIME, ada, worker};

fn decide_command(facts: &DecisionFacts, command: Command) -> Result<Decision, Refusal> {
    let request = DecisionRequest {
        command,
        plan_id: None,
        caller: ada(),
        if_version: None,
    };
    decide(facts, &request, START_TIME)
}

fn default_facts() -> DecisionFacts {
    PlanWorld::new(Profile::Review, LandingSetup::OnTargets).facts
}

fn with_action(change: impl FnOnce(&mut Action)) -> DecisionFacts {
    let mut facts = default_facts();
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
        limits: PlanLimits::default(),
        bases: Vec::new(),
        policy: Default::default(),
        projects: vec!["shop".parse().unwrap()],
    }
}

fn make_plan(facts: &DecisionFacts, new: NewPlan) -> PlanChange {
    decide_command(facts, Command::from(CreatePlan(new)))
        .unwrap()
        .plans
        .remove(0)
}

#[test]
fn a_used_action_gives_a_plan_its_goal_and_actors() {
    let plan = make_plan(&default_facts(), new_plan()).plan;
    assert_eq!(plan.goal().as_str(), "Tidy up");
    assert_eq!(
        *plan.actors(),
        PlanActors::for_both_phases("bot".parse().unwrap())
    );
    assert_eq!(plan.stage().to_string(), "strategize/queued");
    assert_eq!(
        (plan.version().0, plan.epoch().0, plan.attempt()),
        (1, 0, 1)
    );
}

#[test]
fn a_plan_keeps_only_the_definitions_of_its_actors() {
    let human = |name: &str| ActorDefinition {
        name: name.parse().unwrap(),
        description: None,
        kind: ActorKind::Human { timeout: None },
    };
    let new = NewPlan {
        definitions: vec![human("bot"), human("somebody-else")],
        ..new_plan()
    };
    let plan = make_plan(&default_facts(), new).plan;
    assert_eq!(plan.definitions(), [human("bot")]);
    let bot = plan.actor_for_phase(Phase::Execute).unwrap();
    assert_eq!(plan.actor_definition(bot), Some(&human("bot")));
    assert_eq!(plan.actor_for_phase(Phase::Apply), None);
}

#[test]
fn a_requested_strategy_is_reviewed_before_execute() {
    for profile in Profile::ALL {
        let new = NewPlan {
            strategy_wanted: true,
            profile: Some((profile, ProfileSource::Flag)),
            ..new_plan()
        };
        let plan = make_plan(&default_facts(), new).plan;
        assert!(
            !plan.allows_unattended(AutomationStep::StartExecute),
            "{profile}"
        );
        assert_eq!(
            plan.allows_unattended(AutomationStep::Apply),
            profile == Profile::Auto
        );
    }
}

#[test]
fn the_narrowest_profile_setting_wins() {
    let action = |profile| with_action(|action| action.definition.automation_profile = profile);
    let plan_of = |action_says, flag, user| {
        let new = NewPlan {
            profile: flag,
            fallback_profile: user,
            ..new_plan()
        };
        let plan = make_plan(&action(action_says), new).plan;
        (plan.profile(), plan.profile_source())
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
    let none = DecisionFacts::default();
    let refusal = decide_command(&none, Command::from(CreatePlan(new_plan()))).unwrap_err();
    assert!(matches!(refusal, Refusal::NoSuchAction(_)));
    let archived = with_action(|action| {
        action.state = ActionState::Archived {
            at: START_TIME,
            by: ada(),
        };
    });
    let refusal = decide_command(&archived, Command::from(CreatePlan(new_plan()))).unwrap_err();
    assert!(matches!(refusal, Refusal::ActionArchived { .. }));
}

#[test]
fn a_single_use_action_is_used_up_in_the_same_commit() {
    let facts = with_action(|action| action.definition.reusable = false);
    let decision = decide_command(&facts, Command::from(CreatePlan(new_plan()))).unwrap();
    let [RowWrite::PutAction(used)] = decision.rows.as_slice() else {
        panic!("{:?}", decision.rows);
    };
    assert_eq!(used.used_by, Some(new_plan().id));
    let after = with_action(|action| *action = used.clone());
    let refusal = decide_command(&after, Command::from(CreatePlan(new_plan()))).unwrap_err();
    assert!(matches!(refusal, Refusal::ActionUsedUp { .. }));
}

#[test]
fn a_plan_needs_a_goal_and_an_actor() {
    let bare = NewPlan {
        action: None,
        fallback_actors: Some(PlanActors::for_both_phases("bot".parse().unwrap())),
        projects: Vec::new(),
        ..new_plan()
    };
    let none = DecisionFacts::default();
    assert_eq!(
        decide_command(&none, Command::from(CreatePlan(bare.clone()))).unwrap_err(),
        Refusal::NoGoal
    );
    for goal in ["", " \n", "a\0b"] {
        let new = NewPlan {
            goal: Some(goal.into()),
            ..bare.clone()
        };
        let refusal = decide_command(&none, Command::from(CreatePlan(new))).unwrap_err();
        assert!(matches!(refusal, Refusal::BadText { .. }), "{goal:?}");
    }
    let new = NewPlan {
        goal: Some("tidy".into()),
        ..bare
    };
    assert_eq!(make_plan(&none, new.clone()).plan.goal().as_str(), "tidy");
    let nobody = NewPlan {
        fallback_actors: None,
        ..new
    };
    assert_eq!(
        decide_command(&none, Command::from(CreatePlan(nobody))).unwrap_err(),
        Refusal::NoActor
    );
}

#[test]
fn arguments_are_checked_before_a_plan_is_created() {
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
    let plan_with = |arguments: &[(&str, &str)]| NewPlan {
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
        let refusal =
            decide_command(&facts, Command::from(CreatePlan(plan_with(bad)))).unwrap_err();
        assert!(matches!(refusal, Refusal::Arguments(_)), "{bad:?}");
    }
    let plan = make_plan(&facts, plan_with(&[("depth", "9")])).plan;
    assert_eq!(plan.arguments()["depth"], ArgumentValue::Integer(9));
}

#[test]
fn an_action_is_created_once_with_its_rules() {
    let mut definition = default_facts().action.unwrap().definition;
    definition.invariants = vec![rule_draft("small"), rule_draft("clean")];
    let empty = DecisionFacts::default();
    let decision = decide_command(&empty, Command::from(CreateAction(definition.clone()))).unwrap();
    assert!(matches!(
        decision.rows.as_slice(),
        [
            RowWrite::PutAction(_),
            RowWrite::PutRule(_),
            RowWrite::PutRule(_)
        ]
    ));
    // Revisions continue after an earlier action of this name, so that a new rule is never taken
    // for an old one.
    let mut after = DecisionFacts::default();
    let scope = RuleScope::Action(definition.name.clone());
    after.rules.revisions.insert(scope, 4);
    let decision = decide_command(&after, Command::from(CreateAction(definition.clone()))).unwrap();
    let Some(RowWrite::PutRule(rule_of_it)) = decision.rows.last() else {
        panic!("{:?}", decision.rows);
    };
    assert_eq!(rule_of_it.revision, 5);
    let refusal = decide_command(
        &default_facts(),
        Command::from(CreateAction(definition.clone())),
    )
    .unwrap_err();
    assert!(matches!(refusal, Refusal::ActionExists { .. }));
    definition.invariants.push(rule_draft("small"));
    let refusal = decide_command(&empty, Command::from(CreateAction(definition))).unwrap_err();
    assert!(matches!(refusal, Refusal::RuleExists { .. }));
}

#[test]
fn an_action_is_archived_once() {
    let name: plan::QualifiedName = "tidy".parse().unwrap();
    let decision =
        decide_command(&default_facts(), Command::from(ArchiveAction(name.clone()))).unwrap();
    let [RowWrite::PutAction(archived)] = decision.rows.as_slice() else {
        panic!("{:?}", decision.rows);
    };
    let after = with_action(|action| *action = archived.clone());
    let refusal = decide_command(&after, Command::from(ArchiveAction(name.clone()))).unwrap_err();
    assert!(matches!(refusal, Refusal::ActionArchived { .. }));
    let refusal = decide_command(
        &DecisionFacts::default(),
        Command::from(ArchiveAction(name)),
    )
    .unwrap_err();
    assert!(matches!(refusal, Refusal::NoSuchAction(_)));
}

#[test]
fn a_rule_needs_an_existing_scope_and_a_unique_name() {
    let facts = default_facts();
    let plan = RuleScope::Plan(facts.plan.as_ref().unwrap().id());
    let add = |facts: &DecisionFacts, scope: &RuleScope, name: &str| {
        let command = Command::from(AddRule {
            scope: scope.clone(),
            draft: rule_draft(name),
        });
        decide_command(facts, command)
    };
    let decision = add(&facts, &RuleScope::Global, "small").unwrap();
    let [RowWrite::PutRule(rule)] = decision.rows.as_slice() else {
        panic!("{:?}", decision.rows);
    };
    assert_eq!(rule.revision, facts.rules.revision(&RuleScope::Global) + 1);
    assert!(
        add(&facts, &plan, "clean").is_ok(),
        "narrower replaces wider"
    );
    for (facts, scope, name) in [
        (&facts, &RuleScope::Global, "clean"),
        (&facts, &plan, "hard"),
        (&DecisionFacts::default(), &plan, "small"),
        (
            &DecisionFacts::default(),
            &RuleScope::Action("tidy".parse().unwrap()),
            "small",
        ),
    ] {
        assert!(add(facts, scope, name).is_err(), "{name} in {scope}");
    }
    let action = RuleScope::Action("tidy".parse().unwrap());
    assert!(add(&facts, &action, "small").is_ok());
    let project = RuleScope::Project("shop".parse().unwrap());
    assert!(add(&facts, &project, "small").is_ok());
    let unknown = RuleScope::Project("house".parse().unwrap());
    assert!(matches!(
        add(&facts, &unknown, "small"),
        Err(Refusal::NoSuchProject(_))
    ));
    // Checks of changes are possible only where there is a result.
    let mut early = rule_draft("docs-only");
    early.check = RuleCheck::Allow(vec!["docs/**".into()]);
    for (gate, is_fine) in [(Gate::Execute, false), (Gate::Result, true)] {
        early.at = vec![gate];
        let scope = RuleScope::Global;
        let draft = early.clone();
        let added = decide_command(&facts, Command::from(AddRule { scope, draft }));
        assert_eq!(added.is_ok(), is_fine, "{added:?}");
    }
    let mut narrower = facts.clone();
    narrower.rules.rules[1].scope = plan.clone();
    assert!(
        add(&narrower, &RuleScope::Global, "hard").is_ok(),
        "only a wider rule overrules"
    );
    let ended = Spot::StrategizeCancelled.default_world();
    let refusal = add(&ended.facts, &plan, "small").unwrap_err();
    assert!(matches!(refusal, Refusal::Final { .. }));
}

#[test]
fn removing_a_rule_increments_the_revision_of_its_scope() {
    let facts = default_facts();
    let remove = |name: &str| {
        Command::from(RemoveRule {
            scope: RuleScope::Global,
            name: name.parse().unwrap(),
        })
    };
    let decision = decide_command(&facts, remove("clean")).unwrap();
    let [RowWrite::DropRule { revision, .. }] = decision.rows.as_slice() else {
        panic!("{:?}", decision.rows);
    };
    assert_eq!(*revision, facts.rules.revision(&RuleScope::Global) + 1);
    let refusal = decide_command(&facts, remove("unknown")).unwrap_err();
    assert!(matches!(refusal, Refusal::NoSuchRule { .. }));
}

#[test]
fn an_unexpected_version_is_refused_first() {
    let world = Spot::StrategizeQueued.default_world();
    let version = world.plan().version();
    let request = |if_version| DecisionRequest {
        command: world.default_command(plan::Verb::StartStrategize),
        plan_id: Some(world.plan().id()),
        caller: worker(),
        if_version: Some(if_version),
    };
    assert!(decide(&world.facts, &request(version), world.now).is_ok());
    let refusal = decide(&world.facts, &request(version.next()), world.now).unwrap_err();
    assert!(matches!(refusal, Refusal::VersionMismatch { .. }));
}

#[test]
fn a_command_about_a_missing_plan_is_refused() {
    let mut world = Spot::StrategizeQueued.default_world();
    let command = world.default_command(plan::Verb::Approve);
    let id = world.plan().id();
    let request = DecisionRequest {
        command,
        plan_id: Some(id),
        caller: ada(),
        if_version: None,
    };
    world.facts.plan = None;
    let refusal = decide(&world.facts, &request, world.now).unwrap_err();
    assert_eq!(refusal, Refusal::NoSuchPlan(id));
}

fn rule_draft(name: &str) -> RuleDraft {
    RuleDraft {
        name: name.parse().unwrap(),
        check: RuleCheck::Expr("true".into()),
        at: vec![Gate::Apply],
        advisory: false,
        non_overridable: false,
    }
}

/// Under `auto` a plan lands without a person, so an agent must not start one.
#[test]
fn an_agent_cannot_create_a_plan_under_auto() {
    for profile in Profile::ALL {
        let request = DecisionRequest {
            command: Command::from(CreatePlan(NewPlan {
                profile: Some((profile, ProfileSource::Flag)),
                ..new_plan()
            })),
            plan_id: None,
            caller: Caller::Agent("reviewer".into()),
            if_version: None,
        };
        let decision = decide(&default_facts(), &request, START_TIME);
        let refused = matches!(decision, Err(Refusal::NotAuthorized { .. }));
        assert_eq!(refused, profile == Profile::Auto, "{profile}: {decision:?}");
    }
}
