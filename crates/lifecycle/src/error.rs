//! What an operation can fail with.

use plan::project::HostId;
use plan::{GateBlocked, Refusal};
use sandbox::SandboxError;
use store::{CommitError, StoreError};

/// Why an operation was not carried out, or why that is not known.
#[derive(Debug, thiserror::Error)]
pub enum LifecycleError {
    /// It is not possible as things are.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A gate did not open; the plan is as it was, and why is stored beside it.
    #[error(transparent)]
    Blocked(GateBlocked),
    /// The idempotency key was used before, for something else.
    #[error("idempotency key `{key}` was used before with other arguments")]
    KeyReused {
        /// The key.
        key: String,
    },
    /// A repository or a directory could not be handled.
    #[error(transparent)]
    Sandbox(SandboxError),
    /// The plan works on resources, and this engine was given nothing to reach them with.
    #[error("the plan works on resources, and nothing here can reach them")]
    NoLocalHost,
    /// A resource lies on another host.
    #[error("waiting for host {host}: {resource} lies there")]
    WaitingForHost {
        /// Which resource.
        resource: String,
        /// Where.
        host: HostId,
    },
    /// A resource is no longer part of its project.
    #[error("{resource} is no longer part of its project")]
    ResourceGone {
        /// Which.
        resource: String,
    },
    /// What landed on a branch of its own is taken back by removing that branch.
    #[error("it landed on a branch of its own, `{branch}`; there is nothing to merge it out of")]
    LandedOnBranch {
        /// Which.
        branch: String,
    },
    /// The rules of a repository cannot be read, so that nobody knows whether they hold.
    #[error("{0}")]
    UnreadableRules(String),
    /// It was asked to stop before it had begun to work; the phase was given back.
    #[error("stopped; the plan waits as it did before")]
    Stopped,
    /// An expression is no rule.
    #[error(transparent)]
    InvalidRule(#[from] RuleProblem),
    /// The store failed; nothing was written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store failed while committing; repeat under the same key.
    #[error("whether it was done could not be learnt: {0}")]
    CommitUnknown(StoreError),
}

impl LifecycleError {
    /// Is it only that the store does not answer at this moment?
    pub(crate) fn is_store_unavailable(&self) -> bool {
        matches!(self, Self::Store(error) | Self::CommitUnknown(error) if error.is_transient())
    }

    /// Is it that no room is left, for the store or for sandboxes?
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

    /// An error of reading what was just committed. That the store failed must not be told as "nothing was
    /// written".
    pub(crate) fn into_commit_unknown(self) -> Self {
        match self {
            Self::Store(error) => Self::CommitUnknown(error),
            other => other,
        }
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

/// Why a text is not an expression that can be judged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RuleProblem(pub String);
