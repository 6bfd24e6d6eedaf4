//! Holding a claim while its actor works: the lease is renewed, and the actor is asked to stop as soon
//! as its work is no longer wanted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use actors::Stop;
use plan::Span;

use crate::{Claim, LifecycleError};

/// How often it is looked whether the claim still holds: cancelling reaches an actor this soon.
const CLAIM_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// What became of a claim while its actor worked.
pub(super) struct HoldOutcome<T> {
    /// What the actor gave.
    pub value: T,
    /// Somebody took the plan away meanwhile.
    pub lease_lost: bool,
}

/// Lets an actor work while the claim is held for it. `stop` is what the actor looks at; it is asked to
/// stop when `worker` is, or when the claim is lost. `look` is called over and over meanwhile.
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
        let (done, ended) = channel::<()>();
        let lease_lost = &lease_lost;
        scope.spawn(move || {
            // Not when this began: the claim is older, and may have lain idle meanwhile.
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
                    // If it cannot be renewed now it may be in a moment; until somebody else takes the
                    // plan, it is still ours.
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
    /// Keeps the claim while something is done by hand, which takes as long as it takes. If somebody took the plan
    /// away meanwhile, the next that is done with the claim is refused.
    pub fn hold_while<T>(&self, lease: Span, work: impl FnOnce() -> T) -> T {
        let never_asked = Stop::default();
        let outcome = hold_claim_while(self, lease, &never_asked, &never_asked, &|| {}, work);
        outcome.value
    }
}

/// Did somebody take the plan away? A store that cannot be read says neither.
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

    /// Whoever begins to work half a lease after claiming renews it at once, and not a third of it later.
    #[test]
    fn a_lease_is_renewed_by_how_old_the_claim_is() {
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
