//! Consistent copies of the database, made while others go on reading and writing.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::connection::{BUSY_TIMEOUT, restrict};
use super::naming::{rename_new, taken};
use super::place::beside;
use super::wrong::Wrong;

/// Copies into a file that must not exist yet.
pub(super) fn create(from: &Connection, to: &Path) -> Result<(), Wrong> {
    if to.symlink_metadata().is_ok() {
        return Err(taken());
    }
    let unfinished = write_unfinished(from, to)?;
    // Another one may have appeared meanwhile; it is refused as well.
    let named = rename_new(&unfinished, to);
    finish(&unfinished, to, named)
}

/// Copies into a file, replacing what is there once the copy is whole.
pub(super) fn replace(from: &Connection, to: &Path) -> Result<(), Wrong> {
    let unfinished = write_unfinished(from, to)?;
    let named = fs::rename(&unfinished, to).map_err(Wrong::from);
    finish(&unfinished, to, named)
}

/// The copy under another name, complete and durable: nobody ever sees half a copy.
fn write_unfinished(from: &Connection, to: &Path) -> Result<PathBuf, Wrong> {
    let unfinished = beside(to, &format!(".unfinished-{}", std::process::id()));
    let written = copy_into(from, &unfinished);
    if written.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    written.map(|()| unfinished)
}

fn copy_into(from: &Connection, unfinished: &Path) -> Result<(), Wrong> {
    // Left over by a process of the same number that died.
    if unfinished.symlink_metadata().is_ok() {
        fs::remove_file(unfinished)?;
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut to = Connection::open_with_flags(unfinished, flags)?;
    restrict(unfinished)?;
    // Made durable once, at the end; until then nobody knows its name.
    to.pragma_update(None, "synchronous", "OFF")?;
    to.busy_timeout(BUSY_TIMEOUT)?;
    let backup = Backup::new(from, &mut to)?;
    // All pages in one step are one snapshot, which writers do not disturb.
    let copied = match backup.step(-1)? {
        StepResult::Done => Ok(()),
        _ => Err(Wrong::Busy),
    };
    drop(backup);
    copied?;
    to.close().map_err(|(_, error)| error)?;
    File::open(unfinished)?.sync_all()?;
    Ok(())
}

fn finish(unfinished: &Path, to: &Path, named: Result<(), Wrong>) -> Result<(), Wrong> {
    if named.is_err() {
        let _ = fs::remove_file(unfinished);
        return named;
    }
    let directory = to.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()?;
    Ok(())
}
