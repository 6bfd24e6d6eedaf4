//! Where one is: the repository around the current directory, and the project that stands for it.

use std::path::{Path, PathBuf};

use plan::QualifiedName;
use plan::project::{Resource, ResourceName, ResourcePlace};
use sandbox::{GitLocation, locate_git_repository};

use crate::cli::App;
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::{host, settings};

/// The root of the checkout one is in, as far as can be seen without asking git.
pub fn find_checkout_root() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    let mut above = here.ancestors();
    let root = above.find(|directory| directory.join(".git").exists())?;
    Some(root.to_owned())
}

/// The repository one is in.
pub fn inspect_repository() -> Result<GitLocation, CommandError> {
    locate_git_repository(&settings::read_git_env(), Path::new("."), None)
        .map_err(|error| lifecycle::LifecycleError::Sandbox(error).into())
}

/// The project that is this repository with this branch.
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
    let found = lifecycle.list_projects(None, MAX_PROJECTS)?.into_iter();
    let mut found = found.filter(|project| project.resources.iter().all(is_here));
    Ok(found.next().map(|project| project.name))
}

/// Registers a repository under the name of its directory, or one like it that is free.
pub fn register_project(app: &App, here: &GitLocation) -> Result<QualifiedName, CommandError> {
    const MAX_NAME_ATTEMPTS: u32 = 100;
    let branch = here
        .branch
        .strip_prefix("refs/heads/")
        .unwrap_or(&here.branch);
    let directory = here.path.file_name().unwrap_or_default().to_string_lossy();
    let plain = make_valid_name(&directory);
    let resource = Resource {
        name: parse_resource_name(&plain)?,
        host: host::register_host(&app.settings.home)?,
        place: ResourcePlace::Git {
            path: path_to_text(&here.path)?,
            branch: here.branch.clone(),
        },
    };
    let lifecycle = app.lifecycle()?;
    let with_branch = format!("{plain}.{}", make_valid_name(branch));
    let numbered = (2..MAX_NAME_ATTEMPTS).map(|number| format!("{plain}-{number}"));
    for candidate in [plain.clone(), with_branch].into_iter().chain(numbered) {
        let Ok(name) = candidate.parse::<QualifiedName>() else {
            continue;
        };
        let free = match lifecycle.get_project(&name) {
            Ok(project) => project.resources == [resource.clone()],
            Err(lifecycle::LifecycleError::Refused(plan::Refusal::NoSuchProject(_))) => true,
            Err(error) => return Err(error.into()),
        };
        if free {
            lifecycle.create_project(&name, vec![resource], &app.new_call())?;
            return Ok(name);
        }
    }
    Err(CommandError::new(
        CommandExit::Conflict,
        format!("Every name like `{plain}` is taken by another project."),
    )
    .with_hint("planwright project create NAME --git ."))
}

fn path_to_text(path: &Path) -> Result<String, CommandError> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        CommandError::usage(format!("{} is not valid UTF-8.", path.display()))
            .with_hint("Rename the directory.")
    })
}

fn parse_resource_name(plain: &str) -> Result<ResourceName, CommandError> {
    let name = plain.parse::<ResourceName>();
    name.or_else(|_| "repository".parse())
        .map_err(|error| CommandError::usage(error.to_string()))
}

/// What can be a name, of a text that may not be one.
fn make_valid_name(text: &str) -> String {
    let kept: String = text
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
    let kept = kept.trim_matches(['-', '.', '_']);
    let kept: String = kept.chars().take(40).collect();
    let kept = kept.trim_end_matches(['-', '.', '_']).to_owned();
    if kept.is_empty() {
        "repository".to_owned()
    } else {
        kept
    }
}
