//! Connections to the file: one that writes, a few that read.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::migrate;
use super::place::{Identity, Place};
use super::statements as sql;
use super::writer::LONG_WAL;
use super::wrong::Wrong;
use crate::sync::{Mutex, lock};

/// How long the database's own lock is waited for. A safety net: writers take turns before they
/// ask for it, so only a foreign program can keep it.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Reading connections that are kept for the next reader.
const KEPT_READERS: usize = 8;

/// More than there are statements, so that each is prepared once per connection.
const CACHED_STATEMENTS: usize = 128;

/// Opens the writing connection to a file that is there.
pub(super) fn open_writer(place: &Place) -> Result<Connection, Wrong> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(place.path(), flags)?;
    configure_writer(&connection)?;
    Ok(connection)
}

/// The settings of a connection that writes.
pub(super) fn configure_writer(connection: &Connection) -> Result<(), Wrong> {
    configure(connection)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    // A log that was started over gives back what it no longer needs.
    connection.pragma_update(None, "journal_size_limit", LONG_WAL)?;
    Ok(())
}

/// Switches the file to WAL unless it is. To be called in turn: the switch needs the file for
/// itself.
pub(super) fn require_wal(connection: &Connection) -> Result<(), Wrong> {
    let mode: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
    if mode == "wal" {
        return Ok(());
    }
    let mode: String =
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if mode == "wal" {
        return Ok(());
    }
    Err(Wrong::Unusable(format!(
        "it cannot keep a write-ahead log (journal mode stays `{mode}`)"
    )))
}

/// Takes every right to a file from everybody but its owner. By name: see the head of `place`.
pub(super) fn restrict(path: &Path) -> Result<(), Wrong> {
    use std::os::unix::fs::PermissionsExt;
    Ok(std::fs::set_permissions(
        path,
        std::fs::Permissions::from_mode(0o600),
    )?)
}

fn configure(connection: &Connection) -> Result<(), Wrong> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
    // A process that ends must not stop to do everybody's checkpoint.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    // Plan by the schema alone. Otherwise a join is planned anew for every value it is given.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// Reading connections that nobody uses at the moment.
#[derive(Default)]
pub(super) struct Readers(Mutex<Vec<Reader>>);

/// A connection that can only read, and the file it was opened on.
pub(super) struct Reader {
    pub connection: Connection,
    identity: Identity,
}

impl Reader {
    /// Is the file it was opened on still the one at the place?
    pub(super) fn is_current(&self, place: &Place) -> Result<bool, Wrong> {
        Ok(place.look()? == Some(self.identity))
    }
}

impl Readers {
    /// A reader of the file that is at the place now; `None` if there is none.
    pub(super) fn take(&self, place: &Place) -> Result<Option<Reader>, Wrong> {
        let Some(identity) = place.look()? else {
            return Ok(None);
        };
        let mut kept = lock(&self.0);
        // A reader of a file that was replaced would show what nobody can see any more.
        kept.retain(|reader| reader.identity == identity);
        if let Some(reader) = kept.pop() {
            return Ok(Some(reader));
        }
        drop(kept);
        Self::open(place, identity)
    }

    /// Keeps a reader for later, unless there are enough.
    pub(super) fn give_back(&self, reader: Reader) {
        let mut kept = lock(&self.0);
        if kept.len() < KEPT_READERS && reader.connection.is_autocommit() {
            kept.push(reader);
        }
    }

    fn open(place: &Place, identity: Identity) -> Result<Option<Reader>, Wrong> {
        place.refuse_network()?;
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = match Connection::open_with_flags(place.path(), flags) {
            Ok(connection) => connection,
            // Gone since we looked.
            Err(_) if place.look()?.is_none() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        configure(&connection)?;
        connection.pragma_update(None, "query_only", true)?;
        // Replaced while we opened it: look again.
        if place.look()? != Some(identity) {
            return match place.look()? {
                Some(identity) => Self::open(place, identity),
                None => Ok(None),
            };
        }
        Ok(Some(Reader {
            connection,
            identity,
        }))
    }
}

/// A read transaction: one snapshot. Ends when dropped, so that none outlives a call.
pub(super) struct Snapshot<'a>(&'a Connection);

impl<'a> Snapshot<'a> {
    /// Begins to read; the snapshot is fixed by the first row that is read. `None` if the file is
    /// blank, which is how it reads before its first write.
    pub(super) fn begin(reader: &'a Reader, known: u32) -> Result<Option<Self>, Wrong> {
        let connection = &reader.connection;
        run(connection, sql::BEGIN_READ)?;
        let snapshot = Self(connection);
        match migrate::schema_of(connection)? {
            None => Ok(None),
            Some(found) => migrate::require(found, known).map(|()| Some(snapshot)),
        }
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        // A connection on which this fails is not kept; see `give_back`.
        let _ = run(self.0, sql::ROLLBACK);
    }
}

/// Reads something in a snapshot of its own.
pub(super) fn in_snapshot<T>(
    connection: &Connection,
    read: impl FnOnce(&Connection) -> Result<T, Wrong>,
) -> Result<T, Wrong> {
    run(connection, sql::BEGIN_READ)?;
    let _snapshot = Snapshot(connection);
    read(connection)
}

/// Runs a statement without parameters that gives no rows.
pub(super) fn run(connection: &Connection, statement: &str) -> Result<(), Wrong> {
    connection.prepare_cached(statement)?.execute([])?;
    Ok(())
}
