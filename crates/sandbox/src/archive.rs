//! Keeps ignored files that are part of no result when their sandbox goes, in a private directory below the home.
//!
//! ```text
//! rescued/<plan>/ignored/<room>/<epoch>/<path>
//! ```
//!
//! Not in refs of the user's repository: what git ignores may be secret, or large. Only so much is kept, small files and
//! directories first, so that what can be made again (`node_modules`, `target`) does not fill the disk.

use std::path::{Path, PathBuf};

use plan::changeset::TreePath;
use plan::{Epoch, PlanId};

use crate::SandboxError;
use crate::error::Doing;
use crate::files::{self, Copied, IfThere, Spot};
use crate::ignored::{IgnoredFiles, IgnoredPath, files_below};
use crate::room::{Room, Sandbox, Workshop};

/// How much is kept of one resource of a plan, and of all plans together.
const MAX_FILES: u64 = 2_000;
const MAX_BYTES: u64 = 32 << 20;
const MAX_BYTES_OF_ALL: u64 = 1 << 30;

/// How many files are looked at to tell how much is kept by now; more count as too much.
const MAX_COUNTED: usize = 200_000;

/// Ignored files that were kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchivedFiles {
    /// Where.
    pub path: PathBuf,
    /// How many.
    pub files: u64,
    /// How much is in them.
    pub bytes: u64,
    /// What was too much to be kept.
    pub not_kept: Vec<IgnoredPath>,
}

/// Something that is left out, and the files in it.
struct Candidate {
    path: IgnoredPath,
    files: Vec<TreePath>,
    bytes: u64,
}

impl Workshop {
    /// Keeps the ignored files that agents made in the sandboxes of a resource, as far as they fit. Repeating it
    /// keeps what is missing.
    pub fn archive_left_out(&self, room: &Room<'_>) -> Result<Option<ArchivedFiles>, SandboxError> {
        let mut archived = ArchivedFiles {
            path: self.archive_of(room.plan),
            files: 0,
            bytes: 0,
            not_kept: Vec::new(),
        };
        let mut most = None;
        for sandbox in self.all(room)?.iter().filter(|one| one.is_there()) {
            let left_out = self.left_out(room, sandbox)?;
            if left_out.is_empty() {
                continue;
            }
            let most = *most.get_or_insert_with(|| self.remaining_archive_bytes().min(MAX_BYTES));
            self.archive(room, sandbox, left_out, most, &mut archived)?;
        }
        let is_something = archived.files > 0 || !archived.not_kept.is_empty();
        Ok(is_something.then_some(archived))
    }

    fn archive(
        &self,
        room: &Room<'_>,
        sandbox: &Sandbox,
        left_out: Vec<IgnoredPath>,
        most: u64,
        archived: &mut ArchivedFiles,
    ) -> Result<(), SandboxError> {
        let mut candidates = Vec::new();
        for path in left_out {
            match candidate(sandbox, &path) {
                Some(candidate) => candidates.push(candidate),
                None => archived.not_kept.push(path),
            }
        }
        candidates.sort_by_key(|candidate| candidate.bytes);
        let place = self.archive_of_sandbox(room, sandbox.made_by);
        for candidate in candidates {
            let files = archived.files + candidate.files.len() as u64;
            if files > MAX_FILES || archived.bytes + candidate.bytes > most {
                archived.not_kept.push(candidate.path);
                continue;
            }
            self.make_directory(&place)?;
            let mut is_whole = true;
            for path in &candidate.files {
                // What was kept before may be older than what is there now.
                match copy(
                    &sandbox.path,
                    &place,
                    path,
                    candidate.bytes,
                    IfThere::Replace,
                ) {
                    Ok(Copied::Bytes(bytes)) => {
                        archived.files += 1;
                        archived.bytes += bytes;
                    }
                    Ok(Copied::Not) => {}
                    // Nobody can keep what nobody may read; the rest of the sandbox does not wait for it.
                    Err(error) if error.is_about_permission() => is_whole = false,
                    Err(error) => return Err(error),
                }
            }
            if !is_whole {
                archived.not_kept.push(candidate.path);
            }
        }
        Ok(())
    }

    /// Brings the ignored files that were kept of a sandbox back into it, as an agent's; what is there stays.
    pub(crate) fn unarchive(&self, room: &Room<'_>, sandbox: &Sandbox) -> Result<(), SandboxError> {
        let kept = self.archive_of(room.plan).join(room.name());
        let Some(newest) = files::names_in::<u64>(&kept)?.pop() else {
            return Ok(());
        };
        let root = self.archive_of_sandbox(room, Epoch(newest));
        for entry in top_of(&root) {
            for path in candidate_files(&root, &entry).unwrap_or_default() {
                copy(&root, &sandbox.path, &path, MAX_BYTES, IfThere::Keep)?;
            }
        }
        let restored = IgnoredFiles {
            left_out: self.left_out(room, sandbox)?,
            ..IgnoredFiles::default()
        };
        self.remember_left_out(sandbox, &restored)
    }

    /// Where the ignored files of a plan are kept, if there are any.
    pub fn archived(&self, plan: PlanId) -> Option<PathBuf> {
        Some(self.archive_of(plan)).filter(|path| path.is_dir())
    }

    /// The plans of which ignored files are kept.
    pub fn archives(&self) -> Result<Vec<PlanId>, SandboxError> {
        let plans: Vec<PlanId> = files::names_in(&self.home().join("rescued"))?;
        let kept = plans.into_iter();
        Ok(kept.filter(|plan| self.archived(*plan).is_some()).collect())
    }

    fn archive_of(&self, plan: PlanId) -> PathBuf {
        let rescued = self.home().join("rescued");
        rescued.join(plan.to_string()).join("ignored")
    }

    fn archive_of_sandbox(&self, room: &Room<'_>, made_by: Epoch) -> PathBuf {
        let of_plan = self.archive_of(room.plan).join(room.name());
        of_plan.join(made_by.to_string())
    }

    /// How many bytes may still be kept of all plans together.
    fn remaining_archive_bytes(&self) -> u64 {
        use std::os::unix::fs::MetadataExt;
        let plans = self.archives().unwrap_or_default().into_iter();
        let mut directories: Vec<PathBuf> = plans.map(|plan| self.archive_of(plan)).collect();
        let (mut bytes, mut counted) = (0_u64, 0);
        while let Some(directory) = directories.pop() {
            let entries = std::fs::read_dir(&directory);
            for entry in entries.into_iter().flatten().flatten() {
                counted += 1;
                match entry.metadata() {
                    Ok(metadata) if metadata.is_dir() => directories.push(entry.path()),
                    Ok(metadata) => bytes = bytes.saturating_add(metadata.blocks() * 512),
                    Err(_) => {}
                }
                if counted > MAX_COUNTED {
                    return 0;
                }
            }
        }
        MAX_BYTES_OF_ALL.saturating_sub(bytes)
    }
}

/// What there is to keep; nothing if it is too much by its number of files.
fn candidate(sandbox: &Sandbox, path: &IgnoredPath) -> Option<Candidate> {
    let files = candidate_files(&sandbox.path, path)?;
    let size = |path: &TreePath| {
        let metadata = std::fs::symlink_metadata(files::below(&sandbox.path, path));
        metadata.map_or(0, |metadata| metadata.len())
    };
    Some(Candidate {
        bytes: files.iter().map(size).sum(),
        path: path.clone(),
        files,
    })
}

fn candidate_files(root: &Path, path: &IgnoredPath) -> Option<Vec<TreePath>> {
    match path.is_directory {
        true => files_below(root, &path.path),
        false => Some(vec![path.path.clone()]),
    }
}

/// What is in a directory of ours.
fn top_of(root: &Path) -> Vec<IgnoredPath> {
    use std::os::unix::ffi::OsStrExt;
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    let named = entries.filter_map(|entry| {
        Some(IgnoredPath {
            path: TreePath::new(entry.file_name().as_bytes()).ok()?,
            is_directory: entry.file_type().ok()?.is_dir(),
        })
    });
    named.collect()
}

/// Copies a file or a link. What went meanwhile, or lies behind a link, is not copied.
fn copy(
    from: &Path,
    to: &Path,
    path: &TreePath,
    most: u64,
    if_there: IfThere,
) -> Result<Copied, SandboxError> {
    let (Ok(source), Ok(target)) = (Spot::find(from, path), Spot::make(to, path)) else {
        return Ok(Copied::Not);
    };
    let mut aside = to.as_os_str().to_owned();
    aside.push(".copying");
    let aside = PathBuf::from(aside);
    let copied = source.copy_to(&target, &aside, most, if_there);
    let _ = std::fs::remove_file(&aside);
    copied.doing("copied", &files::below(from, path))
}
