//! The checker on histories that were tampered with: it must notice every change.

use plan::{ChangesetId, PlanId};
use planwright_prove::check::{ViolationKind, check_history};
use planwright_prove::history::{CallHistory, RecordedCall};
use planwright_prove::simulation::{ScheduleOutcome, SimulatedStore, run_schedule};
use planwright_prove::{CallAnswer, CallRefusal, Operation};

fn run_valid_schedule() -> ScheduleOutcome {
    let outcome = run_schedule(&SimulatedStore::in_memory(), 1, 2_000).unwrap();
    assert_eq!(outcome.violations, Vec::new());
    outcome
}

/// Changes a valid history and checks which kind of violation is found first.
#[track_caller]
fn check_changed_history(expected: ViolationKind, change: impl FnOnce(&mut CallHistory)) {
    check_changed_outcome(expected, |outcome| change(&mut outcome.history));
}

/// The same for changes to the history or the stored plans.
#[track_caller]
fn check_changed_outcome(expected: ViolationKind, change: impl FnOnce(&mut ScheduleOutcome)) {
    let mut outcome = run_valid_schedule();
    change(&mut outcome);
    let found = check_history(&outcome.history, &outcome.stored);
    let first = found.first().expect("the change was not noticed");
    assert_eq!(first.kind, expected, "{}", first.message);
}

/// Finds the first call without a key that matches.
#[track_caller]
fn find_call(
    history: &mut CallHistory,
    matches: impl Fn(&RecordedCall) -> bool,
) -> &mut RecordedCall {
    history
        .calls
        .values_mut()
        .find(|recorded| recorded.call.key.is_none() && matches(recorded))
        .expect("the schedule has no such call")
}

fn was_done(recorded: &RecordedCall) -> bool {
    matches!(recorded.answer(), Some(CallAnswer::Done(receipt)) if !receipt.repeated)
        && recorded.call.operation.writes_event()
}

fn answer_mut(recorded: &mut RecordedCall) -> &mut CallAnswer {
    &mut recorded.answered.as_mut().unwrap().1
}

#[test]
fn a_successful_call_with_the_answer_failed_is_found() {
    check_changed_history(ViolationKind::WrongAnswer, |history| {
        *answer_mut(find_call(history, was_done)) = CallAnswer::Failed("no".to_owned());
    });
}

#[test]
fn a_refused_call_with_the_answer_done_is_found() {
    let mut done = None;
    check_changed_history(ViolationKind::WrongAnswer, |history| {
        let successful = find_call(history, was_done);
        done.replace(answer_mut(successful).clone());
        let refused = find_call(history, |recorded| {
            matches!(recorded.answer(), Some(CallAnswer::Refused(_)))
                && recorded.call.operation.writes_event()
        });
        *answer_mut(refused) = done.unwrap();
    });
}

#[test]
fn an_event_without_a_call_is_found() {
    check_changed_history(ViolationKind::WrongAnswer, |history| {
        let id = find_call(history, was_done).call.id;
        history.calls.remove(&id);
    });
}

#[test]
fn an_answer_with_the_wrong_version_is_found() {
    check_changed_history(ViolationKind::WrongAnswer, |history| {
        if let CallAnswer::Done(receipt) = answer_mut(find_call(history, was_done)) {
            receipt.version = receipt.version.map(|version| version + 1);
        }
    });
}

#[test]
fn a_stale_read_is_found() {
    check_changed_history(ViolationKind::NotLinearizable, |history| {
        let read = find_call(history, |recorded| match recorded.answer() {
            Some(CallAnswer::Observed(plans)) => plans.len() == 1 && plans[0].version > 6,
            _ => false,
        });
        if let CallAnswer::Observed(plans) = answer_mut(read) {
            plans[0].version = 1;
            plans[0].stage = "strategize/queued".to_owned();
            plans[0].epoch = Some(0);
            plans[0].lease = Some(None);
        }
    });
}

#[test]
fn a_read_of_a_stage_that_never_existed_is_found() {
    check_changed_history(ViolationKind::NotLinearizable, |history| {
        let read = find_call(
            history,
            |recorded| matches!(recorded.answer(), Some(CallAnswer::Observed(plans)) if plans.len() == 1),
        );
        if let CallAnswer::Observed(plans) = answer_mut(read) {
            plans[0].stage = "apply/constrained".to_owned();
        }
    });
}

#[test]
fn a_refusal_for_a_reason_that_was_never_true_is_found() {
    check_changed_history(ViolationKind::NotLinearizable, |history| {
        let refused = find_call(
            history,
            |recorded| matches!(recorded.answer(), Some(CallAnswer::Refused(refusal)) if refusal.stage.is_some()),
        );
        if let CallAnswer::Refused(refusal) = answer_mut(refused) {
            refusal.stage = Some("apply/constrained".to_owned());
        }
    });
}

#[test]
fn a_change_in_another_changeset_than_answered_is_found() {
    check_changed_history(ViolationKind::MisplacedChange, |history| {
        let recorded = find_call(history, |recorded| {
            matches!(recorded.call.operation, Operation::RecordChange { .. })
                && matches!(recorded.answer(), Some(CallAnswer::Done(_)))
        });
        if let CallAnswer::Done(receipt) = answer_mut(recorded) {
            receipt.changeset = Some(ChangesetId::from_parts(1, 1));
        }
    });
}

#[test]
fn a_change_without_a_call_is_found() {
    check_changed_history(ViolationKind::MisplacedChange, |history| {
        let recorded = find_call(history, |recorded| {
            matches!(recorded.call.operation, Operation::RecordChange { .. })
                && matches!(recorded.answer(), Some(CallAnswer::Done(_)))
        });
        let id = recorded.call.id;
        history.calls.remove(&id);
    });
}

#[test]
fn a_reader_that_missed_an_event_is_found() {
    check_changed_history(ViolationKind::InconsistentLogRead, |history| {
        history.readers.get_mut(&0).unwrap().remove(5);
    });
}

#[test]
fn a_reader_that_saw_an_event_twice_is_found() {
    check_changed_history(ViolationKind::InconsistentLogRead, |history| {
        let events = history.readers.get_mut(&0).unwrap();
        events.insert(5, events[5]);
    });
}

#[test]
fn an_opened_changeset_that_is_not_stored_is_found() {
    check_changed_history(ViolationKind::MisplacedChange, |history| {
        let opened = find_call(history, |recorded| {
            matches!(recorded.call.operation, Operation::OpenChangeset { .. })
                && matches!(recorded.answer(), Some(CallAnswer::Done(_)))
        });
        if let CallAnswer::Done(receipt) = answer_mut(opened) {
            receipt.changeset = Some(ChangesetId::from_parts(1, 1));
        }
    });
}

/// Only the answer to the call that created the plan mentions it.
#[test]
fn a_created_plan_that_is_not_stored_is_found() {
    check_changed_outcome(ViolationKind::WrongAnswer, |outcome| {
        let created = find_call(&mut outcome.history, |recorded| {
            matches!(recorded.call.operation, Operation::Use) && was_done(recorded)
        });
        let (plan_id, call_id) = (created.plan_id().unwrap(), created.call.id);
        outcome.stored.plans.remove(&plan_id);
        let mentions_plan = |recorded: &RecordedCall| match recorded.answer() {
            Some(CallAnswer::Observed(plans)) => plans.iter().any(|plan| plan.plan_id == plan_id),
            _ => recorded.plan_id() == Some(plan_id),
        };
        let history = &mut outcome.history;
        history
            .calls
            .retain(|id, recorded| *id == call_id || !mentions_plan(recorded));
        history.readers.clear();
    });
}

#[test]
fn a_read_that_does_not_find_an_existing_plan_is_found() {
    check_changed_history(ViolationKind::NotLinearizable, |history| {
        let is_read =
            |recorded: &RecordedCall| matches!(recorded.call.operation, Operation::Show { .. });
        let mut latest_first = history.calls.values_mut().rev();
        let read = latest_first.find(|recorded| is_read(recorded)).unwrap();
        *answer_mut(read) = CallAnswer::Refused(CallRefusal {
            plan_missing: true,
            ..CallRefusal::default()
        });
    });
}

#[test]
fn a_forgotten_key_is_found() {
    check_changed_history(ViolationKind::WrongAnswer, |history| {
        let is_repeated = |recorded: &RecordedCall| {
            let first = recorded.call.key.as_deref() == Some(&recorded.call.id.to_string());
            let repeated =
                matches!(recorded.answer(), Some(CallAnswer::Done(receipt)) if receipt.repeated);
            recorded.call.key.is_some() && !first && repeated
        };
        let repeats = history.calls.values_mut();
        let repeat = repeats
            .into_iter()
            .find(|recorded| is_repeated(recorded))
            .unwrap();
        *answer_mut(repeat) = CallAnswer::Refused(CallRefusal::default());
    });
}

#[test]
fn a_reader_that_saw_an_event_of_a_missing_plan_is_found() {
    check_changed_history(ViolationKind::InconsistentLogRead, |history| {
        let events = history.readers.get_mut(&0).unwrap();
        events.push((PlanId::from_parts(1, 1), 1));
    });
}

#[test]
fn a_reader_that_saw_an_event_that_is_not_stored_is_found() {
    check_changed_history(ViolationKind::InconsistentLogRead, |history| {
        let events = history.readers.get_mut(&0).unwrap();
        let (plan, version) = *events.last().unwrap();
        events.push((plan, version + 1));
    });
}

#[test]
fn a_reader_that_stopped_too_early_is_found() {
    check_changed_history(ViolationKind::InconsistentLogRead, |history| {
        history.readers.get_mut(&0).unwrap().pop();
    });
}
