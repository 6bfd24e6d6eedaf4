//! Questions about single tool calls: answered once, by a person, for the run that asked.

use planwright_plan as plan;

use plan::actor::{AcpCommand, ActorKind, ActorOutputFormat, CommandLine};
use plan::authority::check_authority;
use plan::command::{AnswerPermission, AskPermission};
use plan::decide::{EngineStep, IdleReason, available_verbs, next_engine_step};
use plan::guard::CallPattern;
use plan::permission::{ToolPolicy, UnsupportedToolPolicy};
use plan::permission_question::{PermissionQuestion, ProposedToolCall};
use plan::{ActorDefinition, Caller, Command, Digest, Profile, ReceiptOutcome, Refusal, Verb};

use crate::commands::sample_tool_call;
use crate::spot::{Spot, StepCaller};
use crate::world::{LandingSetup, PlanWorld, ada, worker};

fn world_at(spot: Spot) -> PlanWorld {
    spot.reach_world(Profile::Review, LandingSetup::OnTargets, StepCaller::Person)
}

fn asking_world() -> PlanWorld {
    let mut world = world_at(Spot::ExecuteProcessing);
    world.submit_as(&worker(), Verb::AskPermission);
    world
}

fn answer(world: &PlanWorld, allowed: bool) -> Command {
    let digest = world.permission_digest();
    AnswerPermission { digest, allowed }.into()
}

fn open_question(world: &PlanWorld) -> Option<&PermissionQuestion> {
    world.plan().stage().open_permission()
}

fn ask_for(world: &PlanWorld, summary: &str) -> Command {
    AskPermission {
        epoch: world.plan().epoch(),
        call: ProposedToolCall {
            summary: summary.into(),
            ..sample_tool_call()
        },
    }
    .into()
}

#[test]
fn open_question_needs_a_person_and_keeps_the_holder() {
    for spot in [Spot::StrategizeProcessing, Spot::ExecuteProcessing] {
        let mut world = world_at(spot);
        let (epoch, version) = (world.plan().epoch(), world.plan().version());
        assert!(!world.plan().needs_person());
        world.submit_as(&worker(), Verb::AskPermission);
        let plan = world.plan();
        assert_eq!(open_question(&world).unwrap().call, sample_tool_call());
        assert!(plan.needs_person());
        assert!(plan.is_held_by(epoch));
        assert_eq!(plan.version(), version.next());
        assert_eq!(plan.due_at(), None);
        let step = next_engine_step(plan, &worker(), world.now);
        assert_eq!(step, EngineStep::Idle(IdleReason::Held));
        assert_eq!(available_verbs(plan)[0], Verb::AnswerPermission);
    }
}

#[test]
fn question_is_answered_once() {
    for allowed in [true, false] {
        let mut world = asking_world();
        let command = answer(&world, allowed);
        world.submit(&ada(), command.clone()).unwrap();
        let holder = world.plan().stage().holder().unwrap();
        let given = holder.permission.clone().unwrap().answer.unwrap();
        assert_eq!((given.allowed, &given.by), (allowed, &ada()));
        assert!(!world.plan().needs_person());
        let again = world.decide(&ada(), command).unwrap();
        assert_eq!(again.receipt.outcome, ReceiptOutcome::AlreadyDone);
        assert!(again.plans.is_empty());
        let refusal = world.expect_refusal(&ada(), answer(&world, !allowed));
        assert_eq!(refusal, Refusal::PermissionAnswered(given));
    }
}

#[test]
fn answer_to_another_question_is_refused() {
    let mut world = asking_world();
    let earlier = answer(&world, true);
    let other = ask_for(&world, "run rm -r build");
    world.submit(&worker(), other).unwrap();
    assert_eq!(
        world.expect_refusal(&ada(), earlier),
        Refusal::PermissionOutdated
    );
    assert!(open_question(&world).is_some());
}

#[test]
fn same_call_is_a_new_question_once_the_first_was_answered() {
    let mut world = asking_world();
    let first = answer(&world, true);
    let asked = world.default_command(Verb::AskPermission);
    let again = world.decide(&worker(), asked.clone()).unwrap();
    assert_eq!(
        again.receipt.outcome,
        ReceiptOutcome::AlreadyDone,
        "it is open"
    );
    world.submit(&ada(), first.clone()).unwrap();
    world.submit(&worker(), asked).unwrap();
    assert_eq!(
        world.expect_refusal(&ada(), first),
        Refusal::PermissionOutdated
    );
    assert!(open_question(&world).is_some());
}

#[test]
fn digest_covers_everything_that_is_shown() {
    let world = asking_world();
    let shown = sample_tool_call();
    let digest = |call: &ProposedToolCall| {
        let plan = world.plan();
        call.digest_for(plan.id(), plan.epoch(), plan.version())
    };
    let variants = [
        ProposedToolCall {
            tool: "Shell".into(),
            ..shown.clone()
        },
        ProposedToolCall {
            summary: "run x".into(),
            ..shown.clone()
        },
        ProposedToolCall {
            input: None,
            ..shown.clone()
        },
        ProposedToolCall {
            reason: "y".into(),
            ..shown.clone()
        },
    ];
    for variant in variants {
        assert_ne!(digest(&variant), digest(&shown), "{variant:?}");
    }
    let plan = world.plan();
    let next = plan.version().next();
    assert_ne!(
        shown.digest_for(plan.id(), plan.epoch(), next),
        digest(&shown)
    );
    let later = plan.epoch().next();
    assert_ne!(
        shown.digest_for(plan.id(), later, plan.version()),
        digest(&shown)
    );
}

#[test]
fn whatever_ends_the_run_voids_its_question() {
    for verb in [
        Verb::CompleteExecute,
        Verb::Fail,
        Verb::Ask,
        Verb::Release,
        Verb::Reclaim,
        Verb::Revert,
        Verb::Cancel,
    ] {
        let mut world = asking_world();
        let allow = answer(&world, true);
        world.submit_as_person(verb);
        assert!(open_question(&world).is_none(), "{verb}");
        let refusal = world.expect_refusal(&ada(), allow.clone());
        let is_void = matches!(refusal, Refusal::WrongState { .. } | Refusal::Final { .. });
        assert!(is_void, "{verb}: {refusal:?}");
        if verb == Verb::Release {
            // Nor does the answer count for the next run of the plan.
            world.submit_as(&worker(), Verb::StartExecute);
            assert!(world.decide(&ada(), allow.clone()).is_err());
            world.submit_as(&worker(), Verb::AskPermission);
            assert_eq!(
                world.expect_refusal(&ada(), allow),
                Refusal::PermissionOutdated
            );
        }
    }
}

#[test]
fn only_a_person_answers_and_only_the_holder_asks() {
    let mut world = asking_world();
    let agent = Caller::Agent("claude".into());
    for caller in [worker(), agent] {
        let refusal = check_authority(&answer(&world, true), &caller, Some(world.plan()));
        assert!(
            matches!(refusal, Err(Refusal::NotAuthorized { .. })),
            "{caller}"
        );
    }
    let stale = ask_for(&world, "run anything");
    world.submit_as_person(Verb::Reclaim);
    assert!(matches!(
        world.expect_refusal(&worker(), stale),
        Refusal::Fenced { .. }
    ));
}

#[test]
fn landing_asks_for_no_permission() {
    let world = world_at(Spot::ApplyProcessing);
    let refusal = world.expect_refusal(&worker(), ask_for(&world, "run anything"));
    assert!(matches!(refusal, Refusal::WrongState { .. }), "{refusal:?}");
    let refusal = world.expect_refusal(
        &ada(),
        AnswerPermission {
            digest: Digest::ZERO,
            allowed: true,
        }
        .into(),
    );
    assert!(matches!(refusal, Refusal::WrongState { .. }), "{refusal:?}");
}

#[test]
fn blank_or_oversized_calls_are_refused() {
    let world = world_at(Spot::ExecuteProcessing);
    for summary in [" ", "a\0b"] {
        let refusal = world.expect_refusal(&worker(), ask_for(&world, summary));
        assert!(matches!(refusal, Refusal::BadText { .. }), "{refusal:?}");
    }
}

/// What a definition becomes under an action's tools.
fn restricted(kind: ActorKind, tools: &ToolPolicy) -> Result<ActorKind, UnsupportedToolPolicy> {
    let definition = ActorDefinition {
        name: "bot".parse().unwrap(),
        description: None,
        kind,
    };
    Ok(tools.add_to_definition(&definition)?.kind)
}

#[test]
fn tools_of_an_action_bind_the_agents_that_can_keep_them() {
    let patterns = |text: &str| vec![text.parse::<CallPattern>().unwrap()];
    let asking = ToolPolicy {
        ask: patterns("fetch"),
        ..ToolPolicy::default()
    };
    let denying = ToolPolicy {
        deny: patterns("execute(*git push*)"),
        ..ToolPolicy::default()
    };
    let own = ToolPolicy {
        deny: patterns("delete"),
        ..ToolPolicy::default()
    };
    let acp = |mode: &str| {
        ActorKind::Acp(Box::new(AcpCommand {
            mode: Some(mode.to_owned()),
            tools: own.clone(),
            ..AcpCommand::default()
        }))
    };
    let program = |output| {
        ActorKind::Command(Box::new(CommandLine {
            output,
            ..CommandLine::default()
        }))
    };
    let Ok(ActorKind::Acp(agent)) = restricted(acp("default"), &asking) else {
        panic!("it asks");
    };
    assert_eq!(
        (&agent.tools.deny, &agent.tools.ask),
        (&own.deny, &asking.ask)
    );
    for (kind, tools, problem) in [
        (acp("yolo"), &asking, UnsupportedToolPolicy::NeverAsks),
        (
            program(ActorOutputFormat::ClaudeJson),
            &asking,
            UnsupportedToolPolicy::NeverAsks,
        ),
        (
            program(ActorOutputFormat::Text),
            &denying,
            UnsupportedToolPolicy::ReportsNoCalls,
        ),
    ] {
        assert_eq!(restricted(kind, tools), Err(problem));
    }
    let Ok(ActorKind::Command(line)) = restricted(program(ActorOutputFormat::ClaudeJson), &denying)
    else {
        panic!("its guards can deny");
    };
    assert_eq!(line.guards.deny, denying.deny);
}
