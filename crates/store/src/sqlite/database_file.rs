//! The path of the database file, and checks that a database can live there.
//!
//! Nothing here opens the database file: closing any descriptor of it would release the locks that
//! SQLite holds on it for the whole process.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::error::SqliteError;

/// Returns the kind of network file system a path is on; `None` if it is local.
pub(super) type FileSystemProbe = fn(&Path) -> io::Result<Option<&'static str>>;

#[derive(Debug)]
pub(super) struct DatabaseFile {
    path: PathBuf,
    display_path: String,
    probe: FileSystemProbe,
    /// The file was there before. A missing file does not mean that its plans are gone.
    was_found: AtomicBool,
}

/// Identifies a file on disk. Differs after the file was replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileIdentity {
    device: u64,
    inode: u64,
}

impl DatabaseFile {
    /// Does not touch the disk.
    pub(super) fn new(path: &Path, probe: FileSystemProbe) -> Self {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Self {
            display_path: path.display().to_string(),
            path,
            probe,
            was_found: AtomicBool::new(false),
        }
    }

    /// The absolute path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The path as shown in messages.
    pub(super) fn display_path(&self) -> &str {
        &self.display_path
    }

    /// Returns the identity of the file; `None` if there is none yet. A file that was there before and is gone is an
    /// error: an empty store in its place would look as if every plan were deleted.
    pub(super) fn find_identity(&self) -> Result<Option<FileIdentity>, SqliteError> {
        // Read first: another thread may create the file and find it after this thread looked.
        let was_found = self.was_found.load(Ordering::Acquire);
        match fs::metadata(&self.path) {
            Ok(found) if found.is_file() => {
                self.was_found.store(true, Ordering::Release);
                Ok(Some(FileIdentity {
                    device: found.dev(),
                    inode: found.ino(),
                }))
            }
            Ok(found) if found.is_dir() => {
                Err(SqliteError::Unusable("it is a directory".to_owned()))
            }
            Ok(_) => Err(SqliteError::Unusable("it is not a regular file".to_owned())),
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            Err(_) if !was_found => Ok(None),
            Err(_) if self.path.is_symlink() => Err(SqliteError::Unusable(
                "it is a symbolic link to a file that does not exist".to_owned(),
            )),
            Err(_) => Err(SqliteError::Removed),
        }
    }

    /// Checks whether the file is absent or has no bytes.
    pub(super) fn is_absent_or_empty(&self) -> bool {
        fs::metadata(&self.path).map_or_else(
            |error| error.kind() == io::ErrorKind::NotFound,
            |found| found.is_file() && found.len() == 0,
        )
    }

    /// Refuses file systems whose locks or shared memory do not work between machines. If the file
    /// is absent, checks the nearest existing directory.
    pub(super) fn refuse_network_file_system(&self) -> Result<(), SqliteError> {
        let existing = self.path.ancestors().find(|path| path.exists());
        match (self.probe)(existing.unwrap_or(Path::new("/")))? {
            Some(kind) => Err(SqliteError::NetworkFileSystem(kind)),
            None => Ok(()),
        }
    }

    /// Creates the parent directory, for the owner only, if it is absent. Returns the path with all
    /// symbolic links resolved, so that every name of the file leads to the same write queue.
    pub(super) fn prepare_path(&self) -> Result<PathBuf, SqliteError> {
        if self.path.exists() {
            return Ok(self.path.canonicalize()?);
        }
        // The file would be created at the link's target, beside a different write queue.
        if self.path.is_symlink() {
            return Err(SqliteError::Unusable(
                "it is a dangling symbolic link".to_owned(),
            ));
        }
        let (Some(parent), Some(name)) = (self.path.parent(), self.path.file_name()) else {
            return Err(SqliteError::Unusable("it is not a file name".to_owned()));
        };
        create_dir_durably(parent)?;
        Ok(parent.canonicalize()?.join(name))
    }
}

/// Creates a directory and its parents, and syncs each parent. Otherwise a power loss could remove
/// the directory together with its commits.
fn create_dir_durably(directory: &Path) -> io::Result<()> {
    let absent: Vec<&Path> = directory
        .ancestors()
        .take_while(|path| !path.exists())
        .collect();
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    for parent in absent.iter().filter_map(|made| made.parent()) {
        fs::File::open(parent)?.sync_all()?;
    }
    Ok(())
}

/// Returns the path of a file beside the database: its name with a suffix.
pub(super) fn path_with_suffix(database: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(database);
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(target_os = "linux")]
pub(super) fn network_file_system(path: &Path) -> io::Result<Option<&'static str>> {
    let kind = rustix::fs::statfs(path)?.f_type;
    // The kernel's magic numbers fit into 32 bits, whatever the width of the field.
    Ok(network_file_system_name((kind as u64) & 0xffff_ffff))
}

/// Other systems use different numbers, so nothing is refused.
#[cfg(not(target_os = "linux"))]
pub(super) fn network_file_system(_path: &Path) -> io::Result<Option<&'static str>> {
    Ok(None)
}

/// Maps the kernel's magic numbers of network file systems to names. Includes FUSE: what is behind
/// it is unknown, and often a network.
#[cfg(target_os = "linux")]
fn network_file_system_name(magic: u64) -> Option<&'static str> {
    Some(match magic {
        0x6969 => "NFS",
        0x517b => "SMB",
        0xfe53_4d42 | 0xff53_4d42 => "CIFS",
        0x5346_414f | 0x6b41_4653 => "AFS",
        0x0102_1997 => "9p",
        0x6573_5546 => "FUSE",
        0x7375_7245 => "Coda",
        0x564c => "NCP",
        0x00c3_6400 => "Ceph",
        0x0bd0_0bd0 => "Lustre",
        0x4750_4653 => "GPFS",
        0x0116_1970 => "GFS2",
        0x7461_636f => "OCFS2",
        0x1983_0326 => "BeeGFS",
        0xaad7_aaea => "PanFS",
        0x786f_4256 => "vboxsf",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn network_and_local_file_systems_are_distinguished() {
        for local in [0xef53, 0x9123_683e, 0x5846_5342, 0x0102_1994, 0x794c_7630] {
            assert_eq!(network_file_system_name(local), None, "{local:x}");
        }
        for network in [0x6969, 0x517b, 0xff53_4d42, 0x0102_1997, 0x6573_5546] {
            assert!(network_file_system_name(network).is_some(), "{network:x}");
        }
    }

    #[test]
    fn the_nearest_existing_directory_is_checked_if_the_file_is_absent() {
        fn everything_is_remote(path: &Path) -> io::Result<Option<&'static str>> {
            assert!(path.exists());
            Ok(Some("NFS"))
        }
        let file = DatabaseFile::new(
            Path::new("/no/such/directory/at/all.db"),
            everything_is_remote,
        );
        assert_eq!(
            file.refuse_network_file_system(),
            Err(SqliteError::NetworkFileSystem("NFS"))
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn each_network_file_system_has_its_name() {
        // From the kernel's `magic.h` and the headers of the modules.
        let expected_names = [
            (0x6969, "NFS"),
            (0x517b, "SMB"),
            (0xfe53_4d42, "CIFS"),
            (0xff53_4d42, "CIFS"),
            (0x5346_414f, "AFS"),
            (0x6b41_4653, "AFS"),
            (0x0102_1997, "9p"),
            (0x6573_5546, "FUSE"),
            (0x7375_7245, "Coda"),
            (0x564c, "NCP"),
            (0x00c3_6400, "Ceph"),
            (0x0bd0_0bd0, "Lustre"),
            (0x4750_4653, "GPFS"),
            (0x0116_1970, "GFS2"),
            (0x7461_636f, "OCFS2"),
            (0x1983_0326, "BeeGFS"),
            (0xaad7_aaea, "PanFS"),
            (0x786f_4256, "vboxsf"),
        ];
        for (magic, name) in expected_names {
            assert_eq!(network_file_system_name(magic), Some(name), "{magic:x}");
        }
    }
}
