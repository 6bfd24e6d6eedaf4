//! Watches the leases of others, to tell whether a process that runs on this host still renews its own.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use plan::facts::Lease;
use plan::takeover::Liveness;
use plan::{Epoch, PlanId, Span, Timestamp};
use store::PlanRow;

use crate::{Error, Lifecycle};

/// How long leases were seen unchanged, by the monotonic clock of this process. Wall clocks are not asked: another
/// process may have a different one.
#[derive(Debug)]
pub struct LeaseWatch {
    /// How long a lease lasts. All who share a store use the same length.
    length: Span,
    seen: BTreeMap<PlanId, Sighting>,
}

#[derive(Debug, Clone, Copy)]
struct Sighting {
    epoch: Epoch,
    expires_at: Timestamp,
    unrenewed_for: Duration,
    looked_at: Instant,
}

impl LeaseWatch {
    /// Has seen no lease yet.
    pub fn new(length: Span) -> Self {
        Self {
            length,
            seen: BTreeMap::new(),
        }
    }

    pub(crate) fn length(&self) -> Span {
        self.length
    }

    /// How long this lease has not changed, as far as it was watched. A renewal changes when it expires. Between two
    /// looks at most a third of a lease counts: if the watcher itself did not run, the holder perhaps could not either.
    pub(crate) fn unrenewed_for(&mut self, lease: &Lease, now: Instant) -> Span {
        let fresh = Sighting {
            epoch: lease.epoch,
            expires_at: lease.expires_at,
            unrenewed_for: Duration::ZERO,
            looked_at: now,
        };
        let sighting = self.seen.entry(lease.plan).or_insert(fresh);
        if (sighting.epoch, sighting.expires_at) != (fresh.epoch, fresh.expires_at) {
            *sighting = fresh;
        }
        let since = now.saturating_duration_since(sighting.looked_at);
        sighting.unrenewed_for += since.min(self.length.as_duration() / 3);
        sighting.looked_at = now;
        let micros = sighting.unrenewed_for.as_micros();
        Span(i64::try_from(micros).unwrap_or(i64::MAX))
    }

    /// Forgets the leases of all other plans.
    pub(crate) fn keep_only(&mut self, plans: &[PlanRow]) {
        self.seen
            .retain(|plan, _| plans.iter().any(|row| row.plan.id == *plan));
    }
}

impl Lifecycle {
    /// What is known here about the process that holds a plan; nothing if nobody holds it. Only looks.
    pub fn holder_liveness(&self, row: &PlanRow) -> Result<Option<Liveness>, Error> {
        let Some(holder) = row.plan.stage.holder() else {
            return Ok(None);
        };
        Ok(Some(match &self.hands {
            Some(hands) => hands.workshop.liveness(&holder.owner)?,
            None => Liveness::Unknown,
        }))
    }

    /// Did the process that holds a plan end without giving it back? Then whoever comes next takes over. Of a holder
    /// that never signed in here, an expired lease says so.
    pub fn is_abandoned(&self, row: &PlanRow, now: Timestamp) -> Result<bool, Error> {
        Ok(match self.holder_liveness(row)? {
            None | Some(Liveness::Running) => false,
            Some(Liveness::Ended) => true,
            Some(Liveness::Unknown) => {
                let lease = row.lease.as_ref();
                lease.is_some_and(|lease| lease.expires_at < now)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(epoch: u64, expires_at: i64) -> Lease {
        Lease {
            plan: PlanId::from_parts(1, 1),
            owner: "w".to_owned(),
            epoch: Epoch(epoch),
            expires_at: Timestamp(expires_at),
        }
    }

    #[test]
    fn a_lease_is_unrenewed_since_it_was_first_seen_as_it_is() {
        let (mut watch, began) = (LeaseWatch::new(Span::seconds(30)), Instant::now());
        let mut seen = |lease: &Lease, seconds| {
            let span = watch.unrenewed_for(lease, began + Duration::from_secs(seconds));
            span.as_seconds()
        };
        assert_eq!(seen(&lease(1, 5), 0), 0);
        assert_eq!(seen(&lease(1, 5), 8), 8);
        assert_eq!(seen(&lease(1, 5), 16), 16);
        // Renewed, by whatever clock.
        assert_eq!(seen(&lease(1, 4), 20), 0);
        assert_eq!(seen(&lease(1, 4), 25), 5);
        // Another holder.
        assert_eq!(seen(&lease(2, 4), 30), 0);
        // The watcher was stopped.
        assert_eq!(seen(&lease(2, 4), 3000), 10);
        watch.keep_only(&[]);
        assert_eq!(watch.unrenewed_for(&lease(2, 4), began), Span(0));
    }
}
