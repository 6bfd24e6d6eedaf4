//! Locks that say: somebody works here. They are shared, so that several may say it, and the system
//! lets go of them however their holder ends.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::SandboxError;
use crate::error::FileErrorContext;

/// How often a lock is tried.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// How long is waited for somebody who only looks.
const SHARED_LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// Says that somebody works somewhere, as long as it lives.
#[derive(Debug)]
pub struct SharedLock {
    _lock: File,
}

/// Nobody else says so, as long as this lives.
#[derive(Debug)]
pub(crate) struct ExclusiveLock {
    lock: File,
    path: PathBuf,
}

/// Takes a lock beside others, making the file if it is missing.
pub(crate) fn lock_shared(path: &Path) -> Result<SharedLock, SandboxError> {
    acquire_shared(open_lock_file(path)?, path)
}

/// Takes a lock for oneself, if all others let go of it within this time.
pub(crate) fn lock_exclusive(
    path: &Path,
    timeout: Duration,
) -> Result<Option<ExclusiveLock>, SandboxError> {
    let lock = open_lock_file(path)?;
    let exclusive = FlockOperation::NonBlockingLockExclusive;
    let free = lock_with_timeout(&lock, exclusive, timeout).while_being("locked", path)?;
    let path = path.to_owned();
    Ok(free.then_some(ExclusiveLock { lock, path }))
}

impl ExclusiveLock {
    /// Lets others in. For a moment nobody has the lock: whoever took it then is waited for, and has to
    /// be looked for.
    pub fn downgrade(self) -> Result<SharedLock, SandboxError> {
        acquire_shared(self.lock, &self.path)
    }
}

fn open_lock_file(path: &Path) -> Result<File, SandboxError> {
    let mut options = OpenOptions::new();
    let lock = options.create(true).append(true).mode(0o600).open(path);
    lock.while_being("opened", path)
}

fn acquire_shared(lock: File, path: &Path) -> Result<SharedLock, SandboxError> {
    let shared = FlockOperation::NonBlockingLockShared;
    if lock_with_timeout(&lock, shared, SHARED_LOCK_TIMEOUT).while_being("locked", path)? {
        Ok(SharedLock { _lock: lock })
    } else {
        Err(Errno::WOULDBLOCK).while_being("locked", path)
    }
}

fn lock_with_timeout(
    lock: &File,
    operation: FlockOperation,
    timeout: Duration,
) -> rustix::io::Result<bool> {
    let deadline = Instant::now() + timeout;
    loop {
        match rustix::fs::flock(lock, operation) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) if Instant::now() >= deadline => return Ok(false),
            Err(Errno::WOULDBLOCK) => std::thread::sleep(LOCK_RETRY_INTERVAL),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}
