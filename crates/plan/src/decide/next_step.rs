//! Decides the next step of a plan: what a worker does with it without further instructions.

use crate::plan::ResultRemedy;
use crate::stage::{ApplyState, WorkState};
use crate::{Caller, Phase, Plan, PlanStage, Timestamp};

/// The next step of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineStep {
    /// Claim the current phase and run it.
    Claim(Phase),
    /// Move the plan into this phase.
    Enter(Phase),
    /// Fix or revert a result that fails its rules.
    Remedy(ResultRemedy),
    /// Expire the question, whose deadline has passed.
    ExpireQuestion,
    /// Nothing to do.
    Idle(IdleReason),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdleReason {
    NeedsPerson,
    /// Another holder has the lease.
    Held,
    /// A retry is scheduled for this time.
    NotDue(Timestamp),
    Ended,
}

/// Returns the next step for this caller. A person who calls does not wait for retry delays and
/// agrees to start work. That does not include landing, which needs its own command.
pub fn next_engine_step(plan: &Plan, caller: &Caller, now: Timestamp) -> EngineStep {
    let person = caller.is_person();
    if let Some(question) = plan.stage().question() {
        let expired = question.deadline.is_some_and(|deadline| deadline <= now);
        return if expired {
            EngineStep::ExpireQuestion
        } else {
            EngineStep::Idle(IdleReason::NeedsPerson)
        };
    }
    if let Some(due) = plan.due_at().filter(|due| *due > now && !person) {
        return EngineStep::Idle(IdleReason::NotDue(due));
    }
    if plan.stage().queue_entry().is_some() {
        return if person || !plan.needs_person() {
            EngineStep::Claim(plan.phase())
        } else {
            EngineStep::Idle(IdleReason::NeedsPerson)
        };
    }
    if let Some(remedy) = plan.automatic_remedy() {
        return EngineStep::Remedy(remedy);
    }
    match plan.stage() {
        PlanStage::Strategize(WorkState::Complete) if person || !plan.needs_person() => {
            EngineStep::Enter(Phase::Execute)
        }
        PlanStage::Execute(WorkState::Complete) if plan.may_enter_apply_unattended() => {
            EngineStep::Enter(Phase::Apply)
        }
        PlanStage::Strategize(WorkState::Complete | WorkState::Errored(_))
        | PlanStage::Execute(WorkState::Complete | WorkState::Errored(_))
        | PlanStage::Apply(ApplyState::Errored(_) | ApplyState::Constrained(_)) => {
            EngineStep::Idle(IdleReason::NeedsPerson)
        }
        PlanStage::Strategize(WorkState::Processing(_))
        | PlanStage::Execute(WorkState::Processing(_))
        | PlanStage::Apply(ApplyState::Processing(..)) => EngineStep::Idle(IdleReason::Held),
        PlanStage::Strategize(
            WorkState::Cancelled(_) | WorkState::Queued(_) | WorkState::AwaitingInput(_),
        )
        | PlanStage::Execute(
            WorkState::Cancelled(_) | WorkState::Queued(_) | WorkState::AwaitingInput(_),
        )
        | PlanStage::Apply(
            ApplyState::Applied(_)
            | ApplyState::Cancelled(_)
            | ApplyState::Queued(..)
            | ApplyState::AwaitingInput(..),
        ) => EngineStep::Idle(IdleReason::Ended),
    }
}
