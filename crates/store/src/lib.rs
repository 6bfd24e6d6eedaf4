//! Planwright's stores: memory, SQLite and PostgreSQL behind one write path.
//!
//! A store knows rows, not plans: [`Commit::commit`] reads the rows a decision needs in one
//! snapshot, hands them to a pure function, and commits what it returns, all or nothing. What may
//! happen to a plan is decided in the `plan` crate; when, in `lifecycle`.
//!
//! Nothing mutable is cached anywhere in this crate: every read goes to the database.

pub mod clock;
pub mod commit;
pub mod error;
pub mod fault;
pub mod maintain;
pub mod memory;
pub mod postgres;
pub mod read;
pub mod record;
pub mod sqlite;
pub mod tail;
pub mod verify;

mod columns;
mod sync;

pub use clock::Clock;
pub use commit::{
    Access, ChangesetReads, Commit, CommitError, Committed, DecideFn, Key, LedgerReads,
    ProjectReads, Reads, Submission,
};
pub use error::StoreError;
pub use maintain::{Maintain, StoreInfo};
pub use memory::MemoryStore;
pub use postgres::{PostgresOptions, PostgresStore};
pub use read::{Agenda, Due, PlanFilter, PlanRow, Read, Snapshot};
pub use sqlite::{SqliteOptions, SqliteStore};
pub use tail::{Cursor, EventPage, StoredEvent, Tail};

/// Everything the engine needs of a store.
pub trait Store: Commit + Read + Tail + Maintain + Send + Sync {}

impl<T: Commit + Read + Tail + Maintain + Send + Sync> Store for T {}
