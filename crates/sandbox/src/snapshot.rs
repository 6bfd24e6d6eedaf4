//! Snapshots: directories that are no repository, and what a person has not committed yet.

use std::path::Path;

use plan::Digest;

use crate::capture::refused_names;
use crate::error::Doing;
use crate::room::{Room, Workshop};
use crate::vault;
use crate::{ObjectId, Repository, SandboxError};

/// The repository we keep for a directory. The directory itself gets nothing.
pub(crate) fn repository_of(
    workshop: &Workshop,
    directory: &Path,
) -> Result<Repository, SandboxError> {
    use std::os::unix::ffi::OsStrExt;
    std::fs::read_dir(directory).doing("read", directory)?;
    let name = Digest::of(directory.as_os_str().as_bytes()).to_string();
    let git_dir = workshop.home().join("directories").join(&name[..16]);
    workshop.make_directory(&git_dir)?;
    vault::bare_repository(&git_dir, "sha1")?;
    Ok(Repository::for_directory(
        workshop.surroundings(),
        &git_dir,
        directory,
    ))
}

/// The files of a directory as a commit; the same files give the same commit.
pub(crate) fn take(repository: &Repository) -> Result<ObjectId, SandboxError> {
    let checkout = repository
        .own_checkout()
        .expect("BUG: a directory is its own working tree");
    // Not where git would look for it: while a landing goes on, that one is locked.
    let index = checkout.git_dir.join("snapshot.index");
    let git = repository.git_on(&checkout, &index);
    git.run(&["add", "--all", "--", "."])
        .map_err(refused_names)?;
    let tree = git.object(&["write-tree"])?;
    let git = vault::signed(repository.git(), "Planwright", "planwright@localhost", 0);
    git.object(&["commit-tree", tree.as_str(), "-m", "Snapshot"])
}

impl Workshop {
    /// What the person has not committed, as a commit on the tip: a base for `--with-changes`.
    /// Kept in the plan's vault; their repository and index are only read.
    pub fn snapshot_changes(
        &self,
        room: &Room<'_>,
        tip: &ObjectId,
    ) -> Result<ObjectId, SandboxError> {
        let repository = self.repository(room.site)?;
        let Some(checkout) = repository.own_checkout() else {
            return Ok(tip.clone());
        };
        let vault = self.make_vault(room, &repository)?;
        let index = vault.path().join("index.with-changes");
        repository.copy_whole_index(&checkout, &index)?;
        let git = repository
            .git_on(&checkout, &index)
            .with("GIT_DIR", vault.path());
        git.run(&["add", "--all", "--", "."])
            .map_err(refused_names)?;
        let tree = git.object(&["write-tree"])?;
        let _ = std::fs::remove_file(&index);
        if tree == vault.tree_of(tip)? {
            return Ok(tip.clone());
        }
        let base = vault.commit(&tree, Some(tip), "Changes that were not committed")?;
        vault.keep("base", &base)?;
        Ok(base)
    }
}
