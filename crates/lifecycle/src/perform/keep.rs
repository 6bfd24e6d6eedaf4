//! Keeping a lease while an effect takes its time. The only timer of the engine.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use plan::{Epoch, PlanId, Span};

use crate::{Call, Lifecycle};

/// For how long a lease is renewed at least. Of one that is nearly over, or over, what is left is too short to be kept
/// with: a store that is slow for a moment would lose it.
const LEAST: Span = Span::seconds(10);

impl Lifecycle {
    /// Does something that may take long, renewing the lease meanwhile. Whoever lost it finds out at its
    /// next commit, as always.
    pub(crate) fn keeping_the_lease<T>(
        &self,
        plan: PlanId,
        epoch: Epoch,
        call: &Call,
        effect: impl FnOnce() -> T,
    ) -> T {
        let Some(left) = self.left_of_lease(plan, epoch) else {
            return effect();
        };
        let lease = left.max(LEAST);
        std::thread::scope(|scope| {
            let (done, ended) = channel::<()>();
            scope.spawn(move || {
                let mut pause = third_of(left);
                while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(pause) {
                    // If it cannot be renewed now it may be in a moment.
                    let _ = self.renew(plan, epoch, lease, &call.follow_up());
                    pause = third_of(lease);
                }
            });
            let result = effect();
            drop(done);
            result
        })
    }

    /// What is left of the lease, if it is this holder's. For how long it was taken nobody wrote down: after a renewal
    /// it ends that long after the renewal, and not after the claim.
    fn left_of_lease(&self, plan: PlanId, epoch: Epoch) -> Option<Span> {
        let row = self.store.plan(plan).ok()??;
        let lease = row.lease.filter(|lease| lease.epoch == epoch)?;
        Some(lease.expires_at.since(self.store.now().ok()?))
    }
}

/// When a lease of which so much is left is to be renewed.
fn third_of(lease: Span) -> Duration {
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
    use store::fault::Faults;
    use testkit::TestClock;

    use super::*;
    use crate::claim::tests::claim_of_new_plan;

    #[test]
    fn what_is_left_of_a_lease_counts_from_its_last_renewal() {
        let clock = TestClock::at(Timestamp(1_750_000_000_000_000));
        let store = MemoryStore::with(clock.clock(), Faults::default());
        let lifecycle = Lifecycle::open(store);
        let minute = Span::seconds(60);
        let claim = claim_of_new_plan(&lifecycle, minute);
        let plan = claim.plan().id;
        // The clock goes on a little whenever it is looked at.
        let left = || {
            let left = lifecycle.left_of_lease(plan, claim.epoch()).unwrap();
            left.as_duration().as_secs_f64().round()
        };
        assert_eq!(left(), 60.0);
        clock.advance(Span::seconds(50));
        claim.renew(minute).unwrap();
        assert_eq!(left(), 60.0);
        clock.advance(Span::seconds(40));
        assert_eq!(left(), 20.0);
        // Expired, and nobody took it: it may be kept.
        clock.advance(Span::seconds(40));
        assert_eq!(left(), 0.0);
        assert_eq!(lifecycle.left_of_lease(plan, claim.epoch().next()), None);
    }

    #[test]
    fn a_lease_that_is_over_is_kept_with_time_to_spare() {
        let clock = TestClock::at(Timestamp(1_750_000_000_000_000));
        let store = MemoryStore::with(clock.clock(), Faults::default());
        let lifecycle = Lifecycle::open(store);
        let claim = claim_of_new_plan(&lifecycle, Span::seconds(60));
        let (plan, epoch) = (claim.plan().id, claim.epoch());
        clock.advance(Span::seconds(61));
        let call = Call::by(Caller::Person("ada".to_owned()));
        let left = lifecycle.keeping_the_lease(plan, epoch, &call, || {
            let began = Instant::now();
            loop {
                let left = lifecycle.left_of_lease(plan, epoch).unwrap();
                if left > Span(0) || began.elapsed() > Duration::from_secs(60) {
                    return left;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        assert!(left > Span::seconds(9), "{left:?}");
    }
}
