//! Holding a claim while its actor works: the lease is renewed, and the actor is asked to stop as soon
//! as its work is no longer wanted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use actors::Stop;
use plan::Span;

use crate::{Claim, Error};

/// How often it is looked whether the claim still holds: cancelling reaches an actor this soon.
const LOOK: Duration = Duration::from_millis(250);

/// What became of a claim while its actor worked.
pub(super) struct Held<T> {
    /// What the actor gave.
    pub given: T,
    /// Somebody took the plan away meanwhile.
    pub lost: bool,
}

/// Lets an actor work while the claim is held for it. `stop` is what the actor looks at; it is asked to
/// stop when `worker` is, or when the claim is lost. `look` is called over and over meanwhile.
pub(super) fn holding<T>(
    claim: &Claim,
    lease: Span,
    worker: &Stop,
    stop: &Stop,
    look: &(dyn Fn() + Sync),
    work: impl FnOnce() -> T,
) -> Held<T> {
    let lost = AtomicBool::new(false);
    let renew_every = lease.as_duration() / 3;
    let given = std::thread::scope(|scope| {
        let (done, ended) = channel::<()>();
        let lost = &lost;
        scope.spawn(move || {
            // Not when this began: the claim is older, and may have lain idle meanwhile.
            let mut renewed = claim.since;
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(LOOK.min(renew_every)) {
                if worker.is_asked() {
                    stop.ask();
                }
                look();
                if is_lost(claim) {
                    lost.store(true, Ordering::SeqCst);
                    stop.ask();
                    return;
                }
                if renewed.elapsed() >= renew_every {
                    // If it cannot be renewed now it may be in a moment; until somebody else takes the
                    // plan, it is still ours.
                    let _ = claim.renew(lease);
                    renewed = Instant::now();
                }
            }
        });
        let given = work();
        drop(done);
        given
    });
    Held {
        given,
        lost: lost.load(Ordering::SeqCst),
    }
}

impl Claim {
    /// Keeps the claim while something is done by hand, which takes as long as it takes. If somebody took the plan
    /// away meanwhile, the next that is done with the claim is refused.
    pub fn while_held<T>(&self, lease: Span, work: impl FnOnce() -> T) -> T {
        let nobody_asks = Stop::default();
        let held = holding(self, lease, &nobody_asks, &nobody_asks, &|| {}, work);
        held.given
    }
}

/// Did somebody take the plan away? A store that cannot be read says neither.
fn is_lost(claim: &Claim) -> bool {
    match claim.lifecycle.get_plan(claim.plan().id) {
        Ok(row) => !row.plan.is_held_by(claim.epoch()),
        Err(Error::Refused(_)) => true,
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
    use crate::claim::tests::claim_of_new_plan;

    /// Whoever begins to work half a lease after claiming renews it at once, and not a third of it later.
    #[test]
    fn a_lease_is_renewed_by_how_old_the_claim_is() {
        let lifecycle = Lifecycle::open(MemoryStore::new());
        let lease = Span::seconds(3000);
        let mut claim = claim_of_new_plan(&lifecycle, lease);
        let plan = claim.plan().id;
        claim.since = Instant::now() - Duration::from_secs(1500);
        let expires = || lifecycle.get_plan(plan).unwrap().lease.unwrap().expires_at;
        let at_first = expires();
        let is_renewed = claim.while_held(lease, || {
            let began = Instant::now();
            while began.elapsed() < Duration::from_secs(60) {
                if expires() > at_first {
                    return true;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            false
        });
        assert!(is_renewed);
    }
}
