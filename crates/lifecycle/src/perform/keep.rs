//! Keeping a lease while an effect takes its time. The only timer of the engine.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use plan::{Epoch, PlanId, Span};

use crate::{Call, Lifecycle};

/// For how long a lease is renewed at least, of which nothing is left.
const LEAST: Span = Span::seconds(1);

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
        let Some(lease) = self.left_of_lease(plan, epoch) else {
            return effect();
        };
        let pause = (lease.as_duration() / 3).max(Duration::from_millis(100));
        std::thread::scope(|scope| {
            let (done, ended) = channel::<()>();
            scope.spawn(move || {
                while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(pause) {
                    // If it cannot be renewed now it may be in a moment.
                    let _ = self.renew(plan, epoch, lease, &call.follow_up());
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
        let left = lease.expires_at.since(self.store.now().ok()?);
        Some(left.max(LEAST))
    }
}

#[cfg(test)]
mod tests {
    use plan::Timestamp;
    use store::MemoryStore;
    use store::fault::Faults;
    use testkit::TestClock;

    use super::*;
    use crate::claim::tests::claim_of_new_plan;

    #[test]
    fn however_long_a_claim_was_held_its_lease_is_as_long_as_before() {
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
        assert_eq!(left(), 1.0);
        assert_eq!(lifecycle.left_of_lease(plan, claim.epoch().next()), None);
    }
}
