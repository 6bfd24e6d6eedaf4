//! Leases of plans: taking them from holders that are gone.

use std::collections::BTreeSet;
use std::time::Instant;

use plan::command::{ReclaimGrounds, ReclaimLease};
use plan::takeover::{self, HolderLiveness};
use plan::{Epoch, Plan, PlanId, Refusal, Timestamp};
use store::PlanRow;

use crate::lease_keeper::LeaseKeeper;
use crate::{
    Call, ClaimObstacle, DEFAULT_LEASE, LeaseWatch, Lifecycle, LifecycleError, OperationOutcome,
};

/// Leases of plans.
#[derive(Clone, Copy)]
pub struct Leases<'a> {
    lifecycle: &'a Lifecycle,
}

impl Lifecycle {
    pub fn leases(&self) -> Leases<'_> {
        Leases { lifecycle: self }
    }
}

impl Leases<'_> {
    /// Reclaims a lease that expired, or whose process on this host ended. A process that still runs on this host
    /// keeps its lease, whatever the clock says.
    pub fn reclaim_lease(
        &self,
        plan_id: PlanId,
        call: &Call,
    ) -> Result<OperationOutcome, LifecycleError> {
        if self.lifecycle.local_host.is_some() {
            return self.reclaim_from_dead_holder(plan_id, call);
        }
        let grounds = ReclaimGrounds::Expired;
        self.lifecycle
            .submit_for_plan(plan_id, ReclaimLease { grounds }, call)
    }

    /// Reclaims the lease of a dead holder: it registered on this host and its process ended, or it did not
    /// register here and its lease expired.
    pub fn reclaim_from_dead_holder(
        &self,
        plan_id: PlanId,
        call: &Call,
    ) -> Result<OperationOutcome, LifecycleError> {
        self.take_over_lease(plan_id, &mut LeaseWatch::new(DEFAULT_LEASE), call)
    }

    /// Like [`Self::reclaim_from_dead_holder`]. Also reclaims from a running process that is suspended or hangs: the
    /// watch has seen it renew nothing for the length of a lease.
    pub fn take_over_lease(
        &self,
        plan_id: PlanId,
        watch: &mut LeaseWatch,
        call: &Call,
    ) -> Result<OperationOutcome, LifecycleError> {
        let row = self.lifecycle.get_plan(plan_id)?;
        self.take_over_lease_in_row(&row, watch, call)
    }

    pub(crate) fn take_over_lease_in_row(
        &self,
        row: &PlanRow,
        watch: &mut LeaseWatch,
        call: &Call,
    ) -> Result<OperationOutcome, LifecycleError> {
        let liveness = self.holder_liveness(row)?;
        let grounds = match (liveness, &row.lease) {
            (Some(liveness), Some(lease)) => {
                let unrenewed_for = watch.unrenewed_for(lease, Instant::now());
                let grounds = takeover::find_reclaim_grounds(
                    liveness,
                    lease,
                    unrenewed_for,
                    watch.lease_length(),
                );
                grounds.ok_or_else(|| held_refusal(row))?
            }
            // Whether the plan is held at all is decided in the transaction.
            (Some(_) | None, _) => ReclaimGrounds::Expired,
        };
        self.lifecycle
            .submit_for_plan(row.plan.id(), ReclaimLease { grounds }, call)
    }

    /// Reclaims the caller's own lease, which no thread of the caller works under any more.
    pub(crate) fn reclaim_own_lease(
        &self,
        plan_id: PlanId,
        epoch: Epoch,
        call: &Call,
    ) -> Result<OperationOutcome, LifecycleError> {
        let grounds = ReclaimGrounds::OwnerDead(epoch);
        self.lifecycle
            .submit_for_plan(plan_id, ReclaimLease { grounds }, call)
    }

    /// Reclaims up to `limit` expired leases, except those of processes that run on this host. Skips leases that
    /// others reclaim or renew in the meantime.
    pub fn reclaim_expired_leases(
        &self,
        limit: usize,
        call: &Call,
    ) -> Result<Vec<Plan>, LifecycleError> {
        self.reclaim_expired_except(&BTreeSet::new(), limit, call)
    }

    /// Like [`Self::reclaim_expired_leases`], but skips the caller's own active plans, whose leases it renews itself.
    pub(crate) fn reclaim_expired_except(
        &self,
        active_plans: &BTreeSet<PlanId>,
        limit: usize,
        call: &Call,
    ) -> Result<Vec<Plan>, LifecycleError> {
        let mut reclaimed = Vec::new();
        let expired = self.lifecycle.store.list_expired_leases(limit)?;
        for plan_id in expired
            .into_iter()
            .filter(|plan| !active_plans.contains(plan))
        {
            match self.reclaim_lease(plan_id, &call.follow_up()) {
                Ok(done) => reclaimed.push(done.plan),
                Err(LifecycleError::Refused(refusal)) if is_takeover_needless(&refusal) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(reclaimed)
    }

    /// Returns why a queued plan cannot be claimed on this host. Returns nothing for a plan that is not queued.
    pub fn find_claim_obstacle(
        &self,
        plan: &Plan,
    ) -> Result<Option<ClaimObstacle>, LifecycleError> {
        if plan.stage().queue_entry().is_none() {
            return Ok(None);
        }
        // A prepared landing must be finished even if its project is paused or deleted.
        let resources = plan.resources().iter().filter(|_| !plan.is_prepared());
        for resource in resources {
            let obstacle = match self.lifecycle.store.read_project(&resource.project)? {
                None => ClaimObstacle::ProjectDeleted(resource.project.clone()),
                Some(project) => match project.paused {
                    Some(paused) => ClaimObstacle::ProjectPaused {
                        project: project.name,
                        paused,
                    },
                    None => continue,
                },
            };
            return Ok(Some(obstacle));
        }
        Ok(
            match self.lifecycle.sandboxes().check_resources_reachable(plan) {
                Err(LifecycleError::WaitingForHost { host, .. }) => Some(ClaimObstacle::Host(host)),
                Err(_) | Ok(()) => None,
            },
        )
    }

    /// Runs an effect and renews the lease meanwhile, unless the caller does so already.
    pub(crate) fn keep_lease_while<T>(
        &self,
        plan_id: PlanId,
        epoch: Epoch,
        call: &Call,
        effect: impl FnOnce() -> T,
    ) -> T {
        if call.keeps_lease {
            return effect();
        }
        match LeaseKeeper::for_epoch(self.lifecycle, plan_id, epoch, call) {
            Some(keeper) => keeper.keep_while(effect),
            None => effect(),
        }
    }

    /// Checks whether the process that holds a plan runs on this host. Returns nothing if the plan is not held.
    pub fn holder_liveness(&self, row: &PlanRow) -> Result<Option<HolderLiveness>, LifecycleError> {
        let Some(holder) = row.plan.stage().holder() else {
            return Ok(None);
        };
        Ok(Some(match &self.lifecycle.local_host {
            Some(local_host) => local_host
                .sandboxes
                .processes()
                .check_liveness(&holder.owner)?,
            None => HolderLiveness::Unknown,
        }))
    }

    /// Did the holder end without releasing the plan? For a holder that did not register on this host, an expired
    /// lease counts as ended.
    pub fn is_abandoned(&self, row: &PlanRow, now: Timestamp) -> Result<bool, LifecycleError> {
        Ok(match self.holder_liveness(row)? {
            None | Some(HolderLiveness::Running) => false,
            Some(HolderLiveness::Ended) => true,
            Some(HolderLiveness::Unknown) => {
                let lease = row.lease.as_ref();
                lease.is_some_and(|lease| lease.expires_at < now)
            }
        })
    }
}

/// The refusal for a plan whose holder is alive.
fn held_refusal(row: &PlanRow) -> LifecycleError {
    let lease = row.lease.as_ref();
    let refusal = row.plan.stage().holder().map(|holder| Refusal::Held {
        holder: holder.clone(),
        expires_at: lease.map(|lease| lease.expires_at),
    });
    LifecycleError::Refused(refusal.unwrap_or(Refusal::NoSuchPlan(row.plan.id())))
}

/// Does this refusal mean that no takeover is needed, because another holder or caller has handled the plan?
pub(crate) fn is_takeover_needless(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::Held { .. }
            | Refusal::LeaseRuns { .. }
            | Refusal::WrongState { .. }
            | Refusal::Final { .. }
    )
}
