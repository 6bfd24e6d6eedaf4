//! A clock that shows what a test says, for the stores that have none of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use plan::{Span, Timestamp};
use store::Clock;

/// A clock in a test's hand. It goes on by a microsecond with every look, as real ones do, so that
/// no two commits happen at the same moment. Clones show the same time.
#[derive(Debug, Clone)]
pub struct TestClock(Arc<AtomicI64>);

impl TestClock {
    /// A clock that stands at this moment.
    pub fn starting_at(moment: Timestamp) -> Self {
        Self(Arc::new(AtomicI64::new(moment.0)))
    }

    /// The clock as a store takes it.
    pub fn to_store_clock(&self) -> Clock {
        let time = Arc::clone(&self.0);
        Clock::new(move || Timestamp(time.fetch_add(1, Ordering::Relaxed)))
    }

    /// Lets time pass; backwards too, as it happens on real machines.
    pub fn advance(&self, span: Span) {
        self.0.fetch_add(span.0, Ordering::Relaxed);
    }

    /// Shows this moment from now on.
    pub fn set_time(&self, moment: Timestamp) {
        self.0.store(moment.0, Ordering::Relaxed);
    }
}

impl Default for TestClock {
    /// The first of January 2030.
    fn default() -> Self {
        Self::starting_at(Timestamp(1_893_456_000_000_000))
    }
}
