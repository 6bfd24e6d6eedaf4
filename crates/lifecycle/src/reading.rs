//! Queries. Each call reads from the store; nothing is cached.

use plan::{PlanId, Refusal};
use store::{PlanFilter, PlanRow};

use crate::{Lifecycle, LifecycleError};

impl Lifecycle {
    /// Returns a plan with its lease and its latest gate verdict.
    pub fn get_plan(&self, plan_id: PlanId) -> Result<PlanRow, LifecycleError> {
        Ok(self
            .store
            .read_plan(plan_id)?
            .ok_or(Refusal::NoSuchPlan(plan_id))?)
    }

    /// Returns a page of plans older than `after`, newest first.
    pub fn list_plans(
        &self,
        filter: &PlanFilter,
        after: Option<PlanId>,
        limit: usize,
    ) -> Result<Vec<PlanRow>, LifecycleError> {
        Ok(self.store.list_plans(filter, after, limit)?)
    }
}
