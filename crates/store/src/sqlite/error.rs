//! Classifies errors of SQLite and the system, before the store's path is known.

use std::io;

use rusqlite::{ErrorCode, ffi};

use crate::StoreError;

/// A [`StoreError`] without its path. `Clone`, because every member of a batch gets one.
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
    /// A write to a file failed for a reason other than a full disk.
    WriteFailed(String),
    /// The file was there before and is gone.
    Removed,
    Database(String),
}

impl SqliteError {
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
            Self::Removed => StoreError::Unreachable {
                place,
                why: "the file was removed or moved; put it back, or start again without it"
                    .to_owned(),
            },
            Self::WriteFailed(why) | Self::Database(why) => StoreError::Database { why },
        }
    }

    /// Checks whether this error of a COMMIT proves that nothing was committed. A failed write
    /// does: a transaction's last frame makes it valid, and that frame is written last.
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
                "it cannot be opened; check the permissions of the file and its directory".into(),
            ),
            ErrorCode::ReadOnly
                if [ffi::SQLITE_READONLY_ROLLBACK, ffi::SQLITE_READONLY_RECOVERY]
                    .contains(&code.extended_code) =>
            {
                Self::Unusable(
                    "a write was interrupted; only the next write can repair the file".into(),
                )
            }
            ErrorCode::ReadOnly => Self::Unusable("it is read-only".into()),
            ErrorCode::SystemIoFailure if code.extended_code == ffi::SQLITE_IOERR_WRITE => {
                Self::WriteFailed(format!("{message_text}: a write failed"))
            }
            // The message alone ("disk I/O error") does not distinguish a failed read from a failed
            // fsync.
            ErrorCode::SystemIoFailure => {
                Self::Database(format!("{message_text} (code {})", code.extended_code))
            }
            _ => Self::Database(message_text),
        }
    }
}

/// Classifies errors of the binding. A value of the error type means a damaged file.
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
    fn lock_errors_are_reported_as_busy() {
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
    fn sqlite_errors_are_classified() {
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
    fn a_log_that_needs_recovery_is_reported() {
        for code in [ffi::SQLITE_READONLY_ROLLBACK, ffi::SQLITE_READONLY_RECOVERY] {
            let error = error_for_code(code);
            assert!(
                matches!(&error, SqliteError::Unusable(why) if why.contains("the next write")),
                "{error:?}"
            );
        }
    }

    #[test]
    fn a_value_of_the_wrong_type_is_corrupt_and_a_missing_row_is_not() {
        let connection = rusqlite::Connection::open_in_memory().expect("memory is there");
        let query_error = |sql: &str| -> SqliteError {
            let answer = connection.query_row(sql, [], |row| row.get::<_, u8>(0));
            answer.expect_err("it cannot be read").into()
        };
        assert!(matches!(
            query_error("SELECT 'seven'"),
            SqliteError::Corrupt(_)
        ));
        assert!(matches!(query_error("SELECT 256"), SqliteError::Corrupt(_)));
        assert!(matches!(
            query_error("SELECT 7 WHERE false"),
            SqliteError::Database(_)
        ));
        let misread = rusqlite::types::FromSqlError::InvalidType;
        assert!(matches!(misread.into(), SqliteError::Corrupt(_)));
    }

    #[test]
    fn a_full_disk_and_a_missing_permission_are_distinguished() {
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded] {
            assert_eq!(SqliteError::from(io::Error::from(kind)), SqliteError::Full);
        }
        let denied = SqliteError::from(io::Error::from(io::ErrorKind::PermissionDenied));
        assert!(matches!(denied, SqliteError::Unusable(_)), "{denied:?}");
    }

    #[test]
    fn only_a_failed_write_proves_that_nothing_was_committed() {
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
