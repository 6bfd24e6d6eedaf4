//! Looking at a path somebody wants to register, before anything is stored.

use std::path::{Path, PathBuf};

use crate::error::Doing;
use crate::git::{self, Git, Surroundings};
use crate::{Repository, SandboxError};

/// A repository that a project can use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitPlace {
    /// Its working tree, or itself if it is bare; absolute, links resolved.
    pub path: PathBuf,
    /// The full name of the branch that changes land on.
    pub branch: String,
}

/// A directory that a project can use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirPlace {
    /// Absolute, links resolved.
    pub path: PathBuf,
}

/// Is this a repository with this branch, or with one checked out?
pub fn look_at_git(
    surroundings: &Surroundings,
    path: &Path,
    branch: Option<&str>,
) -> Result<GitPlace, SandboxError> {
    git::version(surroundings)?;
    let resolved = path.canonicalize().doing("found", path)?;
    if !resolved.is_dir() {
        return Err(bad(
            path,
            "is not a directory",
            "Give the path of a checkout.",
        ));
    }
    let repository = Repository::open(surroundings, &resolved)?;
    let place = match repository.work_tree() {
        Some(work_tree) => work_tree.to_owned(),
        None if repository.git_dir() == repository.common_dir()
            && resolved.file_name() != Some(".git".as_ref()) =>
        {
            resolved
        }
        None => {
            return Err(bad(
                path,
                "is the inside of a repository",
                "Give the path of its checkout.",
            ));
        }
    };
    let branch = match branch {
        Some(branch) if branch.starts_with("refs/") => branch.to_owned(),
        Some(branch) => format!("refs/heads/{branch}"),
        None => repository
            .current_branch()?
            .ok_or_else(|| SandboxError::Detached {
                path: place.clone(),
            })?,
    };
    if repository.tip(&branch)?.is_none() {
        if repository.tip("HEAD")?.is_none() {
            return Err(bad(
                path,
                "has no commit yet",
                &format!(
                    "Make a first one: git -C {} commit --allow-empty -m start",
                    path.display()
                ),
            ));
        }
        return Err(SandboxError::NoBranch {
            path: place,
            branch: crate::repository::short(&branch).to_owned(),
        });
    }
    Ok(GitPlace {
        path: place,
        branch,
    })
}

/// Is this a directory whose files a plan can work on?
pub fn look_at_dir(surroundings: &Surroundings, path: &Path) -> Result<DirPlace, SandboxError> {
    git::version(surroundings)?;
    let resolved = path.canonicalize().doing("found", path)?;
    std::fs::read_dir(&resolved).doing("read", path)?;
    if resolved.join(".git").exists() {
        return Err(bad(
            path,
            "is a git repository",
            "Register it as one: --git instead of --dir.",
        ));
    }
    Ok(DirPlace { path: resolved })
}

/// A new repository with these files on `main`, for showing things to somebody who has none at hand.
/// One that is there is brought back to them by a commit on top.
pub fn start_repository(
    surroundings: &Surroundings,
    path: &Path,
    files: &[(&str, &str)],
) -> Result<(), SandboxError> {
    git::version(surroundings)?;
    std::fs::create_dir_all(path).doing("made", path)?;
    let git = Git::found_from(surroundings, path);
    if !path.join(".git").is_dir() {
        git.run(&["init", "-q", "-b", "main", "."])?;
        git.run(&["config", "user.name", "Demo"])?;
        git.run(&["config", "user.email", "demo@localhost"])?;
    }
    for (name, text) in files {
        let file = path.join(name);
        std::fs::write(&file, text).doing("written", &file)?;
    }
    git.run(&["add", "--all"])?;
    git.run(&["commit", "-q", "--allow-empty", "-m", "Start of a demo"])
        .map(drop)
}

fn bad(path: &Path, why: &str, hint: &str) -> SandboxError {
    SandboxError::BadPlace {
        path: path.to_owned(),
        why: why.to_owned(),
        hint: hint.to_owned(),
    }
}
