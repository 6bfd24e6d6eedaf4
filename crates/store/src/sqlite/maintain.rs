//! Looking after the file: what it is, its schema, copies, health.

use std::path::Path;

use rusqlite::Connection;

use super::rows::all;
use super::wrong::Wrong;
use super::{SqliteStore, connection, copy, migrate, statements as sql};
use crate::{Maintain, StoreError, StoreInfo};

/// The schema that brought projects.
const PROJECTS: u32 = 2;

impl Maintain for SqliteStore {
    fn info(&self) -> Result<StoreInfo, StoreError> {
        Ok(StoreInfo {
            kind: "sqlite",
            place: self.place.shown().to_owned(),
            schema: self.on_any_schema(|_| Ok(()))?.map(|(schema, ())| schema),
            known_schema: self.known_schema(),
        })
    }

    fn migrate(&self) -> Result<(u32, u32), StoreError> {
        let before = self.write_turn().migrate(self);
        let before = before.map_err(|wrong| wrong.at(self.place.shown()))?;
        Ok((before, self.known_schema()))
    }

    fn backup(&self, to: &Path) -> Result<(), StoreError> {
        let copied = self.on_any_schema(|connection| {
            // What is wrong with the target must not be said of the store.
            Ok(copy::create(connection, to))
        })?;
        match copied {
            Some((_, copied)) => copied.map_err(|wrong| wrong.at(&to.display().to_string())),
            None => Err(StoreError::Unusable {
                place: self.place.shown().to_owned(),
                why: "there is nothing to copy yet".to_owned(),
            }),
        }
    }

    fn check(&self) -> Result<Vec<String>, StoreError> {
        match self.on_any_schema(problems) {
            Ok(found) => Ok(found.map(|(_, found)| found).unwrap_or_default()),
            // Too damaged to be looked at is what was asked for, too.
            Err(StoreError::Corrupt { why, .. }) => Ok(vec![why]),
            Err(error) => Err(error),
        }
    }
}

fn problems(connection: &Connection) -> Result<Vec<String>, Wrong> {
    let mut found: Vec<String> = all(connection, sql::INTEGRITY, [], |row| Ok(row.get(0)?))?;
    found.retain(|line| line != "ok");
    found.extend(all(connection, sql::DANGLING, [], |row| {
        let (table, parent): (String, String) = (row.get(0)?, row.get(1)?);
        Ok(format!(
            "a row of {table} refers to a row of {parent} that is not there"
        ))
    })?);
    // What an older program wrote has no such table yet.
    let schema: u32 = migrate::number(connection, sql::SCHEMA_VERSION)?;
    if schema >= PROJECTS {
        found.extend(all(connection, sql::MISPLACED, [], |row| {
            let plan: String = row.get(0)?;
            Ok(format!("plan {plan} cannot be found by its projects"))
        })?);
    }
    Ok(found)
}

impl SqliteStore {
    /// Reads a file of ours of whatever schema, and says which it is. `None` if there is none.
    fn on_any_schema<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, Wrong>,
    ) -> Result<Option<(u32, T)>, StoreError> {
        let try_read = || {
            let Some(reader) = self.readers.take(&self.place)? else {
                return Ok(None);
            };
            let connection = &reader.connection;
            let Some(schema) = connection::in_snapshot(connection, migrate::schema_of)? else {
                return Ok(None);
            };
            let found = read(connection)?;
            self.readers.give_back(reader);
            Ok(Some((schema, found)))
        };
        try_read().map_err(|wrong: Wrong| wrong.at(self.place.shown()))
    }
}
