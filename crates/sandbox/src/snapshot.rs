//! Takes snapshots of directories that are not repositories, and of a user's uncommitted changes.

use std::path::Path;

use plan::Digest;

use crate::capture::{explain_refused_name, name_irregular_file};
use crate::error::FileErrorContext;
use crate::local_resource::SandboxKey;
use crate::sandboxes::Sandboxes;
use crate::vault;
use crate::{ObjectId, Repository, SandboxError};

/// Opens the repository that the engine keeps for a directory. Nothing is written into the
/// directory.
pub(crate) fn open_directory_repository(
    sandboxes: &Sandboxes,
    directory: &Path,
) -> Result<Repository, SandboxError> {
    use std::os::unix::ffi::OsStrExt;
    std::fs::read_dir(directory).while_being("read", directory)?;
    let name = Digest::hash_bytes(directory.as_os_str().as_bytes()).to_string();
    let git_dir = sandboxes.home().join("directories").join(&name[..16]);
    sandboxes.home().make_home_directory(&git_dir)?;
    vault::create_bare_repository(&git_dir, "sha1")?;
    Ok(Repository::for_directory(
        sandboxes.git_env(),
        &git_dir,
        directory,
    ))
}

/// Commits the files of a directory. The same files give the same commit.
pub(crate) fn take_directory_snapshot(repository: &Repository) -> Result<ObjectId, SandboxError> {
    let checkout = repository
        .own_checkout()
        .expect("BUG: a directory is its own working tree");
    // Not git's default index, which is locked during a landing.
    let index = checkout.git_dir.join("snapshot.index");
    let git = repository
        .git_on_checkout(&checkout, &index)
        .refusing_names_like_git();
    git.run(&["add", "--all", "--", "."])
        .map_err(explain_refused_name)
        .map_err(|error| name_irregular_file(error, &checkout.work_tree))?;
    let tree = git.read_object_id(&["write-tree"])?;
    let git = vault::with_author(repository.git(), "Planwright", "planwright@localhost", 0);
    git.read_object_id(&["commit-tree", tree.as_str(), "-m", "Snapshot"])
}

impl Sandboxes {
    /// Commits the user's uncommitted changes on top of the tip: the base for `--with-changes`. The
    /// commit is in the plan's vault; the user's repository and index are only read.
    pub fn snapshot_uncommitted_changes(
        &self,
        key: &SandboxKey<'_>,
        tip: &ObjectId,
    ) -> Result<ObjectId, SandboxError> {
        let repository = self.open_repository(key.resource)?;
        let Some(checkout) = repository.own_checkout() else {
            return Ok(tip.clone());
        };
        let vault = self.vaults().create_vault(key, &repository)?;
        let index = vault.path().join("index.with-changes");
        repository.copy_whole_index(&checkout, &index)?;
        let git = repository
            .git_on_checkout(&checkout, &index)
            .refusing_names_like_git()
            .with_variable("GIT_DIR", vault.path());
        git.run(&["add", "--all", "--", "."])
            .map_err(explain_refused_name)
            .map_err(|error| name_irregular_file(error, &checkout.work_tree))?;
        let tree = git.read_object_id(&["write-tree"])?;
        let _ = std::fs::remove_file(&index);
        if tree == vault.read_tree_of(tip)? {
            return Ok(tip.clone());
        }
        let base = vault.create_commit(&tree, Some(tip), "Changes that were not committed")?;
        vault.keep_object("base", &base)?;
        Ok(base)
    }
}
