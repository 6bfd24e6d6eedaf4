//! Views of projects and resources.

use plan::{PlanId, Project, Timestamp};
use serde::Serialize;

use crate::projects::{DeletedProject, ProjectPage};

#[derive(Debug, Serialize)]
pub struct ProjectView {
    pub name: String,
    /// Plans of a paused project do not start work.
    pub paused: bool,
    pub created_at: Timestamp,
    pub resources: Vec<ResourceView>,
}

/// A page of projects.
#[derive(Debug, Serialize)]
pub struct ProjectListView {
    pub projects: Vec<ProjectView>,
    /// The last project of this page, if there are more.
    pub next: Option<String>,
}

impl From<&ProjectPage> for ProjectListView {
    fn from(page: &ProjectPage) -> Self {
        Self {
            projects: page.projects.iter().map(ProjectView::from).collect(),
            next: page.next.as_ref().map(ToString::to_string),
        }
    }
}

/// A project that was deleted.
#[derive(Debug, Serialize)]
pub struct DeletedProjectView {
    pub name: String,
    /// Its unfinished plans, newest first.
    pub stranded_plans: Vec<PlanId>,
}

impl From<&DeletedProject> for DeletedProjectView {
    fn from(deleted: &DeletedProject) -> Self {
        Self {
            name: deleted.project.name.to_string(),
            stranded_plans: deleted.stranded_plans.clone(),
        }
    }
}

#[derive(Debug, Serialize)]
pub struct ResourceView {
    pub name: String,
    /// `git` or `dir`.
    pub kind: &'static str,
    pub path: String,
    /// The branch that plans land on; `null` for a directory.
    pub branch: Option<String>,
    /// The id of the host that has it.
    pub host: String,
}

impl From<&Project> for ProjectView {
    fn from(project: &Project) -> Self {
        Self {
            name: project.name.to_string(),
            paused: project.paused.is_some(),
            created_at: project.created_at,
            resources: project
                .resources
                .iter()
                .map(|resource| ResourceView {
                    name: resource.name.to_string(),
                    kind: resource.place.kind().as_str(),
                    path: resource.place.path().to_owned(),
                    branch: resource.place.branch().map(str::to_owned),
                    host: resource.host.to_string(),
                })
                .collect(),
        }
    }
}
