//! Creates a new database under a temporary name and renames it when it is complete. Other
//! processes see a whole store or none, even after a crash.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::connection::{require_wal, restrict_to_owner};
use super::database_file::{DatabaseFile, path_with_suffix};
use super::error::SqliteError;
use super::migrate::{self, SchemaMigration};
use super::rename::rename_without_replacing;

/// Creates the database with this schema if the file is absent or empty. The caller must hold the
/// write turn, so that only one process creates it.
pub(super) fn create_database(
    file: &DatabaseFile,
    migrations: &[SchemaMigration],
) -> Result<(), SqliteError> {
    let path = file.prepare_path()?;
    refuse_foreign_log(&path)?;
    let staging_path = path_with_suffix(&path, "-new");
    remove_leftovers(&staging_path)?;
    initialize_database(&staging_path, migrations)?;
    // The content must be durable before the database gets its name, and the name before the
    // first commit is acknowledged.
    File::open(&staging_path)?.sync_all()?;
    if file.find_identity()?.is_some() {
        // An empty file holds nothing that could be lost.
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
    // SQLite gives the files beside the database the same mode.
    restrict_to_owner(staging_path)?;
    migrate::run_migrations(&mut connection, migrations)?;
    require_wal(&connection)?;
    // Closing the last connection leaves a single file without a WAL.
    connection.close().map_err(|(_, error)| error)?;
    Ok(())
}

/// Refuses a WAL without a database: its database was removed or moved away.
///
/// A new database would read the log's pages as its own. The log may contain the latest commits of
/// the old database, so it is not deleted either. The shared-memory file holds no data, but
/// processes that still have the old database open use it; the new database needs its own.
fn refuse_foreign_log(path: &Path) -> Result<(), SqliteError> {
    for suffix in ["-wal", "-journal"] {
        let log = path_with_suffix(path, suffix);
        if fs::metadata(&log).is_ok_and(|found| found.len() > 0) {
            return Err(SqliteError::Unusable(format!(
                "{} belongs to a database that is gone; restore the database or remove this file too",
                log.display()
            )));
        }
    }
    Ok(remove_existing_files(
        &["-wal", "-journal", "-shm"].map(|suffix| path_with_suffix(path, suffix)),
    )?)
}

/// Removes what a killed process left here.
fn remove_leftovers(staging_path: &Path) -> io::Result<()> {
    remove_existing_files(
        &["", "-journal", "-wal", "-shm"].map(|suffix| path_with_suffix(staging_path, suffix)),
    )
}

fn remove_existing_files(files: &[PathBuf]) -> io::Result<()> {
    for file in files {
        match fs::remove_file(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}
