//! How a result lands, as it is asked for, and what has to happen before.

use lifecycle::{Call, Lifecycle, LifecycleError, PartSelection, PickMode, PickOutcome};
use plan::landing_options::LandingDestination;
use plan::stage::{ApplyState, WorkState};
use plan::{Digest, ErasableText, LandingOptions, Plan, PlanStage};
use serde::Deserialize;

use crate::results::pick_parts;

/// How a result should land. Without `destination` and `merge`, it lands as the approval or the repository's
/// `planwright.yaml` says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LandingRequest {
    pub destination: Option<LandingDestination>,
    /// Create a merge commit with the plan's own commit as second parent.
    pub merge: bool,
    /// Land even if nothing changes.
    pub allow_empty: bool,
    /// Land only paths that match these patterns; the rest becomes a new plan. Empty lands everything.
    pub paths: Vec<String>,
    /// The message of the commit, instead of the plan's goal.
    pub message: Option<String>,
}

impl LandingRequest {
    /// Resolves the options for a new approval.
    pub fn options_to_approve(&self, plan: &Plan) -> LandingOptions {
        self.resolve(&plan.policy().landing)
    }

    /// Resolves the options for landing a plan, which may be approved already.
    pub fn options_to_land(&self, plan: &Plan) -> LandingOptions {
        self.resolve(default_landing_options(plan))
    }

    fn resolve(&self, defaults: &LandingOptions) -> LandingOptions {
        let is_given = self.destination.is_some() || self.merge;
        let (shape, merge) = match is_given {
            true => (self.destination.clone().unwrap_or_default(), self.merge),
            false => (defaults.shape.clone(), defaults.merge),
        };
        LandingOptions {
            shape,
            merge,
            paths: self.paths.clone(),
            allow_empty: self.allow_empty,
            message: match &self.message {
                Some(message) => Some(ErasableText::from(message.as_str())),
                None => defaults.message.clone(),
            },
        }
    }
}

/// Does landing the result take a person's approval first? Otherwise it is on its way, or nothing can land.
pub fn needs_approval(plan: &Plan) -> bool {
    let can_approve = match plan.stage() {
        PlanStage::Apply(landing) => matches!(landing, ApplyState::Constrained(_)),
        PlanStage::Strategize(_) | PlanStage::Execute(_) => true,
    };
    can_approve && plan.has_targets() && plan.result().is_some()
}

/// Can parts of the result still be picked? A landing that has ended or is under way keeps those it was started with.
pub fn is_pickable(plan: &Plan) -> bool {
    let can_pick = match plan.stage() {
        PlanStage::Strategize(_) => false,
        PlanStage::Execute(work) => matches!(work, WorkState::Complete),
        PlanStage::Apply(landing) => match landing {
            ApplyState::Queued(..) | ApplyState::Errored(_) | ApplyState::Constrained(_) => true,
            ApplyState::Processing(..)
            | ApplyState::AwaitingInput(..)
            | ApplyState::Applied(_)
            | ApplyState::Cancelled(_) => false,
        },
    };
    can_pick && plan.has_targets() && !plan.is_prepared()
}

/// Reduces the result to the selected parts, unless everything is selected or it cannot be reduced any more. Returns
/// the call for the landing that follows. `shown` is the digest of the result that the person looked at.
pub fn pick_for_landing(
    lifecycle: &Lifecycle,
    plan: &Plan,
    shown: Option<Digest>,
    selection: &PartSelection,
    mode: PickMode,
    call: &Call,
) -> Result<Call, LifecycleError> {
    if *selection == PartSelection::default() || !is_pickable(plan) {
        return Ok(call.clone());
    }
    // The idempotency key belongs to the landing. Picking the same parts twice changes nothing.
    let pick_call = call.without_key();
    let picked = pick_parts(lifecycle, plan.id(), shown, selection, mode, &pick_call)?;
    Ok(match picked {
        PickOutcome::Picked { .. } => call.without_version(),
        PickOutcome::Unchanged => call.clone(),
    })
}

/// Returns the options to land with if nothing is asked for: those of a standing approval, otherwise the
/// repository's. Options of an approval for one landing count only while that landing is prepared.
pub fn default_landing_options(plan: &Plan) -> &LandingOptions {
    let approval = plan.valid_approval();
    let approval = approval.filter(|approval| !approval.once || plan.is_prepared());
    approval.map_or(&plan.policy().landing, |approval| &approval.options)
}
