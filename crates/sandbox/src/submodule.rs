//! Submodules: git keeps only the commit of one, so what is written below its path would be lost without a word.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use plan::changeset::TreePath;

use crate::compare::GITLINK;
use crate::error::Doing;
use crate::files::{self, Spot};
use crate::git::{self, Git};
use crate::ignored::files_below;
use crate::room::{Room, Sandbox, Workshop};
use crate::vault::{self, Vault};
use crate::{ObjectId, SandboxError, open};

/// How deep submodules of submodules are looked at.
const MAX_DEPTH: usize = 8;

/// A submodule in an index.
struct Submodule {
    path: TreePath,
    commit: ObjectId,
}

impl Workshop {
    /// Files below the submodules of a sandbox that are not as the submodule's commit has them.
    pub(crate) fn writes_below_submodules(
        &self,
        room: &Room<'_>,
        sandbox: &Sandbox,
    ) -> Result<BTreeSet<TreePath>, SandboxError> {
        let mut found = BTreeSet::new();
        if !may_have_submodules(&sandbox.index)? {
            return Ok(found);
        }
        let looked = SubmoduleScan {
            vault: &self.vault(room),
            root: &sandbox.path,
        };
        let submodules = submodules_in(&self.git_inside(room, sandbox))?;
        looked.look_below(&submodules, 0, &mut found)?;
        Ok(found)
    }
}

struct SubmoduleScan<'a> {
    vault: &'a Vault,
    root: &'a Path,
}

impl SubmoduleScan<'_> {
    fn look_below(
        &self,
        submodules: &[Submodule],
        depth: usize,
        found: &mut BTreeSet<TreePath>,
    ) -> Result<(), SandboxError> {
        for submodule in submodules {
            let path = &submodule.path;
            let place = files::below(self.root, path);
            // Where a link or a file took its place, the tree shows that.
            if Spot::find(self.root, path).is_err() || !files::is_directory(&place) {
                continue;
            }
            let is_populated = place.join(".git").symlink_metadata().is_ok();
            if is_populated && depth < MAX_DEPTH && self.look_inside(submodule, depth, found)? {
                continue;
            }
            match files_below(self.root, path) {
                Some(files) => found.extend(files),
                None => found.extend([path.clone()]),
            }
        }
        Ok(())
    }

    /// Compares a submodule that was checked out with its commit; `false` if that cannot be done. As of every
    /// repository of an agent's, only objects are read.
    fn look_inside(
        &self,
        submodule: &Submodule,
        depth: usize,
        found: &mut BTreeSet<TreePath>,
    ) -> Result<bool, SandboxError> {
        let place = files::below(self.root, &submodule.path);
        let Some(objects) = objects_of(self.root, &place) else {
            return Ok(false);
        };
        let scratch = self.vault.scratch();
        vault::bare_repository(&scratch.0, submodule.commit.format())?;
        let git = Git::at(self.vault.surroundings(), &scratch.0)
            .with("GIT_ALTERNATE_OBJECT_DIRECTORIES", &objects)
            .on_tree(&place)
            .with_index(&scratch.0.join("index"));
        if git.ask(&["read-tree", submodule.commit.as_str()])?.code != 0 {
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
        let inner = submodules_in(&git)?;
        let inner: Vec<Submodule> = inner
            .into_iter()
            .filter_map(|one| {
                let path = joined(&submodule.path, one.path.as_bytes())?;
                Some(Submodule { path, ..one })
            })
            .collect();
        let changed = git::fields(&changed).filter_map(|name| {
            let name = name.strip_suffix(b"/").unwrap_or(name);
            joined(&submodule.path, name)
        });
        // A submodule in it is looked at by itself.
        found.extend(changed.filter(|path| !inner.iter().any(|one| one.path == *path)));
        drop(scratch);
        self.look_below(&inner, depth + 1, found)?;
        Ok(true)
    }
}

/// Can there be a submodule in an index? Its mode is in four bytes of its own, whatever the format's version.
fn may_have_submodules(index: &Path) -> Result<bool, SandboxError> {
    const MODE: [u8; 4] = 0o160_000_u32.to_be_bytes();
    let bytes = match std::fs::read(index) {
        Ok(bytes) => bytes,
        Err(error) if files::is_absent(&error) => return Ok(false),
        Err(error) => return Err(error).doing("read", index),
    };
    Ok(bytes.windows(MODE.len()).any(|window| window == MODE))
}

fn submodules_in(git: &Git) -> Result<Vec<Submodule>, SandboxError> {
    let output = git.run(&["ls-files", "--stage", "-z"])?;
    let mut found = Vec::new();
    for line in git::fields(&output) {
        let Some(tab) = line.iter().position(|byte| *byte == b'\t') else {
            continue;
        };
        let head = String::from_utf8_lossy(&line[..tab]);
        let mut words = head.split(' ');
        let is_submodule = words.next() == Some(GITLINK);
        let commit = words.next().and_then(|word| word.parse().ok());
        if let Some(commit) = commit.filter(|_| is_submodule) {
            let path = TreePath::new(&line[tab + 1..])?;
            found.push(Submodule { path, commit });
        }
    }
    Ok(found)
}

fn joined(above: &TreePath, below: &[u8]) -> Option<TreePath> {
    TreePath::new([above.as_bytes(), b"/", below].concat()).ok()
}

/// Where the objects of a submodule are that was checked out in the sandbox, if they are in the sandbox.
fn objects_of(root: &Path, place: &Path) -> Option<PathBuf> {
    const MAX_BYTES: u64 = 8192;
    let own = place.join(".git");
    let git_dir = if files::is_directory(&own) {
        own
    } else {
        let text = open::read_plain(&own, MAX_BYTES).ok()??;
        let named = text.strip_prefix(b"gitdir: ")?;
        let named = named.strip_suffix(b"\n").unwrap_or(named);
        place.join(OsStr::from_bytes(named))
    };
    let objects = git_dir.join("objects").canonicalize().ok()?;
    let is_inside = objects.starts_with(root.canonicalize().ok()?);
    // git separates such directories by colons.
    let is_plain = !objects
        .as_os_str()
        .as_bytes()
        .iter()
        .any(|byte| matches!(byte, b':' | b'"'));
    (is_inside && is_plain).then_some(objects)
}
