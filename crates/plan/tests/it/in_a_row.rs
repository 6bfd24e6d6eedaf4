//! Decisions in a row come to the same as one after the other, or to nothing.

use planwright_plan as plan;

use plan::decide::{Request, decide_in_a_row};
use plan::invariant::RuleBook;
use plan::{Command, Profile, Refusal, Verb};

use crate::world::{Lands, World, ada};

const LIFE: [Verb; 12] = [
    Verb::StartStrategize,
    Verb::CompleteStrategize,
    Verb::ExecutePlan,
    Verb::StartExecute,
    Verb::OpenChangeset,
    Verb::RecordChange,
    Verb::Renew,
    Verb::Release,
    Verb::StartExecute,
    Verb::CompleteExecute,
    Verb::ApplyPlan,
    Verb::StartApply,
];

fn world_without_rules() -> World {
    let mut world = World::new(Profile::Review, Lands::Projectless);
    world.facts.rules = RuleBook::default();
    world
}

fn request(world: &World, command: Command) -> Request {
    Request {
        command,
        plan: Some(world.plan().id),
        caller: ada(),
        if_version: None,
    }
}

/// The same facts and the same log. The order of rows means nothing.
#[track_caller]
fn assert_same(one: &World, other: &World, what: &str) {
    assert_eq!(one.log, other.log, "{what}");
    assert_eq!(one.facts.plan, other.facts.plan, "{what}");
    assert_eq!(one.facts.lease, other.facts.lease, "{what}");
    assert_eq!(one.facts.changesets, other.facts.changesets, "{what}");
    assert_eq!(one.facts.entries, other.facts.entries, "{what}");
}

#[test]
fn every_stretch_of_a_life_comes_to_the_same() {
    let mut start = world_without_rules();
    for (from, first) in LIFE.into_iter().enumerate() {
        let mut one_by_one = start.clone();
        let mut requests = Vec::new();
        for verb in &LIFE[from..] {
            requests.push(request(&start, one_by_one.command(*verb)));
            one_by_one.person(*verb);
            let mut in_a_row = start.clone();
            let decision = decide_in_a_row(&start.facts, &requests, start.now).unwrap();
            assert_eq!(decision.receipt.version, Some(one_by_one.plan().version));
            in_a_row.commit(&decision);
            assert_same(&in_a_row, &one_by_one, &format!("{first} to {verb}"));
        }
        start.person(first);
    }
}

#[test]
fn the_gates_take_the_judgement_of_the_moment() {
    let mut start = world_without_rules();
    start.person(Verb::StartStrategize);
    let unjudged = |verb| request(&start, world_without_rules().command(verb));
    let requests = [
        request(&start, start.command(Verb::CompleteStrategize)),
        // Judged long before it came to this.
        unjudged(Verb::ExecutePlan),
    ];
    let decision = decide_in_a_row(&start.facts, &requests, start.now).unwrap();
    assert_eq!(decision.plans[0].plan.stage.to_string(), "execute/queued");
}

#[test]
fn a_rule_on_the_way_wants_them_one_by_one() {
    let mut start = World::new(Profile::Review, Lands::Projectless);
    start.person(Verb::StartStrategize);
    let requests = [Verb::CompleteStrategize, Verb::ExecutePlan]
        .map(|verb| request(&start, start.command(verb)));
    let refusal = decide_in_a_row(&start.facts, &requests, start.now).unwrap_err();
    assert!(
        matches!(refusal, Refusal::JudgementStale { .. }),
        "{refusal}"
    );
}

#[test]
fn one_refusal_refuses_all() {
    let mut start = world_without_rules();
    start.person(Verb::StartStrategize);
    let requests = [Verb::CompleteStrategize, Verb::StartExecute]
        .map(|verb| request(&start, start.command(verb)));
    let refusal = decide_in_a_row(&start.facts, &requests, start.now).unwrap_err();
    assert!(matches!(refusal, Refusal::WrongState { .. }), "{refusal}");
}
