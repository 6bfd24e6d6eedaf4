//! What can be wrong with a store, told apart as far as it helps somebody to mend it.

/// Why a store could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Its place cannot be used: a directory, unreadable, not creatable.
    #[error("{place} cannot be used as a store: {why}")]
    Unusable {
        /// Path or address, without credentials.
        place: String,
        /// What is wrong with it.
        why: String,
    },
    /// The file is not one of ours.
    #[error("{place} is not a Planwright store")]
    NotAStore {
        /// Path or address.
        place: String,
    },
    /// The store was written by a newer program.
    #[error("{place} has schema {found}, newer than this program's {known}")]
    NewerSchema {
        /// Path or address.
        place: String,
        /// Its schema.
        found: u32,
        /// Ours.
        known: u32,
    },
    /// The store was written by an older program and must be migrated first.
    #[error("{place} has schema {found}, older than this program's {known}")]
    OlderSchema {
        /// Path or address.
        place: String,
        /// Its schema.
        found: u32,
        /// Ours.
        known: u32,
    },
    /// The file lies on a file system that cannot keep its promises.
    #[error("{place} lies on a network file system ({kind})")]
    NetworkFileSystem {
        /// Path.
        place: String,
        /// Which.
        kind: &'static str,
    },
    /// No room is left.
    #[error("no room is left for {place}")]
    Full {
        /// Path or address.
        place: String,
    },
    /// The server does not answer.
    #[error("the database at {place} cannot be reached: {why}")]
    Unreachable {
        /// Address, without credentials.
        place: String,
        /// What went wrong.
        why: String,
    },
    /// Somebody held the store for too long.
    #[error("{place} was busy for too long")]
    Busy {
        /// Path or address.
        place: String,
    },
    /// What was read makes no sense: damage, or a defect of Planwright.
    #[error("{place} holds what cannot be read: {why}")]
    Corrupt {
        /// Path or address.
        place: String,
        /// What.
        why: String,
    },
    /// Anything else the database said.
    #[error("the database said: {why}")]
    Database {
        /// What it said.
        why: String,
    },
    /// This kind of store cannot do that.
    #[error("{what}")]
    Unsupported {
        /// What, and what to do instead.
        what: String,
    },
}

impl StoreError {
    /// May the same succeed in a moment, without anybody changing the store?
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
            | Self::Unsupported { .. } => false,
        }
    }
}
