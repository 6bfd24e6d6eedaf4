//! Detects processes on this host that are alive but no longer renew their leases.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use plan::facts::Lease;
use plan::{Epoch, PlanId, Span, Timestamp};
use store::PlanRow;

/// Measures for how long leases stay unrenewed, with this process's monotonic clock. Wall clocks are not used,
/// because those of two processes may differ.
#[derive(Debug)]
pub struct LeaseWatch {
    /// All processes that share a store must use the same length.
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
    pub fn new(lease_length: Span) -> Self {
        Self {
            lease_length,
            observations: BTreeMap::new(),
        }
    }

    pub(crate) fn lease_length(&self) -> Span {
        self.lease_length
    }

    /// Returns for how long this lease has been observed without a renewal, which would change its expiry. At most a
    /// third of a lease counts between two observations: if the watcher itself was suspended, the holder may have been
    /// too.
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
        let elapsed = now.saturating_duration_since(observation.observed_at);
        observation.unrenewed_for += elapsed.min(self.lease_length.as_duration() / 3);
        observation.observed_at = now;
        let micros = observation.unrenewed_for.as_micros();
        Span(i64::try_from(micros).unwrap_or(i64::MAX))
    }

    /// Forgets all plans except these.
    pub(crate) fn retain_plans(&mut self, plans: &[PlanRow]) {
        self.observations
            .retain(|plan_id, _| plans.iter().any(|row| row.plan.id() == *plan_id));
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
    fn unrenewed_time_counts_from_the_last_observed_renewal() {
        let (mut watch, began) = (LeaseWatch::new(Span::from_seconds(30)), Instant::now());
        let mut unrenewed_seconds = |lease: &Lease, seconds| {
            let span = watch.unrenewed_for(lease, began + Duration::from_secs(seconds));
            span.as_seconds()
        };
        assert_eq!(unrenewed_seconds(&make_lease(1, 5), 0), 0);
        assert_eq!(unrenewed_seconds(&make_lease(1, 5), 8), 8);
        assert_eq!(unrenewed_seconds(&make_lease(1, 5), 16), 16);
        // A renewal with a slower clock still counts.
        assert_eq!(unrenewed_seconds(&make_lease(1, 4), 20), 0);
        assert_eq!(unrenewed_seconds(&make_lease(1, 4), 25), 5);
        // Another holder.
        assert_eq!(unrenewed_seconds(&make_lease(2, 4), 30), 0);
        // The watcher was suspended: only a third of the lease counts.
        assert_eq!(unrenewed_seconds(&make_lease(2, 4), 3000), 10);
        watch.retain_plans(&[]);
        assert_eq!(watch.unrenewed_for(&make_lease(2, 4), began), Span(0));
    }
}
