//! Making a new database: complete under another name first, then given its own. Whoever looks
//! sees a whole store or none, also after a crash in between.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::connection::{require_wal, restrict};
use super::migrate::{self, Migration};
use super::naming::rename_new;
use super::place::{Place, beside};
use super::wrong::Wrong;

/// Makes the database with this schema, where there is none or only an empty file. To be called in
/// turn: others would make it too.
pub(super) fn make(place: &Place, migrations: &[Migration]) -> Result<(), Wrong> {
    let path = place.prepare()?;
    refuse_foreign_log(&path)?;
    let aside = beside(&path, "-new");
    remove_leftovers(&aside)?;
    set_up(&aside, migrations)?;
    File::open(&aside)?.sync_all()?;
    if place.look()?.is_some() {
        // An empty file, which holds nothing that could be lost.
        fs::rename(&aside, &path)?;
    } else {
        rename_new(&aside, &path)?;
    }
    if let Some(directory) = path.parent() {
        File::open(directory)?.sync_all()?;
    }
    Ok(())
}

fn set_up(aside: &Path, migrations: &[Migration]) -> Result<(), Wrong> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(aside, flags)?;
    // The files that SQLite will put beside it take their mode from this one.
    restrict(aside)?;
    migrate::run(&mut connection, migrations)?;
    require_wal(&connection)?;
    // The last connection to close leaves one file, without a log.
    connection.close().map_err(|(_, error)| error)?;
    Ok(())
}

/// A log beside a name that nothing has is that of a database which was removed or moved away. The
/// new one would take the log's pages for its own; and as they may be the latest commits of the
/// other, they are not thrown away either. Its index holds nothing, but whoever has the other
/// database open still uses it: the new one needs one of its own.
fn refuse_foreign_log(path: &Path) -> Result<(), Wrong> {
    for suffix in ["-wal", "-journal"] {
        let log = beside(path, suffix);
        if fs::metadata(&log).is_ok_and(|found| found.len() > 0) {
            return Err(Wrong::Unusable(format!(
                "{} is left of a database that is gone; put that back, or remove this as well",
                log.display()
            )));
        }
    }
    Ok(remove(
        &["-wal", "-journal", "-shm"].map(|suffix| beside(path, suffix)),
    )?)
}

/// What a process that died here left behind.
fn remove_leftovers(aside: &Path) -> io::Result<()> {
    remove(&["", "-journal", "-wal", "-shm"].map(|suffix| beside(aside, suffix)))
}

/// Removes those of these files that are there.
fn remove(files: &[PathBuf]) -> io::Result<()> {
    for file in files {
        match fs::remove_file(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}
