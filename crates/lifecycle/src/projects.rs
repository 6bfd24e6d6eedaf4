//! Operations on projects.
//!
//! Does not check whether a path exists: a resource may be on another host.

use plan::command::{
    CreateProject, DeleteProject, LinkResource, PauseProject, RelinkResource, ResumeProject,
    UnlinkResource,
};
use plan::project::{HostId, Resource, ResourceName, ResourcePlace};
use plan::{Command, Plan, PlanResource, Project, QualifiedName, Refusal};
use sandbox::{LocalResource, ResourceLocation};

use crate::{Call, Lifecycle, LifecycleError};
use plan::reads::CommandTarget;

pub use plan::decide::ForceRemoval;

/// Operations on projects.
#[derive(Clone, Copy)]
pub struct Projects<'a> {
    lifecycle: &'a Lifecycle,
}

impl Lifecycle {
    pub fn projects(&self) -> Projects<'_> {
        Projects { lifecycle: self }
    }
}

impl Projects<'_> {
    /// Creates a project. Succeeds without effect if an identical one exists.
    pub fn create_project(
        &self,
        name: &QualifiedName,
        resources: Vec<Resource>,
        call: &Call,
    ) -> Result<Project, LifecycleError> {
        let create = CreateProject {
            name: name.clone(),
            resources,
        };
        self.change_project(name, create, call)
    }

    pub fn link_resource(
        &self,
        project: &QualifiedName,
        resource: Resource,
        call: &Call,
    ) -> Result<Project, LifecycleError> {
        let link = LinkResource {
            project: project.clone(),
            resource,
        };
        self.change_project(project, link, call)
    }

    /// Removes a resource from a project. Refused without `force` if live plans use the project.
    pub fn unlink_resource(
        &self,
        project: &QualifiedName,
        name: &ResourceName,
        force: ForceRemoval,
        call: &Call,
    ) -> Result<Project, LifecycleError> {
        let unlink = UnlinkResource {
            project: project.clone(),
            name: name.clone(),
            force: force == ForceRemoval::Yes,
        };
        self.change_project(project, unlink, call)
    }

    /// Changes the location of a resource. Live plans use the new location.
    pub fn relink_resource(
        &self,
        project: &QualifiedName,
        name: &ResourceName,
        host: HostId,
        place: ResourcePlace,
        call: &Call,
    ) -> Result<Project, LifecycleError> {
        let relink = RelinkResource {
            project: project.clone(),
            name: name.clone(),
            host,
            place,
        };
        self.change_project(project, relink, call)
    }

    /// Stops new claims of the project's plans. Running work continues.
    pub fn pause_project(
        &self,
        name: &QualifiedName,
        call: &Call,
    ) -> Result<Project, LifecycleError> {
        self.change_project(name, PauseProject(name.clone()), call)
    }

    /// Allows claims of the project's plans again.
    pub fn resume_project(
        &self,
        name: &QualifiedName,
        call: &Call,
    ) -> Result<Project, LifecycleError> {
        self.change_project(name, ResumeProject(name.clone()), call)
    }

    /// Deletes a project, but not its directories. Refused without `force` if live plans use it.
    pub fn delete_project(
        &self,
        name: &QualifiedName,
        force: ForceRemoval,
        call: &Call,
    ) -> Result<(), LifecycleError> {
        let delete = DeleteProject {
            name: name.clone(),
            force: force == ForceRemoval::Yes,
        };
        self.lifecycle
            .submit(delete, &CommandTarget::default(), call)?;
        Ok(())
    }

    pub fn get_project(&self, name: &QualifiedName) -> Result<Project, LifecycleError> {
        Ok(self
            .lifecycle
            .store
            .read_project(name)?
            .ok_or_else(|| Refusal::NoSuchProject(name.clone()))?)
    }

    /// Returns a page of projects, ordered by name.
    pub fn list_projects(
        &self,
        after: Option<&QualifiedName>,
        limit: usize,
    ) -> Result<Vec<Project>, LifecycleError> {
        Ok(self.lifecycle.store.list_projects(after, limit)?)
    }

    /// Looks up the current location of each of a plan's resources. All must be on this host.
    pub fn locate_resources(&self, plan: &Plan) -> Result<Vec<LocalResource>, LifecycleError> {
        let locations = plan
            .resources()
            .iter()
            .map(|resource| self.locate_resource(resource));
        locations.collect()
    }

    pub(crate) fn locate_resource_named(
        &self,
        plan: &Plan,
        resource: &str,
    ) -> Result<LocalResource, LifecycleError> {
        let found = plan.resources().iter().find(|one| one.name == resource);
        let found = found.ok_or_else(|| LifecycleError::ResourceGone {
            resource: resource.to_owned(),
        })?;
        self.locate_resource(found)
    }

    pub(crate) fn locate_resource(
        &self,
        resource: &PlanResource,
    ) -> Result<LocalResource, LifecycleError> {
        let project = self.get_project(&resource.project)?;
        let local_host = self.lifecycle.local_host()?;
        let registered =
            project
                .resource(&resource.resource)
                .ok_or_else(|| LifecycleError::ResourceGone {
                    resource: resource.name.clone(),
                })?;
        if registered.host != local_host.host {
            return Err(LifecycleError::WaitingForHost {
                resource: resource.name.clone(),
                host: registered.host.clone(),
            });
        }
        let location = match &registered.place {
            ResourcePlace::Git { path, branch } => ResourceLocation::Git {
                path: path.into(),
                // The target is frozen at use, so that an approved change cannot land elsewhere.
                target: resource.target.clone().unwrap_or_else(|| branch.clone()),
            },
            ResourcePlace::Dir { path } => ResourceLocation::Dir { path: path.into() },
        };
        Ok(LocalResource {
            name: resource.name.clone(),
            location,
        })
    }

    fn change_project(
        &self,
        name: &QualifiedName,
        command: impl Into<Command>,
        call: &Call,
    ) -> Result<Project, LifecycleError> {
        self.lifecycle
            .submit(command, &CommandTarget::default(), call)?;
        self.get_project(name)
            .map_err(LifecycleError::into_commit_unknown)
    }
}
