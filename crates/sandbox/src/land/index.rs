//! The index of a checkout: locked while files are exchanged, replaced whole afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plan::{Epoch, PlanId};

use crate::compare::Difference;
use crate::error::Doing;
use crate::files::Stamp;
use crate::git::{self, Git};
use crate::repository::{Checkout, Repository, copy_index};
use crate::{ObjectId, SandboxError, files};

/// How long another git may take to finish.
const PATIENCE: Duration = Duration::from_secs(5);

/// Stands in the yard while the lock holds a new index instead of its mark.
const FILLING: &str = "filling";

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

    /// A lock that this plan left behind. Once it holds the new index it no longer says so itself;
    /// then a mark in the yard says which file it is. Any other is somebody else's.
    pub fn find(git_dir: &Path, plan: PlanId, yard: &Path) -> Result<Option<Self>, SandboxError> {
        let path = git_dir.join("index.lock");
        match std::fs::read(&path) {
            Ok(content) => {
                let ours = content.starts_with(mark(plan).as_bytes());
                let filling = std::fs::read(yard.join(FILLING)).ok();
                let filling = filling.and_then(|text| serde_json::from_slice::<Stamp>(&text).ok());
                let now = Stamp::of(&path).doing("looked at", &path)?;
                let filled = filling.is_some() && filling == now;
                Ok((ours || filled).then_some(Self { path }))
            }
            Err(error) if files::is_absent(&error) => Ok(None),
            Err(error) => Err(error).doing("read", &path),
        }
    }

    /// Puts the new index into the lock.
    pub fn fill(&self, new: &Path) -> Result<(), SandboxError> {
        let filling = new.with_file_name(FILLING);
        let stamp = Stamp::of(new).doing("looked at", new)?;
        let text = serde_json::to_vec(&stamp).expect("BUG: a stamp always encodes");
        files::write_whole(&filling, &text)?;
        std::fs::rename(new, &self.path).doing("written", &self.path)
    }

    /// Makes what is in the lock the index.
    pub fn place(self) -> Result<(), SandboxError> {
        let index = self.path.with_file_name("index");
        std::fs::rename(&self.path, &index).doing("written", &index)?;
        files::sync_directory(self.path.parent().unwrap_or(&index))
    }

    /// Gives the lock back, the index being as it was.
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

/// Notes in an index how the files at these paths look, so that the person's next git need not read
/// them; all of them if none is named.
pub(super) fn refresh(
    repository: &Repository,
    checkout: &Checkout,
    index: &Path,
    paths: &[&OsStr],
) -> Result<(), SandboxError> {
    let git = repository.git_on(checkout, index);
    if paths.is_empty() {
        git.ask(&["update-index", "-q", "--refresh"])?;
    } else {
        let git = git.with("GIT_LITERAL_PATHSPECS", "1");
        git.ask(&git::with_paths(&["add", "--refresh", "--"], paths))?;
    }
    Ok(())
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
