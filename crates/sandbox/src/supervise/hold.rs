//! Locks that say: somebody works here. They are shared, so that several may say it, and the system
//! lets go of them however their holder ends.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::SandboxError;
use crate::error::Doing;

/// How often a lock is tried.
const TRY: Duration = Duration::from_millis(5);

/// How long is waited for somebody who only looks.
const LOOKING: Duration = Duration::from_secs(2);

/// Says that somebody works somewhere, as long as it lives.
#[derive(Debug)]
pub struct Hold {
    _lock: File,
}

/// Nobody else says so, as long as this lives.
#[derive(Debug)]
pub(crate) struct Alone {
    lock: File,
    path: PathBuf,
}

/// Takes a lock beside others, making the file if it is missing.
pub(crate) fn take(path: &Path) -> Result<Hold, SandboxError> {
    share(open(path)?, path)
}

/// Takes a lock for oneself, if all others let go of it within this time.
pub(crate) fn take_alone(path: &Path, within: Duration) -> Result<Option<Alone>, SandboxError> {
    let lock = open(path)?;
    let exclusive = FlockOperation::NonBlockingLockExclusive;
    let free = lock_within(&lock, exclusive, within).doing("locked", path)?;
    let path = path.to_owned();
    Ok(free.then_some(Alone { lock, path }))
}

impl Alone {
    /// Lets others in. For a moment nobody has the lock: whoever took it then is waited for, and has to
    /// be looked for.
    pub fn share(self) -> Result<Hold, SandboxError> {
        share(self.lock, &self.path)
    }
}

fn open(path: &Path) -> Result<File, SandboxError> {
    let mut options = OpenOptions::new();
    let lock = options.create(true).append(true).mode(0o600).open(path);
    lock.doing("opened", path)
}

fn share(lock: File, path: &Path) -> Result<Hold, SandboxError> {
    let shared = FlockOperation::NonBlockingLockShared;
    if lock_within(&lock, shared, LOOKING).doing("locked", path)? {
        Ok(Hold { _lock: lock })
    } else {
        Err(Errno::WOULDBLOCK).doing("locked", path)
    }
}

fn lock_within(
    lock: &File,
    operation: FlockOperation,
    limit: Duration,
) -> rustix::io::Result<bool> {
    let until = Instant::now() + limit;
    loop {
        match rustix::fs::flock(lock, operation) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) if Instant::now() >= until => return Ok(false),
            Err(Errno::WOULDBLOCK) => std::thread::sleep(TRY),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}
