//! Files of a working tree, reached component by component without following links, and exchanged
//! whole.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use plan::changeset::TreePath;
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, RenameFlags};
use serde::{Deserialize, Serialize};

use crate::SandboxError;
use crate::error::FileErrorContext;

/// How a file is recognised without reading it: a save changes at least one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileStamp {
    inode: u64,
    size: u64,
    modified: i64,
    nanoseconds: i64,
}

impl FileStamp {
    /// The stamp of what is at a path; links are not followed.
    pub fn read(path: &Path) -> io::Result<Option<Self>> {
        match std::fs::symlink_metadata(path) {
            Ok(metadata) => Ok(Some(Self {
                inode: metadata.ino(),
                size: metadata.size(),
                modified: metadata.mtime(),
                nanoseconds: metadata.mtime_nsec(),
            })),
            Err(error) if is_not_found(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Nothing is there: neither the name, nor a directory to look for it in.
pub(crate) fn is_not_found(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Is this a directory, and not a link to one?
pub(crate) fn is_directory(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

/// The names in a directory that read as this, smallest first; none where there is no directory.
pub(crate) fn list_names<T: FromStr + Ord>(directory: &Path) -> Result<Vec<T>, SandboxError> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if is_not_found(&error) => return Ok(Vec::new()),
        Err(error) => return Err(error).while_being("read", directory),
    };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry.while_being("read", directory)?.file_name();
        found.extend(name.to_str().and_then(|name| name.parse::<T>().ok()));
    }
    found.sort();
    Ok(found)
}

/// Where a path of a tree lies below a directory.
pub(crate) fn join_tree_path(root: &Path, path: &TreePath) -> PathBuf {
    root.join(OsStr::from_bytes(path.as_bytes()))
}

/// What would be lost or hidden by writing a file here, if anything: a file nobody tracks, a link
/// or file where a directory is needed, a directory with other things in it. What is in `gone` will
/// have been removed by then.
pub(crate) fn find_obstruction(
    root: &Path,
    path: &TreePath,
    is_tracked: bool,
    removed_paths: &BTreeSet<&TreePath>,
) -> Result<Option<TreePath>, SandboxError> {
    let bytes = path.as_bytes();
    for (end, _) in bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
        let parent = TreePath::new(&bytes[..end])?;
        let parent_path = join_tree_path(root, &parent);
        match std::fs::symlink_metadata(&parent_path) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => return Ok((!removed_paths.contains(&parent)).then_some(parent)),
            Err(error) if is_not_found(&error) => return Ok(None),
            Err(error) => return Err(error).while_being("looked at", &parent_path),
        }
    }
    let file_path = join_tree_path(root, path);
    match std::fs::symlink_metadata(&file_path) {
        Ok(metadata) if metadata.is_dir() => {
            let left = has_remaining_entry(&file_path, path, removed_paths)
                .while_being("looked at", &file_path)?;
            // A directory goes with the last file in it; one that is empty already stays.
            let goes = removed_paths.iter().any(|one| {
                let inside = one.as_bytes().strip_prefix(path.as_bytes());
                inside.is_some_and(|inside| inside.starts_with(b"/"))
            });
            Ok((left || !goes).then(|| path.clone()))
        }
        Ok(_) => Ok((!is_tracked).then(|| path.clone())),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(error) => Err(error).while_being("looked at", &file_path),
    }
}

/// May files be exchanged in the directory of this path, as far as it is there?
pub(crate) fn check_directory_writable(root: &Path, path: &TreePath) -> Result<(), SandboxError> {
    let file_path = join_tree_path(root, path);
    let above = file_path.ancestors().skip(1);
    let mut above = above.take_while(|one| one.starts_with(root));
    match above.find(|one| is_directory(one)) {
        Some(directory) => {
            let write_and_enter = Access::WRITE_OK | Access::EXEC_OK;
            rustix::fs::access(directory, write_and_enter).while_being("written to", directory)
        }
        None => Ok(()),
    }
}

/// Is there anything in a directory that will not have been removed?
fn has_remaining_entry(
    directory: &Path,
    path: &TreePath,
    removed_paths: &BTreeSet<&TreePath>,
) -> io::Result<bool> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let mut name = path.as_bytes().to_vec();
        name.push(b'/');
        name.extend(entry.file_name().as_bytes());
        let Ok(inner) = TreePath::new(name) else {
            return Ok(true);
        };
        let left = if entry.file_type()?.is_dir() {
            has_remaining_entry(&entry.path(), &inner, removed_paths)?
        } else {
            !removed_paths.contains(&inner)
        };
        if left {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A file's directory, opened without following a link on the way, and its name in there.
pub(crate) struct PathHandle {
    directory: OwnedFd,
    name: Vec<u8>,
}

impl PathHandle {
    /// Opens the way to a path below a directory, making what is missing.
    pub fn open_or_create(root: &Path, path: &TreePath) -> io::Result<Self> {
        Self::open_components(root, path, true)
    }

    /// Opens the way to a path below a directory.
    pub fn open(root: &Path, path: &TreePath) -> io::Result<Self> {
        Self::open_components(root, path, false)
    }

    fn open_components(root: &Path, path: &TreePath, create_missing: bool) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let mut directory = rustix::fs::openat(CWD, root, flags, Mode::empty())?;
        let mut components: Vec<&[u8]> = path.as_bytes().split(|byte| *byte == b'/').collect();
        let name = components.pop().unwrap_or_default().to_vec();
        for component in components {
            let component = OsStr::from_bytes(component);
            if create_missing {
                match rustix::fs::mkdirat(&directory, component, Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            let flags = flags | OFlags::NOFOLLOW;
            directory = rustix::fs::openat(&directory, component, flags, Mode::empty())?;
        }
        Ok(Self { directory, name })
    }

    fn file_name(&self) -> &OsStr {
        OsStr::from_bytes(&self.name)
    }

    /// Exchanges this file with that one; both are whole at every moment.
    pub fn exchange_with(&self, other: &Path) -> io::Result<()> {
        self.rename_here(other, RenameFlags::EXCHANGE)
    }

    /// Moves a file here, unless something is here.
    pub fn move_here(&self, other: &Path) -> io::Result<()> {
        self.rename_here(other, RenameFlags::NOREPLACE)
    }

    /// Moves this file away, unless something is there.
    pub fn move_away(&self, other: &Path) -> io::Result<()> {
        rustix::fs::renameat_with(
            &self.directory,
            self.file_name(),
            CWD,
            other,
            RenameFlags::NOREPLACE,
        )?;
        Ok(())
    }

    /// Makes the directory's entries durable.
    pub fn sync_directory_entries(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.directory)?)
    }

    fn rename_here(&self, other: &Path, flags: RenameFlags) -> io::Result<()> {
        rustix::fs::renameat_with(CWD, other, &self.directory, self.file_name(), flags)?;
        Ok(())
    }
}

/// How a directory is opened that may hold anything.
const DIRECTORY_OPEN_FLAGS: OFlags = OFlags::DIRECTORY
    .union(OFlags::RDONLY)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOFOLLOW);

/// Opens a directory below another, component by component; nothing if one of them is missing. A link on the way is
/// an error.
pub(crate) fn open_directory_below(
    root: &Path,
    components: &[&str],
) -> io::Result<Option<OwnedFd>> {
    let root = rustix::fs::openat(CWD, root, DIRECTORY_OPEN_FLAGS, Mode::empty())?;
    open_directory_below_at(&root, components)
}

/// The same below an open one.
pub(crate) fn open_directory_below_at(
    root: &OwnedFd,
    components: &[&str],
) -> io::Result<Option<OwnedFd>> {
    let mut directory = root.try_clone()?;
    for component in components {
        directory = match open_directory_at(&directory, OsStr::new(component))? {
            Some(opened) => opened,
            None => return Ok(None),
        };
    }
    Ok(Some(directory))
}

/// Opens a directory in another; nothing if it is missing. A link, or anything else, is an error.
pub(crate) fn open_directory_at(above: &OwnedFd, name: &OsStr) -> io::Result<Option<OwnedFd>> {
    match rustix::fs::openat(above, name, DIRECTORY_OPEN_FLAGS, Mode::empty()) {
        Ok(opened) => Ok(Some(opened)),
        Err(rustix::io::Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The names in an open directory, in order; more than these are an error.
pub(crate) fn list_names_at(
    directory: &OwnedFd,
    max_names: usize,
) -> io::Result<Vec<std::ffi::OsString>> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        if names.len() >= max_names {
            return Err(io::Error::other("there are too many files in it"));
        }
        names.push(OsStr::from_bytes(name).to_owned());
    }
    names.sort();
    Ok(names)
}

/// The content of a plain file in a directory, nothing if there is none. A link, a pipe or a file of more bytes
/// than these is an error.
pub(crate) fn read_regular_file_at(
    directory: &OwnedFd,
    name: &OsStr,
    max_bytes: u64,
) -> io::Result<Option<Vec<u8>>> {
    // Not blocking: it may be a pipe that nobody writes to.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(directory, name, flags, Mode::empty()) {
        Ok(file) => std::fs::File::from(file),
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() > max_bytes {
        return Err(io::Error::other("not a plain file of the expected size"));
    }
    let mut content = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(file, max_bytes), &mut content)?;
    Ok(Some(content))
}

/// How deep a tree that is linked may be.
const MAX_LINK_TREE_DEPTH: usize = 32;

/// Links the plain files of a directory into a new one, copying where the file system cannot; links and the like are
/// left out. More files than are `left` are an error.
pub(crate) fn link_tree(
    above: &OwnedFd,
    name: &OsStr,
    copy: &Path,
    remaining_files: &mut usize,
) -> io::Result<()> {
    link_tree_at(above, name, copy, remaining_files, MAX_LINK_TREE_DEPTH)
}

fn link_tree_at(
    above: &OwnedFd,
    name: &OsStr,
    copy: &Path,
    remaining_files: &mut usize,
    depth: usize,
) -> io::Result<()> {
    // git keeps no objects that deep.
    if depth == 0 {
        return Ok(());
    }
    let Some(directory) = open_directory_at(above, name)? else {
        return Ok(());
    };
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(copy)?;
    for inner in list_names_at(&directory, *remaining_files)? {
        let metadata = rustix::fs::statat(&directory, &inner, AtFlags::SYMLINK_NOFOLLOW)?;
        let there = copy.join(&inner);
        match rustix::fs::FileType::from_raw_mode(metadata.st_mode) {
            rustix::fs::FileType::Directory => {
                link_tree_at(&directory, &inner, &there, remaining_files, depth - 1)?;
            }
            rustix::fs::FileType::RegularFile => {
                *remaining_files = remaining_files
                    .checked_sub(1)
                    .ok_or_else(|| io::Error::other("there are too many files in it"))?;
                link_or_copy(&directory, &inner, &there)?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn link_or_copy(directory: &OwnedFd, name: &OsStr, copy: &Path) -> io::Result<()> {
    match rustix::fs::linkat(directory, name, CWD, copy, AtFlags::empty()) {
        // What is there may be a link to somebody's file: it is not written to.
        Ok(()) | Err(rustix::io::Errno::EXIST) => return Ok(()),
        Err(_) => {}
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut source: std::fs::File =
        rustix::fs::openat(directory, name, flags, Mode::empty())?.into();
    let mut options = std::fs::File::options();
    let mut copy = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(copy)?;
    io::copy(&mut source, &mut copy).map(drop)
}

/// What came of copying one file.
pub(crate) enum CopyOutcome {
    /// It is there now, with so many bytes; also if it was there before.
    Bytes(u64),
    /// It is too large, or nothing that can be copied.
    Skipped,
}

/// What becomes of a file where a copy is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExistingFilePolicy {
    /// It stays, and the copy is not made.
    Keep,
    /// The copy takes its place.
    Replace,
}

impl PathHandle {
    /// Copies this file or link there. It is prepared `aside`, on the file system of the copy, so that no half of it is
    /// ever seen.
    pub fn copy_to(
        &self,
        copy: &Self,
        staged_copy: &Path,
        max_bytes: u64,
        existing: ExistingFilePolicy,
    ) -> io::Result<CopyOutcome> {
        let _ = std::fs::remove_file(staged_copy);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let source =
            match rustix::fs::openat(&self.directory, self.file_name(), flags, Mode::empty()) {
                Ok(source) => std::fs::File::from(source),
                Err(rustix::io::Errno::LOOP) => {
                    return self.copy_link_to(copy, staged_copy, existing);
                }
                Err(rustix::io::Errno::NOENT | rustix::io::Errno::NXIO) => {
                    return Ok(CopyOutcome::Skipped);
                }
                Err(error) => return Err(error.into()),
            };
        let metadata = source.metadata()?;
        if !metadata.is_file() || metadata.len() > max_bytes {
            return Ok(CopyOutcome::Skipped);
        }
        // Between two open files the system copies by reference where it can.
        let mut target = std::fs::File::create_new(staged_copy)?;
        let copied = io::copy(&mut io::Read::take(&source, max_bytes), &mut target)?;
        target.set_permissions(metadata.permissions())?;
        copy.place_copy(staged_copy, existing)?;
        Ok(CopyOutcome::Bytes(copied))
    }

    fn copy_link_to(
        &self,
        copy: &Self,
        staged_copy: &Path,
        existing: ExistingFilePolicy,
    ) -> io::Result<CopyOutcome> {
        let link = rustix::fs::readlinkat(&self.directory, self.file_name(), Vec::new())?;
        rustix::fs::symlinkat(&link, CWD, staged_copy)?;
        copy.place_copy(staged_copy, existing)?;
        Ok(CopyOutcome::Bytes(0))
    }

    /// What is in this file; nothing if it is none, or larger than that.
    pub fn read(&self, max_bytes: u64) -> io::Result<Option<Vec<u8>>> {
        // Not blocking: it may be a pipe that nobody writes to.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.directory, self.file_name(), flags, Mode::empty())?;
        let file = std::fs::File::from(file);
        let metadata = file.metadata()?;
        if !metadata.is_file() || metadata.len() > max_bytes {
            return Ok(None);
        }
        let mut content = Vec::new();
        io::Read::read_to_end(&mut io::Read::take(file, max_bytes), &mut content)?;
        Ok(Some(content))
    }

    fn place_copy(&self, other: &Path, existing: ExistingFilePolicy) -> io::Result<()> {
        match (self.move_here(other), existing) {
            (Err(error), ExistingFilePolicy::Keep)
                if error.kind() == io::ErrorKind::AlreadyExists =>
            {
                std::fs::remove_file(other)
            }
            (Err(error), ExistingFilePolicy::Replace)
                if error.kind() == io::ErrorKind::AlreadyExists =>
            {
                let replaced = rustix::fs::renameat(CWD, other, &self.directory, self.file_name());
                Ok(replaced?)
            }
            (result, _) => result,
        }
    }
}

/// Removes the directories on the way to a path that nothing is left in.
pub(crate) fn remove_empty_parents(root: &Path, path: &TreePath) {
    let bytes = path.as_bytes();
    let ends: Vec<usize> = bytes
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'/')
        .map(|(end, _)| end)
        .collect();
    for end in ends.into_iter().rev() {
        let Ok(parent) = TreePath::new(&bytes[..end]) else {
            return;
        };
        let Ok(spot) = PathHandle::open(root, &parent) else {
            return;
        };
        // That something is left in it is as good a reason to stop as any other.
        if rustix::fs::unlinkat(&spot.directory, spot.file_name(), AtFlags::REMOVEDIR).is_err() {
            return;
        }
    }
}

/// Makes a directory of ours, and those above it that are missing, for nobody but its owner, whatever the umask.
pub(crate) fn make_private_directory(path: &Path) -> Result<(), SandboxError> {
    let mut builder = std::fs::DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(path);
    made.while_being("made", path)
}

/// Opens a file of ours to be written from its beginning, for nobody but its owner.
pub(crate) fn create_private_file(path: &Path) -> io::Result<std::fs::File> {
    let mut options = std::fs::File::options();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path)
}

/// Writes such a file.
pub(crate) fn write_private_file(path: &Path, content: &[u8]) -> Result<(), SandboxError> {
    let written = create_private_file(path);
    let written = written.and_then(|mut file| io::Write::write_all(&mut file, content));
    written.while_being("written", path)
}

/// Takes every right to a file or directory of ours from everybody but its owner.
pub(crate) fn restrict_to_owner(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let metadata = std::fs::symlink_metadata(path)?;
    let mode = metadata.mode() & 0o7777;
    if mode & 0o077 == 0 || metadata.is_symlink() {
        return Ok(());
    }
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode & 0o700))
}

/// Writes a file whole: what was there before, or all of this, whatever happens.
pub(crate) fn write_atomically(path: &Path, content: &[u8]) -> Result<(), SandboxError> {
    let new = path.with_extension("new");
    let written = create_private_file(&new).and_then(|mut file| {
        io::Write::write_all(&mut file, content)?;
        file.sync_all()
    });
    written.while_being("written", &new)?;
    std::fs::rename(&new, path).while_being("written", path)?;
    sync_directory(path.parent().unwrap_or(path))
}

/// Makes the entries of a directory durable.
pub(crate) fn sync_directory(path: &Path) -> Result<(), SandboxError> {
    std::fs::File::open(path)
        .and_then(|directory| directory.sync_all())
        .while_being("synced", path)
}

/// Makes files durable: one by one, or the file system as a whole where there are many.
pub(crate) fn sync_files(root: &Path, paths: &[PathBuf]) -> Result<(), SandboxError> {
    const MAX_SINGLE_SYNCS: usize = 32;
    if paths.len() > MAX_SINGLE_SYNCS {
        return sync_file_system(root);
    }
    for path in paths {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(file) => rustix::fs::fsync(file).while_being("synced", path)?,
            // A link is durable with its directory.
            Err(rustix::io::Errno::LOOP) => {}
            Err(error) => return Err(error).while_being("opened", path),
        }
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn sync_file_system(root: &Path) -> Result<(), SandboxError> {
    let directory = std::fs::File::open(root).while_being("opened", root)?;
    rustix::fs::syncfs(directory).while_being("synced", root)
}

#[cfg(not(target_os = "linux"))]
fn sync_file_system(_root: &Path) -> Result<(), SandboxError> {
    rustix::fs::sync();
    Ok(())
}

/// Removes a directory of ours with everything in it; that it is gone already is fine.
pub(crate) fn remove_tree(path: &Path) -> Result<(), SandboxError> {
    match std::fs::remove_dir_all(path) {
        Ok(()) => Ok(()),
        Err(error) if is_not_found(&error) => Ok(()),
        Err(_) => {
            // Directories that an agent made unreadable or unwritable are still its own.
            make_tree_accessible(path);
            match std::fs::remove_dir_all(path) {
                Err(error) if !is_not_found(&error) => Err(error).while_being("removed", path),
                Ok(()) | Err(_) => Ok(()),
            }
        }
    }
}

fn make_tree_accessible(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let is_directory =
        std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_dir());
    if !is_directory {
        return;
    }
    let _ = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700));
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        make_tree_accessible(&entry.path());
    }
}

/// What a file of ours says; the default if it is not there.
pub(crate) fn read_json_or_default<T>(path: &Path) -> Result<T, SandboxError>
where
    T: Default + serde::de::DeserializeOwned,
{
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if is_not_found(&error) => return Ok(T::default()),
        Err(error) => return Err(error).while_being("read", path),
    };
    serde_json::from_slice(&text).map_err(|error| SandboxError::DamagedFile {
        path: path.to_owned(),
        why: error.to_string(),
    })
}

/// How many bytes this user can still write there; of what does not exist yet, where it would be made.
pub fn free_bytes(path: &Path) -> std::io::Result<u64> {
    let there = path.ancestors().find(|above| above.exists());
    let system = rustix::fs::statvfs(there.unwrap_or(path))?;
    Ok(system.f_bavail.saturating_mul(system.f_frsize))
}
