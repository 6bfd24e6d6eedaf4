//! Looking after a store: schema, copies, health.

use std::path::Path;

use crate::StoreError;

/// Upkeep, by people and by `doctor`.
pub trait StoreMaintenance {
    /// What and where it is. Never writes.
    fn read_info(&self) -> Result<StoreInfo, StoreError>;

    /// Brings the schema up to this program's, creating the store if it is absent. Returns the
    /// versions before and after.
    fn migrate_schema(&self) -> Result<(u32, u32), StoreError>;

    /// Writes a consistent copy to a new file.
    fn write_backup(&self, to: &Path) -> Result<(), StoreError>;

    /// What the database itself finds wrong with its files; nothing if all is well.
    fn check_integrity(&self) -> Result<Vec<String>, StoreError>;
}

/// What and where a store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreInfo {
    /// `memory`, `sqlite` or `postgres`.
    pub kind: &'static str,
    /// Path or address, without credentials.
    pub place: String,
    /// Its schema version; `None` if it does not exist yet.
    pub schema_version: Option<u32>,
    /// This program's.
    pub supported_schema_version: u32,
}
