//! Consistent copies of the database, made while others read and write.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::connection::{BUSY_TIMEOUT, restrict_to_owner};
use super::database_file::path_with_suffix;
use super::error::SqliteError;
use super::rename::{name_taken_error, rename_without_replacing};

/// Copies into a file that must not exist yet.
pub(super) fn copy_to_new_file(from: &Connection, to: &Path) -> Result<(), SqliteError> {
    if to.symlink_metadata().is_ok() {
        return Err(name_taken_error());
    }
    let partial_copy = write_partial_copy(from, to)?;
    // Another file may have appeared meanwhile, which is also refused.
    let renamed = rename_without_replacing(&partial_copy, to);
    finish_copy(&partial_copy, to, renamed)
}

/// Copies into a file. Replaces an existing file once the copy is complete.
pub(super) fn copy_replacing(from: &Connection, to: &Path) -> Result<(), SqliteError> {
    let partial_copy = write_partial_copy(from, to)?;
    let renamed = fs::rename(&partial_copy, to).map_err(SqliteError::from);
    finish_copy(&partial_copy, to, renamed)
}

/// Writes a complete, durable copy under a temporary name, so that nobody sees a partial one.
fn write_partial_copy(from: &Connection, to: &Path) -> Result<PathBuf, SqliteError> {
    let partial_copy = path_with_suffix(to, &format!(".unfinished-{}", std::process::id()));
    let written = copy_into_file(from, &partial_copy);
    if written.is_err() {
        let _ = fs::remove_file(&partial_copy);
    }
    written.map(|()| partial_copy)
}

fn copy_into_file(from: &Connection, partial_copy: &Path) -> Result<(), SqliteError> {
    // A leftover of a process with the same id that died.
    if partial_copy.symlink_metadata().is_ok() {
        fs::remove_file(partial_copy)?;
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut to = Connection::open_with_flags(partial_copy, flags)?;
    restrict_to_owner(partial_copy)?;
    // Synced once at the end; until then nobody uses the file.
    to.pragma_update(None, "synchronous", "OFF")?;
    to.busy_timeout(BUSY_TIMEOUT)?;
    let backup = Backup::new(from, &mut to)?;
    // Copying all pages in one step gives one snapshot, which writers do not disturb.
    let copied = match backup.step(-1)? {
        StepResult::Done => Ok(()),
        _ => Err(SqliteError::Busy),
    };
    drop(backup);
    copied?;
    to.close().map_err(|(_, error)| error)?;
    File::open(partial_copy)?.sync_all()?;
    Ok(())
}

fn finish_copy(
    partial_copy: &Path,
    to: &Path,
    renamed: Result<(), SqliteError>,
) -> Result<(), SqliteError> {
    if renamed.is_err() {
        let _ = fs::remove_file(partial_copy);
        return renamed;
    }
    let directory = to.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()?;
    Ok(())
}
