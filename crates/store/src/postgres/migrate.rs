//! The schema: numbered migrations, applied in order, forward only.
//!
//! The first write creates the schema in an empty database. An older schema is refused until
//! `migrate` runs, because other programs may still use it.
//!
//! A schema change takes an advisory lock (`ADVISORY_LOCK`), so that many processes can try at
//! once. It also locks the version table, which every write reads. Transactions that began under
//! the old schema therefore end before the change, and later ones see the new version.

use std::time::Duration;

use super::PostgresShared;
use super::connection::PostgresConnection;
use super::error::{PostgresError, corrupt_error, unusable_error};
use super::facts::advisory_lock_key;
use super::pipeline::values;
use super::pool::PooledConnection;
use super::rows::RowColumns;
use super::statements::{
    ADVISORY_LOCK, INSERT_SCHEMA_VERSION, SCHEMA_EXISTS, SCHEMA_VERSION, SET_SCHEMA_VERSION,
    SPLIT_PLANS, UNSPLIT_PLANS,
};
use crate::StoreError;
use crate::plan_columns::split_plan;

/// The migration that moves terms into their own table, which SQL alone cannot do.
const SPLIT_SCHEMA_VERSION: u32 = 5;

/// Plans converted at a time, so that memory does not grow with the store.
const SPLIT_PAGE_SIZE: i64 = 200;

/// The title and statements of every migration. Its number is its position, from 1.
const MIGRATIONS: &[(&str, &str)] = &[
    ("plans", include_str!("migrations/0001_plans.sql")),
    ("projects", include_str!("migrations/0002_projects.sql")),
    ("ledger", include_str!("migrations/0003_ledger.sql")),
    (
        "evidence by subject",
        include_str!("migrations/0004_evidence_by_subject.sql"),
    ),
    ("plan terms", include_str!("migrations/0005_plan_terms.sql")),
    (
        "transcripts",
        include_str!("migrations/0006_transcripts.sql"),
    ),
    ("reviews", include_str!("migrations/0007_reviews.sql")),
];

#[expect(clippy::cast_possible_truncation, reason = "there are few migrations")]
pub(super) const SUPPORTED_SCHEMA_VERSION: u32 = MIGRATIONS.len() as u32;

/// Attempts if a schema change collides with writers.
const MAX_MIGRATION_ATTEMPTS: u32 = 5;

/// The timeout for operations on the whole store.
pub(super) const MAINTENANCE_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// Returns the schema version; `None` if the database contains no store.
pub(super) fn find_schema_version(
    connection: &mut PostgresConnection,
    place: &str,
) -> Result<Option<u32>, PostgresError> {
    let schema = connection.schema.clone();
    let found = connection.query_statement(SCHEMA_EXISTS, values![schema])?;
    let Some(row) = found.first() else {
        return Ok(None);
    };
    let row = RowColumns::new(row, place);
    let is_usable: bool = row.get(0).map_err(PostgresError::Permanent)?;
    if !is_usable {
        let why = format!(
            "this user has no permission for schema {}",
            connection.schema
        );
        return Err(PostgresError::Permanent(unusable_error(place, why)));
    }
    let exists: bool = row.get(1).map_err(PostgresError::Permanent)?;
    if !exists {
        return Ok(None);
    }
    let version = match connection.query_statement(SCHEMA_VERSION, values![]) {
        // A table with that name that is not ours.
        Err(PostgresError::SchemaMissing(_)) => {
            let error = StoreError::NotAStore {
                place: place.to_owned(),
            };
            return Err(PostgresError::Permanent(error));
        }
        version => version?,
    };
    match version.first() {
        Some(row) => decode_schema_version(RowColumns::new(row, place))
            .map(Some)
            .map_err(PostgresError::Permanent),
        None => Err(PostgresError::Permanent(corrupt_error(
            place,
            "the table `schema_version` is empty",
        ))),
    }
}

/// Decodes a row of `SCHEMA_VERSION`.
pub(super) fn decode_schema_version(row: RowColumns<'_>) -> Result<u32, StoreError> {
    let version: i32 = row.get(0)?;
    Ok(u32::try_from(version).unwrap_or_default())
}

pub(super) fn require_supported_schema(place: &str, found: u32) -> Result<(), StoreError> {
    let place = || place.to_owned();
    match found.cmp(&SUPPORTED_SCHEMA_VERSION) {
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Less => Err(StoreError::OlderSchema {
            place: place(),
            found,
            known: SUPPORTED_SCHEMA_VERSION,
        }),
        std::cmp::Ordering::Greater => Err(StoreError::NewerSchema {
            place: place(),
            found,
            known: SUPPORTED_SCHEMA_VERSION,
        }),
    }
}

/// Creates the store if there is none. Does not migrate an older one.
pub(super) fn create_if_absent(shared: &PostgresShared) -> Result<(), StoreError> {
    let (_, found) = change_schema(shared, SchemaGoal::AnyVersion)?;
    require_supported_schema(shared.place(), found)
}

/// Migrates to the current version. Returns the versions before and after.
pub(super) fn migrate_schema(shared: &PostgresShared) -> Result<(u32, u32), StoreError> {
    let (before, found) = change_schema(shared, SchemaGoal::SupportedVersion)?;
    require_supported_schema(shared.place(), found)?;
    Ok((before, found))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SchemaGoal {
    AnyVersion,
    SupportedVersion,
}

fn change_schema(shared: &PostgresShared, goal: SchemaGoal) -> Result<(u32, u32), StoreError> {
    let (mut attempt, mut connection_lost) = (1, false);
    loop {
        let mut connection = if connection_lost {
            shared.pool.acquire_after_loss()?
        } else {
            shared.pool.acquire_connection()?
        };
        match change_in_transaction(&mut connection, shared, goal) {
            Ok(versions) => {
                connection.return_to_pool();
                return Ok(versions);
            }
            // The next attempt reads the version again and so learns whether this one succeeded.
            Err(
                error @ (PostgresError::ConnectionLost(_)
                | PostgresError::Conflict(_)
                | PostgresError::StaleStatement(_)),
            ) if attempt < MAX_MIGRATION_ATTEMPTS => {
                attempt += 1;
                connection_lost |= matches!(error, PostgresError::ConnectionLost(_));
            }
            Err(error) => return Err(error.into_store_error()),
        }
    }
}

fn change_in_transaction(
    connection: &mut PooledConnection<'_>,
    shared: &PostgresShared,
    goal: SchemaGoal,
) -> Result<(u32, u32), PostgresError> {
    let place = shared.place();
    let lock_calls = vec![(
        ADVISORY_LOCK,
        values![advisory_lock_key(shared.schema(), "schema")],
    )];
    connection.query_all(Some("BEGIN"), lock_calls, None)?;
    // Read after the lock: another process may have changed the schema meanwhile.
    let found = find_schema_version(connection, place)?;
    let before = match found {
        None => {
            create_schema(connection, shared)?;
            0
        }
        Some(version) => version,
    };
    let mut version = before;
    if found.is_none() || goal == SchemaGoal::SupportedVersion {
        // Migrations may take long; only waits for locks stay bounded.
        connection.set_answer_timeout(Some(MAINTENANCE_TIMEOUT));
        connection.execute_batch(
            "SET LOCAL statement_timeout TO 0; LOCK TABLE schema_version IN ACCESS EXCLUSIVE MODE",
        )?;
        for (_, statements) in MIGRATIONS.iter().skip(before as usize) {
            connection
                .execute_batch(statements)
                .map_err(|error| classify_foreign_table(error, place))?;
            version += 1;
            if version == SPLIT_SCHEMA_VERSION {
                split_plans(connection, place)?;
            }
        }
        if version > before {
            let number = i32::try_from(version).unwrap_or(i32::MAX);
            connection.query_statement(SET_SCHEMA_VERSION, values![number])?;
        }
    }
    connection.execute_batch("COMMIT")?;
    connection.set_answer_timeout(None);
    Ok((before, version))
}

/// Moves the terms of every plan into their own table.
fn split_plans(connection: &mut PooledConnection<'_>, place: &str) -> Result<(), PostgresError> {
    let mut last_id = String::new();
    loop {
        let rows = connection.query_statement(UNSPLIT_PLANS, values![&last_id, SPLIT_PAGE_SIZE])?;
        let page: Result<Vec<(String, String, Option<String>)>, StoreError> = rows
            .iter()
            .map(|row| RowColumns::new(row, place))
            .map(|row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .collect();
        let page = page.map_err(PostgresError::Permanent)?;
        let Some((id, ..)) = page.last() else {
            return Ok(());
        };
        last_id.clone_from(id);
        let (mut ids, mut origins) = (Vec::new(), Vec::new());
        let (mut terms, mut states) = (Vec::new(), Vec::new());
        for (plan_id, body, first_event) in page {
            let (columns, state) = split_plan(&body, first_event.as_deref());
            ids.push(plan_id);
            origins.push(columns.origin_plan);
            terms.push(columns.body);
            states.push(state);
        }
        connection.query_statement(SPLIT_PLANS, values![ids, origins, terms, states])?;
    }
}

fn create_schema(
    connection: &mut PostgresConnection,
    shared: &PostgresShared,
) -> Result<(), PostgresError> {
    let system = connection.system_id;
    connection.execute_batch(&format!(
        "CREATE SCHEMA IF NOT EXISTS \"{}\"; \
         CREATE TABLE schema_version ( \
             singleton BOOLEAN PRIMARY KEY DEFAULT true CHECK (singleton), \
             version   INTEGER NOT NULL, \
             system    BIGINT NOT NULL, \
             xid_base  BIGINT NOT NULL \
         )",
        shared.schema()
    ))?;
    connection.query_statement(INSERT_SCHEMA_VERSION, values![system])?;
    Ok(())
}

/// Reports a foreign schema: one of our table names exists without our version table.
fn classify_foreign_table(error: PostgresError, place: &str) -> PostgresError {
    match error {
        PostgresError::Permanent(StoreError::Database { why })
            if why.contains("SQLSTATE 42P07") =>
        {
            PostgresError::Permanent(StoreError::NotAStore {
                place: place.to_owned(),
            })
        }
        other => other,
    }
}
