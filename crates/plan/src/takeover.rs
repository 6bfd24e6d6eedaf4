//! When a plan may be taken over from its holder.

use crate::Span;
use crate::command::Grounds;
use crate::facts::Lease;

/// What is known on this host about the process that holds a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
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
pub fn grounds(
    liveness: Liveness,
    lease: &Lease,
    unrenewed_for: Span,
    length: Span,
) -> Option<Grounds> {
    match liveness {
        Liveness::Ended => Some(Grounds::OwnerDead(lease.epoch)),
        Liveness::Unknown => Some(Grounds::Expired),
        Liveness::Running if unrenewed_for >= length => Some(Grounds::Unrenewed {
            epoch: lease.epoch,
            expires_at: lease.expires_at,
        }),
        Liveness::Running => None,
    }
}
