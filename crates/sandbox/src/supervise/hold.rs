//! Locks that say: somebody works here. They are shared, so that several may say it, and the system
//! lets go of them however their holder ends.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::SandboxError;
use crate::error::Doing;
use crate::files;

/// How often a lock is tried.
const TRY: Duration = Duration::from_millis(5);

/// How long is waited for somebody who only looks.
const LOOKING: Duration = Duration::from_secs(2);

/// Locks that are held as long as this lives.
#[derive(Debug)]
pub(super) struct Held {
    _locks: Vec<File>,
}

/// Takes locks, making the files that are missing.
pub(super) fn take(paths: &[PathBuf]) -> Result<Held, SandboxError> {
    let take = |path: &PathBuf| {
        let mut options = OpenOptions::new();
        let lock = options.create(true).append(true).open(path);
        let lock = lock.doing("opened", path)?;
        let shared = FlockOperation::NonBlockingLockShared;
        if lock_within(&lock, shared, LOOKING).doing("locked", path)? {
            Ok(lock)
        } else {
            Err(Errno::WOULDBLOCK).doing("locked", path)
        }
    };
    let locks = paths.iter().map(take).collect::<Result<_, _>>()?;
    Ok(Held { _locks: locks })
}

/// Is a lock still held after this time?
pub(crate) fn is_held(path: &Path, after: Duration) -> Result<bool, SandboxError> {
    let lock = match File::open(path) {
        Ok(lock) => lock,
        Err(error) if files::is_absent(&error) => return Ok(false),
        Err(error) => return Err(error).doing("opened", path),
    };
    let exclusive = FlockOperation::NonBlockingLockExclusive;
    let free = lock_within(&lock, exclusive, after).doing("locked", path)?;
    Ok(!free)
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
