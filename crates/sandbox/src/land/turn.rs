//! Landings into one repository take turns, whichever process does them.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use plan::Digest;
use rustix::fs::FlockOperation;

use crate::error::Doing;
use crate::{Repository, SandboxError};

/// Longest wait for another landing.
const PATIENCE: Duration = Duration::from_secs(30);

/// The turn; ends when dropped, or with the process.
pub(super) struct Turn {
    _lock: File,
}

/// Waits for the turn.
pub(super) fn take(home: &Path, repository: &Repository) -> Result<Turn, SandboxError> {
    use std::os::unix::ffi::OsStrExt;
    let directory = home.join("locks");
    std::fs::create_dir_all(&directory).doing("made", &directory)?;
    let name = Digest::of(repository.common_dir().as_os_str().as_bytes()).to_string();
    let path = directory.join(format!("{}.lock", &name[..16]));
    let lock = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .doing("opened", &path)?;
    let until = Instant::now() + PATIENCE;
    loop {
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Turn { _lock: lock }),
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(SandboxError::Busy {
                    path: repository.path().to_owned(),
                });
            }
            Err(error) => return Err(error).doing("locked", &path),
        }
    }
}
