//! Changesets: every entry goes to the changeset of its node, exactly once. Ambiguous ones are
//! refused.

use planwright_plan as plan;

use plan::changeset::{ChangesetEntry, ChangesetSeal, Node, PathOperation};
use plan::command::ChangesetSelector;
use plan::command::{OpenChangeset, RecordChange, SealChangeset};
use plan::{ChangesetId, Command, Epoch, Event, Refusal, Verb};

use crate::commands::tree_path;
use crate::spot::Spot::ExecuteProcessing;
use crate::world::{PlanWorld, worker};

fn open_changeset(world: &mut PlanWorld, node: &str, number: u64) -> ChangesetId {
    let id = ChangesetId::from_parts(number, u128::from(number));
    let command = Command::from(OpenChangeset {
        epoch: world.plan().epoch(),
        id,
        node: node.parse().unwrap(),
    });
    let decision = world.submit(&worker(), command).unwrap();
    assert_eq!(decision.receipt.changeset, Some(id));
    id
}

fn record_command(
    world: &PlanWorld,
    into: ChangesetSelector,
    name: &str,
    operation: PathOperation,
) -> Command {
    Command::from(RecordChange {
        epoch: world.plan().epoch(),
        into,
        entry: ChangesetEntry::new(tree_path(name), operation),
    })
}

#[test]
fn a_change_without_a_node_goes_into_the_only_open_changeset() {
    let mut world = ExecuteProcessing.default_world();
    let only = open_changeset(&mut world, "main", 1);
    let command = record_command(
        &world,
        ChangesetSelector::OnlyOpen,
        "a",
        PathOperation::Create,
    );
    let decision = world.submit(&worker(), command).unwrap();
    assert_eq!(decision.receipt.changeset, Some(only));
    assert!(decision.plans.is_empty(), "a change entry is not an event");
}

#[test]
fn an_ambiguous_changeset_is_refused() {
    let mut world = ExecuteProcessing.default_world();
    let (one, other) = (
        open_changeset(&mut world, "one", 1),
        open_changeset(&mut world, "other", 2),
    );
    let guess = record_command(
        &world,
        ChangesetSelector::OnlyOpen,
        "a",
        PathOperation::Create,
    );
    let Refusal::AmbiguousChangeset { open } = world.expect_refusal(&worker(), guess) else {
        panic!("it was guessed");
    };
    assert_eq!(open.len(), 2);
    for (into, expected) in [
        (ChangesetSelector::Node("one".parse().unwrap()), one),
        (ChangesetSelector::Node("other".parse().unwrap()), other),
        (ChangesetSelector::Changeset(other), other),
    ] {
        let command = record_command(&world, into, "a", PathOperation::Create);
        let decision = world.decide(&worker(), command).unwrap();
        assert_eq!(decision.receipt.changeset, Some(expected));
    }
    let nowhere = record_command(
        &world,
        ChangesetSelector::Node(Node::main()),
        "a",
        PathOperation::Create,
    );
    assert!(matches!(
        world.expect_refusal(&worker(), nowhere),
        Refusal::NoOpenChangeset { node: Some(_) }
    ));
}

#[test]
fn a_node_has_at_most_one_open_changeset() {
    let mut world = ExecuteProcessing.default_world();
    let first = open_changeset(&mut world, "main", 1);
    let refusal = world.expect_refusal(&worker(), world.default_command(Verb::OpenChangeset));
    let Refusal::NodeHasOpenChangeset { open: known } = refusal else {
        panic!("{refusal}");
    };
    assert_eq!(known.id, first);
    world.submit_as_person(Verb::SealChangeset);
    open_changeset(&mut world, "main", 2);
}

#[test]
fn recording_a_path_again_folds_into_its_entry() {
    let mut world = ExecuteProcessing.default_world();
    open_changeset(&mut world, "main", 1);
    for operation in [PathOperation::Create, PathOperation::Modify] {
        let command = record_command(&world, ChangesetSelector::OnlyOpen, "a", operation);
        world.submit(&worker(), command).unwrap();
    }
    let [(_, entry)] = world.facts.entries.as_slice() else {
        panic!("{:?}", world.facts.entries);
    };
    assert_eq!(entry.operation, PathOperation::Create);
    let command = record_command(
        &world,
        ChangesetSelector::OnlyOpen,
        "a",
        PathOperation::Delete,
    );
    world.submit(&worker(), command).unwrap();
    assert_eq!(world.facts.entries, [], "made and removed: nothing changed");
}

#[test]
fn the_same_path_in_two_changesets_is_two_entries() {
    let mut world = ExecuteProcessing.default_world();
    let (one, other) = (
        open_changeset(&mut world, "one", 1),
        open_changeset(&mut world, "other", 2),
    );
    for (into, operation) in [(one, PathOperation::Create), (other, PathOperation::Delete)] {
        let command = record_command(&world, ChangesetSelector::Changeset(into), "a", operation);
        world.submit(&worker(), command).unwrap();
    }
    let of: Vec<_> = world.facts.entries.iter().map(|(of, _)| *of).collect();
    assert_eq!(of, [one, other]);
}

#[test]
fn a_seal_records_the_digest_of_its_own_entries() {
    let mut world = ExecuteProcessing.default_world();
    let (one, other) = (
        open_changeset(&mut world, "one", 1),
        open_changeset(&mut world, "other", 2),
    );
    for (into, name) in [(one, "a"), (one, "b"), (other, "c")] {
        let command = record_command(
            &world,
            ChangesetSelector::Changeset(into),
            name,
            PathOperation::Create,
        );
        world.submit(&worker(), command).unwrap();
    }
    let mine = ["a", "b"].map(|name| ChangesetEntry::new(tree_path(name), PathOperation::Create));
    let seal = Command::from(SealChangeset {
        epoch: world.plan().epoch(),
        changeset: one,
    });
    world.submit(&worker(), seal.clone()).unwrap();
    let Event::ChangesetSealed {
        changeset,
        entries,
        digest,
        ..
    } = &world.log.last().unwrap().event
    else {
        panic!("sealing is an event");
    };
    assert_eq!((*changeset, *entries), (one, 2));
    assert_eq!(
        *digest,
        ChangesetSeal::from_entries(&mine, world.now).digest
    );
    let closed = record_command(
        &world,
        ChangesetSelector::Changeset(one),
        "d",
        PathOperation::Create,
    );
    for command in [seal, closed] {
        let refusal = world.expect_refusal(&worker(), command);
        assert!(matches!(refusal, Refusal::NoSuchChangeset { .. }));
    }
}

#[test]
fn a_holder_cannot_write_to_an_earlier_holders_changeset() {
    let mut world = ExecuteProcessing.default_world();
    open_changeset(&mut world, "main", 1);
    // As if the store had read the changeset before the claim sealed it.
    let left_open = world.facts.changesets.clone();
    let old = record_command(
        &world,
        ChangesetSelector::OnlyOpen,
        "a",
        PathOperation::Create,
    );
    world
        .submit_as_person(Verb::Reclaim)
        .submit_as_person(Verb::StartExecute);
    assert!(matches!(
        world.expect_refusal(&worker(), old),
        Refusal::Fenced { .. }
    ));
    world.facts.changesets = left_open;
    for into in [
        ChangesetSelector::OnlyOpen,
        ChangesetSelector::Node(Node::main()),
        ChangesetSelector::Changeset(world.facts.changesets[0].id),
    ] {
        let command = record_command(&world, into.clone(), "a", PathOperation::Create);
        assert!(world.decide(&worker(), command).is_err(), "{into:?}");
    }
}

#[test]
fn a_read_only_plan_records_nothing() {
    use crate::spot::StepCaller;
    use crate::world::LandingSetup;
    let world = ExecuteProcessing.reach_world(
        plan::Profile::Review,
        LandingSetup::ReadOnly,
        StepCaller::Person,
    );
    for verb in [Verb::OpenChangeset, Verb::RecordChange] {
        let refusal = world.expect_refusal(&worker(), world.default_command(verb));
        assert!(matches!(refusal, Refusal::ReadOnly(_)), "{verb}");
    }
    assert_eq!(world.plan().epoch(), Epoch(2));
}
