//! What can be wrong, before it is said of which place. Classifies what SQLite and the system say.

use std::io;

use rusqlite::{ErrorCode, ffi};

use crate::StoreError;

/// A [`StoreError`] that does not yet know its place. Can be told to every member of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wrong {
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
    Unwritten(String),
    Database(String),
}

impl Wrong {
    /// The error about this place.
    pub(super) fn at(self, place: &str) -> StoreError {
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
            Self::Unwritten(why) | Self::Database(why) => StoreError::Database { why },
        }
    }

    /// Said of a COMMIT, does it prove that nothing was committed? It does where a write did not
    /// succeed: the last frame of a transaction makes it count, and is the last to be written.
    pub(super) fn proves_nothing_was_committed(&self) -> bool {
        matches!(self, Self::Full | Self::Unwritten(_))
    }
}

impl From<rusqlite::Error> for Wrong {
    fn from(error: rusqlite::Error) -> Self {
        let rusqlite::Error::SqliteFailure(code, message) = &error else {
            return unreadable_or_misused(&error);
        };
        let said = message.clone().unwrap_or_else(|| code.to_string());
        match code.code {
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Self::Busy,
            ErrorCode::DiskFull => Self::Full,
            ErrorCode::NotADatabase => Self::NotAStore,
            ErrorCode::DatabaseCorrupt => Self::Corrupt(said),
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
                Self::Unwritten(format!("{said}: a write failed"))
            }
            // The words alone ("disk I/O error") do not tell a failed read from a failed fsync.
            ErrorCode::SystemIoFailure => {
                Self::Database(format!("{said} (code {})", code.extended_code))
            }
            _ => Self::Database(said),
        }
    }
}

/// Errors of the binding itself: a value of another type than the column should hold is damage.
fn unreadable_or_misused(error: &rusqlite::Error) -> Wrong {
    use rusqlite::Error as E;
    match error {
        E::FromSqlConversionFailure(..)
        | E::IntegralValueOutOfRange(..)
        | E::InvalidColumnType(..)
        | E::Utf8Error(..) => Wrong::Corrupt(error.to_string()),
        _ => Wrong::Database(error.to_string()),
    }
}

impl From<io::Error> for Wrong {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full,
            _ => Self::Unusable(error.to_string()),
        }
    }
}

impl From<rusqlite::types::FromSqlError> for Wrong {
    fn from(error: rusqlite::types::FromSqlError) -> Self {
        Self::Corrupt(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(code: i32) -> Wrong {
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
            assert_eq!(said(code), Wrong::Busy, "{code}");
        }
    }

    #[test]
    fn what_the_database_says_is_told_apart() {
        assert_eq!(said(ffi::SQLITE_FULL), Wrong::Full);
        assert_eq!(said(ffi::SQLITE_NOTADB), Wrong::NotAStore);
        assert!(matches!(said(ffi::SQLITE_CORRUPT_INDEX), Wrong::Corrupt(_)));
        assert!(matches!(said(ffi::SQLITE_CANTOPEN), Wrong::Unusable(_)));
        assert!(matches!(said(ffi::SQLITE_READONLY), Wrong::Unusable(_)));
        assert!(matches!(said(ffi::SQLITE_IOERR_WRITE), Wrong::Unwritten(_)));
        let fsync = said(ffi::SQLITE_IOERR_FSYNC);
        assert!(
            matches!(&fsync, Wrong::Database(why) if why.contains("1034")),
            "{fsync:?}"
        );
    }

    #[test]
    fn a_log_that_only_a_write_can_repair_is_said_to_be_so() {
        for code in [ffi::SQLITE_READONLY_ROLLBACK, ffi::SQLITE_READONLY_RECOVERY] {
            let wrong = said(code);
            assert!(
                matches!(&wrong, Wrong::Unusable(why) if why.contains("a write does")),
                "{wrong:?}"
            );
        }
    }

    #[test]
    fn a_value_of_another_type_is_damage_and_a_wrong_question_is_not() {
        let connection = rusqlite::Connection::open_in_memory().expect("memory is there");
        let ask = |sql: &str| -> Wrong {
            let answer = connection.query_row(sql, [], |row| row.get::<_, u8>(0));
            answer.expect_err("it cannot be read").into()
        };
        assert!(matches!(ask("SELECT 'seven'"), Wrong::Corrupt(_)));
        assert!(matches!(ask("SELECT 256"), Wrong::Corrupt(_)));
        assert!(matches!(ask("SELECT 7 WHERE false"), Wrong::Database(_)));
        let misread = rusqlite::types::FromSqlError::InvalidType;
        assert!(matches!(misread.into(), Wrong::Corrupt(_)));
    }

    #[test]
    fn no_room_is_told_apart_from_no_permission() {
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded] {
            assert_eq!(Wrong::from(io::Error::from(kind)), Wrong::Full);
        }
        let denied = Wrong::from(io::Error::from(io::ErrorKind::PermissionDenied));
        assert!(matches!(denied, Wrong::Unusable(_)), "{denied:?}");
    }

    #[test]
    fn only_a_write_that_failed_proves_that_nothing_was_committed() {
        assert!(Wrong::Full.proves_nothing_was_committed());
        assert!(Wrong::Unwritten(String::new()).proves_nothing_was_committed());
        for other in [
            Wrong::Busy,
            Wrong::Database(String::new()),
            Wrong::Corrupt(String::new()),
        ] {
            assert!(!other.proves_nothing_was_committed(), "{other:?}");
        }
    }
}
