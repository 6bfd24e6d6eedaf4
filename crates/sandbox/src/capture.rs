//! Captures what changed in a sandbox. Reads the files, not the agent's report.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use plan::Epoch;
use plan::changeset::{ChangesetEntry, PathOperation, TreePath};

use crate::compare::{self, GITLINK_MODE};
use crate::error::FileErrorContext;
use crate::git::run_both;
use crate::ignored::IgnoredFiles;
use crate::local_resource::SandboxKey;
use crate::sandboxes::{OccupiedSandbox, Sandbox, Sandboxes};
use crate::step_faults::SandboxStep;
use crate::{ObjectId, SandboxError, files, git};

/// The content of a sandbox, compared with its base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxCapture {
    pub base: ObjectId,
    pub tree: ObjectId,
    /// One entry per path; a rename is one entry.
    pub changes: Vec<CapturedChange>,
    pub ignored: IgnoredFiles,
}

/// How to treat files that cannot be part of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UncapturablePolicy {
    /// Fail: a result without them would be incomplete.
    Refuse,
    /// Skip them, for callers that only show the changes.
    LeaveOut,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturedChange {
    /// The new path; the old one if it was deleted.
    pub path: TreePath,
    pub operation: PathOperation,
    /// The old path of a rename.
    pub from: Option<TreePath>,
    /// The old content.
    pub before: Option<ObjectId>,
    /// The new content.
    pub after: Option<ObjectId>,
    /// The new file mode, in octal.
    pub mode: Option<String>,
}

/// Files that configure how plans work on the repository; see also [`crate::copy_ignored`].
const CONFIG_FILES: [&[u8]; 2] = [
    plan::invariant::REPOSITORY_CONFIG_FILE.as_bytes(),
    crate::copy_ignored::INCLUDE_LIST_FILE.as_bytes(),
];

impl CapturedChange {
    /// Does it change how plans work on the repository from now on?
    pub fn touches_config_file(&self) -> bool {
        let paths = [Some(&self.path), self.from.as_ref()];
        let mut paths = paths.into_iter().flatten();
        paths.any(|path| CONFIG_FILES.contains(&path.as_bytes()))
    }

    pub fn to_changeset_entry(&self, resource: &str) -> ChangesetEntry {
        let mut entry = ChangesetEntry::new(self.path.clone(), self.operation);
        entry.resource = Some(resource.to_owned());
        entry.from.clone_from(&self.from);
        entry.before = self.before.as_ref().map(ToString::to_string);
        entry.after = self.after.as_ref().map(ToString::to_string);
        entry.mode.clone_from(&self.mode);
        entry
    }
}

/// Reads what changed in a sandbox.
#[derive(Clone, Copy)]
pub struct ChangeCapture<'a> {
    pub(crate) sandboxes: &'a Sandboxes,
}

impl Sandboxes {
    pub fn capture(&self) -> ChangeCapture<'_> {
        ChangeCapture { sandboxes: self }
    }
}

impl ChangeCapture<'_> {
    /// Records the state of a holder's sandbox as a checkpoint and returns it. If the disk is full,
    /// removes the partly written objects.
    pub fn capture_sandbox(
        &self,
        key: &SandboxKey<'_>,
        epoch: Epoch,
        base: &ObjectId,
    ) -> Result<SandboxCapture, SandboxError> {
        let captured = self.try_capture_sandbox(key, epoch, base);
        captured.map_err(|error| {
            let vault = self.sandboxes.vaults().vault_for(key);
            let error = error.explain_full_disk(vault.path());
            if error.is_out_of_space() {
                vault.remove_unfinished_objects();
            }
            error
        })
    }

    fn try_capture_sandbox(
        &self,
        key: &SandboxKey<'_>,
        epoch: Epoch,
        base: &ObjectId,
    ) -> Result<SandboxCapture, SandboxError> {
        let vault = self.sandboxes.vaults().open_vault(key)?;
        let OccupiedSandbox {
            sandbox,
            lock: _lock,
        } = self.sandboxes.occupy_sandbox(key, epoch)?;
        let git = self.git_in_sandbox(key, &sandbox);
        let (added, before) = run_both(
            || self.stage_all_files(key, &sandbox, &git, base, UncapturablePolicy::Refuse),
            || vault.checkpoint_commit(),
        );
        let ((tree, ignored), before) = (added?, before?);
        let (changes, checkpoint) = run_both(
            || self.list_capturable_changes(key, &sandbox, &git, base, &tree),
            || {
                vault.keep_result(&tree)?;
                vault.create_checkpoint(key.plan_id, epoch, base, &tree)
            },
        );
        let (changes, checkpoint) = (changes?, checkpoint?);
        self.record_left_out_files(&sandbox, &ignored)?;
        self.record_file_modes(key, &sandbox, &changes)?;
        // The tree exists before the checkpoint ref moves: a crash in between loses nothing.
        self.complete_step(SandboxStep::TreeWritten, vault.path())?;
        self.sandboxes
            .vaults()
            .save_checkpoint(key, epoch, &checkpoint, before.as_ref())?;
        self.complete_step(SandboxStep::Checkpointed, vault.path())?;
        Ok(SandboxCapture {
            base: base.clone(),
            tree,
            changes,
            ignored,
        })
    }

    /// Writes the files of a sandbox as a tree, without a checkpoint.
    pub(crate) fn write_sandbox_tree(
        &self,
        key: &SandboxKey<'_>,
        sandbox: &Sandbox,
    ) -> Result<ObjectId, SandboxError> {
        let git = self.git_in_sandbox(key, sandbox);
        let (base, refuse) = (&sandbox.base, UncapturablePolicy::Refuse);
        let (tree, _) = self.stage_all_files(key, sandbox, &git, base, refuse)?;
        self.list_capturable_changes(key, sandbox, &git, base, &tree)?;
        Ok(tree)
    }

    /// Writes the sandbox's current files as a tree, with the caller's index and object directory.
    /// Skips files that cannot be captured.
    pub(crate) fn write_current_tree(
        &self,
        key: &SandboxKey<'_>,
        sandbox: &Sandbox,
        git: &git::GitCommand,
    ) -> Result<(ObjectId, IgnoredFiles), SandboxError> {
        let leave_out = UncapturablePolicy::LeaveOut;
        let git = git.clone().reading_pipes_as_empty();
        self.stage_all_files(key, sandbox, &git, &sandbox.base, leave_out)
    }

    /// Writes the files of a sandbox as a tree. From the agent's own repository it reads only the
    /// names of ignored files in the index. The agent's configuration is not trusted.
    fn stage_all_files(
        &self,
        key: &SandboxKey<'_>,
        sandbox: &Sandbox,
        git: &git::GitCommand,
        base: &ObjectId,
        uncapturable: UncapturablePolicy,
    ) -> Result<(ObjectId, IgnoredFiles), SandboxError> {
        if !sandbox.exists() {
            return Err(SandboxError::SandboxMissing {
                path: sandbox.path.clone(),
            });
        }
        let git = git
            .clone()
            .refusing_names_like_git()
            .with_settings(&["advice.addEmbeddedRepo=false".to_owned()]);
        match uncapturable {
            UncapturablePolicy::Refuse => {
                let added = git.run(&["add", "--all", "--", "."]);
                added
                    .map_err(explain_nested_repository)
                    .map_err(explain_refused_name)
                    .map_err(|error| explain_irregular_file(error, &sandbox.path))?;
            }
            UncapturablePolicy::LeaveOut => {
                let arguments = ["add", "--all", "--ignore-errors", "--", "."];
                let output = git.try_run(&arguments)?;
                let stderr = &output.stderr;
                let is_left_out = stderr.contains(NO_COMMIT_SUFFIX)
                    || stderr.contains(INVALID_PATH_PREFIX)
                    || stderr.contains(IRREGULAR_FILE_SUFFIX);
                if output.exit_code != 0 && !is_left_out {
                    return Err(git::git_error(&arguments, &output.stderr));
                }
            }
        }
        if uncapturable == UncapturablePolicy::Refuse {
            self.refuse_writes_below_submodules(key, sandbox)
                .map_err(|error| explain_irregular_file(error, &sandbox.path))?;
        }
        let ignored = self
            .stage_ignored_files(key, sandbox, &git, base)
            .map_err(|error| explain_irregular_file(error, &sandbox.path));
        let ignored = match (ignored, uncapturable) {
            (Err(error), UncapturablePolicy::LeaveOut) if error.is_uncapturable() => {
                IgnoredFiles::default()
            }
            (ignored, _) => ignored?,
        };
        Ok((git.read_object_id(&["write-tree"])?, ignored))
    }

    /// The changes against the base; an error if one of them cannot be part of a result.
    fn list_capturable_changes(
        &self,
        key: &SandboxKey<'_>,
        sandbox: &Sandbox,
        git: &git::GitCommand,
        base: &ObjectId,
        tree: &ObjectId,
    ) -> Result<Vec<CapturedChange>, SandboxError> {
        let changes = list_changes(git, base, tree)?;
        refuse_nested_repositories(&changes)?;
        // Without attributes there are no filters, and git need not be started.
        let own_attributes = self
            .sandboxes
            .vaults()
            .vault_for(key)
            .path()
            .join("info/attributes");
        if own_attributes.exists() || has_gitattributes(&sandbox.path, &changes) {
            refuse_filtered_paths(git, &changes)
                .map_err(|error| explain_irregular_file(error, &sandbox.path))?;
        }
        Ok(changes)
    }

    pub(crate) fn git_in_sandbox(
        &self,
        key: &SandboxKey<'_>,
        sandbox: &Sandbox,
    ) -> git::GitCommand {
        // Only a killed engine process can have left this lock: agents cannot write here.
        let _ = std::fs::remove_file(sandbox.index_path.with_extension("index.lock"));
        let git = self.sandboxes.vaults().vault_for(key).git();
        git.with_work_tree(&sandbox.path)
            .with_index(&sandbox.index_path)
    }
}

const NESTED_REPOSITORY_REASON: &str = "it is a repository of its own; remove it or its .git";

/// git's message about a nested repository without a commit.
const NO_COMMIT_SUFFIX: &str = "/' does not have a commit checked out";

/// git's message about a name that it does not store.
const INVALID_PATH_PREFIX: &str = "error: invalid path '";

/// git's message about a tracked path that became a pipe, socket or device.
const IRREGULAR_FILE_SUFFIX: &str = ": can only add regular files";

impl SandboxError {
    pub(crate) fn nested_repository(path: TreePath) -> Self {
        Self::Uncapturable {
            path,
            why: NESTED_REPOSITORY_REASON,
        }
    }
}

/// git cannot add a nested repository without a commit. Names that repository in the error.
fn explain_nested_repository(error: SandboxError) -> SandboxError {
    let SandboxError::GitFailed { said, .. } = &error else {
        return error;
    };
    let named = said
        .lines()
        .filter_map(|line| line.strip_suffix(NO_COMMIT_SUFFIX))
        .find_map(|line| line.strip_prefix("error: '"));
    match named.map(TreePath::new) {
        Some(Ok(path)) => SandboxError::nested_repository(path),
        Some(Err(_)) | None => error,
    }
}

/// git refuses names that some systems read as `.git`. Names the first one in the error.
pub(crate) fn explain_refused_name(error: SandboxError) -> SandboxError {
    let SandboxError::GitFailed { said, .. } = &error else {
        return error;
    };
    let named = said
        .lines()
        .filter_map(|line| line.strip_prefix(INVALID_PATH_PREFIX))
        .find_map(|line| line.strip_suffix('\''));
    match named {
        Some(name) => SandboxError::NameRefused {
            name: name.to_owned(),
        },
        None => error,
    }
}

/// Names the pipe, socket or device of a sandbox that git cannot add or read.
fn explain_irregular_file(error: SandboxError, root: &Path) -> SandboxError {
    let error = name_irregular_file(error, root);
    let SandboxError::NotRegularFile { path } = &error else {
        return error;
    };
    let inside = path.strip_prefix(root).unwrap_or(path);
    // The pipe may be in the `.git` of a repository in the sandbox, which no result may contain.
    let repository = inside.ancestors().find(|one| one.ends_with(".git"));
    let named = repository.and_then(Path::parent).unwrap_or(inside);
    match TreePath::new(named.as_os_str().as_bytes()) {
        Ok(path) if repository.is_some() => SandboxError::nested_repository(path),
        Ok(path) => SandboxError::Uncapturable {
            path,
            why: "it is not a regular file; remove it or put a file there",
        },
        Err(_) => error,
    }
}

/// git cannot add a pipe, socket or device. Names the first one in the error.
pub(crate) fn name_irregular_file(error: SandboxError, root: &Path) -> SandboxError {
    let SandboxError::GitFailed { said, .. } = &error else {
        return error;
    };
    let named = said
        .lines()
        .filter_map(|line| line.split_once(IRREGULAR_FILE_SUFFIX))
        .find_map(|(line, _)| line.strip_prefix("error: "));
    match named {
        Some(name) => SandboxError::NotRegularFile {
            path: root.join(name),
        },
        None => error,
    }
}

/// A nested repository would land as a bare commit id, without its files.
fn refuse_nested_repositories(changes: &[CapturedChange]) -> Result<(), SandboxError> {
    let link = changes
        .iter()
        .find(|change| change.mode.as_deref() == Some(GITLINK_MODE));
    if let Some(link) = link {
        return Err(SandboxError::nested_repository(link.path.clone()));
    }
    Ok(())
}

/// Does any directory of the changed paths have a `.gitattributes` file?
fn has_gitattributes(root: &Path, changes: &[CapturedChange]) -> bool {
    let mut directories = BTreeSet::from([root.to_owned()]);
    for change in changes {
        let file_path = files::join_tree_path(root, &change.path);
        let parents = file_path.ancestors().skip(1);
        directories.extend(parents.take_while(|one| *one != root).map(Path::to_owned));
    }
    directories
        .iter()
        .any(|directory| directory.join(".gitattributes").symlink_metadata().is_ok())
}

/// Fails for paths with a content filter: the landed file would differ from the file in the
/// sandbox.
fn refuse_filtered_paths(
    git: &git::GitCommand,
    changes: &[CapturedChange],
) -> Result<(), SandboxError> {
    let mut paths = Vec::new();
    for change in changes.iter().filter(|change| change.after.is_some()) {
        paths.extend(change.path.as_bytes());
        paths.push(0);
    }
    if paths.is_empty() {
        return Ok(());
    }
    let output = git.run_with_input(&["check-attr", "-z", "--stdin", "filter"], &paths)?;
    let fields: Vec<&[u8]> = output.split(|byte| *byte == 0).collect();
    for line in fields.chunks_exact(3) {
        if !matches!(line[2], b"unspecified" | b"unset") {
            return Err(SandboxError::Uncapturable {
                path: TreePath::new(line[0])?,
                why: "it is kept by a content filter such as Git LFS, which is not run here",
            });
        }
    }
    Ok(())
}

/// Compares a base with a tree, detecting renames.
pub(crate) fn list_changes(
    git: &git::GitCommand,
    base: &ObjectId,
    tree: &ObjectId,
) -> Result<Vec<CapturedChange>, SandboxError> {
    let lines = compare::read_raw_diff(git, &["-M"], base.as_str(), tree.as_str(), &[])?;
    Ok(lines
        .into_iter()
        .map(|line| CapturedChange {
            operation: compare::parse_operation(line.status),
            path: line.path,
            from: line.from,
            before: line.before.map(|blob| blob.id),
            mode: line.after.as_ref().map(|blob| blob.mode.clone()),
            after: line.after.map(|blob| blob.id),
        })
        .collect())
}

impl ChangeCapture<'_> {
    /// A fault point: fails if a test asks for it.
    pub(crate) fn complete_step(
        &self,
        step: SandboxStep,
        path: &std::path::Path,
    ) -> Result<(), SandboxError> {
        self.sandboxes
            .faults()
            .check_step(step)
            .while_being("written", path)
    }
}
