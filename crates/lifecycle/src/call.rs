//! Who calls, and under which conditions.

use plan::{Caller, Version};

/// The circumstances of one operation.
#[derive(Debug, Clone)]
pub struct Call {
    pub(crate) caller: Caller,
    pub(crate) key: Option<String>,
    pub(crate) if_version: Option<Version>,
}

impl Call {
    /// A call on this caller's word.
    pub fn by(caller: Caller) -> Self {
        Self {
            caller,
            key: None,
            if_version: None,
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
    pub fn if_version(mut self, version: Version) -> Self {
        self.if_version = Some(version);
        self
    }

    /// The same caller without key and version, for a follow-up.
    pub(crate) fn follow_up(&self) -> Self {
        Self::by(self.caller.clone())
    }
}
