//! Store errors, distinguished as far as it helps to fix the cause.

use plan::PlanId;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The location cannot hold a store: it is a directory, unreadable, or cannot be created.
    #[error("{place} cannot be used as a store: {why}")]
    Unusable {
        /// Path or URL, without credentials.
        place: String,
        why: String,
    },
    /// The file or database belongs to another program.
    #[error("{place} is not a Planwright store")]
    NotAStore { place: String },
    /// The store was written by a newer program.
    #[error("{place} has schema {found}, newer than this program's {known}")]
    NewerSchema {
        place: String,
        /// The store's schema version.
        found: u32,
        /// The newest schema version this program supports.
        known: u32,
    },
    /// The store was written by an older program and must be migrated first.
    #[error("{place} has schema {found}, older than this program's {known}")]
    OlderSchema {
        place: String,
        /// The store's schema version.
        found: u32,
        /// The schema version this program requires.
        known: u32,
    },
    /// The file is on a file system whose locks or shared memory do not work between machines.
    #[error("{place} is on a network file system ({kind})")]
    NetworkFileSystem {
        place: String,
        /// For example `nfs`.
        kind: &'static str,
    },
    /// The disk is full.
    #[error("no space left for {place}")]
    Full { place: String },
    /// The server does not respond.
    #[error("the database at {place} cannot be reached: {why}")]
    Unreachable {
        /// URL, without credentials.
        place: String,
        why: String,
    },
    /// Another process held the store's lock for too long.
    #[error("{place} was busy for too long")]
    Busy { place: String },
    /// Stored data cannot be decoded: damage, or a bug in Planwright.
    #[error("{place} is corrupt: {why}")]
    Corrupt { place: String, why: String },
    /// A transcript belongs to a plan that this store does not have.
    #[error("there is no plan {plan_id} in the store")]
    NoSuchPlan { plan_id: PlanId },
    /// Any other database error.
    #[error("database error: {why}")]
    Database { why: String },
    /// This kind of store does not support the operation.
    #[error("{what}")]
    Unsupported {
        /// The reason, and what to do instead.
        what: String,
    },
}

impl StoreError {
    /// Checks whether a retry may succeed without a change to the store.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Full { .. }
            | Self::Unreachable { .. }
            | Self::Busy { .. }
            | Self::Database { .. } => true,
            Self::Unusable { .. }
            | Self::NotAStore { .. }
            | Self::NewerSchema { .. }
            | Self::OlderSchema { .. }
            | Self::NetworkFileSystem { .. }
            | Self::Corrupt { .. }
            | Self::NoSuchPlan { .. }
            | Self::Unsupported { .. } => false,
        }
    }
}
