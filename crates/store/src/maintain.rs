//! Maintenance of a store: schema migration, backup, integrity checks.

use std::path::Path;

use crate::StoreError;

/// Maintenance operations, used by people and by `doctor`.
pub trait StoreMaintenance {
    /// Returns the kind, location and schema of the store. Never writes.
    fn read_info(&self) -> Result<StoreInfo, StoreError>;

    /// Migrates the schema to this program's version and creates the store if it is absent. Returns
    /// the versions before and after.
    fn migrate_schema(&self) -> Result<(u32, u32), StoreError>;

    /// Writes a consistent copy of the store to a new file.
    fn write_backup(&self, to: &Path) -> Result<(), StoreError>;

    /// Runs the database's own integrity checks. Returns one message per problem.
    fn check_integrity(&self) -> Result<Vec<String>, StoreError>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreInfo {
    /// `memory`, `sqlite` or `postgres`.
    pub kind: &'static str,
    /// Path or URL, without credentials.
    pub place: String,
    /// `None` if the store does not exist yet.
    pub schema_version: Option<u32>,
    /// The version this program reads and writes.
    pub supported_schema_version: u32,
}
