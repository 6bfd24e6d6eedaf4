//! Finds and finishes what crashes left behind. Idempotent: a finished remnant is not found again.

use plan::stage::{ApplyState, StateName};
use plan::takeover::HolderLiveness;
use plan::{Phase, Plan, PlanId, PlanStage, Span, Timestamp};
use store::{PlanFilter, PlanRow};

use super::LandingOutcome;
use crate::{Call, LifecycleError, PlanSandboxes};

/// How many plans per state are searched for unfinished landings.
const MAX_PLANS: usize = 1000;

/// Something that a crash left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CrashRemnant {
    /// A prepared landing whose holder is dead.
    UnfinishedLanding(PlanId),
    /// A landed plan that still has sandboxes or pins.
    LeftoverSandboxes(PlanId),
}

impl PlanSandboxes<'_> {
    /// Finds remnants of crashes on this host. Changes nothing.
    pub fn find_crash_remnants(&self) -> Result<Vec<CrashRemnant>, LifecycleError> {
        self.lifecycle.local_host()?;
        let now = self.lifecycle.store.now()?;
        let mut found = Vec::new();
        for state in [StateName::Queued, StateName::Processing] {
            let filter = PlanFilter {
                phase: Some(Phase::Apply),
                state: Some(state),
                ..PlanFilter::default()
            };
            for row in self.lifecycle.store.list_plans(&filter, None, MAX_PLANS)? {
                let is_abandoned = match row.plan.stage().holder() {
                    Some(_) => self.is_recoverable_here(&row, now)?,
                    None => true,
                };
                if row.plan.is_prepared() && row.plan.has_targets() && is_abandoned {
                    found.push(CrashRemnant::UnfinishedLanding(row.plan.id()));
                }
            }
        }
        for plan_id in self.plans_with_sandboxes()? {
            let has_landed =
                |plan: &Plan| matches!(plan.stage(), PlanStage::Apply(ApplyState::Applied(_)));
            let row = self.lifecycle.store.read_plan(plan_id)?;
            if row.is_some_and(|row| has_landed(&row.plan)) {
                found.push(CrashRemnant::LeftoverSandboxes(plan_id));
            }
        }
        Ok(found)
    }

    /// Is the holder dead, and can this host continue the landing?
    fn is_recoverable_here(&self, row: &PlanRow, now: Timestamp) -> Result<bool, LifecycleError> {
        let ended = self.lifecycle.leases().holder_liveness(row)? == Some(HolderLiveness::Ended);
        Ok(ended
            || self.lifecycle.leases().is_abandoned(row, now)?
                && self.check_resources_reachable(&row.plan).is_ok())
    }

    /// Finishes one remnant. Returns the outcome if it was a landing.
    pub fn recover_remnant(
        &self,
        remnant: &CrashRemnant,
        owner: &str,
        call: &Call,
    ) -> Result<Option<LandingOutcome>, LifecycleError> {
        match remnant {
            CrashRemnant::UnfinishedLanding(plan_id) => {
                let row = self.lifecycle.get_plan(*plan_id)?;
                if row.plan.stage().holder().is_some() {
                    self.lifecycle
                        .leases()
                        .reclaim_from_dead_holder(*plan_id, call)?;
                }
                let claim = self.lifecycle.claims().start_apply(
                    *plan_id,
                    owner,
                    Span::from_seconds(60),
                    call,
                )?;
                self.lifecycle.landing().drive_landing(&claim).map(Some)
            }
            CrashRemnant::LeftoverSandboxes(plan_id) => {
                let plan = self.lifecycle.get_plan(*plan_id)?.plan;
                self.clean_sandboxes(&plan)?;
                Ok(None)
            }
        }
    }
}
