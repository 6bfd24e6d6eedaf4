//! Finds the repository of a directory and its project, or registers one.

use std::path::{Path, PathBuf};

use api::plan_config::RepositoryAction;
use api::projects;
use lifecycle::Call;
use plan::QualifiedName;
use sandbox::{GitLocation, locate_git_repository};

use crate::cli::App;
use crate::error::CommandError;
use crate::{repository_config, settings};

/// The nearest parent directory with a `.git`. Does not run git.
pub fn find_checkout_root() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    let mut above = here.ancestors();
    let root = above.find(|directory| directory.join(".git").exists())?;
    Some(root.to_owned())
}

/// The actions that the repository of the current directory defines; none outside a repository.
pub fn list_actions() -> Result<Vec<RepositoryAction>, CommandError> {
    match find_checkout_root() {
        Some(root) => Ok(repository_config::read_for_repository(&root)?.actions),
        None => Ok(Vec::new()),
    }
}

/// Asks git for the repository of the current directory.
pub fn inspect_repository() -> Result<GitLocation, CommandError> {
    inspect_directory(Path::new("."))
}

/// Asks git for the repository of a directory.
pub fn inspect_directory(directory: &Path) -> Result<GitLocation, CommandError> {
    locate_git_repository(&settings::read_git_env(), directory, None)
        .map_err(|error| lifecycle::LifecycleError::Sandbox(error).into())
}

/// Finds the project of a repository.
pub fn find_project(app: &App, here: &GitLocation) -> Result<Option<QualifiedName>, CommandError> {
    Ok(projects::find_repository(app.lifecycle()?, here)?)
}

/// Registers a repository as a project.
pub fn register_project(
    app: &App,
    here: &GitLocation,
    call: &Call,
) -> Result<QualifiedName, CommandError> {
    Ok(projects::register_repository(app.lifecycle()?, here, call)?)
}
