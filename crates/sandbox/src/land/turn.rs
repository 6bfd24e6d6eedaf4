//! Landings into one repository take turns, whichever process does them.

use std::fs::File;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;

use crate::error::Doing;
use crate::{Repository, SandboxError};

/// Longest wait for another landing.
const PATIENCE: Duration = Duration::from_secs(30);

/// The turn; ends when dropped, or with the process.
pub(super) struct Turn {
    _lock: File,
}

/// The turn, if nobody has it.
pub(super) fn try_take(repository: &Repository) -> Result<Option<Turn>, SandboxError> {
    let path = repository.common_dir();
    let lock = File::open(path).doing("opened", path)?;
    match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(Turn { _lock: lock })),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error).doing("locked", path),
    }
}

/// Waits for the turn. What is locked is the repository's own directory: whoever lands in it, from
/// whichever home, waits for the same, and nothing is left there.
pub(super) fn take(repository: &Repository) -> Result<Turn, SandboxError> {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(turn) = try_take(repository)? {
            return Ok(turn);
        }
        if Instant::now() >= until {
            return Err(SandboxError::Busy {
                path: repository.path().to_owned(),
            });
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
