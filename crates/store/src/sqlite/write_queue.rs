//! Queues writing processes, so that they do not spin in SQLite's busy loop.
//!
//! Two lock files lie beside the database. The next writer holds `-next`; the current writer holds
//! `-turn`. All others wait in the kernel for `-next`, which serves them in order of arrival. A
//! process that wants another turn therefore queues behind those that already wait. A hand-over
//! wakes one process for `-turn` and one for `-next`; nobody polls.
//!
//! These are `flock` locks. They belong to an open file, not to a process, so two stores of one
//! file in one process also take turns. The kernel releases them when their holder dies.
//!
//! The wait is unbounded on purpose. A process that is stopped (not dead) during its turn also
//! holds the database's lock, and nobody may write then. Other stopped processes block nobody,
//! except the one that holds `-next`.
//!
//! This queue is not needed for safety. Without it the database stays consistent, but writers would
//! starve and spin.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use super::database_file::path_with_suffix;

pub(super) struct WriteQueue {
    next_lock: File,
    turn_lock: File,
}

/// The right to write; released when dropped.
pub(super) struct WriteQueueTurn(Arc<WriteQueue>);

impl WriteQueue {
    /// Opens the lock files and creates them if they are absent.
    pub(super) fn open(database: &Path) -> io::Result<Self> {
        Ok(Self {
            next_lock: open_lock_file(&path_with_suffix(database, "-next"))?,
            turn_lock: open_lock_file(&path_with_suffix(database, "-turn"))?,
        })
    }

    /// Waits for our turn. Returns `None` if the `-turn` file was removed meanwhile: later
    /// processes then queue on a new file, and so must we. Removing `-next` alone does no harm.
    pub(super) fn take_turn(self: &Arc<Self>) -> io::Result<Option<WriteQueueTurn>> {
        lock_file(&self.next_lock)?;
        // Hold `-next` until the turn is ours, so that only one process waits for `-turn`.
        let turn = lock_file(&self.turn_lock).map(|()| WriteQueueTurn(Arc::clone(self)));
        self.next_lock.unlock()?;
        let turn = turn?;
        let removed = self.turn_lock.metadata()?.nlink() == 0;
        Ok((!removed).then_some(turn))
    }
}

impl Drop for WriteQueueTurn {
    fn drop(&mut self) {
        // Unlocking an open, locked file does not fail. If it did, the lock would last as long as
        // the store.
        let _ = self.0.turn_lock.unlock();
    }
}

fn open_lock_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}

fn lock_file(file: &File) -> io::Result<()> {
    loop {
        match file.lock() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            ended => return ended,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn turns_are_exclusive_and_nobody_starves() {
        let directory = tempfile::tempdir().unwrap();
        let database = directory.path().join("x.db");
        let inside = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let queue = Arc::new(WriteQueue::open(&database).unwrap());
                    for _ in 0..200 {
                        let turn = queue.take_turn().unwrap().unwrap();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        std::thread::yield_now();
                        assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
                        drop(turn);
                    }
                });
            }
        });
    }

    #[test]
    fn closing_the_file_releases_the_turn() {
        let directory = tempfile::tempdir().unwrap();
        let database = directory.path().join("x.db");
        let first = WriteQueue::open(&database).unwrap();
        // Closes without unlocking, as if the process had died.
        first.next_lock.lock().unwrap();
        first.turn_lock.lock().unwrap();
        drop(first);
        let second = Arc::new(WriteQueue::open(&database).unwrap());
        assert!(second.take_turn().unwrap().is_some());
    }

    #[test]
    fn a_removed_lock_file_is_detected() {
        let directory = tempfile::tempdir().unwrap();
        let database = directory.path().join("x.db");
        let queue = Arc::new(WriteQueue::open(&database).unwrap());
        assert!(queue.take_turn().unwrap().is_some());
        std::fs::remove_file(path_with_suffix(&database, "-turn")).unwrap();
        assert!(queue.take_turn().unwrap().is_none());
    }
}
