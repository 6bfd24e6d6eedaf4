//! Decisions in a row come to the same as one after the other, or to nothing.

use planwright_plan as plan;

use plan::changeset::{Entry, Operation};
use plan::command::Into;
use plan::decide::{Request, decide_in_a_row};
use plan::{ChangesetId, Command, Profile, Refusal, Verb};

use crate::commands::path;
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

/// There were rules, and all of them were removed.
fn world_without_rules() -> World {
    let mut world = World::new(Profile::Review, Lands::Projectless);
    world.facts.rules.rules.clear();
    assert!(!world.facts.rules.revisions.is_empty());
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

/// Changes that are recorded in a row fold into each other, within their changeset and at their path.
#[test]
fn changes_in_a_row_fold_as_they_do_one_by_one() {
    let mut start = world_without_rules();
    for verb in &LIFE[..4] {
        start.person(*verb);
    }
    let epoch = start.plan().epoch;
    let id = |number: u64| ChangesetId::from_parts(number, u128::from(number));
    let open = |number, node: &str| Command::OpenChangeset {
        epoch,
        id: id(number),
        node: node.parse().unwrap(),
    };
    let record = |number, name: &str, operation, after: Option<&str>| {
        let mut entry = Entry::new(path(name), operation);
        entry.after = after.map(str::to_owned);
        Command::RecordChange {
            epoch,
            into: Into::Changeset(id(number)),
            entry,
        }
    };
    let seal = |number| Command::SealChangeset {
        epoch,
        changeset: id(number),
    };
    let commands = [
        open(1, "one"),
        open(2, "other"),
        record(1, "a", Operation::Create, Some("1")),
        record(1, "b", Operation::Create, Some("1")),
        record(1, "c", Operation::Create, Some("1")),
        record(2, "a", Operation::Create, Some("2")),
        record(2, "c", Operation::Create, Some("2")),
        record(1, "a", Operation::Modify, Some("3")),
        record(1, "c", Operation::Delete, None),
        seal(1),
        seal(2),
    ];
    let mut one_by_one = start.clone();
    for command in commands.clone() {
        one_by_one.submit(&ada(), command).unwrap();
    }
    let requests = commands.map(|command| request(&start, command));
    let mut in_a_row = start.clone();
    in_a_row.commit(&decide_in_a_row(&start.facts, &requests, start.now).unwrap());
    assert_same(&in_a_row, &one_by_one, "changes");
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
