//! Reads, creates and changes plans.

mod create;
mod notices;
mod operations;

use lifecycle::{Lifecycle, LifecycleError, OperationOutcome};
use plan::PlanId;
use store::PlanRow;

use crate::standing::PlanStanding;
use crate::view::{PlanChangeView, PlanView};

pub use create::{CreatePlanError, CreatePlanRequest, CreatedPlan, check_actor, create_plan};
pub use notices::{PlanNotice, find_notices, find_source_notices};
pub use operations::*;

/// Reads a plan with its changesets and usage.
pub fn get_plan_view(lifecycle: &Lifecycle, plan_id: PlanId) -> Result<PlanView, LifecycleError> {
    let row = lifecycle.get_plan(plan_id)?;
    Ok(PlanView::new(
        &row,
        find_standing(lifecycle, &row)?,
        &lifecycle.history().list_changesets(plan_id)?,
        &lifecycle.budgets().read_ledger(plan_id)?,
        &lifecycle.history().read_completions(plan_id)?,
    ))
}

/// Describes a change to a plan together with the plan.
pub fn view_change(
    lifecycle: &Lifecycle,
    outcome: &OperationOutcome,
) -> Result<PlanChangeView, LifecycleError> {
    let plan = get_plan_view(lifecycle, outcome.plan.id())?;
    Ok(PlanChangeView::new(outcome, plan))
}

/// Finds out where a plan stands, including whether the process that held it has ended.
pub fn find_standing(lifecycle: &Lifecycle, row: &PlanRow) -> Result<PlanStanding, LifecycleError> {
    Ok(match is_interrupted(lifecycle, row)? {
        true => PlanStanding::Interrupted,
        false => PlanStanding::of_row(row),
    })
}

/// Returns whether the process that held the plan's lease ended without releasing it.
pub fn is_interrupted(lifecycle: &Lifecycle, row: &PlanRow) -> Result<bool, LifecycleError> {
    if row.lease.is_none() {
        return Ok(false);
    }
    lifecycle
        .leases()
        .is_abandoned(row, lifecycle.store().now()?)
}
