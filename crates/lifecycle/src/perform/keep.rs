//! Keeping a lease while an effect takes its time. The only timer of the engine.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use plan::{Epoch, PlanId, Span};

use crate::{Call, Lifecycle};

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
        let Some(lease) = self.length_of_lease(plan, epoch) else {
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

    /// For how long the lease was taken, if it is this holder's.
    fn length_of_lease(&self, plan: PlanId, epoch: Epoch) -> Option<Span> {
        let row = self.store.plan(plan).ok()??;
        let lease = row.lease.filter(|lease| lease.epoch == epoch)?;
        let since = row.plan.stage.holder()?.since;
        Some(Span(lease.expires_at.0 - since.0)).filter(|span| span.0 > 0)
    }
}
