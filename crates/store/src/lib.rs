//! Planwright's stores: memory, SQLite and PostgreSQL behind one write path.
//!
//! Stores handle rows and contain no plan logic. [`StoreWriter::commit`] reads the rows a decision
//! needs in one snapshot, passes them to a pure function, and commits the result, all or nothing.
//! The `plan` crate decides what may happen to a plan; `lifecycle` decides when.
//!
//! This crate caches no mutable data: every read goes to the database.

pub mod clock;
pub mod commit;
pub mod error;
pub mod event_codec;
pub mod fault;
pub mod maintain;
pub mod memory;
pub mod postgres;
pub mod read;
pub mod sqlite;
pub mod tail;
pub mod transcript;
pub mod verify;

mod plan_columns;
mod sync;

pub use clock::Clock;
pub use commit::{CommitError, CommitOutcome, DecideFn, IdempotencyKey, StoreWriter, Submission};
pub use error::StoreError;
pub use maintain::{StoreInfo, StoreMaintenance};
pub use memory::MemoryStore;
pub use plan::reads::{ChangesetReads, LedgerReads, ProjectReads, ReadSet, ReviewReads, RowAccess};
pub use postgres::{PostgresOptions, PostgresStore};
pub use read::{DuePlan, DueQueues, PlanFilter, PlanRow, PlanSnapshot, StoreReader};
pub use sqlite::{SqliteOptions, SqliteStore};
pub use tail::{CommitMark, Cursor, EventLog, EventPage, StoredEvent};
pub use transcript::{StoredTranscriptEntry, TranscriptLog, TranscriptPosition};

/// The traits the engine requires of a store.
pub trait Store:
    StoreWriter + StoreReader + EventLog + TranscriptLog + StoreMaintenance + Send + Sync
{
}

impl<T: StoreWriter + StoreReader + EventLog + TranscriptLog + StoreMaintenance + Send + Sync> Store
    for T
{
}
