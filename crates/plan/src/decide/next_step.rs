//! What comes next for a plan if nobody says more: what a worker does with it.

use crate::plan::ResultRemedy;
use crate::stage::{ApplyState, WorkState};
use crate::{Caller, Phase, Plan, PlanStage, Timestamp};

/// What to do with a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineStep {
    /// Claim the phase it is in, and work.
    Claim(Phase),
    /// Move it into this phase.
    Enter(Phase),
    /// Do something about a result that does not meet its rules.
    Remedy(ResultRemedy),
    /// Give up on its question: the time to answer is over.
    ExpireQuestion,
    /// Nothing.
    Idle(IdleReason),
}

/// Why there is nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdleReason {
    /// A person has to do something first.
    NeedsPerson,
    /// Somebody works on it.
    Held,
    /// It is to be tried again, but not before this moment.
    NotDue(Timestamp),
    /// It has ended.
    Ended,
}

/// What comes next on this word. A person who asks need not wait for what the engine waits for, and is
/// not asked whether work may start; landing is something they ask for by its own name.
pub fn next_engine_step(plan: &Plan, caller: &Caller, now: Timestamp) -> EngineStep {
    let person = caller.is_person();
    if let Some(question) = plan.stage.question() {
        let over = question.deadline.is_some_and(|deadline| deadline <= now);
        return if over {
            EngineStep::ExpireQuestion
        } else {
            EngineStep::Idle(IdleReason::NeedsPerson)
        };
    }
    if let Some(due) = plan.due_at().filter(|due| *due > now && !person) {
        return EngineStep::Idle(IdleReason::NotDue(due));
    }
    if plan.stage.queue_entry().is_some() {
        return if person || !plan.needs_person() {
            EngineStep::Claim(plan.phase())
        } else {
            EngineStep::Idle(IdleReason::NeedsPerson)
        };
    }
    if let Some(remedy) = plan.automatic_remedy() {
        return EngineStep::Remedy(remedy);
    }
    match &plan.stage {
        PlanStage::Strategize(WorkState::Complete) if person || !plan.needs_person() => {
            EngineStep::Enter(Phase::Execute)
        }
        PlanStage::Execute(WorkState::Complete) if plan.lands_automatically() => {
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
