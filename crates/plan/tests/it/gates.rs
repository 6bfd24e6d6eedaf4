//! Gates: which rules stop what, and which judgements are taken.

use planwright_plan as plan;

use plan::invariant::{Gate, Scope};
use plan::plan::Waiver;
use plan::{Outcome, Refusal, Verb};

use crate::spot::Spot;
use crate::world::{How, Judged, World, ada};

/// The world with no rule but this one, at this gate.
fn with_rule_at(mut world: World, gate: Gate) -> World {
    let rules = &mut world.facts.rules.rules;
    rules.truncate(1);
    rules[0].draft.at = vec![gate];
    world
}

fn answer(world: &World, verb: Verb, judged: Judged) -> Result<Outcome, Refusal> {
    let how = How {
        judged,
        ..world.usual()
    };
    let command = world.command_with(verb, how).unwrap();
    let decision = world.decide(&ada(), command)?;
    Ok(decision.receipt.outcome)
}

/// What can be blocked, where it is asked for, and by rules at which gates.
fn gated() -> [(World, Verb, &'static [Gate]); 5] {
    let mut approved = Spot::ExecuteComplete.world();
    approved.person(Verb::Approve);
    let apply = &[Gate::Result, Gate::Apply];
    [
        (
            Spot::StrategizeQueued.world(),
            Verb::StartStrategize,
            &[Gate::Strategize],
        ),
        (
            Spot::StrategizeComplete.world(),
            Verb::ExecutePlan,
            &[Gate::Execute],
        ),
        // A failing result blocks apply, never this.
        (Spot::ExecuteProcessing.world(), Verb::CompleteExecute, &[]),
        (approved, Verb::ApplyPlan, apply),
        (Spot::ApplyProcessing.world(), Verb::PrepareApply, apply),
    ]
}

#[test]
fn a_failing_rule_blocks_at_its_own_gates_only() {
    for (world, verb, gates) in gated() {
        for gate in Gate::ALL {
            let world = with_rule_at(world.clone(), gate);
            let outcome = answer(&world, verb, Judged::Failed).unwrap();
            let blocked = matches!(outcome, Outcome::Blocked(_));
            assert_eq!(blocked, gates.contains(&gate), "{verb} by a rule at {gate}");
            let outcome = answer(&world, verb, Judged::Held).unwrap();
            assert_eq!(outcome, Outcome::Done, "{verb} by a rule at {gate}");
        }
    }
}

#[test]
fn an_advisory_rule_is_told_and_blocks_nothing() {
    for (mut world, verb, _) in gated() {
        for rule in &mut world.facts.rules.rules {
            rule.draft.advisory = true;
        }
        let outcome = answer(&world, verb, Judged::Failed);
        assert_eq!(outcome, Ok(Outcome::Done), "{verb}");
    }
}

#[test]
fn a_non_overridable_rule_blocks_even_a_plan_that_holds_a_waiver_of_it() {
    for (mut world, verb, gates) in gated() {
        let rule = &mut world.facts.rules.rules[0];
        rule.draft.non_overridable = true;
        let waiver = Waiver {
            rule: rule.reference(),
            by: ada(),
            reason: "smuggled in".into(),
            at: world.now,
        };
        world.facts.plan.as_mut().unwrap().waivers.push(waiver);
        let outcome = answer(&world, verb, Judged::Failed).unwrap();
        let blocked = matches!(outcome, Outcome::Blocked(_));
        assert_eq!(blocked, !gates.is_empty(), "{verb}");
    }
}

#[test]
fn a_judgement_about_another_plan_version_or_other_rules_is_not_taken() {
    for (world, verb, _) in gated() {
        for judged in Judged::ALL.into_iter().filter(|one| one.is_stale()) {
            let refusal = answer(&world, verb, judged).unwrap_err();
            assert!(
                matches!(refusal, Refusal::JudgementStale { .. }),
                "{verb}, {judged:?}"
            );
        }
    }
}

#[test]
fn a_rule_added_while_judging_makes_the_judgement_stale_in_every_scope_of_the_plan() {
    for (world, verb, _) in gated() {
        let plan = world.plan();
        let scopes = [
            Scope::Global,
            Scope::Action(plan.action.clone().unwrap()),
            Scope::Plan(plan.id),
        ];
        for scope in scopes {
            let mut later = world.clone();
            *later
                .facts
                .rules
                .revisions
                .entry(scope.clone())
                .or_default() += 1;
            let refusal = later.refused(&ada(), world.command(verb));
            assert!(
                matches!(refusal, Refusal::JudgementStale { .. }),
                "{verb} after a change in {scope}"
            );
        }
    }
}

#[test]
fn nothing_is_prepared_without_a_valid_signature() {
    let mut world = Spot::ApplyProcessing.world();
    world.facts.plan.as_mut().unwrap().approval = None;
    let refusal = world.refused(&ada(), world.command(Verb::PrepareApply));
    assert_eq!(refusal, Refusal::NeedsApproval);
}
