//! The schema version of a file, and the migrations to the current version.
//!
//! Migrations only go forward and have the same numbers and titles in every database.
//! `user_version` stores the number of the last one; `application_id` identifies our files.

use rusqlite::Connection;

use super::error::SqliteError;
use super::rows::select_all;
use super::statements as sql;
use crate::plan_columns::split_plan;

/// Plans converted at a time, so that memory does not grow with the store.
const SPLIT_PAGE_SIZE: usize = 200;

/// "PLWR", to distinguish our files from those of other programs.
pub(super) const APPLICATION_ID: i32 = 0x504c_5752;

/// The part of a migration that SQL cannot express.
type ConvertRows = fn(&Connection) -> Result<(), SqliteError>;

#[derive(Clone, Copy)]
pub(super) struct SchemaMigration {
    /// Counted from 1.
    pub number: u32,
    /// The same in every database.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "compared between databases, by tests")
    )]
    pub title: &'static str,
    pub sql: &'static str,
    /// Runs after the statements, in the same transaction.
    pub convert: Option<ConvertRows>,
}

/// All migrations, in order.
pub(super) const MIGRATIONS: &[SchemaMigration] = &[
    SchemaMigration {
        number: 1,
        title: "plans",
        sql: include_str!("migrations/0001_plans.sql"),
        convert: None,
    },
    SchemaMigration {
        number: 2,
        title: "projects",
        sql: include_str!("migrations/0002_projects.sql"),
        convert: None,
    },
    SchemaMigration {
        number: 3,
        title: "ledger",
        sql: include_str!("migrations/0003_ledger.sql"),
        convert: None,
    },
    SchemaMigration {
        number: 4,
        title: "evidence by subject",
        sql: include_str!("migrations/0004_evidence_by_subject.sql"),
        convert: None,
    },
    SchemaMigration {
        number: 5,
        title: "plan terms",
        sql: include_str!("migrations/0005_plan_terms.sql"),
        convert: Some(split_plans),
    },
    SchemaMigration {
        number: 6,
        title: "transcripts",
        sql: include_str!("migrations/0006_transcripts.sql"),
        convert: None,
    },
    SchemaMigration {
        number: 7,
        title: "reviews",
        sql: include_str!("migrations/0007_reviews.sql"),
        convert: None,
    },
];

/// Returns the schema version after the last of these migrations.
pub(super) fn latest_schema_version(migrations: &[SchemaMigration]) -> u32 {
    migrations.last().map_or(0, |last| last.number)
}

/// Returns the file's schema version in the current transaction; `None` if the file is blank.
/// Refuses files of other programs.
pub(super) fn read_schema_version(connection: &Connection) -> Result<Option<u32>, SqliteError> {
    let application: i32 = query_number(connection, sql::APPLICATION_ID)?;
    let schema: u32 = query_number(connection, sql::SCHEMA_VERSION)?;
    if application == APPLICATION_ID {
        return Ok(Some(schema));
    }
    let objects: i64 = query_number(connection, sql::SCHEMA_OBJECT_COUNT)?;
    if application == 0 && schema == 0 && objects == 0 {
        return Ok(None);
    }
    Err(SqliteError::NotAStore)
}

pub(super) fn require_supported_schema(found: u32, known: u32) -> Result<(), SqliteError> {
    match found.cmp(&known) {
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Less => Err(SqliteError::OlderSchema { found, known }),
        std::cmp::Ordering::Greater => Err(SqliteError::NewerSchema { found, known }),
    }
}

/// Applies these migrations in one transaction. Reads the version again inside it, because another
/// process may have migrated the file. Returns the version before; 0 for a blank file.
pub(super) fn run_migrations(
    connection: &mut Connection,
    migrations: &[SchemaMigration],
) -> Result<u32, SqliteError> {
    let known = latest_schema_version(migrations);
    let transaction =
        connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let before = read_schema_version(&transaction)?.unwrap_or(0);
    if before > known {
        return require_supported_schema(before, known).map(|()| before);
    }
    for migration in migrations.iter().filter(|next| next.number > before) {
        transaction.execute_batch(migration.sql)?;
        if let Some(convert) = migration.convert {
            convert(&transaction)?;
        }
    }
    if before < known {
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", known)?;
    }
    transaction.commit()?;
    Ok(before)
}

/// Moves the terms of every plan into their own table.
fn split_plans(connection: &Connection) -> Result<(), SqliteError> {
    let mut last_id = String::new();
    loop {
        let values = rusqlite::params![last_id, SPLIT_PAGE_SIZE];
        let page: Vec<(String, String, Option<String>)> =
            select_all(connection, sql::UNSPLIT_PLANS, values, |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })?;
        let Some((id, ..)) = page.last() else {
            return Ok(());
        };
        last_id.clone_from(id);
        for (plan_id, body, first_event) in page {
            let (terms, state) = split_plan(&body, first_event.as_deref());
            connection
                .prepare_cached(sql::INSERT_PLAN_TERMS)?
                .execute(rusqlite::params![plan_id, terms.origin_plan, terms.body])?;
            connection
                .prepare_cached(sql::SET_PLAN_BODY)?
                .execute([plan_id, state])?;
        }
    }
}

/// Returns the single number a statement selects.
pub(super) fn query_number<T: rusqlite::types::FromSql>(
    connection: &Connection,
    statement: &str,
) -> Result<T, SqliteError> {
    let mut statement = connection.prepare_cached(statement)?;
    Ok(statement.query_row([], |row| row.get(0))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_are_numbered_without_gaps() {
        let numbers: Vec<u32> = MIGRATIONS
            .iter()
            .map(|migration| migration.number)
            .collect();
        assert_eq!(
            numbers,
            (1..=latest_schema_version(MIGRATIONS)).collect::<Vec<_>>()
        );
        let titles = MIGRATIONS.iter().map(|migration| migration.title);
        let expected = [
            "plans",
            "projects",
            "ledger",
            "evidence by subject",
            "plan terms",
            "transcripts",
            "reviews",
        ];
        assert!(titles.eq(expected));
    }

    #[test]
    fn evidence_is_migrated_to_subjects() {
        let mut connection = Connection::open_in_memory().unwrap();
        run_migrations(&mut connection, &MIGRATIONS[..3]).unwrap();
        connection
            .execute_batch(
                r#"PRAGMA foreign_keys = off;
                INSERT INTO evidence VALUES ('p', 1, 'global', 'a', 1, '{"subject":"ab"}');
                INSERT INTO evidence VALUES ('p', 1, 'global', 'b', 1, '{}');"#,
            )
            .unwrap();
        run_migrations(&mut connection, MIGRATIONS).unwrap();
        let mut statement = connection
            .prepare("SELECT name, subject FROM evidence ORDER BY name")
            .unwrap();
        let found = statement
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap();
        let found: Vec<(String, String)> = found.map(Result::unwrap).collect();
        assert_eq!(
            found,
            [("a", "ab"), ("b", "")].map(|(name, subject)| (name.into(), subject.into()))
        );
    }

    #[test]
    fn a_migration_that_fails_leaves_the_schema_as_it_was() {
        let mut connection = Connection::open_in_memory().unwrap();
        let broken = [SchemaMigration {
            number: 1,
            title: "broken",
            sql: "CREATE TABLE one (x); CREATE TABLE one (x);",
            convert: None,
        }];
        assert!(run_migrations(&mut connection, &broken).is_err());
        assert_eq!(read_schema_version(&connection), Ok(None));
        assert_eq!(run_migrations(&mut connection, MIGRATIONS), Ok(0));
        assert_eq!(
            run_migrations(&mut connection, MIGRATIONS),
            Ok(latest_schema_version(MIGRATIONS))
        );
    }

    #[test]
    fn a_foreign_file_is_refused() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE theirs (x)").unwrap();
        assert_eq!(
            run_migrations(&mut connection, MIGRATIONS),
            Err(SqliteError::NotAStore)
        );
        let mut connection = Connection::open_in_memory().unwrap();
        connection.pragma_update(None, "application_id", 7).unwrap();
        assert_eq!(
            run_migrations(&mut connection, MIGRATIONS),
            Err(SqliteError::NotAStore)
        );
    }
}
