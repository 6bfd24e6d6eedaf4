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
mod create;
mod database_file;
mod error;
mod group;
mod maintain;
mod migrate;
mod read;
mod rename;
mod rows;
mod statements;
mod tail;
#[cfg(all(test, not(feature = "shuttle")))]
mod tests;
mod write_queue;
mod writer;

use std::path::Path;
use std::time::Duration;

use crate::fault::StoreFaults;
use crate::sync::Mutex;
use crate::{Clock, Submission};
use commit::Answer;
use connection::ReaderPool;
use database_file::DatabaseFile;
use group::CommitGroup;
use migrate::SchemaMigration;
use tail::CommitCounter;
use writer::SqliteWriter;

/// A store in one SQLite file.
pub struct SqliteStore {
    file: DatabaseFile,
    options: SqliteOptions,
    migrations: &'static [SchemaMigration],
    group: CommitGroup<Submission, Answer>,
    writer: Mutex<SqliteWriter>,
    readers: ReaderPool,
    commit_counter: CommitCounter,
    poll_interval: Duration,
}

/// What can be chosen about a store; the default is what a product wants.
#[derive(Debug, Clone, Default)]
pub struct SqliteOptions {
    /// Where `now` comes from.
    pub clock: Clock,
    /// What fails, in tests.
    pub faults: StoreFaults,
}

impl SqliteStore {
    /// The store at a path. Touches nothing on disk: the file, and its directory, are created by
    /// the first write.
    pub fn new(path: impl AsRef<Path>, options: SqliteOptions) -> Self {
        Self {
            file: DatabaseFile::new(path.as_ref(), database_file::network_file_system),
            options,
            migrations: migrate::MIGRATIONS,
            group: CommitGroup::default(),
            writer: Mutex::default(),
            readers: ReaderPool::default(),
            commit_counter: CommitCounter::default(),
            poll_interval: tail::COMMIT_POLL_INTERVAL,
        }
    }

    /// How many callers of [`Commit::commit`](crate::Commit::commit) lead a batch, or wait for one
    /// that takes their submission. For those who watch a store, and for tests.
    pub fn queued_callers(&self) -> usize {
        self.group.queued_callers()
    }

    fn supported_schema_version(&self) -> u32 {
        migrate::latest_schema_version(self.migrations)
    }
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore")
            .field("place", &self.file.display_path())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
