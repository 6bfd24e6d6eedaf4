//! Fault points: places where tests make the write path fail or kill the process.
//!
//! Production installs no faults; a point then costs one branch.

use std::fmt;
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultPoint {
    /// The decision was made; nothing is written yet.
    Decided,
    /// Everything is written; COMMIT was not sent.
    BeforeCommit,
    /// COMMIT succeeded; no caller knows yet.
    AfterCommit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreFault {
    None,
    /// The database fails at this point. After COMMIT, the response is lost instead.
    Fail,
    /// The disk is full.
    Full,
}

/// Chooses the fault at each point. A fault that kills the process does not return.
#[derive(Clone, Default)]
pub struct StoreFaults(Option<Arc<dyn Fn(FaultPoint) -> StoreFault + Send + Sync>>);

impl StoreFaults {
    /// Creates faults from a function that is called at every point.
    pub fn new(decide: impl Fn(FaultPoint) -> StoreFault + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(decide)))
    }

    /// Returns the fault to inject at this point.
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
