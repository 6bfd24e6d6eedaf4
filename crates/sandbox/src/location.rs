//! Checks a path that a user wants to register as a resource. Stores nothing.

use std::path::{Path, PathBuf};

use crate::error::FileErrorContext;
use crate::git::{self, GitCommand, GitEnv};
use crate::{LocationProblem, Repository, SandboxError};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitLocation {
    /// The working tree, or the repository itself if it is bare. Absolute, symlinks resolved.
    pub path: PathBuf,
    /// The branch that results land on, as a full ref name.
    pub branch: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryLocation {
    /// Absolute, symlinks resolved.
    pub path: PathBuf,
}

/// Finds the repository at a path and the branch to land on: the given one, or the current one.
pub fn locate_git_repository(
    git_env: &GitEnv,
    path: &Path,
    branch: Option<&str>,
) -> Result<GitLocation, SandboxError> {
    git::git_version(git_env)?;
    let resolved = path.canonicalize().while_being("found", path)?;
    if !resolved.is_dir() {
        return Err(unusable_location(path, LocationProblem::NotADirectory));
    }
    let repository = Repository::open(git_env, &resolved)?;
    let location = match repository.work_tree() {
        Some(work_tree) => work_tree.to_owned(),
        None if repository.git_dir() == repository.common_dir()
            && resolved.file_name() != Some(".git".as_ref()) =>
        {
            resolved
        }
        None => {
            return Err(unusable_location(path, LocationProblem::InsideRepository));
        }
    };
    let branch = match branch {
        Some(branch) if branch.starts_with("refs/") => branch.to_owned(),
        Some(branch) => format!("refs/heads/{branch}"),
        None => repository
            .current_branch()?
            .ok_or_else(|| SandboxError::DetachedHead {
                path: location.clone(),
            })?,
    };
    if repository.tip(&branch)?.is_none() {
        if repository.tip("HEAD")?.is_none() {
            return Err(unusable_location(path, LocationProblem::NoCommit));
        }
        return Err(SandboxError::NoBranch {
            path: location,
            branch: crate::repository::short_branch_name(&branch).to_owned(),
        });
    }
    Ok(GitLocation {
        path: location,
        branch,
    })
}

/// Checks that a path is a readable directory and not a git repository.
pub fn locate_directory(git_env: &GitEnv, path: &Path) -> Result<DirectoryLocation, SandboxError> {
    git::git_version(git_env)?;
    let resolved = path.canonicalize().while_being("found", path)?;
    std::fs::read_dir(&resolved).while_being("read", path)?;
    if resolved.join(".git").exists() {
        return Err(unusable_location(path, LocationProblem::IsGitRepository));
    }
    Ok(DirectoryLocation { path: resolved })
}

/// Creates a repository with these files on `main`, for the demo. If it exists, commits the files
/// on top.
pub fn create_demo_repository(
    git_env: &GitEnv,
    path: &Path,
    files: &[(&str, &str)],
) -> Result<(), SandboxError> {
    git::git_version(git_env)?;
    std::fs::create_dir_all(path).while_being("created", path)?;
    let git = GitCommand::discover_from(git_env, path);
    if !path.join(".git").is_dir() {
        git.run(&["init", "-q", "-b", "main", "."])?;
        git.run(&["config", "user.name", "Demo"])?;
        git.run(&["config", "user.email", "demo@localhost"])?;
    }
    for (name, text) in files {
        let file = path.join(name);
        std::fs::write(&file, text).while_being("written", &file)?;
    }
    git.run(&["add", "--all"])?;
    git.run(&["commit", "-q", "--allow-empty", "-m", "Start of a demo"])
        .map(drop)
}

fn unusable_location(path: &Path, problem: LocationProblem) -> SandboxError {
    SandboxError::UnusableLocation {
        path: path.to_owned(),
        problem,
    }
}
