//! Watches the leases of others, to tell whether a process that runs on this host still renews its own.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use plan::facts::Lease;
use plan::takeover::HolderLiveness;
use plan::{Epoch, PlanId, Span, Timestamp};
use store::PlanRow;

use crate::{Lifecycle, LifecycleError};

/// How long leases were seen unchanged, by the monotonic clock of this process. Wall clocks are not asked: another
/// process may have a different one.
#[derive(Debug)]
pub struct LeaseWatch {
    /// How long a lease lasts. All who share a store use the same length.
    lease_length: Span,
    observations: BTreeMap<PlanId, LeaseObservation>,
}

#[derive(Debug, Clone, Copy)]
struct LeaseObservation {
    epoch: Epoch,
    expires_at: Timestamp,
    unrenewed_for: Duration,
    observed_at: Instant,
}

impl LeaseWatch {
    /// Has seen no lease yet.
    pub fn new(lease_length: Span) -> Self {
        Self {
            lease_length,
            observations: BTreeMap::new(),
        }
    }

    pub(crate) fn lease_length(&self) -> Span {
        self.lease_length
    }

    /// How long this lease has not changed, as far as it was watched. A renewal changes when it expires. Between two
    /// looks at most a third of a lease counts: if the watcher itself did not run, the holder perhaps could not either.
    pub(crate) fn unrenewed_for(&mut self, lease: &Lease, now: Instant) -> Span {
        let first_observation = LeaseObservation {
            epoch: lease.epoch,
            expires_at: lease.expires_at,
            unrenewed_for: Duration::ZERO,
            observed_at: now,
        };
        let observation = self
            .observations
            .entry(lease.plan)
            .or_insert(first_observation);
        if (observation.epoch, observation.expires_at)
            != (first_observation.epoch, first_observation.expires_at)
        {
            *observation = first_observation;
        }
        let since = now.saturating_duration_since(observation.observed_at);
        observation.unrenewed_for += since.min(self.lease_length.as_duration() / 3);
        observation.observed_at = now;
        let micros = observation.unrenewed_for.as_micros();
        Span(i64::try_from(micros).unwrap_or(i64::MAX))
    }

    /// Forgets the leases of all other plans.
    pub(crate) fn retain_plans(&mut self, plans: &[PlanRow]) {
        self.observations
            .retain(|plan_id, _| plans.iter().any(|row| row.plan.id == *plan_id));
    }
}

impl Lifecycle {
    /// What is known here about the process that holds a plan; nothing if nobody holds it. Only looks.
    pub fn holder_liveness(&self, row: &PlanRow) -> Result<Option<HolderLiveness>, LifecycleError> {
        let Some(holder) = row.plan.stage.holder() else {
            return Ok(None);
        };
        Ok(Some(match &self.local_host {
            Some(local_host) => local_host.sandboxes.check_liveness(&holder.owner)?,
            None => HolderLiveness::Unknown,
        }))
    }

    /// Did the process that holds a plan end without giving it back? Then whoever comes next takes over. Of a holder
    /// that never signed in here, an expired lease says so.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn make_lease(epoch: u64, expires_at: i64) -> Lease {
        Lease {
            plan: PlanId::from_parts(1, 1),
            owner: "w".to_owned(),
            epoch: Epoch(epoch),
            expires_at: Timestamp(expires_at),
        }
    }

    #[test]
    fn a_lease_is_unrenewed_since_it_was_first_seen_as_it_is() {
        let (mut watch, began) = (LeaseWatch::new(Span::from_seconds(30)), Instant::now());
        let mut unrenewed_seconds = |lease: &Lease, seconds| {
            let span = watch.unrenewed_for(lease, began + Duration::from_secs(seconds));
            span.as_seconds()
        };
        assert_eq!(unrenewed_seconds(&make_lease(1, 5), 0), 0);
        assert_eq!(unrenewed_seconds(&make_lease(1, 5), 8), 8);
        assert_eq!(unrenewed_seconds(&make_lease(1, 5), 16), 16);
        // Renewed, by whatever clock.
        assert_eq!(unrenewed_seconds(&make_lease(1, 4), 20), 0);
        assert_eq!(unrenewed_seconds(&make_lease(1, 4), 25), 5);
        // Another holder.
        assert_eq!(unrenewed_seconds(&make_lease(2, 4), 30), 0);
        // The watcher was stopped.
        assert_eq!(unrenewed_seconds(&make_lease(2, 4), 3000), 10);
        watch.retain_plans(&[]);
        assert_eq!(watch.unrenewed_for(&make_lease(2, 4), began), Span(0));
    }
}
