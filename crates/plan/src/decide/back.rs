//! The ways back, and out: retry, revise, revert, cancel. Never past the point of no return.

use crate::changeset::TreePath;
use crate::decide::draft::Draft;
use crate::decide::{ledger, text};
use crate::plan::{Limits, MAX_AUTOMATIC_REVERSIONS, Remedy};
use crate::profile::Step;
use crate::stage::{Landing, Work};
use crate::{Decision, Event, Phase, Refusal, Stage};

pub(super) fn retry(
    mut draft: Draft<'_>,
    fresh: bool,
    limits: Option<Limits>,
) -> Result<Decision, Refusal> {
    let gives_up_result = match &draft.plan.stage {
        Stage::Strategize(Work::Errored(_)) | Stage::Execute(Work::Errored(_)) => false,
        Stage::Apply(Landing::Errored(_) | Landing::Constrained(_)) => fresh,
        Stage::Execute(Work::Complete) if fresh => true,
        Stage::Strategize(_) | Stage::Execute(_) | Stage::Apply(_) => return draft.not_now(),
    };
    if gives_up_result && draft.plan.is_prepared() {
        return draft.not_now();
    }
    draft.require_person()?;
    let given = limits;
    let limits = given.unwrap_or(draft.plan.limits);
    ledger::require_something_left(&draft, &limits, given.as_ref())?;
    let restarts_execute = gives_up_result.then(|| draft.plan.epoch.next());
    draft.emit(Event::Retried {
        fresh,
        limits,
        restarts_execute,
    });
    Ok(draft.done())
}

pub(super) fn revise(
    mut draft: Draft<'_>,
    feedback: &str,
    dropped: &[TreePath],
) -> Result<Decision, Refusal> {
    if draft.plan.is_prepared() {
        return draft.not_now();
    }
    let to = match &draft.plan.stage {
        Stage::Strategize(Work::Complete | Work::Errored(_)) => Phase::Strategize,
        Stage::Execute(Work::Complete | Work::Errored(_) | Work::AwaitingInput(_))
        | Stage::Apply(
            Landing::Queued(..)
            | Landing::AwaitingInput(..)
            | Landing::Errored(_)
            | Landing::Constrained(_),
        ) => Phase::Execute,
        Stage::Strategize(
            Work::Queued(_) | Work::Processing(_) | Work::AwaitingInput(_) | Work::Cancelled(_),
        )
        | Stage::Execute(Work::Queued(_) | Work::Processing(_) | Work::Cancelled(_))
        | Stage::Apply(Landing::Processing(..) | Landing::Applied(_) | Landing::Cancelled(_)) => {
            return draft.not_now();
        }
    };
    draft.require_person_or(Step::Revise)?;
    let automatic = !draft.request.caller.is_person();
    if automatic && draft.plan.remedy() != Some(Remedy::Fix) {
        return Err(Refusal::NothingToFix);
    }
    let feedback = text::checked("feedback", feedback)?;
    let epoch = draft.plan.epoch.next();
    draft.emit(Event::Revised {
        to,
        epoch,
        feedback,
        dropped: dropped.to_vec(),
        automatic,
    });
    Ok(draft.done())
}

pub(super) fn revert(mut draft: Draft<'_>, reason: &str) -> Result<Decision, Refusal> {
    let went_on = draft.plan.phase() != Phase::Strategize;
    if !went_on || draft.plan.is_prepared() || draft.plan.stage.is_final() {
        return draft.not_now();
    }
    draft.require_person_or(Step::Revert)?;
    let automatic = !draft.request.caller.is_person();
    if automatic && draft.plan.automatic_reversions >= MAX_AUTOMATIC_REVERSIONS {
        return Err(Refusal::ReversionLimit(draft.plan.automatic_reversions));
    }
    let reason = text::checked("reason", reason)?;
    let epoch = draft.plan.epoch.next();
    draft.emit(Event::Reverted {
        epoch,
        reason,
        automatic,
    });
    Ok(draft.done())
}

pub(super) fn cancel(mut draft: Draft<'_>, reason: Option<&str>) -> Result<Decision, Refusal> {
    if draft.plan.stage.is_final() || draft.plan.is_prepared() {
        return draft.not_now();
    }
    let reason = reason
        .map(|reason| text::checked("reason", reason))
        .transpose()?;
    let epoch = draft.plan.epoch.next();
    draft.emit(Event::Cancelled { epoch, reason });
    Ok(draft.done())
}
