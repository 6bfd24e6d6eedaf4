//! A clock that tests control, for stores without a database clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use plan::{Span, Timestamp};
use store::Clock;

/// A manual clock. Every reading advances it by a microsecond, so that no two commits have the same
/// time. Clones share the time.
#[derive(Debug, Clone)]
pub struct TestClock(Arc<AtomicI64>);

impl TestClock {
    pub fn starting_at(moment: Timestamp) -> Self {
        Self(Arc::new(AtomicI64::new(moment.0)))
    }

    /// Returns the clock in the form stores take.
    pub fn to_store_clock(&self) -> Clock {
        let time = Arc::clone(&self.0);
        Clock::new(move || Timestamp(time.fetch_add(1, Ordering::Relaxed)))
    }

    /// Advances the clock; a negative span moves it back, as happens on real machines.
    pub fn advance(&self, span: Span) {
        self.0.fetch_add(span.0, Ordering::Relaxed);
    }

    pub fn set_time(&self, moment: Timestamp) {
        self.0.store(moment.0, Ordering::Relaxed);
    }
}

impl Default for TestClock {
    /// Starts at 2030-01-01.
    fn default() -> Self {
        Self::starting_at(Timestamp(1_893_456_000_000_000))
    }
}
