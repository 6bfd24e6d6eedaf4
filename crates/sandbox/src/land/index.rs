//! The index of a checkout, locked from before the branch moves until the files are updated.
//!
//! The user's own git may run at the same time. `git commit` reads the branch first, then the
//! index, and only then locks the index; at the end it moves the branch only from the commit it
//! read. So the new index is installed *before* the branch moves. A git that read the new branch
//! also read the new index, and git itself refuses one that read the old branch. In the other
//! order, git would write the old index back over the new one.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plan::{Epoch, PlanId};

use crate::compare::PathDifference;
use crate::error::FileErrorContext;
use crate::git::{self, GitCommand};
use crate::repository::{Repository, UserCheckout, copy_index};
use crate::{ObjectId, SandboxError, files};

/// How long to wait for another git to finish.
const INDEX_LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// The replaced index, kept in the landing directory until the branch has moved.
const OLD_INDEX_FILE: &str = "index.before";

/// git's own lock file for an index, held by the engine. Its content identifies the plan, so that
/// it can be recognised after a crash.
pub(super) struct IndexLock {
    path: PathBuf,
}

impl IndexLock {
    /// Creates the lock file. Waits a few seconds for another git to finish.
    pub fn acquire(git_dir: &Path, plan_id: PlanId, epoch: Epoch) -> Result<Self, SandboxError> {
        Self::acquire_with_text(git_dir, &format!("{}{epoch}\n", format_lock_mark(plan_id)))
    }

    /// Creates the lock file again after the user removed it during a landing.
    pub fn reacquire(git_dir: &Path, plan_id: PlanId) -> Result<Self, SandboxError> {
        Self::acquire_with_text(git_dir, &format!("{}again\n", format_lock_mark(plan_id)))
    }

    /// A lock file that this plan left behind; `None` if it belongs to another process.
    pub fn find_own(git_dir: &Path, plan_id: PlanId) -> Result<Option<Self>, SandboxError> {
        let path = git_dir.join("index.lock");
        match std::fs::read(&path) {
            Ok(content) => Ok(content
                .starts_with(format_lock_mark(plan_id).as_bytes())
                .then_some(Self { path })),
            Err(error) if files::is_not_found(&error) => Ok(None),
            Err(error) => Err(error).while_being("read", &path),
        }
    }

    /// Installs the index that was built in the landing directory, and keeps the replaced one.
    pub fn install_new_index(&self, landing_dir: &Path) -> Result<(), SandboxError> {
        let (index, before) = (self.index_path(), landing_dir.join(OLD_INDEX_FILE));
        match std::fs::hard_link(&index, &before) {
            Ok(()) => {}
            // There was no index; an empty file records that.
            Err(error) if files::is_not_found(&error) => files::write_atomically(&before, b"")?,
            Err(error) => return Err(error).while_being("kept", &index),
        }
        self.replace_index(&built_index_path(landing_dir))
    }

    /// Restores the replaced index, if one was replaced.
    pub fn restore_old_index(&self, landing_dir: &Path) -> Result<(), SandboxError> {
        let (index, before) = (self.index_path(), landing_dir.join(OLD_INDEX_FILE));
        let restored = match std::fs::metadata(&before) {
            Ok(metadata) if metadata.len() == 0 => std::fs::remove_file(&index),
            Ok(_) => std::fs::rename(&before, &index),
            Err(error) => Err(error),
        };
        match restored {
            Err(error) if !files::is_not_found(&error) => {
                Err(error).while_being("put back", &index)
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Renames a file to the index. The lock stays.
    pub fn replace_index(&self, new: &Path) -> Result<(), SandboxError> {
        let index = self.index_path();
        std::fs::rename(new, &index).while_being("written", &index)
    }

    fn index_path(&self) -> PathBuf {
        self.path.with_file_name("index")
    }

    /// Removes the lock file.
    pub fn release(self) -> Result<(), SandboxError> {
        match std::fs::remove_file(&self.path) {
            Err(error) if !files::is_not_found(&error) => {
                Err(error).while_being("removed", &self.path)
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn acquire_with_text(git_dir: &Path, text: &str) -> Result<Self, SandboxError> {
        let path = git_dir.join("index.lock");
        // Written to another file and linked into place: the lock must never be visible without its
        // content.
        let staged_lock = git_dir.join(format!("index.lock.planwright-{}", std::process::id()));
        let written = std::fs::File::create(&staged_lock).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        written.while_being("written", &staged_lock)?;
        let deadline = Instant::now() + INDEX_LOCK_TIMEOUT;
        let acquired = loop {
            match std::fs::hard_link(&staged_lock, &path) {
                Ok(()) => break Ok(Self { path }),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                    if Instant::now() >= deadline {
                        break Err(SandboxError::LockedByGit { lock: path });
                    }
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(error) => break Err(error).while_being("created", &path),
            }
        };
        let _ = std::fs::remove_file(&staged_lock);
        acquired
    }
}

pub(super) fn was_index_replaced(landing_dir: &Path) -> bool {
    landing_dir.join(OLD_INDEX_FILE).exists()
}

/// The first words of the engine's lock files.
pub(super) const LOCK_MARK_PREFIX: &str = "planwright lands ";

fn format_lock_mark(plan_id: PlanId) -> String {
    format!("{LOCK_MARK_PREFIX}{plan_id} in this checkout; epoch ")
}

/// Builds the index after the landing, in a separate file. Keeps what the user staged in other
/// paths, and what is outside of a sparse checkout.
pub(super) fn build_index(
    repository: &Repository,
    checkout: &UserCheckout,
    head: &ObjectId,
    new: &ObjectId,
    landing_dir: &Path,
) -> Result<PathBuf, SandboxError> {
    let index = built_index_path(landing_dir);
    let _ = std::fs::remove_file(landing_dir.join("index.lock"));
    copy_index(&checkout.git_dir.join("index"), &index)?;
    let git = repository.git_on_checkout(checkout, &index);
    let output = git.try_run(&["read-tree", "-i", "-m", head.as_str(), new.as_str()])?;
    if output.exit_code != 0 {
        advance_entries(
            &git,
            &repository.list_differences(head, new)?,
            &head.null_id(),
        )?;
    }
    mark_skip_worktree(repository, checkout, &git, head, new)?;
    Ok(index)
}

/// Updates an index that git cannot merge as a whole, because it has conflicts or later changes.
/// Only entries that are as before the landing are updated.
fn advance_entries(
    git: &GitCommand,
    changes: &[PathDifference],
    null_id: &ObjectId,
) -> Result<(), SandboxError> {
    let listed = git.run(&["ls-files", "--stage", "-z"])?;
    let mut entries: BTreeMap<&[u8], &[u8]> = BTreeMap::new();
    for line in git::split_nul_fields(&listed) {
        let mut parts = line.splitn(2, |byte| *byte == b'\t');
        if let (Some(entry), Some(path)) = (parts.next(), parts.next()) {
            entries.insert(path, entry);
        }
    }
    let unchanged = changes.iter().filter(|change| {
        let entry = entries.get(change.path.as_bytes()).copied();
        let before = change.before.as_ref();
        let before = before.map(|blob| format!("{} {} 0", blob.mode, blob.id).into_bytes());
        entry == before.as_deref()
    });
    let script = format_index_info(unchanged, null_id);
    git.run_with_input(
        &["update-index", "--add", "--replace", "-z", "--index-info"],
        &script,
    )
    .map(drop)
}

/// Formats changes for `git update-index --index-info`. Removals come first, because a file may
/// make room for a directory.
pub(super) fn format_index_info<'a>(
    changes: impl Iterator<Item = &'a PathDifference>,
    null_id: &ObjectId,
) -> Vec<u8> {
    let mut script = Vec::new();
    let (removed, written): (Vec<_>, Vec<_>) = changes.partition(|change| change.after.is_none());
    for change in removed.into_iter().chain(written) {
        let line = match &change.after {
            Some(after) => format!("{} {}\t", after.mode, after.id),
            None => format!("0 {null_id}\t"),
        };
        script.extend(line.bytes());
        script.extend(change.path.as_bytes());
        script.push(0);
    }
    script
}

/// Builds an index of a commit alone, to write files from.
pub(super) fn build_commit_index(
    repository: &Repository,
    checkout: &UserCheckout,
    new: &ObjectId,
    landing_dir: &Path,
) -> Result<PathBuf, SandboxError> {
    let index = landing_dir.join("index");
    let _ = std::fs::remove_file(&index);
    let git = repository.git_on_checkout(checkout, &index);
    git.run(&["read-tree", new.as_str()])?;
    Ok(index)
}

pub(super) fn built_index_path(landing_dir: &Path) -> PathBuf {
    landing_dir.join("index")
}

/// Builds a copy of a checkout's index with fresh stat data for these paths, so that the user's
/// next git command need not read the files. All paths if none is given.
pub(super) fn build_refreshed_index(
    repository: &Repository,
    checkout: &UserCheckout,
    landing_dir: &Path,
    paths: &[&OsStr],
) -> Result<PathBuf, SandboxError> {
    let index = built_index_path(landing_dir);
    let _ = std::fs::remove_file(&index);
    // A hard link is enough: git replaces an index as a whole.
    std::fs::hard_link(checkout.git_dir.join("index"), &index).while_being("created", &index)?;
    let git = repository.git_on_checkout(checkout, &index);
    if paths.is_empty() {
        git.try_run(&["update-index", "-q", "--refresh"])?;
    } else {
        let git = git.with_variable("GIT_LITERAL_PATHSPECS", "1");
        git.try_run(&git::append_paths(&["add", "--refresh", "--"], paths))?;
    }
    Ok(index)
}

/// In a sparse checkout, marks new paths outside of it as skip-worktree.
fn mark_skip_worktree(
    repository: &Repository,
    checkout: &UserCheckout,
    git: &GitCommand,
    head: &ObjectId,
    new: &ObjectId,
) -> Result<(), SandboxError> {
    if !checkout.git_dir.join("info/sparse-checkout").exists() {
        return Ok(());
    }
    let sparse = ["config", "--type=bool", "--get", "core.sparseCheckout"];
    if git.try_run(&sparse)?.stdout != b"true\n" {
        return Ok(());
    }
    let patterns = checkout.git_dir.join("info/sparse-checkout");
    if !patterns.is_file() {
        return Ok(());
    }
    // The sparse-checkout patterns have ignore-file syntax, so `--ignored` lists the visible files.
    let mut shown = std::ffi::OsString::from("--exclude-from=");
    shown.push(&patterns);
    let arguments = ["ls-files", "-z", "--cached", "--ignored"].map(std::ffi::OsStr::new);
    let visible = git.run(&[&arguments[..], &[shown.as_os_str()]].concat())?;
    let visible: BTreeSet<&[u8]> = git::split_nul_fields(&visible).collect();
    let added = repository.list_differences(head, new)?;
    let added = added.iter().filter(|one| one.after.is_some());
    let mut hidden = Vec::new();
    for difference in added {
        let path = difference.path.as_bytes();
        if !visible.contains(path) {
            hidden.extend(path);
            hidden.push(0);
        }
    }
    let hide = ["update-index", "--skip-worktree", "-z", "--stdin"];
    git.run_with_input(&hide, &hidden).map(drop)
}
