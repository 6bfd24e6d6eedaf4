//! Renews a lease while something slow happens under it: an agent works, a rule is checked, a sandbox is set up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use actors::Stop;
use plan::command::RenewLease;
use plan::{Epoch, PlanId, Span};

use crate::{Call, Claim, Lifecycle, LifecycleError};

/// How often a watched lease is checked. A cancelled plan's actor is stopped within this time.
const LEASE_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// The minimum length of a renewal. Renewing a nearly expired lease by only its remaining time would lose it as soon
/// as the store is slow.
const MIN_LEASE: Span = Span::from_seconds(10);

/// A lease that this process renews.
pub(crate) struct LeaseKeeper<'a> {
    lifecycle: &'a Lifecycle,
    plan_id: PlanId,
    epoch: Epoch,
    call: Call,
    /// The length of a renewal.
    lease: Span,
    first_renewal: Instant,
}

/// What to do while a lease is watched.
pub(crate) struct LeaseChecks<'a> {
    /// Passed on to `stop`.
    pub worker_stop: &'a Stop,
    /// Requested when the lease is lost.
    pub stop: &'a Stop,
    /// Called at each check.
    pub on_tick: &'a (dyn Fn() + Sync),
}

/// The result of work under a watched lease.
pub(crate) struct HoldOutcome<T> {
    pub value: T,
    /// The plan was cancelled or taken over in the meantime.
    pub lease_lost: bool,
}

impl<'a> LeaseKeeper<'a> {
    pub fn for_claim(claim: &'a Claim, lease: Span) -> Self {
        Self {
            lifecycle: &claim.lifecycle,
            plan_id: claim.plan().id(),
            epoch: claim.epoch(),
            call: claim.call(),
            lease,
            // Not relative to now: time may have passed since the claim was made.
            first_renewal: claim.claimed_at + renewal_interval(lease),
        }
    }

    /// Returns nothing if this epoch does not hold the plan. The length of its lease is not stored, so renewals are
    /// based on what remains.
    pub fn for_epoch(
        lifecycle: &'a Lifecycle,
        plan_id: PlanId,
        epoch: Epoch,
        call: &Call,
    ) -> Option<Self> {
        let remaining = remaining_lease(lifecycle, plan_id, epoch)?;
        Some(Self {
            lifecycle,
            plan_id,
            epoch,
            call: call.follow_up(),
            lease: remaining.max(MIN_LEASE),
            first_renewal: Instant::now() + renewal_interval(remaining),
        })
    }

    /// Runs `work` while the lease is renewed. If the lease is lost, the next commit of this epoch is refused.
    pub fn keep_while<T>(&self, work: impl FnOnce() -> T) -> T {
        self.run_beside_work(None, work).value
    }

    /// Like [`Self::keep_while`], and stops the work when the worker stops or the lease is lost.
    pub fn watch_while<T>(
        &self,
        checks: &LeaseChecks<'_>,
        work: impl FnOnce() -> T,
    ) -> HoldOutcome<T> {
        self.run_beside_work(Some(checks), work)
    }

    fn run_beside_work<T>(
        &self,
        checks: Option<&LeaseChecks<'_>>,
        work: impl FnOnce() -> T,
    ) -> HoldOutcome<T> {
        let lease_lost = AtomicBool::new(false);
        let value = std::thread::scope(|scope| {
            // Dropping `done` ends the thread, also if `work` panics.
            let (done, ended) = channel::<()>();
            let lease_lost = &lease_lost;
            scope.spawn(move || {
                let mut next_renewal = self.first_renewal;
                loop {
                    let until_renewal = next_renewal.saturating_duration_since(Instant::now());
                    let pause = match checks {
                        Some(_) => until_renewal.min(LEASE_CHECK_INTERVAL),
                        None => until_renewal,
                    };
                    let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(pause) else {
                        return;
                    };
                    if let Some(checks) = checks {
                        if checks.worker_stop.is_requested() {
                            checks.stop.request();
                        }
                        (checks.on_tick)();
                        if self.is_lost() {
                            lease_lost.store(true, Ordering::SeqCst);
                            checks.stop.request();
                            return;
                        }
                    }
                    if Instant::now() >= next_renewal {
                        // Ignore errors: even an expired lease is valid until another holder takes over.
                        let renew = RenewLease::new(self.epoch, self.lease);
                        let _ = self
                            .lifecycle
                            .submit_command(self.plan_id, renew, &self.call);
                        next_renewal = Instant::now() + renewal_interval(self.lease);
                    }
                }
            });
            let value = work();
            drop(done);
            value
        });
        HoldOutcome {
            value,
            lease_lost: lease_lost.load(Ordering::SeqCst),
        }
    }

    /// Was the plan cancelled or taken over? An unavailable store does not count as lost.
    fn is_lost(&self) -> bool {
        match self.lifecycle.get_plan(self.plan_id) {
            Ok(row) => !row.plan.is_held_by(self.epoch),
            Err(LifecycleError::Refused(_)) => true,
            Err(_) => false,
        }
    }
}

impl Claim {
    /// Renews the lease while a person works. If the plan is taken over in the meantime, the next operation with
    /// this claim is refused.
    pub fn hold_while<T>(&self, lease: Span, work: impl FnOnce() -> T) -> T {
        LeaseKeeper::for_claim(self, lease).keep_while(work)
    }
}

/// The remaining time of this holder's lease.
fn remaining_lease(lifecycle: &Lifecycle, plan_id: PlanId, epoch: Epoch) -> Option<Span> {
    let row = lifecycle.store.read_plan(plan_id).ok()??;
    let lease = row.lease.filter(|lease| lease.epoch == epoch)?;
    Some(lease.expires_at.span_since(lifecycle.store.now().ok()?))
}

/// A third of the lease, so that two renewals may fail.
fn renewal_interval(lease: Span) -> Duration {
    (lease.as_duration() / 3).max(Duration::from_millis(100))
}

#[cfg(all(test, not(feature = "shuttle")))]
#[allow(
    clippy::unwrap_used,
    reason = "a test whose set-up fails has failed, and the panic says where"
)]
mod tests {
    use plan::{Caller, Timestamp};
    use store::MemoryStore;
    use store::fault::StoreFaults;
    use testkit::TestClock;

    use super::*;
    use crate::claim::tests::claim_new_plan;

    /// If work starts half a lease after the claim, the lease is renewed at once.
    #[test]
    fn the_first_renewal_is_due_relative_to_the_claim() {
        let lifecycle = Lifecycle::open(MemoryStore::new());
        let lease = Span::from_seconds(3000);
        let mut claim = claim_new_plan(&lifecycle, lease);
        let plan_id = claim.plan().id();
        claim.claimed_at = Instant::now() - Duration::from_secs(1500);
        let read_expiry = || {
            lifecycle
                .get_plan(plan_id)
                .unwrap()
                .lease
                .unwrap()
                .expires_at
        };
        let initial_expiry = read_expiry();
        let is_renewed = claim.hold_while(lease, || {
            let began = Instant::now();
            while began.elapsed() < Duration::from_secs(60) {
                if read_expiry() > initial_expiry {
                    return true;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            false
        });
        assert!(is_renewed);
    }

    #[test]
    fn remaining_time_counts_from_the_last_renewal() {
        let clock = TestClock::starting_at(Timestamp(1_750_000_000_000_000));
        let store =
            MemoryStore::with_clock_and_faults(clock.to_store_clock(), StoreFaults::default());
        let lifecycle = Lifecycle::open(store);
        let minute = Span::from_seconds(60);
        let claim = claim_new_plan(&lifecycle, minute);
        let plan_id = claim.plan().id();
        // The test clock advances a little on each read.
        let remaining = || {
            let remaining = remaining_lease(&lifecycle, plan_id, claim.epoch()).unwrap();
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
            remaining_lease(&lifecycle, plan_id, claim.epoch().next()),
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
        let (plan_id, epoch) = (claim.plan().id(), claim.epoch());
        clock.advance(Span::from_seconds(61));
        let call = Call::by(Caller::Person("ada".to_owned()));
        let remaining = lifecycle
            .leases()
            .keep_lease_while(plan_id, epoch, &call, || {
                let began = Instant::now();
                loop {
                    let remaining = remaining_lease(&lifecycle, plan_id, epoch).unwrap();
                    if remaining > Span(0) || began.elapsed() > Duration::from_secs(60) {
                        return remaining;
                    }
                    std::thread::sleep(Duration::from_millis(10));
                }
            });
        assert!(remaining > Span::from_seconds(9), "{remaining:?}");
    }
}
