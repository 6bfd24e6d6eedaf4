//! Making a new database: complete under another name first, then given its own. Whoever looks
//! sees a whole store or none, also after a crash in between.

use std::fs::{self, File};
use std::io;
use std::path::Path;

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

/// What a process that died here left behind.
fn remove_leftovers(aside: &Path) -> io::Result<()> {
    for suffix in ["", "-journal", "-wal", "-shm"] {
        match fs::remove_file(beside(aside, suffix)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}
