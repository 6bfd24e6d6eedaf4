//! Renames a finished file without replacing an existing one.

use std::fs;
use std::path::Path;

use super::error::SqliteError;

/// Renames a file in one step and fails if the target exists.
pub(super) fn rename_without_replacing(from: &Path, to: &Path) -> Result<(), SqliteError> {
    use rustix::fs::{CWD, RenameFlags};
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::EXIST) => Err(name_taken_error()),
        // Some file systems do not support that flag. A hard link does not replace a file either.
        Err(_) => {
            fs::hard_link(from, to)?;
            Ok(fs::remove_file(from)?)
        }
    }
}

pub(super) fn name_taken_error() -> SqliteError {
    SqliteError::Unusable("it already exists".to_owned())
}
