//! When a plan may be taken over from its holder.

use crate::Span;
use crate::command::ReclaimGrounds;
use crate::facts::Lease;

/// What is known on this host about the process that holds a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HolderLiveness {
    /// It signed in on this host, and its lock is held.
    Running,
    /// It signed in on this host, and its lock is free.
    Ended,
    /// It did not sign in here: it runs on another host, or took the lease through plumbing.
    Unknown,
}

/// On which grounds a lease may be taken over, if at all. `unrenewed_for` is how long the caller saw the lease unchanged
/// by its own monotonic clock, `length` how long a lease lasts.
///
/// A process that runs on this host keeps its plan whatever any wall clock says. Only if it does not renew for the
/// length of a lease, because it is stopped or hangs, is the plan taken.
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
