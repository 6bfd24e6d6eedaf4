//! Projects: making and changing them, and reading them.
//!
//! Whether a path exists is not looked at here: a resource may lie on another host.

use plan::project::{HostId, Place, Resource, ResourceName};
use plan::{Command, Name, Project, Refusal};

use crate::submit::Subject;
use crate::{Call, Error, Lifecycle};

/// Whether living plans are in the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Force {
    /// They are.
    No,
    /// They will not find what they work on.
    Yes,
}

impl Lifecycle {
    /// Stores a new project. The very same again is fine.
    pub fn create_project(
        &self,
        name: &Name,
        resources: Vec<Resource>,
        call: &Call,
    ) -> Result<Project, Error> {
        let create = Command::CreateProject {
            name: name.clone(),
            resources,
        };
        self.change_project(name, create, call)
    }

    /// Adds a resource to a project.
    pub fn link_resource(
        &self,
        project: &Name,
        resource: Resource,
        call: &Call,
    ) -> Result<Project, Error> {
        let link = Command::LinkResource {
            project: project.clone(),
            resource,
        };
        self.change_project(project, link, call)
    }

    /// Takes a resource from a project; with `force`, even if living plans use the project.
    pub fn unlink_resource(
        &self,
        project: &Name,
        name: &ResourceName,
        force: Force,
        call: &Call,
    ) -> Result<Project, Error> {
        let unlink = Command::UnlinkResource {
            project: project.clone(),
            name: name.clone(),
            force: force == Force::Yes,
        };
        self.change_project(project, unlink, call)
    }

    /// Says where a resource lies now; living plans find it there.
    pub fn relink_resource(
        &self,
        project: &Name,
        name: &ResourceName,
        host: HostId,
        place: Place,
        call: &Call,
    ) -> Result<Project, Error> {
        let relink = Command::RelinkResource {
            project: project.clone(),
            name: name.clone(),
            host,
            place,
        };
        self.change_project(project, relink, call)
    }

    /// Keeps a project's plans from starting to work; who works goes on.
    pub fn pause_project(&self, name: &Name, call: &Call) -> Result<Project, Error> {
        self.change_project(name, Command::PauseProject(name.clone()), call)
    }

    /// Lets a project's plans start again.
    pub fn resume_project(&self, name: &Name, call: &Call) -> Result<Project, Error> {
        self.change_project(name, Command::ResumeProject(name.clone()), call)
    }

    /// Removes a project, not its directories; with `force`, even if living plans use it.
    pub fn delete_project(&self, name: &Name, force: Force, call: &Call) -> Result<(), Error> {
        let delete = Command::DeleteProject {
            name: name.clone(),
            force: force == Force::Yes,
        };
        self.submit(delete, &Subject::default(), call)?;
        Ok(())
    }

    /// One project.
    pub fn get_project(&self, name: &Name) -> Result<Project, Error> {
        Ok(self
            .store
            .project(name)?
            .ok_or_else(|| Refusal::NoSuchProject(name.clone()))?)
    }

    /// A page of projects by name.
    pub fn list_projects(&self, after: Option<&Name>, limit: usize) -> Result<Vec<Project>, Error> {
        Ok(self.store.projects(after, limit)?)
    }

    fn change_project(&self, name: &Name, command: Command, call: &Call) -> Result<Project, Error> {
        self.submit(command, &Subject::default(), call)?;
        self.get_project(name).map_err(Error::after_commit)
    }
}
