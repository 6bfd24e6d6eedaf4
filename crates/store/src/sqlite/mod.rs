//! The SQLite store: one file, any number of threads and processes.
//!
//! Writing: submissions that wait at the same time share one transaction (`group.rs`); processes
//! take turns (`turnstile.rs`), so that the database's own lock is free when it is asked for. A
//! commit is durable (`synchronous=FULL`) before anybody is told of it.
//!
//! Reading: read-only connections, one snapshot per call, beside any writer. Reading creates
//! nothing: an absent file is an empty store.
//!
//! Nothing is kept from one call to the next but open connections; a file that was replaced is
//! noticed at the next call.

mod commit;
mod connection;
mod copy;
mod fresh;
mod group;
mod maintain;
mod migrate;
mod naming;
mod place;
mod read;
mod rows;
mod statements;
mod tail;
#[cfg(all(test, not(feature = "shuttle")))]
mod tests;
mod turnstile;
mod writer;
mod wrong;

use std::path::Path;
use std::time::Duration;

use crate::fault::Faults;
use crate::sync::Mutex;
use crate::{Clock, Submission};
use commit::Answer;
use connection::Readers;
use group::Group;
use migrate::Migration;
use place::Place;
use tail::Commits;
use writer::Writer;

/// A store in one SQLite file.
pub struct SqliteStore {
    place: Place,
    options: SqliteOptions,
    migrations: &'static [Migration],
    group: Group<Submission, Answer>,
    writer: Mutex<Writer>,
    readers: Readers,
    commits: Commits,
    look_every: Duration,
}

/// What can be chosen about a store; the default is what a product wants.
#[derive(Debug, Clone, Default)]
pub struct SqliteOptions {
    /// Where `now` comes from.
    pub clock: Clock,
    /// What fails, in tests.
    pub faults: Faults,
}

impl SqliteStore {
    /// The store at a path. Touches nothing on disk: the file, and its directory, are created by
    /// the first write.
    pub fn new(path: impl AsRef<Path>, options: SqliteOptions) -> Self {
        Self {
            place: Place::new(path.as_ref(), place::network_file_system),
            options,
            migrations: migrate::MIGRATIONS,
            group: Group::default(),
            writer: Mutex::default(),
            readers: Readers::default(),
            commits: Commits::default(),
            look_every: tail::LOOK_EVERY,
        }
    }

    /// How many callers of [`Commit::commit`](crate::Commit::commit) lead a batch, or wait for one
    /// that takes their submission. For those who watch a store, and for tests.
    pub fn in_line(&self) -> usize {
        self.group.in_line()
    }

    fn known_schema(&self) -> u32 {
        migrate::known(self.migrations)
    }
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore")
            .field("place", &self.place.shown())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
