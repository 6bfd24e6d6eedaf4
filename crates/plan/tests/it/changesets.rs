//! Changesets: every entry in the changeset of its node; none lost, none twice, none guessed.

use planwright_plan as plan;

use plan::changeset::{Entry, Node, Operation, Seal};
use plan::command::Into;
use plan::{ChangesetId, Command, Epoch, Event, Refusal, Verb};

use crate::commands::path;
use crate::spot::Spot::ExecuteProcessing;
use crate::world::{World, worker};

fn open(world: &mut World, node: &str, number: u64) -> ChangesetId {
    let id = ChangesetId::from_parts(number, u128::from(number));
    let command = Command::OpenChangeset {
        epoch: world.plan().epoch,
        id,
        node: node.parse().unwrap(),
    };
    let decision = world.submit(&worker(), command).unwrap();
    assert_eq!(decision.receipt.changeset, Some(id));
    id
}

fn record(world: &World, into: Into, name: &str, operation: Operation) -> Command {
    Command::RecordChange {
        epoch: world.plan().epoch,
        into,
        entry: Entry::new(path(name), operation),
    }
}

#[test]
fn a_change_without_a_node_goes_into_the_only_open_changeset() {
    let mut world = ExecuteProcessing.world();
    let only = open(&mut world, "main", 1);
    let command = record(&world, Into::OnlyOpen, "a", Operation::Create);
    let decision = world.submit(&worker(), command).unwrap();
    assert_eq!(decision.receipt.changeset, Some(only));
    assert!(decision.plans.is_empty(), "a change entry is not an event");
}

#[test]
fn ambiguity_is_refused_never_guessed() {
    let mut world = ExecuteProcessing.world();
    let (one, other) = (open(&mut world, "one", 1), open(&mut world, "other", 2));
    let guess = record(&world, Into::OnlyOpen, "a", Operation::Create);
    let Refusal::AmbiguousChangeset { open } = world.refused(&worker(), guess) else {
        panic!("it was guessed");
    };
    assert_eq!(open.len(), 2);
    for (into, expected) in [
        (Into::Node("one".parse().unwrap()), one),
        (Into::Node("other".parse().unwrap()), other),
        (Into::Changeset(other), other),
    ] {
        let command = record(&world, into, "a", Operation::Create);
        let decision = world.decide(&worker(), command).unwrap();
        assert_eq!(decision.receipt.changeset, Some(expected));
    }
    let nowhere = record(&world, Into::Node(Node::main()), "a", Operation::Create);
    assert!(matches!(
        world.refused(&worker(), nowhere),
        Refusal::NoOpenChangeset { node: Some(_) }
    ));
}

#[test]
fn a_node_has_one_open_changeset_at_most() {
    let mut world = ExecuteProcessing.world();
    let first = open(&mut world, "main", 1);
    let refusal = world.refused(&worker(), world.command(Verb::OpenChangeset));
    let Refusal::NodeHasOpenChangeset { open: known } = refusal else {
        panic!("{refusal}");
    };
    assert_eq!(known.id, first);
    world.person(Verb::SealChangeset);
    open(&mut world, "main", 2);
}

#[test]
fn recording_a_path_again_folds_into_its_entry() {
    let mut world = ExecuteProcessing.world();
    open(&mut world, "main", 1);
    for operation in [Operation::Create, Operation::Modify] {
        let command = record(&world, Into::OnlyOpen, "a", operation);
        world.submit(&worker(), command).unwrap();
    }
    let [(_, entry)] = world.facts.entries.as_slice() else {
        panic!("{:?}", world.facts.entries);
    };
    assert_eq!(entry.operation, Operation::Create);
    let command = record(&world, Into::OnlyOpen, "a", Operation::Delete);
    world.submit(&worker(), command).unwrap();
    assert_eq!(world.facts.entries, [], "made and removed: nothing changed");
}

#[test]
fn the_same_path_in_two_changesets_is_two_entries() {
    let mut world = ExecuteProcessing.world();
    let (one, other) = (open(&mut world, "one", 1), open(&mut world, "other", 2));
    for (into, operation) in [(one, Operation::Create), (other, Operation::Delete)] {
        let command = record(&world, Into::Changeset(into), "a", operation);
        world.submit(&worker(), command).unwrap();
    }
    let of: Vec<_> = world.facts.entries.iter().map(|(of, _)| *of).collect();
    assert_eq!(of, [one, other]);
}

#[test]
fn a_seal_records_the_digest_of_its_own_entries() {
    let mut world = ExecuteProcessing.world();
    let (one, other) = (open(&mut world, "one", 1), open(&mut world, "other", 2));
    for (into, name) in [(one, "a"), (one, "b"), (other, "c")] {
        let command = record(&world, Into::Changeset(into), name, Operation::Create);
        world.submit(&worker(), command).unwrap();
    }
    let mine = ["a", "b"].map(|name| Entry::new(path(name), Operation::Create));
    let seal = Command::SealChangeset {
        epoch: world.plan().epoch,
        changeset: one,
    };
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
    assert_eq!(*digest, Seal::of(&mine, world.now).digest);
    let closed = record(&world, Into::Changeset(one), "d", Operation::Create);
    for command in [seal, closed] {
        let refusal = world.refused(&worker(), command);
        assert!(matches!(refusal, Refusal::NoSuchChangeset { .. }));
    }
}

#[test]
fn what_an_earlier_holder_opened_is_not_this_ones_to_write() {
    let mut world = ExecuteProcessing.world();
    open(&mut world, "main", 1);
    // A store that read it before it was sealed by the claim.
    let left_open = world.facts.changesets.clone();
    let old = record(&world, Into::OnlyOpen, "a", Operation::Create);
    world.person(Verb::Reclaim).person(Verb::StartExecute);
    assert!(matches!(
        world.refused(&worker(), old),
        Refusal::Fenced { .. }
    ));
    world.facts.changesets = left_open;
    for into in [
        Into::OnlyOpen,
        Into::Node(Node::main()),
        Into::Changeset(world.facts.changesets[0].id),
    ] {
        let command = record(&world, into.clone(), "a", Operation::Create);
        assert!(world.decide(&worker(), command).is_err(), "{into:?}");
    }
}

#[test]
fn a_read_only_plan_records_nothing() {
    use crate::spot::Driver;
    use crate::world::Lands;
    let world = ExecuteProcessing.reach(plan::Profile::Review, Lands::ReadOnly, Driver::Person);
    for verb in [Verb::OpenChangeset, Verb::RecordChange] {
        let refusal = world.refused(&worker(), world.command(verb));
        assert!(matches!(refusal, Refusal::ReadOnly(_)), "{verb}");
    }
    assert_eq!(world.plan().epoch, Epoch(2));
}
