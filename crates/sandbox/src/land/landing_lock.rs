//! Serializes landings into one repository, across processes.

use std::fs::File;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;

use crate::error::FileErrorContext;
use crate::{Repository, SandboxError};

/// How long to wait for another landing.
const LANDING_LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// Released when dropped, or when the process ends.
pub(super) struct LandingLock {
    _lock: File,
}

/// Acquires the lock; `None` if another landing holds it.
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

/// Waits for the lock. It is on the repository's own directory, so that all processes use the same
/// one, whatever their home is, and no file is left behind.
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
