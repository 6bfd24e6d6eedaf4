//! File locks that mark a directory as in use. Several processes can share one, and the system
//! releases it however its holder ends.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::SandboxError;
use crate::error::FileErrorContext;

/// How often locking is retried.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// How long to wait for a process that holds the lock exclusively for a short check.
const SHARED_LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// Marks something as in use until dropped.
#[derive(Debug)]
pub struct SharedLock {
    _lock: File,
}

/// No other process uses it until this is dropped.
#[derive(Debug)]
pub(crate) struct ExclusiveLock {
    lock: File,
    path: PathBuf,
}

/// Takes a shared lock, creating the file if it is missing.
pub(crate) fn lock_shared(path: &Path) -> Result<SharedLock, SandboxError> {
    acquire_shared(open_lock_file(path)?, path)
}

/// Takes an exclusive lock; `None` if others hold it longer than this.
pub(crate) fn lock_exclusive(
    path: &Path,
    timeout: Duration,
) -> Result<Option<ExclusiveLock>, SandboxError> {
    let lock = open_lock_file(path)?;
    let exclusive = FlockOperation::NonBlockingLockExclusive;
    let is_locked = lock_with_timeout(&lock, exclusive, timeout).while_being("locked", path)?;
    let path = path.to_owned();
    Ok(is_locked.then_some(ExclusiveLock { lock, path }))
}

impl ExclusiveLock {
    /// Turns it into a shared lock. There is a short gap in which another process may lock it; this
    /// waits for that process, and the caller must check what it did.
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
