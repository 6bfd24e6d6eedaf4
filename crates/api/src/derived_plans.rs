//! Finds the plans that were made from another one: undos, and rests of its result. Only the newer plan
//! records the relation; the store has an index of it.

use lifecycle::{Lifecycle, LifecycleError};
use plan::plan::PlanOrigin;
use plan::stage::ApplyState;
use plan::{PlanId, PlanStage};
use store::{PlanFilter, PlanRow};

/// Undos that were cancelled or undone are listed too, so more than a few are unusual.
const MAX_DERIVED_PLANS: usize = 100;

/// The plans that were made from a landed plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DerivedPlans {
    /// The plan that undid it, if that was not undone itself.
    pub undone_by: Option<PlanId>,
    /// The unfinished plan with the part of its result that it left out.
    pub rest: Option<PlanId>,
}

/// Finds the plans that were made from a plan. Reads nothing for a plan that did not land.
pub fn find_derived_plans(
    lifecycle: &Lifecycle,
    row: &PlanRow,
) -> Result<DerivedPlans, LifecycleError> {
    let mut derived = DerivedPlans::default();
    if !is_landed(row) {
        return Ok(derived);
    }
    let filter = PlanFilter {
        origin: Some(row.plan.id()),
        ..PlanFilter::default()
    };
    for other in lifecycle.list_plans(&filter, None, MAX_DERIVED_PLANS)? {
        match other.plan.origin() {
            PlanOrigin::UndoOf(_) if is_landed(&other) => {
                let is_undone = find_derived_plans(lifecycle, &other)?.undone_by.is_some();
                if !is_undone {
                    derived.undone_by = Some(other.plan.id());
                }
            }
            PlanOrigin::RestOf(_) if !other.plan.stage().is_final() => {
                derived.rest = Some(other.plan.id());
            }
            PlanOrigin::UndoOf(_) | PlanOrigin::RestOf(_) | PlanOrigin::Use => {}
        }
    }
    Ok(derived)
}

fn is_landed(row: &PlanRow) -> bool {
    matches!(row.plan.stage(), PlanStage::Apply(ApplyState::Applied(_)))
}
