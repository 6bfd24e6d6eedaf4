//! Projects: making and changing them, and reading them.
//!
//! Whether a path exists is not looked at here: a resource may lie on another host.

use plan::project::{HostId, Resource, ResourceName, ResourcePlace};
use plan::{Command, Project, QualifiedName, Refusal};

use crate::submit::CommandTarget;
use crate::{Call, Lifecycle, LifecycleError};

/// Whether living plans are in the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForceRemoval {
    /// They are.
    No,
    /// They will not find what they work on.
    Yes,
}

impl Lifecycle {
    /// Stores a new project. The very same again is fine.
    pub fn create_project(
        &self,
        name: &QualifiedName,
        resources: Vec<Resource>,
        call: &Call,
    ) -> Result<Project, LifecycleError> {
        let create = Command::CreateProject {
            name: name.clone(),
            resources,
        };
        self.change_project(name, create, call)
    }

    /// Adds a resource to a project.
    pub fn link_resource(
        &self,
        project: &QualifiedName,
        resource: Resource,
        call: &Call,
    ) -> Result<Project, LifecycleError> {
        let link = Command::LinkResource {
            project: project.clone(),
            resource,
        };
        self.change_project(project, link, call)
    }

    /// Takes a resource from a project; with `force`, even if living plans use the project.
    pub fn unlink_resource(
        &self,
        project: &QualifiedName,
        name: &ResourceName,
        force: ForceRemoval,
        call: &Call,
    ) -> Result<Project, LifecycleError> {
        let unlink = Command::UnlinkResource {
            project: project.clone(),
            name: name.clone(),
            force: force == ForceRemoval::Yes,
        };
        self.change_project(project, unlink, call)
    }

    /// Says where a resource lies now; living plans find it there.
    pub fn relink_resource(
        &self,
        project: &QualifiedName,
        name: &ResourceName,
        host: HostId,
        place: ResourcePlace,
        call: &Call,
    ) -> Result<Project, LifecycleError> {
        let relink = Command::RelinkResource {
            project: project.clone(),
            name: name.clone(),
            host,
            place,
        };
        self.change_project(project, relink, call)
    }

    /// Keeps a project's plans from starting to work; who works goes on.
    pub fn pause_project(
        &self,
        name: &QualifiedName,
        call: &Call,
    ) -> Result<Project, LifecycleError> {
        self.change_project(name, Command::PauseProject(name.clone()), call)
    }

    /// Lets a project's plans start again.
    pub fn resume_project(
        &self,
        name: &QualifiedName,
        call: &Call,
    ) -> Result<Project, LifecycleError> {
        self.change_project(name, Command::ResumeProject(name.clone()), call)
    }

    /// Removes a project, not its directories; with `force`, even if living plans use it.
    pub fn delete_project(
        &self,
        name: &QualifiedName,
        force: ForceRemoval,
        call: &Call,
    ) -> Result<(), LifecycleError> {
        let delete = Command::DeleteProject {
            name: name.clone(),
            force: force == ForceRemoval::Yes,
        };
        self.submit(delete, &CommandTarget::default(), call)?;
        Ok(())
    }

    /// One project.
    pub fn get_project(&self, name: &QualifiedName) -> Result<Project, LifecycleError> {
        Ok(self
            .store
            .read_project(name)?
            .ok_or_else(|| Refusal::NoSuchProject(name.clone()))?)
    }

    /// A page of projects by name.
    pub fn list_projects(
        &self,
        after: Option<&QualifiedName>,
        limit: usize,
    ) -> Result<Vec<Project>, LifecycleError> {
        Ok(self.store.list_projects(after, limit)?)
    }

    fn change_project(
        &self,
        name: &QualifiedName,
        command: Command,
        call: &Call,
    ) -> Result<Project, LifecycleError> {
        self.submit(command, &CommandTarget::default(), call)?;
        self.get_project(name)
            .map_err(LifecycleError::into_commit_unknown)
    }
}
