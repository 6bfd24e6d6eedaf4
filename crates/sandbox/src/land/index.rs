//! The index of a checkout: locked from before the branch moves until the files have followed.
//!
//! A person's git may be at work meanwhile. `git commit` reads first where the branch is, then the index, and
//! only then locks it; in the end it moves the branch only from where it saw it. So the new index is in place
//! *before* the branch moves: whoever saw the new branch saw the new index too, and whoever saw the old one
//! is refused by git itself. The other way round it would write the old index back over ours.

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

/// How long another git may take to finish.
const INDEX_LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// The index as it was, kept in the yard until the branch has moved.
const OLD_INDEX_FILE: &str = "index.before";

/// git's own lock on an index, held by us. It says so in itself, so that whoever finds it after a
/// crash knows whose it is.
pub(super) struct IndexLock {
    path: PathBuf,
}

impl IndexLock {
    /// Takes the lock; waits a little for another git to finish.
    pub fn acquire(git_dir: &Path, plan_id: PlanId, epoch: Epoch) -> Result<Self, SandboxError> {
        Self::acquire_with_text(git_dir, &format!("{}{epoch}\n", format_lock_mark(plan_id)))
    }

    /// Takes a lock again that somebody removed while it was ours.
    pub fn reacquire(git_dir: &Path, plan_id: PlanId) -> Result<Self, SandboxError> {
        Self::acquire_with_text(git_dir, &format!("{}again\n", format_lock_mark(plan_id)))
    }

    /// A lock that this plan left behind; any other is somebody else's.
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

    /// Makes the index built in a yard the index, and keeps the one it replaces.
    pub fn install_new_index(&self, landing_dir: &Path) -> Result<(), SandboxError> {
        let (index, before) = (self.index_path(), landing_dir.join(OLD_INDEX_FILE));
        match std::fs::hard_link(&index, &before) {
            Ok(()) => {}
            // There was none: an empty file stands for that.
            Err(error) if files::is_not_found(&error) => files::write_atomically(&before, b"")?,
            Err(error) => return Err(error).while_being("kept", &index),
        }
        self.replace_index(&built_index_path(landing_dir))
    }

    /// Puts back the index that was exchanged, if one was.
    pub fn restore_old_index(&self, landing_dir: &Path) -> Result<(), SandboxError> {
        let (index, before) = (self.index_path(), landing_dir.join(OLD_INDEX_FILE));
        let done = match std::fs::metadata(&before) {
            Ok(kept) if kept.len() == 0 => std::fs::remove_file(&index),
            Ok(_) => std::fs::rename(&before, &index),
            Err(error) => Err(error),
        };
        match done {
            Err(error) if !files::is_not_found(&error) => {
                Err(error).while_being("put back", &index)
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Makes a file the index. The lock stays.
    pub fn replace_index(&self, new: &Path) -> Result<(), SandboxError> {
        let index = self.index_path();
        std::fs::rename(new, &index).while_being("written", &index)
    }

    fn index_path(&self) -> PathBuf {
        self.path.with_file_name("index")
    }

    /// Gives the lock back.
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
        // Written aside and linked into place: the lock must never be seen without its mark.
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
                Err(error) => break Err(error).while_being("made", &path),
            }
        };
        let _ = std::fs::remove_file(&staged_lock);
        acquired
    }
}

/// Did a landing get as far as to exchange the index?
pub(super) fn was_index_replaced(landing_dir: &Path) -> bool {
    landing_dir.join(OLD_INDEX_FILE).exists()
}

/// What a lock of ours begins with.
pub(super) const LOCK_MARK_PREFIX: &str = "planwright lands ";

fn format_lock_mark(plan_id: PlanId) -> String {
    format!("{LOCK_MARK_PREFIX}{plan_id} in this checkout; epoch ")
}

/// The index after the change, in a file of its own: what the person staged elsewhere stays staged,
/// what is outside of a sparse checkout stays outside.
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
    let answered = git.try_run(&["read-tree", "-i", "-m", head.as_str(), new.as_str()])?;
    if answered.exit_code != 0 {
        advance_entries(
            &git,
            &repository.list_differences(head, new)?,
            &head.null_id(),
        )?;
    }
    mark_skip_worktree(repository, checkout, &git, head, new)?;
    Ok(index)
}

/// Brings an index forward that git will not merge as a whole: it has conflicts, or somebody went
/// on from the change already. Only entries that are as they were before the change follow it.
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
    let as_before = changes.iter().filter(|change| {
        let entry = entries.get(change.path.as_bytes()).copied();
        let before = change.before.as_ref();
        let before = before.map(|blob| format!("{} {} 0", blob.mode, blob.id).into_bytes());
        entry == before.as_deref()
    });
    let script = format_index_info(as_before, null_id);
    git.run_with_input(
        &["update-index", "--add", "--replace", "-z", "--index-info"],
        &script,
    )
    .map(drop)
}

/// Changes as `git update-index --index-info` reads them. What goes makes room for what comes.
pub(super) fn format_index_info<'a>(
    changes: impl Iterator<Item = &'a PathDifference>,
    null_id: &ObjectId,
) -> Vec<u8> {
    let mut script = Vec::new();
    let (gone, there): (Vec<_>, Vec<_>) = changes.partition(|change| change.after.is_none());
    for change in gone.into_iter().chain(there) {
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

/// An index of nothing but a commit, to write files from.
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

/// Where that file is.
pub(super) fn built_index_path(landing_dir: &Path) -> PathBuf {
    landing_dir.join("index")
}

/// The index of a checkout, in a file of its own, with how the files at these paths look now, so that the
/// person's next git need not read them; all files if none is named.
pub(super) fn build_refreshed_index(
    repository: &Repository,
    checkout: &UserCheckout,
    landing_dir: &Path,
    paths: &[&OsStr],
) -> Result<PathBuf, SandboxError> {
    let index = built_index_path(landing_dir);
    let _ = std::fs::remove_file(&index);
    // A second name is enough: git replaces an index whole.
    std::fs::hard_link(checkout.git_dir.join("index"), &index).while_being("made", &index)?;
    let git = repository.git_on_checkout(checkout, &index);
    if paths.is_empty() {
        git.try_run(&["update-index", "-q", "--refresh"])?;
    } else {
        let git = git.with_variable("GIT_LITERAL_PATHSPECS", "1");
        git.try_run(&git::append_paths(&["add", "--refresh", "--"], paths))?;
    }
    Ok(index)
}

/// In a sparse checkout, marks what the change brings outside of it.
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
    // The patterns say what is shown, in the words of an ignore file.
    let mut shown = std::ffi::OsString::from("--exclude-from=");
    shown.push(&patterns);
    let arguments = ["ls-files", "-z", "--cached", "--ignored"].map(std::ffi::OsStr::new);
    let visible = git.run(&[&arguments[..], &[shown.as_os_str()]].concat())?;
    let visible: BTreeSet<&[u8]> = git::split_nul_fields(&visible).collect();
    let brought = repository.list_differences(head, new)?;
    let brought = brought.iter().filter(|one| one.after.is_some());
    let mut hidden = Vec::new();
    for difference in brought {
        let path = difference.path.as_bytes();
        if !visible.contains(path) {
            hidden.extend(path);
            hidden.push(0);
        }
    }
    let hide = ["update-index", "--skip-worktree", "-z", "--stdin"];
    git.run_with_input(&hide, &hidden).map(drop)
}
