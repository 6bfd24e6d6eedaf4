//! Captured changes: the tree decides what changed, reports add who changed it.

use planwright_plan as plan;

use plan::changeset::{ChangesetEntry, Node, PathOperation, digest_open_entries};
use plan::command::{ApproveResult, CompleteExecute, OpenChangeset, RecordChange};
use plan::command::{CapturedNodeChanges, ChangesetSelector};
use plan::judgement::PlanTargets;
use plan::{ChangesetId, Command, Decision, Digest, Event, Refusal, RowWrite, Verb};

use crate::commands::tree_path;
use crate::spot::Spot::{ExecuteComplete, ExecuteProcessing};
use crate::world::{PlanWorld, worker};

fn changeset_id(number: u64) -> ChangesetId {
    ChangesetId::from_parts(number, u128::from(number))
}

fn open_changeset(world: &mut PlanWorld, node: &str, number: u64) {
    let open = Command::from(OpenChangeset {
        epoch: world.plan().epoch(),
        id: changeset_id(number),
        node: node.parse().unwrap(),
    });
    world.submit(&worker(), open).unwrap();
}

fn report_change(world: &mut PlanWorld, number: u64, name: &str, tool: &str) {
    let mut entry = ChangesetEntry::new(tree_path(name), PathOperation::Modify);
    entry.actor = Some("bot".to_owned());
    entry.tool = Some(tool.to_owned());
    let record = Command::from(RecordChange {
        epoch: world.plan().epoch(),
        into: ChangesetSelector::Changeset(changeset_id(number)),
        entry,
    });
    world.submit(&worker(), record).unwrap();
}

fn complete_execute_command(world: &PlanWorld, captured: &[(&str, PathOperation)]) -> Command {
    let Command::CompleteExecute(CompleteExecute {
        epoch,
        result,
        judgement,
        ..
    }) = world.default_command(Verb::CompleteExecute)
    else {
        panic!("another command");
    };
    let entries = captured.iter().map(|(name, operation)| {
        let mut entry = ChangesetEntry::new(tree_path(name), *operation);
        entry.after = Some("f".repeat(40));
        entry
    });
    Command::from(CompleteExecute {
        epoch,
        result,
        captured: vec![CapturedNodeChanges {
            changeset: changeset_id(9),
            node: Node::main(),
            entries: entries.collect(),
        }],
        allow_empty: false,
        judgement,
    })
}

/// Returns the entries that a decision stores, by changeset and path.
fn stored_entries(decision: &Decision) -> Vec<(ChangesetId, String, Option<String>, bool)> {
    let mut entries: Vec<_> = decision
        .rows
        .iter()
        .filter_map(|row| match row {
            RowWrite::PutEntry(of, entry) => Some((
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
fn a_path_goes_to_its_only_reporter_or_to_its_sandbox() {
    let mut world = ExecuteProcessing.default_world();
    open_changeset(&mut world, "one", 1);
    open_changeset(&mut world, "other", 2);
    report_change(&mut world, 1, "of-one", "edit");
    report_change(&mut world, 1, "of-both", "edit");
    report_change(&mut world, 2, "of-both", "sed");
    let captured = [
        ("of-both", PathOperation::Modify),
        ("of-nobody", PathOperation::Create),
        ("of-one", PathOperation::Modify),
    ];
    let command = complete_execute_command(&world, &captured);
    let decision = world.submit(&worker(), command).unwrap();
    let edit = Some("edit".to_owned());
    assert_eq!(
        stored_entries(&decision),
        [
            (changeset_id(1), "of-one".to_owned(), edit, false),
            (changeset_id(9), "of-both".to_owned(), None, false),
            (changeset_id(9), "of-nobody".to_owned(), None, false),
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
    assert_eq!(
        sealed,
        [
            (changeset_id(1), 2),
            (changeset_id(2), 1),
            (changeset_id(9), 2)
        ]
    );
}

#[test]
fn captured_changes_go_into_the_open_changeset_of_their_node() {
    let mut world = ExecuteProcessing.default_world();
    open_changeset(&mut world, "main", 1);
    let command = complete_execute_command(&world, &[("new", PathOperation::Create)]);
    let decision = world.submit(&worker(), command).unwrap();
    assert_eq!(
        stored_entries(&decision),
        [(changeset_id(1), "new".to_owned(), None, false)]
    );
}

#[test]
fn a_report_that_the_tree_does_not_confirm_is_marked_unseen() {
    let mut world = ExecuteProcessing.default_world();
    open_changeset(&mut world, "main", 1);
    report_change(&mut world, 1, "claimed", "edit");
    report_change(&mut world, 1, "done", "edit");
    let command = complete_execute_command(&world, &[("done", PathOperation::Modify)]);
    let decision = world.submit(&worker(), command).unwrap();
    let edit = || Some("edit".to_owned());
    assert_eq!(
        stored_entries(&decision),
        [
            (changeset_id(1), "claimed".to_owned(), edit(), true),
            (changeset_id(1), "done".to_owned(), edit(), false),
        ]
    );
}

#[test]
fn an_empty_result_is_refused_unless_allowed() {
    let world = ExecuteProcessing.default_world();
    let mut command = complete_execute_command(&world, &[]);
    let Command::CompleteExecute(CompleteExecute {
        result,
        allow_empty,
        ..
    }) = &mut command
    else {
        panic!("another command");
    };
    for tree in &mut result.trees {
        tree.changes = Some(0);
    }
    *allow_empty = true;
    let allowed = command.clone();
    let Command::CompleteExecute(CompleteExecute { allow_empty, .. }) = &mut command else {
        panic!("another command");
    };
    *allow_empty = false;
    assert_eq!(
        world.expect_refusal(&worker(), command),
        Refusal::EmptyResult
    );
    assert!(world.decide(&worker(), allowed).is_ok());
}

#[test]
fn an_approval_covers_the_result_and_the_landing_options() {
    let mut world = ExecuteComplete.default_world();
    let approve = |options: plan::LandingOptions| {
        Command::from(ApproveResult {
            options,
            targets: PlanTargets::default(),
            once: false,
            lands: false,
        })
    };
    world
        .submit(
            &crate::world::ada(),
            approve(plan::LandingOptions::default()),
        )
        .unwrap();
    let usual = world.plan().valid_approval().unwrap().content;
    let aside = plan::LandingOptions {
        shape: plan::landing_options::LandingDestination::Branch("aside".to_owned()),
        ..plan::LandingOptions::default()
    };
    world
        .submit(&crate::world::ada(), approve(aside.clone()))
        .unwrap();
    let approval = world.plan().valid_approval().unwrap();
    assert_ne!(approval.content, usual);
    assert_eq!(approval.options, aside);
    let result = world.plan().result().unwrap();
    let elsewhere = plan::LandingOptions {
        shape: plan::landing_options::LandingDestination::Branch("elsewhere".to_owned()),
        ..plan::LandingOptions::default()
    };
    assert_ne!(result.digest(&aside), result.digest(&elsewhere));
}

/// A change recorded while rules are judged makes the judgement stale.
#[test]
fn recording_a_change_makes_a_judgement_stale() {
    let mut world = ExecuteProcessing.default_world();
    open_changeset(&mut world, "main", 1);
    report_change(&mut world, 1, "a", "editor");
    let judged_on = |recorded: Digest| {
        let mut command = world.default_command(Verb::CompleteExecute);
        if let Command::CompleteExecute(CompleteExecute { judgement, .. }) = &mut command {
            judgement.recorded = Some(recorded);
        }
        world.decide(&worker(), command)
    };
    let entries = world.facts.entries.iter().map(|(of, entry)| (*of, entry));
    assert!(judged_on(digest_open_entries(entries)).is_ok());
    assert!(matches!(
        judged_on(digest_open_entries([])),
        Err(Refusal::JudgementStale { .. })
    ));
}
