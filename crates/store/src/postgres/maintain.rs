//! Looking after the store.

use std::path::Path;

use tokio_postgres::Row;

use super::PostgresStore;
use super::migrate::{self, KNOWN, UNHURRIED, look};
use super::pipeline::values;
use super::read::begin;
use super::rows::Columns;
use super::statements::{
    ALL, CHECK_ORPHANS, CHECK_PROJECTS, CHECK_REVERSED, CHECK_VALIDITY, CHECK_VERSIONS,
};
use super::trouble::Trouble;
use crate::{Maintain, StoreError, StoreInfo};

/// Problems of one sort that are told at most.
const MOST_PROBLEMS: i64 = 100;

impl Maintain for PostgresStore {
    fn info(&self) -> Result<StoreInfo, StoreError> {
        Ok(StoreInfo {
            kind: "postgres",
            place: self.shared.place().to_owned(),
            schema: self.shared.with_connection(look)?,
            known_schema: KNOWN,
        })
    }

    fn migrate(&self) -> Result<(u32, u32), StoreError> {
        migrate::migrate(&self.shared)
    }

    fn backup(&self, to: &Path) -> Result<(), StoreError> {
        let (schema, place) = (self.shared.schema(), self.shared.place());
        Err(StoreError::Unsupported {
            what: format!(
                "a PostgreSQL store is copied by PostgreSQL itself: \
                 pg_dump --format=custom --schema={schema} --file={} '{place}'",
                shell_word(&to.display().to_string()),
            ),
        })
    }

    fn check(&self) -> Result<Vec<String>, StoreError> {
        let mut problems = self.statements_that_do_not_fit()?;
        if !problems.is_empty() {
            return Ok(problems);
        }
        let found = self.shared.in_snapshot(|connection, place| {
            begin(connection, place, Vec::new(), None)?;
            // Reads the whole store, however long that takes.
            connection.set_limit(Some(UNHURRIED));
            connection.batch("SET LOCAL statement_timeout TO 0")?;
            let calls = vec![
                (CHECK_VERSIONS, values![MOST_PROBLEMS]),
                (CHECK_REVERSED, values![MOST_PROBLEMS]),
                (CHECK_PROJECTS, values![MOST_PROBLEMS]),
                (CHECK_ORPHANS, values![MOST_PROBLEMS]),
                (CHECK_VALIDITY, values![self.shared.schema()]),
            ];
            let rows = connection.rows(None, calls, Some("COMMIT"))?;
            connection.set_limit(None);
            Ok(rows)
        })?;
        let Some([versions, reversed, projects, orphans, validity, _]) = found.as_deref() else {
            return Ok(Vec::new());
        };
        let place = self.shared.place();
        let mut tell = |rows: &[Row], problem: fn(Columns<'_>) -> Result<String, StoreError>| {
            for row in rows {
                problems.push(problem(Columns::of(row, place))?);
            }
            Ok::<(), StoreError>(())
        };
        tell(versions, |row| {
            Ok(format!(
                "plan {} is at version {} but has {} events, up to number {}",
                row.get::<&str>(0)?,
                row.get::<i64>(1)?,
                row.get::<i64>(2)?,
                row.get::<i64>(3)?
            ))
        })?;
        tell(reversed, |row| {
            Ok(format!(
                "plan {} cannot be found by the end of its id",
                row.get::<&str>(0)?
            ))
        })?;
        tell(projects, |row| {
            Ok(format!(
                "plan {} cannot be found by its projects",
                row.get::<&str>(0)?
            ))
        })?;
        tell(orphans, |row| {
            Ok(format!(
                "{} of {} belongs to nothing",
                row.get::<&str>(0)?,
                row.get::<&str>(1)?
            ))
        })?;
        tell(validity, |row| {
            Ok(format!(
                "{} {} is not in force",
                row.get::<&str>(0)?,
                row.get::<&str>(1)?
            ))
        })?;
        Ok(problems)
    }
}

impl PostgresStore {
    /// Statements of this program that the database does not understand: a table was changed by
    /// hand.
    fn statements_that_do_not_fit(&self) -> Result<Vec<String>, StoreError> {
        self.shared.with_connection(|connection, place| {
            let mut problems = Vec::new();
            let Some(found) = look(connection, place)? else {
                return Ok(problems);
            };
            migrate::require_current(place, found).map_err(Trouble::Final)?;
            for (name, sql) in ALL {
                match connection.prepare([*sql]) {
                    Ok(()) => {}
                    Err(Trouble::Schema(error) | Trouble::Final(error)) => {
                        problems.push(format!("{name} does not fit its tables: {error}"));
                    }
                    Err(trouble) => return Err(trouble),
                }
            }
            Ok(problems)
        })
    }
}

/// Quoted for a shell.
fn shell_word(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
