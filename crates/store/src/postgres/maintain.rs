//! Maintenance of the store: schema, integrity checks. Backups are left to `pg_dump`.

use std::path::Path;

use tokio_postgres::Row;

use super::PostgresStore;
use super::error::PostgresError;
use super::migrate::{self, MAINTENANCE_TIMEOUT, SUPPORTED_SCHEMA_VERSION, find_schema_version};
use super::pipeline::values;
use super::read::begin_snapshot;
use super::rows::RowColumns;
use super::statements::{
    ALL, CHECK_ORPHANS, CHECK_PROJECTS, CHECK_REVERSED, CHECK_TERMS, CHECK_VALIDITY, CHECK_VERSIONS,
};
use crate::{StoreError, StoreInfo, StoreMaintenance};

/// Limit per kind of problem.
const MAX_PROBLEMS_REPORTED: i64 = 100;

impl StoreMaintenance for PostgresStore {
    fn read_info(&self) -> Result<StoreInfo, StoreError> {
        Ok(StoreInfo {
            kind: "postgres",
            place: self.shared.place().to_owned(),
            schema_version: self.shared.with_connection(find_schema_version)?,
            supported_schema_version: SUPPORTED_SCHEMA_VERSION,
        })
    }

    fn migrate_schema(&self) -> Result<(u32, u32), StoreError> {
        migrate::migrate_schema(&self.shared)
    }

    fn write_backup(&self, to: &Path) -> Result<(), StoreError> {
        let (schema, place) = (self.shared.schema(), self.shared.place());
        Err(StoreError::Unsupported {
            what: format!(
                "use pg_dump to back up a PostgreSQL store: \
                 pg_dump --format=custom --schema={schema} --file={} '{place}'",
                quote_for_shell(&to.display().to_string()),
            ),
        })
    }

    fn check_integrity(&self) -> Result<Vec<String>, StoreError> {
        let mut problems = self.list_invalid_statements()?;
        if !problems.is_empty() {
            return Ok(problems);
        }
        let found = self.shared.run_in_snapshot(|connection, place| {
            begin_snapshot(connection, place, Vec::new(), None)?;
            // This reads the whole store, so it may take any time.
            connection.set_answer_timeout(Some(MAINTENANCE_TIMEOUT));
            connection.execute_batch("SET LOCAL statement_timeout TO 0")?;
            let calls = vec![
                (CHECK_VERSIONS, values![MAX_PROBLEMS_REPORTED]),
                (CHECK_REVERSED, values![MAX_PROBLEMS_REPORTED]),
                (CHECK_TERMS, values![MAX_PROBLEMS_REPORTED]),
                (CHECK_PROJECTS, values![MAX_PROBLEMS_REPORTED]),
                (CHECK_ORPHANS, values![MAX_PROBLEMS_REPORTED]),
                (CHECK_VALIDITY, values![self.shared.schema()]),
            ];
            let rows = connection.query_all(None, calls, Some("COMMIT"))?;
            connection.set_answer_timeout(None);
            Ok(rows)
        })?;
        let Some([versions, reversed, terms, projects, orphans, validity, _]) = found.as_deref()
        else {
            return Ok(Vec::new());
        };
        let place = self.shared.place();
        let mut report_rows =
            |rows: &[Row], describe_row: fn(RowColumns<'_>) -> Result<String, StoreError>| {
                for row in rows {
                    problems.push(describe_row(RowColumns::new(row, place))?);
                }
                Ok::<(), StoreError>(())
            };
        report_rows(versions, |row| {
            Ok(format!(
                "plan {} is at version {} but has {} events, up to number {}",
                row.get::<&str>(0)?,
                row.get::<i64>(1)?,
                row.get::<i64>(2)?,
                row.get::<i64>(3)?
            ))
        })?;
        report_rows(reversed, |row| {
            Ok(format!(
                "plan {}: its reversed id is wrong",
                row.get::<&str>(0)?
            ))
        })?;
        report_rows(terms, |row| {
            Ok(format!(
                "plan {}: its terms are missing or their row does not match them",
                row.get::<&str>(0)?
            ))
        })?;
        report_rows(projects, |row| {
            Ok(format!(
                "plan {}: its project rows do not match the plan",
                row.get::<&str>(0)?
            ))
        })?;
        report_rows(orphans, |row| {
            Ok(format!(
                "{} of {} has no parent row",
                row.get::<&str>(0)?,
                row.get::<&str>(1)?
            ))
        })?;
        report_rows(validity, |row| {
            Ok(format!(
                "{} {} is not valid",
                row.get::<&str>(0)?,
                row.get::<&str>(1)?
            ))
        })?;
        Ok(problems)
    }
}

impl PostgresStore {
    /// Returns this program's statements that the database rejects, because a table was changed by
    /// hand.
    fn list_invalid_statements(&self) -> Result<Vec<String>, StoreError> {
        self.shared.with_connection(|connection, place| {
            let mut problems = Vec::new();
            let Some(found) = find_schema_version(connection, place)? else {
                return Ok(problems);
            };
            migrate::require_supported_schema(place, found).map_err(PostgresError::Permanent)?;
            for (name, sql) in ALL {
                match connection.prepare_statements([*sql]) {
                    Ok(()) => {}
                    Err(PostgresError::SchemaMissing(error) | PostgresError::Permanent(error)) => {
                        problems.push(format!(
                            "statement {name} does not match the tables: {error}"
                        ));
                    }
                    Err(error) => return Err(error),
                }
            }
            Ok(problems)
        })
    }
}

fn quote_for_shell(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
