//! The single write connection of a store and the turn to use it.
//!
//! Every change to the file happens in a turn: first the lock within this process, then the queue
//! between processes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;

use super::connection::{self, BUSY_TIMEOUT};
use super::database_file::{FileIdentity, path_with_suffix};
use super::error::SqliteError;
use super::statements as sql;
use super::write_queue::{WriteQueue, WriteQueueTurn};
use super::{SqliteStore, copy, create, migrate};
use crate::sync::{MutexGuard, lock};

/// A WAL longer than this is truncated. Automatic checkpoints copy it into the file, but can
/// restart it only while nobody reads.
pub(super) const WAL_TRUNCATE_THRESHOLD: u64 = 16 * 1024 * 1024;

/// Checks the WAL's length every so many turns.
const WAL_CHECK_INTERVAL: u64 = 16;

/// How long a truncation waits for readers. All writers wait meanwhile.
const CHECKPOINT_TIMEOUT: Duration = Duration::from_millis(20);

#[derive(Default)]
pub(super) struct SqliteWriter {
    queue: Option<Arc<WriteQueue>>,
    database: Option<OpenDatabase>,
}

struct OpenDatabase {
    connection: Connection,
    identity: FileIdentity,
    wal_path: PathBuf,
    turn_count: u64,
    /// The WAL's length when truncating failed; 0 after a success.
    untruncated_length: u64,
}

/// The right to write, exclusive across threads and processes.
pub(super) struct WriteTurn<'a> {
    // Field order matters: the queue turn is dropped before the guard, so that the next thread
    // finds the queue free.
    turn: Result<WriteQueueTurn, SqliteError>,
    writer: MutexGuard<'a, SqliteWriter>,
}

impl SqliteStore {
    /// Waits for our turn. A failure is reported when the turn is used.
    pub(super) fn take_write_turn(&self) -> WriteTurn<'_> {
        let mut writer = lock(&self.writer);
        let turn = self.take_queue_turn(&mut writer);
        WriteTurn { turn, writer }
    }

    fn take_queue_turn(&self, writer: &mut SqliteWriter) -> Result<WriteQueueTurn, SqliteError> {
        loop {
            let queue = match &writer.queue {
                Some(queue) => queue,
                None => {
                    self.file.find_identity()?;
                    self.file.refuse_network_file_system()?;
                    let real_path = self.file.prepare_path()?;
                    writer.queue.insert(Arc::new(WriteQueue::open(&real_path)?))
                }
            };
            if let Some(turn) = queue.take_turn()? {
                return Ok(turn);
            }
            // The lock file was removed, perhaps with the whole store: reopen everything.
            *writer = SqliteWriter::default();
        }
    }
}

impl WriteTurn<'_> {
    /// Returns the connection to the file now at the path, migrated.
    pub(super) fn connection(&mut self, store: &SqliteStore) -> Result<&Connection, SqliteError> {
        self.open_database(store).map(|open| &open.connection)
    }

    /// Runs a function on a connection whose commits do not sync the file.
    pub(super) fn with_unsynced_connection<T>(
        &mut self,
        store: &SqliteStore,
        run: impl FnOnce(&Connection) -> Result<T, SqliteError>,
    ) -> Result<T, SqliteError> {
        self.open_database(store)?;
        // Taken out, so that the connection is closed if syncing cannot be restored.
        let open = self.writer.database.take();
        let open = open.expect("BUG: it was just opened");
        let connection = &open.connection;
        // Not as cached statements: SQLite applies this setting while it prepares it.
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        let outcome = run(connection);
        // Fails if a transaction is still open.
        if connection
            .pragma_update(None, "synchronous", "FULL")
            .is_ok()
        {
            self.writer.database = Some(open);
        }
        outcome
    }

    /// Opens and migrates the file. Returns the schema version before.
    pub(super) fn migrate_schema(&mut self, store: &SqliteStore) -> Result<u32, SqliteError> {
        if let Err(error) = &self.turn {
            return Err(error.clone());
        }
        self.writer.database = None;
        let (open, before) = OpenDatabase::new(store)?;
        self.writer.database = Some(open);
        Ok(before)
    }

    fn open_database(&mut self, store: &SqliteStore) -> Result<&OpenDatabase, SqliteError> {
        if let Err(error) = &self.turn {
            return Err(error.clone());
        }
        let found = store.file.find_identity()?;
        // A replaced file needs a new connection.
        let is_same_file = |open: &OpenDatabase| found == Some(open.identity);
        let open = match self.writer.database.take().filter(is_same_file) {
            Some(open) => open,
            None => OpenDatabase::new(store)?.0,
        };
        let open = self.writer.database.insert(open);
        open.turn_count += 1;
        Ok(open)
    }

    /// Checks whether the WAL is long enough to truncate.
    pub(super) fn needs_wal_truncation(&self) -> bool {
        let open = self.writer.database.as_ref().filter(|_| self.turn.is_ok());
        open.is_some_and(|open| {
            if open.turn_count % WAL_CHECK_INTERVAL != 1 {
                return false;
            }
            let length = open.wal_length();
            let grown = length.saturating_sub(open.untruncated_length);
            // If it is shorter than when truncating failed, it has been restarted since.
            length >= WAL_TRUNCATE_THRESHOLD
                && (grown >= WAL_TRUNCATE_THRESHOLD || length < open.untruncated_length)
        })
    }

    /// Truncates the WAL, unless a reader uses it for too long. Then it is tried again once the log
    /// has grown by as much again.
    pub(super) fn try_truncate_wal(&mut self) {
        let Some(open) = &mut self.writer.database else {
            return;
        };
        // The next batch does not depend on this; a real failure shows there.
        let _ = open.truncate_wal();
        open.untruncated_length = open.wal_length();
    }
}

impl Drop for WriteTurn<'_> {
    /// Closes the connection after a panic that left a transaction open. Otherwise the next turn
    /// would find the database locked.
    fn drop(&mut self) {
        let open = self.writer.database.as_ref();
        if open.is_some_and(|open| !open.connection.is_autocommit()) {
            self.writer.database = None;
        }
    }
}

impl OpenDatabase {
    /// Opens or creates the file and migrates its schema, after a backup if it holds data. The
    /// caller must hold the write turn: the switch to WAL and migrations need exclusive access.
    fn new(store: &SqliteStore) -> Result<(Self, u32), SqliteError> {
        store.file.refuse_network_file_system()?;
        let vacant = store.file.is_absent_or_empty();
        if vacant {
            create::create_database(&store.file, store.migrations)?;
        }
        let mut connection = connection::open_writer(&store.file)?;
        // Check before changing anything: a foreign file stays untouched.
        let found = connection::read_in_snapshot(&connection, migrate::read_schema_version)?;
        let known = store.supported_schema_version();
        if let Some(found) = found.filter(|found| *found > known) {
            return Err(SqliteError::NewerSchema { found, known });
        }
        connection::require_wal(&connection)?;
        let before = match found {
            Some(_) if vacant => 0,
            Some(found) if found == known => found,
            older => {
                if older.is_some() {
                    let name = format!(".before-schema-{known}");
                    copy::copy_replacing(&connection, &path_with_suffix(store.file.path(), &name))?;
                }
                migrate::run_migrations(&mut connection, store.migrations)?
            }
        };
        let Some(identity) = store.file.find_identity()? else {
            return Err(SqliteError::Unusable(
                "it was removed while it was being opened".into(),
            ));
        };
        let real_path = store.file.path().canonicalize()?;
        let open = Self {
            connection,
            identity,
            wal_path: path_with_suffix(&real_path, "-wal"),
            turn_count: 0,
            untruncated_length: 0,
        };
        Ok((open, before))
    }

    fn wal_length(&self) -> u64 {
        std::fs::metadata(&self.wal_path).map_or(0, |wal| wal.len())
    }

    fn truncate_wal(&self) -> Result<(), SqliteError> {
        self.connection.busy_timeout(CHECKPOINT_TIMEOUT)?;
        let emptied = migrate::query_number::<i64>(&self.connection, sql::TRUNCATE_WAL);
        self.connection.busy_timeout(BUSY_TIMEOUT)?;
        emptied.map(|_| ())
    }
}
