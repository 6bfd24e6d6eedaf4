//! Renews a claim's lease while its actor works, and stops the actor when the claim is lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use actors::Stop;
use plan::Span;

use crate::{Claim, LifecycleError};

/// How often the claim is checked. A cancelled plan's actor is stopped within this time.
const CLAIM_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// The result of work under a claim.
pub(super) struct HoldOutcome<T> {
    pub value: T,
    /// The plan was cancelled or taken over in the meantime.
    pub lease_lost: bool,
}

/// Runs `work` while a second thread renews the lease. Requests `stop` when `worker_stop` is requested or
/// the claim is lost. Calls `on_tick` at each check.
pub(super) fn hold_claim_while<T>(
    claim: &Claim,
    lease: Span,
    worker_stop: &Stop,
    stop: &Stop,
    on_tick: &(dyn Fn() + Sync),
    work: impl FnOnce() -> T,
) -> HoldOutcome<T> {
    let lease_lost = AtomicBool::new(false);
    let renew_every = lease.as_duration() / 3;
    let value = std::thread::scope(|scope| {
        // Dropping `done` ends the renewal thread, also if `work` panics.
        let (done, ended) = channel::<()>();
        let lease_lost = &lease_lost;
        scope.spawn(move || {
            // Not now: time may have passed since the claim was made.
            let mut renewed_at = claim.claimed_at;
            while let Err(RecvTimeoutError::Timeout) =
                ended.recv_timeout(CLAIM_CHECK_INTERVAL.min(renew_every))
            {
                if worker_stop.is_requested() {
                    stop.request();
                }
                on_tick();
                if is_claim_lost(claim) {
                    lease_lost.store(true, Ordering::SeqCst);
                    stop.request();
                    return;
                }
                if renewed_at.elapsed() >= renew_every {
                    // Ignore errors: even an expired lease is valid until another holder takes over.
                    let _ = claim.renew(lease);
                    renewed_at = Instant::now();
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

impl Claim {
    /// Renews the lease while a person works. If the plan is taken over in the meantime, the next operation with
    /// this claim is refused.
    pub fn hold_while<T>(&self, lease: Span, work: impl FnOnce() -> T) -> T {
        let never_requested = Stop::default();
        let outcome = hold_claim_while(
            self,
            lease,
            &never_requested,
            &never_requested,
            &|| {},
            work,
        );
        outcome.value
    }
}

/// Was the plan cancelled or taken over? An unavailable store does not count as lost.
fn is_claim_lost(claim: &Claim) -> bool {
    match claim.lifecycle.get_plan(claim.plan().id) {
        Ok(row) => !row.plan.is_held_by(claim.epoch()),
        Err(LifecycleError::Refused(_)) => true,
        Err(_) => false,
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
#[allow(
    clippy::unwrap_used,
    reason = "a test whose set-up fails has failed, and the panic says where"
)]
mod tests {
    use store::MemoryStore;

    use super::*;
    use crate::Lifecycle;
    use crate::claim::tests::claim_new_plan;

    /// If work starts half a lease after the claim, the lease is renewed at once.
    #[test]
    fn the_first_renewal_is_due_relative_to_the_claim() {
        let lifecycle = Lifecycle::open(MemoryStore::new());
        let lease = Span::from_seconds(3000);
        let mut claim = claim_new_plan(&lifecycle, lease);
        let plan_id = claim.plan().id;
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
}
