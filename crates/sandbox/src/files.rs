//! Accesses files in a working tree component by component, without following symlinks, and
//! replaces them atomically.

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

/// Identifies a file's content without reading it: every save changes at least one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileStamp {
    inode: u64,
    size: u64,
    modified: i64,
    nanoseconds: i64,
}

impl FileStamp {
    /// The stamp of the file at a path. Does not follow symlinks.
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

/// Is the file missing, or one of its parent directories?
pub(crate) fn is_not_found(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Does not follow symlinks.
pub(crate) fn is_directory(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

/// The names in a directory that parse as `T`, sorted. Empty if the directory does not exist.
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

pub(crate) fn join_tree_path(root: &Path, path: &TreePath) -> PathBuf {
    root.join(OsStr::from_bytes(path.as_bytes()))
}

/// Finds what would be lost or hidden by writing a file here: an untracked file, a symlink or file
/// in place of a parent directory, or a directory with other files in it. `removed_paths` will be
/// removed before the write.
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
            Err(error) => return Err(error).while_being("inspected", &parent_path),
        }
    }
    let file_path = join_tree_path(root, path);
    match std::fs::symlink_metadata(&file_path) {
        Ok(metadata) if metadata.is_dir() => {
            let has_remaining = has_remaining_entry(&file_path, path, removed_paths)
                .while_being("inspected", &file_path)?;
            // A directory is removed with the last file in it, but one that is empty already stays.
            let is_removed = removed_paths.iter().any(|one| {
                let inside = one.as_bytes().strip_prefix(path.as_bytes());
                inside.is_some_and(|inside| inside.starts_with(b"/"))
            });
            Ok((has_remaining || !is_removed).then(|| path.clone()))
        }
        Ok(_) => Ok((!is_tracked).then(|| path.clone())),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(error) => Err(error).while_being("inspected", &file_path),
    }
}

/// Checks that the nearest existing directory of this path is writable.
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

/// Does a directory have an entry that will not be removed?
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
        let has_remaining = if entry.file_type()?.is_dir() {
            has_remaining_entry(&entry.path(), &inner, removed_paths)?
        } else {
            !removed_paths.contains(&inner)
        };
        if has_remaining {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A file's parent directory, opened without following symlinks, and the file's name in it.
pub(crate) struct PathHandle {
    directory: OwnedFd,
    name: Vec<u8>,
}

impl PathHandle {
    /// Opens the parent directories of a path, creating missing ones.
    pub fn open_or_create(root: &Path, path: &TreePath) -> io::Result<Self> {
        Self::open_components(root, path, true)
    }

    /// Opens the parent directories of a path.
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

    /// Swaps this file with another one atomically.
    pub fn exchange_with(&self, other: &Path) -> io::Result<()> {
        self.rename_here(other, RenameFlags::EXCHANGE)
    }

    /// Moves a file here; fails if this path exists.
    pub fn move_here(&self, other: &Path) -> io::Result<()> {
        self.rename_here(other, RenameFlags::NOREPLACE)
    }

    /// Moves this file away; fails if the destination exists.
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

    pub fn sync_directory_entries(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.directory)?)
    }

    fn rename_here(&self, other: &Path, flags: RenameFlags) -> io::Result<()> {
        rustix::fs::renameat_with(CWD, other, &self.directory, self.file_name(), flags)?;
        Ok(())
    }
}

/// Flags for opening a directory whose content is not trusted.
const DIRECTORY_OPEN_FLAGS: OFlags = OFlags::DIRECTORY
    .union(OFlags::RDONLY)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOFOLLOW);

/// Opens a directory below another, component by component. `None` if one of them is missing; an
/// error if one is a symlink.
pub(crate) fn open_directory_below(
    root: &Path,
    components: &[&str],
) -> io::Result<Option<OwnedFd>> {
    let root = rustix::fs::openat(CWD, root, DIRECTORY_OPEN_FLAGS, Mode::empty())?;
    open_directory_below_at(&root, components)
}

/// Like [`open_directory_below`], below an open directory.
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

/// Opens a directory in another. `None` if it is missing; an error if it is a symlink or not a
/// directory.
pub(crate) fn open_directory_at(above: &OwnedFd, name: &OsStr) -> io::Result<Option<OwnedFd>> {
    match rustix::fs::openat(above, name, DIRECTORY_OPEN_FLAGS, Mode::empty()) {
        Ok(opened) => Ok(Some(opened)),
        Err(rustix::io::Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The names in an open directory, sorted; an error if there are more than `max_names`.
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
            return Err(io::Error::other("it contains too many files"));
        }
        names.push(OsStr::from_bytes(name).to_owned());
    }
    names.sort();
    Ok(names)
}

/// Reads a regular file in a directory; `None` if it is missing. A symlink, a pipe or a file larger
/// than `max_bytes` is an error.
pub(crate) fn read_regular_file_at(
    directory: &OwnedFd,
    name: &OsStr,
    max_bytes: u64,
) -> io::Result<Option<Vec<u8>>> {
    // Non-blocking: it may be a pipe without a writer.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(directory, name, flags, Mode::empty()) {
        Ok(file) => std::fs::File::from(file),
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() > max_bytes {
        return Err(io::Error::other("not a regular file, or too large"));
    }
    let mut content = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(file, max_bytes), &mut content)?;
    Ok(Some(content))
}

const MAX_LINK_TREE_DEPTH: usize = 32;

/// Hard-links the regular files of a directory into a new one, or copies them where the file system
/// cannot link. Skips symlinks and special files. More than `remaining_files` files are an error.
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
    // git does not store objects that deep.
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
        let target = copy.join(&inner);
        match rustix::fs::FileType::from_raw_mode(metadata.st_mode) {
            rustix::fs::FileType::Directory => {
                link_tree_at(&directory, &inner, &target, remaining_files, depth - 1)?;
            }
            rustix::fs::FileType::RegularFile => {
                *remaining_files = remaining_files
                    .checked_sub(1)
                    .ok_or_else(|| io::Error::other("it contains too many files"))?;
                link_or_copy(&directory, &inner, &target)?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn link_or_copy(directory: &OwnedFd, name: &OsStr, copy: &Path) -> io::Result<()> {
    match rustix::fs::linkat(directory, name, CWD, copy, AtFlags::empty()) {
        // An existing entry may be a hard link to the agent's file. Do not write to it.
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

pub(crate) enum CopyOutcome {
    /// The copy exists and has this many bytes; it may have existed before.
    Bytes(u64),
    /// Too large, or neither a regular file nor a symlink.
    Skipped,
}

/// What to do if the destination exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExistingFilePolicy {
    Keep,
    Replace,
}

impl PathHandle {
    /// Copies this file or symlink to `copy`. Writes to `staged_copy` first, on the same file
    /// system, so that no reader sees a partial file.
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
        // Between two open files, the kernel can copy by reference.
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

    /// Reads this file; `None` if it is not a regular file or larger than `max_bytes`.
    pub fn read(&self, max_bytes: u64) -> io::Result<Option<Vec<u8>>> {
        // Non-blocking: it may be a pipe without a writer.
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

/// Removes the parent directories of a path that are empty.
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
        let Ok(parent_handle) = PathHandle::open(root, &parent) else {
            return;
        };
        // Fails if the directory is not empty.
        if rustix::fs::unlinkat(
            &parent_handle.directory,
            parent_handle.file_name(),
            AtFlags::REMOVEDIR,
        )
        .is_err()
        {
            return;
        }
    }
}

/// Creates a directory and its missing parents with mode 700, whatever the umask.
pub(crate) fn make_private_directory(path: &Path) -> Result<(), SandboxError> {
    let mut builder = std::fs::DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(path);
    made.while_being("created", path)
}

/// Creates or truncates a file with mode 600.
pub(crate) fn create_private_file(path: &Path) -> io::Result<std::fs::File> {
    let mut options = std::fs::File::options();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path)
}

/// Writes a file with mode 600. Not atomic.
pub(crate) fn write_private_file(path: &Path, content: &[u8]) -> Result<(), SandboxError> {
    let written = create_private_file(path);
    let written = written.and_then(|mut file| io::Write::write_all(&mut file, content));
    written.while_being("written", path)
}

/// Removes the permissions of group and others.
pub(crate) fn restrict_to_owner(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let metadata = std::fs::symlink_metadata(path)?;
    let mode = metadata.mode() & 0o7777;
    if mode & 0o077 == 0 || metadata.is_symlink() {
        return Ok(());
    }
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode & 0o700))
}

/// Replaces a file atomically and durably: after a crash it has the old content or the new one.
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

/// Makes a directory's entries durable.
pub(crate) fn sync_directory(path: &Path) -> Result<(), SandboxError> {
    std::fs::File::open(path)
        .and_then(|directory| directory.sync_all())
        .while_being("synced", path)
}

/// Makes files durable: one by one, or by syncing the file system if there are many.
pub(crate) fn sync_files(root: &Path, paths: &[PathBuf]) -> Result<(), SandboxError> {
    const MAX_SINGLE_SYNCS: usize = 32;
    if paths.len() > MAX_SINGLE_SYNCS {
        return sync_file_system(root);
    }
    for path in paths {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(file) => rustix::fs::fsync(file).while_being("synced", path)?,
            // A symlink is durable with its directory.
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

/// Removes one of the engine's directories with its content. Succeeds if it does not exist.
pub(crate) fn remove_tree(path: &Path) -> Result<(), SandboxError> {
    match std::fs::remove_dir_all(path) {
        Ok(()) => Ok(()),
        Err(error) if is_not_found(&error) => Ok(()),
        Err(_) => {
            // An agent may have made directories unreadable or unwritable.
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

/// Parses a JSON file of the engine; the default if it does not exist.
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

/// How many bytes this user can still write at a path. The path need not exist yet.
pub fn free_bytes(path: &Path) -> std::io::Result<u64> {
    let target = path.ancestors().find(|above| above.exists());
    let system = rustix::fs::statvfs(target.unwrap_or(path))?;
    Ok(system.f_bavail.saturating_mul(system.f_frsize))
}

/// Checks that this user can write below a path. The path need not exist yet.
pub fn check_writable(path: &Path) -> std::io::Result<()> {
    let target = path.ancestors().find(|above| above.exists());
    let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    Ok(rustix::fs::access(target.unwrap_or(path), access)?)
}
