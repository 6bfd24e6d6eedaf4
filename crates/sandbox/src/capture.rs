//! Capturing: what the work changed, read from the tree itself, whoever changed it.

use std::collections::BTreeSet;
use std::path::Path;

use plan::Epoch;
use plan::changeset::{ChangesetEntry, PathOperation, TreePath};

use crate::compare::{self, GITLINK_MODE};
use crate::error::FileErrorContext;
use crate::git::run_both;
use crate::ignored::IgnoredFiles;
use crate::sandboxes::{OccupiedSandbox, Sandbox, SandboxKey, Sandboxes};
use crate::step_faults::Step;
use crate::{ObjectId, SandboxError, files, git};

/// What a sandbox holds, against what it started from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxCapture {
    /// The commit it started from.
    pub base: ObjectId,
    /// The tree it holds.
    pub tree: ObjectId,
    /// Path by path; a rename is one change.
    pub changes: Vec<CapturedChange>,
    /// What became of files that git ignores.
    pub ignored: IgnoredFiles,
}

/// What to do about files that cannot be taken into a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UncapturablePolicy {
    /// A result without them would not be what was made.
    Refuse,
    /// Whoever only looks sees the rest.
    LeaveOut,
}

/// One changed path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturedChange {
    /// Where it is, or was.
    pub path: TreePath,
    /// What happened to it.
    pub operation: PathOperation,
    /// Where it came from, for a rename.
    pub from: Option<TreePath>,
    /// The content before.
    pub before: Option<ObjectId>,
    /// The content after.
    pub after: Option<ObjectId>,
    /// File mode after, in octal.
    pub mode: Option<String>,
}

/// Where a repository says how it is worked on; see also [`crate::furnish`].
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

    /// As a changeset records it.
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

impl Sandboxes {
    /// Remembers the state of a holder's sandbox, and says what it is. On a full disk nothing is left of the attempt.
    pub fn capture_sandbox(
        &self,
        key: &SandboxKey<'_>,
        epoch: Epoch,
        base: &ObjectId,
    ) -> Result<SandboxCapture, SandboxError> {
        let captured = self.try_capture_sandbox(key, epoch, base);
        captured.map_err(|error| {
            let vault = self.vault_for(key);
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
        let vault = self.open_vault(key)?;
        let OccupiedSandbox {
            sandbox,
            lock: _hold,
        } = self.occupy_sandbox(key, epoch)?;
        let git = self.git_in_sandbox(key, &sandbox);
        let (added, before) = run_both(
            || self.stage_all_files(key, &sandbox, &git, base, UncapturablePolicy::Refuse),
            || vault.checkpoint_commit(),
        );
        let ((tree, ignored), before) = (added?, before?);
        let (changes, checkpoint) = run_both(
            || self.list_capturable_changes(key, &sandbox, base, &tree),
            || vault.create_checkpoint(key.plan_id, epoch, base, &tree),
        );
        let (changes, checkpoint) = (changes?, checkpoint?);
        self.record_left_out_files(&sandbox, &ignored)?;
        self.record_file_modes(key, &sandbox, &changes)?;
        self.complete_step(Step::TreeWritten, vault.path())?;
        self.save_checkpoint(key, epoch, &checkpoint, before.as_ref())?;
        self.complete_step(Step::Checkpointed, vault.path())?;
        Ok(SandboxCapture {
            base: base.clone(),
            tree,
            changes,
            ignored,
        })
    }

    /// Writes the files of a sandbox as a tree, without remembering it.
    pub(crate) fn write_sandbox_tree(
        &self,
        key: &SandboxKey<'_>,
        sandbox: &Sandbox,
    ) -> Result<ObjectId, SandboxError> {
        let git = self.git_in_sandbox(key, sandbox);
        let (base, refuse) = (&sandbox.base, UncapturablePolicy::Refuse);
        let (tree, _) = self.stage_all_files(key, sandbox, &git, base, refuse)?;
        self.list_capturable_changes(key, sandbox, base, &tree)?;
        Ok(tree)
    }

    /// What a sandbox holds at this moment, with an index and objects of the caller's.
    pub(crate) fn write_current_tree(
        &self,
        key: &SandboxKey<'_>,
        sandbox: &Sandbox,
        git: &git::GitCommand,
    ) -> Result<(ObjectId, IgnoredFiles), SandboxError> {
        let leave_out = UncapturablePolicy::LeaveOut;
        self.stage_all_files(key, sandbox, git, &sandbox.base, leave_out)
    }

    /// The files of a sandbox as a tree. Of the agent's own repository only the names in its index matter,
    /// and only of files that are ignored; the configuration in it nobody may trust.
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
            .with_settings(&["advice.addEmbeddedRepo=false".to_owned()]);
        match uncapturable {
            UncapturablePolicy::Refuse => {
                let added = git.run(&["add", "--all", "--", "."]);
                added
                    .map_err(explain_nested_repository)
                    .map_err(explain_refused_name)?;
            }
            UncapturablePolicy::LeaveOut => {
                let arguments = ["add", "--all", "--ignore-errors", "--", "."];
                let answered = git.try_run(&arguments)?;
                let stderr = &answered.stderr;
                let is_left_out =
                    stderr.contains(NO_COMMIT_SUFFIX) || stderr.contains(INVALID_PATH_PREFIX);
                if answered.exit_code != 0 && !is_left_out {
                    return Err(git::git_error(&arguments, &answered.stderr));
                }
            }
        }
        if uncapturable == UncapturablePolicy::Refuse {
            self.refuse_writes_below_submodules(key, sandbox)?;
        }
        let ignored = self.stage_ignored_files(key, sandbox, &git, base);
        let ignored = match (ignored, uncapturable) {
            (Err(error), UncapturablePolicy::LeaveOut) if error.is_uncapturable() => {
                IgnoredFiles::default()
            }
            (ignored, _) => ignored?,
        };
        Ok((git.read_object_id(&["write-tree"])?, ignored))
    }

    /// What changed, if all of it can be taken into a result.
    fn list_capturable_changes(
        &self,
        key: &SandboxKey<'_>,
        sandbox: &Sandbox,
        base: &ObjectId,
        tree: &ObjectId,
    ) -> Result<Vec<CapturedChange>, SandboxError> {
        let git = self.git_in_sandbox(key, sandbox);
        let changes = list_changes(&git, base, tree)?;
        refuse_nested_repositories(&changes)?;
        // Without attributes there is no filter, and git need not be asked.
        let own_attributes = self.vault_for(key).path().join("info/attributes");
        if own_attributes.exists() || has_gitattributes(&sandbox.path, &changes) {
            refuse_filtered_paths(&git, &changes)?;
        }
        Ok(changes)
    }

    pub(crate) fn git_in_sandbox(
        &self,
        key: &SandboxKey<'_>,
        sandbox: &Sandbox,
    ) -> git::GitCommand {
        // A lock of this index is ours, left by a process that was killed: agents cannot reach it.
        let _ = std::fs::remove_file(sandbox.index_path.with_extension("index.lock"));
        let git = self.vault_for(key).git();
        git.with_work_tree(&sandbox.path)
            .with_index(&sandbox.index_path)
    }
}

/// What is wrong with a nested repository.
const NESTED_REPOSITORY_REASON: &str = "it is a repository of its own; remove it or its .git";

/// What git says of one that has no commit.
const NO_COMMIT_SUFFIX: &str = "/' does not have a commit checked out";

/// What git says of a name that it does not store.
const INVALID_PATH_PREFIX: &str = "error: invalid path '";

impl SandboxError {
    /// There is a nested repository.
    pub(crate) fn nested_repository(path: TreePath) -> Self {
        Self::Uncapturable {
            path,
            why: NESTED_REPOSITORY_REASON,
        }
    }
}

/// Of a nested repository that has no commit, git has not even a name to add, and says so.
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

/// git stores no name that some system takes for `.git`, and says so of the first it comes to.
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

/// A nested repository would land as a mere name.
fn refuse_nested_repositories(changes: &[CapturedChange]) -> Result<(), SandboxError> {
    let link = changes
        .iter()
        .find(|change| change.mode.as_deref() == Some(GITLINK_MODE));
    if let Some(link) = link {
        return Err(SandboxError::nested_repository(link.path.clone()));
    }
    Ok(())
}

/// Is there a file of attributes on the way to any of the changed paths?
fn has_gitattributes(root: &Path, changes: &[CapturedChange]) -> bool {
    let mut directories = BTreeSet::from([root.to_owned()]);
    for change in changes {
        let place = files::join_tree_path(root, &change.path);
        let above = place.ancestors().skip(1);
        directories.extend(above.take_while(|one| *one != root).map(Path::to_owned));
    }
    directories
        .iter()
        .any(|directory| directory.join(".gitattributes").symlink_metadata().is_ok())
}

/// Paths under a content filter: what landed would not be what was made.
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

/// What differs between a base and a tree, renames recognised.
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

impl Sandboxes {
    /// What the process is doing fails here if a test says so.
    pub(crate) fn complete_step(
        &self,
        step: Step,
        path: &std::path::Path,
    ) -> Result<(), SandboxError> {
        self.faults().check_step(step).while_being("written", path)
    }
}
