//! Which callers may submit which commands, in every state that a plan can be in.

use plan::command::RemoveRule;
use plan::invariant::RuleScope;
use plan::{Caller, Command, Profile, Refusal, Verb};
use planwright_plan as plan;

use crate::spot::{Spot, StepCaller};
use crate::world::{LandingSetup, PlanWorld, ada, worker};

/// What only people may do.
const PEOPLE_ONLY: [Verb; 11] = [
    Verb::AddRule,
    Verb::RemoveRule,
    Verb::Pick,
    Verb::Review,
    Verb::Approve,
    Verb::Answer,
    Verb::AnswerPermission,
    Verb::Retry,
    Verb::Waive,
    Verb::RuleOn,
    Verb::Undo,
];

fn agent() -> Caller {
    Caller::Agent("reviewer".into())
}

fn is_unauthorized(world: &PlanWorld, caller: &Caller, command: Command) -> bool {
    let decision = world.decide(caller, command);
    matches!(decision, Err(Refusal::NotAuthorized { .. }))
}

/// A command for each verb about a plan, and one that changes rules.
fn sample_commands(world: &PlanWorld) -> Vec<Command> {
    let commands = Verb::ALL
        .iter()
        .filter_map(|verb| world.command_with(*verb, world.default_input()));
    let remove_rule = Command::from(RemoveRule {
        scope: RuleScope::Global,
        name: "small".parse().unwrap(),
    });
    commands.chain([remove_rule]).collect()
}

#[test]
fn authority_does_not_depend_on_the_state_of_a_plan() {
    for spot in Spot::ALL {
        let world = spot.reach_world(Profile::Auto, LandingSetup::OnTargets, StepCaller::Person);
        for command in sample_commands(&world) {
            let verb = command.verb();
            let refused = is_unauthorized(&world, &ada(), command.clone());
            assert!(!refused, "{spot:?} {verb}");
            let expected = PEOPLE_ONLY.contains(&verb) || verb == Verb::Cancel;
            let refused = is_unauthorized(&world, &worker(), command);
            assert_eq!(refused, expected, "worker: {spot:?} {verb}");
        }
    }
}

/// An agent that did not create the plan can only use the epoch of a lease it was given.
#[test]
fn an_agent_may_work_under_its_epoch_and_nothing_else() {
    let world = PlanWorld::new(Profile::Review, LandingSetup::OnTargets);
    for command in sample_commands(&world) {
        let (verb, has_epoch) = (command.verb(), command.epoch().is_some());
        let refused = is_unauthorized(&world, &agent(), command);
        assert_eq!(refused, !has_epoch, "{verb}");
    }
}

#[test]
fn an_agent_may_revise_and_cancel_the_plans_it_created() {
    let mut world = PlanWorld::new(Profile::Review, LandingSetup::OnTargets);
    world.edit_plan(|fields| fields["created_by"] = serde_json::json!(agent()));
    let other = Caller::Agent("another".into());
    for verb in [Verb::Revise, Verb::Cancel] {
        let command = world.default_command(verb);
        assert!(
            !is_unauthorized(&world, &agent(), command.clone()),
            "{verb}"
        );
        assert!(is_unauthorized(&world, &other, command), "{verb}");
    }
    for verb in [Verb::Approve, Verb::ApplyPlan, Verb::Answer] {
        let command = world.default_command(verb);
        assert!(is_unauthorized(&world, &agent(), command), "{verb}");
    }
}
