//! The SQLite store: one file, any number of threads and processes.
//!
//! Writes: submissions that wait at the same time share one transaction (`group.rs`). Processes
//! take turns (`write_queue.rs`), so that the database's own lock is free when it is requested. A
//! commit is durable (`synchronous=FULL`) before its caller gets an answer.
//!
//! Reads: read-only connections, one snapshot per call, concurrent with any writer. A read creates
//! nothing: an absent file is an empty store.
//!
//! Only open connections are kept between calls. A replaced file is detected at the next call.

mod commit;
mod commit_watch;
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
mod transcript;
mod write_queue;
mod writer;

use std::path::Path;

use crate::fault::StoreFaults;
use crate::sync::Mutex;
use crate::{Clock, Submission};
use commit::SubmissionAnswer;
use commit_watch::CommitWatch;
use connection::ReaderPool;
use database_file::DatabaseFile;
use group::CommitGroup;
use migrate::SchemaMigration;
use writer::SqliteWriter;

/// A store in one SQLite file.
pub struct SqliteStore {
    file: DatabaseFile,
    options: SqliteOptions,
    migrations: &'static [SchemaMigration],
    group: CommitGroup<Submission, SubmissionAnswer>,
    writer: Mutex<SqliteWriter>,
    readers: ReaderPool,
    commit_watch: CommitWatch,
}

#[derive(Debug, Clone, Default)]
pub struct SqliteOptions {
    pub clock: Clock,
    /// Faults to inject, for tests.
    pub faults: StoreFaults,
}

impl SqliteStore {
    /// Creates a store for a path. Does not touch the disk: the first write creates the file and
    /// its directory.
    pub fn new(path: impl AsRef<Path>, options: SqliteOptions) -> Self {
        Self {
            file: DatabaseFile::new(path.as_ref(), database_file::network_file_system),
            options,
            migrations: migrate::MIGRATIONS,
            group: CommitGroup::default(),
            writer: Mutex::default(),
            readers: ReaderPool::default(),
            commit_watch: CommitWatch::default(),
        }
    }

    /// Returns how many callers of [`StoreWriter::commit`](crate::StoreWriter::commit) lead a batch
    /// or wait to join one. For monitoring and tests.
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
