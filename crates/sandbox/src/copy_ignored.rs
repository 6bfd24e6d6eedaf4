//! Copies ignored files that the work needs (`.env`, caches) from the user's checkout into a new
//! sandbox.
//!
//! Copies only requested files, and only those that git ignores in both places: a file that the
//! sandbox does not ignore would be captured and might land. Symlinks are copied as symlinks and
//! never followed, neither to a source nor to a destination.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

use plan::changeset::TreePath;

use crate::error::FileErrorContext;
use crate::files::{self, CopyOutcome, ExistingFilePolicy, PathHandle};
use crate::git::{self, GitCommand};
use crate::local_resource::SandboxKey;
use crate::repository::UserCheckout;
use crate::sandboxes::{Sandbox, Sandboxes};
use crate::{Repository, SandboxError};

/// A repository may list the files that its sandboxes need here.
pub(crate) const INCLUDE_LIST_FILE: &str = ".worktreeinclude";

const MAX_INCLUDE_LIST_BYTES: u64 = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IgnoredCopyLimits {
    pub files: u64,
    /// In total.
    pub bytes: u64,
}

impl Default for IgnoredCopyLimits {
    fn default() -> Self {
        Self {
            files: 50_000,
            bytes: 2 << 30,
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IgnoredCopySummary {
    /// Files and symlinks that the sandbox has now.
    pub files: u64,
    pub bytes: u64,
    /// Requested files that were not copied, because of the limits or because something else is in
    /// their place.
    pub left_out: u64,
}

impl Sandboxes {
    /// Copies ignored files into a sandbox: those that match `include`, in `.gitignore` syntax, and
    /// those in the checkout's `.worktreeinclude`. Does not overwrite, so it is safe to repeat.
    pub fn copy_ignored_files(
        &self,
        key: &SandboxKey<'_>,
        sandbox: &Sandbox,
        include: &[String],
    ) -> Result<IgnoredCopySummary, SandboxError> {
        self.copy_ignored_files_within(key, sandbox, include, IgnoredCopyLimits::default())
    }

    /// Like [`Self::copy_ignored_files`], with the caller's limits.
    pub fn copy_ignored_files_within(
        &self,
        key: &SandboxKey<'_>,
        sandbox: &Sandbox,
        include: &[String],
        limits: IgnoredCopyLimits,
    ) -> Result<IgnoredCopySummary, SandboxError> {
        let repository = self.open_repository(key.resource)?;
        let Some(checkout) = repository.own_checkout() else {
            return Ok(IgnoredCopySummary::default());
        };
        let patterns = read_patterns(&checkout, include)?;
        if patterns.is_empty() {
            return Ok(IgnoredCopySummary::default());
        }
        let candidates =
            self.find_copy_candidates(key, &repository, &checkout, sandbox, &patterns)?;
        // Beside the sandbox, so that the sandbox never contains a partial copy.
        let staged_copy = sandbox.index_path.with_extension("copying");
        let summary = copy_candidates(
            &checkout.work_tree,
            &sandbox.path,
            &candidates,
            &staged_copy,
            limits,
        );
        let _ = std::fs::remove_file(&staged_copy);
        summary
    }

    /// Lists the files that match and are ignored in both places.
    fn find_copy_candidates(
        &self,
        key: &SandboxKey<'_>,
        repository: &Repository,
        checkout: &UserCheckout,
        sandbox: &Sandbox,
        patterns: &[u8],
    ) -> Result<CopyCandidates, SandboxError> {
        let list = sandbox.index_path.with_extension("patterns");
        files::write_private_file(&list, patterns)?;
        let mut from = std::ffi::OsString::from("--exclude-from=");
        from.push(&list);
        let user_git = repository.git_on_checkout(checkout, &checkout.git_dir.join("index"));
        let arguments = ["ls-files", "--others", "--ignored", "-z"].map(std::ffi::OsStr::new);
        let mut arguments = arguments.to_vec();
        arguments.push(&from);
        let matching = user_git.run(&arguments);
        let _ = std::fs::remove_file(&list);
        let vault_git = self
            .vaults()
            .vault_for(key)
            .git()
            .with_work_tree(&sandbox.path)
            .with_index(&sandbox.index_path);
        let mut candidates = CopyCandidates::default();
        let mut reachable = Vec::new();
        for path in git::split_nul_fields(&filter_ignored(&user_git, &matching?)?) {
            // A nested repository ends in a slash. It is not copied.
            if path.ends_with(b"/") {
                continue;
            }
            if is_path_blocked(&sandbox.path, &TreePath::new(path)?) {
                candidates.blocked_count += 1;
            } else {
                reachable.extend(path);
                reachable.push(0);
            }
        }
        for path in git::split_nul_fields(&filter_ignored(&vault_git, &reachable)?) {
            candidates.paths.insert(TreePath::new(path)?);
        }
        Ok(candidates)
    }
}

#[derive(Default)]
struct CopyCandidates {
    paths: BTreeSet<TreePath>,
    /// The number of paths blocked by something in the sandbox.
    blocked_count: u64,
}

/// Is a parent of this path not a directory? git cannot tell then whether it ignores the path.
fn is_path_blocked(root: &Path, path: &TreePath) -> bool {
    match PathHandle::open(root, path) {
        Ok(_) => false,
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    }
}

/// The patterns in `.gitignore` syntax, one per line.
fn read_patterns(checkout: &UserCheckout, include: &[String]) -> Result<Vec<u8>, SandboxError> {
    let mut patterns = Vec::new();
    let list = checkout.work_tree.join(INCLUDE_LIST_FILE);
    let is_file = std::fs::symlink_metadata(&list).is_ok_and(|metadata| metadata.is_file());
    if is_file {
        std::fs::File::open(&list)
            .and_then(|file| file.take(MAX_INCLUDE_LIST_BYTES).read_to_end(&mut patterns))
            .while_being("read", &list)?;
        patterns.push(b'\n');
    }
    for pattern in include {
        patterns.extend(pattern.bytes());
        patterns.push(b'\n');
    }
    Ok(patterns)
}

/// Keeps the paths that git ignores.
fn filter_ignored(git: &GitCommand, paths: &[u8]) -> Result<Vec<u8>, SandboxError> {
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    let output = git.try_run_with_input(&["check-ignore", "-z", "--stdin"], paths)?;
    // Exit code 1 means that none is ignored.
    if !matches!(output.exit_code, 0 | 1) {
        return Err(SandboxError::GitFailed {
            command: "check-ignore".to_owned(),
            said: output.stderr.trim().chars().take(2000).collect(),
        });
    }
    Ok(output.stdout)
}

fn copy_candidates(
    from: &Path,
    to: &Path,
    candidates: &CopyCandidates,
    staged_copy: &Path,
    limits: IgnoredCopyLimits,
) -> Result<IgnoredCopySummary, SandboxError> {
    let mut summary = IgnoredCopySummary {
        left_out: candidates.blocked_count,
        ..IgnoredCopySummary::default()
    };
    for path in &candidates.paths {
        let source_path = files::join_tree_path(from, path);
        let remaining_bytes = limits.bytes - summary.bytes;
        let copied = if summary.files == limits.files {
            CopyOutcome::Skipped
        } else {
            let source = match PathHandle::open(from, path) {
                Ok(source) => source,
                // The file was removed since it was listed, or its directory was replaced by a
                // symlink.
                Err(error) if files::is_not_found(&error) || is_link_error(&error) => continue,
                Err(error) => return Err(error).while_being("reached", &source_path),
            };
            match PathHandle::open_or_create(to, path) {
                Ok(copy) => source
                    .copy_to(
                        &copy,
                        staged_copy,
                        remaining_bytes,
                        ExistingFilePolicy::Keep,
                    )
                    .while_being("copied", &source_path)?,
                Err(error) if files::is_not_found(&error) || is_link_error(&error) => {
                    CopyOutcome::Skipped
                }
                Err(error) => return Err(error).while_being("copied", &source_path),
            }
        };
        match copied {
            CopyOutcome::Bytes(bytes) => {
                summary.files += 1;
                summary.bytes += bytes;
            }
            CopyOutcome::Skipped => summary.left_out += 1,
        }
    }
    Ok(summary)
}

fn is_link_error(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}
