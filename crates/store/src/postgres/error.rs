//! Classifies the driver's errors: which are final, and which allow a retry.
//!
//! Shows only the server's primary message. The detail quotes rows, which may contain secrets.

use tokio_postgres::error::{DbError, Severity, SqlState};

use crate::StoreError;

#[derive(Debug)]
pub(super) enum PostgresError {
    /// The connection is gone. Statements sent on it may or may not have been executed.
    ConnectionLost(StoreError),
    /// Another transaction won; this one was rolled back and can be retried.
    Conflict(StoreError),
    /// The connection's prepared statements are invalid; retry on another connection.
    StaleStatement(StoreError),
    /// A table or column is missing; check the schema.
    SchemaMissing(StoreError),
    /// A retry does not help.
    Permanent(StoreError),
}

impl PostgresError {
    /// Classifies an error of an established connection.
    pub fn classify_error(error: &tokio_postgres::Error, place: &str) -> Self {
        let Some(db) = error.as_db_error() else {
            return if is_client_side_error(error) {
                Self::Permanent(StoreError::Database {
                    why: format_error_chain(error),
                })
            } else {
                Self::ConnectionLost(unreachable_error(place, format_error_chain(error)))
            };
        };
        let code = db.code();
        if is_fatal(db) {
            return Self::ConnectionLost(unreachable_error(place, describe_db_error(db)));
        }
        match code {
            &SqlState::T_R_SERIALIZATION_FAILURE | &SqlState::T_R_DEADLOCK_DETECTED => {
                Self::Conflict(StoreError::Busy {
                    place: place.to_owned(),
                })
            }
            // This submission was committed or resolved before. Deciding again would not help.
            &SqlState::UNIQUE_VIOLATION if db.constraint() == Some("commands_pkey") => {
                Self::Permanent(StoreError::Database {
                    why: describe_db_error(db),
                })
            }
            // The rows changed since the decision read them: two transactions created one row, or
            // the guard in `UPDATE_PLAN` failed.
            &SqlState::UNIQUE_VIOLATION
            | &SqlState::NOT_NULL_VIOLATION
            | &SqlState::FOREIGN_KEY_VIOLATION => Self::Conflict(StoreError::Database {
                why: describe_db_error(db),
            }),
            &SqlState::UNDEFINED_TABLE
            | &SqlState::UNDEFINED_COLUMN
            | &SqlState::INVALID_SCHEMA_NAME => Self::SchemaMissing(StoreError::Database {
                why: describe_db_error(db),
            }),
            // A table changed under a prepared statement, or the server does not know the statement
            // any more.
            &SqlState::INVALID_SQL_STATEMENT_NAME => Self::StaleStatement(StoreError::Database {
                why: describe_db_error(db),
            }),
            &SqlState::FEATURE_NOT_SUPPORTED if db.message().contains("cached plan") => {
                Self::StaleStatement(StoreError::Database {
                    why: describe_db_error(db),
                })
            }
            _ => Self::Permanent(permanent_error(db, place)),
        }
    }

    pub fn into_store_error(self) -> StoreError {
        match self {
            Self::ConnectionLost(error)
            | Self::Conflict(error)
            | Self::StaleStatement(error)
            | Self::SchemaMissing(error)
            | Self::Permanent(error) => error,
        }
    }
}

/// Classifies an error while connecting.
pub(super) fn classify_connect_error(error: &tokio_postgres::Error, place: &str) -> StoreError {
    match error.as_db_error() {
        Some(db) => match db.code() {
            &SqlState::INVALID_PASSWORD
            | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION
            | &SqlState::INVALID_CATALOG_NAME
            | &SqlState::INSUFFICIENT_PRIVILEGE
            | &SqlState::UNDEFINED_OBJECT => unusable_error(place, describe_db_error(db)),
            &SqlState::TOO_MANY_CONNECTIONS => StoreError::Busy {
                place: place.to_owned(),
            },
            _ => unreachable_error(place, describe_db_error(db)),
        },
        None if is_config_error(error) => unusable_error(place, format_error_chain(error)),
        None => unreachable_error(place, format_error_chain(error)),
    }
}

/// Checks whether to retry connecting: the server is starting up or has no free connection slot.
pub(super) fn is_transient_connect_error(error: &tokio_postgres::Error) -> bool {
    matches!(
        error.code(),
        Some(&SqlState::CANNOT_CONNECT_NOW | &SqlState::TOO_MANY_CONNECTIONS)
    )
}

/// Checks whether the server closed the connection with this error. It executed nothing after it.
pub(super) fn is_fatal(error: &DbError) -> bool {
    match error.parsed_severity() {
        Some(severity) => matches!(severity, Severity::Fatal | Severity::Panic),
        None => matches!(error.severity(), "FATAL" | "PANIC"),
    }
}

pub(super) fn corrupt_error(place: &str, why: impl std::fmt::Display) -> StoreError {
    StoreError::Corrupt {
        place: place.to_owned(),
        why: why.to_string(),
    }
}

pub(super) fn unreachable_error(place: &str, why: String) -> StoreError {
    StoreError::Unreachable {
        place: place.to_owned(),
        why,
    }
}

pub(super) fn unusable_error(place: &str, why: String) -> StoreError {
    StoreError::Unusable {
        place: place.to_owned(),
        why,
    }
}

/// Formats an error and its causes in one line.
pub(super) fn format_error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

fn permanent_error(db: &DbError, place: &str) -> StoreError {
    let place = place.to_owned();
    match db.code() {
        &SqlState::DISK_FULL => StoreError::Full { place },
        &SqlState::LOCK_NOT_AVAILABLE | &SqlState::QUERY_CANCELED => StoreError::Busy { place },
        &SqlState::INSUFFICIENT_PRIVILEGE | &SqlState::READ_ONLY_SQL_TRANSACTION => {
            unusable_error(&place, describe_db_error(db))
        }
        &SqlState::DATA_CORRUPTED | &SqlState::INDEX_CORRUPTED => {
            corrupt_error(&place, describe_db_error(db))
        }
        _ => StoreError::Database {
            why: describe_db_error(db),
        },
    }
}

fn describe_db_error(db: &DbError) -> String {
    format!("{} (SQLSTATE {})", db.message(), db.code().code())
}

/// Checks whether the error is in our request, with the connection still intact.
fn is_client_side_error(error: &tokio_postgres::Error) -> bool {
    // The driver does not expose its error kinds. These prefixes mark values that do not fit a
    // parameter or column; all other errors without a server response concern the connection.
    let text = error.to_string();
    [
        "error serializing",
        "error deserializing",
        "invalid column",
        "expected ",
    ]
    .iter()
    .any(|beginning| text.starts_with(beginning))
}

fn is_config_error(error: &tokio_postgres::Error) -> bool {
    error.to_string().starts_with("invalid configuration")
}
