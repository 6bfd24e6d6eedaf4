//! Where a plan stands, in one short word for people.

use plan::stage::{ApplyState, ConstraintKind, WorkState};
use plan::{Plan, PlanStage};
use serde::{Serialize, Serializer};
use store::PlanRow;

/// Where a plan stands. Serialized as the word that people see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanStanding {
    Thinking,
    Working,
    Landing,
    /// Queued for a worker.
    Waiting,
    /// Queued until a person starts it.
    WaitingForPerson,
    NeedsAnswer,
    StrategyReady,
    NeedsReview,
    /// A person approved the result, and it has not landed yet.
    Approved,
    /// Complete; the next phase starts without a person.
    Ready,
    /// Rules keep it from going on.
    Blocked,
    /// Its result cannot land on the target as it is.
    Conflict,
    Failed,
    /// The process that worked on it ended without releasing it.
    Interrupted,
    Landed,
    /// Finished without a target to land on.
    Done,
    /// Landed, and undone by a later plan.
    Undone,
    Cancelled,
}

/// What a standing means to a person, for colours and groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StandingTone {
    Good,
    Neutral,
    /// Of little interest now.
    Quiet,
    /// A person is asked for something.
    Attention,
    Bad,
}

impl PlanStanding {
    /// The standing of a plan whose holder, if it has one, is alive.
    pub fn of_row(row: &PlanRow) -> Self {
        if row.is_blocked() {
            return Self::Blocked;
        }
        if row.plan.stage().open_permission().is_some() {
            return Self::NeedsAnswer;
        }
        match row.plan.stage() {
            PlanStage::Strategize(work) => {
                of_work(work, Self::Thinking, Self::StrategyReady, &row.plan)
            }
            PlanStage::Execute(work) => {
                let complete = match row.plan.valid_approval() {
                    Some(_) => Self::Approved,
                    None => Self::NeedsReview,
                };
                of_work(work, Self::Working, complete, &row.plan)
            }
            PlanStage::Apply(landing) => match landing {
                ApplyState::Queued(..) => Self::Waiting,
                ApplyState::Processing(..) => Self::Landing,
                ApplyState::AwaitingInput(..) => Self::NeedsAnswer,
                ApplyState::Errored(_) => Self::Failed,
                ApplyState::Constrained(one) if one.kind == ConstraintKind::Gate => Self::Blocked,
                ApplyState::Constrained(_) => Self::Conflict,
                ApplyState::Applied(_) if row.plan.has_targets() => Self::Landed,
                ApplyState::Applied(_) => Self::Done,
                ApplyState::Cancelled(_) => Self::Cancelled,
            },
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Thinking => "thinking",
            Self::Working => "working",
            Self::Landing => "landing",
            Self::Waiting => "waiting",
            Self::WaitingForPerson => "waiting for you",
            Self::NeedsAnswer => "needs answer",
            Self::StrategyReady => "strategy ready",
            Self::NeedsReview => "needs review",
            Self::Approved => "approved",
            Self::Ready => "ready",
            Self::Blocked => "blocked",
            Self::Conflict => "conflict",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
            Self::Landed => "landed",
            Self::Done => "done",
            Self::Undone => "undone",
            Self::Cancelled => "cancelled",
        }
    }

    pub fn tone(self) -> StandingTone {
        match self {
            Self::Landed | Self::Done => StandingTone::Good,
            Self::Thinking | Self::Working | Self::Landing | Self::Ready => StandingTone::Neutral,
            Self::Waiting | Self::Undone | Self::Cancelled => StandingTone::Quiet,
            Self::WaitingForPerson
            | Self::NeedsAnswer
            | Self::StrategyReady
            | Self::NeedsReview
            | Self::Approved
            | Self::Interrupted => StandingTone::Attention,
            Self::Blocked | Self::Conflict | Self::Failed => StandingTone::Bad,
        }
    }
}

impl Serialize for PlanStanding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

fn of_work(work: &WorkState, busy: PlanStanding, ready: PlanStanding, plan: &Plan) -> PlanStanding {
    match work {
        WorkState::Queued(_) if plan.needs_person() => PlanStanding::WaitingForPerson,
        WorkState::Queued(_) => PlanStanding::Waiting,
        WorkState::Processing(_) => busy,
        WorkState::AwaitingInput(_) => PlanStanding::NeedsAnswer,
        WorkState::Complete if plan.needs_person() => ready,
        WorkState::Complete => PlanStanding::Ready,
        WorkState::Errored(_) => PlanStanding::Failed,
        WorkState::Cancelled(_) => PlanStanding::Cancelled,
    }
}
