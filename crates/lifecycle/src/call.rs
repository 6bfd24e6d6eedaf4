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
    /// The agent that the key belongs to; `None` if callers share it.
    pub fn scope_owner<'a>(&self, caller: &'a Caller) -> Option<&'a Caller> {
        (!self.is_shared && matches!(caller, Caller::Agent(_))).then_some(caller)
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

    /// Makes the call idempotent: a repetition with the same key changes nothing and returns the same receipt. An
    /// agent's key is its own.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(CallKey {
            text: key.into(),
            is_shared: false,
        });
        self
    }

    /// Like [`Self::with_key`], for keys that the engine chooses and all callers share.
    #[must_use]
    pub(crate) fn with_shared_key(mut self, key: String) -> Self {
        self.key = Some(CallKey {
            text: key,
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

    /// The same caller without key and version, for later steps of one operation.
    pub(crate) fn follow_up(&self) -> Self {
        Self {
            key: None,
            if_version: None,
            ..self.clone()
        }
    }
}
