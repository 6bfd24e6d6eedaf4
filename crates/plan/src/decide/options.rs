//! What can be done to a plan as it stands: the commands a person or a script may be pointed to.

use crate::stage::{Landing, Work};
use crate::{Plan, Stage, Verb};

/// Verbs that are not refused for the plan's stage, most useful first. What only the holder can do
/// is among them while there is one.
pub fn options(plan: &Plan) -> Vec<Verb> {
    let prepared = plan.is_prepared();
    match &plan.stage {
        Stage::Strategize(work) => match work {
            Work::Queued(_) => vec![Verb::StartStrategize, Verb::Cancel],
            Work::Processing(_) => vec![
                Verb::CompleteStrategize,
                Verb::Fail,
                Verb::Ask,
                Verb::Release,
                Verb::Cancel,
            ],
            Work::AwaitingInput(_) => vec![Verb::Answer, Verb::Cancel],
            Work::Complete => vec![Verb::ExecutePlan, Verb::Revise, Verb::Cancel],
            Work::Errored(_) => vec![Verb::Retry, Verb::Revise, Verb::Cancel],
            Work::Cancelled(_) => Vec::new(),
        },
        Stage::Execute(work) => match work {
            Work::Queued(_) => vec![Verb::StartExecute, Verb::Revert, Verb::Cancel],
            Work::Processing(_) => {
                vec![
                    Verb::CompleteExecute,
                    Verb::Fail,
                    Verb::Ask,
                    Verb::Release,
                    Verb::Revert,
                    Verb::Cancel,
                ]
            }
            Work::AwaitingInput(_) => vec![Verb::Answer, Verb::Revise, Verb::Revert, Verb::Cancel],
            Work::Complete => {
                // What has to be signed is refused by `apply-plan` until it is.
                let to_sign =
                    plan.has_targets() && !plan.lands_unasked() && plan.valid_approval().is_none();
                let mut verbs = if to_sign {
                    vec![Verb::Approve]
                } else {
                    vec![Verb::ApplyPlan, Verb::Approve]
                };
                verbs.extend([Verb::Revise, Verb::Revert, Verb::Cancel]);
                verbs
            }
            Work::Errored(_) => vec![Verb::Retry, Verb::Revise, Verb::Revert, Verb::Cancel],
            Work::Cancelled(_) => Vec::new(),
        },
        Stage::Apply(landing) => match landing {
            Landing::Queued(..) if prepared => vec![Verb::StartApply],
            Landing::Queued(..) => vec![Verb::StartApply, Verb::Revise, Verb::Revert, Verb::Cancel],
            Landing::Processing(..) if prepared => {
                vec![Verb::CompleteApply, Verb::WithdrawApply, Verb::Release]
            }
            Landing::Processing(..) => {
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
            Landing::AwaitingInput(..) if prepared => vec![Verb::Answer],
            Landing::AwaitingInput(..) => {
                vec![Verb::Answer, Verb::Revise, Verb::Revert, Verb::Cancel]
            }
            Landing::Errored(_) => vec![Verb::Retry, Verb::Revise, Verb::Revert, Verb::Cancel],
            Landing::Constrained(_) => {
                vec![
                    Verb::Retry,
                    Verb::Revise,
                    Verb::Approve,
                    Verb::Revert,
                    Verb::Cancel,
                ]
            }
            Landing::Applied(_) if plan.has_targets() => vec![Verb::Undo],
            Landing::Applied(_) | Landing::Cancelled(_) => Vec::new(),
        },
    }
}
