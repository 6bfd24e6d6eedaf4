//! Finds files that an agent wrote below submodules. git records only a submodule's commit, so
//! these files would be lost silently.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use plan::changeset::TreePath;

use crate::compare::GITLINK_MODE;
use crate::error::FileErrorContext;
use crate::files::{self, PathHandle};
use crate::git::{self, GitCommand};
use crate::ignored::files_below;
use crate::local_resource::SandboxKey;
use crate::sandboxes::Sandbox;
use crate::vault::{self, Vault};
use crate::{ChangeCapture, ObjectId, SandboxError, open_for_person};

/// How deep nested submodules are checked.
const MAX_SUBMODULE_DEPTH: usize = 8;

struct SubmoduleEntry {
    path: TreePath,
    commit: ObjectId,
}

impl ChangeCapture<'_> {
    /// Files below the sandbox's submodules that differ from the submodule's commit.
    pub(crate) fn list_submodule_writes(
        &self,
        key: &SandboxKey<'_>,
        sandbox: &Sandbox,
    ) -> Result<BTreeSet<TreePath>, SandboxError> {
        let mut found = BTreeSet::new();
        if !may_have_submodules(&sandbox.index_path)? {
            return Ok(found);
        }
        let scan = SubmoduleScan {
            vault: &self.sandboxes.vaults().vault_for(key),
            root: &sandbox.path,
        };
        let submodules = list_submodules(&self.git_in_sandbox(key, sandbox))?;
        scan.scan_submodules(&submodules, 0, &mut found)?;
        Ok(found)
    }
}

struct SubmoduleScan<'a> {
    vault: &'a Vault,
    root: &'a Path,
}

impl SubmoduleScan<'_> {
    fn scan_submodules(
        &self,
        submodules: &[SubmoduleEntry],
        depth: usize,
        found: &mut BTreeSet<TreePath>,
    ) -> Result<(), SandboxError> {
        for submodule in submodules {
            let path = &submodule.path;
            let submodule_path = files::join_tree_path(self.root, path);
            // If a symlink or a file replaced the submodule, the tree diff shows it.
            if PathHandle::open(self.root, path).is_err() || !files::is_directory(&submodule_path) {
                continue;
            }
            let is_populated = submodule_path.join(".git").symlink_metadata().is_ok();
            if is_populated
                && depth < MAX_SUBMODULE_DEPTH
                && self.scan_populated_submodule(submodule, depth, found)?
            {
                continue;
            }
            match files_below(self.root, path) {
                Some(files) => found.extend(files),
                None => found.extend([path.clone()]),
            }
        }
        Ok(())
    }

    /// Compares a checked-out submodule with its commit. Returns `false` if its objects cannot be
    /// read. Only objects are read, because the agent controls the repository.
    fn scan_populated_submodule(
        &self,
        submodule: &SubmoduleEntry,
        depth: usize,
        found: &mut BTreeSet<TreePath>,
    ) -> Result<bool, SandboxError> {
        let submodule_path = files::join_tree_path(self.root, &submodule.path);
        let Some(objects) = find_submodule_objects(self.root, &submodule_path) else {
            return Ok(false);
        };
        let scratch = self.vault.new_scratch_dir();
        vault::create_bare_repository(&scratch.0, submodule.commit.object_format())?;
        let git = GitCommand::at_git_dir(self.vault.git_env(), &scratch.0)
            .with_variable("GIT_ALTERNATE_OBJECT_DIRECTORIES", &objects)
            .with_work_tree(&submodule_path)
            .with_index(&scratch.0.join("index"));
        if git
            .try_run(&["read-tree", submodule.commit.as_str()])?
            .exit_code
            != 0
        {
            return Ok(false);
        }
        let changed = git.run(&[
            "ls-files",
            "-z",
            "--modified",
            "--deleted",
            "--others",
            "--exclude-standard",
        ])?;
        let inner = list_submodules(&git)?;
        let inner: Vec<SubmoduleEntry> = inner
            .into_iter()
            .filter_map(|one| {
                let path = join_paths(&submodule.path, one.path.as_bytes())?;
                Some(SubmoduleEntry { path, ..one })
            })
            .collect();
        let changed = git::split_nul_fields(&changed).filter_map(|name| {
            let name = name.strip_suffix(b"/").unwrap_or(name);
            join_paths(&submodule.path, name)
        });
        // Nested submodules are checked on their own.
        found.extend(changed.filter(|path| !inner.iter().any(|one| one.path == *path)));
        drop(scratch);
        self.scan_submodules(&inner, depth + 1, found)?;
        Ok(true)
    }
}

/// Can this index contain a submodule? Every index version stores the mode in four bytes, so a byte
/// search is enough to rule it out without starting git.
fn may_have_submodules(index: &Path) -> Result<bool, SandboxError> {
    const GITLINK_MODE_BYTES: [u8; 4] = 0o160_000_u32.to_be_bytes();
    let bytes = match std::fs::read(index) {
        Ok(bytes) => bytes,
        Err(error) if files::is_not_found(&error) => return Ok(false),
        Err(error) => return Err(error).while_being("read", index),
    };
    Ok(bytes
        .windows(GITLINK_MODE_BYTES.len())
        .any(|window| window == GITLINK_MODE_BYTES))
}

fn list_submodules(git: &GitCommand) -> Result<Vec<SubmoduleEntry>, SandboxError> {
    let output = git.run(&["ls-files", "--stage", "-z"])?;
    let mut found = Vec::new();
    for line in git::split_nul_fields(&output) {
        let Some(tab) = line.iter().position(|byte| *byte == b'\t') else {
            continue;
        };
        let head = String::from_utf8_lossy(&line[..tab]);
        let mut words = head.split(' ');
        let is_submodule = words.next() == Some(GITLINK_MODE);
        let commit = words.next().and_then(|word| word.parse().ok());
        if let Some(commit) = commit.filter(|_| is_submodule) {
            let path = TreePath::new(&line[tab + 1..])?;
            found.push(SubmoduleEntry { path, commit });
        }
    }
    Ok(found)
}

fn join_paths(above: &TreePath, below: &[u8]) -> Option<TreePath> {
    TreePath::new([above.as_bytes(), b"/", below].concat()).ok()
}

/// The object directory of a submodule that was checked out, if it is inside the sandbox.
fn find_submodule_objects(root: &Path, submodule_path: &Path) -> Option<PathBuf> {
    const MAX_GIT_FILE_BYTES: u64 = 8192;
    let dot_git = submodule_path.join(".git");
    let git_dir = if files::is_directory(&dot_git) {
        dot_git
    } else {
        let text = open_for_person::read_regular_file(&dot_git, MAX_GIT_FILE_BYTES).ok()??;
        let named = text.strip_prefix(b"gitdir: ")?;
        let named = named.strip_suffix(b"\n").unwrap_or(named);
        submodule_path.join(OsStr::from_bytes(named))
    };
    let objects = git_dir.join("objects").canonicalize().ok()?;
    let is_inside = objects.starts_with(root.canonicalize().ok()?);
    // git separates alternates by colons, and unquotes them.
    let is_unambiguous = !objects
        .as_os_str()
        .as_bytes()
        .iter()
        .any(|byte| matches!(byte, b':' | b'"'));
    (is_inside && is_unambiguous).then_some(objects)
}
