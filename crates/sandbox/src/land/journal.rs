//! The journal of a landing: which files are exchanged, written before the branch moves. It is in
//! the git directory of the checkout and is removed when the landing is complete.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use plan::changeset::TreePath;
use serde::{Deserialize, Serialize};

use crate::compare::{GITLINK_MODE, PathDifference, TreeEntry};
use crate::error::FileErrorContext;
use crate::file_modes::FileModes;
use crate::files::{self, FileStamp};
use crate::local_resource::SandboxKey;
use crate::repository::UserCheckout;
use crate::{ObjectId, SandboxError, git, refs};

use super::{CheckoutLanding, LandingProposal, index};

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LandingJournal {
    /// The ref that moves.
    pub target: String,
    /// The commit it moves to.
    pub new: ObjectId,
    /// The commit that the files are at.
    pub head: ObjectId,
    pub steps: Vec<FileExchange>,
}

/// One file to create, replace or remove.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FileExchange {
    pub path: TreePath,
    /// The current file; `None` if there is none.
    pub before: Option<FileStamp>,
    /// The staged file; `None` if the file is removed.
    pub after: Option<FileStamp>,
}

/// The directory with everything about one landing while it is in progress.
pub(super) fn landing_dir(key: &SandboxKey<'_>, git_dir: &Path) -> PathBuf {
    git_dir
        .join("planwright")
        .join(format!("{}+{}", key.plan_id, key.dir_name()))
}

impl LandingJournal {
    /// Stages the new files durably and records the stamps of the current ones.
    pub fn stage_files(
        key: &SandboxKey<'_>,
        landing: &CheckoutLanding<'_>,
        modes: &FileModes,
    ) -> Result<Self, SandboxError> {
        let (checkout, proposal) = (landing.checkout, landing.proposal);
        let landing_dir = landing_dir(key, &checkout.git_dir);
        files::remove_tree(&landing_dir)?;
        std::fs::create_dir_all(&landing_dir).while_being("created", &landing_dir)?;
        let staging = staging_dir(key, checkout)?;
        files::remove_tree(&staging)?;
        std::fs::create_dir_all(&staging).while_being("created", &staging)?;
        write_new_files(landing, &landing_dir, &staging)?;
        let mut steps = Vec::new();
        let mut staged = Vec::new();
        for difference in landing.touched {
            let file_path = files::join_tree_path(&checkout.work_tree, &difference.path);
            let staged_path = files::join_tree_path(&staging.join("new"), &difference.path);
            modes.apply_to_file(difference, &file_path, &staged_path)?;
            let after = FileStamp::read(&staged_path).while_being("inspected", &staged_path)?;
            let before = FileStamp::read(&file_path).while_being("inspected", &file_path)?;
            let nothing_to_write = difference.after.is_some() && after.is_none();
            let nothing_to_remove = difference.after.is_none() && before.is_none();
            if nothing_to_write
                || nothing_to_remove
                || is_populated_submodule(difference, &file_path)
            {
                continue;
            }
            if after.is_some() {
                staged.push(staged_path);
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

    /// Writes the journal durably.
    pub fn write(&self, key: &SandboxKey<'_>, checkout: &UserCheckout) -> Result<(), SandboxError> {
        let landing_dir = landing_dir(key, &checkout.git_dir);
        let text = serde_json::to_vec(self).expect("BUG: a journal always encodes");
        files::write_atomically(&landing_dir.join("journal.json"), &text)?;
        // The branch moves next. After a power loss the journal must still be found, so the
        // directories above it must be durable, too.
        files::sync_directory(&checkout.git_dir.join("planwright"))?;
        files::sync_directory(&checkout.git_dir)
    }

    /// Reads the journal that a killed process left.
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

    /// Removes all files of the landing from a checkout. Safe to repeat.
    pub fn remove_landing_files(
        key: &SandboxKey<'_>,
        checkout: &UserCheckout,
    ) -> Result<(), SandboxError> {
        let landing_dir = landing_dir(key, &checkout.git_dir);
        let staging = staging_dir(key, checkout)?;
        // The journal first: without it, the rest is known to be garbage.
        let journal = landing_dir.join("journal.json");
        match std::fs::remove_file(&journal) {
            Err(error) if !files::is_not_found(&error) => {
                return Err(error).while_being("removed", &journal);
            }
            Ok(()) | Err(_) => {}
        }
        files::remove_tree(&staging)?;
        files::remove_tree(&landing_dir)?;
        // Fails while other landings have files there.
        let _ = std::fs::remove_dir(checkout.git_dir.join("planwright"));
        Ok(())
    }

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

    pub fn is_about_proposal(&self, proposal: &LandingProposal) -> bool {
        self.target == proposal.target && self.new == proposal.new
    }

    /// A landing in the working tree alone does not change the index.
    pub fn keeps_index(&self) -> bool {
        self.target.starts_with(refs::REF_ROOT)
    }
}

/// Writes the new files into the staging directory, with the user's line endings, and the new index
/// into the landing directory.
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
    // It fails for files outside of a sparse checkout, which are only in the index.
    let paths = git::literal_pathspecs(written.iter().copied());
    let listing = git.clone().with_variable("GIT_LITERAL_PATHSPECS", "1");
    let listed = listing.run(&git::append_paths(&["ls-files", "-t", "-z", "--"], &paths))?;
    let skipped: BTreeSet<&[u8]> = git::split_nul_fields(&listed)
        .filter_map(|line| line.strip_prefix(b"S "))
        .collect();
    let is_visible = |path: &&TreePath| !skipped.contains(path.as_bytes());
    let written: Vec<&TreePath> = written.into_iter().filter(is_visible).collect();
    arguments.push("--force".as_ref());
    git.run_with_input(&arguments, &names(&written)).map(drop)
}

/// Is this a checked-out submodule whose commit id is all that changes? As with git,
/// its files are left to the user.
fn is_populated_submodule(difference: &PathDifference, path: &Path) -> bool {
    let is_link =
        |blob: &Option<TreeEntry>| blob.as_ref().is_some_and(|blob| blob.mode == GITLINK_MODE);
    let is_submodule = match &difference.after {
        Some(_) => is_link(&difference.after),
        None => is_link(&difference.before),
    };
    let has_files = || std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some());
    is_submodule && files::is_directory(path) && has_files()
}

/// The directory for staged files, on the file system of the files they replace.
pub(super) fn staging_dir(
    key: &SandboxKey<'_>,
    checkout: &UserCheckout,
) -> Result<PathBuf, SandboxError> {
    let device = |path: &Path| {
        std::fs::metadata(path)
            .map(|metadata| metadata.dev())
            .while_being("inspected", path)
    };
    if device(&checkout.git_dir)? == device(&checkout.work_tree)? {
        return Ok(landing_dir(key, &checkout.git_dir).join("files"));
    }
    let name = format!(".planwright-{}", key.plan_id);
    Ok(checkout.work_tree.join(name))
}
