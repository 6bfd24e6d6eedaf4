//! Edge cases: input that is too long, malformed or repeated, and the texts that people see.

use planwright_plan as plan;

use plan::action::ActionDefinition;
use plan::argument::{ArgumentSpec, ArgumentType, ArgumentValue};
use plan::base::{ResourceCommit, SandboxStartPoint};
use plan::changeset::{ChangesetEntry, Node, PathOperation, TreePath};
use plan::command::{CapturedNodeChanges, ChangesetSelector, NewPlan};
use plan::command::{
    CompleteExecute, CompleteStrategize, CreateAction, CreatePlan, CreateProject, DeleteProject,
    PauseProject, PrepareApply, RecordBases, RecordChange, ReviseWork,
};
use plan::decide::{DecisionRequest, decide_batch};
use plan::decision::{DecisionKind, ReportedDecision};
use plan::evolve::{evolve, replay_events};
use plan::facts::LivePlans;
use plan::invariant::{Gate, RuleBook, RuleCheck, RuleName};
use plan::judgement::PendingVerdictReason;
use plan::project::{Resource, ResourceKind, ResourcePlace};
use plan::stage::{ConstraintKind, FailureCategory, QueueEntry};
use plan::{
    ActionState, ChangesetId, Command, Decision, DecisionFacts, Epoch, ErasableText, Event, PlanId,
    Profile, QualifiedName, ReceiptOutcome, RecordedEvent, Refusal, Span, Timestamp, Verb, decide,
};

use crate::commands::tree_path;
use crate::spot::{Spot, StepCaller};
use crate::world::{LandingSetup, PlanWorld, START_TIME, ada, shop_project, worker};

fn request_without_plan(command: Command) -> DecisionRequest {
    DecisionRequest {
        command,
        plan_id: None,
        caller: ada(),
        if_version: None,
    }
}

fn argument_spec(name: &str, kind: ArgumentType) -> ArgumentSpec {
    ArgumentSpec {
        name: name.into(),
        kind,
        required: false,
        default: None,
        min: None,
        max: None,
        pattern: None,
        description: None,
    }
}

/// Checks a value by using it as the argument's default.
fn check_default_value(mut spec: ArgumentSpec, value: ArgumentValue) -> Result<(), String> {
    spec.default = Some(value);
    spec.check_declaration().map_err(|problem| problem.why)
}

fn action_definition(arguments: Vec<ArgumentSpec>) -> ActionDefinition {
    let world = PlanWorld::new(Profile::Review, LandingSetup::OnTargets);
    ActionDefinition {
        arguments,
        ..world.facts.action.unwrap().definition
    }
}

fn reported_decision(kind: DecisionKind, parent: Option<u32>) -> ReportedDecision {
    ReportedDecision {
        kind,
        question: "which way?".into(),
        choice: "this one".into(),
        alternatives: vec!["that one".into()],
        rationale: Some("it is shorter".into()),
        confidence: None,
        parent,
    }
}

#[test]
fn every_problem_with_an_actions_arguments_is_reported() {
    let mut bad_pattern = argument_spec("depth", ArgumentType::String);
    bad_pattern.pattern = Some("(".into());
    let arguments = vec![
        argument_spec("depth", ArgumentType::Integer),
        bad_pattern,
        argument_spec("width", ArgumentType::Float),
    ];
    let create = request_without_plan(Command::from(CreateAction(action_definition(arguments))));
    let refusal = decide(&DecisionFacts::default(), &create, START_TIME).unwrap_err();
    let Refusal::Arguments(problems) = &refusal else {
        panic!("{refusal}");
    };
    let reported: Vec<(&str, bool)> = problems
        .iter()
        .map(|problem| (problem.name.as_str(), problem.why == "it is declared twice"))
        .collect();
    assert_eq!(reported, [("depth", false), ("depth", true)], "{refusal}");
}

#[test]
fn lists_are_bounded_and_contain_no_nul() {
    let list = |items: Vec<ErasableText>| {
        check_default_value(
            argument_spec("paths", ArgumentType::List),
            ArgumentValue::List(items),
        )
    };
    assert_eq!(list(vec!["a".into(); 1000]), Ok(()));
    let half = "a".repeat(32 * 1024);
    assert_eq!(list(vec![half.as_str().into(); 2]), Ok(()));
    for items in [
        vec!["a".into(); 1001],
        vec![half.as_str().into(), half.as_str().into(), "a".into()],
    ] {
        let why = list(items).unwrap_err();
        assert_eq!(why, "a list has at most 1000 items and 64 KiB");
    }
    let why = list(vec!["fine".into(), "a\0b".into()]).unwrap_err();
    assert_eq!(why, "an item contains a NUL");
}

#[test]
fn a_value_of_the_wrong_type_names_the_expected_one() {
    for (kind, word) in [
        (ArgumentType::String, "string"),
        (ArgumentType::Integer, "integer"),
        (ArgumentType::Float, "float"),
        (ArgumentType::Boolean, "boolean"),
        (ArgumentType::List, "list"),
    ] {
        assert_eq!(kind.to_string(), word);
        let other = match kind {
            ArgumentType::Boolean => ArgumentValue::Integer(1),
            _ => ArgumentValue::Boolean(true),
        };
        let why = check_default_value(argument_spec("it", kind), other).unwrap_err();
        assert_eq!(why, format!("the value is not of type {word}"));
    }
}

#[test]
fn long_input_is_shortened_in_messages() {
    let mut area = argument_spec("area", ArgumentType::String);
    area.pattern = Some("[a-z]+".into());
    let at = |length| {
        let value = ArgumentValue::String("7".repeat(length).into());
        check_default_value(area.clone(), value).unwrap_err()
    };
    assert!(at(60).contains(&format!("`{}`", "7".repeat(60))));
    assert!(at(61).contains(&format!("`{}...`", "7".repeat(60))));

    let message_for = |text: &str| text.parse::<QualifiedName>().unwrap_err().to_string();
    assert!(message_for(&"é".repeat(60)).contains(&"é".repeat(60)));
    let long = message_for(&"é".repeat(61));
    assert!(long.contains(&format!("{}...", "é".repeat(57))), "{long}");
    assert!(!long.contains(&"é".repeat(58)), "{long}");
}

#[test]
fn texts_are_bounded_and_contain_no_nul() {
    let revise = |feedback: String| {
        Command::from(ReviseWork {
            comments: Default::default(),
            feedback,
            dropped: Vec::new(),
        })
    };
    let world = Spot::ExecuteComplete.default_world();
    let limit = "x".repeat(ErasableText::MAX_BYTES);
    assert!(world.decide(&ada(), revise(limit.clone())).is_ok());
    for (text, expected) in [
        (limit + "x", "is longer than 256 KiB"),
        ("a\0b".into(), "contains a NUL character"),
        (" \n".into(), "is empty"),
    ] {
        let refusal = world.expect_refusal(&ada(), revise(text));
        assert!(refusal.to_string().contains(expected), "{refusal}");
    }
}

#[test]
fn dropped_paths_wait_for_the_next_holder_that_prepares_its_sandbox() {
    let mut world = Spot::ExecuteComplete.default_world();
    let mut revise = |dropped: &[&str]| {
        let command = Command::from(ReviseWork {
            comments: Default::default(),
            feedback: "without these".into(),
            dropped: dropped.iter().map(|text| tree_path(text)).collect(),
        });
        world.submit(&ada(), command).unwrap();
        let pending = world.plan().sandbox_preparation().dropped.clone();
        // The next holder fails before it prepares its sandbox.
        world
            .submit_as_person(Verb::StartExecute)
            .submit_as_person(Verb::Fail);
        pending
    };
    assert_eq!(revise(&["a", "b"]), [tree_path("a"), tree_path("b")]);
    assert_eq!(revise(&[]), [tree_path("a"), tree_path("b")]);
    assert_eq!(
        revise(&["b", "c"]),
        [tree_path("a"), tree_path("b"), tree_path("c")]
    );
    world
        .submit_as_person(Verb::Revise)
        .submit_as_person(Verb::StartExecute);
    world.submit_as_person(Verb::RecordBases);
    assert!(world.plan().sandbox_preparation().dropped.is_empty());
}

#[test]
fn an_erased_text_shows_that_it_was_erased() {
    let known: ErasableText = String::from("one\ntwo").into();
    assert_eq!(known.first_line(), "one");
    assert_eq!(format!("{known:>9}|"), "  one\ntwo|");
    assert_eq!(format!("{known:?}"), r#""one\ntwo""#);
    let erased = ErasableText::Erased(plan::Digest::hash_bytes(b"one"));
    assert_eq!(erased.to_string(), "(erased)");
    assert_eq!(erased.first_line(), "(erased)");
    assert_eq!(ErasableText::from("").first_line(), "");
}

#[test]
fn paths_are_bounded_and_escape_control_characters() {
    assert!(TreePath::new("p".repeat(4096)).is_ok());
    let error = TreePath::new("p".repeat(4097)).unwrap_err().to_string();
    assert!(error.contains("it is longer than 4096 bytes"), "{error}");
    assert!(error.len() < 400, "{error}");
    assert_eq!(tree_path("a\u{1b}[31m\n").to_string(), "a\\u{1b}[31m\\n");
    assert_eq!(tree_path("ä b").to_string(), "ä b");
    assert_eq!(tree_path("ä").as_bytes(), "ä".as_bytes());
}

#[test]
fn the_node_of_a_resource_has_its_name_and_is_bounded() {
    assert_eq!(Node::main().as_str(), "main");
    assert_eq!(Node::for_resource("shop/app").to_string(), "main@shop/app");
    let long = Node::for_resource(&"ü".repeat(300));
    assert_eq!(long.as_str().chars().count(), 128);
}

#[test]
fn names_respect_format_padding() {
    for operation in PathOperation::ALL {
        let shown = format!("{operation:<8}|");
        assert_eq!(shown, format!("{:<8}|", operation.as_str()));
    }
    assert_eq!(format!("{:>5}", ResourceKind::Git), "  git");
    assert_eq!(format!("{:<4}|", ResourceKind::Dir), "dir |");
    assert_eq!(format!("{:>8}", Gate::Apply), "   apply");
    assert_eq!(
        format!("{:<10}|", FailureCategory::Transient),
        "transient |"
    );
    let state = Spot::ApplyQueued
        .default_world()
        .plan()
        .stage()
        .state_name();
    assert_eq!(format!("{state:>8}"), "  queued");
}

#[test]
fn gates_parse_what_they_display() {
    for (gate, word) in Gate::ALL
        .into_iter()
        .zip(["strategize", "execute", "result", "apply"])
    {
        assert_eq!(gate.to_string(), word);
        assert_eq!(word.parse::<Gate>(), Ok(gate));
    }
    assert_eq!(
        "land".parse::<Gate>().unwrap_err(),
        "`land` is not a gate: use strategize, execute, result or apply"
    );
    let check = RuleCheck::Expr("true".into());
    assert_eq!(check.default_gates(), Gate::ALL);
    assert_eq!(Gate::ALL.map(Gate::has_result), [false, false, true, true]);
}

#[test]
fn rule_kinds_and_pending_reasons_have_names() {
    let globs = vec!["docs/**".to_owned()];
    let command = RuleCheck::Command {
        command: "true".into(),
        timeout: None,
    };
    for (check, kind) in [
        (RuleCheck::Expr("true".into()), "expr"),
        (RuleCheck::Allow(globs.clone()), "allow"),
        (RuleCheck::Forbid(globs), "forbid"),
        (command, "command"),
        (RuleCheck::Ask("Is it good?".into()), "ask"),
    ] {
        assert_eq!(check.kind(), kind);
    }
    assert_eq!(
        PendingVerdictReason::Person.as_str(),
        "it is not answered yet"
    );
    assert_eq!(
        PendingVerdictReason::Check.as_str(),
        "it has not been checked yet"
    );
}

#[test]
fn rule_names_are_bounded_and_restricted() {
    for good in ["a", "no-big_files.2", &"r".repeat(64)] {
        assert_eq!(good.parse::<RuleName>().unwrap().to_string(), good);
    }
    for invalid in ["", "Big", "a b", "a/b", "ä", &"r".repeat(65)] {
        let why = invalid.parse::<RuleName>().unwrap_err();
        assert!(
            why.contains("1 to 64 lower-case letters"),
            "{invalid}: {why}"
        );
    }
    let book = PlanWorld::new(Profile::Review, LandingSetup::OnTargets)
        .facts
        .rules;
    let reference = book.rules[0].reference();
    assert_eq!(reference.to_string(), "clean (global)");
}

#[test]
fn profile_descriptions_say_where_they_ask() {
    for (profile, expected, survives) in [
        (Profile::Manual, "never retries by itself", false),
        (Profile::Supervised, "asks before execute and apply", true),
        (Profile::Review, "asks before apply", true),
        (Profile::Auto, "never prompts", true),
    ] {
        assert!(profile.description().contains(expected), "{profile}");
        assert_eq!(profile.approval_survives_merge(), survives, "{profile}");
    }
}

#[test]
fn an_action_is_available_until_it_is_archived() {
    assert_eq!(ActionState::Available.as_str(), "available");
    let archived = ActionState::Archived {
        at: START_TIME,
        by: ada(),
    };
    assert_eq!(archived.as_str(), "archived");
}

#[test]
fn the_span_between_timestamps_is_signed() {
    let later = START_TIME.saturating_add(Span::from_seconds(2));
    assert_eq!(later.span_since(START_TIME), Span::from_seconds(2));
    assert_eq!(START_TIME.span_since(later), Span::from_seconds(-2));
    assert_eq!(
        Timestamp(i64::MAX).span_since(Timestamp(-1)),
        Span(i64::MAX)
    );
    assert_eq!(Timestamp(1_999).as_milliseconds(), 1);
    assert_eq!(Timestamp(-5_000).as_milliseconds(), 0);
}

#[test]
fn only_the_current_holder_holds_a_plan() {
    let held_world = Spot::ExecuteProcessing.default_world();
    let epoch = held_world.plan().epoch();
    assert!(held_world.plan().is_held_by(epoch));
    assert!(!held_world.plan().is_held_by(epoch.next()));
    let waiting = Spot::ExecuteQueued.default_world();
    assert!(!waiting.plan().is_held_by(waiting.plan().epoch()));
}

#[test]
fn every_resource_needs_a_base_commit() {
    let world = Spot::ExecuteProcessing.default_world();
    let base = |resource: &str, commit: &str| ResourceCommit {
        resource: resource.into(),
        commit: commit.into(),
    };
    let record = |bases: Vec<ResourceCommit>| {
        Command::from(RecordBases {
            epoch: world.plan().epoch(),
            bases,
        })
    };
    for invalid in [
        vec![],
        vec![base("shop/app", "1")],
        vec![base("shop/app", "1"), base("shop/docs", "")],
        vec![base("shop/app", "1"), base("shop/site", "2")],
        vec![
            base("shop/app", "1"),
            base("shop/docs", "2"),
            base("shop/site", "3"),
        ],
    ] {
        let refusal = world.expect_refusal(&worker(), record(invalid));
        assert_eq!(refusal, Refusal::BasesMismatch);
    }
    let right = vec![base("shop/docs", "2"), base("shop/app", "1")];
    let decision = world.decide(&worker(), record(right)).unwrap();
    let plan = &decision.plans[0].plan;
    assert_eq!(plan.base_commit("shop/app"), Some("1"));
    assert_eq!(plan.base_commit("shop/docs"), Some("2"));
    assert_eq!(plan.base_commit("shop/site"), None);
}

#[test]
fn a_read_only_plan_cannot_submit_changes() {
    let world = Spot::ExecuteProcessing.reach_world(
        Profile::Review,
        LandingSetup::ReadOnly,
        StepCaller::Person,
    );
    let hand_in = |entries: Vec<ChangesetEntry>| {
        let mut command = world.default_command(Verb::CompleteExecute);
        let Command::CompleteExecute(CompleteExecute { captured, .. }) = &mut command else {
            panic!("another command");
        };
        *captured = vec![CapturedNodeChanges {
            changeset: ChangesetId::from_parts(9, 9),
            node: Node::main(),
            entries,
        }];
        command
    };
    let changed = ChangesetEntry::new(tree_path("src/main.rs"), PathOperation::Modify);
    assert_eq!(
        world.expect_refusal(&worker(), hand_in(vec![changed])),
        Refusal::ReadOnly("src/main.rs".into())
    );
    assert!(world.decide(&worker(), hand_in(Vec::new())).is_ok());
}

#[test]
fn reported_decisions_need_an_earlier_parent_and_an_actor_kind() {
    let world = Spot::StrategizeProcessing.default_world();
    let root = world.plan().decisions();
    let complete = |decisions: Vec<ReportedDecision>| {
        Command::from(CompleteStrategize {
            epoch: world.plan().epoch(),
            decisions,
        })
    };
    let choice = |parent| reported_decision(DecisionKind::StrategyChoice, parent);
    let good = vec![choice(None), choice(Some(1)), choice(Some(root + 1))];
    let decision = world.decide(&worker(), complete(good)).unwrap();
    let numbers: Vec<(u32, Option<u32>)> = decision.plans[0]
        .events
        .iter()
        .filter_map(|recorded| match &recorded.event {
            Event::DecisionsRecorded { decisions } => Some(decisions),
            _ => None,
        })
        .flatten()
        .map(|node| (node.number, node.parent))
        .collect();
    assert_eq!(
        numbers,
        [
            (root + 1, Some(1)),
            (root + 2, Some(1)),
            (root + 3, Some(root + 1))
        ]
    );
    for (bad, why) in [
        (choice(Some(0)), "not an earlier decision"),
        (choice(Some(root + 2)), "not an earlier decision"),
        (choice(Some(99)), "not an earlier decision"),
        (
            reported_decision(DecisionKind::UserIntervention, None),
            "only the engine records",
        ),
    ] {
        let refusal = world.expect_refusal(&worker(), complete(vec![choice(None), bad]));
        assert!(
            matches!(refusal, Refusal::BadDecision { number: 2, .. }),
            "{refusal}"
        );
        assert!(refusal.to_string().contains(why), "{refusal}");
    }
}

#[test]
fn a_landing_moves_each_changed_resource_once_and_no_other() {
    let world = Spot::ApplyProcessing.default_world();
    let prepare = |change: &dyn Fn(&mut Vec<plan::stage::RefMove>)| {
        let mut command = world.default_command(Verb::PrepareApply);
        let Command::PrepareApply(PrepareApply { moves, .. }) = &mut command else {
            panic!("another command");
        };
        assert_eq!(moves.len(), 2);
        change(moves);
        command
    };
    assert!(world.decide(&worker(), prepare(&|_| {})).is_ok());
    for invalid in [
        prepare(&|moves| moves.push(moves[0].clone())),
        prepare(&|moves| moves[1].resource = "shop/site".into()),
        prepare(&|moves| drop(moves.pop())),
    ] {
        assert_eq!(
            world.expect_refusal(&worker(), invalid),
            Refusal::MovesMismatch
        );
    }
    let none = prepare(&Vec::clear);
    assert_eq!(world.expect_refusal(&worker(), none), Refusal::EmptyResult);
}

#[test]
fn a_project_in_use_names_the_plans_that_use_it() {
    let ids: Vec<PlanId> = (1..=3).map(|n| PlanId::from_parts(n, 1)).collect();
    let refused = |count: u64, named: usize| {
        let facts = DecisionFacts {
            projects: vec![shop_project()],
            live_plans: LivePlans {
                count,
                newest: ids[..named].to_vec(),
            },
            ..DecisionFacts::default()
        };
        let delete = Command::from(DeleteProject {
            name: "shop".parse().unwrap(),
            force: false,
        });
        decide(&facts, &request_without_plan(delete), START_TIME)
            .unwrap_err()
            .to_string()
    };
    let [one, two, _] = [ids[0], ids[1], ids[2]];
    assert_eq!(
        refused(1, 1),
        format!("project `shop` is used by a plan that has not ended: {one}")
    );
    assert_eq!(
        refused(2, 2),
        format!("project `shop` is used by 2 plans that have not ended: {one}, {two}")
    );
    assert_eq!(
        refused(5, 2),
        format!("project `shop` is used by 5 plans that have not ended: {one}, {two} and 3 more")
    );
}

#[test]
fn a_change_without_an_open_changeset_names_its_node() {
    let world = Spot::ExecuteProcessing.default_world();
    let record = |into| {
        Command::from(RecordChange {
            epoch: world.plan().epoch(),
            into,
            entry: ChangesetEntry::new(tree_path("a"), PathOperation::Create),
        })
    };
    let message_for = |into| world.expect_refusal(&worker(), record(into)).to_string();
    assert_eq!(
        message_for(ChangesetSelector::OnlyOpen),
        "no changeset is open"
    );
    assert_eq!(
        message_for(ChangesetSelector::Node(Node::main())),
        "node `main` has no open changeset"
    );
}

#[test]
fn a_rename_after_another_operation_stays_a_rename() {
    for first in PathOperation::ALL {
        let mut moved = ChangesetEntry::new(tree_path("new"), PathOperation::Rename);
        moved.from = Some(tree_path("old"));
        let both = ChangesetEntry::new(tree_path("new"), first)
            .fold_with(moved)
            .unwrap();
        assert_eq!(both.operation, PathOperation::Rename, "{first}");
        assert_eq!(both.from, Some(tree_path("old")), "{first}");
    }
}

#[test]
fn a_second_created_event_does_not_replay() {
    let world = Spot::StrategizeQueued.default_world();
    let mut again: Vec<RecordedEvent> = world.log.clone();
    let mut second = world.log[0].clone();
    second.version = world.plan().version().next();
    again.push(second);
    let misfit = replay_events(&again).unwrap_err().to_string();
    assert!(misfit.contains("strategize/queued"), "{misfit}");
}

#[test]
fn no_bases_are_recorded_while_landing() {
    let world = Spot::ApplyProcessing.default_world();
    let stray = RecordedEvent {
        version: world.plan().version().next(),
        event: Event::BasesRecorded {
            epoch: world.plan().epoch(),
            bases: Vec::new(),
        },
        ..world.log.last().unwrap().clone()
    };
    assert!(evolve(Some(world.plan().clone()), &stray).is_err());
}

fn decide_commands(facts: &DecisionFacts, commands: Vec<Command>) -> Result<Decision, Refusal> {
    let requests: Vec<DecisionRequest> = commands.into_iter().map(request_without_plan).collect();
    decide_batch(facts, &requests, START_TIME)
}

#[test]
fn in_a_batch_a_single_use_action_is_used_once() {
    let world = PlanWorld::new(Profile::Review, LandingSetup::Projectless);
    let mut facts = DecisionFacts {
        action: world.facts.action,
        ..DecisionFacts::default()
    };
    facts.action.as_mut().unwrap().definition.reusable = false;
    let new = |number| {
        Command::from(CreatePlan(NewPlan {
            definitions: Vec::new(),
            strategy_wanted: false,
            id: PlanId::from_parts(1, number),
            action: Some("tidy".parse().unwrap()),
            goal: None,
            arguments: Vec::new(),
            fallback_actors: None,
            profile: None,
            fallback_profile: None,
            limits: Default::default(),
            bases: Vec::new(),
            policy: Default::default(),
            projects: Vec::new(),
        }))
    };
    let refusal = decide_commands(&facts, vec![new(1), new(2)]).unwrap_err();
    assert!(matches!(refusal, Refusal::ActionUsedUp { .. }), "{refusal}");
}

#[test]
fn in_a_batch_a_project_includes_earlier_changes() {
    let app = |path: &str| Resource {
        name: "app".parse().unwrap(),
        host: "here".parse().unwrap(),
        place: ResourcePlace::Dir { path: path.into() },
    };
    let name: QualifiedName = "desk".parse().unwrap();
    let create = Command::from(CreateProject {
        name: name.clone(),
        resources: vec![app("/one")],
    });
    let delete = Command::from(DeleteProject {
        name: name.clone(),
        force: false,
    });
    let pause = Command::from(PauseProject(name.clone()));
    let facts = DecisionFacts::default();
    let twice = decide_commands(&facts, vec![create.clone(), create.clone()]).unwrap();
    assert_eq!(twice.receipt.outcome, ReceiptOutcome::AlreadyDone);
    let paused =
        decide_commands(&facts, vec![create.clone(), pause.clone(), pause.clone()]).unwrap();
    assert_eq!(paused.receipt.outcome, ReceiptOutcome::AlreadyDone);
    let refusal = decide_commands(&facts, vec![create, delete, pause]).unwrap_err();
    assert_eq!(refusal, Refusal::NoSuchProject(name));
}

#[test]
fn in_a_batch_a_created_and_deleted_path_is_no_change() {
    let mut world = PlanWorld::new(Profile::Review, LandingSetup::Projectless);
    world.facts.rules = RuleBook::default();
    world
        .submit_as_person(Verb::StartStrategize)
        .submit_as_person(Verb::CompleteStrategize)
        .submit_as_person(Verb::ExecutePlan)
        .submit_as_person(Verb::StartExecute)
        .submit_as_person(Verb::OpenChangeset);
    let record = |operation| DecisionRequest {
        plan_id: Some(world.plan().id()),
        ..request_without_plan(Command::from(RecordChange {
            epoch: world.plan().epoch(),
            into: ChangesetSelector::OnlyOpen,
            entry: ChangesetEntry::new(tree_path("a"), operation),
        }))
    };
    let requests = [
        PathOperation::Create,
        PathOperation::Delete,
        PathOperation::Modify,
    ]
    .map(record);
    let decision = decide_batch(&world.facts, &requests, world.now).unwrap();
    world.commit(&decision);
    let [(_, entry)] = world.facts.entries.as_slice() else {
        panic!("{:?}", world.facts.entries);
    };
    // Create and delete cancel out, so the third change modifies a path that existed before.
    assert_eq!(entry.operation, PathOperation::Modify);
}

#[test]
fn a_fenced_epoch_says_whether_it_ended_or_was_never_issued() {
    let message_for = |given: u64, current: u64| {
        let (given, current) = (Epoch(given), Epoch(current));
        Refusal::Fenced { given, current }.to_string()
    };
    assert_eq!(message_for(3, 3), "the work under epoch 3 has ended");
    assert_eq!(
        message_for(4, 3),
        "epoch 4 was never issued: the plan is at epoch 3"
    );
    assert_eq!(message_for(2, 3), "epoch 2 is over: the plan is at epoch 3");
}

#[test]
fn a_strategy_without_decisions_records_none() {
    let world = Spot::StrategizeProcessing.default_world();
    let complete = Command::from(CompleteStrategize {
        epoch: world.plan().epoch(),
        decisions: Vec::new(),
    });
    let decision = world.decide(&worker(), complete).unwrap();
    let [only] = decision.plans[0].events.as_slice() else {
        panic!("{:?}", decision.plans[0].events);
    };
    assert!(matches!(only.event, Event::StrategizeCompleted { .. }));
}

#[test]
fn revising_after_a_failed_merge_catches_up_with_the_target() {
    for (variant, kind) in ConstraintKind::ALL.into_iter().enumerate() {
        let mut world = Spot::ApplyProcessing.default_world();
        let constrain = world.command_variant(Verb::Constrain, variant);
        world.submit(&worker(), constrain).unwrap();
        world.submit_as_person(Verb::Revise);
        let catches_up = world.plan().sandbox_preparation().catch_up;
        let is_about_the_merge = matches!(kind, ConstraintKind::Conflict | ConstraintKind::Gate);
        assert_eq!(catches_up, is_about_the_merge, "{kind:?}");
        // The flag stays until a holder records the bases.
        world.submit_as_person(Verb::StartExecute);
        assert_eq!(
            world.plan().sandbox_preparation().catch_up,
            catches_up,
            "{kind:?}"
        );
        world.submit_as_person(Verb::RecordBases);
        assert!(world.plan().sandbox_preparation().is_default(), "{kind:?}");
    }
}

/// An independent list of when a plan waits for a person: by spot, the profiles that wait there.
#[test]
fn a_plan_waits_for_a_person_where_its_profile_says_so() {
    use Profile::{Auto, Manual, Review, Supervised};
    for spot in Spot::ALL {
        let on_targets: &[Profile] = match spot {
            Spot::StrategizeQueued => &[Manual],
            Spot::StrategizeComplete => &[Manual, Supervised],
            Spot::ExecuteComplete => &[Manual, Supervised, Review],
            Spot::StrategizeAwaitingInput
            | Spot::StrategizeErrored
            | Spot::ExecuteAwaitingInput
            | Spot::ExecuteErrored
            | Spot::ApplyAwaitingInput
            | Spot::ApplyAwaitingInputPrepared
            | Spot::ApplyErrored
            | Spot::ApplyConstrained => &[Manual, Supervised, Review, Auto],
            _ => &[],
        };
        for profile in Profile::ALL {
            let world = spot.reach_world(profile, LandingSetup::OnTargets, StepCaller::Person);
            let waits = on_targets.contains(&profile);
            assert_eq!(world.plan().needs_person(), waits, "{spot:?} {profile}");
        }
    }
    // A plan without targets has nothing to review.
    for profile in Profile::ALL {
        let world = Spot::ExecuteComplete.reach_world(
            profile,
            LandingSetup::Projectless,
            StepCaller::Person,
        );
        assert_eq!(world.plan().needs_person(), profile == Manual, "{profile}");
    }
    // A person who asked for the phase is not asked again.
    let mut world =
        Spot::StrategizeErrored.reach_world(Manual, LandingSetup::OnTargets, StepCaller::Person);
    world.submit_as_person(Verb::Retry);
    assert_eq!(world.stage(), "strategize/queued");
    assert!(!world.plan().needs_person());
}

#[test]
fn only_a_fresh_start_clears_the_bases() {
    for (variant, start, keeps) in [
        (0, SandboxStartPoint::Continue, true),
        (1, SandboxStartPoint::Afresh, false),
    ] {
        let mut world = Spot::ExecuteProcessing.default_world();
        world
            .submit_as_person(Verb::RecordBases)
            .submit_as_person(Verb::Fail);
        let retry = world.command_variant(Verb::Retry, variant);
        world.submit(&ada(), retry).unwrap();
        assert_eq!(world.plan().sandbox_preparation().start, start);
        assert_eq!(!world.plan().bases().is_empty(), keeps, "{start:?}");
    }
    // Entering execute discards what strategize left, but keeps the bases.
    let mut world = Spot::StrategizeProcessing.default_world();
    world
        .submit_as_person(Verb::RecordBases)
        .submit_as_person(Verb::CompleteStrategize)
        .submit_as_person(Verb::ExecutePlan);
    assert_eq!(
        world.plan().sandbox_preparation().start,
        SandboxStartPoint::Base
    );
    assert_eq!(world.plan().bases().len(), 2);
}

#[test]
fn a_queued_plan_is_due_at_once_or_at_its_retry_time() {
    let later = START_TIME.saturating_add(Span::from_seconds(5));
    let queued = |retry_at| QueueEntry {
        since: START_TIME,
        retry_at,
    };
    assert_eq!(queued(None).due_at(), START_TIME);
    assert_eq!(queued(Some(later)).due_at(), later);
}

#[test]
fn a_pattern_matches_the_whole_value_and_cannot_escape_its_anchors() {
    let with = |pattern: &str| {
        let mut area = argument_spec("area", ArgumentType::String);
        area.pattern = Some(pattern.into());
        area
    };
    let either = with("a|b");
    assert!(either.check_declaration().is_ok());
    for (text, fits) in [("a", true), ("b", true), ("ab", false), ("a\n", false)] {
        assert_eq!(either.parse(text).is_ok(), fits, "{text:?}");
    }
    let why = with("a)|(?:b").check_declaration().unwrap_err().why;
    assert!(why.contains("is not a regular expression"), "{why}");
}

/// Past the point of no return only one verb is available, and after landing only undo. Before it,
/// there are several.
#[test]
fn available_verbs_depend_on_whether_a_landing_is_prepared() {
    let others = [Verb::Revise, Verb::Revert, Verb::Cancel];
    for (spot, first, has_others) in [
        (Spot::ApplyQueued, Verb::StartApply, true),
        (Spot::ApplyQueuedPrepared, Verb::StartApply, false),
        (Spot::ApplyAwaitingInput, Verb::Answer, true),
        (Spot::ApplyAwaitingInputPrepared, Verb::Answer, false),
        (Spot::ApplyApplied, Verb::Undo, false),
    ] {
        let mut expected = vec![first];
        expected.extend(others.into_iter().filter(|_| has_others));
        assert_eq!(
            plan::decide::available_verbs(spot.default_world().plan()),
            expected,
            "{spot:?}"
        );
    }
}
