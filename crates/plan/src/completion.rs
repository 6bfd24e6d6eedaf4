//! The last completion of a verb, found in a plan's log.
//!
//! Only a command that does not apply needs it, to answer "already done" or to say when and by whom
//! it was done. So the plan's state does not hold it: `decide` asks for it, and the store reads it
//! from the log.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use crate::event::RemovedChangeResolution;
use crate::plan::PlanOrigin;
use crate::{Caller, Epoch, Event, Phase, RecordedEvent, Timestamp, Verb};

/// The last completion of a verb.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompletedCommand {
    pub at: Timestamp,
    pub by: Caller,
    /// Set for verbs that need an epoch.
    pub epoch: Option<Epoch>,
}

/// Last completions as far as they were looked up. `None` means that the verb was never completed,
/// or that a later event undid it.
pub type KnownCompletions = BTreeMap<Verb, Option<CompletedCommand>>;

/// Looks for a verb's last completion, from the newest event of a plan to the oldest.
#[derive(Debug)]
pub struct CompletionSearch {
    verb: Verb,
    /// A `failed` event whose verb depends on the claim before it.
    failure: Option<(Epoch, CompletedCommand)>,
}

impl CompletionSearch {
    pub fn new(verb: Verb) -> Self {
        Self {
            verb,
            failure: None,
        }
    }

    /// Returns the kinds of events that the search needs to see. Other events do not matter to it.
    pub fn event_kinds(&self) -> &'static [&'static str] {
        self.verb.completion_events()
    }

    /// Looks at the next older event. Breaks with the answer as soon as it is known. If there are
    /// no more events, the verb was never completed.
    pub fn visit_event(
        &mut self,
        recorded: &RecordedEvent,
    ) -> ControlFlow<Option<CompletedCommand>> {
        if let Event::Claimed { epoch, .. } = &recorded.event
            && let Some((failed_epoch, failure)) = self.failure.take()
        {
            // Only a claim makes a holder, so this one made the holder that the failure ended.
            let (verb, epoch) = failed_verb(failed_epoch, Some(*epoch));
            if verb == self.verb {
                return ControlFlow::Break(Some(CompletedCommand { epoch, ..failure }));
            }
        }
        if let Event::Failed { failure } = &recorded.event {
            self.failure = Some((failure.epoch, completed(recorded, None)));
            return ControlFlow::Continue(());
        }
        if voided_verb(&recorded.event) == Some(self.verb) {
            return ControlFlow::Break(None);
        }
        match completed_verb(&recorded.event, None) {
            Some((verb, epoch)) if verb == self.verb => {
                ControlFlow::Break(Some(completed(recorded, epoch)))
            }
            Some(_) | None => ControlFlow::Continue(()),
        }
    }
}

/// Returns the last completion of every verb in a plan's log, oldest event first.
pub fn collect_completions<'a>(
    events: impl IntoIterator<Item = &'a RecordedEvent>,
) -> BTreeMap<Verb, CompletedCommand> {
    let mut known = KnownCompletions::new();
    record_completions(&mut known, None, events);
    let completed = |(verb, completion): (_, Option<_>)| Some((verb, completion?));
    known.into_iter().filter_map(completed).collect()
}

/// Adds what further events complete and undo. `held_epoch` is the holder's before them.
pub(crate) fn record_completions<'a>(
    known: &mut KnownCompletions,
    mut held_epoch: Option<Epoch>,
    events: impl IntoIterator<Item = &'a RecordedEvent>,
) {
    for recorded in events {
        if let Some(verb) = voided_verb(&recorded.event) {
            known.insert(verb, None);
        }
        if let Some((verb, epoch)) = completed_verb(&recorded.event, held_epoch) {
            known.insert(verb, Some(completed(recorded, epoch)));
        }
        if let Event::Claimed { epoch, .. } = &recorded.event {
            held_epoch = Some(*epoch);
        }
    }
}

fn completed(recorded: &RecordedEvent, epoch: Option<Epoch>) -> CompletedCommand {
    CompletedCommand {
        at: recorded.at,
        by: recorded.by.clone(),
        epoch,
    }
}

/// Returns the verb behind a failure, and its epoch. A failure with a new epoch comes from `reclaim` when the
/// attempts are used up.
fn failed_verb(failed_epoch: Epoch, held_epoch: Option<Epoch>) -> (Verb, Option<Epoch>) {
    if held_epoch == Some(failed_epoch) {
        (Verb::Fail, held_epoch)
    } else {
        (Verb::Reclaim, None)
    }
}

/// Returns the verb whose earlier completion no longer counts after the event.
fn voided_verb(event: &Event) -> Option<Verb> {
    match event {
        // An earlier withdrawal does not count for this intent.
        Event::ApplyPrepared { .. } => Some(Verb::WithdrawApply),
        // The prepare was undone. A repeated prepare must run again instead of answering "already
        // done".
        Event::ApplyWithdrawn { .. } => Some(Verb::PrepareApply),
        Event::Answered { fate, .. } => match fate {
            Some(RemovedChangeResolution::Landed) => None,
            // The intent is gone, so a repeated prepare must run again.
            Some(RemovedChangeResolution::Again | RemovedChangeResolution::Drop) | None => {
                Some(Verb::PrepareApply)
            }
        },
        Event::Created(_)
        | Event::GateHeld { .. }
        | Event::Claimed { .. }
        | Event::BasesRecorded { .. }
        | Event::DecisionsRecorded { .. }
        | Event::StrategizeCompleted { .. }
        | Event::ExecuteEntered { .. }
        | Event::ChangesetSealed { .. }
        | Event::ExecuteCompleted { .. }
        | Event::ResultPicked { .. }
        | Event::Approved { .. }
        | Event::ApplyEntered { .. }
        | Event::Landed { .. }
        | Event::Constrained { .. }
        | Event::Failed { .. }
        | Event::RetryScheduled { .. }
        | Event::Retried { .. }
        | Event::Asked { .. }
        | Event::QuestionExpired
        | Event::PermissionAsked { .. }
        | Event::PermissionAnswered { .. }
        | Event::Revised { .. }
        | Event::Reverted { .. }
        | Event::Released { .. }
        | Event::Reclaimed { .. }
        | Event::Waived { .. }
        | Event::RuledOn { .. }
        | Event::Cancelled { .. } => None,
    }
}

/// Returns the verb that an event completes, and its epoch. `None` for events that accompany
/// another event of the same verb.
fn completed_verb(event: &Event, held_epoch: Option<Epoch>) -> Option<(Verb, Option<Epoch>)> {
    let completed = match event {
        Event::GateHeld { .. } | Event::DecisionsRecorded { .. } | Event::RetryScheduled { .. } => {
            return None;
        }
        Event::Created(created) => match created.origin {
            PlanOrigin::Use => (Verb::Use, None),
            PlanOrigin::UndoOf(_) => (Verb::Undo, None),
            PlanOrigin::RestOf(_) => return None,
        },
        Event::Claimed {
            phase: Phase::Strategize,
            epoch,
            ..
        } => (Verb::StartStrategize, Some(*epoch)),
        Event::Claimed {
            phase: Phase::Execute,
            epoch,
            ..
        } => (Verb::StartExecute, Some(*epoch)),
        Event::Claimed {
            phase: Phase::Apply,
            epoch,
            ..
        } => (Verb::StartApply, Some(*epoch)),
        Event::BasesRecorded { epoch, .. } => (Verb::RecordBases, Some(*epoch)),
        Event::StrategizeCompleted { epoch } => (Verb::CompleteStrategize, Some(*epoch)),
        Event::ExecuteEntered { .. } => (Verb::ExecutePlan, None),
        Event::ChangesetSealed { .. } => (Verb::SealChangeset, None),
        Event::ExecuteCompleted { epoch, .. } => (Verb::CompleteExecute, Some(*epoch)),
        Event::ResultPicked { .. } => (Verb::Pick, None),
        Event::Approved { .. } => (Verb::Approve, None),
        Event::ApplyEntered { .. } => (Verb::ApplyPlan, None),
        Event::ApplyPrepared { epoch, .. } => (Verb::PrepareApply, Some(*epoch)),
        Event::ApplyWithdrawn { epoch } => (Verb::WithdrawApply, Some(*epoch)),
        Event::Landed { epoch } => (Verb::CompleteApply, Some(*epoch)),
        Event::Constrained { constraint } => (Verb::Constrain, Some(constraint.epoch)),
        Event::Failed { failure } => failed_verb(failure.epoch, held_epoch),
        Event::Retried { .. } => (Verb::Retry, None),
        Event::Asked { question } => (Verb::Ask, Some(question.epoch)),
        Event::Answered { .. } => (Verb::Answer, None),
        Event::QuestionExpired => (Verb::ExpireQuestion, None),
        Event::PermissionAsked { epoch, .. } => (Verb::AskPermission, Some(*epoch)),
        Event::PermissionAnswered { .. } => (Verb::AnswerPermission, None),
        Event::Revised { .. } => (Verb::Revise, None),
        Event::Reverted { .. } => (Verb::Revert, None),
        Event::Released { epoch } => (Verb::Release, Some(*epoch)),
        Event::Reclaimed { .. } => (Verb::Reclaim, None),
        Event::Waived { .. } => (Verb::Waive, None),
        Event::RuledOn { .. } => (Verb::RuleOn, None),
        Event::Cancelled { .. } => (Verb::Cancel, None),
    };
    Some(completed)
}
