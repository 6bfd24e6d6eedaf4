//! The journal of a landing: which files are to be exchanged for which, written before the branch
//! moves. It stands in the checkout it is about, and goes when everything is done.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use plan::changeset::TreePath;
use serde::{Deserialize, Serialize};

use crate::compare::{Blob, Difference, GITLINK};
use crate::error::Doing;
use crate::files::{self, Stamp};
use crate::modes::Modes;
use crate::repository::Checkout;
use crate::room::Room;
use crate::{ObjectId, SandboxError, git, refs};

use super::{Journey, Proposal, index};

/// What is being done to a checkout.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Journal {
    /// The ref that moves.
    pub target: String,
    /// What it shall point to.
    pub new: ObjectId,
    /// The commit the files are at.
    pub head: ObjectId,
    /// File by file.
    pub steps: Vec<FileStep>,
}

/// One file to be written, made or removed.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FileStep {
    /// Where.
    pub path: TreePath,
    /// What is there, if anything.
    pub before: Option<Stamp>,
    /// What lies ready for it, if anything.
    pub after: Option<Stamp>,
}

/// Where everything about one landing is kept while it goes on.
pub(super) fn yard(room: &Room<'_>, git_dir: &Path) -> PathBuf {
    git_dir
        .join("planwright")
        .join(format!("{}+{}", room.plan, room.name()))
}

impl Journal {
    /// Lays the new files ready, durable, and notes what is there now.
    pub fn stage(
        room: &Room<'_>,
        journey: &Journey<'_>,
        modes: &Modes,
    ) -> Result<Self, SandboxError> {
        let (checkout, proposal) = (journey.checkout, journey.proposal);
        let yard = yard(room, &checkout.git_dir);
        files::remove_tree(&yard)?;
        std::fs::create_dir_all(&yard).doing("made", &yard)?;
        let staging = staging(room, checkout)?;
        files::remove_tree(&staging)?;
        std::fs::create_dir_all(&staging).doing("made", &staging)?;
        write_new(journey, &yard, &staging)?;
        let mut steps = Vec::new();
        let mut staged = Vec::new();
        for difference in journey.touched {
            let place = files::below(&checkout.work_tree, &difference.path);
            let ready = files::below(&staging.join("new"), &difference.path);
            modes.set_on(difference, &place, &ready)?;
            let after = Stamp::of(&ready).doing("looked at", &ready)?;
            let before = Stamp::of(&place).doing("looked at", &place)?;
            let nothing_to_write = difference.after.is_some() && after.is_none();
            let nothing_to_remove = difference.after.is_none() && before.is_none();
            if nothing_to_write || nothing_to_remove || is_a_repository(difference, &place) {
                continue;
            }
            if after.is_some() {
                staged.push(ready);
            }
            steps.push(FileStep {
                path: difference.path.clone(),
                before: before.filter(|_| difference.before.is_some()),
                after,
            });
        }
        files::sync_files(&staging, &staged)?;
        files::sync_directory(&staging)?;
        Ok(Self {
            target: proposal.target.clone(),
            new: proposal.new.clone(),
            head: journey.head.clone(),
            steps,
        })
    }

    /// Makes it durable.
    pub fn write(&self, room: &Room<'_>, checkout: &Checkout) -> Result<(), SandboxError> {
        let yard = yard(room, &checkout.git_dir);
        let text = serde_json::to_vec(self).expect("BUG: a journal always encodes");
        files::write_whole(&yard.join("journal.json"), &text)?;
        files::sync_directory(&checkout.git_dir.join("planwright"))?;
        files::sync_directory(&checkout.git_dir)
    }

    /// The journal a killed process left, if it is whole.
    pub fn read(room: &Room<'_>, checkout: &Checkout) -> Result<Option<Self>, SandboxError> {
        let path = yard(room, &checkout.git_dir).join("journal.json");
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if files::is_absent(&error) => return Ok(None),
            Err(error) => return Err(error).doing("read", &path),
        };
        match serde_json::from_slice(&text) {
            Ok(journal) => Ok(Some(journal)),
            Err(error) => Err(SandboxError::Damaged {
                path,
                why: error.to_string(),
            }),
        }
    }

    /// Removes everything about the landing from a checkout. Repeating it is fine.
    pub fn forget(room: &Room<'_>, checkout: &Checkout) -> Result<(), SandboxError> {
        let yard = yard(room, &checkout.git_dir);
        let staging = staging(room, checkout)?;
        // The journal first: without it, what is left is rubbish.
        let journal = yard.join("journal.json");
        match std::fs::remove_file(&journal) {
            Err(error) if !files::is_absent(&error) => {
                return Err(error).doing("removed", &journal);
            }
            Ok(()) | Err(_) => {}
        }
        files::remove_tree(&staging)?;
        files::remove_tree(&yard)?;
        // Others may be landing from there; it goes when it is empty.
        let _ = std::fs::remove_dir(checkout.git_dir.join("planwright"));
        Ok(())
    }

    /// The proposal it is about.
    pub fn proposal(&self) -> Proposal {
        let old = if self.keeps_index() {
            self.head.nothing_like()
        } else {
            self.head.clone()
        };
        Proposal {
            target: self.target.clone(),
            old,
            new: self.new.clone(),
            onto: self.head.clone(),
        }
    }

    /// Is it about this proposal?
    pub fn is_of(&self, proposal: &Proposal) -> bool {
        self.target == proposal.target && self.new == proposal.new
    }

    /// Files changed in the working tree alone leave the index as it is.
    pub fn keeps_index(&self) -> bool {
        self.target.starts_with(refs::ROOT)
    }
}

/// Writes the new files into the staging area, converted as the person has it, and the index that
/// will know them into the yard.
fn write_new(journey: &Journey<'_>, yard: &Path, staging: &Path) -> Result<(), SandboxError> {
    let (repository, checkout) = (journey.repository, journey.checkout);
    let (head, proposal) = (journey.head, journey.proposal);
    let index = if proposal.target.starts_with(refs::ROOT) {
        index::of_commit(repository, checkout, &proposal.new, yard)?
    } else {
        index::build(repository, checkout, head, &proposal.new, yard)?
    };
    let git = repository.git_on(checkout, &index);
    let mut prefix = std::ffi::OsString::from("--prefix=");
    prefix.push(staging.join("new/"));
    let arguments = ["checkout-index", "-q", "-z", "--stdin"].map(std::ffi::OsStr::new);
    let mut arguments = arguments.to_vec();
    arguments.push(&prefix);
    let written = journey.touched.iter().filter(|one| one.after.is_some());
    let written: Vec<&TreePath> = written.map(|one| &one.path).collect();
    let names = |paths: &[&TreePath]| {
        let each = paths.iter().map(|path| [path.as_bytes(), b"\0"].concat());
        each.collect::<Vec<_>>().concat()
    };
    if git.ask_with(&arguments, &names(&written))?.code == 0 {
        return Ok(());
    }
    // It fails over files that the index alone knows, outside of a sparse checkout.
    let paths = git::literal(written.iter().copied());
    let listing = git.clone().with("GIT_LITERAL_PATHSPECS", "1");
    let listed = listing.run(&git::with_paths(&["ls-files", "-t", "-z", "--"], &paths))?;
    let out_of_sight: BTreeSet<&[u8]> = git::fields(&listed)
        .filter_map(|line| line.strip_prefix(b"S "))
        .collect();
    let in_sight = |path: &&TreePath| !out_of_sight.contains(path.as_bytes());
    let written: Vec<&TreePath> = written.into_iter().filter(in_sight).collect();
    arguments.push("--force".as_ref());
    git.run_with(&arguments, &names(&written)).map(drop)
}

/// Is a repository of its own checked out there, that the change only names? As with git, its files
/// are the person's to bring or to remove.
fn is_a_repository(difference: &Difference, place: &Path) -> bool {
    let is_link = |blob: &Option<Blob>| blob.as_ref().is_some_and(|blob| blob.mode == GITLINK);
    let only_named = match &difference.after {
        Some(_) => is_link(&difference.after),
        None => is_link(&difference.before),
    };
    let filled = || std::fs::read_dir(place).is_ok_and(|mut entries| entries.next().is_some());
    only_named && files::is_directory(place) && filled()
}

/// Where the new files lie ready: on the file system of the files they are exchanged for.
pub(super) fn staging(room: &Room<'_>, checkout: &Checkout) -> Result<PathBuf, SandboxError> {
    let device = |path: &Path| {
        std::fs::metadata(path)
            .map(|metadata| metadata.dev())
            .doing("looked at", path)
    };
    if device(&checkout.git_dir)? == device(&checkout.work_tree)? {
        return Ok(yard(room, &checkout.git_dir).join("files"));
    }
    let name = format!(".planwright-{}", room.plan);
    Ok(checkout.work_tree.join(name))
}
