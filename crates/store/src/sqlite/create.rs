//! Making a new database: complete under another name first, then given its own. Whoever looks
//! sees a whole store or none, also after a crash in between.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::connection::{require_wal, restrict_to_owner};
use super::database_file::{DatabaseFile, path_with_suffix};
use super::error::SqliteError;
use super::migrate::{self, SchemaMigration};
use super::rename::rename_without_replacing;

/// Makes the database with this schema, where there is none or only an empty file. To be called in
/// turn: others would make it too.
pub(super) fn create_database(
    file: &DatabaseFile,
    migrations: &[SchemaMigration],
) -> Result<(), SqliteError> {
    let path = file.prepare_path()?;
    refuse_foreign_log(&path)?;
    let staging_path = path_with_suffix(&path, "-new");
    remove_leftovers(&staging_path)?;
    initialize_database(&staging_path, migrations)?;
    File::open(&staging_path)?.sync_all()?;
    if file.find_identity()?.is_some() {
        // An empty file, which holds nothing that could be lost.
        fs::rename(&staging_path, &path)?;
    } else {
        rename_without_replacing(&staging_path, &path)?;
    }
    if let Some(directory) = path.parent() {
        File::open(directory)?.sync_all()?;
    }
    Ok(())
}

fn initialize_database(
    staging_path: &Path,
    migrations: &[SchemaMigration],
) -> Result<(), SqliteError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(staging_path, flags)?;
    // The files that SQLite will put beside it take their mode from this one.
    restrict_to_owner(staging_path)?;
    migrate::run_migrations(&mut connection, migrations)?;
    require_wal(&connection)?;
    // The last connection to close leaves one file, without a log.
    connection.close().map_err(|(_, error)| error)?;
    Ok(())
}

/// A log beside a name that nothing has is that of a database which was removed or moved away. The
/// new one would take the log's pages for its own; and as they may be the latest commits of the
/// other, they are not thrown away either. Its index holds nothing, but whoever has the other
/// database open still uses it: the new one needs one of its own.
fn refuse_foreign_log(path: &Path) -> Result<(), SqliteError> {
    for suffix in ["-wal", "-journal"] {
        let log = path_with_suffix(path, suffix);
        if fs::metadata(&log).is_ok_and(|found| found.len() > 0) {
            return Err(SqliteError::Unusable(format!(
                "{} is left of a database that is gone; put that back, or remove this as well",
                log.display()
            )));
        }
    }
    Ok(remove_existing_files(
        &["-wal", "-journal", "-shm"].map(|suffix| path_with_suffix(path, suffix)),
    )?)
}

/// What a process that died here left behind.
fn remove_leftovers(staging_path: &Path) -> io::Result<()> {
    remove_existing_files(
        &["", "-journal", "-wal", "-shm"].map(|suffix| path_with_suffix(staging_path, suffix)),
    )
}

/// Removes those of these files that are there.
fn remove_existing_files(files: &[PathBuf]) -> io::Result<()> {
    for file in files {
        match fs::remove_file(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}
