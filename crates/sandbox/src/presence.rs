//! Process presence: a running process holds a file lock under its name. If the lock is free, the
//! process is gone, because the system releases the lock however the process ends.
//!
//! The file of a killed process stays, as proof that its leases can be taken over at once. A
//! process that registers marks such files as gone and removes them a day later, when none of their
//! leases can still be valid. Only a process that holds the lock removes a file, and a lock counts
//! only while its file is still at its path.

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

/// How long the file of a process is kept after it was found to be gone.
const GONE_RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

/// How long registering waits for processes that only check a file; they hold its lock briefly.
const PRESENCE_LOCK_TIMEOUT: Duration = Duration::from_secs(1);
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// Content of the file of a running process.
const PRESENT_CONTENT: &[u8] = b"here\n";

/// Content of the file once the process was found to be gone; the modification time says when.
const GONE_CONTENT: &[u8] = b"gone\n";

/// This process is registered as running until this is dropped.
#[derive(Debug)]
pub struct ProcessPresence {
    lock: File,
    path: PathBuf,
    /// Keep the file, so that leases that were not released can be taken over at once.
    keeps_file: bool,
}

impl ProcessPresence {
    /// Ends like a killed process: leases that it could not release are taken over at once.
    pub fn end_keeping_file(mut self) {
        self.keeps_file = true;
    }
}

/// Which processes of this host are running.
#[derive(Clone, Copy)]
pub struct HostProcesses<'a> {
    sandboxes: &'a Sandboxes,
}

impl Sandboxes {
    pub fn processes(&self) -> HostProcesses<'_> {
        HostProcesses { sandboxes: self }
    }
}

impl HostProcesses<'_> {
    /// Registers this process under a name that is unique on this host.
    pub fn register_presence(&self, owner: &str) -> Result<ProcessPresence, SandboxError> {
        let path = self.presence_path(owner);
        let directory = self.sandboxes.home().join("present");
        self.sandboxes.home().make_home_directory(&directory)?;
        let lock = open_locked(&path)?;
        let presence = ProcessPresence {
            lock,
            path,
            keeps_file: false,
        };
        let written = overwrite_file(&presence.lock, PRESENT_CONTENT)
            .while_being("written", &presence.path)?;
        expire_gone_files(&directory, written);
        Ok(presence)
    }

    /// Is the process with this name still running? Read-only. `Unknown` if it never registered, or
    /// ended long ago.
    pub fn check_liveness(&self, owner: &str) -> Result<HolderLiveness, SandboxError> {
        let path = self.presence_path(owner);
        loop {
            let lock = match File::open(&path) {
                Ok(lock) => lock,
                Err(error) if files::is_not_found(&error) => return Ok(HolderLiveness::Unknown),
                Err(error) => return Err(error).while_being("opened", &path),
            };
            match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared) {
                Ok(()) if is_same_file_at(&lock, &path).while_being("inspected", &path)? => {
                    return Ok(HolderLiveness::Ended);
                }
                // The file was removed in the meantime, and may have been created again by another
                // process.
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(HolderLiveness::Running),
                Err(error) => return Err(error).while_being("locked", &path),
            }
        }
    }

    fn presence_path(&self, owner: &str) -> PathBuf {
        let name = Digest::hash_bytes(owner.as_bytes()).to_string();
        self.sandboxes.home().join("present").join(&name[..24])
    }
}

impl Drop for ProcessPresence {
    fn drop(&mut self) {
        // While the lock is still held: a file without a lock means that the process died.
        if !self.keeps_file {
            let _ = std::fs::remove_file(&self.path);
        }
        let _ = rustix::fs::flock(&self.lock, FlockOperation::Unlock);
    }
}

/// Opens or creates the file at this path and locks it.
fn open_locked(path: &Path) -> Result<File, SandboxError> {
    let began = Instant::now();
    loop {
        let mut options = OpenOptions::new();
        // The content is written after the lock is acquired.
        let options = options.read(true).write(true).create(true).truncate(false);
        let options = options.mode(0o600);
        let lock = options.open(path).while_being("created", path)?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) if is_same_file_at(&lock, path).while_being("inspected", path)? => {
                return Ok(lock);
            }
            // Another process expired the old file between opening and locking it.
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) if began.elapsed() < PRESENCE_LOCK_TIMEOUT => {
                std::thread::sleep(LOCK_RETRY_INTERVAL);
            }
            Err(error) => return Err(error).while_being("locked", path),
        }
    }
}

/// Marks the files of processes that are gone, and removes old ones. Ignores errors: the next
/// process that registers tries again.
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
    // A shared lock: to a process that checks liveness, an exclusive one would look like a running
    // process.
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared)?;
    let mut content = Vec::new();
    file.read_to_end(&mut content)?;
    if content != GONE_CONTENT {
        return overwrite_file(&file, GONE_CONTENT).map(drop);
    }
    let noticed_at = file.metadata()?.modified()?;
    // If the clock was set back, the file stays longer.
    if now.duration_since(noticed_at).unwrap_or_default() < GONE_RETENTION {
        return Ok(());
    }
    // Between the two locks the file is unlocked. A process that registered then has it locked or
    // has written to it.
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    if file.metadata()?.modified()? == noticed_at && is_same_file_at(&file, path)? {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

/// Is this open file still the one at this path?
fn is_same_file_at(file: &File, path: &Path) -> std::io::Result<bool> {
    let open_file = file.metadata()?;
    match std::fs::symlink_metadata(path) {
        Ok(file_at_path) => {
            Ok((open_file.dev(), open_file.ino()) == (file_at_path.dev(), file_at_path.ino()))
        }
        Err(error) if files::is_not_found(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Replaces the content and returns the modification time, by the clock of the file system.
fn overwrite_file(mut file: &File, text: &[u8]) -> std::io::Result<SystemTime> {
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(text)?;
    file.metadata()?.modified()
}
