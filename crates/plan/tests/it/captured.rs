//! What was read from the sandboxes: the tree is the truth, reports say who.

use planwright_plan as plan;

use plan::changeset::{Entry, Node, Operation, digest_of_open};
use plan::command::{Captured, Into};
use plan::judgement::Targets;
use plan::{ChangesetId, Command, Decision, Digest, Event, Refusal, Row, Verb};

use crate::commands::path;
use crate::spot::Spot::{ExecuteComplete, ExecuteProcessing};
use crate::world::{World, worker};

fn id(number: u64) -> ChangesetId {
    ChangesetId::from_parts(number, u128::from(number))
}

fn open(world: &mut World, node: &str, number: u64) {
    let open = Command::OpenChangeset {
        epoch: world.plan().epoch,
        id: id(number),
        node: node.parse().unwrap(),
    };
    world.submit(&worker(), open).unwrap();
}

fn report(world: &mut World, number: u64, name: &str, tool: &str) {
    let mut entry = Entry::new(path(name), Operation::Modify);
    entry.actor = Some("bot".to_owned());
    entry.tool = Some(tool.to_owned());
    let record = Command::RecordChange {
        epoch: world.plan().epoch,
        into: Into::Changeset(id(number)),
        entry,
    };
    world.submit(&worker(), record).unwrap();
}

fn hand_in(world: &World, captured: &[(&str, Operation)]) -> Command {
    let Command::CompleteExecute {
        epoch,
        result,
        judgement,
        ..
    } = world.command(Verb::CompleteExecute)
    else {
        panic!("another command");
    };
    let entries = captured.iter().map(|(name, operation)| {
        let mut entry = Entry::new(path(name), *operation);
        entry.after = Some("f".repeat(40));
        entry
    });
    Command::CompleteExecute {
        epoch,
        result,
        captured: vec![Captured {
            changeset: id(9),
            node: Node::main(),
            entries: entries.collect(),
        }],
        allow_empty: false,
        judgement,
    }
}

/// The entries a decision stores, by changeset and path.
fn stored(decision: &Decision) -> Vec<(ChangesetId, String, Option<String>, bool)> {
    let mut entries: Vec<_> = decision
        .rows
        .iter()
        .filter_map(|row| match row {
            Row::PutEntry(of, entry) => Some((
                *of,
                entry.path.to_string(),
                entry.tool.clone(),
                entry.unseen,
            )),
            _ => None,
        })
        .collect();
    entries.sort();
    entries
}

#[test]
fn a_path_goes_to_the_only_one_who_reported_it_and_otherwise_to_its_sandbox() {
    let mut world = ExecuteProcessing.world();
    open(&mut world, "one", 1);
    open(&mut world, "other", 2);
    report(&mut world, 1, "of-one", "edit");
    report(&mut world, 1, "of-both", "edit");
    report(&mut world, 2, "of-both", "sed");
    let seen = [
        ("of-both", Operation::Modify),
        ("of-nobody", Operation::Create),
        ("of-one", Operation::Modify),
    ];
    let command = hand_in(&world, &seen);
    let decision = world.submit(&worker(), command).unwrap();
    let edit = Some("edit".to_owned());
    assert_eq!(
        stored(&decision),
        [
            (id(1), "of-one".to_owned(), edit, false),
            (id(9), "of-both".to_owned(), None, false),
            (id(9), "of-nobody".to_owned(), None, false),
        ]
    );
    let sealed: Vec<(ChangesetId, u64)> = decision.plans[0]
        .events
        .iter()
        .filter_map(|recorded| match &recorded.event {
            Event::ChangesetSealed {
                changeset, entries, ..
            } => Some((*changeset, *entries)),
            _ => None,
        })
        .collect();
    assert_eq!(sealed, [(id(1), 2), (id(2), 1), (id(9), 2)]);
}

#[test]
fn what_is_seen_goes_into_the_open_changeset_of_its_node() {
    let mut world = ExecuteProcessing.world();
    open(&mut world, "main", 1);
    let command = hand_in(&world, &[("new", Operation::Create)]);
    let decision = world.submit(&worker(), command).unwrap();
    assert_eq!(stored(&decision), [(id(1), "new".to_owned(), None, false)]);
}

#[test]
fn a_report_that_the_tree_does_not_show_stays_and_is_flagged() {
    let mut world = ExecuteProcessing.world();
    open(&mut world, "main", 1);
    report(&mut world, 1, "claimed", "edit");
    report(&mut world, 1, "done", "edit");
    let command = hand_in(&world, &[("done", Operation::Modify)]);
    let decision = world.submit(&worker(), command).unwrap();
    let edit = || Some("edit".to_owned());
    assert_eq!(
        stored(&decision),
        [
            (id(1), "claimed".to_owned(), edit(), true),
            (id(1), "done".to_owned(), edit(), false),
        ]
    );
}

#[test]
fn a_result_in_which_nothing_changed_is_none_unless_that_is_allowed() {
    let world = ExecuteProcessing.world();
    let mut command = hand_in(&world, &[]);
    let Command::CompleteExecute {
        result,
        allow_empty,
        ..
    } = &mut command
    else {
        panic!("another command");
    };
    for tree in &mut result.trees {
        tree.changes = Some(0);
    }
    *allow_empty = true;
    let allowed = command.clone();
    let Command::CompleteExecute { allow_empty, .. } = &mut command else {
        panic!("another command");
    };
    *allow_empty = false;
    assert_eq!(world.refused(&worker(), command), Refusal::EmptyResult);
    assert!(world.decide(&worker(), allowed).is_ok());
}

#[test]
fn a_signature_is_on_the_content_and_on_how_it_arrives() {
    let mut world = ExecuteComplete.world();
    let approve = |how: plan::How| Command::Approve {
        how,
        targets: Targets::default(),
        once: false,
    };
    world
        .submit(&crate::world::ada(), approve(plan::How::default()))
        .unwrap();
    let usual = world.plan().valid_approval().unwrap().content;
    let aside = plan::How {
        shape: plan::how::Shape::Branch("aside".to_owned()),
        ..plan::How::default()
    };
    world
        .submit(&crate::world::ada(), approve(aside.clone()))
        .unwrap();
    let approval = world.plan().valid_approval().unwrap();
    assert_ne!(approval.content, usual);
    assert_eq!(approval.how, aside);
    let result = world.plan().result.as_ref().unwrap();
    let elsewhere = plan::How {
        shape: plan::how::Shape::Branch("elsewhere".to_owned()),
        ..plan::How::default()
    };
    assert_ne!(result.digest(&aside), result.digest(&elsewhere));
}

/// Whoever records a change while rules are asked about those before it has them asked again.
#[test]
fn a_judgement_counts_for_what_was_recorded_when_it_was_made() {
    let mut world = ExecuteProcessing.world();
    open(&mut world, "main", 1);
    report(&mut world, 1, "a", "editor");
    let judged_on = |recorded: Digest| {
        let mut command = world.command(Verb::CompleteExecute);
        if let Command::CompleteExecute { judgement, .. } = &mut command {
            judgement.recorded = Some(recorded);
        }
        world.decide(&worker(), command)
    };
    let entries = world.facts.entries.iter().map(|(of, entry)| (*of, entry));
    assert!(judged_on(digest_of_open(entries)).is_ok());
    assert!(matches!(
        judged_on(digest_of_open([])),
        Err(Refusal::JudgementStale { .. })
    ));
}
