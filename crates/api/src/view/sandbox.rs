//! Views of sandboxes.

use std::path::PathBuf;

use lifecycle::EnteredSandbox;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub struct SandboxView {
    pub resource: String,
    /// The root of its files.
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
