//! Finds the repository of the current directory and its project, or registers one.

use std::path::{Path, PathBuf};

use plan::QualifiedName;
use plan::project::{Resource, ResourceName, ResourcePlace};
use sandbox::{GitLocation, locate_git_repository};

use crate::cli::App;
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::{host, settings};

/// The nearest parent directory with a `.git`. Does not run git.
pub fn find_checkout_root() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    let mut above = here.ancestors();
    let root = above.find(|directory| directory.join(".git").exists())?;
    Some(root.to_owned())
}

/// Asks git for the repository of the current directory.
pub fn inspect_repository() -> Result<GitLocation, CommandError> {
    locate_git_repository(&settings::read_git_env(), Path::new("."), None)
        .map_err(|error| lifecycle::LifecycleError::Sandbox(error).into())
}

/// Finds the project whose resources are all this repository on this branch and host.
pub fn find_project(app: &App, here: &GitLocation) -> Result<Option<QualifiedName>, CommandError> {
    const MAX_PROJECTS: usize = 500;
    let lifecycle = app.lifecycle()?;
    let host = &lifecycle.local_host()?.host;
    let is_here = |resource: &Resource| match &resource.place {
        ResourcePlace::Git { path, branch } => {
            Path::new(path) == here.path && *branch == here.branch && resource.host == *host
        }
        ResourcePlace::Dir { .. } => false,
    };
    let found = lifecycle
        .projects()
        .list_projects(None, MAX_PROJECTS)?
        .into_iter();
    let mut found = found.filter(|project| project.resources.iter().all(is_here));
    Ok(found.next().map(|project| project.name))
}

/// Registers a repository as a project, named after its directory or a free variation of that name.
pub fn register_project(app: &App, here: &GitLocation) -> Result<QualifiedName, CommandError> {
    const MAX_NAME_ATTEMPTS: u32 = 100;
    let branch = here
        .branch
        .strip_prefix("refs/heads/")
        .unwrap_or(&here.branch);
    let directory = here.path.file_name().unwrap_or_default().to_string_lossy();
    let base_name = make_valid_name(&directory);
    let resource = Resource {
        name: parse_resource_name(&base_name)?,
        host: host::register_host(&app.settings.home)?,
        place: ResourcePlace::Git {
            path: path_to_text(&here.path)?,
            branch: here.branch.clone(),
        },
    };
    let lifecycle = app.lifecycle()?;
    let with_branch = format!("{base_name}.{}", make_valid_name(branch));
    let numbered = (2..MAX_NAME_ATTEMPTS).map(|number| format!("{base_name}-{number}"));
    for candidate in [base_name.clone(), with_branch].into_iter().chain(numbered) {
        let Ok(name) = candidate.parse::<QualifiedName>() else {
            continue;
        };
        let is_free = match lifecycle.projects().get_project(&name) {
            // Creating an equal project again is idempotent.
            Ok(project) => project.resources == [resource.clone()],
            Err(lifecycle::LifecycleError::Refused(plan::Refusal::NoSuchProject(_))) => true,
            Err(error) => return Err(error.into()),
        };
        if is_free {
            lifecycle
                .projects()
                .create_project(&name, vec![resource], &app.new_call())?;
            return Ok(name);
        }
    }
    Err(CommandError::new(
        CommandExit::Conflict,
        format!("Every name like `{base_name}` is taken by another project."),
    )
    .with_hint("planwright project create NAME --git ."))
}

fn path_to_text(path: &Path) -> Result<String, CommandError> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        CommandError::usage(format!("{} is not valid UTF-8.", path.display()))
            .with_hint("Rename the directory.")
    })
}

fn parse_resource_name(text: &str) -> Result<ResourceName, CommandError> {
    let name = text.parse::<ResourceName>();
    name.or_else(|_| "repository".parse())
        .map_err(|error| CommandError::usage(error.to_string()))
}

/// Reduces a text to the characters and length of a valid name.
fn make_valid_name(text: &str) -> String {
    let name: String = text
        .to_lowercase()
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || "-_.".contains(c) {
                c
            } else {
                '-'
            }
        })
        .collect();
    let name = name.trim_matches(['-', '.', '_']);
    let name: String = name.chars().take(40).collect();
    let name = name.trim_end_matches(['-', '.', '_']).to_owned();
    if name.is_empty() {
        "repository".to_owned()
    } else {
        name
    }
}
