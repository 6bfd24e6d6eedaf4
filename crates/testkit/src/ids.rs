//! Ids that are the same in every run.

use std::sync::atomic::{AtomicU64, Ordering};

use plan::{ChangesetId, CommandId, PlanId};

/// The time of the first id, in 2025.
const FIRST_MILLISECOND: u64 = 1_750_000_000_000;

/// Generates ids from a seed and a counter. Ids ascend, as on one machine; their pseudo-random bits
/// differ by id and seed.
#[derive(Debug)]
pub struct TestIds {
    seed: u64,
    made_count: AtomicU64,
}

impl TestIds {
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            made_count: AtomicU64::new(0),
        }
    }

    pub fn next_plan_id(&self) -> PlanId {
        let (milliseconds, random) = self.next_parts();
        PlanId::from_parts(milliseconds, random)
    }

    pub fn next_changeset_id(&self) -> ChangesetId {
        let (milliseconds, random) = self.next_parts();
        ChangesetId::from_parts(milliseconds, random)
    }

    pub fn next_command_id(&self) -> CommandId {
        let (milliseconds, random) = self.next_parts();
        CommandId::from_parts(milliseconds, random)
    }

    fn next_parts(&self) -> (u64, u128) {
        let count = self.made_count.fetch_add(1, Ordering::Relaxed);
        let high = mix_bits(self.seed.wrapping_add(mix_bits(count)));
        let low = mix_bits(high) & 0xffff;
        (
            FIRST_MILLISECOND + count,
            u128::from(high) << 16 | u128::from(low),
        )
    }
}

/// The finalizer of SplitMix64, which maps similar inputs to unrelated outputs.
fn mix_bits(number: u64) -> u64 {
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
        let (one, again, other) = (TestIds::new(1), TestIds::new(1), TestIds::new(2));
        let first = one.next_plan_id();
        assert_eq!(first, again.next_plan_id());
        assert_ne!(first, other.next_plan_id());
        assert!(one.next_plan_id() > first);
    }
}
