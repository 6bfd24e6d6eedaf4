//! Projects: the repositories and directories that plans work on.

use std::path::{Path, PathBuf};

use lifecycle::{Call, ForceRemoval, Lifecycle, LifecycleError};
use plan::project::{Resource, ResourceName, ResourcePlace};
use plan::{PlanId, Project, QualifiedName, Refusal};
use sandbox::{GitLocation, locate_directory, locate_git_repository};
use serde::Deserialize;
use store::PlanFilter;

/// At most this many projects are searched for a directory's.
const MAX_SEARCHED_PROJECTS: usize = 500;

/// At most this many unfinished plans of a deleted project are named.
const MAX_STRANDED_PLANS: usize = 500;

/// A repository or directory on this host.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum PlaceRequest {
    /// A checkout or a bare repository. Without a branch, the checked-out one.
    Git {
        path: PathBuf,
        branch: Option<String>,
    },
    /// A directory that is not a repository.
    Dir { path: PathBuf },
}

/// A resource to register.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResourceRequest {
    /// Defaults to the directory's name.
    pub name: Option<ResourceName>,
    pub place: PlaceRequest,
}

/// Why a project or a resource cannot be registered.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    #[error("nothing to register")]
    NoResource,
    #[error("{} is not valid UTF-8", .0.display())]
    PathNotText(PathBuf),
    #[error("no resource name can be derived from {}", .0.display())]
    NoResourceName(PathBuf),
    /// Other projects have this name and all its variations.
    #[error("every name like `{0}` is taken by another project")]
    NamesTaken(String),
    #[error(transparent)]
    Engine(#[from] LifecycleError),
}

/// A page of projects, ordered by name.
#[derive(Debug)]
pub struct ProjectPage {
    pub projects: Vec<Project>,
    /// The last project of this page, if there are more.
    pub next: Option<QualifiedName>,
}

/// What a deleted project leaves behind.
#[derive(Debug)]
pub struct DeletedProject {
    /// The project as it was.
    pub project: Project,
    /// Its unfinished plans, newest first. They cannot continue without it.
    pub stranded_plans: Vec<PlanId>,
}

/// Creates a project. Succeeds without effect if an identical one exists.
pub fn create_project(
    lifecycle: &Lifecycle,
    name: &QualifiedName,
    resources: &[ResourceRequest],
    call: &Call,
) -> Result<Project, ProjectError> {
    let resources = locate_resources(lifecycle, resources)?;
    let projects = lifecycle.projects();
    Ok(projects.create_project(name, resources, call)?)
}

/// Adds resources to a project, one after the other.
pub fn link_resources(
    lifecycle: &Lifecycle,
    project: &QualifiedName,
    resources: &[ResourceRequest],
    call: &Call,
) -> Result<Project, ProjectError> {
    let mut linked = None;
    for resource in locate_resources(lifecycle, resources)? {
        linked = Some(
            lifecycle
                .projects()
                .link_resource(project, resource, call)?,
        );
    }
    linked.ok_or(ProjectError::NoResource)
}

/// Changes the location of a resource. Live plans use the new location.
pub fn relink_resource(
    lifecycle: &Lifecycle,
    project: &QualifiedName,
    resource: &ResourceName,
    place: &PlaceRequest,
    call: &Call,
) -> Result<Project, ProjectError> {
    let (_, place) = locate_place(lifecycle, place)?;
    let host = lifecycle.local_host()?.host.clone();
    let projects = lifecycle.projects();
    Ok(projects.relink_resource(project, resource, host, place, call)?)
}

/// Removes a resource from a project. Refused without `force` if live plans use the project.
pub fn unlink_resource(
    lifecycle: &Lifecycle,
    project: &QualifiedName,
    resource: &ResourceName,
    force: ForceRemoval,
    call: &Call,
) -> Result<Project, LifecycleError> {
    let projects = lifecycle.projects();
    projects.unlink_resource(project, resource, force, call)
}

/// Stops new work on the project's plans. Running work continues.
pub fn pause_project(
    lifecycle: &Lifecycle,
    name: &QualifiedName,
    call: &Call,
) -> Result<Project, LifecycleError> {
    lifecycle.projects().pause_project(name, call)
}

/// Allows work on the project's plans again.
pub fn resume_project(
    lifecycle: &Lifecycle,
    name: &QualifiedName,
    call: &Call,
) -> Result<Project, LifecycleError> {
    lifecycle.projects().resume_project(name, call)
}

/// Deletes a project, but none of its files. Refused without `force` if live plans use it.
pub fn delete_project(
    lifecycle: &Lifecycle,
    name: &QualifiedName,
    force: ForceRemoval,
    call: &Call,
) -> Result<DeletedProject, LifecycleError> {
    let project = lifecycle.projects().get_project(name)?;
    let filter = PlanFilter {
        project: Some(name.clone()),
        ..PlanFilter::default()
    };
    let rows = lifecycle.list_plans(&filter, None, MAX_STRANDED_PLANS)?;
    lifecycle.projects().delete_project(name, force, call)?;
    let unfinished = rows.iter().filter(|row| !row.plan.stage().is_final());
    Ok(DeletedProject {
        project,
        stranded_plans: unfinished.map(|row| row.plan.id()).collect(),
    })
}

pub fn get_project(lifecycle: &Lifecycle, name: &QualifiedName) -> Result<Project, LifecycleError> {
    lifecycle.projects().get_project(name)
}

pub fn list_projects(
    lifecycle: &Lifecycle,
    after: Option<&QualifiedName>,
    limit: usize,
) -> Result<ProjectPage, LifecycleError> {
    let mut projects = lifecycle.projects().list_projects(after, limit + 1)?;
    let has_more = projects.len() > limit;
    projects.truncate(limit);
    let last = projects.last().filter(|_| has_more);
    let next = last.map(|project| project.name.clone());
    Ok(ProjectPage { projects, next })
}

/// Returns the projects of this host that a directory belongs to. The path must be absolute and without symlinks.
pub fn projects_of_directory(
    lifecycle: &Lifecycle,
    directory: &Path,
) -> Result<Vec<QualifiedName>, LifecycleError> {
    let host = &lifecycle.local_host()?.host;
    let contains = |resource: &Resource| {
        resource.host == *host && directory.starts_with(resource.place.path())
    };
    let projects = lifecycle
        .projects()
        .list_projects(None, MAX_SEARCHED_PROJECTS)?;
    let found = projects
        .into_iter()
        .filter(|project| project.resources.iter().any(contains));
    Ok(found.map(|project| project.name).collect())
}

/// Finds the project whose resources are all this repository on this branch and host.
pub fn find_repository(
    lifecycle: &Lifecycle,
    repository: &GitLocation,
) -> Result<Option<QualifiedName>, LifecycleError> {
    let host = &lifecycle.local_host()?.host;
    let is_it = |resource: &Resource| match &resource.place {
        ResourcePlace::Git { path, branch } => {
            Path::new(path) == repository.path
                && *branch == repository.branch
                && resource.host == *host
        }
        ResourcePlace::Dir { .. } => false,
    };
    let projects = lifecycle
        .projects()
        .list_projects(None, MAX_SEARCHED_PROJECTS)?;
    let mut found = projects
        .into_iter()
        .filter(|project| project.resources.iter().all(is_it));
    Ok(found.next().map(|project| project.name))
}

/// Registers a repository as a project, named after its directory or a free variation of that name.
pub fn register_repository(
    lifecycle: &Lifecycle,
    repository: &GitLocation,
    call: &Call,
) -> Result<QualifiedName, ProjectError> {
    const MAX_NAME_ATTEMPTS: u32 = 100;
    let branch = &repository.branch;
    let branch = branch.strip_prefix("refs/heads/").unwrap_or(branch);
    let directory = repository.path.file_name().unwrap_or_default();
    let base_name = make_valid_name(&directory.to_string_lossy());
    let resource = Resource {
        name: base_name
            .parse::<ResourceName>()
            .or_else(|_| "repository".parse())
            .expect("BUG: the constant is a valid resource name"),
        host: lifecycle.local_host()?.host.clone(),
        place: ResourcePlace::Git {
            path: path_to_text(&repository.path)?,
            branch: repository.branch.clone(),
        },
    };
    let with_branch = format!("{base_name}.{}", make_valid_name(branch));
    let numbered = (2..MAX_NAME_ATTEMPTS).map(|number| format!("{base_name}-{number}"));
    for candidate in [base_name.clone(), with_branch].into_iter().chain(numbered) {
        let Ok(name) = candidate.parse::<QualifiedName>() else {
            continue;
        };
        let is_free = match lifecycle.projects().get_project(&name) {
            // Creating an equal project again is idempotent.
            Ok(project) => project.resources == [resource.clone()],
            Err(LifecycleError::Refused(Refusal::NoSuchProject(_))) => true,
            Err(error) => return Err(error.into()),
        };
        if is_free {
            let projects = lifecycle.projects();
            projects.create_project(&name, vec![resource], call)?;
            return Ok(name);
        }
    }
    Err(ProjectError::NamesTaken(base_name))
}

/// Looks at every place before anything is stored.
fn locate_resources(
    lifecycle: &Lifecycle,
    requests: &[ResourceRequest],
) -> Result<Vec<Resource>, ProjectError> {
    if requests.is_empty() {
        return Err(ProjectError::NoResource);
    }
    let mut resources = Vec::new();
    for request in requests {
        let (path, place) = locate_place(lifecycle, &request.place)?;
        let name = match &request.name {
            Some(name) => name.clone(),
            None => resource_name_from_path(&path)?,
        };
        resources.push(Resource {
            name,
            host: lifecycle.local_host()?.host.clone(),
            place,
        });
    }
    Ok(resources)
}

fn locate_place(
    lifecycle: &Lifecycle,
    place: &PlaceRequest,
) -> Result<(PathBuf, ResourcePlace), ProjectError> {
    let git_env = lifecycle.local_host()?.sandboxes.git_env();
    Ok(match place {
        PlaceRequest::Git { path, branch } => {
            let found = locate_git_repository(git_env, path, branch.as_deref())
                .map_err(LifecycleError::Sandbox)?;
            let place = ResourcePlace::Git {
                path: path_to_text(&found.path)?,
                branch: found.branch,
            };
            (found.path, place)
        }
        PlaceRequest::Dir { path } => {
            let found = locate_directory(git_env, path).map_err(LifecycleError::Sandbox)?;
            let place = ResourcePlace::Dir {
                path: path_to_text(&found.path)?,
            };
            (found.path, place)
        }
    })
}

/// Derives a resource name from the directory's name: lower case, other characters replaced by `-`.
fn resource_name_from_path(path: &Path) -> Result<ResourceName, ProjectError> {
    let last = path.file_name().unwrap_or_default().to_string_lossy();
    let name: String = replace_invalid_characters(&last).take(60).collect();
    let name = name.trim_start_matches(['.', '-']);
    name.parse()
        .map_err(|_| ProjectError::NoResourceName(path.to_owned()))
}

fn path_to_text(path: &Path) -> Result<String, ProjectError> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| ProjectError::PathNotText(path.to_owned()))
}

/// Reduces a text to the characters and length of a valid name.
fn make_valid_name(text: &str) -> String {
    let name: String = replace_invalid_characters(text).collect();
    let name = name.trim_matches(['-', '.', '_']);
    let name: String = name.chars().take(40).collect();
    let name = name.trim_end_matches(['-', '.', '_']).to_owned();
    if name.is_empty() {
        "repository".to_owned()
    } else {
        name
    }
}

fn replace_invalid_characters(text: &str) -> impl Iterator<Item = char> {
    let lower_case = text.to_lowercase().chars().collect::<Vec<char>>();
    lower_case.into_iter().map(|c| {
        if c.is_ascii_alphanumeric() || "-_.".contains(c) {
            c
        } else {
            '-'
        }
    })
}
