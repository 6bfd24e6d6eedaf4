//! Ignored files: which of them are part of a result, which never are, and which are left out.
//!
//! An ignored file is part of the result if the agent committed or staged it in its own repository. Of that
//! repository only the names in its index are read, from a copy in a scratch repository, so that no
//! configuration of the agent's counts; what a file contains is always read from the working tree.
//!
//! What was ignored and there before the agent began (a copied `.env`, what a set-up made) is never captured,
//! whatever the agent's index or the ignore rules say by then. It is listed beside the sandbox, where agents
//! cannot write.

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
use crate::sandboxes::{Sandbox, SandboxKey, Sandboxes};
use crate::vault::{self, Vault};
use crate::{ObjectId, SandboxError};

/// The largest index of an agent's that is read: about a million files.
const MAX_INDEX_BYTES: u64 = 128 << 20;

/// How many files of one ignored directory are listed one by one; a larger one counts as a whole.
const MAX_LISTED_PER_DIRECTORY: usize = 10_000;

/// What agents keep for themselves among the files they work on: nobody's work.
const AGENT_FILE_PREFIX: &[u8] = b".aider";

/// The ignored files of a sandbox, by what becomes of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IgnoredFiles {
    /// In the result although an ignore rule matches them: the agent committed or staged them.
    pub force_added: Vec<TreePath>,
    /// The agent wanted them in the result, and they are not: they were there before it began.
    pub withheld: Vec<TreePath>,
    /// Made by the agent and not in the result.
    pub left_out: Vec<IgnoredPath>,
}

/// An ignored file, or a directory in which everything is ignored.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct IgnoredPath {
    /// Where.
    pub path: TreePath,
    /// Is it a directory?
    pub is_directory: bool,
}

impl fmt::Display for IgnoredPath {
    /// A directory has a slash at its end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = if self.is_directory { "/" } else { "" };
        write!(f, "{}{end}", self.path)
    }
}

/// How a holder finds its sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxCondition {
    /// Nobody has worked in it but those who made it ready.
    BeforeAnyAgent,
    /// Back at its base, with the ignored files of earlier holders.
    AtBase,
    /// As an earlier holder left it.
    AsLeft,
}

/// What is known beside a sandbox of its ignored files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct IgnoredRecord {
    /// The holder before whose work it was last looked.
    #[serde(default)]
    before: Option<Epoch>,
    /// There before an agent worked: never captured.
    #[serde(default)]
    protected: BTreeSet<TreePath>,
    /// The same of everything below these.
    #[serde(default)]
    protected_directories: BTreeSet<TreePath>,
    /// There when the work was last captured, and not before it: made by an agent.
    #[serde(default)]
    made: BTreeSet<TreePath>,
    /// There before an agent worked, below a submodule.
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

    /// Is all of this protected, as far as it can be listed?
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

impl Sandboxes {
    /// Lists the ignored files that are in a sandbox before its holder works in it: they are never captured.
    /// What agents made in it before stays theirs, unless the sandbox starts from its base again.
    pub fn protect_ignored_files(
        &self,
        key: &SandboxKey<'_>,
        sandbox: &Sandbox,
        condition: SandboxCondition,
    ) -> Result<(), SandboxError> {
        let from_base = condition == SandboxCondition::AtBase;
        let mut record = IgnoredRecord::read(sandbox)?;
        // Repeated for the same holder, the agent may have worked meanwhile.
        if record.before == Some(sandbox.holder_epoch) {
            return Ok(());
        }
        let git = self.git_in_sandbox(key, sandbox);
        let (_, others) = list_ignored(&git)?;
        let staged = match others.is_empty() || from_base {
            true => None,
            false => read_agent_index(&self.vault_for(key), sandbox)?,
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
            let is_agents = |path: &TreePath| {
                !from_base && (record.made.contains(path) || staged.contains_key(path))
            };
            let there: Vec<TreePath> = inside.into_iter().filter(|one| !is_agents(one)).collect();
            record.protected.extend(there);
        }
        if condition == SandboxCondition::BeforeAnyAgent {
            let below = self.list_submodule_writes(key, sandbox)?;
            record.below_submodules.extend(below);
        }
        record.before = Some(sandbox.holder_epoch);
        record.write(sandbox)
    }

    /// Refuses what was written below a submodule since the work began.
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

    /// Brings the engine's index, to which every file that is not ignored was added, to what the agent
    /// committed or staged of the ignored ones. Says what became of them.
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
            // The agent may have changed the rules by which they were ignored.
            let added = list_added_paths(git, base)?;
            let withheld = added.into_iter().filter(|path| record.is_protected(path));
            found.withheld.extend(withheld);
            remove_from_index(git, &found.withheld)?;
        }
        let (tracked, others) = list_ignored(git)?;
        if tracked.is_empty() && others.is_empty() {
            return Ok(found);
        }
        let staged = read_agent_index(&self.vault_for(key), sandbox)?;
        let added = list_added_paths(git, base)?;
        let mut forced: BTreeSet<TreePath> = added.intersection(&tracked).cloned().collect();
        if let Some(staged) = &staged {
            // What it takes out of its index goes, if it had it there.
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

    /// The ignored files of a sandbox that was captured which are not in what was captured.
    pub(crate) fn list_left_out_files(
        &self,
        key: &SandboxKey<'_>,
        sandbox: &Sandbox,
    ) -> Result<Vec<IgnoredPath>, SandboxError> {
        let record = IgnoredRecord::read(sandbox)?;
        let (_, others) = list_ignored(&self.git_in_sandbox(key, sandbox))?;
        Ok(filter_unprotected(others, &record, &sandbox.path))
    }

    /// Remembers the ignored files of work that is not captured, such as that of a failed run, as an agent's.
    pub fn record_ignored_files(
        &self,
        key: &SandboxKey<'_>,
        epoch: Epoch,
    ) -> Result<(), SandboxError> {
        let entered = self.occupy_sandbox(key, epoch)?;
        let found = IgnoredFiles {
            left_out: self.list_left_out_files(key, &entered.sandbox)?,
            ..IgnoredFiles::default()
        };
        self.record_left_out_files(&entered.sandbox, &found)
    }

    /// Remembers what an agent left out as its own, for the next holder.
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

/// Those of the paths that were not there before the agent began.
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
    /// What is known of its ignored files.
    pub(crate) fn ignored_record_path(&self) -> PathBuf {
        self.index_path.with_extension("ignored")
    }
}

/// The directories above a path.
fn parent_paths(path: &TreePath) -> impl Iterator<Item = TreePath> + '_ {
    let bytes = path.as_bytes();
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    ends.filter_map(|(end, _)| TreePath::new(&bytes[..end]).ok())
}

/// What is in the index and ignored, and what is ignored and not in the index: directories as a whole where
/// everything in them is.
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
        // A name that no tree can have cannot be in a result.
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
    // git lists some of what is in a directory beside the directory.
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

/// The paths in the index that a commit does not have.
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

/// The files and links below a directory, links not followed; none if there are too many to list.
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
            // What is in a repository of its own cannot be named from here.
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

/// What is at a path, if no link is on the way to it.
fn read_file_type(root: &Path, path: &TreePath) -> Option<std::fs::FileType> {
    PathHandle::open(root, path).ok()?;
    let metadata = std::fs::symlink_metadata(files::join_tree_path(root, path)).ok()?;
    Some(metadata.file_type())
}

/// The names and modes in the agent's own index; nothing if it has none that can be read.
fn read_agent_index(
    vault: &Vault,
    sandbox: &Sandbox,
) -> Result<Option<BTreeMap<TreePath, String>>, SandboxError> {
    let agent_git_dir = sandbox.path.join(".git");
    if !files::is_directory(&agent_git_dir) {
        return Ok(None);
    }
    let listed = list_index(vault, sandbox.base.object_format(), &agent_git_dir)?;
    // A name that leads out of the tree is nobody's work.
    let named = |entry: IndexEntry| Some((TreePath::new(entry.name).ok()?, entry.mode));
    Ok(listed.map(|listed| listed.into_iter().filter_map(named).collect()))
}

/// One entry of an index, as it is written there.
pub(crate) struct IndexEntry {
    pub(crate) name: Vec<u8>,
    mode: String,
}

/// The entries of the index in a repository of an agent's; nothing if it cannot be read.
pub(crate) fn list_index(
    vault: &Vault,
    format: &str,
    agent_git_dir: &Path,
) -> Result<Option<Vec<IndexEntry>>, SandboxError> {
    // In a repository of ours, where nothing but the index is the agent's.
    let scratch = vault.new_scratch_dir();
    vault::create_bare_repository(&scratch.0, format)?;
    let index = scratch.0.join("index");
    if !copy_index_file(&agent_git_dir.join("index"), &index)? {
        return Ok(None);
    }
    // git may keep most of an index in a file beside it.
    for name in files::list_names::<String>(agent_git_dir)? {
        if name.starts_with("sharedindex.") {
            copy_index_file(&agent_git_dir.join(&name), &scratch.0.join(&name))?;
        }
    }
    let git = GitCommand::at_git_dir(vault.git_env(), &scratch.0).with_index(&index);
    let answered = git.try_run(&["ls-files", "--stage", "--sparse", "-z"])?;
    if answered.exit_code != 0 {
        return Ok(None);
    }
    let mut found = Vec::new();
    for line in git::split_nul_fields(&answered.stdout) {
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

/// Copies a file of the agent's, unless it is no plain file or too large.
fn copy_index_file(from: &Path, to: &Path) -> Result<bool, SandboxError> {
    // Not blocking: it may be a pipe that nobody writes to.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(source) = rustix::fs::open(from, flags, Mode::empty()) else {
        return Ok(false);
    };
    let source = std::fs::File::from(source);
    let is_plain = source
        .metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.len() <= MAX_INDEX_BYTES);
    if !is_plain {
        return Ok(false);
    }
    let mut copy = crate::files::create_private_file(to).while_being("written", to)?;
    let copied = std::io::copy(&mut source.take(MAX_INDEX_BYTES), &mut copy);
    copied.while_being("copied", from)?;
    Ok(true)
}
