//! Errors of repositories, files and processes. None of them is about plans.

use std::path::{Path, PathBuf};
use std::time::Duration;

use plan::changeset::{InvalidTreePath, TreePath};

use crate::set_up::{OutputTail, SetUpFailure};

/// Why an operation on a repository, a directory or a process failed.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    #[error("cannot start git ({program}): {source}")]
    GitNotFound {
        program: String,
        source: std::io::Error,
    },
    #[error("git {found} is too old: Planwright needs {needed} or later")]
    GitTooOld { found: String, needed: &'static str },
    #[error("git {command} failed: {said}")]
    GitFailed {
        /// The subcommand, such as `merge-tree`.
        command: String,
        /// Standard error, shortened.
        said: String,
    },
    /// git ran longer than the limit and was killed.
    #[error("git {command} timed out in {path} after {} s", limit.as_secs_f64())]
    GitTimedOut {
        command: String,
        path: PathBuf,
        limit: Duration,
    },
    /// git was ended because a stop was requested.
    #[error("git {command} was stopped")]
    GitStopped { command: String },
    #[error("{path} cannot be {doing}: {source}")]
    FileFailed {
        path: PathBuf,
        /// A participle, such as `read` or `written`.
        doing: &'static str,
        source: std::io::Error,
    },
    /// The file system, or the user's quota, is full.
    #[error("no space left at {path} ({} KiB free): {what}", free / 1024)]
    DiskFull {
        path: PathBuf,
        /// Free bytes.
        free: u64,
        /// The operation that failed.
        what: String,
    },
    /// A path that cannot be used as it is.
    #[error("{path} {problem}")]
    UnusableLocation {
        path: PathBuf,
        problem: LocationProblem,
    },
    /// The repository has no current branch to land on.
    #[error("{path} has no branch checked out (HEAD is detached)")]
    DetachedHead { path: PathBuf },
    /// git does not trust the repository's owner.
    #[error("git refuses to work in {path}, which belongs to another user")]
    UntrustedOwner { path: PathBuf },
    #[error("{path} has no branch `{branch}`")]
    NoBranch { path: PathBuf, branch: String },
    #[error(
        "object {object} is not in {path}: it was pruned, the clone is partial, or this is another repository"
    )]
    ObjectMissing { path: PathBuf, object: String },
    /// The objects of a plan's result cannot be found.
    #[error("the result of this plan is gone: {path} was deleted or is missing objects")]
    ResultMissing {
        /// The vault.
        path: PathBuf,
    },
    #[error("the sandbox {path} is gone")]
    SandboxMissing { path: PathBuf },
    /// A path in the sandbox cannot be part of a result.
    #[error("{path} cannot be part of the result: {why}")]
    Uncapturable { path: TreePath, why: &'static str },
    /// A name that cannot be in a tree.
    #[error(
        "{name} cannot be part of the result: git refuses the name because some systems read it as .git"
    )]
    NameRefused { name: String },
    /// A pipe, socket or device where git expects a file.
    #[error("{path} is not a regular file")]
    NotRegularFile { path: PathBuf },
    /// Like `Uncapturable`, for several paths.
    #[error("{} cannot be part of the result: {why}", format_paths(paths))]
    UncapturablePaths {
        paths: Vec<TreePath>,
        why: &'static str,
    },
    #[error("no changed path matches `{pathspec}`")]
    NoPathMatches { pathspec: String },
    /// The result has no such hunk, for example because it is from an earlier result.
    #[error("the result has no hunk {}", hunk.short())]
    HunkUnknown { hunk: plan::HunkId },
    /// A path that leaves the tree.
    #[error(transparent)]
    InvalidTreePath(#[from] InvalidTreePath),
    /// A newer holder fenced this one off.
    #[error("another holder (epoch {current}) has taken over; epoch {given} may no longer land")]
    FencedByNewerHolder {
        /// The epoch that was refused.
        given: u64,
        /// The epoch in the fence.
        current: u64,
    },
    /// The branch is not where the landing expected it. Nothing was changed.
    #[error("{target} moved while the change was being landed")]
    TargetMoved {
        /// The branch.
        target: String,
    },
    /// Another git holds a lock in the repository.
    #[error(
        "{lock} exists: another git process is running in this repository, or a killed one left it"
    )]
    LockedByGit { lock: PathBuf },
    /// Another landing holds the lock of the same repository.
    #[error("another landing is in progress in {path}")]
    LandingInProgress { path: PathBuf },
    #[error("the set-up `{command}` {ended}\n{said}{hint}")]
    SetUpFailed {
        command: String,
        ended: SetUpFailure,
        /// The last lines of its output.
        said: OutputTail,
        /// How to allow a path, if access was denied; empty otherwise.
        hint: String,
    },
    /// The set-up command was stopped because it was no longer wanted.
    #[error("the set-up `{command}` was stopped")]
    SetUpStopped { command: String },
    /// The sandboxes were opened without a supervisor for child processes.
    #[error("cannot run the set-up `{command}`: no supervisor is configured")]
    NoSupervisor { command: String },
    /// The supervising process ended before it reported how the program exited.
    #[error("the supervising process failed: {why}")]
    SupervisorFailed { why: String },
    /// A process runs in a directory that is to be removed.
    #[error("process {process} is running in {path}")]
    OccupiedByProcess {
        path: PathBuf,
        /// The process id.
        process: u32,
    },
    /// A directory that is to be removed is locked, though no process runs in it right now.
    #[error("{path} is in use")]
    SandboxInUse { path: PathBuf },
    #[error("`{name}` is not a valid branch name")]
    InvalidBranchName { name: String },
    /// The branch a result should create exists already.
    #[error("branch `{name}` already exists")]
    BranchExists { name: String },
    /// A file that the engine wrote cannot be read.
    #[error("{path} is damaged: {why}")]
    DamagedFile { path: PathBuf, why: String },
}

/// Why a path cannot be used. Each text is a predicate that follows the path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LocationProblem {
    #[error("is not a directory")]
    NotADirectory,
    /// The path leads into a `.git` directory.
    #[error("is the inside of a repository")]
    InsideRepository,
    #[error("has no commit yet")]
    NoCommit,
    /// It was registered as a plain directory.
    #[error("is a git repository")]
    IsGitRepository,
    #[error("is not in a git repository")]
    NotAGitRepository,
    /// A plain directory was to get a new branch.
    #[error("is not a git repository: it has no branches")]
    NoBranches,
    /// The repository is bare.
    #[error("has no working tree")]
    NoWorkTree,
    #[error("has a line break in its path, which git does not support here")]
    LineBreakInPath,
    #[error("is gone: it was moved or deleted")]
    Gone {
        /// As `project/resource`.
        resource: String,
        /// The option that registers a new location of its kind.
        option: &'static str,
    },
    #[error("stays: this system cannot tell whether a process runs in it")]
    UnknownOccupant,
    #[error("has too many files to search for nested repositories")]
    TooManyFiles,
    #[error("has too many directories that git takes for bare repositories")]
    TooManyBareRepositories,
}

impl SandboxError {
    /// Is the requested landing option wrong, such as an invalid branch name?
    pub fn is_invalid_landing_option(&self) -> bool {
        matches!(
            self,
            Self::InvalidBranchName { .. } | Self::BranchExists { .. } | Self::NoPathMatches { .. }
        )
    }

    /// Is it about files that cannot be part of a result?
    pub fn is_uncapturable(&self) -> bool {
        matches!(
            self,
            Self::Uncapturable { .. } | Self::UncapturablePaths { .. } | Self::NameRefused { .. }
        )
    }

    /// Refuses a result in which these paths still have conflict markers.
    pub fn refuse_conflict_markers(paths: Vec<TreePath>) -> Result<(), Self> {
        if paths.is_empty() {
            return Ok(());
        }
        Err(Self::UncapturablePaths {
            paths,
            why: "conflict markers remain; resolve the conflict, or keep them with `revise --by-hand --allow-markers`",
        })
    }

    pub fn is_permission_denied(&self) -> bool {
        match self {
            Self::FileFailed { source, .. } => {
                source.kind() == std::io::ErrorKind::PermissionDenied
            }
            // git runs in the C locale, so its messages are in English.
            Self::GitFailed { said, .. } => {
                said.contains("Permission denied") || said.contains("insufficient permission")
            }
            _ => false,
        }
    }

    /// Can a retry succeed without a person's help?
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::LockedByGit { .. }
                | Self::LandingInProgress { .. }
                | Self::TargetMoved { .. }
                | Self::GitTimedOut { .. }
        ) || self.is_out_of_space()
    }

    /// Is the disk or the user's quota full?
    pub fn is_out_of_space(&self) -> bool {
        match self {
            Self::DiskFull { .. } => true,
            Self::FileFailed { source, .. } => matches!(
                source.kind(),
                std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded
            ),
            // git runs in the C locale, so its messages are in English.
            Self::GitFailed { said, .. } => {
                said.contains("No space left on device") || said.contains("Disk quota exceeded")
            }
            _ => false,
        }
    }

    /// Turns a failure at this path into `DiskFull` if the file system is full. The free space
    /// decides as well, because git does not always say why it could not write a file.
    pub(crate) fn explain_full_disk(self, path: &Path) -> Self {
        let reports_full_disk = match &self {
            Self::FileFailed { .. } | Self::GitFailed { .. } => self.is_out_of_space(),
            _ => return self,
        };
        match crate::files::free_bytes(path) {
            Ok(free) if reports_full_disk || free < DISK_FULL_THRESHOLD_BYTES => Self::DiskFull {
                path: path.to_owned(),
                free,
                what: self.to_string(),
            },
            Ok(_) | Err(_) => self,
        }
    }
}

/// Below this much free space, a failed write is attributed to a full disk.
const DISK_FULL_THRESHOLD_BYTES: u64 = 64 * 1024;

/// Joins the first paths and counts the rest: `a, b and 3 more`.
fn format_paths(paths: &[TreePath]) -> String {
    const MAX_LISTED_PATHS: usize = 20;
    let named: Vec<String> = paths
        .iter()
        .take(MAX_LISTED_PATHS)
        .map(ToString::to_string)
        .collect();
    let named = named.join(", ");
    match paths.len().saturating_sub(MAX_LISTED_PATHS) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// Adds the path and the operation to an I/O error.
pub(crate) trait FileErrorContext<T> {
    /// `doing` is a participle: "PATH cannot be `doing`".
    fn while_being(self, doing: &'static str, path: &Path) -> Result<T, SandboxError>;
}

impl<T> FileErrorContext<T> for std::io::Result<T> {
    fn while_being(self, doing: &'static str, path: &Path) -> Result<T, SandboxError> {
        self.map_err(|source| SandboxError::FileFailed {
            path: path.to_owned(),
            doing,
            source,
        })
    }
}

impl<T> FileErrorContext<T> for rustix::io::Result<T> {
    fn while_being(self, doing: &'static str, path: &Path) -> Result<T, SandboxError> {
        self.map_err(std::io::Error::from).while_being(doing, path)
    }
}
