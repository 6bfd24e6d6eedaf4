//! Where sandboxes and vaults are, below one home directory that only its owner can enter.

use std::path::{Path, PathBuf};

use plan::PlanId;

use crate::error::FileErrorContext;
use crate::{SandboxError, files};

/// The directories of one home.
#[derive(Debug, Clone)]
pub(crate) struct HomeLayout {
    root: PathBuf,
}

impl HomeLayout {
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Creates a directory below the home that only its owner can enter. Also restricts what an
    /// earlier version created with wider permissions: the top directory, and the home unless it
    /// contains other files.
    pub fn make_home_directory(&self, path: &Path) -> Result<(), SandboxError> {
        files::make_private_directory(path)?;
        let below = path.strip_prefix(&self.root).unwrap_or(path);
        if let Some(first) = below.components().next() {
            let top = self.root.join(first);
            files::restrict_to_owner(&top).while_being("closed", &top)?;
        }
        restrict_home_to_owner(&self.root).while_being("closed", &self.root)
    }

    pub fn plan_directory(&self, plan_id: PlanId) -> PathBuf {
        self.root.join("sandboxes").join(plan_id.to_string())
    }

    pub fn vault_directory(&self, plan_id: PlanId) -> PathBuf {
        self.root.join("vaults").join(plan_id.to_string())
    }
}

/// Is this the name of something that Planwright keeps in its home?
fn is_home_entry(name: &str) -> bool {
    const HOME_DIRECTORIES: &[&str] = &[
        "actors",
        "demo",
        "directories",
        "present",
        "recent",
        "rescued",
        "runs",
        "sandboxes",
        "vaults",
    ];
    const HOME_FILE_PREFIXES: &[&str] = &["config.yaml", "goal-", "host", "planwright.db"];
    HOME_DIRECTORIES.contains(&name) || HOME_FILE_PREFIXES.iter().any(|file| name.starts_with(file))
}

/// Restricts a home that an earlier version left open to other users. Skips a directory that
/// contains other files, belongs to another user, or has the sticky bit like `/tmp`.
fn restrict_home_to_owner(home: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::symlink_metadata(home)?;
    let is_own = metadata.uid() == rustix::process::geteuid().as_raw();
    let is_open = metadata.mode() & 0o077 != 0;
    if !metadata.is_dir() || !is_own || !is_open || metadata.mode() & 0o1000 != 0 {
        return Ok(());
    }
    for entry in std::fs::read_dir(home)? {
        if !entry?.file_name().to_str().is_some_and(is_home_entry) {
            return Ok(());
        }
    }
    files::restrict_to_owner(home)
}
