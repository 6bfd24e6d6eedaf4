//! What can be done to a plan as it stands: the commands a person or a script may be pointed to.

use crate::stage::{ApplyState, WorkState};
use crate::{Plan, PlanStage, Verb};

/// Verbs that are not refused for the plan's stage, most useful first. What only the holder can do
/// is among them while there is one.
pub fn available_verbs(plan: &Plan) -> Vec<Verb> {
    let prepared = plan.is_prepared();
    match &plan.stage {
        PlanStage::Strategize(work) => match work {
            WorkState::Queued(_) => vec![Verb::StartStrategize, Verb::Cancel],
            WorkState::Processing(_) => vec![
                Verb::CompleteStrategize,
                Verb::Fail,
                Verb::Ask,
                Verb::Release,
                Verb::Cancel,
            ],
            WorkState::AwaitingInput(_) => vec![Verb::Answer, Verb::Cancel],
            WorkState::Complete => vec![Verb::ExecutePlan, Verb::Revise, Verb::Cancel],
            WorkState::Errored(_) => vec![Verb::Retry, Verb::Revise, Verb::Cancel],
            WorkState::Cancelled(_) => Vec::new(),
        },
        PlanStage::Execute(work) => match work {
            WorkState::Queued(_) => vec![Verb::StartExecute, Verb::Revert, Verb::Cancel],
            WorkState::Processing(_) => {
                vec![
                    Verb::CompleteExecute,
                    Verb::Fail,
                    Verb::Ask,
                    Verb::Release,
                    Verb::Revert,
                    Verb::Cancel,
                ]
            }
            WorkState::AwaitingInput(_) => {
                vec![Verb::Answer, Verb::Revise, Verb::Revert, Verb::Cancel]
            }
            WorkState::Complete => {
                // What has to be signed is refused by `apply-plan` until it is.
                let to_sign = plan.has_targets()
                    && !plan.lands_automatically()
                    && plan.valid_approval().is_none();
                let mut verbs = if to_sign {
                    vec![Verb::Approve]
                } else {
                    vec![Verb::ApplyPlan, Verb::Approve]
                };
                verbs.extend([Verb::Revise, Verb::Revert, Verb::Cancel]);
                verbs
            }
            WorkState::Errored(_) => vec![Verb::Retry, Verb::Revise, Verb::Revert, Verb::Cancel],
            WorkState::Cancelled(_) => Vec::new(),
        },
        PlanStage::Apply(landing) => match landing {
            ApplyState::Queued(..) if prepared => vec![Verb::StartApply],
            ApplyState::Queued(..) => {
                vec![Verb::StartApply, Verb::Revise, Verb::Revert, Verb::Cancel]
            }
            ApplyState::Processing(..) if prepared => {
                vec![Verb::CompleteApply, Verb::WithdrawApply, Verb::Release]
            }
            ApplyState::Processing(..) => {
                let forward = if plan.has_targets() {
                    Verb::PrepareApply
                } else {
                    Verb::CompleteApply
                };
                vec![
                    forward,
                    Verb::Constrain,
                    Verb::Fail,
                    Verb::Ask,
                    Verb::Release,
                    Verb::Revert,
                    Verb::Cancel,
                ]
            }
            ApplyState::AwaitingInput(..) if prepared => vec![Verb::Answer],
            ApplyState::AwaitingInput(..) => {
                vec![Verb::Answer, Verb::Revise, Verb::Revert, Verb::Cancel]
            }
            ApplyState::Errored(_) => vec![Verb::Retry, Verb::Revise, Verb::Revert, Verb::Cancel],
            ApplyState::Constrained(_) => {
                vec![
                    Verb::Retry,
                    Verb::Revise,
                    Verb::Approve,
                    Verb::Revert,
                    Verb::Cancel,
                ]
            }
            ApplyState::Applied(_) if plan.has_targets() => vec![Verb::Undo],
            ApplyState::Applied(_) | ApplyState::Cancelled(_) => Vec::new(),
        },
    }
}
