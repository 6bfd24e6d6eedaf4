//! Who calls, and under which conditions.

use actors::Stop;
use plan::{Caller, PlanVersion};

/// The circumstances of one operation.
#[derive(Debug, Clone)]
pub struct Call {
    pub(crate) caller: Caller,
    pub(crate) key: Option<String>,
    pub(crate) if_version: Option<PlanVersion>,
    pub(crate) stop: Option<Stop>,
}

impl Call {
    /// A call on this caller's word.
    pub fn by(caller: Caller) -> Self {
        Self {
            caller,
            key: None,
            if_version: None,
            stop: None,
        }
    }

    /// Repeating it under the same key does nothing twice, and gives the same answer.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Only if the plan is at this version.
    #[must_use]
    pub fn if_version(mut self, version: PlanVersion) -> Self {
        self.if_version = Some(version);
        self
    }

    /// What takes its time is given up once this is asked for.
    #[must_use]
    pub fn with_stop(mut self, stop: &Stop) -> Self {
        self.stop = Some(stop.clone());
        self
    }

    /// The same caller without key and version, for a follow-up.
    pub(crate) fn follow_up(&self) -> Self {
        Self {
            key: None,
            if_version: None,
            ..self.clone()
        }
    }
}
