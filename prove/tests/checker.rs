//! The checker against histories that were tampered with: whatever is changed in what the players wrote
//! down, it notices.

#![allow(
    clippy::unwrap_used,
    reason = "a test whose set-up fails has failed, and the panic says where"
)]

use plan::{ChangesetId, PlanId};
use planwright_prove::check::{Kind, check};
use planwright_prove::history::{History, Made};
use planwright_prove::simulation::{Played, Stage, play};
use planwright_prove::{Answer, Operation, Refused};

fn played() -> Played {
    let played = play(&Stage::in_memory(), 1, 2_000).unwrap();
    assert_eq!(played.violations, Vec::new());
    played
}

/// What is said first once the history is changed.
#[track_caller]
fn check_changed(expected: Kind, change: impl FnOnce(&mut History)) {
    check_tampered(expected, |played| change(&mut played.history));
}

/// The same once anything is.
#[track_caller]
fn check_tampered(expected: Kind, tamper: impl FnOnce(&mut Played)) {
    let mut played = played();
    tamper(&mut played);
    let found = check(&played.history, &played.stored);
    let first = found.first().expect("the change was not noticed");
    assert_eq!(first.kind, expected, "{}", first.what);
}

/// The first call of this kind.
#[track_caller]
fn find(history: &mut History, fits: impl Fn(&Made) -> bool) -> &mut Made {
    history
        .calls
        .values_mut()
        .find(|made| made.call.key.is_none() && fits(made))
        .expect("there is no such call in this schedule")
}

fn was_done(made: &Made) -> bool {
    matches!(made.answer(), Some(Answer::Done(receipt)) if !receipt.repeated)
        && made.call.operation.leaves_an_event()
}

fn answer(made: &mut Made) -> &mut Answer {
    &mut made.answered.as_mut().unwrap().1
}

#[test]
fn something_done_that_was_told_as_failed() {
    check_changed(Kind::Told, |history| {
        *answer(find(history, was_done)) = Answer::Failed("no".to_owned());
    });
}

#[test]
fn something_refused_that_was_told_as_done() {
    let mut done = None;
    check_changed(Kind::Told, |history| {
        let told = find(history, was_done);
        done.replace(answer(told).clone());
        let refused = find(history, |made| {
            matches!(made.answer(), Some(Answer::Refused(_)))
                && made.call.operation.leaves_an_event()
        });
        *answer(refused) = done.unwrap();
    });
}

#[test]
fn an_event_of_a_call_that_nobody_made() {
    check_changed(Kind::Told, |history| {
        let id = find(history, was_done).call.id;
        history.calls.remove(&id);
    });
}

#[test]
fn an_answer_that_names_another_version() {
    check_changed(Kind::Told, |history| {
        if let Answer::Done(receipt) = answer(find(history, was_done)) {
            receipt.version = receipt.version.map(|version| version + 1);
        }
    });
}

#[test]
fn a_look_into_the_past() {
    check_changed(Kind::Order, |history| {
        let look = find(history, |made| match made.answer() {
            Some(Answer::Saw(seen)) => seen.len() == 1 && seen[0].version > 6,
            _ => false,
        });
        if let Answer::Saw(seen) = answer(look) {
            seen[0].version = 1;
            seen[0].stage = "strategize/queued".to_owned();
            seen[0].epoch = Some(0);
            seen[0].lease = Some(None);
        }
    });
}

#[test]
fn a_look_at_what_never_was() {
    check_changed(Kind::Order, |history| {
        let look = find(
            history,
            |made| matches!(made.answer(), Some(Answer::Saw(seen)) if seen.len() == 1),
        );
        if let Answer::Saw(seen) = answer(look) {
            seen[0].stage = "apply/constrained".to_owned();
        }
    });
}

#[test]
fn a_refusal_for_a_reason_that_never_was() {
    check_changed(Kind::Order, |history| {
        let refused = find(
            history,
            |made| matches!(made.answer(), Some(Answer::Refused(refused)) if refused.stage.is_some()),
        );
        if let Answer::Refused(refused) = answer(refused) {
            refused.stage = Some("apply/constrained".to_owned());
        }
    });
}

#[test]
fn a_change_in_another_changeset_than_was_told() {
    check_changed(Kind::Entry, |history| {
        let recorded = find(history, |made| {
            matches!(made.call.operation, Operation::RecordChange { .. })
                && matches!(made.answer(), Some(Answer::Done(_)))
        });
        if let Answer::Done(receipt) = answer(recorded) {
            receipt.changeset = Some(ChangesetId::from_parts(1, 1));
        }
    });
}

#[test]
fn a_change_that_nobody_recorded() {
    check_changed(Kind::Entry, |history| {
        let recorded = find(history, |made| {
            matches!(made.call.operation, Operation::RecordChange { .. })
                && matches!(made.answer(), Some(Answer::Done(_)))
        });
        let id = recorded.call.id;
        history.calls.remove(&id);
    });
}

#[test]
fn a_reader_that_missed_an_event() {
    check_changed(Kind::Reader, |history| {
        history.readers.get_mut(&0).unwrap().remove(5);
    });
}

#[test]
fn a_reader_that_saw_an_event_twice() {
    check_changed(Kind::Reader, |history| {
        let events = history.readers.get_mut(&0).unwrap();
        events.insert(5, events[5]);
    });
}

#[test]
fn a_changeset_that_was_opened_and_is_not_there() {
    check_changed(Kind::Entry, |history| {
        let opened = find(history, |made| {
            matches!(made.call.operation, Operation::OpenChangeset { .. })
                && matches!(made.answer(), Some(Answer::Done(_)))
        });
        if let Answer::Done(receipt) = answer(opened) {
            receipt.changeset = Some(ChangesetId::from_parts(1, 1));
        }
    });
}

/// Nothing speaks of it but the answer to whoever made it.
#[test]
fn a_plan_that_was_made_and_is_gone() {
    check_tampered(Kind::Told, |played| {
        let made = find(&mut played.history, |made| {
            matches!(made.call.operation, Operation::Use) && was_done(made)
        });
        let (plan, call) = (made.about().unwrap(), made.call.id);
        played.stored.plans.remove(&plan);
        let speaks = |made: &Made| match made.answer() {
            Some(Answer::Saw(seen)) => seen.iter().any(|seen| seen.plan == plan),
            _ => made.about() == Some(plan),
        };
        let history = &mut played.history;
        history
            .calls
            .retain(|id, made| *id == call || !speaks(made));
        history.readers.clear();
    });
}

#[test]
fn a_look_that_finds_no_plan_where_there_is_one() {
    check_changed(Kind::Order, |history| {
        let is_look = |made: &Made| matches!(made.call.operation, Operation::Look { .. });
        let looks = history.calls.values_mut().rev();
        let look = looks.into_iter().find(|made| is_look(made)).unwrap();
        *answer(look) = Answer::Refused(Refused {
            absent: true,
            ..Refused::default()
        });
    });
}

#[test]
fn a_key_that_was_forgotten() {
    check_changed(Kind::Told, |history| {
        let is_repeated = |made: &Made| {
            let first = made.call.key.as_deref() == Some(&made.call.id.to_string());
            let repeated = matches!(made.answer(), Some(Answer::Done(receipt)) if receipt.repeated);
            made.call.key.is_some() && !first && repeated
        };
        let repeats = history.calls.values_mut();
        let repeat = repeats.into_iter().find(|made| is_repeated(made)).unwrap();
        *answer(repeat) = Answer::Refused(Refused::default());
    });
}

#[test]
fn a_reader_that_saw_an_event_of_no_plan() {
    check_changed(Kind::Reader, |history| {
        let events = history.readers.get_mut(&0).unwrap();
        events.push((PlanId::from_parts(1, 1), 1));
    });
}

#[test]
fn a_reader_that_saw_an_event_that_is_not_there() {
    check_changed(Kind::Reader, |history| {
        let events = history.readers.get_mut(&0).unwrap();
        let (plan, version) = *events.last().unwrap();
        events.push((plan, version + 1));
    });
}

#[test]
fn a_reader_that_stopped_too_early() {
    check_changed(Kind::Reader, |history| {
        history.readers.get_mut(&0).unwrap().pop();
    });
}
