//! Fault points: where tests make the write path fail, or kill the process.
//!
//! In production nothing is installed and a point costs one branch.

use std::fmt;
use std::sync::Arc;

/// A place on the write path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultPoint {
    /// The decision was made, nothing is written yet.
    Decided,
    /// Everything is written, COMMIT was not sent.
    BeforeCommit,
    /// COMMIT succeeded, nobody was told.
    AfterCommit,
}

/// What happens at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreFault {
    /// Nothing.
    None,
    /// The store behaves as if the database had failed there; after COMMIT, as if its answer had
    /// been lost.
    Fail,
    /// The store behaves as if no room were left for it.
    Full,
}

/// Decides what happens at each point. A fault that kills the process simply does not return.
#[derive(Clone, Default)]
pub struct StoreFaults(Option<Arc<dyn Fn(FaultPoint) -> StoreFault + Send + Sync>>);

impl StoreFaults {
    /// Faults as this function says.
    pub fn new(decide: impl Fn(FaultPoint) -> StoreFault + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(decide)))
    }

    /// What happens here?
    pub fn fault_at(&self, point: FaultPoint) -> StoreFault {
        match &self.0 {
            Some(decide) => decide(point),
            None => StoreFault::None,
        }
    }
}

impl fmt::Debug for StoreFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() {
            "Faults(installed)"
        } else {
            "Faults(none)"
        })
    }
}
