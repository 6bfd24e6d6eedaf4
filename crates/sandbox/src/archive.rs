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
use crate::error::FileErrorContext;
use crate::files::{self, CopyOutcome, ExistingFilePolicy, PathHandle};
use crate::ignored::{IgnoredFiles, IgnoredPath, files_below};
use crate::sandboxes::{Sandbox, SandboxKey, Sandboxes};

/// How much is kept of one resource of a plan, and of all plans together.
const MAX_ARCHIVED_FILES: u64 = 2_000;
const MAX_ARCHIVED_BYTES: u64 = 32 << 20;
const MAX_ARCHIVED_BYTES_TOTAL: u64 = 1 << 30;

/// How many files are looked at to tell how much is kept by now; more count as too much.
const MAX_COUNTED_FILES: usize = 200_000;

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
    pub omitted: Vec<IgnoredPath>,
}

/// Something that is left out, and the files in it.
struct ArchiveCandidate {
    path: IgnoredPath,
    files: Vec<TreePath>,
    bytes: u64,
}

impl Sandboxes {
    /// Keeps the ignored files that agents made in the sandboxes of a resource, as far as they fit. Repeating it
    /// keeps what is missing.
    pub fn archive_left_out_files(
        &self,
        key: &SandboxKey<'_>,
    ) -> Result<Option<ArchivedFiles>, SandboxError> {
        let mut archived = ArchivedFiles {
            path: self.archive_dir(key.plan_id),
            files: 0,
            bytes: 0,
            omitted: Vec::new(),
        };
        let mut max_bytes = None;
        for sandbox in self.list_sandboxes(key)?.iter().filter(|one| one.exists()) {
            let left_out = self.list_left_out_files(key, sandbox)?;
            if left_out.is_empty() {
                continue;
            }
            let max_bytes = *max_bytes
                .get_or_insert_with(|| self.remaining_archive_bytes().min(MAX_ARCHIVED_BYTES));
            self.archive_sandbox_files(key, sandbox, left_out, max_bytes, &mut archived)?;
        }
        let is_something = archived.files > 0 || !archived.omitted.is_empty();
        Ok(is_something.then_some(archived))
    }

    fn archive_sandbox_files(
        &self,
        key: &SandboxKey<'_>,
        sandbox: &Sandbox,
        left_out: Vec<IgnoredPath>,
        max_bytes: u64,
        archived: &mut ArchivedFiles,
    ) -> Result<(), SandboxError> {
        let mut candidates = Vec::new();
        for path in left_out {
            match find_candidate(sandbox, &path) {
                Some(candidate) => candidates.push(candidate),
                None => archived.omitted.push(path),
            }
        }
        candidates.sort_by_key(|candidate| candidate.bytes);
        let archive_dir = self.sandbox_archive_dir(key, sandbox.creator_epoch);
        for candidate in candidates {
            let files = archived.files + candidate.files.len() as u64;
            if files > MAX_ARCHIVED_FILES || archived.bytes + candidate.bytes > max_bytes {
                archived.omitted.push(candidate.path);
                continue;
            }
            self.make_home_directory(&archive_dir)?;
            let mut is_whole = true;
            for path in &candidate.files {
                // What was kept before may be older than what is there now.
                match copy_file(
                    &sandbox.path,
                    &archive_dir,
                    path,
                    candidate.bytes,
                    ExistingFilePolicy::Replace,
                ) {
                    Ok(CopyOutcome::Bytes(bytes)) => {
                        archived.files += 1;
                        archived.bytes += bytes;
                    }
                    Ok(CopyOutcome::Skipped) => {}
                    // Nobody can keep what nobody may read; the rest of the sandbox does not wait for it.
                    Err(error) if error.is_permission_denied() => is_whole = false,
                    Err(error) => return Err(error),
                }
            }
            if !is_whole {
                archived.omitted.push(candidate.path);
            }
        }
        Ok(())
    }

    /// Brings the ignored files that were kept of a sandbox back into it, as an agent's; what is there stays.
    pub(crate) fn restore_archived_files(
        &self,
        key: &SandboxKey<'_>,
        sandbox: &Sandbox,
    ) -> Result<(), SandboxError> {
        let kept = self.archive_dir(key.plan_id).join(key.dir_name());
        let Some(newest) = files::list_names::<u64>(&kept)?.pop() else {
            return Ok(());
        };
        let root = self.sandbox_archive_dir(key, Epoch(newest));
        for entry in list_top_entries(&root) {
            for path in list_candidate_files(&root, &entry).unwrap_or_default() {
                copy_file(
                    &root,
                    &sandbox.path,
                    &path,
                    MAX_ARCHIVED_BYTES,
                    ExistingFilePolicy::Keep,
                )?;
            }
        }
        let restored = IgnoredFiles {
            left_out: self.list_left_out_files(key, sandbox)?,
            ..IgnoredFiles::default()
        };
        self.record_left_out_files(sandbox, &restored)
    }

    /// Where the ignored files of a plan are kept, if there are any.
    pub fn find_archive(&self, plan_id: PlanId) -> Option<PathBuf> {
        Some(self.archive_dir(plan_id)).filter(|path| path.is_dir())
    }

    /// The plans of which ignored files are kept.
    pub fn list_archived_plans(&self) -> Result<Vec<PlanId>, SandboxError> {
        let plans: Vec<PlanId> = files::list_names(&self.home().join("rescued"))?;
        let kept = plans.into_iter();
        Ok(kept
            .filter(|plan| self.find_archive(*plan).is_some())
            .collect())
    }

    fn archive_dir(&self, plan_id: PlanId) -> PathBuf {
        let rescued = self.home().join("rescued");
        rescued.join(plan_id.to_string()).join("ignored")
    }

    fn sandbox_archive_dir(&self, key: &SandboxKey<'_>, made_by: Epoch) -> PathBuf {
        let of_plan = self.archive_dir(key.plan_id).join(key.dir_name());
        of_plan.join(made_by.to_string())
    }

    /// How many bytes may still be kept of all plans together.
    fn remaining_archive_bytes(&self) -> u64 {
        use std::os::unix::fs::MetadataExt;
        let plans = self.list_archived_plans().unwrap_or_default().into_iter();
        let mut directories: Vec<PathBuf> = plans.map(|plan| self.archive_dir(plan)).collect();
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
                if counted > MAX_COUNTED_FILES {
                    return 0;
                }
            }
        }
        MAX_ARCHIVED_BYTES_TOTAL.saturating_sub(bytes)
    }
}

/// What there is to keep; nothing if it is too much by its number of files.
fn find_candidate(sandbox: &Sandbox, path: &IgnoredPath) -> Option<ArchiveCandidate> {
    let files = list_candidate_files(&sandbox.path, path)?;
    let size = |path: &TreePath| {
        let metadata = std::fs::symlink_metadata(files::join_tree_path(&sandbox.path, path));
        metadata.map_or(0, |metadata| metadata.len())
    };
    Some(ArchiveCandidate {
        bytes: files.iter().map(size).sum(),
        path: path.clone(),
        files,
    })
}

fn list_candidate_files(root: &Path, path: &IgnoredPath) -> Option<Vec<TreePath>> {
    match path.is_directory {
        true => files_below(root, &path.path),
        false => Some(vec![path.path.clone()]),
    }
}

/// What is in a directory of ours.
fn list_top_entries(root: &Path) -> Vec<IgnoredPath> {
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
fn copy_file(
    from: &Path,
    to: &Path,
    path: &TreePath,
    max_bytes: u64,
    existing: ExistingFilePolicy,
) -> Result<CopyOutcome, SandboxError> {
    let (Ok(source), Ok(target)) = (
        PathHandle::open(from, path),
        PathHandle::open_or_create(to, path),
    ) else {
        return Ok(CopyOutcome::Skipped);
    };
    let mut staged_copy = to.as_os_str().to_owned();
    staged_copy.push(".copying");
    let aside = PathBuf::from(staged_copy);
    let copied = source.copy_to(&target, &aside, max_bytes, existing);
    let _ = std::fs::remove_file(&aside);
    copied.while_being("copied", &files::join_tree_path(from, path))
}
