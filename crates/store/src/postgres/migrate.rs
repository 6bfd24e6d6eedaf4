//! The schema: numbered files, applied in order, forward only.
//!
//! A database without our schema is set up by the first write. A database with an older one is
//! refused until somebody says `migrate`: other programs may be using it. Whoever changes the schema
//! has the turn at it (`TAKE_TURN`), so that ten processes can try at once, and the table of the version, which
//! every write reads: what was begun under the old schema ends before the change, and what begins
//! after it sees the new version.

use std::time::Duration;

use super::Shared;
use super::connection::Connection;
use super::facts::turn;
use super::pipeline::values;
use super::pool::Lent;
use super::rows::Columns;
use super::statements::{INSERT_SCHEMA, SCHEMA, SCHEMA_EXISTS, SET_SCHEMA, TAKE_TURN};
use super::trouble::{Trouble, corrupt, unusable};
use crate::StoreError;

/// Every migration: its title and its statements. The number is its place, from 1.
const MIGRATIONS: &[(&str, &str)] = &[
    ("plans", include_str!("migrations/0001_plans.sql")),
    ("projects", include_str!("migrations/0002_projects.sql")),
    ("ledger", include_str!("migrations/0003_ledger.sql")),
    (
        "evidence by subject",
        include_str!("migrations/0004_evidence_by_subject.sql"),
    ),
];

/// The schema of this program.
#[expect(clippy::cast_possible_truncation, reason = "a handful")]
pub(super) const KNOWN: u32 = MIGRATIONS.len() as u32;

/// How often a change of the schema is tried when it collides with writers.
const ATTEMPTS: u32 = 5;

/// How long work on the whole store may take without an answer.
pub(super) const UNHURRIED: Duration = Duration::from_secs(24 * 3600);

/// The version found in the database; `None` if there is no store in it.
pub(super) fn look(connection: &mut Connection, place: &str) -> Result<Option<u32>, Trouble> {
    let schema = connection.schema.clone();
    let found = connection.query(SCHEMA_EXISTS, values![schema])?;
    let Some(row) = found.first() else {
        return Ok(None);
    };
    let row = Columns::of(row, place);
    let is_usable: bool = row.get(0).map_err(Trouble::Final)?;
    if !is_usable {
        let why = format!(
            "this user has no permission on the schema {}",
            connection.schema
        );
        return Err(Trouble::Final(unusable(place, why)));
    }
    let exists: bool = row.get(1).map_err(Trouble::Final)?;
    if !exists {
        return Ok(None);
    }
    let version = match connection.query(SCHEMA, values![]) {
        // A table of that name, but not ours.
        Err(Trouble::Schema(_)) => {
            let error = StoreError::NotAStore {
                place: place.to_owned(),
            };
            return Err(Trouble::Final(error));
        }
        version => version?,
    };
    match version.first() {
        Some(row) => read_version(Columns::of(row, place))
            .map(Some)
            .map_err(Trouble::Final),
        None => Err(Trouble::Final(corrupt(
            place,
            "the table of the schema's version is empty",
        ))),
    }
}

/// The version in a row of `SCHEMA`.
pub(super) fn read_version(row: Columns<'_>) -> Result<u32, StoreError> {
    let version: i32 = row.get(0)?;
    Ok(u32::try_from(version).unwrap_or_default())
}

/// Is this the schema we know?
pub(super) fn require_current(place: &str, found: u32) -> Result<(), StoreError> {
    let place = || place.to_owned();
    match found.cmp(&KNOWN) {
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Less => Err(StoreError::OlderSchema {
            place: place(),
            found,
            known: KNOWN,
        }),
        std::cmp::Ordering::Greater => Err(StoreError::NewerSchema {
            place: place(),
            found,
            known: KNOWN,
        }),
    }
}

/// Makes the store if there is none. Leaves an older one alone.
pub(super) fn set_up(shared: &Shared) -> Result<(), StoreError> {
    let (_, found) = change(shared, Wanted::SomeSchema)?;
    require_current(shared.place(), found)
}

/// Brings the schema up to ours; the versions before and after.
pub(super) fn migrate(shared: &Shared) -> Result<(u32, u32), StoreError> {
    let (before, found) = change(shared, Wanted::OurSchema)?;
    require_current(shared.place(), found)?;
    Ok((before, found))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    SomeSchema,
    OurSchema,
}

fn change(shared: &Shared, wanted: Wanted) -> Result<(u32, u32), StoreError> {
    let (mut attempt, mut lost) = (1, false);
    loop {
        let mut connection = if lost {
            shared.pool.lend_after_loss()?
        } else {
            shared.pool.lend()?
        };
        match in_transaction(&mut connection, shared, wanted) {
            Ok(versions) => {
                connection.put_back();
                return Ok(versions);
            }
            // Whatever was done or not, looking again shows it.
            Err(trouble @ (Trouble::Lost(_) | Trouble::Collision(_) | Trouble::Outdated(_)))
                if attempt < ATTEMPTS =>
            {
                attempt += 1;
                lost |= matches!(trouble, Trouble::Lost(_));
            }
            Err(trouble) => return Err(trouble.into_error()),
        }
    }
}

fn in_transaction(
    connection: &mut Lent<'_>,
    shared: &Shared,
    wanted: Wanted,
) -> Result<(u32, u32), Trouble> {
    let place = shared.place();
    let lock = vec![(TAKE_TURN, values![turn(shared.schema(), "schema")])];
    connection.rows(Some("BEGIN"), lock, None)?;
    let found = look(connection, place)?;
    let before = match found {
        None => {
            create(connection, shared)?;
            0
        }
        Some(version) => version,
    };
    let mut version = before;
    if found.is_none() || wanted == Wanted::OurSchema {
        // Migrations may take their time; only waiting for others is still bounded.
        connection.set_limit(Some(UNHURRIED));
        connection.batch(
            "SET LOCAL statement_timeout TO 0; LOCK TABLE schema_version IN ACCESS EXCLUSIVE MODE",
        )?;
        for (_, statements) in MIGRATIONS.iter().skip(before as usize) {
            connection
                .batch(statements)
                .map_err(|trouble| not_ours(trouble, place))?;
            version += 1;
        }
        if version > before {
            let number = i32::try_from(version).unwrap_or(i32::MAX);
            connection.query(SET_SCHEMA, values![number])?;
        }
    }
    connection.batch("COMMIT")?;
    connection.set_limit(None);
    Ok((before, version))
}

fn create(connection: &mut Connection, shared: &Shared) -> Result<(), Trouble> {
    let system = connection.system;
    connection.batch(&format!(
        "CREATE SCHEMA IF NOT EXISTS \"{}\"; \
         CREATE TABLE schema_version ( \
             singleton BOOLEAN PRIMARY KEY DEFAULT true CHECK (singleton), \
             version   INTEGER NOT NULL, \
             system    BIGINT NOT NULL, \
             xid_base  BIGINT NOT NULL \
         )",
        shared.schema()
    ))?;
    connection.query(INSERT_SCHEMA, values![system])?;
    Ok(())
}

/// A table of ours that is there without our version was made by somebody else.
fn not_ours(trouble: Trouble, place: &str) -> Trouble {
    match trouble {
        Trouble::Final(StoreError::Database { why }) if why.contains("SQLSTATE 42P07") => {
            Trouble::Final(StoreError::NotAStore {
                place: place.to_owned(),
            })
        }
        other => other,
    }
}
