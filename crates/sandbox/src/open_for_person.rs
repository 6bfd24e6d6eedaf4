//! Opens a sandbox for a person: replaces its repository by a clean one.
//!
//! git runs what a repository's configuration, hooks and unfinished rebases say, and an agent can
//! write all of these in its repository. So that repository is set aside and a clean one takes its
//! place. The agent's refs, reflogs and index are copied and its objects are borrowed, because
//! these are only data. The repository that is set aside lies beside the sandbox and is removed
//! with it.
//!
//! Repositories below the sandbox stay if nothing in them can run, as with a submodule or an
//! ordinary clone. Otherwise their `.git` is set aside as well. A directory that only looks like a
//! bare repository may be part of the work, so it is only reported.

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
use crate::local_resource::{ResourceLocation, SandboxKey};
use crate::sandboxes::{Sandbox, Sandboxes};
use crate::vault::Vault;
use crate::{LocationProblem, SandboxError, checkout, files, ignored, repository, supervise};

/// How long to wait for a lock that another process holds briefly.
const OPEN_LOCK_TIMEOUT: Duration = Duration::from_millis(500);

/// Limits for copying refs and reflogs.
const MAX_COPIED_FILES: usize = 20_000;
const MAX_COPIED_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// The largest index that is copied.
const MAX_COPIED_INDEX_BYTES: u64 = 1024 * 1024 * 1024;

/// The largest configuration that is checked.
const MAX_CONFIG_BYTES: u64 = 64 * 1024;

/// How many entries of a sandbox are searched for repositories.
const MAX_SCANNED_ENTRIES: usize = 10_000_000;

/// How many directories of one kind are reported.
const MAX_REPORTED_PATHS: usize = 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SandboxOpening {
    /// No git command that is run there executes what an agent wrote.
    Clean(NestedRepositories),
    /// An agent or a person works there. The repository is theirs, with their configuration.
    InUse,
}

/// What a person should know about an opened sandbox. Paths are relative to it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NestedRepositories {
    /// Repositories whose `.git` was set aside because something in it could run.
    pub set_aside: Vec<PathBuf>,
    /// Directories that git takes for bare repositories, with the configuration in them.
    pub bare: Vec<PathBuf>,
}

/// Written once a sandbox is open. A later holder makes it stale.
#[derive(Debug, Serialize, Deserialize)]
struct OpenMarker {
    held_by: Epoch,
    remarks: NestedRepositories,
}

impl Sandboxes {
    /// Opens the newest sandbox of a resource for a person, if there is one. A holder passes its
    /// epoch; without one, the sandbox is opened only if nobody uses it. Repeating it changes
    /// nothing until another holder has worked there.
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
                Some(lock) => Some(lock),
                None => return Ok(Some(SandboxOpening::InUse)),
            },
        };
        // Read again under the lock: another holder may have taken it over before.
        let Some(mut sandbox) = self.current_sandbox(key)?.filter(Sandbox::exists) else {
            return Ok(None);
        };
        if holder.is_some_and(|epoch| epoch != sandbox.holder_epoch) || sandbox.path != found.path {
            return Ok(Some(SandboxOpening::InUse));
        }
        let marker_path = sandbox.index_path.with_extension("open");
        if let Some(marker) =
            read_open_marker(&marker_path).filter(|marker| marker.held_by == sandbox.holder_epoch)
        {
            return Ok(Some(SandboxOpening::Clean(marker.remarks)));
        }
        let aside = next_set_aside_path(&sandbox)?;
        let was_given = sandbox.still_has_given_repository();
        let keeps_modules = self.replace_repository(key, &sandbox, &aside)?;
        sandbox.record_replaced_repository(was_given);
        self.write_manifest(key, &sandbox)?;
        let vault = self.vaults().vault_for(key);
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

    /// Replaces the agent's repository by a clean one. Returns whether the clean one has the
    /// submodules' repositories.
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
            // Their path after the exchange.
            lenders.push(aside.join("objects"));
        }
        let branch = match &key.resource.location {
            ResourceLocation::Git { target, .. } => target.as_str(),
            ResourceLocation::Dir { .. } => "refs/heads/main",
        };
        let (vault, repository) = (
            self.vaults().vault_for(key),
            self.open_repository(key.resource)?,
        );
        checkout::create_agent_repository_at(
            &vault,
            &repository,
            sandbox,
            branch,
            aside,
            &lenders,
        )?;
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

/// The next free path beside the sandbox.
fn next_set_aside_path(sandbox: &Sandbox) -> Result<PathBuf, SandboxError> {
    let taken = list_numbered_set_aside(sandbox)?;
    let number = taken.iter().map(|(number, _)| number + 1).max();
    Ok(sandbox
        .index_path
        .with_extension(format!("set-aside-{}", number.unwrap_or(1))))
}

/// The repositories that were set aside earlier, with their numbers.
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

pub(crate) fn list_set_aside_repositories(sandbox: &Sandbox) -> Result<Vec<PathBuf>, SandboxError> {
    let repositories = list_numbered_set_aside(sandbox)?
        .into_iter()
        .map(|(_, path)| path);
    // A symlink in place of a repository leads wherever the agent wanted.
    Ok(repositories
        .filter(|path| files::is_directory(path))
        .collect())
}

/// Their object directories, from which the sandbox borrows.
pub(crate) fn list_set_aside_objects(sandbox: &Sandbox) -> Result<Vec<PathBuf>, SandboxError> {
    let repositories = list_set_aside_repositories(sandbox)?.into_iter();
    let objects = repositories.map(|path| path.join("objects"));
    Ok(objects.filter(|path| files::is_directory(path)).collect())
}

/// Exchanges two paths atomically; the second may be missing.
fn exchange_paths(one: &Path, other: &Path) -> Result<(), SandboxError> {
    if std::fs::symlink_metadata(other).is_err() {
        return std::fs::rename(one, other).while_being("moved", one);
    }
    let exchanged = rustix::fs::renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE);
    exchanged.while_being("exchanged", other)
}

/// Copies the data of an agent's repository: HEAD, refs, reflogs and index.
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
    // With a split index, most entries are in a shared file beside it.
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

/// Is this the content of a ref file?
fn is_ref_content(content: &[u8]) -> bool {
    let text = content.trim_ascii_end();
    let is_hash = matches!(text.len(), 40 | 64) && text.iter().all(u8::is_ascii_hexdigit);
    is_hash || text.starts_with(b"ref: refs/")
}

/// Copies the regular files below a directory that have valid content.
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
                std::fs::create_dir_all(&place).while_being("created", &place)?;
                write_file(&to.join(&path), &content)?;
            }
        }
    }
    Ok(())
}

fn write_file(path: &Path, content: &[u8]) -> Result<(), SandboxError> {
    std::fs::write(path, content).while_being("written", path)
}

/// Reads a regular file; `None` if it is too large or something else. Does not follow symlinks.
pub(crate) fn read_regular_file(
    path: &Path,
    max_bytes: u64,
) -> Result<Option<Vec<u8>>, SandboxError> {
    let no_follow = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(no_follow.bits()).unwrap_or_default();
    let Ok(file) = OpenOptions::new().read(true).custom_flags(flags).open(path) else {
        return Ok(None);
    };
    let is_regular = |file: &File| {
        let metadata = file.metadata();
        metadata.is_ok_and(|metadata| metadata.is_file() && metadata.len() <= max_bytes)
    };
    if !is_regular(&file) {
        return Ok(None);
    }
    let mut content = Vec::new();
    file.take(max_bytes)
        .read_to_end(&mut content)
        .while_being("read", path)?;
    Ok(Some(content))
}

/// Lists a directory without following symlinks. An agent may have removed permissions; they are
/// restored, because the directory belongs to the user.
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

/// Checks an agent's repositories before a person runs git in them.
struct RepositoryInspector<'a> {
    vault: &'a Vault,
    /// The object format of the sandbox's repository.
    format: &'a str,
    /// The sandbox's working tree.
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

    /// Sets aside the `.git` of every nested repository in which something could run.
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
                    problem: LocationProblem::TooManyFiles,
                });
            }
            // Any file type: git follows symlinks here.
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
                    problem: LocationProblem::TooManyBareRepositories,
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

    /// Is the repository behind this `.git` file or directory inert?
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
        // A submodule: its repository was checked with the other modules.
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

    /// Will all repositories below this directory be inert at their final path? A symlink makes
    /// them unsafe.
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

    /// Can git run in this repository, at its final path, without executing anything or writing
    /// outside of the sandbox? Anything not known to be harmless counts as unsafe.
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

    /// Does the index have only valid tree paths? git trusts the names in an index and writes files
    /// to them, even into `.git` or outside of the working tree.
    fn has_safe_index_paths(&self, repository: &Path) -> Result<bool, SandboxError> {
        if std::fs::symlink_metadata(repository.join("index")).is_err() {
            return Ok(true);
        }
        let listed = ignored::list_index(self.vault, self.format, repository)?;
        let is_safe = |entry: &IndexEntry| TreePath::new(entry.name.as_slice()).is_ok();
        Ok(listed.is_some_and(|listed| listed.iter().all(is_safe)))
    }

    /// Is this a directory of the sandbox, outside of any repository, reached without a symlink?
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

/// Resolves `..` and `.` textually.
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

/// Does a configuration contain only settings that are known to run nothing? Parses strictly: a
/// line that git might read differently is unsafe.
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
            // git ends a header at the first bracket and parses the rest of the line.
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
        // A transport helper is a program that git runs.
        ("remote" | "submodule", "url") => !value.contains("::") && !value.starts_with('-'),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config_is_inert_only_if_every_line_is_known() {
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
    fn ref_content_is_a_hash_or_a_ref_name() {
        assert!(is_ref_content(format!("{}\n", "a".repeat(40)).as_bytes()));
        assert!(is_ref_content(b"ref: refs/heads/main\n"));
        assert!(!is_ref_content(b"gitdir: elsewhere\n"));
        assert!(!is_ref_content(b"ref: ../../elsewhere\n"));
    }
}
