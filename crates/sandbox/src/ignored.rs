//! Decides which ignored files are part of a result, which never are, and which are left out.
//!
//! An ignored file is part of the result if the agent committed or staged it in its own repository.
//! Of that repository, only the names in its index are read, from a copy in a scratch repository,
//! so that the agent's configuration has no effect. File contents are always read from the working
//! tree.
//!
//! Ignored files that existed before the agent started (a copied `.env`, output of the set-up
//! command) are never captured, whatever the agent's index or the ignore rules say later. They are
//! listed in a record beside the sandbox, where agents cannot write.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use plan::Epoch;
use plan::changeset::TreePath;
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use crate::compare::GITLINK_MODE;
use crate::error::FileErrorContext;
use crate::files::{self, PathHandle};
use crate::git::{self, GitCommand};
use crate::local_resource::SandboxKey;
use crate::sandboxes::Sandbox;
use crate::vault::{self, Vault};
use crate::{ChangeCapture, ObjectId, SandboxError};

/// The largest agent index that is read: about a million files.
const MAX_INDEX_BYTES: u64 = 128 << 20;

/// How many files of one ignored directory are listed individually. A larger directory is treated
/// as a whole.
const MAX_LISTED_PER_DIRECTORY: usize = 10_000;

/// Files that coding agents write for themselves into the working tree; not part of the work.
const AGENT_FILE_PREFIX: &[u8] = b".aider";

/// The ignored files of a sandbox, by what happens to them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IgnoredFiles {
    /// In the result although an ignore rule matches: the agent committed or staged them.
    pub force_added: Vec<TreePath>,
    /// Staged by the agent but not in the result, because they existed before it started.
    pub withheld: Vec<TreePath>,
    /// Made by the agent and not in the result.
    pub left_out: Vec<IgnoredPath>,
}

/// An ignored file, or a directory in which everything is ignored.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct IgnoredPath {
    pub path: TreePath,
    pub is_directory: bool,
}

impl fmt::Display for IgnoredPath {
    /// A directory has a slash at its end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = if self.is_directory { "/" } else { "" };
        write!(f, "{}{end}", self.path)
    }
}

/// The state in which a holder enters its sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxCondition {
    /// No agent has worked in it yet.
    BeforeAnyAgent,
    /// Reset to its base, with the ignored files of earlier holders.
    AtBase,
    /// As an earlier holder left it.
    AsLeft,
}

/// What is recorded beside a sandbox about its ignored files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct IgnoredRecord {
    /// The holder for whom the existing ignored files were last listed.
    #[serde(default)]
    before: Option<Epoch>,
    /// Existed before an agent worked: never captured.
    #[serde(default)]
    protected: BTreeSet<TreePath>,
    /// Everything below these directories is protected as well.
    #[serde(default)]
    protected_directories: BTreeSet<TreePath>,
    /// Made by an agent: found by the last capture, and not there before the work.
    #[serde(default)]
    made: BTreeSet<TreePath>,
    /// Existed below a submodule before an agent worked.
    #[serde(default)]
    below_submodules: BTreeSet<TreePath>,
}

impl IgnoredRecord {
    fn read(sandbox: &Sandbox) -> Result<Self, SandboxError> {
        files::read_json_or_default(&sandbox.ignored_record_path())
    }

    fn write(&self, sandbox: &Sandbox) -> Result<(), SandboxError> {
        let text = serde_json::to_vec(self).expect("BUG: a record always encodes");
        files::write_atomically(&sandbox.ignored_record_path(), &text)
    }

    fn is_protected(&self, path: &TreePath) -> bool {
        self.protected.contains(path)
            || parent_paths(path).any(|parent| self.protected_directories.contains(&parent))
    }

    fn has_protected_paths(&self) -> bool {
        !self.protected.is_empty() || !self.protected_directories.is_empty()
    }

    /// Is everything below this path protected, as far as it can be listed?
    fn covers_path(&self, path: &IgnoredPath, root: &Path) -> bool {
        if self.is_protected(&path.path) || self.protected_directories.contains(&path.path) {
            return true;
        }
        if !path.is_directory {
            return false;
        }
        let inside = files_below(root, &path.path);
        inside.is_some_and(|inside| inside.iter().all(|file| self.is_protected(file)))
    }
}

impl ChangeCapture<'_> {
    /// Records the ignored files that are in a sandbox before its holder works in it. They are
    /// never captured. Files that agents made earlier stay theirs, unless the sandbox is reset to
    /// its base.
    pub fn protect_ignored_files(
        &self,
        key: &SandboxKey<'_>,
        sandbox: &Sandbox,
        condition: SandboxCondition,
    ) -> Result<(), SandboxError> {
        let from_base = condition == SandboxCondition::AtBase;
        let mut record = IgnoredRecord::read(sandbox)?;
        // If this is repeated for the same holder, its agent may have worked in between.
        if record.before == Some(sandbox.holder_epoch) {
            return Ok(());
        }
        let git = self.git_in_sandbox(key, sandbox).reading_pipes_as_empty();
        let (_, others) = list_ignored(&git)?;
        let staged = match others.is_empty() || from_base {
            true => None,
            false => read_agent_index(&self.sandboxes.vaults().vault_for(key), sandbox)?,
        };
        let staged = staged.unwrap_or_default();
        for one in others {
            let inside = if one.is_directory {
                files_below(&sandbox.path, &one.path)
            } else {
                Some(vec![one.path.clone()])
            };
            let Some(inside) = inside else {
                record.protected_directories.insert(one.path);
                continue;
            };
            let is_made_by_agent = |path: &TreePath| {
                !from_base && (record.made.contains(path) || staged.contains_key(path))
            };
            let there: Vec<TreePath> = inside
                .into_iter()
                .filter(|one| !is_made_by_agent(one))
                .collect();
            record.protected.extend(there);
        }
        if condition == SandboxCondition::BeforeAnyAgent {
            let below = self.list_submodule_writes(key, sandbox)?;
            record.below_submodules.extend(below);
        }
        record.before = Some(sandbox.holder_epoch);
        record.write(sandbox)
    }

    /// Fails if files were written below a submodule since the work began.
    pub(crate) fn refuse_writes_below_submodules(
        &self,
        key: &SandboxKey<'_>,
        sandbox: &Sandbox,
    ) -> Result<(), SandboxError> {
        let found = self.list_submodule_writes(key, sandbox)?;
        if found.is_empty() {
            return Ok(());
        }
        let before = IgnoredRecord::read(sandbox)?.below_submodules;
        let paths: Vec<TreePath> = found.difference(&before).cloned().collect();
        if paths.is_empty() {
            return Ok(());
        }
        Err(SandboxError::UncapturablePaths {
            paths,
            why: "files inside a submodule cannot land, because git records only its commit; remove them, or \
                  commit them in the submodule's own repository",
        })
    }

    /// Updates the engine's index, which has every file that is not ignored, with the ignored files
    /// that the agent committed or staged. Returns what happened to them.
    pub(crate) fn stage_ignored_files(
        &self,
        key: &SandboxKey<'_>,
        sandbox: &Sandbox,
        git: &GitCommand,
        base: &ObjectId,
    ) -> Result<IgnoredFiles, SandboxError> {
        let record = IgnoredRecord::read(sandbox)?;
        let mut found = IgnoredFiles::default();
        if record.has_protected_paths() {
            // The agent may have changed the rules that ignored them.
            let added = list_added_paths(git, base)?;
            let withheld = added.into_iter().filter(|path| record.is_protected(path));
            found.withheld.extend(withheld);
            remove_from_index(git, &found.withheld)?;
        }
        let (tracked, others) = list_ignored(git)?;
        if tracked.is_empty() && others.is_empty() {
            return Ok(found);
        }
        let staged = read_agent_index(&self.sandboxes.vaults().vault_for(key), sandbox)?;
        let added = list_added_paths(git, base)?;
        let mut forced: BTreeSet<TreePath> = added.intersection(&tracked).cloned().collect();
        if let Some(staged) = &staged {
            // A path the agent removed from its index is dropped, if its index had it before.
            let had_all = sandbox.has_given_repository(base);
            let dropped = tracked
                .iter()
                .filter(|path| !staged.contains_key(path) && (had_all || added.contains(path)));
            let dropped: Vec<TreePath> = dropped.cloned().collect();
            remove_from_index(git, &dropped)?;
            for path in &dropped {
                forced.remove(path);
            }
            let mut wanted = Vec::new();
            let by_name: BTreeSet<&TreePath> = others.iter().map(|one| &one.path).collect();
            for (path, mode) in staged {
                let is_ignored = by_name.contains(path)
                    || parent_paths(path).any(|parent| by_name.contains(&parent));
                let file_type = Some(path).filter(|_| is_ignored);
                let Some(file_type) =
                    file_type.and_then(|path| read_file_type(&sandbox.path, path))
                else {
                    continue;
                };
                if record.is_protected(path) {
                    found.withheld.push(path.clone());
                } else if file_type.is_file() || file_type.is_symlink() {
                    wanted.push(path.clone());
                } else if file_type.is_dir() && mode == GITLINK_MODE {
                    return Err(SandboxError::nested_repository(path.clone()));
                }
            }
            add_to_index(git, &wanted)?;
            forced.extend(wanted);
        }
        let others: Vec<IgnoredPath> = match staged.is_some() {
            true => list_ignored(git)?.1,
            false => others,
        };
        found.left_out = filter_unprotected(others, &record, &sandbox.path);
        found.force_added = forced.into_iter().collect();
        found.withheld.sort();
        found.withheld.dedup();
        Ok(found)
    }

    /// The ignored files of a captured sandbox that are not in the captured tree.
    pub(crate) fn list_left_out_files(
        &self,
        key: &SandboxKey<'_>,
        sandbox: &Sandbox,
    ) -> Result<Vec<IgnoredPath>, SandboxError> {
        let record = IgnoredRecord::read(sandbox)?;
        let git = self.git_in_sandbox(key, sandbox).reading_pipes_as_empty();
        let (_, others) = list_ignored(&git)?;
        Ok(filter_unprotected(others, &record, &sandbox.path))
    }

    /// Records the ignored files of work that is not captured, such as a failed run, as the
    /// agent's.
    pub fn record_ignored_files(
        &self,
        key: &SandboxKey<'_>,
        epoch: Epoch,
    ) -> Result<(), SandboxError> {
        let entered = self.sandboxes.occupy_sandbox(key, epoch)?;
        let found = IgnoredFiles {
            left_out: self.list_left_out_files(key, &entered.sandbox)?,
            ..IgnoredFiles::default()
        };
        self.record_left_out_files(&entered.sandbox, &found)
    }

    /// Records left-out files as the agent's, for the next holder.
    pub(crate) fn record_left_out_files(
        &self,
        sandbox: &Sandbox,
        found: &IgnoredFiles,
    ) -> Result<(), SandboxError> {
        let mut record = IgnoredRecord::read(sandbox)?;
        let mut made = BTreeSet::new();
        for one in &found.left_out {
            let inside = match one.is_directory {
                true => files_below(&sandbox.path, &one.path).unwrap_or_default(),
                false => vec![one.path.clone()],
            };
            made.extend(inside.into_iter().filter(|path| !record.is_protected(path)));
        }
        if record.made == made {
            return Ok(());
        }
        record.made = made;
        record.write(sandbox)
    }
}

/// Removes the paths that existed before the agent started.
fn filter_unprotected(
    paths: Vec<IgnoredPath>,
    record: &IgnoredRecord,
    root: &Path,
) -> Vec<IgnoredPath> {
    paths
        .into_iter()
        .filter(|one| !one.path.as_bytes().starts_with(AGENT_FILE_PREFIX))
        .filter(|one| !record.covers_path(one, root))
        .collect()
}

impl Sandbox {
    pub(crate) fn ignored_record_path(&self) -> PathBuf {
        self.index_path.with_extension("ignored")
    }
}

/// The directories above a path, outermost first.
fn parent_paths(path: &TreePath) -> impl Iterator<Item = TreePath> + '_ {
    let bytes = path.as_bytes();
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    ends.filter_map(|(end, _)| TreePath::new(&bytes[..end]).ok())
}

/// Lists ignored files: those in the index, and those that are not. A directory in which everything
/// is ignored is one entry.
fn list_ignored(git: &GitCommand) -> Result<(BTreeSet<TreePath>, Vec<IgnoredPath>), SandboxError> {
    let output = git.run(&[
        "ls-files",
        "-z",
        "-t",
        "--cached",
        "--others",
        "--ignored",
        "--exclude-standard",
        "--directory",
    ])?;
    let (mut tracked, mut others) = (BTreeSet::new(), BTreeMap::new());
    for line in git::split_nul_fields(&output) {
        let Some((kind, name)) = line.split_first_chunk::<2>() else {
            continue;
        };
        let is_directory = name.ends_with(b"/");
        let name = name.strip_suffix(b"/").unwrap_or(name);
        // A name that a tree cannot have cannot be in a result.
        let Ok(path) = TreePath::new(name) else {
            continue;
        };
        match kind {
            b"? " => {
                others.insert(path, is_directory);
            }
            _ => {
                tracked.insert(path);
            }
        }
    }
    // git lists some files inside an ignored directory in addition to the directory.
    let listed: Vec<IgnoredPath> = others
        .iter()
        .filter(|(path, _)| !parent_paths(path).any(|parent| others.contains_key(&parent)))
        .map(|(path, is_directory)| IgnoredPath {
            path: path.clone(),
            is_directory: *is_directory,
        })
        .collect();
    Ok((tracked, listed))
}

/// Paths in the index that the commit does not have.
fn list_added_paths(git: &GitCommand, base: &ObjectId) -> Result<BTreeSet<TreePath>, SandboxError> {
    let output = git.run(&[
        "diff-index",
        "--cached",
        "--no-renames",
        "--diff-filter=A",
        "--name-only",
        "-z",
        base.as_str(),
    ])?;
    let paths = git::split_nul_fields(&output).map(|path| Ok(TreePath::new(path)?));
    paths.collect()
}

fn add_to_index(git: &GitCommand, paths: &[TreePath]) -> Result<(), SandboxError> {
    update_index(git, &["--add", "--replace"], paths)
}

fn remove_from_index(git: &GitCommand, paths: &[TreePath]) -> Result<(), SandboxError> {
    update_index(git, &["--force-remove"], paths)
}

fn update_index(
    git: &GitCommand,
    options: &[&str],
    paths: &[TreePath],
) -> Result<(), SandboxError> {
    if paths.is_empty() {
        return Ok(());
    }
    let mut input = Vec::new();
    for path in paths {
        input.extend(path.as_bytes());
        input.push(0);
    }
    let arguments = [&["update-index"], options, &["-z", "--stdin"]].concat();
    git.run_with_input(&arguments, &input).map(drop)
}

/// The files and symlinks below a directory. Does not follow symlinks. `None` if there are too many
/// to list.
pub(crate) fn files_below(root: &Path, directory: &TreePath) -> Option<Vec<TreePath>> {
    use std::os::unix::ffi::OsStrExt;
    let mut found = Vec::new();
    let mut directories = vec![directory.clone()];
    while let Some(directory) = directories.pop() {
        let entries = std::fs::read_dir(files::join_tree_path(root, &directory));
        for entry in entries.into_iter().flatten().flatten() {
            let mut name = directory.as_bytes().to_vec();
            name.push(b'/');
            name.extend(entry.file_name().as_bytes());
            // Paths inside a nested `.git` are not valid tree paths.
            let (Ok(path), Ok(file_type)) = (TreePath::new(name), entry.file_type()) else {
                continue;
            };
            if file_type.is_dir() {
                directories.push(path);
            } else {
                found.push(path);
            }
            if found.len() + directories.len() > MAX_LISTED_PER_DIRECTORY {
                return None;
            }
        }
    }
    Some(found)
}

/// The type of the file at a path; `None` if a symlink is on the way to it.
fn read_file_type(root: &Path, path: &TreePath) -> Option<std::fs::FileType> {
    PathHandle::open(root, path).ok()?;
    let metadata = std::fs::symlink_metadata(files::join_tree_path(root, path)).ok()?;
    Some(metadata.file_type())
}

/// The names and modes in the agent's own index; `None` if it has no readable index.
fn read_agent_index(
    vault: &Vault,
    sandbox: &Sandbox,
) -> Result<Option<BTreeMap<TreePath, String>>, SandboxError> {
    let agent_git_dir = sandbox.path.join(".git");
    if !files::is_directory(&agent_git_dir) {
        return Ok(None);
    }
    let listed = list_index(vault, sandbox.base.object_format(), &agent_git_dir)?;
    // A name that leads out of the tree is not part of the work.
    let named = |entry: IndexEntry| Some((TreePath::new(entry.name).ok()?, entry.mode));
    Ok(listed.map(|listed| listed.into_iter().filter_map(named).collect()))
}

/// An index entry; its name is not validated.
pub(crate) struct IndexEntry {
    pub(crate) name: Vec<u8>,
    mode: String,
}

/// Lists the index of an agent's repository; `None` if it cannot be read.
pub(crate) fn list_index(
    vault: &Vault,
    format: &str,
    agent_git_dir: &Path,
) -> Result<Option<Vec<IndexEntry>>, SandboxError> {
    // Runs in a scratch repository, where nothing but the index comes from the agent.
    let scratch = vault.new_scratch_dir();
    vault::create_bare_repository(&scratch.0, format)?;
    let index = scratch.0.join("index");
    if !copy_index_file(&agent_git_dir.join("index"), &index)? {
        return Ok(None);
    }
    // With a split index, most entries are in a shared file beside it.
    for name in files::list_names::<String>(agent_git_dir)? {
        if name.starts_with("sharedindex.") {
            copy_index_file(&agent_git_dir.join(&name), &scratch.0.join(&name))?;
        }
    }
    let git = GitCommand::at_git_dir(vault.git_env(), &scratch.0).with_index(&index);
    let output = git.try_run(&["ls-files", "--stage", "--sparse", "-z"])?;
    if output.exit_code != 0 {
        return Ok(None);
    }
    let mut found = Vec::new();
    for line in git::split_nul_fields(&output.stdout) {
        let Some(tab) = line.iter().position(|byte| *byte == b'\t') else {
            continue;
        };
        let mode = line.split(|byte| *byte == b' ').next().unwrap_or_default();
        found.push(IndexEntry {
            name: line[tab + 1..].to_vec(),
            mode: String::from_utf8_lossy(mode).into_owned(),
        });
    }
    Ok(Some(found))
}

/// Copies a file of the agent's repository. Returns `false` if it is not a regular file or too
/// large.
fn copy_index_file(from: &Path, to: &Path) -> Result<bool, SandboxError> {
    // Non-blocking: it may be a pipe without a writer.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(source) = rustix::fs::open(from, flags, Mode::empty()) else {
        return Ok(false);
    };
    let source = std::fs::File::from(source);
    let is_regular = source
        .metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.len() <= MAX_INDEX_BYTES);
    if !is_regular {
        return Ok(false);
    }
    let mut copy = crate::files::create_private_file(to).while_being("written", to)?;
    let copied = std::io::copy(&mut source.take(MAX_INDEX_BYTES), &mut copy);
    copied.while_being("copied", from)?;
    Ok(true)
}
