//! What went wrong with a repository, a directory or a process.

use sandbox::SandboxError;

use super::{CommandError, WayOut};
use crate::exit::Exit;

/// What went wrong with a repository or a directory.
pub fn of_sandbox(error: &SandboxError) -> CommandError {
    let new = |exit, kind: &str| CommandError::new(exit, error.to_string()).kind(kind);
    if error.is_about_permission() {
        return new(Exit::Error, "not_permitted")
            .hint("Let yourself read and write there, and repeat the command; nothing is lost.");
    }
    match error {
        SandboxError::NoGit { .. } => {
            new(Exit::Error, "no_git").hint("Install git, or put it on the PATH.")
        }
        SandboxError::OldGit { .. } => new(Exit::Error, "old_git"),
        SandboxError::Git { .. } => new(Exit::Error, "git"),
        SandboxError::TooSlow { path, .. } => new(Exit::Error, "git_too_slow")
            .hint(format!(
                "Does the disk answer, and is `git` git itself? Try: git -C {} status",
                path.display()
            ))
            .hint("Then repeat the command; nothing is lost."),
        SandboxError::File { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            new(Exit::NotFound, "not_found")
        }
        SandboxError::File { .. } => new(Exit::Error, "file"),
        SandboxError::BadPlace { hint, .. } => new(Exit::Conflict, "bad_place").hint(hint.clone()),
        SandboxError::Detached { path } => new(Exit::Conflict, "detached")
            .hint(format!(
                "Check out the branch that changes shall land on: git -C {} switch BRANCH",
                path.display()
            ))
            .hint(format!(
                "Or give it a name with its branch: planwright project create NAME --git {} --branch BRANCH",
                path.display()
            )),
        SandboxError::NotTrusted { path } => new(Exit::Error, "not_trusted").hint(format!(
            "If you trust it: git config --global --add safe.directory {}",
            path.display()
        )),
        SandboxError::NoBranch { path, branch } => CommandError {
            way_out: Some(WayOut::Branch {
                path: path.clone(),
                branch: branch.clone(),
            }),
            ..new(Exit::NotFound, "no_branch")
        },
        SandboxError::NoSpace { .. } => new(Exit::Error, "no_space")
            .hint("Free some space there and run the command again; nothing is lost."),
        SandboxError::ObjectGone { .. } => new(Exit::NotFound, "object_gone"),
        SandboxError::ResultGone { .. } => new(Exit::NotFound, "result_gone")
            .hint("Have the work done again: planwright retry ID --fresh"),
        SandboxError::SandboxGone { .. } => new(Exit::NotFound, "sandbox_gone").hint(
            "Start over: planwright retry ID --fresh",
        ),
        SandboxError::NothingMatches { .. } => new(Exit::NotFound, "nothing_matches"),
        SandboxError::Uncapturable { .. }
        | SandboxError::UncapturablePaths { .. }
        | SandboxError::NameRefused { .. }
        | SandboxError::Path(_) => new(Exit::Conflict, "uncapturable"),
        SandboxError::Fenced { .. } => new(Exit::Conflict, "fenced"),
        SandboxError::TargetMoved { .. } => {
            new(Exit::Conflict, "target_moved").hint("Repeat the command.")
        }
        SandboxError::Locked { lock } => new(Exit::Conflict, "locked").hint(format!(
            "Repeat the command; if no git is running, remove {}",
            lock.display()
        )),
        SandboxError::Occupied { .. } => new(Exit::Conflict, "occupied").hint("End it first."),
        SandboxError::WorkedIn { .. } => {
            new(Exit::Conflict, "occupied").hint("Repeat the command once it is done.")
        }
        SandboxError::BadBranchName { .. } => new(Exit::Usage, "bad_branch_name"),
        SandboxError::BranchExists { .. } => {
            new(Exit::Conflict, "branch_exists").hint("Choose another name: --as branch NAME")
        }
        SandboxError::Busy { .. } => new(Exit::Conflict, "busy").hint("Repeat the command."),
        SandboxError::Unsupervised { .. } => new(Exit::Error, "unsupervised"),
        SandboxError::SetUpFailed { .. } => new(Exit::Error, "set_up_failed")
            .hint("It is sandbox.setup in planwright.yaml; the plan waits: planwright retry ID"),
        SandboxError::SetUpStopped { .. } => new(Exit::Interrupted, "stopped"),
        SandboxError::NoSupervisor { .. } => new(Exit::Error, "no_supervisor"),
        SandboxError::Damaged { .. } => new(Exit::Error, "damaged"),
    }
}
