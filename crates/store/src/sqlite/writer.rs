//! The one writing connection of a store, and the turn it is used in.
//!
//! Everything that changes the file happens in a turn: first the lock inside this process, then
//! the turnstile between processes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;

use super::connection::{self, BUSY_TIMEOUT};
use super::place::{Identity, beside};
use super::statements as sql;
use super::turnstile::{Turn, Turnstile};
use super::wrong::Wrong;
use super::{SqliteStore, copy, fresh, migrate};
use crate::sync::{MutexGuard, lock};

/// A log longer than this is emptied by whoever notices. Automatic checkpoints copy its content
/// into the file but can start it over only at a moment when nobody reads.
pub(super) const LONG_WAL: u64 = 16 * 1024 * 1024;

/// The length of the log is looked at in the first of so many turns.
const TURNS_PER_LOOK: u64 = 16;

/// How long readers are waited for to empty the log. Everybody waits for that meanwhile.
const CHECKPOINT_PATIENCE: Duration = Duration::from_millis(20);

/// What is kept open between turns.
#[derive(Default)]
pub(super) struct Writer {
    turnstile: Option<Arc<Turnstile>>,
    open: Option<Open>,
}

struct Open {
    connection: Connection,
    identity: Identity,
    wal: PathBuf,
    turns: u64,
    /// How long the log was when it could not be emptied; 0 if it could.
    not_emptied_at: u64,
}

/// The right to write: nobody else in this process or another has it.
pub(super) struct WriteTurn<'a> {
    // In this order: the next in this process finds the turnstile free.
    turn: Result<Turn, Wrong>,
    writer: MutexGuard<'a, Writer>,
}

impl SqliteStore {
    /// Waits for our turn. If there is none to be had, that is said when it is used.
    pub(super) fn write_turn(&self) -> WriteTurn<'_> {
        let mut writer = lock(&self.writer);
        let turn = self.take_turn_with(&mut writer);
        WriteTurn { turn, writer }
    }

    fn take_turn_with(&self, writer: &mut Writer) -> Result<Turn, Wrong> {
        loop {
            let turnstile = match &writer.turnstile {
                Some(turnstile) => turnstile,
                None => {
                    self.place.look()?;
                    self.place.refuse_network()?;
                    let real = self.place.prepare()?;
                    writer.turnstile.insert(Arc::new(Turnstile::open(&real)?))
                }
            };
            if let Some(turn) = turnstile.take()? {
                return Ok(turn);
            }
            // Removed, perhaps with everything else: begin anew.
            *writer = Writer::default();
        }
    }
}

impl WriteTurn<'_> {
    /// The connection to the file that is at the place now, migrated.
    pub(super) fn connection(&mut self, store: &SqliteStore) -> Result<&Connection, Wrong> {
        self.open(store).map(|open| &open.connection)
    }

    /// Opens and migrates the file. Returns the schema it had.
    pub(super) fn migrate(&mut self, store: &SqliteStore) -> Result<u32, Wrong> {
        if let Err(wrong) = &self.turn {
            return Err(wrong.clone());
        }
        self.writer.open = None;
        let (open, before) = Open::new(store)?;
        self.writer.open = Some(open);
        Ok(before)
    }

    fn open(&mut self, store: &SqliteStore) -> Result<&Open, Wrong> {
        if let Err(wrong) = &self.turn {
            return Err(wrong.clone());
        }
        let found = store.place.look()?;
        // Another one if the file was replaced.
        let same = |open: &Open| found == Some(open.identity);
        let open = match self.writer.open.take().filter(same) {
            Some(open) => open,
            None => Open::new(store)?.0,
        };
        let open = self.writer.open.insert(open);
        open.turns += 1;
        Ok(open)
    }

    /// Has the log grown so long that it should be emptied?
    pub(super) fn wal_is_long(&self) -> bool {
        let open = self.writer.open.as_ref().filter(|_| self.turn.is_ok());
        open.is_some_and(|open| {
            if open.turns % TURNS_PER_LOOK != 1 {
                return false;
            }
            let length = open.wal_length();
            let grown = length.saturating_sub(open.not_emptied_at);
            // A shorter log than the one that could not be emptied is another one.
            length >= LONG_WAL && (grown >= LONG_WAL || length < open.not_emptied_at)
        })
    }

    /// Empties the log, unless somebody reads from it for too long. Then it is tried again once it
    /// has grown by as much again.
    pub(super) fn shorten_wal(&mut self) {
        let Some(open) = &mut self.writer.open else {
            return;
        };
        // Whatever comes of it, the next batch is not worse off; a real failure will show there.
        let _ = open.truncate_wal();
        open.not_emptied_at = open.wal_length();
    }
}

impl Drop for WriteTurn<'_> {
    /// A panic may have left a transaction open. Closing its connection ends it before the turn
    /// does: the next would find the database locked.
    fn drop(&mut self) {
        let open = self.writer.open.as_ref();
        if open.is_some_and(|open| !open.connection.is_autocommit()) {
            self.writer.open = None;
        }
    }
}

impl Open {
    /// Opens the file, creating it if it is absent, and brings its schema up to ours. A file that
    /// held anything is copied first. In turn: the switch to WAL and migrations need the file for
    /// themselves.
    fn new(store: &SqliteStore) -> Result<(Self, u32), Wrong> {
        store.place.refuse_network()?;
        let vacant = store.place.is_vacant();
        if vacant {
            fresh::make(&store.place, store.migrations)?;
        }
        let mut connection = connection::open_writer(&store.place)?;
        // Before anything is changed: somebody else's file stays as it is.
        let found = connection::in_snapshot(&connection, migrate::schema_of)?;
        let known = store.known_schema();
        if let Some(found) = found.filter(|found| *found > known) {
            return Err(Wrong::NewerSchema { found, known });
        }
        connection::require_wal(&connection)?;
        let before = match found {
            Some(_) if vacant => 0,
            Some(found) if found == known => found,
            older => {
                if older.is_some() {
                    let name = format!(".before-schema-{known}");
                    copy::replace(&connection, &beside(store.place.path(), &name))?;
                }
                migrate::run(&mut connection, store.migrations)?
            }
        };
        let Some(identity) = store.place.look()? else {
            return Err(Wrong::Unusable("it was removed while it was opened".into()));
        };
        let real = store.place.path().canonicalize()?;
        let open = Self {
            connection,
            identity,
            wal: beside(&real, "-wal"),
            turns: 0,
            not_emptied_at: 0,
        };
        Ok((open, before))
    }

    fn wal_length(&self) -> u64 {
        std::fs::metadata(&self.wal).map_or(0, |wal| wal.len())
    }

    fn truncate_wal(&self) -> Result<(), Wrong> {
        self.connection.busy_timeout(CHECKPOINT_PATIENCE)?;
        let emptied = migrate::number::<i64>(&self.connection, sql::TRUNCATE_WAL);
        self.connection.busy_timeout(BUSY_TIMEOUT)?;
        emptied.map(|_| ())
    }
}
