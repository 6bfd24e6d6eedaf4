//! A settings file of another program: read whole, replaced whole or not at all.

use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::error::CommandError;
use crate::exit::CommandExit;

/// Claude Code keeps its history in this file, too.
const MAX_FILE_BYTES: u64 = 64 << 20;

const NEW_FILE_MODE: u32 = 0o600;

pub struct SettingsFile {
    /// The file itself, not a link to it: replacing a link would detach it.
    pub path: PathBuf,
    /// `None` if there is no file.
    pub text: Option<String>,
}

impl SettingsFile {
    pub fn read(path: PathBuf) -> Result<Self, CommandError> {
        let path = path.canonicalize().unwrap_or(path);
        let text = read_text(&path).map_err(|error| {
            CommandError::new(
                CommandExit::Error,
                format!("{} cannot be read: {error}", path.display()),
            )
        })?;
        Ok(Self { path, text })
    }

    /// The error for content that cannot be edited.
    pub fn malformed(&self, why: impl std::fmt::Display) -> CommandError {
        CommandError::new(
            CommandExit::Error,
            format!("{} cannot be edited: {why}", self.path.display()),
        )
        .with_kind("malformed_file")
        .with_hint("Nothing was changed. Correct the file, or add the server by hand.")
    }

    /// Replaces the file's content. Keeps its mode. Fails if it changed since it was read.
    pub fn replace(&self, text: &str) -> Result<(), CommandError> {
        let failed = |error: std::io::Error| {
            CommandError::new(
                CommandExit::Error,
                format!("{} cannot be written: {error}", self.path.display()),
            )
        };
        if read_text(&self.path).map_err(failed)? != self.text {
            return Err(CommandError::new(
                CommandExit::Conflict,
                format!("{} was changed by another program.", self.path.display()),
            )
            .with_hint("Repeat the command."));
        }
        self.write_and_rename(text).map_err(failed)
    }

    fn write_and_rename(&self, text: &str) -> std::io::Result<()> {
        let directory = self.path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(directory)?;
        let mode = match std::fs::metadata(&self.path) {
            Ok(metadata) => metadata.permissions().mode(),
            Err(_) => NEW_FILE_MODE,
        };
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let new = directory.join(format!(".{name}.planwright-{}", std::process::id()));
        let mut options = std::fs::File::options();
        options.write(true).create_new(true).mode(NEW_FILE_MODE);
        let written = options.open(&new).and_then(|mut file| {
            file.set_permissions(std::fs::Permissions::from_mode(mode))?;
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        let renamed = written.and_then(|()| std::fs::rename(&new, &self.path));
        if renamed.is_err() {
            let _ = std::fs::remove_file(&new);
        }
        renamed
    }
}

/// Reads a file; `None` if it does not exist.
fn read_text(path: &Path) -> std::io::Result<Option<String>> {
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !metadata.is_file() || metadata.len() > MAX_FILE_BYTES {
        return Err(std::io::Error::other("it is not a file of usual size"));
    }
    std::fs::read_to_string(path).map(Some)
}
