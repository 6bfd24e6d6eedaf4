//! What can be wrong, before it is said of which place. Classifies what SQLite and the system say.

use std::io;

use rusqlite::{ErrorCode, ffi};

use crate::StoreError;

/// A [`StoreError`] that does not yet know its place. Can be told to every member of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SqliteError {
    Unusable(String),
    NotAStore,
    NewerSchema {
        found: u32,
        known: u32,
    },
    OlderSchema {
        found: u32,
        known: u32,
    },
    NetworkFileSystem(&'static str),
    Full,
    Busy,
    Corrupt(String),
    /// A write to a file failed, for another reason than a lack of room.
    WriteFailed(String),
    Database(String),
}

impl SqliteError {
    /// The error about this place.
    pub(super) fn into_store_error(self, place: &str) -> StoreError {
        let place = place.to_owned();
        match self {
            Self::Unusable(why) => StoreError::Unusable { place, why },
            Self::NotAStore => StoreError::NotAStore { place },
            Self::NewerSchema { found, known } => StoreError::NewerSchema {
                place,
                found,
                known,
            },
            Self::OlderSchema { found, known } => StoreError::OlderSchema {
                place,
                found,
                known,
            },
            Self::NetworkFileSystem(kind) => StoreError::NetworkFileSystem { place, kind },
            Self::Full => StoreError::Full { place },
            Self::Busy => StoreError::Busy { place },
            Self::Corrupt(why) => StoreError::Corrupt { place, why },
            Self::WriteFailed(why) | Self::Database(why) => StoreError::Database { why },
        }
    }

    /// Said of a COMMIT, does it prove that nothing was committed? It does where a write did not
    /// succeed: the last frame of a transaction makes it count, and is the last to be written.
    pub(super) fn proves_nothing_was_committed(&self) -> bool {
        matches!(self, Self::Full | Self::WriteFailed(_))
    }
}

impl From<rusqlite::Error> for SqliteError {
    fn from(error: rusqlite::Error) -> Self {
        let rusqlite::Error::SqliteFailure(code, message) = &error else {
            return classify_binding_error(&error);
        };
        let message_text = message.clone().unwrap_or_else(|| code.to_string());
        match code.code {
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Self::Busy,
            ErrorCode::DiskFull => Self::Full,
            ErrorCode::NotADatabase => Self::NotAStore,
            ErrorCode::DatabaseCorrupt => Self::Corrupt(message_text),
            ErrorCode::CannotOpen | ErrorCode::PermissionDenied => Self::Unusable(
                "it cannot be opened; look at the permissions of it and its directory".into(),
            ),
            ErrorCode::ReadOnly
                if [ffi::SQLITE_READONLY_ROLLBACK, ffi::SQLITE_READONLY_RECOVERY]
                    .contains(&code.extended_code) =>
            {
                Self::Unusable(
                    "a write was interrupted, and reading alone cannot repair that; a write does"
                        .into(),
                )
            }
            ErrorCode::ReadOnly => Self::Unusable("it cannot be written".into()),
            ErrorCode::SystemIoFailure if code.extended_code == ffi::SQLITE_IOERR_WRITE => {
                Self::WriteFailed(format!("{message_text}: a write failed"))
            }
            // The words alone ("disk I/O error") do not tell a failed read from a failed fsync.
            ErrorCode::SystemIoFailure => {
                Self::Database(format!("{message_text} (code {})", code.extended_code))
            }
            _ => Self::Database(message_text),
        }
    }
}

/// Errors of the binding itself: a value of another type than the column should hold is damage.
fn classify_binding_error(error: &rusqlite::Error) -> SqliteError {
    use rusqlite::Error as E;
    match error {
        E::FromSqlConversionFailure(..)
        | E::IntegralValueOutOfRange(..)
        | E::InvalidColumnType(..)
        | E::Utf8Error(..) => SqliteError::Corrupt(error.to_string()),
        _ => SqliteError::Database(error.to_string()),
    }
}

impl From<io::Error> for SqliteError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full,
            _ => Self::Unusable(error.to_string()),
        }
    }
}

impl From<rusqlite::types::FromSqlError> for SqliteError {
    fn from(error: rusqlite::types::FromSqlError) -> Self {
        Self::Corrupt(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_for_code(code: i32) -> SqliteError {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None).into()
    }

    #[test]
    fn locked_is_never_said_as_such() {
        for code in [
            ffi::SQLITE_BUSY,
            ffi::SQLITE_LOCKED,
            ffi::SQLITE_BUSY_SNAPSHOT,
            ffi::SQLITE_BUSY_RECOVERY,
        ] {
            assert_eq!(error_for_code(code), SqliteError::Busy, "{code}");
        }
    }

    #[test]
    fn what_the_database_says_is_told_apart() {
        assert_eq!(error_for_code(ffi::SQLITE_FULL), SqliteError::Full);
        assert_eq!(error_for_code(ffi::SQLITE_NOTADB), SqliteError::NotAStore);
        assert!(matches!(
            error_for_code(ffi::SQLITE_CORRUPT_INDEX),
            SqliteError::Corrupt(_)
        ));
        assert!(matches!(
            error_for_code(ffi::SQLITE_CANTOPEN),
            SqliteError::Unusable(_)
        ));
        assert!(matches!(
            error_for_code(ffi::SQLITE_READONLY),
            SqliteError::Unusable(_)
        ));
        assert!(matches!(
            error_for_code(ffi::SQLITE_IOERR_WRITE),
            SqliteError::WriteFailed(_)
        ));
        let fsync = error_for_code(ffi::SQLITE_IOERR_FSYNC);
        assert!(
            matches!(&fsync, SqliteError::Database(why) if why.contains("1034")),
            "{fsync:?}"
        );
    }

    #[test]
    fn a_log_that_only_a_write_can_repair_is_said_to_be_so() {
        for code in [ffi::SQLITE_READONLY_ROLLBACK, ffi::SQLITE_READONLY_RECOVERY] {
            let wrong = error_for_code(code);
            assert!(
                matches!(&wrong, SqliteError::Unusable(why) if why.contains("a write does")),
                "{wrong:?}"
            );
        }
    }

    #[test]
    fn a_value_of_another_type_is_damage_and_a_wrong_question_is_not() {
        let connection = rusqlite::Connection::open_in_memory().expect("memory is there");
        let ask = |sql: &str| -> SqliteError {
            let answer = connection.query_row(sql, [], |row| row.get::<_, u8>(0));
            answer.expect_err("it cannot be read").into()
        };
        assert!(matches!(ask("SELECT 'seven'"), SqliteError::Corrupt(_)));
        assert!(matches!(ask("SELECT 256"), SqliteError::Corrupt(_)));
        assert!(matches!(
            ask("SELECT 7 WHERE false"),
            SqliteError::Database(_)
        ));
        let misread = rusqlite::types::FromSqlError::InvalidType;
        assert!(matches!(misread.into(), SqliteError::Corrupt(_)));
    }

    #[test]
    fn no_room_is_told_apart_from_no_permission() {
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded] {
            assert_eq!(SqliteError::from(io::Error::from(kind)), SqliteError::Full);
        }
        let denied = SqliteError::from(io::Error::from(io::ErrorKind::PermissionDenied));
        assert!(matches!(denied, SqliteError::Unusable(_)), "{denied:?}");
    }

    #[test]
    fn only_a_write_that_failed_proves_that_nothing_was_committed() {
        assert!(SqliteError::Full.proves_nothing_was_committed());
        assert!(SqliteError::WriteFailed(String::new()).proves_nothing_was_committed());
        for other in [
            SqliteError::Busy,
            SqliteError::Database(String::new()),
            SqliteError::Corrupt(String::new()),
        ] {
            assert!(!other.proves_nothing_was_committed(), "{other:?}");
        }
    }
}
