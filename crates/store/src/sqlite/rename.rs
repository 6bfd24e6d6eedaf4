//! Giving a finished file its name.

use std::fs;
use std::path::Path;

use super::error::SqliteError;

/// Gives a file its name unless that is taken, in one step.
pub(super) fn rename_without_replacing(from: &Path, to: &Path) -> Result<(), SqliteError> {
    use rustix::fs::{CWD, RenameFlags};
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::EXIST) => Err(name_taken_error()),
        // Not every file system can do that; a hard link does not replace anything either.
        Err(_) => {
            fs::hard_link(from, to)?;
            Ok(fs::remove_file(from)?)
        }
    }
}

/// A name is taken already.
pub(super) fn name_taken_error() -> SqliteError {
    SqliteError::Unusable("it exists already, and is not replaced".to_owned())
}
