//! Maintenance of the file: schema, backups, integrity checks.

use std::path::Path;

use rusqlite::Connection;

use super::error::SqliteError;
use super::rows::select_all;
use super::{SqliteStore, connection, copy, migrate, statements as sql};
use crate::{StoreError, StoreInfo, StoreMaintenance};

/// The schema version that these checks are about.
const CHECKED_SCHEMA_VERSION: u32 = 5;

impl StoreMaintenance for SqliteStore {
    fn read_info(&self) -> Result<StoreInfo, StoreError> {
        Ok(StoreInfo {
            kind: "sqlite",
            place: self.file.display_path().to_owned(),
            schema_version: self.read_any_schema(|_| Ok(()))?.map(|(schema, ())| schema),
            supported_schema_version: self.supported_schema_version(),
        })
    }

    fn migrate_schema(&self) -> Result<(u32, u32), StoreError> {
        let before = self.take_write_turn().migrate_schema(self);
        let before = before.map_err(|error| error.into_store_error(self.file.display_path()))?;
        Ok((before, self.supported_schema_version()))
    }

    fn write_backup(&self, to: &Path) -> Result<(), StoreError> {
        let copied = self.read_any_schema(|connection| {
            // Nested results: an error about the target must not be reported for the store.
            Ok(copy::copy_to_new_file(connection, to))
        })?;
        match copied {
            Some((_, copied)) => {
                copied.map_err(|error| error.into_store_error(&to.display().to_string()))
            }
            None => Err(StoreError::Unusable {
                place: self.file.display_path().to_owned(),
                why: "there is nothing to copy yet".to_owned(),
            }),
        }
    }

    fn check_integrity(&self) -> Result<Vec<String>, StoreError> {
        match self.read_any_schema(find_problems) {
            Ok(found) => Ok(found.map(|(_, found)| found).unwrap_or_default()),
            // A file too damaged to check is itself a finding.
            Err(StoreError::Corrupt { why, .. }) => Ok(vec![why]),
            Err(error) => Err(error),
        }
    }
}

fn find_problems(connection: &Connection) -> Result<Vec<String>, SqliteError> {
    let mut found: Vec<String> =
        select_all(connection, sql::INTEGRITY_CHECK, [], |row| Ok(row.get(0)?))?;
    found.retain(|line| line != "ok");
    found.extend(select_all(
        connection,
        sql::FOREIGN_KEY_VIOLATIONS,
        [],
        |row| {
            let (table, parent): (String, String) = (row.get(0)?, row.get(1)?);
            Ok(format!(
                "a row of {table} refers to a missing row of {parent}"
            ))
        },
    )?);
    // Older schemas do not have these tables.
    let schema: u32 = migrate::query_number(connection, sql::SCHEMA_VERSION)?;
    if schema >= CHECKED_SCHEMA_VERSION {
        found.extend(select_all(connection, sql::WRONG_TERMS_ROWS, [], |row| {
            let plan: String = row.get(0)?;
            Ok(format!(
                "plan {plan}: its terms are missing or their row does not match them"
            ))
        })?);
        found.extend(select_all(
            connection,
            sql::WRONG_PROJECT_ROWS,
            [],
            |row| {
                let plan: String = row.get(0)?;
                Ok(format!(
                    "plan {plan}: its project rows do not match the plan"
                ))
            },
        )?);
    }
    Ok(found)
}

impl SqliteStore {
    /// Reads a store of any schema version and returns that version. `None` if there is no store.
    fn read_any_schema<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, SqliteError>,
    ) -> Result<Option<(u32, T)>, StoreError> {
        let try_read = || {
            let Some(reader) = self.readers.take_reader(&self.file)? else {
                return Ok(None);
            };
            let connection = &reader.connection;
            let Some(schema) =
                connection::read_in_snapshot(connection, migrate::read_schema_version)?
            else {
                return Ok(None);
            };
            let found = read(connection)?;
            self.readers.return_reader(reader);
            Ok(Some((schema, found)))
        };
        try_read().map_err(|error: SqliteError| error.into_store_error(self.file.display_path()))
    }
}
