//! What can go wrong with repositories, files and processes. Nothing here is about plans.

use std::path::{Path, PathBuf};
use std::time::Duration;

use plan::changeset::{InvalidTreePath, TreePath};

use crate::set_up::{OutputTail, SetUpFailure};

/// Why something could not be done with a repository or a directory. Each says what happened and,
/// where a person can do something about it, what.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// git is not there.
    #[error("git cannot be started ({program}): {source}")]
    GitNotFound {
        /// What was tried.
        program: String,
        /// Why not.
        source: std::io::Error,
    },
    /// git is too old.
    #[error("git {found} is too old: {needed} or later is needed")]
    GitTooOld {
        /// What is installed.
        found: String,
        /// What is needed.
        needed: &'static str,
    },
    /// git said no.
    #[error("git {command} failed: {said}")]
    GitFailed {
        /// The subcommand.
        command: String,
        /// What it said, shortened.
        said: String,
    },
    /// git did not come to an end, and was ended.
    #[error("git {command} was ended in {path}: it took longer than {} s", limit.as_secs_f64())]
    GitTimedOut {
        /// The subcommand.
        command: String,
        /// Where it worked.
        path: PathBuf,
        /// How long it was waited for.
        limit: Duration,
    },
    /// A file or directory could not be handled.
    #[error("{path} cannot be {doing}: {source}")]
    FileFailed {
        /// Which.
        path: PathBuf,
        /// What was to be done to it.
        doing: &'static str,
        /// Why not.
        source: std::io::Error,
    },
    /// The file system is full.
    #[error("there is no space left at {path} ({} KiB are free): {what}", free / 1024)]
    DiskFull {
        /// Where.
        path: PathBuf,
        /// How many bytes are left.
        free: u64,
        /// What could not be done.
        what: String,
    },
    /// A path that no project can use.
    #[error("{path} {why}")]
    UnusableLocation {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
        /// What to do.
        hint: String,
    },
    /// There is no branch that changes could land on.
    #[error("{path} has no branch checked out (HEAD is detached)")]
    DetachedHead {
        /// Which repository.
        path: PathBuf,
    },
    /// Git does not trust the repository's owner.
    #[error("git refuses to work in {path}, which belongs to another user")]
    UntrustedOwner {
        /// Which.
        path: PathBuf,
    },
    /// The branch is not there.
    #[error("{path} has no branch `{branch}`")]
    NoBranch {
        /// The repository.
        path: PathBuf,
        /// The branch.
        branch: String,
    },
    /// An object that must be there is gone.
    #[error(
        "object {object} is not in {path}: it was pruned, the clone is partial, or this is another repository"
    )]
    ObjectMissing {
        /// The repository.
        path: PathBuf,
        /// The object.
        object: String,
    },
    /// The objects of a plan's result are nowhere.
    #[error("the result of this plan is gone: {path} was deleted, or lost objects")]
    ResultMissing {
        /// The vault that kept it.
        path: PathBuf,
    },
    /// There is no sandbox.
    #[error("the sandbox {path} is gone")]
    SandboxMissing {
        /// Where it was.
        path: PathBuf,
    },
    /// What was left in the sandbox cannot be captured.
    #[error("{path} cannot be taken into the result: {why}")]
    Uncapturable {
        /// Which path.
        path: TreePath,
        /// Why.
        why: &'static str,
    },
    /// A name that is no path of a tree.
    #[error(
        "{name} cannot be taken into the result: git refuses the name, because some systems take it for .git"
    )]
    NameRefused {
        /// Which.
        name: String,
    },
    /// The same of several paths.
    #[error("{} cannot be taken into the result: {why}", listed(paths))]
    UncapturablePaths {
        /// Which paths.
        paths: Vec<TreePath>,
        /// Why.
        why: &'static str,
    },
    /// A pathspec that chooses no change.
    #[error("no change matches `{pathspec}`")]
    NoPathMatches {
        /// Which.
        pathspec: String,
    },
    /// A path that would leave the tree.
    #[error(transparent)]
    InvalidTreePath(#[from] InvalidTreePath),
    /// A newer holder was here.
    #[error("another holder (epoch {current}) has taken over; epoch {given} may no longer land")]
    FencedByNewerHolder {
        /// The authority that came too late.
        given: u64,
        /// The authority that counts.
        current: u64,
    },
    /// The branch is not where it was expected; nothing was changed.
    #[error("{target} moved while the change was being landed")]
    TargetMoved {
        /// The branch.
        target: String,
    },
    /// Somebody else's git holds a lock.
    #[error("{lock} is there: another git works in this repository, or one was killed in it")]
    LockedByGit {
        /// The lock.
        lock: PathBuf,
    },
    /// Another landing into the same repository goes on.
    #[error("another change is being landed in {path}")]
    LandingInProgress {
        /// The repository.
        path: PathBuf,
    },
    /// The user's set-up command did not succeed.
    #[error("the set-up `{command}` {ended}\n{said}{hint}")]
    SetUpFailed {
        /// The command.
        command: String,
        /// How it ended.
        ended: SetUpFailure,
        /// The end of what it said.
        said: OutputTail,
        /// What can be done if it was kept from something; empty otherwise.
        hint: String,
    },
    /// The user's set-up command was ended because nobody wanted it any more.
    #[error("the set-up `{command}` was stopped")]
    SetUpStopped {
        /// The command.
        command: String,
    },
    /// The workshop was given nobody who supervises what it runs.
    #[error("the set-up `{command}` cannot be run: nothing here supervises it")]
    NoSupervisor {
        /// What was to be run.
        command: String,
    },
    /// The process that supervised a program ended before it could say how the program did.
    #[error("the supervising process failed: {why}")]
    SupervisorFailed {
        /// What is known of it.
        why: String,
    },
    /// A process works where something is to be removed.
    #[error("process {process} works in {path}")]
    OccupiedByProcess {
        /// Where.
        path: PathBuf,
        /// Which.
        process: u32,
    },
    /// Somebody works where something is to be removed, though no process is in it at this moment.
    #[error("somebody works in {path}")]
    SandboxInUse {
        /// Where.
        path: PathBuf,
    },
    /// A name that no branch can have.
    #[error("`{name}` is not a name for a branch")]
    InvalidBranchName {
        /// Which.
        name: String,
    },
    /// The branch a change shall be put on is there already.
    #[error("there is a branch `{name}` already")]
    BranchExists {
        /// Which.
        name: String,
    },
    /// Something of ours cannot be read.
    #[error("{path} is damaged: {why}")]
    DamagedFile {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

impl SandboxError {
    /// Is it about how somebody wants a result to arrive, rather than about the world?
    pub fn is_invalid_landing_option(&self) -> bool {
        matches!(
            self,
            Self::InvalidBranchName { .. } | Self::BranchExists { .. } | Self::NoPathMatches { .. }
        )
    }

    /// Is it about files that are no result?
    pub fn is_uncapturable(&self) -> bool {
        matches!(
            self,
            Self::Uncapturable { .. } | Self::UncapturablePaths { .. } | Self::NameRefused { .. }
        )
    }

    /// Is it that somebody may not read or write there?
    pub fn is_permission_denied(&self) -> bool {
        match self {
            Self::FileFailed { source, .. } => {
                source.kind() == std::io::ErrorKind::PermissionDenied
            }
            // It speaks the language of the C locale.
            Self::GitFailed { said, .. } => {
                said.contains("Permission denied") || said.contains("insufficient permission")
            }
            _ => false,
        }
    }

    /// Worth trying again without a person?
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::LockedByGit { .. }
                | Self::LandingInProgress { .. }
                | Self::TargetMoved { .. }
                | Self::GitTimedOut { .. }
                | Self::DiskFull { .. }
        )
    }

    /// Is it that no room is left, on the disk or for this user?
    pub fn is_out_of_space(&self) -> bool {
        match self {
            Self::DiskFull { .. } => true,
            Self::FileFailed { source, .. } => matches!(
                source.kind(),
                std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded
            ),
            // It speaks the language of the C locale.
            Self::GitFailed { said, .. } => {
                said.contains("No space left on device") || said.contains("Disk quota exceeded")
            }
            _ => false,
        }
    }

    /// Says that the file system at this path is full where that is why something failed there. git does not
    /// always say why it could not write a file.
    pub(crate) fn explain_full_disk(self, path: &Path) -> Self {
        let says_so = match &self {
            Self::FileFailed { .. } | Self::GitFailed { .. } => self.is_out_of_space(),
            _ => return self,
        };
        match crate::files::free_bytes(path) {
            Ok(free) if says_so || free < DISK_FULL_THRESHOLD_BYTES => Self::DiskFull {
                path: path.to_owned(),
                free,
                what: self.to_string(),
            },
            Ok(_) | Err(_) => self,
        }
    }
}

/// With less than this left, what could not be written could not for that reason.
const DISK_FULL_THRESHOLD_BYTES: u64 = 64 * 1024;

/// The first of these paths, and how many more there are.
fn listed(paths: &[TreePath]) -> String {
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

/// Says what was to be done to which file when an operation on it fails.
pub(crate) trait FileErrorContext<T> {
    /// With that said.
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
