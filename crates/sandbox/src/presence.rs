//! Presence: a process that works signs in by holding a lock, and whoever finds the lock free knows
//! that it is gone. The system lets go of the lock however the process ends.
//!
//! The file of one that was killed stays: it is the proof that what it held can be taken over at once. Whoever signs
//! in notes of such files that they were found, and removes them a day after that, when no lease of theirs runs any
//! more. A file is removed only by who holds its lock, and a lock counts only while its file is still in its place.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use plan::Digest;
use plan::takeover::Liveness;
use rustix::fs::FlockOperation;

use crate::SandboxError;
use crate::error::Doing;
use crate::files;
use crate::room::Workshop;

/// How long it is remembered that somebody is gone, from when it was noticed.
const REMEMBERED: Duration = Duration::from_secs(24 * 60 * 60);

/// Whoever only looks at a file holds its lock for a moment. Signing in waits for that, and for no more.
const LOOKED_AT: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// What the file of somebody says that signed in.
const HERE: &[u8] = b"here\n";

/// What it says once somebody noticed that they are gone; it was last written then.
const GONE: &[u8] = b"gone\n";

/// Somebody is here as long as this lives.
#[derive(Debug)]
pub struct Presence {
    lock: File,
    path: PathBuf,
    /// The file stays, so that whatever was not given back can be taken over at once.
    stays: bool,
}

impl Presence {
    /// Ends as a killed process does: whatever it could not give back is taken over at once.
    pub fn end_without_giving_back(mut self) {
        self.stays = true;
    }
}

impl Workshop {
    /// Signs in under a name that nobody else on this host uses.
    pub fn sign_in(&self, owner: &str) -> Result<Presence, SandboxError> {
        let path = self.presence_of(owner);
        let directory = self.home().join("present");
        self.make_directory(&directory)?;
        let lock = locked(&path)?;
        let stays = false;
        let presence = Presence { lock, path, stays };
        let written = overwrite(&presence.lock, HERE).doing("written", &presence.path)?;
        forget_the_gone(&directory, written);
        Ok(presence)
    }

    /// Does the process that signed in under this name still run? Only looks. Unknown if it never signed in, or ended
    /// long ago.
    pub fn liveness(&self, owner: &str) -> Result<Liveness, SandboxError> {
        let path = self.presence_of(owner);
        loop {
            let lock = match File::open(&path) {
                Ok(lock) => lock,
                Err(error) if files::is_absent(&error) => return Ok(Liveness::Unknown),
                Err(error) => return Err(error).doing("opened", &path),
            };
            match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared) {
                Ok(()) if is_in_its_place(&lock, &path).doing("looked at", &path)? => {
                    return Ok(Liveness::Ended);
                }
                // Forgotten or left meanwhile, and perhaps somebody else's by now.
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(Liveness::Running),
                Err(error) => return Err(error).doing("locked", &path),
            }
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
        if !self.stays {
            let _ = std::fs::remove_file(&self.path);
        }
        let _ = rustix::fs::flock(&self.lock, FlockOperation::Unlock);
    }
}

/// The file in this place, made if it is missing, with its lock.
fn locked(path: &Path) -> Result<File, SandboxError> {
    let began = Instant::now();
    loop {
        let mut options = OpenOptions::new();
        // What it says is written once it is ours.
        let options = options.read(true).write(true).create(true).truncate(false);
        let options = options.mode(0o600);
        let lock = options.open(path).doing("made", path)?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) if is_in_its_place(&lock, path).doing("looked at", path)? => return Ok(lock),
            // Whoever forgot who was here before removed it under our hands.
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) if began.elapsed() < LOOKED_AT => {
                std::thread::sleep(LOOK_AGAIN);
            }
            Err(error) => return Err(error).doing("locked", path),
        }
    }
}

/// Notes who is gone, and forgets who is for long. What cannot be tidied up now is left to who signs in next.
fn forget_the_gone(directory: &Path, now: SystemTime) {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return;
    };
    for entry in entries.flatten() {
        let _ = forget_if_gone(&entry.path(), now);
    }
}

fn forget_if_gone(path: &Path, now: SystemTime) -> std::io::Result<()> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    // Shared with everybody who looks, to whom it must not seem that somebody is here.
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared)?;
    let mut said = Vec::new();
    file.read_to_end(&mut said)?;
    if said != GONE {
        return overwrite(&file, GONE).map(drop);
    }
    let noticed = file.metadata()?.modified()?;
    // A clock that was set back makes it stay for longer.
    if now.duration_since(noticed).unwrap_or_default() < REMEMBERED {
        return Ok(());
    }
    // For a moment between the two locks it is nobody's: whoever signed in then has it locked or has written to it.
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    if file.metadata()?.modified()? == noticed && is_in_its_place(&file, path)? {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

/// Is this the file that is found there?
fn is_in_its_place(file: &File, path: &Path) -> std::io::Result<bool> {
    let here = file.metadata()?;
    match std::fs::symlink_metadata(path) {
        Ok(there) => Ok((here.dev(), here.ino()) == (there.dev(), there.ino())),
        Err(error) if files::is_absent(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Has the file say this and nothing else. The moment at which it does, by the clock of its file system.
fn overwrite(mut file: &File, text: &[u8]) -> std::io::Result<SystemTime> {
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(text)?;
    file.metadata()?.modified()
}
