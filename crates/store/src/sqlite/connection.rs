//! Connections to the file: one writer, a pool of readers.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::database_file::{DatabaseFile, FileIdentity};
use super::error::SqliteError;
use super::migrate;
use super::statements as sql;
use super::writer::WAL_TRUNCATE_THRESHOLD;
use crate::sync::{Mutex, lock};

/// The timeout for SQLite's own lock. A safety net: our writers queue first, so only a foreign
/// program can hold it.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

const MAX_IDLE_READERS: usize = 8;

/// More than the number of statements, so that each is prepared once per connection.
const STATEMENT_CACHE_CAPACITY: usize = 128;

/// Opens the write connection to an existing file.
pub(super) fn open_writer(file: &DatabaseFile) -> Result<Connection, SqliteError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file.path(), flags)?;
    configure_writer(&connection)?;
    Ok(connection)
}

pub(super) fn configure_writer(connection: &Connection) -> Result<(), SqliteError> {
    configure_connection(connection)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    // Shrinks the WAL file when it restarts.
    connection.pragma_update(None, "journal_size_limit", WAL_TRUNCATE_THRESHOLD)?;
    Ok(())
}

/// Switches the file to WAL mode if necessary. The caller must hold the write turn: the switch
/// needs exclusive access.
pub(super) fn require_wal(connection: &Connection) -> Result<(), SqliteError> {
    let mode: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
    if mode == "wal" {
        return Ok(());
    }
    let mode: String =
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if mode == "wal" {
        return Ok(());
    }
    Err(SqliteError::Unusable(format!(
        "it does not support a write-ahead log (journal mode stays `{mode}`)"
    )))
}

/// Removes all permissions except the owner's. Works on the path and not on a descriptor: see the
/// head of `database_file.rs`.
pub(super) fn restrict_to_owner(path: &Path) -> Result<(), SqliteError> {
    use std::os::unix::fs::PermissionsExt;
    Ok(std::fs::set_permissions(
        path,
        std::fs::Permissions::from_mode(0o600),
    )?)
}

fn configure_connection(connection: &Connection) -> Result<(), SqliteError> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENT_CACHE_CAPACITY);
    // A short-lived process must not pause for a checkpoint when it exits.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    // Plans statements by the schema alone. Otherwise a join is planned again for every parameter
    // value.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// Idle read connections.
#[derive(Default)]
pub(super) struct ReaderPool(Mutex<Vec<ReadConnection>>);

/// A read-only connection and the identity of its file.
pub(super) struct ReadConnection {
    pub connection: Connection,
    identity: FileIdentity,
}

impl ReadConnection {
    /// Checks whether the path still leads to the file that was opened.
    pub(super) fn is_current(&self, file: &DatabaseFile) -> Result<bool, SqliteError> {
        Ok(file.find_identity()? == Some(self.identity))
    }
}

impl ReaderPool {
    /// Returns a reader of the file now at the path; `None` if there is no file.
    pub(super) fn take_reader(
        &self,
        file: &DatabaseFile,
    ) -> Result<Option<ReadConnection>, SqliteError> {
        let Some(identity) = file.find_identity()? else {
            return Ok(None);
        };
        let mut idle = lock(&self.0);
        // A reader of a replaced file would return rows nobody else can see.
        idle.retain(|reader| reader.identity == identity);
        if let Some(reader) = idle.pop() {
            return Ok(Some(reader));
        }
        drop(idle);
        Self::open_reader(file, identity)
    }

    /// Keeps a reader for reuse, unless enough are idle.
    pub(super) fn return_reader(&self, reader: ReadConnection) {
        let mut idle = lock(&self.0);
        if idle.len() < MAX_IDLE_READERS && reader.connection.is_autocommit() {
            idle.push(reader);
        }
    }

    /// Opens a reader of the file now at the path, apart from the pool; `None` if there is no file.
    pub(super) fn open_current(file: &DatabaseFile) -> Result<Option<ReadConnection>, SqliteError> {
        match file.find_identity()? {
            Some(identity) => Self::open_reader(file, identity),
            None => Ok(None),
        }
    }

    fn open_reader(
        file: &DatabaseFile,
        identity: FileIdentity,
    ) -> Result<Option<ReadConnection>, SqliteError> {
        file.refuse_network_file_system()?;
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = match Connection::open_with_flags(file.path(), flags) {
            Ok(connection) => connection,
            // The file was removed since the check.
            Err(_) if file.find_identity()?.is_none() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        configure_connection(&connection)?;
        connection.pragma_update(None, "query_only", true)?;
        // The file was replaced while it was opened, so open the new one.
        if file.find_identity()? != Some(identity) {
            return Self::open_current(file);
        }
        Ok(Some(ReadConnection {
            connection,
            identity,
        }))
    }
}

/// A read transaction with one snapshot. Ends when dropped, so that none outlives a call.
pub(super) struct ReadTransaction<'a>(&'a Connection);

impl<'a> ReadTransaction<'a> {
    /// Begins a read transaction; the first row read fixes the snapshot. Returns `None` if the file
    /// is blank, as it is before its first write.
    pub(super) fn begin(
        reader: &'a ReadConnection,
        known: u32,
    ) -> Result<Option<Self>, SqliteError> {
        let connection = &reader.connection;
        run_statement(connection, sql::BEGIN_READ)?;
        let snapshot = Self(connection);
        match migrate::read_schema_version(connection)? {
            None => Ok(None),
            Some(found) => migrate::require_supported_schema(found, known).map(|()| Some(snapshot)),
        }
    }
}

impl Drop for ReadTransaction<'_> {
    fn drop(&mut self) {
        // If this fails, `return_reader` does not keep the connection.
        let _ = run_statement(self.0, sql::ROLLBACK);
    }
}

pub(super) fn read_in_snapshot<T>(
    connection: &Connection,
    read: impl FnOnce(&Connection) -> Result<T, SqliteError>,
) -> Result<T, SqliteError> {
    run_statement(connection, sql::BEGIN_READ)?;
    let _snapshot = ReadTransaction(connection);
    read(connection)
}

/// Runs a statement without parameters and rows.
pub(super) fn run_statement(connection: &Connection, statement: &str) -> Result<(), SqliteError> {
    connection.prepare_cached(statement)?.execute([])?;
    Ok(())
}
