//! Archives ignored files that are not part of a result, before their sandbox is removed, in a
//! private directory below the home.
//!
//! ```text
//! rescued/<plan>/ignored/<sandbox>/<epoch>/<path>
//! ```
//!
//! They do not go into refs of the user's repository, because ignored files may be secret or large.
//! The archive is limited and takes small files and directories first, so that generated files
//! (`node_modules`, `target`) do not fill the disk.

use crate::SandboxRescue;
use std::path::{Path, PathBuf};

use plan::changeset::TreePath;
use plan::{Epoch, PlanId};

use crate::SandboxError;
use crate::error::FileErrorContext;
use crate::files::{self, CopyOutcome, ExistingFilePolicy, PathHandle};
use crate::ignored::{IgnoredFiles, IgnoredPath, files_below};
use crate::local_resource::SandboxKey;
use crate::sandboxes::Sandbox;

/// Limits for one resource of a plan, and for all plans together.
const MAX_ARCHIVED_FILES: u64 = 2_000;
const MAX_ARCHIVED_BYTES: u64 = 32 << 20;
const MAX_ARCHIVED_BYTES_TOTAL: u64 = 1 << 30;

/// How many files are counted to measure the archive. If there are more, it counts as full.
const MAX_COUNTED_FILES: usize = 200_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchivedFiles {
    pub path: PathBuf,
    pub files: u64,
    pub bytes: u64,
    /// Paths that exceed the limits or cannot be read.
    pub omitted: Vec<IgnoredPath>,
}

/// An ignored file or directory, with the files in it.
struct ArchiveCandidate {
    path: IgnoredPath,
    files: Vec<TreePath>,
    bytes: u64,
}

impl SandboxRescue<'_> {
    /// Archives the ignored files that agents made in the sandboxes of a resource, as far as they
    /// fit. Safe to repeat: a second call copies what is missing.
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
        for sandbox in self
            .sandboxes
            .list_sandboxes(key)?
            .iter()
            .filter(|one| one.exists())
        {
            let left_out = self.sandboxes.capture().list_left_out_files(key, sandbox)?;
            if left_out.is_empty() {
                continue;
            }
            let max_bytes = *max_bytes
                .get_or_insert_with(|| self.remaining_archive_bytes().min(MAX_ARCHIVED_BYTES));
            self.archive_sandbox_files(key, sandbox, left_out, max_bytes, &mut archived)?;
        }
        let is_relevant = archived.files > 0 || !archived.omitted.is_empty();
        Ok(is_relevant.then_some(archived))
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
            self.sandboxes.home().make_home_directory(&archive_dir)?;
            let mut is_whole = true;
            for path in &candidate.files {
                // An earlier copy may be outdated.
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
                    // A file without read permission cannot be copied. It must not block the rest
                    // of the sandbox.
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

    /// Copies archived ignored files back into a sandbox and records them as the agent's. Existing
    /// files are not overwritten.
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
            left_out: self.sandboxes.capture().list_left_out_files(key, sandbox)?,
            ..IgnoredFiles::default()
        };
        self.sandboxes
            .capture()
            .record_left_out_files(sandbox, &restored)
    }

    /// The directory with a plan's archived files, if it exists.
    pub fn find_archive(&self, plan_id: PlanId) -> Option<PathBuf> {
        Some(self.archive_dir(plan_id)).filter(|path| path.is_dir())
    }

    pub fn list_archived_plans(&self) -> Result<Vec<PlanId>, SandboxError> {
        let plans: Vec<PlanId> = files::list_names(&self.sandboxes.home().join("rescued"))?;
        let kept = plans.into_iter();
        Ok(kept
            .filter(|plan| self.find_archive(*plan).is_some())
            .collect())
    }

    fn archive_dir(&self, plan_id: PlanId) -> PathBuf {
        let rescued = self.sandboxes.home().join("rescued");
        rescued.join(plan_id.to_string()).join("ignored")
    }

    fn sandbox_archive_dir(&self, key: &SandboxKey<'_>, creator_epoch: Epoch) -> PathBuf {
        let sandbox_dir = self.archive_dir(key.plan_id).join(key.dir_name());
        sandbox_dir.join(creator_epoch.to_string())
    }

    /// How many bytes all plans together may still archive.
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

/// The files to archive; `None` if there are too many to list.
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

/// Copies a file or a symlink. Skips a path that disappeared or lies behind a symlink.
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
