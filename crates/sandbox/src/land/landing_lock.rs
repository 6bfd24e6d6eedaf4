//! Landings into one repository take turns, whichever process does them.

use std::fs::File;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;

use crate::error::FileErrorContext;
use crate::{Repository, SandboxError};

/// Longest wait for another landing.
const LANDING_LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// The turn; ends when dropped, or with the process.
pub(super) struct LandingLock {
    _lock: File,
}

/// The turn, if nobody has it.
pub(super) fn try_lock_repository(
    repository: &Repository,
) -> Result<Option<LandingLock>, SandboxError> {
    let path = repository.common_dir();
    let lock = File::open(path).while_being("opened", path)?;
    match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(LandingLock { _lock: lock })),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error).while_being("locked", path),
    }
}

/// Waits for the turn. What is locked is the repository's own directory: whoever lands in it, from
/// whichever home, waits for the same, and nothing is left there.
pub(super) fn lock_repository(repository: &Repository) -> Result<LandingLock, SandboxError> {
    let deadline = Instant::now() + LANDING_LOCK_TIMEOUT;
    loop {
        if let Some(lock) = try_lock_repository(repository)? {
            return Ok(lock);
        }
        if Instant::now() >= deadline {
            return Err(SandboxError::LandingInProgress {
                path: repository.path().to_owned(),
            });
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
