//! The engine's hands: a workshop on this host. Without them plans that work on nothing still run;
//! those with resources need somebody who can reach them.

use std::sync::Arc;

use plan::project::{HostId, ResourcePlace};
use plan::{Plan, PlanResource};
use sandbox::{LocalResource, ResourceLocation, Sandboxes};

use crate::{Lifecycle, LifecycleError};

/// A workshop, and the host it stands on.
#[derive(Debug, Clone)]
pub struct LocalHost {
    /// Where sandboxes are made and changes are landed from.
    pub sandboxes: Sandboxes,
    /// The host whose resources can be reached from here.
    pub host: HostId,
}

impl Lifecycle {
    /// The engine with hands: it makes sandboxes, captures them and lands results.
    #[must_use]
    pub fn with_local_host(mut self, local_host: LocalHost) -> Self {
        self.local_host = Some(Arc::new(local_host));
        self
    }

    /// The hands, where there are any.
    pub fn local_host(&self) -> Result<&LocalHost, LifecycleError> {
        self.local_host
            .as_deref()
            .ok_or(LifecycleError::NoLocalHost)
    }

    /// Where the resources of a plan lie, looked up now; all of them must be on this host.
    pub fn locate_resources(&self, plan: &Plan) -> Result<Vec<LocalResource>, LifecycleError> {
        let locations = plan
            .resources
            .iter()
            .map(|resource| self.locate_resource(resource));
        locations.collect()
    }

    /// Where one resource lies.
    pub(crate) fn locate_resource(
        &self,
        resource: &PlanResource,
    ) -> Result<LocalResource, LifecycleError> {
        let project = self.get_project(&resource.project)?;
        let local_host = self.local_host()?;
        let found =
            project
                .resource(&resource.resource)
                .ok_or_else(|| LifecycleError::ResourceGone {
                    resource: resource.name.clone(),
                })?;
        if found.host != local_host.host {
            return Err(LifecycleError::WaitingForHost {
                resource: resource.name.clone(),
                host: found.host.clone(),
            });
        }
        let place = match &found.place {
            ResourcePlace::Git { path, branch } => ResourceLocation::Git {
                path: path.into(),
                // Frozen at use: where a change lands must not move under a person who signed it.
                target: resource.target.clone().unwrap_or_else(|| branch.clone()),
            },
            ResourcePlace::Dir { path } => ResourceLocation::Dir { path: path.into() },
        };
        Ok(LocalResource {
            name: resource.name.clone(),
            location: place,
        })
    }
}
