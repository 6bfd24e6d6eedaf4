//! Sandboxes as programs see them.

use std::path::PathBuf;

use lifecycle::EnteredSandbox;
use serde::Serialize;

/// A sandbox.
#[derive(Debug, Serialize)]
pub struct SandboxView {
    /// The plan's resource.
    pub resource: String,
    /// Its files.
    pub path: PathBuf,
}

impl From<&EnteredSandbox> for SandboxView {
    fn from(sandbox: &EnteredSandbox) -> Self {
        Self {
            resource: sandbox.resource.clone(),
            path: sandbox.path.clone(),
        }
    }
}
