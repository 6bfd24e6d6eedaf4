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

use crate::compare::Difference;
use crate::error::Doing;
use crate::git::{self, Git};
use crate::repository::{Checkout, Repository, copy_index};
use crate::{ObjectId, SandboxError, files};

/// How long another git may take to finish.
const PATIENCE: Duration = Duration::from_secs(5);

/// The index as it was, kept in the yard until the branch has moved.
const BEFORE: &str = "index.before";

/// git's own lock on an index, held by us. It says so in itself, so that whoever finds it after a
/// crash knows whose it is.
pub(super) struct IndexLock {
    path: PathBuf,
}

impl IndexLock {
    /// Takes the lock; waits a little for another git to finish.
    pub fn take(git_dir: &Path, plan: PlanId, epoch: Epoch) -> Result<Self, SandboxError> {
        Self::take_as(git_dir, &format!("{}{epoch}\n", mark(plan)))
    }

    /// Takes a lock again that somebody removed while it was ours.
    pub fn take_again(git_dir: &Path, plan: PlanId) -> Result<Self, SandboxError> {
        Self::take_as(git_dir, &format!("{}again\n", mark(plan)))
    }

    /// A lock that this plan left behind; any other is somebody else's.
    pub fn find(git_dir: &Path, plan: PlanId) -> Result<Option<Self>, SandboxError> {
        let path = git_dir.join("index.lock");
        match std::fs::read(&path) {
            Ok(content) => Ok(content
                .starts_with(mark(plan).as_bytes())
                .then_some(Self { path })),
            Err(error) if files::is_absent(&error) => Ok(None),
            Err(error) => Err(error).doing("read", &path),
        }
    }

    /// Makes the index built in a yard the index, and keeps the one it replaces.
    pub fn exchange(&self, yard: &Path) -> Result<(), SandboxError> {
        let (index, before) = (self.index(), yard.join(BEFORE));
        match std::fs::hard_link(&index, &before) {
            Ok(()) => {}
            // There was none: an empty file stands for that.
            Err(error) if files::is_absent(&error) => files::write_whole(&before, b"")?,
            Err(error) => return Err(error).doing("kept", &index),
        }
        self.place(&built(yard))
    }

    /// Puts back the index that was exchanged, if one was.
    pub fn put_back(&self, yard: &Path) -> Result<(), SandboxError> {
        let (index, before) = (self.index(), yard.join(BEFORE));
        let done = match std::fs::metadata(&before) {
            Ok(kept) if kept.len() == 0 => std::fs::remove_file(&index),
            Ok(_) => std::fs::rename(&before, &index),
            Err(error) => Err(error),
        };
        match done {
            Err(error) if !files::is_absent(&error) => Err(error).doing("put back", &index),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Makes a file the index. The lock stays.
    pub fn place(&self, new: &Path) -> Result<(), SandboxError> {
        let index = self.index();
        std::fs::rename(new, &index).doing("written", &index)
    }

    fn index(&self) -> PathBuf {
        self.path.with_file_name("index")
    }

    /// Gives the lock back.
    pub fn remove(self) -> Result<(), SandboxError> {
        match std::fs::remove_file(&self.path) {
            Err(error) if !files::is_absent(&error) => Err(error).doing("removed", &self.path),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn take_as(git_dir: &Path, text: &str) -> Result<Self, SandboxError> {
        let path = git_dir.join("index.lock");
        // Written aside and linked into place: the lock must never be seen without its mark.
        let aside = git_dir.join(format!("index.lock.planwright-{}", std::process::id()));
        let written = std::fs::File::create(&aside).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        written.doing("written", &aside)?;
        let until = Instant::now() + PATIENCE;
        let taken = loop {
            match std::fs::hard_link(&aside, &path) {
                Ok(()) => break Ok(Self { path }),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                    if Instant::now() >= until {
                        break Err(SandboxError::Locked { lock: path });
                    }
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(error) => break Err(error).doing("made", &path),
            }
        };
        let _ = std::fs::remove_file(&aside);
        taken
    }
}

/// Did a landing get as far as to exchange the index?
pub(super) fn was_exchanged(yard: &Path) -> bool {
    yard.join(BEFORE).exists()
}

/// What a lock of ours begins with.
pub(super) const MARK: &str = "planwright lands ";

fn mark(plan: PlanId) -> String {
    format!("{MARK}{plan} in this checkout; epoch ")
}

/// The index after the change, in a file of its own: what the person staged elsewhere stays staged,
/// what is outside of a sparse checkout stays outside.
pub(super) fn build(
    repository: &Repository,
    checkout: &Checkout,
    head: &ObjectId,
    new: &ObjectId,
    yard: &Path,
) -> Result<PathBuf, SandboxError> {
    let index = built(yard);
    let _ = std::fs::remove_file(yard.join("index.lock"));
    copy_index(&checkout.git_dir.join("index"), &index)?;
    let git = repository.git_on(checkout, &index);
    let answered = git.ask(&["read-tree", "-i", "-m", head.as_str(), new.as_str()])?;
    if answered.code != 0 {
        advance(
            &git,
            &repository.differences(head, new)?,
            &head.nothing_like(),
        )?;
    }
    hide_what_is_out_of_sight(repository, checkout, &git, head, new)?;
    Ok(index)
}

/// Brings an index forward that git will not merge as a whole: it has conflicts, or somebody went
/// on from the change already. Only entries that are as they were before the change follow it.
fn advance(git: &Git, changes: &[Difference], nothing: &ObjectId) -> Result<(), SandboxError> {
    let listed = git.run(&["ls-files", "--stage", "-z"])?;
    let mut entries: BTreeMap<&[u8], &[u8]> = BTreeMap::new();
    for line in git::fields(&listed) {
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
    let script = instructions(as_before, nothing);
    git.run_with(
        &["update-index", "--add", "--replace", "-z", "--index-info"],
        &script,
    )
    .map(drop)
}

/// Changes as `git update-index --index-info` reads them. What goes makes room for what comes.
pub(super) fn instructions<'a>(
    changes: impl Iterator<Item = &'a Difference>,
    nothing: &ObjectId,
) -> Vec<u8> {
    let mut script = Vec::new();
    let (gone, there): (Vec<_>, Vec<_>) = changes.partition(|change| change.after.is_none());
    for change in gone.into_iter().chain(there) {
        let line = match &change.after {
            Some(after) => format!("{} {}\t", after.mode, after.id),
            None => format!("0 {nothing}\t"),
        };
        script.extend(line.bytes());
        script.extend(change.path.as_bytes());
        script.push(0);
    }
    script
}

/// An index of nothing but a commit, to write files from.
pub(super) fn of_commit(
    repository: &Repository,
    checkout: &Checkout,
    new: &ObjectId,
    yard: &Path,
) -> Result<PathBuf, SandboxError> {
    let index = yard.join("index");
    let _ = std::fs::remove_file(&index);
    let git = repository.git_on(checkout, &index);
    git.run(&["read-tree", new.as_str()])?;
    Ok(index)
}

/// Where that file is.
pub(super) fn built(yard: &Path) -> PathBuf {
    yard.join("index")
}

/// The index of a checkout, in a file of its own, with how the files at these paths look now, so that the
/// person's next git need not read them; all files if none is named.
pub(super) fn refreshed(
    repository: &Repository,
    checkout: &Checkout,
    yard: &Path,
    paths: &[&OsStr],
) -> Result<PathBuf, SandboxError> {
    let index = built(yard);
    let _ = std::fs::remove_file(&index);
    // A second name is enough: git replaces an index whole.
    std::fs::hard_link(checkout.git_dir.join("index"), &index).doing("made", &index)?;
    let git = repository.git_on(checkout, &index);
    if paths.is_empty() {
        git.ask(&["update-index", "-q", "--refresh"])?;
    } else {
        let git = git.with("GIT_LITERAL_PATHSPECS", "1");
        git.ask(&git::with_paths(&["add", "--refresh", "--"], paths))?;
    }
    Ok(index)
}

/// In a sparse checkout, marks what the change brings outside of it.
fn hide_what_is_out_of_sight(
    repository: &Repository,
    checkout: &Checkout,
    git: &Git,
    head: &ObjectId,
    new: &ObjectId,
) -> Result<(), SandboxError> {
    if !checkout.git_dir.join("info/sparse-checkout").exists() {
        return Ok(());
    }
    let sparse = ["config", "--type=bool", "--get", "core.sparseCheckout"];
    if git.ask(&sparse)?.stdout != b"true\n" {
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
    let in_sight = git.run(&[&arguments[..], &[shown.as_os_str()]].concat())?;
    let in_sight: BTreeSet<&[u8]> = git::fields(&in_sight).collect();
    let brought = repository.differences(head, new)?;
    let brought = brought.iter().filter(|one| one.after.is_some());
    let mut hidden = Vec::new();
    for difference in brought {
        let path = difference.path.as_bytes();
        if !in_sight.contains(path) {
            hidden.extend(path);
            hidden.push(0);
        }
    }
    let hide = ["update-index", "--skip-worktree", "-z", "--stdin"];
    git.run_with(&hide, &hidden).map(drop)
}
