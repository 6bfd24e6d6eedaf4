//! Connections to the file: one that writes, a few that read.

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

/// How long the database's own lock is waited for. A safety net: writers take turns before they
/// ask for it, so only a foreign program can keep it.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Reading connections that are kept for the next reader.
const MAX_IDLE_READERS: usize = 8;

/// More than there are statements, so that each is prepared once per connection.
const STATEMENT_CACHE_CAPACITY: usize = 128;

/// Opens the writing connection to a file that is there.
pub(super) fn open_writer(file: &DatabaseFile) -> Result<Connection, SqliteError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file.path(), flags)?;
    configure_writer(&connection)?;
    Ok(connection)
}

/// The settings of a connection that writes.
pub(super) fn configure_writer(connection: &Connection) -> Result<(), SqliteError> {
    configure_connection(connection)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    // A log that was started over gives back what it no longer needs.
    connection.pragma_update(None, "journal_size_limit", WAL_TRUNCATE_THRESHOLD)?;
    Ok(())
}

/// Switches the file to WAL unless it is. To be called in turn: the switch needs the file for
/// itself.
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
        "it cannot keep a write-ahead log (journal mode stays `{mode}`)"
    )))
}

/// Takes every right to a file from everybody but its owner. By name: see the head of `place`.
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
    // A process that ends must not stop to do everybody's checkpoint.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    // Plan by the schema alone. Otherwise a join is planned anew for every value it is given.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// Reading connections that nobody uses at the moment.
#[derive(Default)]
pub(super) struct ReaderPool(Mutex<Vec<ReadConnection>>);

/// A connection that can only read, and the file it was opened on.
pub(super) struct ReadConnection {
    pub connection: Connection,
    identity: FileIdentity,
}

impl ReadConnection {
    /// Is the file it was opened on still the one at the place?
    pub(super) fn is_current(&self, file: &DatabaseFile) -> Result<bool, SqliteError> {
        Ok(file.find_identity()? == Some(self.identity))
    }
}

impl ReaderPool {
    /// A reader of the file that is at the place now; `None` if there is none.
    pub(super) fn take_reader(
        &self,
        file: &DatabaseFile,
    ) -> Result<Option<ReadConnection>, SqliteError> {
        let Some(identity) = file.find_identity()? else {
            return Ok(None);
        };
        let mut idle = lock(&self.0);
        // A reader of a file that was replaced would show what nobody can see any more.
        idle.retain(|reader| reader.identity == identity);
        if let Some(reader) = idle.pop() {
            return Ok(Some(reader));
        }
        drop(idle);
        Self::open_reader(file, identity)
    }

    /// Keeps a reader for later, unless there are enough.
    pub(super) fn return_reader(&self, reader: ReadConnection) {
        let mut idle = lock(&self.0);
        if idle.len() < MAX_IDLE_READERS && reader.connection.is_autocommit() {
            idle.push(reader);
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
            // Gone since we looked.
            Err(_) if file.find_identity()?.is_none() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        configure_connection(&connection)?;
        connection.pragma_update(None, "query_only", true)?;
        // Replaced while we opened it: look again.
        if file.find_identity()? != Some(identity) {
            return match file.find_identity()? {
                Some(identity) => Self::open_reader(file, identity),
                None => Ok(None),
            };
        }
        Ok(Some(ReadConnection {
            connection,
            identity,
        }))
    }
}

/// A read transaction: one snapshot. Ends when dropped, so that none outlives a call.
pub(super) struct ReadTransaction<'a>(&'a Connection);

impl<'a> ReadTransaction<'a> {
    /// Begins to read; the snapshot is fixed by the first row that is read. `None` if the file is
    /// blank, which is how it reads before its first write.
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
        // A connection on which this fails is not kept; see `give_back`.
        let _ = run_statement(self.0, sql::ROLLBACK);
    }
}

/// Reads something in a snapshot of its own.
pub(super) fn read_in_snapshot<T>(
    connection: &Connection,
    read: impl FnOnce(&Connection) -> Result<T, SqliteError>,
) -> Result<T, SqliteError> {
    run_statement(connection, sql::BEGIN_READ)?;
    let _snapshot = ReadTransaction(connection);
    read(connection)
}

/// Runs a statement without parameters that gives no rows.
pub(super) fn run_statement(connection: &Connection, statement: &str) -> Result<(), SqliteError> {
    connection.prepare_cached(statement)?.execute([])?;
    Ok(())
}
