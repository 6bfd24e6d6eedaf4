//! Projects as programs see them.

use plan::{Project, Timestamp};
use serde::Serialize;

/// A project.
#[derive(Debug, Serialize)]
pub struct ProjectView {
    /// Its name.
    pub name: String,
    /// Its plans do not start to work.
    pub paused: bool,
    /// When it was created.
    pub created_at: Timestamp,
    /// What its plans work on.
    pub resources: Vec<ResourceView>,
}

/// A resource.
#[derive(Debug, Serialize)]
pub struct ResourceView {
    /// Its name.
    pub name: String,
    /// `git` or `dir`.
    pub kind: &'static str,
    /// Where it lies.
    pub path: String,
    /// The branch that changes land on.
    pub branch: Option<String>,
    /// On which host.
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
