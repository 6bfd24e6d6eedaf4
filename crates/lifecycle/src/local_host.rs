//! Access to the resources on this host. An engine without it can only run plans that have no resources.

use std::sync::Arc;

use plan::project::HostId;
use sandbox::Sandboxes;

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
}
