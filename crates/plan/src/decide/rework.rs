//! Retry, revise, revert and cancel. None of them is possible past the point of no return.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::authority::CommandAudience;
use crate::changeset::TreePath;
use crate::command::{CommandDefinition, CommandHeader, PlainCommand};
use crate::decide::draft::DecisionDraft;
use crate::decide::review::{find_own_review, take_comment};
use crate::decide::{DecisionInput, ledger, text};
use crate::plan::{MAX_AUTOMATIC_REVERSIONS, PlanLimits, ResultRemedy};
use crate::profile::AutomationStep;
use crate::reads::{CommandTarget, ReadSet};
use crate::review::{CommentId, ReviewComment};
use crate::stage::{ApplyState, WorkState};
use crate::{Decision, Event, Phase, PlanStage, Refusal, RowWrite, Verb};

/// Retry the phase.
#[derive(Debug, Clone, PartialEq)]
pub struct RetryPhase {
    /// Discard partial work and start over.
    pub fresh: bool,
    /// New limits; `None` keeps the current ones.
    pub limits: Option<PlanLimits>,
}

impl CommandDefinition for RetryPhase {
    fn header(&self) -> CommandHeader {
        CommandHeader::new(Verb::Retry, CommandAudience::People)
    }

    fn reads(&self, target: &CommandTarget) -> ReadSet {
        target.plan_reads_with_ledger()
    }

    fn arguments(&self) -> Value {
        json!([self.fresh, self.limits])
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        retry_phase(input.draft()?, self.fresh, self.limits)
    }
}

/// Send the work back to the actor with feedback.
#[derive(Debug, Clone, PartialEq)]
pub struct ReviseWork {
    pub feedback: String,
    /// Draft comments of the caller to send and delete.
    pub comments: BTreeSet<CommentId>,
    /// Paths to restore to their base version.
    pub dropped: Vec<TreePath>,
}

impl CommandDefinition for ReviseWork {
    fn header(&self) -> CommandHeader {
        CommandHeader::new(Verb::Revise, CommandAudience::Authors)
    }

    fn reads(&self, target: &CommandTarget) -> ReadSet {
        match self.comments.is_empty() {
            true => target.plan_reads_with_ledger(),
            false => target
                .plan_reads_with_ledger()
                .merge_with(target.plan_reads_with_reviews()),
        }
    }

    fn arguments(&self) -> Value {
        match self.comments.is_empty() {
            true => json!([self.feedback, self.dropped]),
            false => json!([self.feedback, self.dropped, self.comments]),
        }
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        revise_work(input.draft()?, self)
    }
}

/// Go back to strategize.
#[derive(Debug, Clone, PartialEq)]
pub struct RevertPlan {
    pub reason: String,
}

impl RevertPlan {
    pub fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
        }
    }
}

impl CommandDefinition for RevertPlan {
    fn header(&self) -> CommandHeader {
        CommandHeader::new(Verb::Revert, CommandAudience::Workers)
    }

    fn reads(&self, target: &CommandTarget) -> ReadSet {
        target.plan_reads_with_ledger()
    }

    fn arguments(&self) -> Value {
        json!(self.reason)
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        revert_to_strategize(input.draft()?, &self.reason)
    }
}

impl PlainCommand for RevertPlan {}

/// End the plan without landing.
#[derive(Debug, Clone, PartialEq)]
pub struct CancelPlan {
    pub reason: Option<String>,
}

impl CommandDefinition for CancelPlan {
    fn header(&self) -> CommandHeader {
        CommandHeader::new(Verb::Cancel, CommandAudience::AuthorsOnly)
    }

    fn reads(&self, target: &CommandTarget) -> ReadSet {
        target.plan_reads_with_ledger()
    }

    fn arguments(&self) -> Value {
        json!(self.reason)
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        cancel_plan(input.draft()?, self.reason.as_deref())
    }
}

fn retry_phase(
    mut draft: DecisionDraft<'_>,
    fresh: bool,
    limits: Option<PlanLimits>,
) -> Result<Decision, Refusal> {
    let discards_result = match draft.plan.stage() {
        PlanStage::Strategize(WorkState::Errored(_))
        | PlanStage::Execute(WorkState::Errored(_)) => false,
        PlanStage::Apply(ApplyState::Errored(_) | ApplyState::Constrained(_)) => fresh,
        PlanStage::Execute(WorkState::Complete) if fresh => true,
        PlanStage::Strategize(_) | PlanStage::Execute(_) | PlanStage::Apply(_) => {
            return draft.answer_not_applicable();
        }
    };
    if discards_result && draft.plan.is_prepared() {
        return draft.answer_not_applicable();
    }
    let new_limits = limits;
    let limits = new_limits.unwrap_or(draft.plan.limits());
    ledger::require_budget_left(&draft, &limits, new_limits.as_ref())?;
    let restarts_execute = discards_result.then(|| draft.plan.epoch().next());
    draft.emit_event(Event::Retried {
        fresh,
        limits,
        restarts_execute,
    });
    Ok(draft.finish())
}

fn revise_work(mut draft: DecisionDraft<'_>, revise: &ReviseWork) -> Result<Decision, Refusal> {
    if draft.plan.is_prepared() {
        return draft.answer_not_applicable();
    }
    let to = match draft.plan.stage() {
        PlanStage::Strategize(WorkState::Complete | WorkState::Errored(_)) => Phase::Strategize,
        PlanStage::Execute(
            WorkState::Complete | WorkState::Errored(_) | WorkState::AwaitingInput(_),
        )
        | PlanStage::Apply(
            ApplyState::Queued(..)
            | ApplyState::AwaitingInput(..)
            | ApplyState::Errored(_)
            | ApplyState::Constrained(_),
        ) => Phase::Execute,
        PlanStage::Strategize(
            WorkState::Queued(_)
            | WorkState::Processing(_)
            | WorkState::AwaitingInput(_)
            | WorkState::Cancelled(_),
        )
        | PlanStage::Execute(
            WorkState::Queued(_) | WorkState::Processing(_) | WorkState::Cancelled(_),
        )
        | PlanStage::Apply(
            ApplyState::Processing(..) | ApplyState::Applied(_) | ApplyState::Cancelled(_),
        ) => {
            return draft.answer_not_applicable();
        }
    };
    let automatic = draft.request.caller.is_worker();
    if automatic {
        draft.require_person_or(AutomationStep::Revise)?;
    }
    if automatic && draft.plan.automatic_remedy() != Some(ResultRemedy::Fix) {
        return Err(Refusal::NothingToFix);
    }
    let feedback = match revise.comments.is_empty() {
        true => text::require_text("feedback", &revise.feedback)?,
        false => text::require_storable("feedback", &revise.feedback)?,
    };
    let comments = take_comments(&mut draft, &revise.comments)?;
    // A new epoch fences any holder of the old work.
    let epoch = draft.plan.epoch().next();
    draft.emit_event(Event::Revised {
        to,
        epoch,
        feedback,
        comments,
        dropped: revise.dropped.clone(),
        automatic,
    });
    Ok(draft.finish())
}

/// Takes the named comments out of the caller's review, in the commit that sends them.
fn take_comments(
    draft: &mut DecisionDraft<'_>,
    ids: &BTreeSet<CommentId>,
) -> Result<Vec<ReviewComment>, Refusal> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    // Only people have reviews. An agent may have the name of one.
    draft.require_person()?;
    let mut review = find_own_review(draft);
    let taken = ids.iter().map(|id| take_comment(&mut review, *id));
    let taken = taken.collect::<Result<_, Refusal>>()?;
    draft.rows.push(RowWrite::PutReview(review));
    Ok(taken)
}

fn revert_to_strategize(mut draft: DecisionDraft<'_>, reason: &str) -> Result<Decision, Refusal> {
    let is_past_strategize = draft.plan.phase() != Phase::Strategize;
    if !is_past_strategize || draft.plan.is_prepared() || draft.plan.stage().is_final() {
        return draft.answer_not_applicable();
    }
    draft.require_person_or(AutomationStep::Revert)?;
    let automatic = draft.request.caller.is_worker();
    if automatic && draft.plan.automatic_reversions() >= MAX_AUTOMATIC_REVERSIONS {
        return Err(Refusal::ReversionLimit(draft.plan.automatic_reversions()));
    }
    let reason = text::require_text("reason", reason)?;
    // A plan can be reverted while it is held. The new epoch fences its holder.
    let epoch = draft.plan.epoch().next();
    draft.emit_event(Event::Reverted {
        epoch,
        reason,
        automatic,
    });
    Ok(draft.finish())
}

fn cancel_plan(mut draft: DecisionDraft<'_>, reason: Option<&str>) -> Result<Decision, Refusal> {
    if draft.plan.stage().is_final() || draft.plan.is_prepared() {
        return draft.answer_not_applicable();
    }
    let reason = reason
        .map(|reason| text::require_text("reason", reason))
        .transpose()?;
    // A plan can be cancelled while it is held. The new epoch fences its holder.
    let epoch = draft.plan.epoch().next();
    draft.emit_event(Event::Cancelled { epoch, reason });
    Ok(draft.finish())
}
