//! Failures of the engine, and who words them: the program that starts the server, so that a person reads the same
//! sentences and hints in the terminal and on the page.

use api::plan_config::PlanConfig;
use api::plans::{CreatePlanError, PermissionDecisionError, ReviseError};
use api::results::ResultError;
use api::reviews::ReviewError;
use lifecycle::{HandleError, Lifecycle, LifecycleError};
use plan::{PlanId, QualifiedName, Refusal};
use store::StoreError;

/// Why the engine could not answer a request.
#[derive(Debug, thiserror::Error)]
pub enum EngineFailure {
    #[error(transparent)]
    Operation(#[from] LifecycleError),
    #[error(transparent)]
    Handle(#[from] HandleError),
    #[error(transparent)]
    Create(#[from] CreatePlanError),
    #[error(transparent)]
    Revise(#[from] ReviseError),
    #[error(transparent)]
    Permission(#[from] PermissionDecisionError),
    #[error(transparent)]
    Review(#[from] ReviewError),
    #[error("{0:?}")]
    Result(ResultError),
    /// Described by the program that started the server.
    #[error("{}", .0.message)]
    Described(FailureDescription),
}

impl From<ResultError> for EngineFailure {
    fn from(error: ResultError) -> Self {
        Self::Result(error)
    }
}

impl From<StoreError> for EngineFailure {
    fn from(error: StoreError) -> Self {
        Self::Operation(error.into())
    }
}

/// The kinds of failures that clients tell apart by the HTTP status. One per exit code of the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureClass {
    Error,
    Usage,
    NotFound,
    Conflict,
    Blocked,
    NeedsPerson,
    NotLanded,
    TimedOut,
    UnknownOutcome,
    Interrupted,
}

/// A failure in words.
#[derive(Debug, Clone)]
pub struct FailureDescription {
    pub class: FailureClass,
    pub exit_code: u8,
    /// A stable word for programs.
    pub kind: String,
    pub message: String,
    /// Sentences or commands, each a way to go on.
    pub hints: Vec<String>,
}

/// Words failures for people and programs.
pub trait DescribeFailure: Send + Sync {
    /// Describes a failed operation, named like the command that does the same.
    fn describe(
        &self,
        failure: EngineFailure,
        operation: &str,
        plan_id: Option<PlanId>,
    ) -> FailureDescription;
}

/// Reads what new plans inherit, from the user's settings and the repositories' files.
pub trait ReadPlanConfig: Send + Sync {
    fn read_plan_config(
        &self,
        lifecycle: &Lifecycle,
        projects: &[QualifiedName],
    ) -> Result<PlanConfig, FailureDescription>;
}

impl EngineFailure {
    /// The failure of the engine itself, if it is one.
    fn operation(&self) -> Option<&LifecycleError> {
        match self {
            Self::Operation(error)
            | Self::Create(CreatePlanError::Engine(error))
            | Self::Revise(ReviseError::Engine(error))
            | Self::Permission(PermissionDecisionError::Engine(error))
            | Self::Review(ReviewError::Engine(error))
            | Self::Result(ResultError::Engine(error)) => Some(error),
            Self::Handle(_)
            | Self::Create(_)
            | Self::Revise(_)
            | Self::Permission(_)
            | Self::Review(_)
            | Self::Result(_)
            | Self::Described(_) => None,
        }
    }

    /// The versions of a plan that changed since the client looked at it.
    pub(crate) fn version_mismatch(&self) -> Option<VersionMismatch> {
        match self.operation() {
            Some(LifecycleError::Refused(Refusal::VersionMismatch { expected, actual })) => {
                Some(VersionMismatch {
                    expected: expected.0,
                    actual: actual.0,
                })
            }
            Some(_) | None => None,
        }
    }

    /// Whether the same request may succeed later, without any change to the store.
    pub(crate) fn is_store_away(&self) -> bool {
        match (self, self.operation()) {
            (_, Some(LifecycleError::Store(error)))
            | (Self::Handle(HandleError::Store(error)), _) => error.is_transient(),
            (_, Some(_) | None) => false,
        }
    }
}

/// The version that a client expected, and the plan's own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VersionMismatch {
    pub expected: u64,
    pub actual: u64,
}
