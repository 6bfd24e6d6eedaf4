//! What comes next for a plan if nobody says more: what a worker does with it.

use crate::plan::Remedy;
use crate::stage::{Landing, Work};
use crate::{Caller, Phase, Plan, Stage, Timestamp};

/// What to do with a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Claim the phase it is in, and work.
    Claim(Phase),
    /// Move it into this phase.
    Enter(Phase),
    /// Do something about a result that does not meet its rules.
    Mend(Remedy),
    /// Give up on its question: the time to answer is over.
    ExpireQuestion,
    /// Nothing.
    Rest(Rest),
}

/// Why there is nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// A person has to do something first.
    Person,
    /// Somebody works on it.
    Held,
    /// It is to be tried again, but not before this moment.
    NotDue(Timestamp),
    /// It has ended.
    Over,
}

/// What comes next on this word. A person who asks need not wait for what the engine waits for, and is
/// not asked whether work may start; landing is something they ask for by its own name.
pub fn next(plan: &Plan, caller: &Caller, now: Timestamp) -> Next {
    let person = caller.is_person();
    if let Some(question) = plan.stage.question() {
        let over = question.deadline.is_some_and(|deadline| deadline <= now);
        return if over {
            Next::ExpireQuestion
        } else {
            Next::Rest(Rest::Person)
        };
    }
    if let Some(due) = plan.due_at().filter(|due| *due > now && !person) {
        return Next::Rest(Rest::NotDue(due));
    }
    if plan.stage.waiting().is_some() {
        return if person || !plan.needs_person() {
            Next::Claim(plan.phase())
        } else {
            Next::Rest(Rest::Person)
        };
    }
    if let Some(remedy) = plan.remedy() {
        return Next::Mend(remedy);
    }
    match &plan.stage {
        Stage::Strategize(Work::Complete) if person || !plan.needs_person() => {
            Next::Enter(Phase::Execute)
        }
        Stage::Execute(Work::Complete) if plan.lands_unasked() => Next::Enter(Phase::Apply),
        Stage::Strategize(Work::Complete | Work::Errored(_))
        | Stage::Execute(Work::Complete | Work::Errored(_))
        | Stage::Apply(Landing::Errored(_) | Landing::Constrained(_)) => Next::Rest(Rest::Person),
        Stage::Strategize(Work::Processing(_))
        | Stage::Execute(Work::Processing(_))
        | Stage::Apply(Landing::Processing(..)) => Next::Rest(Rest::Held),
        Stage::Strategize(Work::Cancelled(_) | Work::Queued(_) | Work::AwaitingInput(_))
        | Stage::Execute(Work::Cancelled(_) | Work::Queued(_) | Work::AwaitingInput(_))
        | Stage::Apply(
            Landing::Applied(_)
            | Landing::Cancelled(_)
            | Landing::Queued(..)
            | Landing::AwaitingInput(..),
        ) => Next::Rest(Rest::Over),
    }
}
