//! The journal of a landing: which files are to be exchanged for which, written before the branch
//! moves. It stands in the checkout it is about, and goes when everything is done.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use plan::changeset::TreePath;
use serde::{Deserialize, Serialize};

use crate::compare::{GITLINK_MODE, PathDifference, TreeEntry};
use crate::error::FileErrorContext;
use crate::file_modes::FileModes;
use crate::files::{self, FileStamp};
use crate::repository::UserCheckout;
use crate::sandboxes::SandboxKey;
use crate::{ObjectId, SandboxError, git, refs};

use super::{CheckoutLanding, LandingProposal, index};

/// What is being done to a checkout.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LandingJournal {
    /// The ref that moves.
    pub target: String,
    /// What it shall point to.
    pub new: ObjectId,
    /// The commit the files are at.
    pub head: ObjectId,
    /// File by file.
    pub steps: Vec<FileExchange>,
}

/// One file to be written, made or removed.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FileExchange {
    /// Where.
    pub path: TreePath,
    /// What is there, if anything.
    pub before: Option<FileStamp>,
    /// What lies ready for it, if anything.
    pub after: Option<FileStamp>,
}

/// Where everything about one landing is kept while it goes on.
pub(super) fn landing_dir(key: &SandboxKey<'_>, git_dir: &Path) -> PathBuf {
    git_dir
        .join("planwright")
        .join(format!("{}+{}", key.plan_id, key.dir_name()))
}

impl LandingJournal {
    /// Lays the new files ready, durable, and notes what is there now.
    pub fn stage_files(
        key: &SandboxKey<'_>,
        landing: &CheckoutLanding<'_>,
        modes: &FileModes,
    ) -> Result<Self, SandboxError> {
        let (checkout, proposal) = (landing.checkout, landing.proposal);
        let landing_dir = landing_dir(key, &checkout.git_dir);
        files::remove_tree(&landing_dir)?;
        std::fs::create_dir_all(&landing_dir).while_being("made", &landing_dir)?;
        let staging = staging_dir(key, checkout)?;
        files::remove_tree(&staging)?;
        std::fs::create_dir_all(&staging).while_being("made", &staging)?;
        write_new_files(landing, &landing_dir, &staging)?;
        let mut steps = Vec::new();
        let mut staged = Vec::new();
        for difference in landing.touched {
            let file_path = files::join_tree_path(&checkout.work_tree, &difference.path);
            let ready = files::join_tree_path(&staging.join("new"), &difference.path);
            modes.apply_to_file(difference, &file_path, &ready)?;
            let after = FileStamp::read(&ready).while_being("looked at", &ready)?;
            let before = FileStamp::read(&file_path).while_being("looked at", &file_path)?;
            let nothing_to_write = difference.after.is_some() && after.is_none();
            let nothing_to_remove = difference.after.is_none() && before.is_none();
            if nothing_to_write
                || nothing_to_remove
                || is_populated_submodule(difference, &file_path)
            {
                continue;
            }
            if after.is_some() {
                staged.push(ready);
            }
            steps.push(FileExchange {
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
            head: landing.head.clone(),
            steps,
        })
    }

    /// Makes it durable.
    pub fn write(&self, key: &SandboxKey<'_>, checkout: &UserCheckout) -> Result<(), SandboxError> {
        let landing_dir = landing_dir(key, &checkout.git_dir);
        let text = serde_json::to_vec(self).expect("BUG: a journal always encodes");
        files::write_atomically(&landing_dir.join("journal.json"), &text)?;
        files::sync_directory(&checkout.git_dir.join("planwright"))?;
        files::sync_directory(&checkout.git_dir)
    }

    /// The journal a killed process left, if it is whole.
    pub fn read(
        key: &SandboxKey<'_>,
        checkout: &UserCheckout,
    ) -> Result<Option<Self>, SandboxError> {
        let path = landing_dir(key, &checkout.git_dir).join("journal.json");
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if files::is_not_found(&error) => return Ok(None),
            Err(error) => return Err(error).while_being("read", &path),
        };
        match serde_json::from_slice(&text) {
            Ok(journal) => Ok(Some(journal)),
            Err(error) => Err(SandboxError::DamagedFile {
                path,
                why: error.to_string(),
            }),
        }
    }

    /// Removes everything about the landing from a checkout. Repeating it is fine.
    pub fn remove_landing_files(
        key: &SandboxKey<'_>,
        checkout: &UserCheckout,
    ) -> Result<(), SandboxError> {
        let landing_dir = landing_dir(key, &checkout.git_dir);
        let staging = staging_dir(key, checkout)?;
        // The journal first: without it, what is left is rubbish.
        let journal = landing_dir.join("journal.json");
        match std::fs::remove_file(&journal) {
            Err(error) if !files::is_not_found(&error) => {
                return Err(error).while_being("removed", &journal);
            }
            Ok(()) | Err(_) => {}
        }
        files::remove_tree(&staging)?;
        files::remove_tree(&landing_dir)?;
        // Others may be landing from there; it goes when it is empty.
        let _ = std::fs::remove_dir(checkout.git_dir.join("planwright"));
        Ok(())
    }

    /// The proposal it is about.
    pub fn to_proposal(&self) -> LandingProposal {
        let old = if self.keeps_index() {
            self.head.null_id()
        } else {
            self.head.clone()
        };
        LandingProposal {
            target: self.target.clone(),
            old,
            new: self.new.clone(),
            merged_with: self.head.clone(),
        }
    }

    /// Is it about this proposal?
    pub fn is_about_proposal(&self, proposal: &LandingProposal) -> bool {
        self.target == proposal.target && self.new == proposal.new
    }

    /// Files changed in the working tree alone leave the index as it is.
    pub fn keeps_index(&self) -> bool {
        self.target.starts_with(refs::REF_ROOT)
    }
}

/// Writes the new files into the staging area, converted as the person has it, and the index that
/// will know them into the yard.
fn write_new_files(
    landing: &CheckoutLanding<'_>,
    landing_dir: &Path,
    staging: &Path,
) -> Result<(), SandboxError> {
    let (repository, checkout) = (landing.repository, landing.checkout);
    let (head, proposal) = (landing.head, landing.proposal);
    let index = if proposal.target.starts_with(refs::REF_ROOT) {
        index::build_commit_index(repository, checkout, &proposal.new, landing_dir)?
    } else {
        index::build_index(repository, checkout, head, &proposal.new, landing_dir)?
    };
    let git = repository.git_on_checkout(checkout, &index);
    let mut prefix = std::ffi::OsString::from("--prefix=");
    prefix.push(staging.join("new/"));
    let arguments = ["checkout-index", "-q", "-z", "--stdin"].map(std::ffi::OsStr::new);
    let mut arguments = arguments.to_vec();
    arguments.push(&prefix);
    let written = landing.touched.iter().filter(|one| one.after.is_some());
    let written: Vec<&TreePath> = written.map(|one| &one.path).collect();
    let names = |paths: &[&TreePath]| {
        let each = paths.iter().map(|path| [path.as_bytes(), b"\0"].concat());
        each.collect::<Vec<_>>().concat()
    };
    if git
        .try_run_with_input(&arguments, &names(&written))?
        .exit_code
        == 0
    {
        return Ok(());
    }
    // It fails over files that the index alone knows, outside of a sparse checkout.
    let paths = git::literal_pathspecs(written.iter().copied());
    let listing = git.clone().with_variable("GIT_LITERAL_PATHSPECS", "1");
    let listed = listing.run(&git::append_paths(&["ls-files", "-t", "-z", "--"], &paths))?;
    let out_of_sight: BTreeSet<&[u8]> = git::split_nul_fields(&listed)
        .filter_map(|line| line.strip_prefix(b"S "))
        .collect();
    let in_sight = |path: &&TreePath| !out_of_sight.contains(path.as_bytes());
    let written: Vec<&TreePath> = written.into_iter().filter(in_sight).collect();
    arguments.push("--force".as_ref());
    git.run_with_input(&arguments, &names(&written)).map(drop)
}

/// Is a repository of its own checked out there, that the change only names? As with git, its files
/// are the person's to bring or to remove.
fn is_populated_submodule(difference: &PathDifference, place: &Path) -> bool {
    let is_link =
        |blob: &Option<TreeEntry>| blob.as_ref().is_some_and(|blob| blob.mode == GITLINK_MODE);
    let only_named = match &difference.after {
        Some(_) => is_link(&difference.after),
        None => is_link(&difference.before),
    };
    let filled = || std::fs::read_dir(place).is_ok_and(|mut entries| entries.next().is_some());
    only_named && files::is_directory(place) && filled()
}

/// Where the new files lie ready: on the file system of the files they are exchanged for.
pub(super) fn staging_dir(
    key: &SandboxKey<'_>,
    checkout: &UserCheckout,
) -> Result<PathBuf, SandboxError> {
    let device = |path: &Path| {
        std::fs::metadata(path)
            .map(|metadata| metadata.dev())
            .while_being("looked at", path)
    };
    if device(&checkout.git_dir)? == device(&checkout.work_tree)? {
        return Ok(landing_dir(key, &checkout.git_dir).join("files"));
    }
    let name = format!(".planwright-{}", key.plan_id);
    Ok(checkout.work_tree.join(name))
}
