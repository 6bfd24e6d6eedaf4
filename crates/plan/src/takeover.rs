//! Decides when a plan may be taken over from its holder.

use crate::Span;
use crate::command::ReclaimGrounds;
use crate::facts::Lease;

/// What this host knows about the process that holds a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HolderLiveness {
    /// It registered on this host, and its lock is held.
    Running,
    /// It registered on this host, and its lock is free.
    Ended,
    /// It did not register here: it runs on another host, or claimed the lease through plumbing
    /// commands.
    Unknown,
}

/// Returns the grounds for reclaiming a lease, or `None` if the holder keeps it. `unrenewed_for` is
/// how long the caller has seen the lease unchanged on its own monotonic clock.
///
/// A process that runs on this host keeps its plan, whatever any wall clock says. It loses the plan
/// only if it does not renew for a whole `lease_length`, because it is stopped or hangs.
pub fn find_reclaim_grounds(
    liveness: HolderLiveness,
    lease: &Lease,
    unrenewed_for: Span,
    lease_length: Span,
) -> Option<ReclaimGrounds> {
    match liveness {
        HolderLiveness::Ended => Some(ReclaimGrounds::OwnerDead(lease.epoch)),
        HolderLiveness::Unknown => Some(ReclaimGrounds::Expired),
        HolderLiveness::Running if unrenewed_for >= lease_length => {
            Some(ReclaimGrounds::Unrenewed {
                epoch: lease.epoch,
                expires_at: lease.expires_at,
            })
        }
        HolderLiveness::Running => None,
    }
}
