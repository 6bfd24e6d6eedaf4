//! Keeps file permissions that git does not record; git records only whether the owner may execute
//! a file.
//!
//! A file that a landing replaces keeps its permissions, except that the result decides whether it
//! is executable. Directories that are not repositories keep more. Their sandboxes start with the
//! same permissions. A new file lands with at most the permissions it had in the sandbox. A file
//! restored by an undo gets its old permissions back.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use plan::changeset::TreePath;
use serde::{Deserialize, Serialize};

use crate::capture::CapturedChange;
use crate::compare::PathDifference;
use crate::error::FileErrorContext;
use crate::files::PathHandle;
use crate::local_resource::{ResourceLocation, SandboxKey};
use crate::sandboxes::{Sandbox, Sandboxes};
use crate::{ChangeCapture, Repository, SandboxError, files, git};

/// Permission bits that are kept; setuid, setgid and sticky are not.
const KEPT_MODE_BITS: u32 = 0o777;
const EXECUTE_MODE_BITS: u32 = 0o111;

/// Permissions of files that have others than 644 or 755.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FileModes(BTreeMap<TreePath, u32>);

/// The stored form: JSON keys must be text, but paths need not be.
#[derive(Default, Serialize, Deserialize)]
struct StoredFileModes(Vec<(TreePath, u32)>);

impl FileModes {
    /// The modes of a plan's new files in a directory resource, in addition to those recorded at
    /// earlier landings. Empty for git resources.
    pub fn read_known(
        sandboxes: &Sandboxes,
        key: &SandboxKey<'_>,
        repository: &Repository,
    ) -> Result<Self, SandboxError> {
        if !is_directory_resource(key) {
            return Ok(Self::default());
        }
        let mut modes = Self::read(&directory_modes_path(repository))?;
        modes
            .0
            .extend(Self::read(&plan_modes_path(sandboxes, key))?.0);
        Ok(modes)
    }

    fn read(path: &Path) -> Result<Self, SandboxError> {
        let stored: StoredFileModes = files::read_json_or_default(path)?;
        Ok(Self(stored.0.into_iter().collect()))
    }

    fn write(&self, path: &Path) -> Result<(), SandboxError> {
        let stored = StoredFileModes(self.0.clone().into_iter().collect());
        let text = serde_json::to_vec(&stored).expect("BUG: modes always encode");
        files::write_atomically(path, &text)
    }

    /// Records the permissions of a file, if it exists and they are unusual.
    fn record_file(&mut self, root: &Path, path: &TreePath) {
        match read_mode(&files::join_tree_path(root, path)) {
            Some(mode) if !matches!(mode, 0o644 | 0o755) => {
                self.0.insert(path.clone(), mode);
            }
            Some(_) => {
                self.0.remove(path);
            }
            None => {}
        }
    }

    /// Stores the modes of the files that a landing adds and removes, with the directory.
    pub fn save_for_directory(
        mut self,
        key: &SandboxKey<'_>,
        repository: &Repository,
        touched: &[PathDifference],
    ) -> Result<(), SandboxError> {
        let Some(root) = repository
            .work_tree()
            .filter(|_| is_directory_resource(key))
        else {
            return Ok(());
        };
        for one in touched.iter().filter(|one| one.after.is_none()) {
            self.record_file(root, &one.path);
        }
        let path = directory_modes_path(repository);
        if self == Self::read(&path)? {
            return Ok(());
        }
        self.write(&path)
    }

    /// Sets the permissions of a staged file before it lands.
    pub fn apply_to_file(
        &self,
        difference: &PathDifference,
        replaced: &Path,
        staged: &Path,
    ) -> Result<(), SandboxError> {
        let (Some(after), Some(now)) = (&difference.after, read_mode(staged)) else {
            return Ok(());
        };
        let before = difference.before.as_ref().map(|before| &before.mode);
        let is_executable = after.mode == "100755";
        let wanted = match (read_mode(replaced).filter(|_| before.is_some()), before) {
            (Some(old), Some(before)) if *before == after.mode => old,
            (Some(old), _) if is_executable => add_execute_bits(old),
            (Some(old), _) => old & !EXECUTE_MODE_BITS,
            (None, _) => match self.0.get(&difference.path) {
                // At most what the umask allows here.
                Some(known) if is_executable => now & add_execute_bits(*known),
                Some(known) => now & known,
                None => return Ok(()),
            },
        };
        if wanted == now {
            return Ok(());
        }
        let permissions = std::fs::Permissions::from_mode(wanted);
        std::fs::set_permissions(staged, permissions).while_being("written", staged)
    }
}

impl ChangeCapture<'_> {
    /// Records the permissions of the new files in the sandbox of a directory resource.
    pub(crate) fn record_file_modes(
        &self,
        key: &SandboxKey<'_>,
        sandbox: &Sandbox,
        changes: &[CapturedChange],
    ) -> Result<(), SandboxError> {
        if !is_directory_resource(key) {
            return Ok(());
        }
        let mut modes = FileModes::default();
        for change in changes.iter().filter(|change| change.after.is_some()) {
            modes.record_file(&sandbox.path, &change.path);
        }
        let path = plan_modes_path(self.sandboxes, key);
        if modes == FileModes::read(&path)? {
            return Ok(());
        }
        modes.write(&path)
    }

    /// Gives the files in a directory's sandbox the permissions from the directory, or those they
    /// had in an earlier sandbox.
    pub(crate) fn restore_file_modes(
        &self,
        key: &SandboxKey<'_>,
        sandbox: &Sandbox,
    ) -> Result<(), SandboxError> {
        let ResourceLocation::Dir { path: directory } = &key.resource.location else {
            return Ok(());
        };
        let plan_modes = FileModes::read(&plan_modes_path(self.sandboxes, key))?;
        let listed = self
            .git_in_sandbox(key, sandbox)
            .run(&["ls-files", "-z", "--cached"])?;
        for name in git::split_nul_fields(&listed) {
            let path = TreePath::new(name)?;
            let file_path = files::join_tree_path(&sandbox.path, &path);
            // Behind a symlink that an agent made may be a file outside of the sandbox.
            if PathHandle::open(&sandbox.path, &path).is_err() {
                continue;
            }
            let known = plan_modes.0.get(&path).copied();
            let directory_mode = read_mode(&files::join_tree_path(directory, &path));
            let (Some(wanted), Some(now)) = (known.or(directory_mode), read_mode(&file_path))
            else {
                continue;
            };
            // The owner must be able to read the file, or it could not be captured. Execution
            // follows git.
            let execute = now & 0o100;
            let wanted = match execute {
                0 => wanted & !EXECUTE_MODE_BITS,
                _ => wanted | execute,
            };
            let wanted = wanted | 0o400;
            if wanted != now {
                let permissions = std::fs::Permissions::from_mode(wanted);
                std::fs::set_permissions(&file_path, permissions)
                    .while_being("written", &file_path)?;
            }
        }
        Ok(())
    }
}

/// Adds the execute bit for everyone who may read the file.
fn add_execute_bits(mode: u32) -> u32 {
    mode | ((mode & 0o444) >> 2)
}

fn is_directory_resource(key: &SandboxKey<'_>) -> bool {
    matches!(key.resource.location, ResourceLocation::Dir { .. })
}

fn directory_modes_path(repository: &Repository) -> PathBuf {
    repository.git_dir().join("modes.json")
}

fn plan_modes_path(sandboxes: &Sandboxes, key: &SandboxKey<'_>) -> PathBuf {
    sandboxes.vaults().vault_for(key).path().join("modes.json")
}

/// The permissions of a regular file; `None` for anything else.
fn read_mode(path: &Path) -> Option<u32> {
    let metadata = std::fs::symlink_metadata(path).ok()?;
    let mode = metadata.permissions().mode() & KEPT_MODE_BITS;
    metadata.is_file().then_some(mode)
}
