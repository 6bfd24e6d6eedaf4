//! Tracks the conflicts that a merge left in a sandbox, and whether their markers are still there.
//!
//! They are recorded in the vault, so they outlast the sandbox. A path is unresolved while it has
//! any of the markers that git wrote. Lines that look like markers but were in one of the merged
//! sides do not count.

use plan::changeset::TreePath;
use serde::{Deserialize, Serialize};

use crate::error::FileErrorContext;
use crate::files::{self, PathHandle};
use crate::local_resource::SandboxKey;
use crate::sandboxes::Sandbox;
use crate::vault::Vault;
use crate::{CapturedChange, ChangeCapture, ObjectId, SandboxError};

/// The largest file that is searched; git does not write markers into larger files by default.
const MAX_CONFLICT_FILE_BYTES: u64 = 512 << 20;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ConflictedPath {
    path: TreePath,
    /// The label of the target's side in the markers.
    target: String,
    /// The label of the work's side.
    work: String,
    /// The marker characters to look for, without those that one of the sides already used at line
    /// starts.
    marks: String,
    /// A person submitted a result with these markers.
    #[serde(default)]
    allowed: bool,
}

impl ConflictedPath {
    fn from_sides(path: &TreePath, names: [&str; 2], sides: &[Option<Vec<u8>>; 2]) -> Self {
        let unused = |mark: &char| {
            let mut sides = sides.iter().flatten();
            !sides.any(|side| split_lines(side).any(|line| is_conflict_marker(line, *mark)))
        };
        Self {
            path: path.clone(),
            target: names[0].to_owned(),
            work: names[1].to_owned(),
            marks: "<=>|".chars().filter(unused).collect(),
            allowed: false,
        }
    }

    fn is_marked_in(&self, text: &[u8]) -> bool {
        let named = [
            format!("<<<<<<< {}", self.target),
            format!(">>>>>>> {}", self.work),
        ];
        split_lines(text).any(|line| {
            named.iter().any(|name| name.as_bytes() == line)
                || self
                    .marks
                    .chars()
                    .any(|mark| is_conflict_marker(line, mark))
        })
    }
}

fn split_lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = text.split(|byte| *byte == b'\n');
    lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

/// Is this line seven of these characters, optionally followed by a label?
fn is_conflict_marker(line: &[u8], mark: char) -> bool {
    let bytes = mark.to_string().repeat(7).into_bytes();
    match line.strip_prefix(bytes.as_slice()) {
        Some([]) => true,
        Some([b' ', ..]) => mark != '=',
        Some(_) | None => false,
    }
}

impl Vault {
    fn read_conflicts(&self) -> Result<Vec<ConflictedPath>, SandboxError> {
        files::read_json_or_default(&self.conflicts_path())
    }

    fn write_conflicts(&self, conflicts: &[ConflictedPath]) -> Result<(), SandboxError> {
        let text = serde_json::to_vec(conflicts).expect("BUG: conflicts always encode");
        files::write_atomically(&self.conflicts_path(), &text)
    }

    /// Removes the record, when the work starts from a commit again.
    pub(crate) fn forget_conflicts(&self) -> Result<(), SandboxError> {
        let path = self.conflicts_path();
        match std::fs::remove_file(&path) {
            Err(error) if !files::is_not_found(&error) => Err(error).while_being("removed", &path),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn conflicts_path(&self) -> std::path::PathBuf {
        self.path().join("conflicts.json")
    }
}

impl ChangeCapture<'_> {
    /// Records the conflicts of a merge of the work with its target, and keeps unresolved earlier
    /// ones.
    pub(crate) fn record_conflicts(
        &self,
        key: &SandboxKey<'_>,
        sandbox: &Sandbox,
        sides: [&ObjectId; 2],
        names: [&str; 2],
        paths: &[TreePath],
    ) -> Result<(), SandboxError> {
        let vault = self.sandboxes.vaults().vault_for(key);
        let mut conflicts = vault.read_conflicts()?;
        conflicts.retain(|one| is_unresolved(sandbox, one));
        for path in paths {
            if let Some(known) = conflicts.iter_mut().find(|one| one.path == *path) {
                known.allowed = false;
                continue;
            }
            let sides = [
                read_blob_at(&vault, sides[0], path)?,
                read_blob_at(&vault, sides[1], path)?,
            ];
            conflicts.push(ConflictedPath::from_sides(path, names, &sides));
        }
        vault.write_conflicts(&conflicts)
    }

    /// Paths in the sandbox that still have conflict markers.
    pub fn list_unresolved_conflicts(
        &self,
        key: &SandboxKey<'_>,
    ) -> Result<Vec<TreePath>, SandboxError> {
        let Some(sandbox) = self.sandboxes.current_sandbox(key)? else {
            return Ok(Vec::new());
        };
        let conflicts = self.list_conflicts(key)?;
        let unresolved = conflicts.iter().filter(|one| is_unresolved(&sandbox, one));
        Ok(unresolved.map(|one| one.path.clone()).collect())
    }

    /// Records that a person submits the markers which are in the sandbox now.
    pub fn allow_conflict_markers(&self, key: &SandboxKey<'_>) -> Result<(), SandboxError> {
        let mut conflicts = self.list_conflicts(key)?;
        if conflicts.is_empty() {
            return Ok(());
        }
        for one in &mut conflicts {
            one.allowed = true;
        }
        self.sandboxes
            .vaults()
            .vault_for(key)
            .write_conflicts(&conflicts)
    }

    /// Checks that no path of a result that was in conflict still has its markers, unless a person
    /// submitted them. Results of earlier versions were not checked when they were submitted.
    pub(crate) fn check_conflicts_resolved(
        &self,
        key: &SandboxKey<'_>,
        tree: &ObjectId,
    ) -> Result<(), SandboxError> {
        let vault = self.sandboxes.vaults().vault_for(key);
        let mut marked = Vec::new();
        for one in self.list_conflicts(key)? {
            let text = match one.allowed {
                true => None,
                false => read_blob_at(&vault, tree, &one.path)?,
            };
            if text.is_some_and(|text| one.is_marked_in(&text)) {
                marked.push(one.path);
            }
        }
        SandboxError::refuse_conflict_markers(marked)
    }

    /// All paths that were in conflict.
    fn list_conflicts(&self, key: &SandboxKey<'_>) -> Result<Vec<ConflictedPath>, SandboxError> {
        let mut conflicts = self.sandboxes.vaults().vault_for(key).read_conflicts()?;
        let sandbox = self.sandboxes.current_sandbox(key)?;
        for path in sandbox.iter().flat_map(|sandbox| &sandbox.conflicts) {
            if conflicts.iter().all(|one| one.path != *path) {
                conflicts.push(ConflictedPath {
                    path: path.clone(),
                    target: key.target_label().to_owned(),
                    work: key.work_label(),
                    marks: "<>".to_owned(),
                    allowed: false,
                });
            }
        }
        Ok(conflicts)
    }

    /// Changed paths that contain a conflict marker with the plan's own label: files that were
    /// moved or copied with their markers.
    pub fn find_moved_markers(
        &self,
        key: &SandboxKey<'_>,
        changes: &[CapturedChange],
    ) -> Result<Vec<TreePath>, SandboxError> {
        let conflicts = self.sandboxes.vaults().vault_for(key).read_conflicts()?;
        let (Some(sandbox), Some(one)) = (self.sandboxes.current_sandbox(key)?, conflicts.first())
        else {
            return Ok(Vec::new());
        };
        let name = format!(">>>>>>> {}", one.work);
        let changed = changes.iter().filter(|change| change.after.is_some());
        let marked = changed.filter(|change| {
            let text = read_sandbox_file(&sandbox, &change.path);
            text.is_some_and(|text| split_lines(&text).any(|line| line == name.as_bytes()))
        });
        Ok(marked.map(|change| change.path.clone()).collect())
    }
}

fn is_unresolved(sandbox: &Sandbox, conflict: &ConflictedPath) -> bool {
    let text = read_sandbox_file(sandbox, &conflict.path);
    text.is_some_and(|text| conflict.is_marked_in(&text))
}

/// Reads a file of the sandbox; `None` if it is not a regular file.
fn read_sandbox_file(sandbox: &Sandbox, path: &TreePath) -> Option<Vec<u8>> {
    let handle = PathHandle::open(&sandbox.path, path).ok()?;
    handle.read(MAX_CONFLICT_FILE_BYTES).ok().flatten()
}

/// Reads a path in a commit; `None` if it does not exist.
fn read_blob_at(
    vault: &Vault,
    commit: &ObjectId,
    path: &TreePath,
) -> Result<Option<Vec<u8>>, SandboxError> {
    use std::os::unix::ffi::OsStringExt;
    let name = [commit.as_str().as_bytes(), b":", path.as_bytes()].concat();
    let name = std::ffi::OsString::from_vec(name);
    let words = ["cat-file", "blob"].map(std::ffi::OsString::from);
    let arguments = [&words[..], &[name]].concat();
    let output = vault.git().try_run(&arguments)?;
    Ok((output.exit_code == 0).then_some(output.stdout))
}
