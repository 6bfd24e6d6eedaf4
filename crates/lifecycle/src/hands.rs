//! The engine's hands: a workshop on this host. Without them plans that work on nothing still run;
//! those with resources need somebody who can reach them.

use std::sync::Arc;

use plan::project::{HostId, Place};
use plan::{Plan, PlanResource};
use sandbox::{Site, SitePlace, Workshop};

use crate::{Error, Lifecycle};

/// A workshop, and the host it stands on.
#[derive(Debug, Clone)]
pub struct Hands {
    /// Where sandboxes are made and changes are landed from.
    pub workshop: Workshop,
    /// The host whose resources can be reached from here.
    pub host: HostId,
}

impl Lifecycle {
    /// The engine with hands: it makes sandboxes, captures them and lands results.
    #[must_use]
    pub fn with_hands(mut self, hands: Hands) -> Self {
        self.hands = Some(Arc::new(hands));
        self
    }

    /// The hands, where there are any.
    pub fn hands(&self) -> Result<&Hands, Error> {
        self.hands.as_deref().ok_or(Error::NoHands)
    }

    /// Where the resources of a plan lie, looked up now; all of them must be on this host.
    pub fn sites(&self, plan: &Plan) -> Result<Vec<Site>, Error> {
        let sites = plan.resources.iter().map(|resource| self.site(resource));
        sites.collect()
    }

    /// Where one resource lies.
    pub(crate) fn site(&self, resource: &PlanResource) -> Result<Site, Error> {
        let project = self.get_project(&resource.project)?;
        let hands = self.hands()?;
        let found = project
            .resource(&resource.resource)
            .ok_or_else(|| Error::ResourceGone {
                resource: resource.name.clone(),
            })?;
        if found.host != hands.host {
            return Err(Error::WaitingForHost {
                resource: resource.name.clone(),
                host: found.host.clone(),
            });
        }
        let place = match &found.place {
            Place::Git { path, branch } => SitePlace::Git {
                path: path.into(),
                // Frozen at use: where a change lands must not move under a person who signed it.
                target: resource.target.clone().unwrap_or_else(|| branch.clone()),
            },
            Place::Dir { path } => SitePlace::Dir { path: path.into() },
        };
        Ok(Site {
            name: resource.name.clone(),
            place,
        })
    }
}
