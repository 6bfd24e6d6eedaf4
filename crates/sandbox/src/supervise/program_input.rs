//! The standard input of a program that is written to while it runs: a named pipe in the run's directory.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::SandboxError;
use crate::error::FileErrorContext;

/// A named pipe that a program reads as its standard input. Its path is the `input` of the process spec.
/// Dropping it removes the pipe from the directory; ends that are open stay open.
#[derive(Debug)]
pub struct ProgramInput {
    path: PathBuf,
    /// Open for both directions, so that neither side waits for the other to open the pipe.
    _placeholder: File,
}

impl ProgramInput {
    /// Creates the pipe. Replaces one that an earlier run left.
    pub fn create(path: PathBuf) -> Result<Self, SandboxError> {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).while_being("removed", &path);
            }
            Ok(()) | Err(_) => {}
        }
        make_named_pipe(&path).while_being("created", &path)?;
        let mut options = OpenOptions::new();
        let placeholder = options.read(true).write(true).open(&path);
        let placeholder = placeholder.while_being("opened", &path)?;
        Ok(Self {
            path,
            _placeholder: placeholder,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the end to write to, once the program runs. The program reads to the end of its input when
    /// this end is closed, and writing fails when the program is gone.
    pub fn into_writer(self) -> Result<File, SandboxError> {
        // The placeholder is still open, so this does not wait for a reader.
        let writer = OpenOptions::new().write(true).open(&self.path);
        let writer = writer.while_being("opened", &self.path)?;
        Ok(writer)
    }
}

impl Drop for ProgramInput {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(target_os = "linux")]
fn make_named_pipe(path: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, Mode, mkfifoat};
    Ok(mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR)?)
}

#[cfg(not(target_os = "linux"))]
fn make_named_pipe(_path: &Path) -> io::Result<()> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "programs can be talked to only on Linux",
    ))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn reader_sees_what_is_written_and_then_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("stdin");
        let input = ProgramInput::create(path.clone()).unwrap();
        let mut reader = File::open(input.path()).unwrap();
        let mut writer = input.into_writer().unwrap();
        assert!(!path.exists());
        writer.write_all(b"hello\n").unwrap();
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello\n");
    }

    #[test]
    fn writing_fails_without_a_reader_and_leftovers_are_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("stdin");
        fs::write(&path, "left").unwrap();
        let input = ProgramInput::create(path).unwrap();
        let mut writer = input.into_writer().unwrap();
        let error = writer.write_all(b"x").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
