//! Batches: several decisions in one commit equal the same decisions one by one, or none is made.

use planwright_plan as plan;

use plan::changeset::{ChangesetEntry, PathOperation};
use plan::command::ChangesetSelector;
use plan::command::{OpenChangeset, RecordChange, SealChangeset};
use plan::decide::{DecisionRequest, decide_batch};
use plan::{ChangesetId, Command, Profile, Refusal, Verb};

use crate::commands::tree_path;
use crate::world::{LandingSetup, PlanWorld, ada};

const LIFE_VERBS: [Verb; 12] = [
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

/// A world whose rules were all removed.
fn world_without_rules() -> PlanWorld {
    let mut world = PlanWorld::new(Profile::Review, LandingSetup::Projectless);
    world.facts.rules.rules.clear();
    assert!(!world.facts.rules.revisions.is_empty());
    world
}

fn request_for_plan(world: &PlanWorld, command: Command) -> DecisionRequest {
    DecisionRequest {
        command,
        plan_id: Some(world.plan().id()),
        caller: ada(),
        if_version: None,
    }
}

/// Compares facts and log. The order of rows does not matter.
#[track_caller]
fn assert_same_world(one: &PlanWorld, other: &PlanWorld, context: &str) {
    assert_eq!(one.log, other.log, "{context}");
    assert_eq!(one.facts.plan, other.facts.plan, "{context}");
    assert_eq!(one.facts.lease, other.facts.lease, "{context}");
    assert_eq!(one.facts.changesets, other.facts.changesets, "{context}");
    assert_eq!(one.facts.entries, other.facts.entries, "{context}");
}

#[test]
fn a_batch_gives_the_same_result_as_single_commands() {
    let mut start = world_without_rules();
    for (from, first) in LIFE_VERBS.into_iter().enumerate() {
        let mut one_by_one = start.clone();
        let mut requests = Vec::new();
        for verb in &LIFE_VERBS[from..] {
            requests.push(request_for_plan(&start, one_by_one.default_command(*verb)));
            one_by_one.submit_as_person(*verb);
            let mut batched = start.clone();
            let decision = decide_batch(&start.facts, &requests, start.now).unwrap();
            assert_eq!(decision.receipt.version, Some(one_by_one.plan().version()));
            batched.commit(&decision);
            assert_same_world(&batched, &one_by_one, &format!("{first} to {verb}"));
        }
        start.submit_as_person(first);
    }
}

/// Changes recorded in one batch fold into each other, by changeset and path.
#[test]
fn changes_in_a_batch_fold_as_they_do_one_by_one() {
    let mut start = world_without_rules();
    for verb in &LIFE_VERBS[..4] {
        start.submit_as_person(*verb);
    }
    let epoch = start.plan().epoch();
    let id = |number: u64| ChangesetId::from_parts(number, u128::from(number));
    let open = |number, node: &str| {
        Command::from(OpenChangeset {
            epoch,
            id: id(number),
            node: node.parse().unwrap(),
        })
    };
    let record = |number, name: &str, operation, after: Option<&str>| {
        let mut entry = ChangesetEntry::new(tree_path(name), operation);
        entry.after = after.map(str::to_owned);
        Command::from(RecordChange {
            epoch,
            into: ChangesetSelector::Changeset(id(number)),
            entry,
        })
    };
    let seal = |number| {
        Command::from(SealChangeset {
            epoch,
            changeset: id(number),
        })
    };
    let commands = [
        open(1, "one"),
        open(2, "other"),
        record(1, "a", PathOperation::Create, Some("1")),
        record(1, "b", PathOperation::Create, Some("1")),
        record(1, "c", PathOperation::Create, Some("1")),
        record(2, "a", PathOperation::Create, Some("2")),
        record(2, "c", PathOperation::Create, Some("2")),
        record(1, "a", PathOperation::Modify, Some("3")),
        record(1, "c", PathOperation::Delete, None),
        seal(1),
        seal(2),
    ];
    let mut one_by_one = start.clone();
    for command in commands.clone() {
        one_by_one.submit(&ada(), command).unwrap();
    }
    let requests = commands.map(|command| request_for_plan(&start, command));
    let mut in_a_row = start.clone();
    in_a_row.commit(&decide_batch(&start.facts, &requests, start.now).unwrap());
    assert_same_world(&in_a_row, &one_by_one, "changes");
}

#[test]
fn gates_in_a_batch_ignore_older_judgements() {
    let mut start = world_without_rules();
    start.submit_as_person(Verb::StartStrategize);
    let unjudged = |verb| request_for_plan(&start, world_without_rules().default_command(verb));
    let requests = [
        request_for_plan(&start, start.default_command(Verb::CompleteStrategize)),
        // Carries a judgement of an older plan version.
        unjudged(Verb::ExecutePlan),
    ];
    let decision = decide_batch(&start.facts, &requests, start.now).unwrap();
    assert_eq!(decision.plans[0].plan.stage().to_string(), "execute/queued");
}

#[test]
fn a_rule_at_a_gate_refuses_the_batch() {
    let mut start = PlanWorld::new(Profile::Review, LandingSetup::Projectless);
    start.submit_as_person(Verb::StartStrategize);
    let requests = [Verb::CompleteStrategize, Verb::ExecutePlan]
        .map(|verb| request_for_plan(&start, start.default_command(verb)));
    let refusal = decide_batch(&start.facts, &requests, start.now).unwrap_err();
    assert!(
        matches!(refusal, Refusal::JudgementStale { .. }),
        "{refusal}"
    );
}

#[test]
fn one_refusal_refuses_the_batch() {
    let mut start = world_without_rules();
    start.submit_as_person(Verb::StartStrategize);
    let requests = [Verb::CompleteStrategize, Verb::StartExecute]
        .map(|verb| request_for_plan(&start, start.default_command(verb)));
    let refusal = decide_batch(&start.facts, &requests, start.now).unwrap_err();
    assert!(matches!(refusal, Refusal::WrongState { .. }), "{refusal}");
}
