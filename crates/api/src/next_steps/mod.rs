//! Says what can be done next with a plan. Nothing else in the product decides that: hints, buttons and tools
//! render the steps returned here.
//!
//! A step is offered only if the checks that carry it out accept it: the plan's stage, the viewer's
//! authority, the lease and the budget. Rules are not judged for it, so a gate can still block a step.

mod offer;
mod requirement;

use crate::view::schema::LandingOptionsSchema;
use lifecycle::{Lifecycle, LifecycleError, PlanDiagnosis};
use plan::event::RemovedChangeResolution;
use plan::invariant::RuleName;
use plan::judgement::FailedRule;
use plan::ledger::BudgetUnit;
use plan::{Caller, Digest, Epoch, LandingOptions, Phase, Plan, PlanId, QualifiedName, Verb};
use serde::Serialize;
use store::PlanRow;
use utoipa::ToSchema;

pub(crate) use offer::is_result_missing;
use offer::{RuleFindings, StepOffer};

/// One thing that the viewer can do next with a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum NextStep {
    /// Look at what keeps the plan from going on.
    Explain,
    /// Look at the changes of its result.
    Diff,
    /// Read what the agent said and did.
    ReadTranscript,
    /// Wait until it needs a person or has ended.
    Wait,
    /// Run this phase, or take it over from a process that ended.
    Run {
        #[schema(value_type = String)]
        phase: Phase,
    },
    /// Start a worker. It runs every plan that is due.
    StartWorker,
    /// Claim the phase for a program that works on the plan by itself: no agent is defined for it.
    ClaimPhase {
        #[schema(value_type = String)]
        phase: Phase,
    },
    /// Move to execute, so that such a program can claim it.
    EnterExecute,
    /// A command of the program that holds the plan.
    HolderCommand {
        #[schema(value_type = String)]
        verb: Verb,
        #[schema(value_type = u64)]
        epoch: Epoch,
    },
    /// Take the lease from a holder that ended, for another program to claim the plan.
    Reclaim,
    /// Answer the open question.
    Answer,
    /// Allow the one tool call that the agent waits for.
    AllowToolCall {
        #[schema(value_type = String)]
        request: Digest,
    },
    /// Reject it.
    RejectToolCall {
        #[schema(value_type = String)]
        request: Digest,
    },
    /// Decide about a change that landed and was then removed from its target.
    ResolveRemovedChange {
        #[schema(value_type = String)]
        resolution: RemovedChangeResolution,
    },
    /// Answer yes to a rule that asks a person.
    ApproveRule {
        #[schema(value_type = String)]
        rule: RuleName,
    },
    /// Answer no to it.
    RejectRule {
        #[schema(value_type = String)]
        rule: RuleName,
    },
    /// Let the plan pass without this rule.
    Waive {
        #[schema(value_type = String)]
        rule: RuleName,
    },
    /// Approve the result and land it.
    Apply {
        /// Set if it was approved with other options than those it lands with by default.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<LandingOptionsSchema>)]
        options: Option<LandingOptions>,
    },
    /// Land it on a new branch instead, away from what is in the way.
    ApplyToBranch,
    /// Finish a landing that was interrupted after its first target was about to change.
    FinishLanding,
    /// Land the part that was left out, which is a plan of its own.
    ApplyRest {
        #[schema(value_type = String)]
        plan_id: PlanId,
    },
    Retry,
    /// Do the work again from scratch: its result was deleted.
    RetryFresh,
    /// Retry with higher limits: the current ones are used up.
    RaiseLimits {
        limits: Vec<RaisedLimit>,
    },
    /// Raise the budget of all plans, which is used up.
    RaiseBudget {
        limit: RaisedLimit,
    },
    /// Resume the project that the plan waits for.
    ResumeProject {
        #[schema(value_type = String)]
        project: QualifiedName,
    },
    /// Send the work back to the agent with feedback.
    Revise,
    /// Undo what landed.
    Undo,
    Cancel,
}

/// A limit that leaves as much as it allowed before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct RaisedLimit {
    #[schema(value_type = String)]
    pub unit: BudgetUnit,
    /// The new limit, in the smallest amounts of the unit.
    pub limit: u64,
}

impl RaisedLimit {
    pub fn new(unit: BudgetUnit, spent: u64, limit: u64) -> Self {
        Self {
            unit,
            limit: spent.saturating_add(limit),
        }
    }
}

impl NextStep {
    /// Returns the plan that the step is about, for a step that was offered on this plan.
    pub fn subject(&self, plan_id: PlanId) -> PlanId {
        match self {
            Self::ApplyRest { plan_id } => *plan_id,
            Self::Explain
            | Self::Diff
            | Self::ReadTranscript
            | Self::Wait
            | Self::Run { .. }
            | Self::StartWorker
            | Self::ClaimPhase { .. }
            | Self::EnterExecute
            | Self::HolderCommand { .. }
            | Self::Reclaim
            | Self::Answer
            | Self::AllowToolCall { .. }
            | Self::RejectToolCall { .. }
            | Self::ResolveRemovedChange { .. }
            | Self::ApproveRule { .. }
            | Self::RejectRule { .. }
            | Self::Waive { .. }
            | Self::Apply { .. }
            | Self::ApplyToBranch
            | Self::FinishLanding
            | Self::Retry
            | Self::RetryFresh
            | Self::RaiseLimits { .. }
            | Self::RaiseBudget { .. }
            | Self::ResumeProject { .. }
            | Self::Revise
            | Self::Undo
            | Self::Cancel => plan_id,
        }
    }
}

/// Returns what the viewer can do next with a plan, most useful first. Reads a few rows and judges no rules:
/// for a blocked plan it offers to explain, and what its last verdict tells.
pub fn next_steps(
    lifecycle: &Lifecycle,
    row: &PlanRow,
    viewer: &Caller,
) -> Result<Vec<NextStep>, LifecycleError> {
    let obstacle = lifecycle.leases().find_claim_obstacle(&row.plan)?;
    let offer = StepOffer::new(lifecycle, row, viewer, obstacle, RuleFindings::Stored)?;
    Ok(offer.list_steps())
}

/// Like [`next_steps`], for a plan that was diagnosed: its rules are judged, so it has nothing to explain.
pub fn next_steps_after_diagnosis(
    lifecycle: &Lifecycle,
    diagnosis: &PlanDiagnosis,
    viewer: &Caller,
) -> Result<Vec<NextStep>, LifecycleError> {
    let failed_rules = diagnosis.gate.as_ref().map(|gate| &gate.failed_rules);
    let findings = RuleFindings::Judged(failed_rules.map_or(&[], Vec::as_slice));
    let obstacle = diagnosis.obstacle.clone();
    let mut offer = StepOffer::new(lifecycle, &diagnosis.row, viewer, obstacle, findings)?;
    offer.add_shortfall(diagnosis.over_budget.as_ref());
    Ok(offer.list_steps())
}

/// Returns what the viewer can do about rules that block a plan.
pub fn steps_for_failed_rules(failed: &[FailedRule], viewer: &Caller) -> Vec<NextStep> {
    let steps = failed.iter().flat_map(offer::steps_for_failed_rule);
    steps
        .filter(|step| requirement::is_authorized(step, viewer, None))
        .collect()
}

/// Returns whether the plan carries definitions for its agents, so that the engine can run them.
pub fn is_workable(plan: &Plan) -> bool {
    [Phase::Strategize, Phase::Execute]
        .into_iter()
        .all(|phase| {
            plan.actor_for_phase(phase)
                .is_some_and(|actor| plan.actor_definition(actor).is_some())
        })
}
