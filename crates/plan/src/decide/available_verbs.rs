//! The verbs that a plan's state allows, for hints to people and scripts.

use crate::stage::{ApplyState, WorkState};
use crate::{Plan, PlanStage, Verb};

/// Returns the verbs that the plan's stage allows, most useful first. Includes verbs that only the
/// holder can use, while there is a holder.
pub fn available_verbs(plan: &Plan) -> Vec<Verb> {
    let mut verbs = verbs_for_stage(plan);
    if plan.stage().open_permission().is_some() {
        verbs.insert(0, Verb::AnswerPermission);
    }
    verbs
}

fn verbs_for_stage(plan: &Plan) -> Vec<Verb> {
    let prepared = plan.is_prepared();
    match plan.stage() {
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
                // `apply-plan` is refused until the result is approved.
                let needs_approval = plan.has_targets()
                    && !plan.lands_automatically()
                    && plan.valid_approval().is_none();
                let mut verbs = if needs_approval {
                    vec![Verb::Approve]
                } else {
                    vec![Verb::ApplyPlan, Verb::Approve]
                };
                if plan.has_targets() {
                    verbs.push(Verb::Pick);
                }
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
