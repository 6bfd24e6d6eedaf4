//! Where one is: the repository around the current directory, and the project that stands for it.

use std::path::{Path, PathBuf};

use plan::Name;
use plan::project::{Place, Resource, ResourceName};
use sandbox::{GitPlace, look_at_git};

use crate::cli::App;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::{host, settings};

/// The root of the checkout one is in, as far as can be seen without asking git.
pub fn checkout() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    let mut above = here.ancestors();
    let root = above.find(|directory| directory.join(".git").exists())?;
    Some(root.to_owned())
}

/// The repository one is in.
pub fn repository() -> Result<GitPlace, CommandError> {
    look_at_git(&settings::surroundings(), Path::new("."), None)
        .map_err(|error| lifecycle::Error::Sandbox(error).into())
}

/// The project that is this repository with this branch.
pub fn project_of(app: &App, here: &GitPlace) -> Result<Option<Name>, CommandError> {
    const MOST: usize = 500;
    let lifecycle = app.lifecycle()?;
    let host = &lifecycle.hands()?.host;
    let is_here = |resource: &Resource| match &resource.place {
        Place::Git { path, branch } => {
            Path::new(path) == here.path && *branch == here.branch && resource.host == *host
        }
        Place::Dir { .. } => false,
    };
    let found = lifecycle.list_projects(None, MOST)?.into_iter();
    let mut found = found.filter(|project| project.resources.iter().all(is_here));
    Ok(found.next().map(|project| project.name))
}

/// Registers a repository under the name of its directory, or one like it that is free.
pub fn register(app: &App, here: &GitPlace) -> Result<Name, CommandError> {
    const MOST_TRIES: u32 = 100;
    let branch = here
        .branch
        .strip_prefix("refs/heads/")
        .unwrap_or(&here.branch);
    let directory = here.path.file_name().unwrap_or_default().to_string_lossy();
    let plain = as_name(&directory);
    let resource = Resource {
        name: resource_name(&plain)?,
        host: host::register(&app.settings.home)?,
        place: Place::Git {
            path: as_text(&here.path)?,
            branch: here.branch.clone(),
        },
    };
    let lifecycle = app.lifecycle()?;
    let with_branch = format!("{plain}.{}", as_name(branch));
    let numbered = (2..MOST_TRIES).map(|number| format!("{plain}-{number}"));
    for candidate in [plain.clone(), with_branch].into_iter().chain(numbered) {
        let Ok(name) = candidate.parse::<Name>() else {
            continue;
        };
        let free = match lifecycle.get_project(&name) {
            Ok(project) => project.resources == [resource.clone()],
            Err(lifecycle::Error::Refused(plan::Refusal::NoSuchProject(_))) => true,
            Err(error) => return Err(error.into()),
        };
        if free {
            lifecycle.create_project(&name, vec![resource], &app.call())?;
            return Ok(name);
        }
    }
    Err(CommandError::new(
        Exit::Conflict,
        format!("Every name like `{plain}` is taken by another project."),
    )
    .hint("planwright project create NAME --git ."))
}

fn as_text(path: &Path) -> Result<String, CommandError> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        CommandError::usage(format!("{} is not valid UTF-8.", path.display()))
            .hint("Rename the directory.")
    })
}

fn resource_name(plain: &str) -> Result<ResourceName, CommandError> {
    let name = plain.parse::<ResourceName>();
    name.or_else(|_| "repository".parse())
        .map_err(|error| CommandError::usage(error.to_string()))
}

/// What can be a name, of a text that may not be one.
fn as_name(text: &str) -> String {
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
