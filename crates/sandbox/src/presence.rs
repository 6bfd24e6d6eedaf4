//! Presence: a process that works signs in by holding a lock, and whoever finds the lock free knows
//! that it is gone. The system lets go of the lock however the process ends.

use std::fs::File;
use std::path::PathBuf;

use plan::Digest;
use rustix::fs::FlockOperation;

use crate::SandboxError;
use crate::error::Doing;
use crate::files;
use crate::room::Workshop;

/// Somebody is here as long as this lives.
#[derive(Debug)]
pub struct Presence {
    lock: File,
    path: PathBuf,
}

impl Workshop {
    /// Signs in under a name that nobody else on this host uses.
    pub fn sign_in(&self, owner: &str) -> Result<Presence, SandboxError> {
        let path = self.presence_of(owner);
        let directory = self.home().join("present");
        std::fs::create_dir_all(&directory).doing("made", &directory)?;
        let lock = File::create(&path).doing("made", &path)?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .doing("locked", &path)?;
        Ok(Presence { lock, path })
    }

    /// Is somebody who signed in here proven to be gone? Of whoever did not sign in, nobody knows.
    pub fn is_gone(&self, owner: &str) -> Result<bool, SandboxError> {
        let path = self.presence_of(owner);
        let lock = match File::open(&path) {
            Ok(lock) => lock,
            Err(error) if files::is_absent(&error) => return Ok(false),
            Err(error) => return Err(error).doing("opened", &path),
        };
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
            Err(error) => Err(error).doing("locked", &path),
        }
    }

    fn presence_of(&self, owner: &str) -> PathBuf {
        let name = Digest::of(owner.as_bytes()).to_string();
        self.home().join("present").join(&name[..24])
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        // While the lock is still held, so that nobody takes the name's absence for a death.
        let _ = std::fs::remove_file(&self.path);
        let _ = rustix::fs::flock(&self.lock, FlockOperation::Unlock);
    }
}
