//! The caller of an operation, its idempotency key and its conditions.

use actors::Stop;
use plan::{Caller, PlanVersion};

/// Who calls an operation, and under which conditions.
#[derive(Debug, Clone)]
pub struct Call {
    pub(crate) caller: Caller,
    pub(crate) key: Option<CallKey>,
    pub(crate) if_version: Option<PlanVersion>,
    pub(crate) stop: Option<Stop>,
    /// The caller renews the lease while the operation runs.
    pub(crate) keeps_lease: bool,
}

/// An idempotency key.
#[derive(Debug, Clone)]
pub(crate) struct CallKey {
    pub text: String,
    is_shared: bool,
}

impl CallKey {
    /// The caller that the key belongs to; `None` if callers share it.
    pub fn scope_owner<'a>(&self, caller: &'a Caller) -> Option<&'a Caller> {
        (!self.is_shared).then_some(caller)
    }
}

impl Call {
    /// A call without a key or conditions.
    pub fn by(caller: Caller) -> Self {
        Self {
            caller,
            key: None,
            if_version: None,
            stop: None,
            keeps_lease: false,
        }
    }

    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Makes the call idempotent: a repetition by the same caller with the same key changes nothing and returns the
    /// same receipt.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(CallKey {
            text: key.into(),
            is_shared: false,
        });
        self
    }

    /// Like [`Self::with_key`], for a key that all callers share. Whoever repeats the call gets the first answer.
    #[must_use]
    pub fn with_shared_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(CallKey {
            text: key.into(),
            is_shared: true,
        });
        self
    }

    /// Refuses the call unless the plan is at this version.
    #[must_use]
    pub fn if_version(mut self, version: PlanVersion) -> Self {
        self.if_version = Some(version);
        self
    }

    /// Aborts slow steps, such as rule checks, when this stop is requested.
    #[must_use]
    pub fn with_stop(mut self, stop: &Stop) -> Self {
        self.stop = Some(stop.clone());
        self
    }

    /// The caller renews the plan's lease while the operation runs, so the operation need not.
    #[must_use]
    pub(crate) fn with_kept_lease(mut self) -> Self {
        self.keeps_lease = true;
        self
    }

    /// The same call without its key, for a step before the one that the key belongs to.
    #[must_use]
    pub fn without_key(&self) -> Self {
        Self {
            key: None,
            ..self.clone()
        }
    }

    /// The same call without its version, for a step after the one that was conditional.
    #[must_use]
    pub fn without_version(&self) -> Self {
        Self {
            if_version: None,
            ..self.clone()
        }
    }

    /// The same caller without key and version, for later steps of one operation.
    pub fn follow_up(&self) -> Self {
        Self {
            key: None,
            if_version: None,
            ..self.clone()
        }
    }
}
