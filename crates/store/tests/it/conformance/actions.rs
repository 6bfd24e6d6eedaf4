//! Tests actions: names are unique, archived actions cannot be used, single-use actions only once.

use std::sync::atomic::{AtomicBool, Ordering};

use plan::action::{ActionDefinition, ActionState};
use plan::command::{ArchiveAction, CreateAction, CreatePlan};
use plan::{Caller, Command, ReceiptOutcome, Refusal};
use store::{CommitError, PlanFilter};
use testkit::client::expect_done;
use testkit::samples;

use crate::store_fixture::{StoreFixture, commit_while};

super::on_every_store! {
    of_sixteen_actions_with_one_name_one_is_created_and_the_others_are_refused,
    actions_of_different_names_are_all_kept,
    an_action_is_not_used_once_it_is_archived,
    an_action_that_was_read_is_locked_until_the_commit,
    an_action_that_is_not_reusable_is_used_by_one_of_sixteen,
}

fn of_sixteen_actions_with_one_name_one_is_created_and_the_others_are_refused(
    fixture: &StoreFixture,
) {
    let answers = fixture.race(16, |number, client| {
        client.submit(Command::from(CreateAction(ActionDefinition {
            description: format!("from {number}"),
            invariants: vec![samples::rule_draft(&format!("of-{number}"), "true", &[])],
            ..samples::reusable_action("tidy")
        })))
    });
    let winners: Vec<usize> = (0..16).filter(|&number| answers[number].is_ok()).collect();
    let [winner] = winners[..] else {
        panic!("{answers:?}");
    };
    for answer in answers.iter().filter_map(|answer| answer.as_ref().err()) {
        let CommitError::Refused(Refusal::ActionExists { by, .. }) = answer else {
            panic!("{answer:?}");
        };
        assert_eq!(*by, Caller::Worker(format!("w{winner}")));
    }
    let store = fixture.open();
    let stored = store
        .read_action(&samples::parse_name("tidy"))
        .unwrap()
        .unwrap();
    assert_eq!(stored.definition.description, format!("from {winner}"));
    let rules = store.read_rules(&[]).unwrap().rules;
    let names: Vec<&str> = rules.iter().map(|rule| rule.draft.name.as_str()).collect();
    assert_eq!(
        names,
        [format!("of-{winner}")],
        "rules come with their action only"
    );
}

fn actions_of_different_names_are_all_kept(fixture: &StoreFixture) {
    fixture.race(16, |number, client| {
        client.add_action(samples::reusable_action(&format!("action-{number}")));
    });
    assert_eq!(fixture.open().list_actions(None, 100).unwrap().len(), 16);
}

fn an_action_is_not_used_once_it_is_archived(fixture: &StoreFixture) {
    let client = fixture.client();
    let name = client.add_action(samples::reusable_action("tidy"));
    let archived = AtomicBool::new(false);
    let used = fixture.race(9, |number, client| {
        if number == 8 {
            expect_done(client.submit(Command::from(ArchiveAction(name.clone()))));
            archived.store(true, Ordering::SeqCst);
            return 0;
        }
        let mut used = 0;
        for _ in 0..6 {
            let too_late = archived.load(Ordering::SeqCst);
            let new = samples::plan_of_action(client.ids().next_plan_id(), &name);
            match client.submit(Command::from(CreatePlan(new))) {
                Ok(_) => {
                    assert!(!too_late, "an archived action was used");
                    used += 1;
                }
                Err(CommitError::Refused(Refusal::ActionArchived { by, .. })) => {
                    assert_eq!(by, Caller::Worker("w8".to_owned()));
                }
                Err(other) => panic!("{other:?}"),
            }
        }
        used
    });
    let store = fixture.open();
    let plans = store.list_plans(&PlanFilter::default(), None, 100).unwrap();
    assert_eq!(plans.len(), used.iter().sum::<usize>());
    let action = store.read_action(&name).unwrap().unwrap();
    assert!(
        matches!(action.state, ActionState::Archived { .. }),
        "no use undid the archiving"
    );
    let again = client.submit(Command::from(ArchiveAction(name)));
    assert!(
        matches!(
            again,
            Err(CommitError::Refused(Refusal::ActionArchived { .. }))
        ),
        "{again:?}"
    );
}

fn an_action_that_was_read_is_locked_until_the_commit(fixture: &StoreFixture) {
    let client = fixture.client();
    let name = client.add_action(samples::reusable_action("tidy"));
    let new = samples::plan_of_action(client.ids().next_plan_id(), &name);
    let plan = new.id;
    let submission = client.build_submission(None, Command::from(CreatePlan(new)));
    let (other, archived) = (fixture.client(), name.clone());
    let archive = move || {
        drop(expect_done(
            other.submit(Command::from(ArchiveAction(archived))),
        ))
    };
    let (answer, archived) = commit_while(&client, submission, archive);
    match answer {
        Err(CommitError::Refused(Refusal::ActionArchived { .. })) if archived => {}
        Ok(_) if !archived => {}
        other => panic!("archived: {archived}, and yet {other:?}"),
    }
    assert_eq!(client.store().read_plan(plan).unwrap().is_some(), !archived);
    let action = client.store().read_action(&name).unwrap().unwrap();
    assert!(matches!(action.state, ActionState::Archived { .. }));
}

fn an_action_that_is_not_reusable_is_used_by_one_of_sixteen(fixture: &StoreFixture) {
    let client = fixture.client();
    let name = client.add_action(ActionDefinition {
        reusable: false,
        ..samples::reusable_action("once")
    });
    let answers = fixture.race(16, |_, client| {
        client.submit(Command::from(CreatePlan(samples::plan_of_action(
            client.ids().next_plan_id(),
            &name,
        ))))
    });
    let store = fixture.open();
    let plans = store.list_plans(&PlanFilter::default(), None, 100).unwrap();
    assert_eq!(plans.len(), 1);
    let winner = plans[0].plan.id();
    for answer in answers {
        match answer {
            Ok(committed) => {
                let receipt = committed.receipt;
                assert_eq!(
                    (receipt.outcome, receipt.plan),
                    (ReceiptOutcome::Done, Some(winner))
                );
            }
            Err(CommitError::Refused(Refusal::ActionUsedUp { plan, .. })) => {
                assert_eq!(plan, winner);
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(
        store.read_action(&name).unwrap().unwrap().used_by,
        Some(winner)
    );
}
