//! Errors of the engine's operations.

use plan::project::HostId;
use plan::{GateBlocked, Refusal};
use sandbox::SandboxError;
use store::{CommitError, StoreError};

/// Why an operation failed, or why its outcome is unknown.
#[derive(Debug, thiserror::Error)]
pub enum LifecycleError {
    /// The plan's current state does not allow the operation. Nothing was written.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A gate did not open. The plan did not move; the reason is stored with it.
    #[error(transparent)]
    Blocked(GateBlocked),
    #[error("idempotency key `{key}` was used before with other arguments")]
    KeyReused { key: String },
    /// An operation on a repository, directory or sandbox failed.
    #[error(transparent)]
    Sandbox(SandboxError),
    /// The plan has resources, but [`Lifecycle::with_local_host`](crate::Lifecycle::with_local_host) was not called.
    #[error("this engine is not configured to access the plan's resources")]
    NoLocalHost,
    /// A resource is registered on another host.
    #[error("waiting for host {host}, where {resource} is")]
    WaitingForHost { resource: String, host: HostId },
    #[error("{resource} is no longer part of its project")]
    ResourceGone { resource: String },
    /// The plan landed on its own branch. Delete that branch instead of undoing the plan.
    #[error(
        "the plan landed on its own branch, `{branch}`; delete that branch instead of undoing the plan"
    )]
    LandedOnBranch { branch: String },
    /// A repository's rules cannot be read, so the engine cannot tell whether they hold.
    #[error("{0}")]
    UnreadableRules(String),
    /// A stop was requested before the operation finished.
    #[error("stopped; the plan can be continued later")]
    Stopped,
    /// The rule cannot be checked, for example because of a syntax error.
    #[error(transparent)]
    InvalidRule(#[from] RuleProblem),
    /// The store failed. Nothing was written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store failed during a commit. Repeat the operation with the same key.
    #[error("the store failed during the commit, so the outcome is unknown: {0}")]
    CommitUnknown(StoreError),
}

impl LifecycleError {
    /// Is this a temporary failure of the store?
    pub(crate) fn is_store_unavailable(&self) -> bool {
        matches!(self, Self::Store(error) | Self::CommitUnknown(error) if error.is_transient())
    }

    /// Did the store or a sandbox run out of disk space?
    pub fn is_out_of_space(&self) -> bool {
        match self {
            Self::Store(error) | Self::CommitUnknown(error) => {
                matches!(error, StoreError::Full { .. })
            }
            Self::Sandbox(error) => error.is_out_of_space(),
            Self::Refused(_)
            | Self::Blocked(_)
            | Self::KeyReused { .. }
            | Self::NoLocalHost
            | Self::WaitingForHost { .. }
            | Self::ResourceGone { .. }
            | Self::LandedOnBranch { .. }
            | Self::UnreadableRules(_)
            | Self::Stopped
            | Self::InvalidRule(_) => false,
        }
    }

    /// Converts an error from reading back a commit. `Store` means that nothing was written, which would
    /// be wrong after a commit.
    pub(crate) fn into_commit_unknown(self) -> Self {
        let Self::Store(error) = self else {
            return self;
        };
        Self::CommitUnknown(error)
    }
}

impl From<CommitError> for LifecycleError {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Refused(refusal) => Self::Refused(refusal),
            CommitError::KeyReused { key } => Self::KeyReused { key },
            CommitError::Failed(error) => Self::Store(error),
            CommitError::Unknown { id: _, source } => Self::CommitUnknown(source),
        }
    }
}

/// Why a rule cannot be checked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RuleProblem(pub String);
