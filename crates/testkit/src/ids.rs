//! Ids that are the same in every run.

use std::sync::atomic::{AtomicU64, Ordering};

use plan::{ChangesetId, CommandId, PlanId};

/// The time in the first id: some moment of 2025.
const FIRST_MILLISECOND: u64 = 1_750_000_000_000;

/// Makes ids out of a seed and a counter. Later ids are greater, as those of one machine are; what
/// stands for their random bits differs from id to id and from seed to seed.
#[derive(Debug)]
pub struct Ids {
    seed: u64,
    made: AtomicU64,
}

impl Ids {
    /// The ids of this seed, from the first.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            made: AtomicU64::new(0),
        }
    }

    /// The next id, for a plan.
    pub fn plan(&self) -> PlanId {
        let (milliseconds, random) = self.next();
        PlanId::from_parts(milliseconds, random)
    }

    /// The next id, for a changeset.
    pub fn changeset(&self) -> ChangesetId {
        let (milliseconds, random) = self.next();
        ChangesetId::from_parts(milliseconds, random)
    }

    /// The next id, for a submission.
    pub fn command(&self) -> CommandId {
        let (milliseconds, random) = self.next();
        CommandId::from_parts(milliseconds, random)
    }

    fn next(&self) -> (u64, u128) {
        let count = self.made.fetch_add(1, Ordering::Relaxed);
        let high = mixed(self.seed.wrapping_add(mixed(count)));
        let low = mixed(high) & 0xffff;
        (
            FIRST_MILLISECOND + count,
            u128::from(high) << 16 | u128::from(low),
        )
    }
}

/// The finaliser of SplitMix64: neighbours in, strangers out.
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_repeatable_ascending_and_differ_by_seed() {
        let (one, again, other) = (Ids::new(1), Ids::new(1), Ids::new(2));
        let first = one.plan();
        assert_eq!(first, again.plan());
        assert_ne!(first, other.plan());
        assert!(one.plan() > first);
    }
}
