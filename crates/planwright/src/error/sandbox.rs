//! Exit codes, kinds and hints for errors of git, files, sandboxes and processes.

use std::io::ErrorKind;
use std::path::Path;

use sandbox::{LocationProblem, SandboxError};

use super::{CommandError, RecoveryHint};
use crate::exit::CommandExit;

/// The kind and the hint for a file that cannot be read or written, if more can be said than its message does.
pub fn find_file_remedy(error: ErrorKind) -> Option<(&'static str, &'static str)> {
    match error {
        ErrorKind::PermissionDenied => Some((
            "not_permitted",
            "Give yourself read and write permission there and repeat the command. Nothing is lost.",
        )),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Some(("no_space", FREE_SPACE_HINT)),
        ErrorKind::ReadOnlyFilesystem => Some((
            "read_only_files",
            "Make its file system writable and repeat the command. Nothing is lost. \
             Planwright's own files can be elsewhere: PLANWRIGHT_HOME=DIRECTORY",
        )),
        _ => None,
    }
}

const FREE_SPACE_HINT: &str = "Free some space there and repeat the command. Nothing is lost.";

pub fn from_sandbox_error(error: &SandboxError) -> CommandError {
    let new = |exit, kind: &str| CommandError::new(exit, error.to_string()).with_kind(kind);
    let file_error = match error {
        SandboxError::FileFailed { source, .. } => Some(source.kind()),
        _ if error.is_permission_denied() => Some(ErrorKind::PermissionDenied),
        _ if error.is_out_of_space() => Some(ErrorKind::StorageFull),
        _ => None,
    };
    if let Some((kind, hint)) = file_error.and_then(find_file_remedy) {
        return new(CommandExit::Error, kind).with_hint(hint);
    }
    match error {
        SandboxError::GitNotFound { .. } => {
            new(CommandExit::Error, "no_git").with_hint("Install git, or put it on the PATH.")
        }
        SandboxError::GitTooOld { .. } => new(CommandExit::Error, "old_git"),
        SandboxError::GitFailed { .. } => new(CommandExit::Error, "git"),
        SandboxError::GitTimedOut { path, .. } => new(CommandExit::Error, "git_too_slow")
            .with_hint(format!(
                "Check that git works there: git -C {} status",
                path.display()
            ))
            .with_hint("Then repeat the command. Nothing is lost."),
        SandboxError::FileFailed { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            new(CommandExit::NotFound, "not_found")
        }
        SandboxError::FileFailed { .. } => new(CommandExit::Error, "file"),
        SandboxError::UnusableLocation { path, problem } => {
            new(CommandExit::Conflict, "bad_place").with_hint(location_hint(path, problem))
        }
        SandboxError::DetachedHead { path } => new(CommandExit::Conflict, "detached")
            .with_hint(format!(
                "Check out the branch to land on: git -C {} switch BRANCH",
                path.display()
            ))
            .with_hint(format!(
                "Or create a project with a branch: planwright project create NAME --git {} --branch BRANCH",
                path.display()
            )),
        SandboxError::UntrustedOwner { path } => new(CommandExit::Error, "not_trusted").with_hint(format!(
            "If you trust it: git config --global --add safe.directory {}",
            path.display()
        )),
        SandboxError::NoBranch { path, branch } => CommandError {
            recovery: Some(RecoveryHint::MissingBranch {
                path: path.clone(),
                branch: branch.clone(),
            }),
            ..new(CommandExit::NotFound, "no_branch")
        },
        SandboxError::DiskFull { .. } => new(CommandExit::Error, "no_space").with_hint(FREE_SPACE_HINT),
        SandboxError::ObjectMissing { .. } => new(CommandExit::NotFound, "object_gone"),
        SandboxError::ResultMissing { .. } => new(CommandExit::NotFound, "result_gone")
            .with_hint("Run the work again: planwright retry ID --fresh"),
        SandboxError::SandboxMissing { .. } => new(CommandExit::NotFound, "sandbox_gone").with_hint(
            "Start over: planwright retry ID --fresh",
        ),
        SandboxError::NoPathMatches { .. } => new(CommandExit::NotFound, "nothing_matches"),
        SandboxError::HunkUnknown { .. } => new(CommandExit::NotFound, "unknown_hunk")
            .with_hint("List the hunks of the current result: planwright diff ID --hunks"),
        SandboxError::Uncapturable { .. }
        | SandboxError::UncapturablePaths { .. }
        | SandboxError::NameRefused { .. }
        | SandboxError::InvalidTreePath(_) => new(CommandExit::Conflict, "uncapturable"),
        SandboxError::NotRegularFile { path } => new(CommandExit::Conflict, "not_regular_file")
            .with_hint(format!(
                "Remove {} or put a file there, then repeat the command. Nothing is lost.",
                path.display()
            )),
        SandboxError::FencedByNewerHolder { .. } => new(CommandExit::Conflict, "fenced"),
        SandboxError::TargetMoved { .. } => {
            new(CommandExit::Conflict, "target_moved").with_hint("Repeat the command.")
        }
        SandboxError::LockedByGit { lock } => new(CommandExit::Conflict, "locked").with_hint(format!(
            "Repeat the command. If no git process is running, remove {}",
            lock.display()
        )),
        SandboxError::OccupiedByProcess { .. } => new(CommandExit::Conflict, "occupied").with_hint("Stop that process, then repeat the command."),
        SandboxError::SandboxInUse { .. } => {
            new(CommandExit::Conflict, "occupied").with_hint("Repeat the command when it has finished.")
        }
        SandboxError::InvalidBranchName { .. } => new(CommandExit::Usage, "bad_branch_name"),
        SandboxError::BranchExists { .. } => {
            new(CommandExit::Conflict, "branch_exists").with_hint("Choose another name: --as branch NAME")
        }
        SandboxError::LandingInProgress { .. } => new(CommandExit::Conflict, "busy").with_hint("Repeat the command."),
        SandboxError::SupervisorFailed { .. } => new(CommandExit::Error, "unsupervised"),
        SandboxError::SetUpFailed { .. } => new(CommandExit::Error, "set_up_failed")
            .with_hint("Fix sandbox.setup in planwright.yaml, then: planwright retry ID"),
        SandboxError::SetUpStopped { .. } | SandboxError::GitStopped { .. } => new(CommandExit::Interrupted, "stopped"),
        SandboxError::NoSupervisor { .. } => new(CommandExit::Error, "no_supervisor"),
        SandboxError::DamagedFile { .. } => new(CommandExit::Error, "damaged"),
    }
}

/// What to do about a path that cannot be used.
fn location_hint(path: &Path, problem: &LocationProblem) -> String {
    let shown = path.display();
    match problem {
        LocationProblem::NotADirectory => "Give the path of a checkout.".to_owned(),
        LocationProblem::InsideRepository => "Give the path of its checkout.".to_owned(),
        LocationProblem::NoCommit => {
            format!("Create one: git -C {shown} commit --allow-empty -m start")
        }
        LocationProblem::IsGitRepository => "Register it with --git instead of --dir.".to_owned(),
        LocationProblem::NotAGitRepository => format!("git init {shown}"),
        LocationProblem::NoBranches => "Land in the directory: leave out --as branch.".to_owned(),
        LocationProblem::NoWorkTree => {
            "Land it as a commit or on a branch: --as commit, or --as branch NAME.".to_owned()
        }
        LocationProblem::LineBreakInPath => "Rename it, or clone it elsewhere.".to_owned(),
        LocationProblem::Gone { resource, option } => {
            let (project, resource) = resource.rsplit_once('/').unwrap_or(("", resource));
            format!(
                "If it was moved, register the new path: planwright project relink {project} {resource} {option} PATH"
            )
        }
        LocationProblem::UnknownOccupant => "Remove it by hand when nothing uses it.".to_owned(),
        LocationProblem::TooManyFiles | LocationProblem::TooManyBareRepositories => {
            "View its changes instead: planwright diff ID".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_system_that_refuses_to_be_written_is_explained() {
        for (source, kind, help) in [
            (ErrorKind::StorageFull, "no_space", "Free some space"),
            (ErrorKind::QuotaExceeded, "no_space", "Free some space"),
            (
                ErrorKind::ReadOnlyFilesystem,
                "read_only_files",
                "PLANWRIGHT_HOME",
            ),
            (ErrorKind::PermissionDenied, "not_permitted", "permission"),
        ] {
            let failed = SandboxError::FileFailed {
                path: "/var/plans/present".into(),
                doing: "created",
                source: source.into(),
            };
            let error = from_sandbox_error(&failed);
            assert!(error.message.starts_with("/var/plans/present cannot be"));
            assert_eq!(error.data["kind"], kind);
            assert!(error.hints.concat().contains(help), "{error:?}");
        }
    }
}
