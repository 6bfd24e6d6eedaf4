//! Access to the resources on this host. An engine without it can only run plans that have no resources.

use std::sync::Arc;

use plan::project::{HostId, ResourcePlace};
use plan::{Plan, PlanResource};
use sandbox::{LocalResource, ResourceLocation, Sandboxes};

use crate::{Lifecycle, LifecycleError};

#[derive(Debug, Clone)]
pub struct LocalHost {
    /// Creates sandboxes and lands their results.
    pub sandboxes: Sandboxes,
    /// This host. Only resources registered on it are accessible.
    pub host: HostId,
}

impl Lifecycle {
    /// Lets the engine create sandboxes, capture their changes and land results on this host.
    #[must_use]
    pub fn with_local_host(mut self, local_host: LocalHost) -> Self {
        self.local_host = Some(Arc::new(local_host));
        self
    }

    /// Returns the local host, or [`LifecycleError::NoLocalHost`] if there is none.
    pub fn local_host(&self) -> Result<&LocalHost, LifecycleError> {
        self.local_host
            .as_deref()
            .ok_or(LifecycleError::NoLocalHost)
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
        let project = self.projects().get_project(&resource.project)?;
        let local_host = self.local_host()?;
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
}
