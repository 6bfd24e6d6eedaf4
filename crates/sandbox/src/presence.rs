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
use plan::takeover::HolderLiveness;
use rustix::fs::FlockOperation;

use crate::SandboxError;
use crate::error::FileErrorContext;
use crate::files;
use crate::sandboxes::Sandboxes;

/// How long it is remembered that somebody is gone, from when it was noticed.
const GONE_RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

/// Whoever only looks at a file holds its lock for a moment. Signing in waits for that, and for no more.
const PRESENCE_LOCK_TIMEOUT: Duration = Duration::from_secs(1);
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// What the file of somebody says that signed in.
const PRESENT_CONTENT: &[u8] = b"here\n";

/// What it says once somebody noticed that they are gone; it was last written then.
const GONE_CONTENT: &[u8] = b"gone\n";

/// Somebody is here as long as this lives.
#[derive(Debug)]
pub struct ProcessPresence {
    lock: File,
    path: PathBuf,
    /// The file stays, so that whatever was not given back can be taken over at once.
    keeps_file: bool,
}

impl ProcessPresence {
    /// Ends as a killed process does: whatever it could not give back is taken over at once.
    pub fn end_keeping_file(mut self) {
        self.keeps_file = true;
    }
}

impl Sandboxes {
    /// Signs in under a name that nobody else on this host uses.
    pub fn register_presence(&self, owner: &str) -> Result<ProcessPresence, SandboxError> {
        let path = self.presence_path(owner);
        let directory = self.home().join("present");
        self.make_home_directory(&directory)?;
        let lock = open_locked(&path)?;
        let stays = false;
        let presence = ProcessPresence {
            lock,
            path,
            keeps_file: stays,
        };
        let written = overwrite_file(&presence.lock, PRESENT_CONTENT)
            .while_being("written", &presence.path)?;
        expire_gone_files(&directory, written);
        Ok(presence)
    }

    /// Does the process that signed in under this name still run? Only looks. Unknown if it never signed in, or ended
    /// long ago.
    pub fn check_liveness(&self, owner: &str) -> Result<HolderLiveness, SandboxError> {
        let path = self.presence_path(owner);
        loop {
            let lock = match File::open(&path) {
                Ok(lock) => lock,
                Err(error) if files::is_not_found(&error) => return Ok(HolderLiveness::Unknown),
                Err(error) => return Err(error).while_being("opened", &path),
            };
            match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared) {
                Ok(()) if is_same_file_at(&lock, &path).while_being("looked at", &path)? => {
                    return Ok(HolderLiveness::Ended);
                }
                // Forgotten or left meanwhile, and perhaps somebody else's by now.
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(HolderLiveness::Running),
                Err(error) => return Err(error).while_being("locked", &path),
            }
        }
    }

    fn presence_path(&self, owner: &str) -> PathBuf {
        let name = Digest::hash_bytes(owner.as_bytes()).to_string();
        self.home().join("present").join(&name[..24])
    }
}

impl Drop for ProcessPresence {
    fn drop(&mut self) {
        // While the lock is still held, so that nobody takes the name's absence for a death.
        if !self.keeps_file {
            let _ = std::fs::remove_file(&self.path);
        }
        let _ = rustix::fs::flock(&self.lock, FlockOperation::Unlock);
    }
}

/// The file in this place, made if it is missing, with its lock.
fn open_locked(path: &Path) -> Result<File, SandboxError> {
    let began = Instant::now();
    loop {
        let mut options = OpenOptions::new();
        // What it says is written once it is ours.
        let options = options.read(true).write(true).create(true).truncate(false);
        let options = options.mode(0o600);
        let lock = options.open(path).while_being("made", path)?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) if is_same_file_at(&lock, path).while_being("looked at", path)? => {
                return Ok(lock);
            }
            // Whoever forgot who was here before removed it under our hands.
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) if began.elapsed() < PRESENCE_LOCK_TIMEOUT => {
                std::thread::sleep(LOCK_RETRY_INTERVAL);
            }
            Err(error) => return Err(error).while_being("locked", path),
        }
    }
}

/// Notes who is gone, and forgets who is for long. What cannot be tidied up now is left to who signs in next.
fn expire_gone_files(directory: &Path, now: SystemTime) {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return;
    };
    for entry in entries.flatten() {
        let _ = expire_if_gone(&entry.path(), now);
    }
}

fn expire_if_gone(path: &Path, now: SystemTime) -> std::io::Result<()> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    // Shared with everybody who looks, to whom it must not seem that somebody is here.
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared)?;
    let mut content = Vec::new();
    file.read_to_end(&mut content)?;
    if content != GONE_CONTENT {
        return overwrite_file(&file, GONE_CONTENT).map(drop);
    }
    let noticed_at = file.metadata()?.modified()?;
    // A clock that was set back makes it stay for longer.
    if now.duration_since(noticed_at).unwrap_or_default() < GONE_RETENTION {
        return Ok(());
    }
    // For a moment between the two locks it is nobody's: whoever signed in then has it locked or has written to it.
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    if file.metadata()?.modified()? == noticed_at && is_same_file_at(&file, path)? {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

/// Is this the file that is found there?
fn is_same_file_at(file: &File, path: &Path) -> std::io::Result<bool> {
    let here = file.metadata()?;
    match std::fs::symlink_metadata(path) {
        Ok(there) => Ok((here.dev(), here.ino()) == (there.dev(), there.ino())),
        Err(error) if files::is_not_found(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Has the file say this and nothing else. The moment at which it does, by the clock of its file system.
fn overwrite_file(mut file: &File, text: &[u8]) -> std::io::Result<SystemTime> {
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(text)?;
    file.metadata()?.modified()
}
