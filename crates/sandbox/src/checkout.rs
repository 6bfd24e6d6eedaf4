//! Checks out, restores and cleans the files of a sandbox, and creates the agent's repository in
//! it.

use std::path::{Path, PathBuf};

use plan::changeset::TreePath;

use crate::error::FileErrorContext;
use crate::files;
use crate::sandboxes::Sandbox;
use crate::vault::{self, Vault};
use crate::{ObjectId, Repository, SandboxError};

/// Resets the tracked files of a sandbox to a tree.
pub(crate) fn check_out_tree(
    vault: &Vault,
    sandbox: &Sandbox,
    tree: &ObjectId,
) -> Result<(), SandboxError> {
    let git = git_on_sandbox(vault, sandbox);
    let _ = std::fs::remove_file(sandbox.index_path.with_extension("index.lock"));
    let arguments = [
        "-c",
        "core.fsync=none",
        "read-tree",
        "--reset",
        "-u",
        tree.as_str(),
    ];
    git.run(&arguments).map(drop)
}

/// Rebuilds the engine's index of a sandbox from its base. Does not touch files.
pub(crate) fn rebuild_index(vault: &Vault, sandbox: &Sandbox) -> Result<(), SandboxError> {
    let git = git_on_sandbox(vault, sandbox);
    git.run(&["read-tree", sandbox.base.as_str()]).map(drop)
}

/// Removes untracked files. Keeps ignored files, because the output of the set-up command stays
/// useful.
pub(crate) fn remove_untracked_files(vault: &Vault, sandbox: &Sandbox) -> Result<(), SandboxError> {
    let git = git_on_sandbox(vault, sandbox);
    git.run(&["clean", "-ffdq", "--exclude=/.git"]).map(drop)
}

/// Sets paths to their content in a commit or tree.
pub(crate) fn restore_paths(
    vault: &Vault,
    sandbox: &Sandbox,
    source: &ObjectId,
    paths: &[TreePath],
) -> Result<(), SandboxError> {
    let git = git_on_sandbox(vault, sandbox).with_variable("GIT_LITERAL_PATHSPECS", "1");
    for path in paths {
        let file_path = files::join_tree_path(&sandbox.path, path);
        let name = [source.as_str().as_bytes(), b":", path.as_bytes()].concat();
        let object = std::ffi::OsString::from(as_os_str(&name));
        let is_in_source = git
            .try_run(&[as_os_str(b"cat-file"), as_os_str(b"-e"), object.as_os_str()])?
            .exit_code
            == 0;
        if is_in_source {
            let source = std::ffi::OsStr::new(source.as_str());
            let arguments = [
                as_os_str(b"checkout"),
                source,
                as_os_str(b"--"),
                as_os_str(path.as_bytes()),
            ];
            git.run(&arguments)?;
        } else if let Ok(handle) = files::PathHandle::open(&sandbox.path, path) {
            drop(handle);
            match std::fs::symlink_metadata(&file_path) {
                Ok(metadata) if metadata.is_dir() => files::remove_tree(&file_path)?,
                Ok(_) => std::fs::remove_file(&file_path).while_being("removed", &file_path)?,
                Err(_) => {}
            }
            files::remove_empty_parents(&sandbox.path, path);
        }
    }
    Ok(())
}

/// Creates the agent's repository, in which it may commit, stash and rebase as it likes. The
/// repository borrows all objects and has no remote and no hooks. Only the agent uses it.
pub(crate) fn create_agent_repository(
    vault: &Vault,
    repository: &Repository,
    sandbox: &Sandbox,
    branch: &str,
) -> Result<(), SandboxError> {
    let git_dir = sandbox.path.join(".git");
    create_agent_repository_at(vault, repository, sandbox, branch, &git_dir, &[])
}

/// Like [`create_agent_repository`], at another path and borrowing from more object directories.
pub(crate) fn create_agent_repository_at(
    vault: &Vault,
    repository: &Repository,
    sandbox: &Sandbox,
    branch: &str,
    git_dir: &Path,
    lenders: &[PathBuf],
) -> Result<(), SandboxError> {
    let config = "[core]\n\trepositoryformatversion = 1\n\tbare = false\n\tfilemode = true\n\
                  \tlogallrefupdates = true\n\thooksPath = /dev/null\n\
                  [commit]\n\tgpgSign = false\n[tag]\n\tgpgSign = false\n\
                  [user]\n\tname = Planwright agent\n\temail = agent@planwright.invalid\n\
                  [gc]\n\tauto = 0\n";
    vault::write_repository_files(git_dir, repository.object_format(), config, branch)?;
    // If the user's repository moves, its objects are still found through the vault.
    let mut objects = vec![repository.common_dir().join("objects"), vault.objects_dir()];
    objects.extend_from_slice(lenders);
    vault::write_alternates(git_dir, &objects)?;
    vault::mirror_file(vault.path(), git_dir, "shallow")?;
    vault::mirror_file(vault.path(), git_dir, "info/exclude")?;
    let name = git_dir.join(branch);
    let parent = name.parent().unwrap_or(git_dir);
    std::fs::create_dir_all(parent).while_being("created", parent)?;
    std::fs::write(&name, format!("{}\n", sandbox.base)).while_being("written", &name)?;
    let index = git_dir.join("index");
    crate::repository::copy_index(&sandbox.index_path, &index)
}

fn git_on_sandbox(vault: &Vault, sandbox: &Sandbox) -> crate::git::GitCommand {
    vault
        .git()
        .with_work_tree(&sandbox.path)
        .with_index(&sandbox.index_path)
        .reading_pipes_as_empty()
}

fn as_os_str(bytes: &[u8]) -> &std::ffi::OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(bytes)
}
