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

use crate::error::Doing;
use crate::files::Spot;
use crate::ignored::IndexEntry;
use crate::room::{Room, Sandbox, SitePlace, Workshop};
use crate::vault::Vault;
use crate::{SandboxError, checkout, files, ignored, repository, supervise};

/// How long a lock may be held by somebody who only looks.
const PATIENCE: Duration = Duration::from_millis(500);

/// Most files of refs and reflogs that are copied, and most bytes of each.
const MOST_FILES: usize = 20_000;
const MOST_BYTES: u64 = 64 * 1024 * 1024;

/// The largest index that is copied.
const LARGEST_INDEX: u64 = 1024 * 1024 * 1024;

/// The largest configuration that is looked at.
const LARGEST_CONFIG: u64 = 64 * 1024;

/// Most files of a sandbox that are looked through for repositories.
const MOST_ENTRIES: usize = 10_000_000;

/// Most directories of one kind that are named.
const MOST_NAMED: usize = 20;

/// A sandbox as a person finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opened {
    /// No git command run there executes what an agent wrote.
    Clean(Remarks),
    /// Somebody works there: its repository is theirs, with whatever they configured.
    InUse,
}

/// What a person should know of a sandbox that was opened; paths are below it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remarks {
    /// Repositories whose `.git` was set aside because something in it could run.
    pub set_aside: Vec<PathBuf>,
    /// Directories that git takes for bare repositories, with whatever they configure.
    pub bare: Vec<PathBuf>,
}

/// Written once a sandbox is open, for the holder it was opened after: a later one makes it stale.
#[derive(Debug, Serialize, Deserialize)]
struct OpenMarker {
    held_by: Epoch,
    remarks: Remarks,
}

impl Workshop {
    /// Opens the newest sandbox of a resource for a person, if there is one. Whoever holds it says so by their
    /// epoch; otherwise it is opened only if nobody is in it. Repeating it changes nothing until somebody else has
    /// worked there.
    pub fn open_for_person(
        &self,
        room: &Room<'_>,
        holder: Option<Epoch>,
    ) -> Result<Option<Opened>, SandboxError> {
        let Some(found) = self.current(room)?.filter(Sandbox::is_there) else {
            return Ok(None);
        };
        let _alone = match holder {
            Some(_) => None,
            None => match supervise::take_alone(&found.lock(), PATIENCE)? {
                Some(alone) => Some(alone),
                None => return Ok(Some(Opened::InUse)),
            },
        };
        // Looked at again: somebody may have taken it over before the lock was ours.
        let Some(mut sandbox) = self.current(room)?.filter(Sandbox::is_there) else {
            return Ok(None);
        };
        if holder.is_some_and(|epoch| epoch != sandbox.held_by) || sandbox.path != found.path {
            return Ok(Some(Opened::InUse));
        }
        let mark = sandbox.index.with_extension("open");
        if let Some(mark) = read_mark(&mark).filter(|mark| mark.held_by == sandbox.held_by) {
            return Ok(Some(Opened::Clean(mark.remarks)));
        }
        let aside = free_name(&sandbox)?;
        let was_given = sandbox.still_has_given_repository();
        let keeps_modules = self.exchange_repository(room, &sandbox, &aside)?;
        sandbox.exchanged_repository(was_given);
        self.declare(room, &sandbox)?;
        let vault = self.vault(room);
        let inspector = Inspector::of(&vault, &sandbox);
        let remarks = inspector.disarm_nested(&aside, keeps_modules)?;
        let held_by = sandbox.held_by;
        let text = serde_json::to_vec(&OpenMarker {
            held_by,
            remarks: remarks.clone(),
        })
        .expect("BUG: a mark always encodes");
        files::write_whole(&mark, &text)?;
        Ok(Some(Opened::Clean(remarks)))
    }

    /// Puts a clean repository in the place of the agent's. Says whether those of submodules are in it.
    fn exchange_repository(
        &self,
        room: &Room<'_>,
        sandbox: &Sandbox,
        aside: &Path,
    ) -> Result<bool, SandboxError> {
        let theirs = sandbox.path.join(".git");
        let is_repository = files::is_directory(&theirs);
        let mut lenders = objects_set_aside(sandbox)?;
        if is_repository && files::is_directory(&theirs.join("objects")) {
            // Where they will be once it is exchanged.
            lenders.push(aside.join("objects"));
        }
        let branch = match &room.site.place {
            SitePlace::Git { target, .. } => target.as_str(),
            SitePlace::Dir { .. } => "refs/heads/main",
        };
        let (vault, users) = (self.vault(room), self.repository(room.site)?);
        checkout::give_repository_at(&vault, &users, sandbox, branch, aside, &lenders)?;
        let inspector = Inspector::of(&vault, sandbox);
        if is_repository {
            copy_data(&theirs, aside, &inspector)?;
        }
        exchange(aside, &theirs)?;
        let (modules, place) = (aside.join("modules"), theirs.join("modules"));
        if !is_repository
            || !files::is_directory(&modules)
            || !inspector.are_inert(&modules, &place)?
        {
            return Ok(false);
        }
        std::fs::rename(&modules, &place).doing("moved", &modules)?;
        Ok(true)
    }
}

fn read_mark(path: &Path) -> Option<OpenMarker> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

/// A name beside the sandbox that nothing has yet.
fn free_name(sandbox: &Sandbox) -> Result<PathBuf, SandboxError> {
    let taken = set_aside(sandbox)?;
    let number = taken.iter().map(|(number, _)| number + 1).max();
    Ok(sandbox
        .index
        .with_extension(format!("set-aside-{}", number.unwrap_or(1))))
}

/// The repositories that were set aside before, with their numbers.
fn set_aside(sandbox: &Sandbox) -> Result<Vec<(u32, PathBuf)>, SandboxError> {
    let (Some(directory), Some(name)) = (sandbox.path.parent(), sandbox.path.file_name()) else {
        return Ok(Vec::new());
    };
    let start = format!("{}.set-aside-", name.to_string_lossy());
    let names = files::names_in::<String>(directory)?.into_iter();
    let numbered = names.filter_map(|name| {
        let number = name.strip_prefix(&start)?.parse().ok()?;
        Some((number, directory.join(name)))
    });
    Ok(numbered.collect())
}

/// The same by their paths alone.
pub(crate) fn repositories_set_aside(sandbox: &Sandbox) -> Result<Vec<PathBuf>, SandboxError> {
    let repositories = set_aside(sandbox)?.into_iter().map(|(_, path)| path);
    // A link in the place of a repository leads wherever the agent wanted.
    Ok(repositories
        .filter(|path| files::is_directory(path))
        .collect())
}

/// The objects in them, which whoever works in the sandbox borrows.
pub(crate) fn objects_set_aside(sandbox: &Sandbox) -> Result<Vec<PathBuf>, SandboxError> {
    let repositories = repositories_set_aside(sandbox)?.into_iter();
    let objects = repositories.map(|path| path.join("objects"));
    Ok(objects.filter(|path| files::is_directory(path)).collect())
}

/// Exchanges two paths; the second may be absent.
fn exchange(one: &Path, other: &Path) -> Result<(), SandboxError> {
    if std::fs::symlink_metadata(other).is_err() {
        return std::fs::rename(one, other).doing("moved", one);
    }
    let exchanged = rustix::fs::renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE);
    exchanged.doing("exchanged", other)
}

/// Copies what is data of an agent's repository: where it is, its refs and their history, its index.
fn copy_data(theirs: &Path, ours: &Path, inspector: &Inspector<'_>) -> Result<(), SandboxError> {
    if let Some(head) =
        read_plain(&theirs.join("HEAD"), LARGEST_CONFIG)?.filter(|head| is_ref(head))
    {
        write(&ours.join("HEAD"), &head)?;
    }
    if let Some(packed) = read_plain(&theirs.join("packed-refs"), MOST_BYTES)? {
        write(&ours.join("packed-refs"), &packed)?;
    }
    let mut left = MOST_FILES;
    copy_files(theirs, ours, Path::new("refs"), &mut left, &is_ref)?;
    copy_files(theirs, ours, Path::new("logs"), &mut left, &|_| true)?;
    if !inspector.has_safe_index(theirs)? {
        return Ok(());
    }
    // git may keep most of an index in a file beside it.
    let names = entries(theirs)?.into_iter().map(|(name, _)| name);
    for name in names {
        let text = name.to_string_lossy();
        if (text == "index" || text.starts_with("sharedindex."))
            && let Some(index) = read_plain(&theirs.join(&name), LARGEST_INDEX)?
        {
            write(&ours.join(&name), &index)?;
        }
    }
    Ok(())
}

/// Is this what git writes for a ref?
fn is_ref(content: &[u8]) -> bool {
    let text = content.trim_ascii_end();
    let is_hash = matches!(text.len(), 40 | 64) && text.iter().all(u8::is_ascii_hexdigit);
    is_hash || text.starts_with(b"ref: refs/")
}

/// Copies the plain files below a directory that look right.
fn copy_files(
    from: &Path,
    to: &Path,
    below: &Path,
    left: &mut usize,
    looks_right: &dyn Fn(&[u8]) -> bool,
) -> Result<(), SandboxError> {
    if !files::is_directory(&from.join(below)) {
        return Ok(());
    }
    let mut directories = vec![below.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in entries(&from.join(&directory))? {
            let (name, kind) = entry;
            let path = directory.join(&name);
            if kind.is_dir() {
                directories.push(path);
            } else if kind.is_file() && *left > 0 {
                *left -= 1;
                let content = read_plain(&from.join(&path), MOST_BYTES)?;
                let Some(content) = content.filter(|content| looks_right(content)) else {
                    continue;
                };
                let place = to.join(&directory);
                std::fs::create_dir_all(&place).doing("made", &place)?;
                write(&to.join(&path), &content)?;
            }
        }
    }
    Ok(())
}

fn write(path: &Path, content: &[u8]) -> Result<(), SandboxError> {
    std::fs::write(path, content).doing("written", path)
}

/// A plain file that is not too large; a link is not followed.
pub(crate) fn read_plain(path: &Path, most: u64) -> Result<Option<Vec<u8>>, SandboxError> {
    let no_follow = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(no_follow.bits()).unwrap_or_default();
    let Ok(file) = OpenOptions::new().read(true).custom_flags(flags).open(path) else {
        return Ok(None);
    };
    let is_plain = |file: &File| {
        let metadata = file.metadata();
        metadata.is_ok_and(|metadata| metadata.is_file() && metadata.len() <= most)
    };
    if !is_plain(&file) {
        return Ok(None);
    }
    let mut content = Vec::new();
    file.take(most)
        .read_to_end(&mut content)
        .doing("read", path)?;
    Ok(Some(content))
}

/// What is in a directory, links not followed. One that an agent closed is opened: it is the person's.
fn entries(directory: &Path) -> Result<Vec<(std::ffi::OsString, std::fs::FileType)>, SandboxError> {
    let listed = std::fs::read_dir(directory).or_else(|_| {
        let mode = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(directory, mode)?;
        std::fs::read_dir(directory)
    });
    let mut found = Vec::new();
    for entry in listed.doing("read", directory)? {
        let entry = entry.doing("read", directory)?;
        let kind = entry.file_type().doing("read", directory)?;
        found.push((entry.file_name(), kind));
    }
    Ok(found)
}

/// Looks at repositories of an agent's before a person runs git in them.
struct Inspector<'a> {
    vault: &'a Vault,
    /// The object format of the sandbox.
    format: &'a str,
    /// The sandbox.
    root: &'a Path,
}

impl<'a> Inspector<'a> {
    fn of(vault: &'a Vault, sandbox: &'a Sandbox) -> Self {
        Self {
            vault,
            format: sandbox.base.format(),
            root: &sandbox.path,
        }
    }

    /// Sets the `.git` of every repository below a sandbox aside in which something could run.
    fn disarm_nested(&self, aside: &Path, keeps_modules: bool) -> Result<Remarks, SandboxError> {
        let root = self.root;
        let mut remarks = Remarks::default();
        let mut directories = vec![root.to_owned()];
        let (mut seen, mut moved) = (0, 0);
        while let Some(directory) = directories.pop() {
            let listed = entries(&directory)?;
            seen += listed.len();
            if seen > MOST_ENTRIES {
                return Err(SandboxError::BadPlace {
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
            if remarks.bare.len() > MOST_NAMED {
                return Err(SandboxError::BadPlace {
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
                if is_git && !self.is_harmless(&path, *kind, keeps_modules)? {
                    moved += 1;
                    let place =
                        aside.with_extension(format!("{}-nested-{moved}", extension(aside)));
                    std::fs::rename(&path, &place).doing("moved", &path)?;
                    if remarks.set_aside.len() < MOST_NAMED {
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
    fn is_harmless(
        &self,
        git: &Path,
        kind: std::fs::FileType,
        keeps_modules: bool,
    ) -> Result<bool, SandboxError> {
        if kind.is_dir() {
            return self.is_inert(git, git);
        }
        if !kind.is_file() || !keeps_modules {
            return Ok(false);
        }
        // A submodule's: its repository is with those that were looked at.
        let content = read_plain(git, LARGEST_CONFIG)?.unwrap_or_default();
        let Some(target) = content.strip_prefix(b"gitdir: ") else {
            return Ok(false);
        };
        let target = repository::as_path(target.trim_ascii_end());
        let target = plain(&git.parent().unwrap_or(self.root).join(target));
        let modules = plain(self.root).join(".git/modules");
        Ok(target.starts_with(&modules) && target != modules && self.is_inert(&target, &target)?)
    }

    /// Are all repositories below this directory inert, once it is at that place? One that leads elsewhere by a link is
    /// not.
    fn are_inert(&self, modules: &Path, place: &Path) -> Result<bool, SandboxError> {
        let mut directories = vec![modules.to_owned()];
        let mut seen = 0;
        while let Some(directory) = directories.pop() {
            let listed = entries(&directory)?;
            seen += listed.len();
            if seen > MOST_ENTRIES || listed.iter().any(|(_, kind)| kind.is_symlink()) {
                return Ok(false);
            }
            let is_repository = listed
                .iter()
                .any(|(name, _)| name == "HEAD" || name == "config");
            let below = directory.strip_prefix(modules).unwrap_or(&directory);
            if is_repository && !self.is_inert(&directory, &place.join(below))? {
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
    fn is_inert(&self, repository: &Path, place: &Path) -> Result<bool, SandboxError> {
        const RUNS: &[&str] = &[
            "config.worktree",
            "commondir",
            "rebase-merge",
            "rebase-apply",
            "sequencer",
        ];
        if !files::is_directory(repository) {
            return Ok(false);
        }
        let listed = entries(repository)?;
        if listed
            .iter()
            .any(|(name, _)| RUNS.iter().any(|runs| name == runs))
        {
            return Ok(false);
        }
        if let Some((_, kind)) = listed.iter().find(|(name, _)| name == "hooks") {
            let is_sample =
                |name: &OsStr| name.to_str().is_some_and(|name| name.ends_with(".sample"));
            if !kind.is_dir() {
                return Ok(false);
            }
            let mut hooks = entries(&repository.join("hooks"))?.into_iter();
            if hooks.any(|(name, _)| !is_sample(&name)) {
                return Ok(false);
            }
        }
        if !self.has_safe_index(repository)? {
            return Ok(false);
        }
        match listed.iter().find(|(name, _)| name == "config") {
            None => Ok(true),
            Some(_) => {
                let config = read_plain(&repository.join("config"), LARGEST_CONFIG)?;
                let text = config.and_then(|config| String::from_utf8(config).ok());
                let is_inside = |worktree: &str| self.is_inside(&place.join(worktree));
                Ok(text.is_some_and(|text| is_inert_config(&text, &is_inside)))
            }
        }
    }

    /// Does the index of a repository name only paths that can be in a tree? git believes the names in an index, and
    /// writes files by them: into `.git`, or outside.
    fn has_safe_index(&self, repository: &Path) -> Result<bool, SandboxError> {
        if std::fs::symlink_metadata(repository.join("index")).is_err() {
            return Ok(true);
        }
        let listed = ignored::list_index(self.vault, self.format, repository)?;
        let is_safe = |entry: &IndexEntry| TreePath::new(entry.name.as_slice()).is_ok();
        Ok(listed.is_some_and(|listed| listed.iter().all(is_safe)))
    }

    /// Is this a directory of the sandbox, no part of a repository, and reached without a link?
    fn is_inside(&self, directory: &Path) -> bool {
        let directory = plain(directory);
        let Ok(below) = directory.strip_prefix(plain(self.root)) else {
            return false;
        };
        let Ok(path) = TreePath::new(below.as_os_str().as_bytes()) else {
            return false;
        };
        Spot::find(self.root, &path).is_ok()
            && std::fs::symlink_metadata(&directory).is_ok_and(|found| found.is_dir())
    }
}

fn extension(path: &Path) -> String {
    let extension = path.extension().unwrap_or_default();
    extension.to_string_lossy().into_owned()
}

/// A path without steps upwards, as it is written.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            Component::Normal(_) | Component::RootDir | Component::Prefix(_) => {
                plain.push(component);
            }
        }
    }
    plain
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
        if value.contains(['\\', '"', '\'']) || !says_nothing_to_run(&section, &key, value) {
            return false;
        }
        if (section.as_str(), key.as_str()) == ("core", "worktree") && !is_inside(value) {
            return false;
        }
    }
    true
}

fn says_nothing_to_run(section: &str, key: &str, value: &str) -> bool {
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
        assert!(is_ref(format!("{}\n", "a".repeat(40)).as_bytes()));
        assert!(is_ref(b"ref: refs/heads/main\n"));
        assert!(!is_ref(b"gitdir: elsewhere\n"));
        assert!(!is_ref(b"ref: ../../elsewhere\n"));
    }
}
