//! What people note about a plan while they review it.

use plan::review::PlanReview;
use plan::{Caller, PlanId};

use crate::{Lifecycle, LifecycleError};

impl Lifecycle {
    /// Returns the caller's review of a plan; an empty one if there is none.
    pub fn read_review(
        &self,
        plan_id: PlanId,
        reviewer: &Caller,
    ) -> Result<PlanReview, LifecycleError> {
        let person = reviewer.name();
        let reviews = self.store.list_reviews(plan_id)?;
        let found = reviews.into_iter().find(|review| review.person == person);
        Ok(found.unwrap_or_else(|| PlanReview::new(plan_id, person)))
    }
}
