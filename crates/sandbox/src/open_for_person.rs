//! Opens a sandbox for a person: its repository gets a configuration of ours.
//!
//! Git runs what a repository's configuration, its hooks and an unfinished rebase say, and an agent can write all
//! of these in the repository it was given. So that repository is set aside and a clean one takes its place, with
//! the agent's refs, reflogs and index copied into it, and its objects borrowed: those are data. What is set aside
//! lies beside the sandbox and goes with it.
//!
//! Repositories below the sandbox are left alone if nothing in them can run, as with a submodule or a plain clone;
//! otherwise their `.git` is set aside as well. A directory that only looks like a bare repository may be a part
//! of the work: it is named.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use plan::Epoch;
use plan::changeset::TreePath;
use rustix::fs::{CWD, OFlags, RenameFlags};
use serde::{Deserialize, Serialize};

use crate::error::FileErrorContext;
use crate::files::PathHandle;
use crate::ignored::IndexEntry;
use crate::sandboxes::{ResourceLocation, Sandbox, SandboxKey, Sandboxes};
use crate::vault::Vault;
use crate::{SandboxError, checkout, files, ignored, repository, supervise};

/// How long a lock may be held by somebody who only looks.
const OPEN_LOCK_TIMEOUT: Duration = Duration::from_millis(500);

/// Most files of refs and reflogs that are copied, and most bytes of each.
const MAX_COPIED_FILES: usize = 20_000;
const MAX_COPIED_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// The largest index that is copied.
const MAX_COPIED_INDEX_BYTES: u64 = 1024 * 1024 * 1024;

/// The largest configuration that is looked at.
const MAX_CONFIG_BYTES: u64 = 64 * 1024;

/// Most files of a sandbox that are looked through for repositories.
const MAX_SCANNED_ENTRIES: usize = 10_000_000;

/// Most directories of one kind that are named.
const MAX_REPORTED_PATHS: usize = 20;

/// A sandbox as a person finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SandboxOpening {
    /// No git command run there executes what an agent wrote.
    Clean(NestedRepositories),
    /// Somebody works there: its repository is theirs, with whatever they configured.
    InUse,
}

/// What a person should know of a sandbox that was opened; paths are below it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NestedRepositories {
    /// Repositories whose `.git` was set aside because something in it could run.
    pub set_aside: Vec<PathBuf>,
    /// Directories that git takes for bare repositories, with whatever they configure.
    pub bare: Vec<PathBuf>,
}

/// Written once a sandbox is open, for the holder it was opened after: a later one makes it stale.
#[derive(Debug, Serialize, Deserialize)]
struct OpenMarker {
    held_by: Epoch,
    remarks: NestedRepositories,
}

impl Sandboxes {
    /// Opens the newest sandbox of a resource for a person, if there is one. Whoever holds it says so by their
    /// epoch; otherwise it is opened only if nobody is in it. Repeating it changes nothing until somebody else has
    /// worked there.
    pub fn open_for_person(
        &self,
        key: &SandboxKey<'_>,
        holder: Option<Epoch>,
    ) -> Result<Option<SandboxOpening>, SandboxError> {
        let Some(found) = self.current_sandbox(key)?.filter(Sandbox::exists) else {
            return Ok(None);
        };
        let _lock = match holder {
            Some(_) => None,
            None => match supervise::lock_exclusive(&found.lock_path(), OPEN_LOCK_TIMEOUT)? {
                Some(alone) => Some(alone),
                None => return Ok(Some(SandboxOpening::InUse)),
            },
        };
        // Looked at again: somebody may have taken it over before the lock was ours.
        let Some(mut sandbox) = self.current_sandbox(key)?.filter(Sandbox::exists) else {
            return Ok(None);
        };
        if holder.is_some_and(|epoch| epoch != sandbox.holder_epoch) || sandbox.path != found.path {
            return Ok(Some(SandboxOpening::InUse));
        }
        let marker_path = sandbox.index_path.with_extension("open");
        if let Some(mark) =
            read_open_marker(&marker_path).filter(|mark| mark.held_by == sandbox.holder_epoch)
        {
            return Ok(Some(SandboxOpening::Clean(mark.remarks)));
        }
        let aside = next_set_aside_path(&sandbox)?;
        let was_given = sandbox.still_has_given_repository();
        let keeps_modules = self.replace_repository(key, &sandbox, &aside)?;
        sandbox.record_replaced_repository(was_given);
        self.write_manifest(key, &sandbox)?;
        let vault = self.vault_for(key);
        let inspector = RepositoryInspector::new(&vault, &sandbox);
        let remarks = inspector.set_aside_unsafe_nested(&aside, keeps_modules)?;
        let held_by = sandbox.holder_epoch;
        let text = serde_json::to_vec(&OpenMarker {
            held_by,
            remarks: remarks.clone(),
        })
        .expect("BUG: a mark always encodes");
        files::write_atomically(&marker_path, &text)?;
        Ok(Some(SandboxOpening::Clean(remarks)))
    }

    /// Puts a clean repository in the place of the agent's. Says whether those of submodules are in it.
    fn replace_repository(
        &self,
        key: &SandboxKey<'_>,
        sandbox: &Sandbox,
        aside: &Path,
    ) -> Result<bool, SandboxError> {
        let agent_git_dir = sandbox.path.join(".git");
        let is_repository = files::is_directory(&agent_git_dir);
        let mut lenders = list_set_aside_objects(sandbox)?;
        if is_repository && files::is_directory(&agent_git_dir.join("objects")) {
            // Where they will be once it is exchanged.
            lenders.push(aside.join("objects"));
        }
        let branch = match &key.resource.location {
            ResourceLocation::Git { target, .. } => target.as_str(),
            ResourceLocation::Dir { .. } => "refs/heads/main",
        };
        let (vault, users) = (self.vault_for(key), self.open_repository(key.resource)?);
        checkout::create_agent_repository_at(&vault, &users, sandbox, branch, aside, &lenders)?;
        let inspector = RepositoryInspector::new(&vault, sandbox);
        if is_repository {
            copy_repository_data(&agent_git_dir, aside, &inspector)?;
        }
        exchange_paths(aside, &agent_git_dir)?;
        let (modules, place) = (aside.join("modules"), agent_git_dir.join("modules"));
        if !is_repository
            || !files::is_directory(&modules)
            || !inspector.are_modules_inert(&modules, &place)?
        {
            return Ok(false);
        }
        std::fs::rename(&modules, &place).while_being("moved", &modules)?;
        Ok(true)
    }
}

fn read_open_marker(path: &Path) -> Option<OpenMarker> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

/// A name beside the sandbox that nothing has yet.
fn next_set_aside_path(sandbox: &Sandbox) -> Result<PathBuf, SandboxError> {
    let taken = list_numbered_set_aside(sandbox)?;
    let number = taken.iter().map(|(number, _)| number + 1).max();
    Ok(sandbox
        .index_path
        .with_extension(format!("set-aside-{}", number.unwrap_or(1))))
}

/// The repositories that were set aside before, with their numbers.
fn list_numbered_set_aside(sandbox: &Sandbox) -> Result<Vec<(u32, PathBuf)>, SandboxError> {
    let (Some(directory), Some(name)) = (sandbox.path.parent(), sandbox.path.file_name()) else {
        return Ok(Vec::new());
    };
    let start = format!("{}.set-aside-", name.to_string_lossy());
    let names = files::list_names::<String>(directory)?.into_iter();
    let numbered = names.filter_map(|name| {
        let number = name.strip_prefix(&start)?.parse().ok()?;
        Some((number, directory.join(name)))
    });
    Ok(numbered.collect())
}

/// The same by their paths alone.
pub(crate) fn list_set_aside_repositories(sandbox: &Sandbox) -> Result<Vec<PathBuf>, SandboxError> {
    let repositories = list_numbered_set_aside(sandbox)?
        .into_iter()
        .map(|(_, path)| path);
    // A link in the place of a repository leads wherever the agent wanted.
    Ok(repositories
        .filter(|path| files::is_directory(path))
        .collect())
}

/// The objects in them, which whoever works in the sandbox borrows.
pub(crate) fn list_set_aside_objects(sandbox: &Sandbox) -> Result<Vec<PathBuf>, SandboxError> {
    let repositories = list_set_aside_repositories(sandbox)?.into_iter();
    let objects = repositories.map(|path| path.join("objects"));
    Ok(objects.filter(|path| files::is_directory(path)).collect())
}

/// Exchanges two paths; the second may be absent.
fn exchange_paths(one: &Path, other: &Path) -> Result<(), SandboxError> {
    if std::fs::symlink_metadata(other).is_err() {
        return std::fs::rename(one, other).while_being("moved", one);
    }
    let exchanged = rustix::fs::renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE);
    exchanged.while_being("exchanged", other)
}

/// Copies what is data of an agent's repository: where it is, its refs and their history, its index.
fn copy_repository_data(
    agent_git_dir: &Path,
    clean_git_dir: &Path,
    inspector: &RepositoryInspector<'_>,
) -> Result<(), SandboxError> {
    if let Some(head) = read_regular_file(&agent_git_dir.join("HEAD"), MAX_CONFIG_BYTES)?
        .filter(|head| is_ref_content(head))
    {
        write_file(&clean_git_dir.join("HEAD"), &head)?;
    }
    if let Some(packed) =
        read_regular_file(&agent_git_dir.join("packed-refs"), MAX_COPIED_FILE_BYTES)?
    {
        write_file(&clean_git_dir.join("packed-refs"), &packed)?;
    }
    let mut remaining_files = MAX_COPIED_FILES;
    copy_matching_files(
        agent_git_dir,
        clean_git_dir,
        Path::new("refs"),
        &mut remaining_files,
        &is_ref_content,
    )?;
    copy_matching_files(
        agent_git_dir,
        clean_git_dir,
        Path::new("logs"),
        &mut remaining_files,
        &|_| true,
    )?;
    if !inspector.has_safe_index_paths(agent_git_dir)? {
        return Ok(());
    }
    // git may keep most of an index in a file beside it.
    let names = list_entries(agent_git_dir)?
        .into_iter()
        .map(|(name, _)| name);
    for name in names {
        let text = name.to_string_lossy();
        if (text == "index" || text.starts_with("sharedindex."))
            && let Some(index) =
                read_regular_file(&agent_git_dir.join(&name), MAX_COPIED_INDEX_BYTES)?
        {
            write_file(&clean_git_dir.join(&name), &index)?;
        }
    }
    Ok(())
}

/// Is this what git writes for a ref?
fn is_ref_content(content: &[u8]) -> bool {
    let text = content.trim_ascii_end();
    let is_hash = matches!(text.len(), 40 | 64) && text.iter().all(u8::is_ascii_hexdigit);
    is_hash || text.starts_with(b"ref: refs/")
}

/// Copies the plain files below a directory that look right.
fn copy_matching_files(
    from: &Path,
    to: &Path,
    below: &Path,
    remaining_files: &mut usize,
    is_valid_content: &dyn Fn(&[u8]) -> bool,
) -> Result<(), SandboxError> {
    if !files::is_directory(&from.join(below)) {
        return Ok(());
    }
    let mut directories = vec![below.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in list_entries(&from.join(&directory))? {
            let (name, kind) = entry;
            let path = directory.join(&name);
            if kind.is_dir() {
                directories.push(path);
            } else if kind.is_file() && *remaining_files > 0 {
                *remaining_files -= 1;
                let content = read_regular_file(&from.join(&path), MAX_COPIED_FILE_BYTES)?;
                let Some(content) = content.filter(|content| is_valid_content(content)) else {
                    continue;
                };
                let place = to.join(&directory);
                std::fs::create_dir_all(&place).while_being("made", &place)?;
                write_file(&to.join(&path), &content)?;
            }
        }
    }
    Ok(())
}

fn write_file(path: &Path, content: &[u8]) -> Result<(), SandboxError> {
    std::fs::write(path, content).while_being("written", path)
}

/// A plain file that is not too large; a link is not followed.
pub(crate) fn read_regular_file(
    path: &Path,
    max_bytes: u64,
) -> Result<Option<Vec<u8>>, SandboxError> {
    let no_follow = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(no_follow.bits()).unwrap_or_default();
    let Ok(file) = OpenOptions::new().read(true).custom_flags(flags).open(path) else {
        return Ok(None);
    };
    let is_plain = |file: &File| {
        let metadata = file.metadata();
        metadata.is_ok_and(|metadata| metadata.is_file() && metadata.len() <= max_bytes)
    };
    if !is_plain(&file) {
        return Ok(None);
    }
    let mut content = Vec::new();
    file.take(max_bytes)
        .read_to_end(&mut content)
        .while_being("read", path)?;
    Ok(Some(content))
}

/// What is in a directory, links not followed. One that an agent closed is opened: it is the person's.
fn list_entries(
    directory: &Path,
) -> Result<Vec<(std::ffi::OsString, std::fs::FileType)>, SandboxError> {
    let listed = std::fs::read_dir(directory).or_else(|_| {
        let mode = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(directory, mode)?;
        std::fs::read_dir(directory)
    });
    let mut found = Vec::new();
    for entry in listed.while_being("read", directory)? {
        let entry = entry.while_being("read", directory)?;
        let kind = entry.file_type().while_being("read", directory)?;
        found.push((entry.file_name(), kind));
    }
    Ok(found)
}

/// Looks at repositories of an agent's before a person runs git in them.
struct RepositoryInspector<'a> {
    vault: &'a Vault,
    /// The object format of the sandbox.
    format: &'a str,
    /// The sandbox.
    root: &'a Path,
}

impl<'a> RepositoryInspector<'a> {
    fn new(vault: &'a Vault, sandbox: &'a Sandbox) -> Self {
        Self {
            vault,
            format: sandbox.base.object_format(),
            root: &sandbox.path,
        }
    }

    /// Sets the `.git` of every repository below a sandbox aside in which something could run.
    fn set_aside_unsafe_nested(
        &self,
        aside: &Path,
        keeps_modules: bool,
    ) -> Result<NestedRepositories, SandboxError> {
        let root = self.root;
        let mut remarks = NestedRepositories::default();
        let mut directories = vec![root.to_owned()];
        let (mut seen, mut moved) = (0, 0);
        while let Some(directory) = directories.pop() {
            let listed = list_entries(&directory)?;
            seen += listed.len();
            if seen > MAX_SCANNED_ENTRIES {
                return Err(SandboxError::UnusableLocation {
                    path: root.to_owned(),
                    why: "has too many files to look through for repositories".to_owned(),
                    hint: "Look at its changes instead: planwright diff ID".to_owned(),
                });
            }
            // Of any kind: git follows links here.
            let has = |name: &str| listed.iter().any(|(one, _)| one == name);
            let below = || {
                directory
                    .strip_prefix(root)
                    .unwrap_or(&directory)
                    .to_owned()
            };
            let is_bare = has("HEAD") && (has("commondir") || (has("objects") && has("refs")));
            if is_bare && directory != root {
                remarks.bare.push(below());
            }
            if remarks.bare.len() > MAX_REPORTED_PATHS {
                return Err(SandboxError::UnusableLocation {
                    path: root.to_owned(),
                    why: "has too many directories that git takes for bare repositories".to_owned(),
                    hint: "Look at its changes instead: planwright diff ID".to_owned(),
                });
            }
            for (name, kind) in &listed {
                let path = directory.join(name);
                let is_git = name.eq_ignore_ascii_case(OsStr::new(".git"));
                if is_git && directory == root {
                    continue;
                }
                if is_git && !self.is_harmless_git_entry(&path, *kind, keeps_modules)? {
                    moved += 1;
                    let place =
                        aside.with_extension(format!("{}-nested-{moved}", extension_text(aside)));
                    std::fs::rename(&path, &place).while_being("moved", &path)?;
                    if remarks.set_aside.len() < MAX_REPORTED_PATHS {
                        remarks.set_aside.push(below().join(name));
                    }
                } else if kind.is_dir() && !is_git {
                    directories.push(path);
                }
            }
        }
        Ok(remarks)
    }

    /// Can nothing in the repository that this `.git` stands for run?
    fn is_harmless_git_entry(
        &self,
        git: &Path,
        kind: std::fs::FileType,
        keeps_modules: bool,
    ) -> Result<bool, SandboxError> {
        if kind.is_dir() {
            return self.is_repository_inert(git, git);
        }
        if !kind.is_file() || !keeps_modules {
            return Ok(false);
        }
        // A submodule's: its repository is with those that were looked at.
        let content = read_regular_file(git, MAX_CONFIG_BYTES)?.unwrap_or_default();
        let Some(target) = content.strip_prefix(b"gitdir: ") else {
            return Ok(false);
        };
        let target = repository::path_from_bytes(target.trim_ascii_end());
        let target = normalize_path(&git.parent().unwrap_or(self.root).join(target));
        let modules = normalize_path(self.root).join(".git/modules");
        Ok(target.starts_with(&modules)
            && target != modules
            && self.is_repository_inert(&target, &target)?)
    }

    /// Are all repositories below this directory inert, once it is at that place? One that leads elsewhere by a link is
    /// not.
    fn are_modules_inert(&self, modules: &Path, place: &Path) -> Result<bool, SandboxError> {
        let mut directories = vec![modules.to_owned()];
        let mut seen = 0;
        while let Some(directory) = directories.pop() {
            let listed = list_entries(&directory)?;
            seen += listed.len();
            if seen > MAX_SCANNED_ENTRIES || listed.iter().any(|(_, kind)| kind.is_symlink()) {
                return Ok(false);
            }
            let is_repository = listed
                .iter()
                .any(|(name, _)| name == "HEAD" || name == "config");
            let below = directory.strip_prefix(modules).unwrap_or(&directory);
            if is_repository && !self.is_repository_inert(&directory, &place.join(below))? {
                return Ok(false);
            }
            let inside = listed.into_iter().filter(|(name, kind)| {
                kind.is_dir()
                    && !(is_repository && (name == "objects" || name == "refs" || name == "logs"))
            });
            directories.extend(inside.map(|(name, _)| directory.join(name)));
        }
        Ok(true)
    }

    /// Does nothing in this repository, once it is at that place, make git run anything or write outside of the sandbox?
    /// Only what is known to be harmless is taken for that.
    fn is_repository_inert(&self, repository: &Path, place: &Path) -> Result<bool, SandboxError> {
        const UNSAFE_ENTRIES: &[&str] = &[
            "config.worktree",
            "commondir",
            "rebase-merge",
            "rebase-apply",
            "sequencer",
        ];
        if !files::is_directory(repository) {
            return Ok(false);
        }
        let listed = list_entries(repository)?;
        if listed
            .iter()
            .any(|(name, _)| UNSAFE_ENTRIES.iter().any(|runs| name == runs))
        {
            return Ok(false);
        }
        if let Some((_, kind)) = listed.iter().find(|(name, _)| name == "hooks") {
            let is_sample =
                |name: &OsStr| name.to_str().is_some_and(|name| name.ends_with(".sample"));
            if !kind.is_dir() {
                return Ok(false);
            }
            let mut hooks = list_entries(&repository.join("hooks"))?.into_iter();
            if hooks.any(|(name, _)| !is_sample(&name)) {
                return Ok(false);
            }
        }
        if !self.has_safe_index_paths(repository)? {
            return Ok(false);
        }
        match listed.iter().find(|(name, _)| name == "config") {
            None => Ok(true),
            Some(_) => {
                let config = read_regular_file(&repository.join("config"), MAX_CONFIG_BYTES)?;
                let text = config.and_then(|config| String::from_utf8(config).ok());
                let is_inside = |worktree: &str| self.is_inside_sandbox(&place.join(worktree));
                Ok(text.is_some_and(|text| is_inert_config(&text, &is_inside)))
            }
        }
    }

    /// Does the index of a repository name only paths that can be in a tree? git believes the names in an index, and
    /// writes files by them: into `.git`, or outside.
    fn has_safe_index_paths(&self, repository: &Path) -> Result<bool, SandboxError> {
        if std::fs::symlink_metadata(repository.join("index")).is_err() {
            return Ok(true);
        }
        let listed = ignored::list_index(self.vault, self.format, repository)?;
        let is_safe = |entry: &IndexEntry| TreePath::new(entry.name.as_slice()).is_ok();
        Ok(listed.is_some_and(|listed| listed.iter().all(is_safe)))
    }

    /// Is this a directory of the sandbox, no part of a repository, and reached without a link?
    fn is_inside_sandbox(&self, directory: &Path) -> bool {
        let directory = normalize_path(directory);
        let Ok(below) = directory.strip_prefix(normalize_path(self.root)) else {
            return false;
        };
        let Ok(path) = TreePath::new(below.as_os_str().as_bytes()) else {
            return false;
        };
        PathHandle::open(self.root, &path).is_ok()
            && std::fs::symlink_metadata(&directory).is_ok_and(|found| found.is_dir())
    }
}

fn extension_text(path: &Path) -> String {
    let extension = path.extension().unwrap_or_default();
    extension.to_string_lossy().into_owned()
}

/// A path without steps upwards, as it is written.
fn normalize_path(path: &Path) -> PathBuf {
    let mut normalized = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                normalized.pop();
            }
            Component::CurDir => {}
            Component::Normal(_) | Component::RootDir | Component::Prefix(_) => {
                normalized.push(component);
            }
        }
    }
    normalized
}

/// Does a configuration say only what is known to run nothing? Read strictly: what git might understand otherwise
/// is not taken for harmless.
fn is_inert_config(text: &str, is_inside: &dyn Fn(&str) -> bool) -> bool {
    let mut section = String::new();
    for line in text.lines() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') || line.starts_with(';') {
            continue;
        }
        if let Some(header) = line.strip_prefix('[') {
            let Some(header) = header.strip_suffix(']') else {
                return false;
            };
            let name = header
                .split([' ', '\t', '"', '.'])
                .next()
                .unwrap_or_default();
            // git ends a header at the first bracket, and goes on reading the line.
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
            if name.is_empty() || !name.chars().all(is_name) {
                return false;
            }
            section = name.to_ascii_lowercase();
            let rest = header[name.len()..].trim();
            let quoted = rest.len() >= 2 && rest.starts_with('"') && rest.ends_with('"');
            let inside = rest.trim_matches('"');
            if !(rest.is_empty() || quoted && !inside.contains(['"', '\\', ']'])) {
                return false;
            }
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
        if value.contains(['\\', '"', '\'']) || !is_inert_setting(&section, &key, value) {
            return false;
        }
        if (section.as_str(), key.as_str()) == ("core", "worktree") && !is_inside(value) {
            return false;
        }
    }
    true
}

fn is_inert_setting(section: &str, key: &str, value: &str) -> bool {
    match (section, key) {
        (
            "core",
            "repositoryformatversion"
            | "filemode"
            | "bare"
            | "logallrefupdates"
            | "ignorecase"
            | "precomposeunicode"
            | "symlinks"
            | "worktree",
        )
        | ("extensions", "objectformat")
        | ("remote", "fetch")
        | ("branch", "remote" | "merge")
        | ("submodule", "active")
        | ("user", "name" | "email") => true,
        // A transport helper is a program.
        ("remote" | "submodule", "url") => !value.contains("::") && !value.starts_with('-'),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_inert_only_if_every_line_is_known_to_be() {
        let clone = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\
                     \tworktree = ../../../lib\n[remote \"origin\"]\n\turl = https://example.org/lib.git\n\
                     \tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch \"main\"]\n\tremote = origin\n\
                     \tmerge = refs/heads/main\n";
        let is_inert = |text: &str| is_inert_config(text, &|worktree| worktree == "../../../lib");
        assert!(is_inert(clone));
        assert!(is_inert(""));
        for line in [
            "[core]\nfsmonitor = ./evil",
            "[core]\nFSMonitor = ./evil",
            "[core] fsmonitor = ./evil",
            "[core]\nbare = false \\\n",
            "[core]\npager = evil",
            "[alias]\nst = !evil",
            "[include]\npath = evil",
            "[includeIf \"gitdir:/\"]\npath = evil",
            "[filter \"x\"]\nclean = evil",
            "[diff \"x\"]\ntextconv = evil",
            "[credential]\nhelper = evil",
            "[remote \"o\"]\nurl = ext::sh -c evil",
            "[remote \"o\"]\nuploadpack = evil",
            "[remote \"o]\n\turl = x",
            "[core]\nhooksPath = evil",
            "[core]\nsshCommand = evil",
            "nonsense",
            "[core]fsmonitor=tools/x]",
            "[core]fsmonitor=tools/x \"y\"]",
            "[]\nfilemode = true",
            "[core]\nworktree = /home/ada",
        ] {
            assert!(!is_inert(line), "{line}");
        }
    }

    #[test]
    fn refs_are_hashes_or_names_of_refs() {
        assert!(is_ref_content(format!("{}\n", "a".repeat(40)).as_bytes()));
        assert!(is_ref_content(b"ref: refs/heads/main\n"));
        assert!(!is_ref_content(b"gitdir: elsewhere\n"));
        assert!(!is_ref_content(b"ref: ../../elsewhere\n"));
    }
}
