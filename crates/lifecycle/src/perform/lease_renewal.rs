//! Renews a lease while a slow effect runs.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use plan::{Epoch, PlanId, Span};

use crate::{Call, Lifecycle};

/// The minimum length of a renewal. Renewing a nearly expired lease by only its remaining time would lose it as soon
/// as the store is slow.
const MIN_LEASE: Span = Span::from_seconds(10);

impl Lifecycle {
    /// Runs an effect and renews the lease meanwhile. If the lease is lost, the next commit of this epoch is
    /// refused.
    pub(crate) fn run_with_lease_renewal<T>(
        &self,
        plan_id: PlanId,
        epoch: Epoch,
        call: &Call,
        effect: impl FnOnce() -> T,
    ) -> T {
        let Some(remaining) = self.remaining_lease(plan_id, epoch) else {
            return effect();
        };
        let lease = remaining.max(MIN_LEASE);
        std::thread::scope(|scope| {
            let (done, ended) = channel::<()>();
            scope.spawn(move || {
                let mut interval = renewal_interval(remaining);
                while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(interval) {
                    // Ignore errors: the next attempt may succeed.
                    let _ = self
                        .leases()
                        .renew_lease(plan_id, epoch, lease, &call.follow_up());
                    interval = renewal_interval(lease);
                }
            });
            let result = effect();
            drop(done);
            result
        })
    }

    /// The remaining time of this holder's lease. The original length is not stored, so renewals are based on what
    /// remains.
    fn remaining_lease(&self, plan_id: PlanId, epoch: Epoch) -> Option<Span> {
        let row = self.store.read_plan(plan_id).ok()??;
        let lease = row.lease.filter(|lease| lease.epoch == epoch)?;
        Some(lease.expires_at.span_since(self.store.now().ok()?))
    }
}

/// Renews after a third of the remaining time, so that two attempts may fail.
fn renewal_interval(lease: Span) -> Duration {
    (lease.as_duration() / 3).max(Duration::from_millis(100))
}

#[cfg(all(test, not(feature = "shuttle")))]
#[allow(
    clippy::unwrap_used,
    reason = "a test whose set-up fails has failed, and the panic says where"
)]
mod tests {
    use std::time::Instant;

    use plan::{Caller, Timestamp};
    use store::MemoryStore;
    use store::fault::StoreFaults;
    use testkit::TestClock;

    use super::*;
    use crate::claim::tests::claim_new_plan;

    #[test]
    fn remaining_time_counts_from_the_last_renewal() {
        let clock = TestClock::starting_at(Timestamp(1_750_000_000_000_000));
        let store =
            MemoryStore::with_clock_and_faults(clock.to_store_clock(), StoreFaults::default());
        let lifecycle = Lifecycle::open(store);
        let minute = Span::from_seconds(60);
        let claim = claim_new_plan(&lifecycle, minute);
        let plan_id = claim.plan().id;
        // The test clock advances a little on each read.
        let remaining = || {
            let remaining = lifecycle.remaining_lease(plan_id, claim.epoch()).unwrap();
            remaining.as_duration().as_secs_f64().round()
        };
        assert_eq!(remaining(), 60.0);
        clock.advance(Span::from_seconds(50));
        claim.renew(minute).unwrap();
        assert_eq!(remaining(), 60.0);
        clock.advance(Span::from_seconds(40));
        assert_eq!(remaining(), 20.0);
        // Expired but not reclaimed: the holder may still renew it.
        clock.advance(Span::from_seconds(40));
        assert_eq!(remaining(), 0.0);
        assert_eq!(
            lifecycle.remaining_lease(plan_id, claim.epoch().next()),
            None
        );
    }

    #[test]
    fn an_expired_lease_is_renewed_for_at_least_the_minimum() {
        let clock = TestClock::starting_at(Timestamp(1_750_000_000_000_000));
        let store =
            MemoryStore::with_clock_and_faults(clock.to_store_clock(), StoreFaults::default());
        let lifecycle = Lifecycle::open(store);
        let claim = claim_new_plan(&lifecycle, Span::from_seconds(60));
        let (plan_id, epoch) = (claim.plan().id, claim.epoch());
        clock.advance(Span::from_seconds(61));
        let call = Call::by(Caller::Person("ada".to_owned()));
        let remaining = lifecycle.run_with_lease_renewal(plan_id, epoch, &call, || {
            let began = Instant::now();
            loop {
                let remaining = lifecycle.remaining_lease(plan_id, epoch).unwrap();
                if remaining > Span(0) || began.elapsed() > Duration::from_secs(60) {
                    return remaining;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        assert!(remaining > Span::from_seconds(9), "{remaining:?}");
    }
}
