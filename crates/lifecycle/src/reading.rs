//! Queries. Each call reads from the store; nothing is cached.

use plan::{Phase, PlanId, Refusal, Span};
use store::{DuePlan, PlanFilter, PlanRow};

use crate::{Call, Claim, Lifecycle, LifecycleError};

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

    /// Claims the plan that has waited longest in a phase, if one is due. Concurrent callers never get the
    /// same plan.
    pub fn claim(
        &self,
        phase: Phase,
        owner: &str,
        lease: Span,
        call: &Call,
    ) -> Result<Option<Claim>, LifecycleError> {
        const CANDIDATE_PAGE_SIZE: usize = 32;
        let mut after = None;
        loop {
            let due = self
                .store
                .list_claimable_plans(phase, after, CANDIDATE_PAGE_SIZE)?;
            let Some(last) = due.last().copied() else {
                return Ok(None);
            };
            for DuePlan { plan_id, .. } in due {
                let claim = match phase {
                    Phase::Strategize => self.start_strategize(plan_id, owner, lease, call),
                    Phase::Execute => self.start_execute(plan_id, owner, lease, call),
                    Phase::Apply => self.start_apply(plan_id, owner, lease, call),
                };
                match claim {
                    Ok(claim) => return Ok(Some(claim)),
                    // Another caller was faster, a gate blocks it, or it is on another host: try the next.
                    Err(
                        LifecycleError::Refused(_)
                        | LifecycleError::Blocked(_)
                        | LifecycleError::NoLocalHost
                        | LifecycleError::WaitingForHost { .. },
                    ) => {}
                    Err(error) => return Err(error),
                }
            }
            after = Some(last);
        }
    }
}
