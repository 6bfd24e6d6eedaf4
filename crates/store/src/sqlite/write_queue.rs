//! Turns between processes: who wants to write waits here, not in the database's busy loop.
//!
//! Two lock files beside the database. `-next` is held by the one that is next, `-turn` by the one
//! whose turn it is. Everybody else waits in the kernel for `-next`, which serves waiters in the
//! order in which they came, so a process that has just had its turn and wants another queues
//! behind those that waited. A hand-over wakes one process for the turn and one to become the next;
//! nobody polls.
//!
//! These are `flock` locks. They belong to an open file, not to a process, so two stores of one
//! file in one process take turns as well; and the kernel drops them when their holder dies, so
//! that a dead one is never waited for.
//!
//! The wait is unbounded on purpose. A process that is stopped (not dead) during its turn holds the
//! database's own lock too, and nothing may write then. Stopped waiters hold nobody up, except the
//! one that is next.
//!
//! Deliberately not here: safety. Without the turnstile the database would still be consistent; it
//! would be unfair, and busy.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use super::database_file::path_with_suffix;

/// The two lock files of one database.
pub(super) struct WriteQueue {
    next_lock: File,
    turn_lock: File,
}

/// A turn; ends when dropped.
pub(super) struct WriteQueueTurn(Arc<WriteQueue>);

impl WriteQueue {
    /// Opens the lock files, creating them where they are absent.
    pub(super) fn open(database: &Path) -> io::Result<Self> {
        Ok(Self {
            next_lock: open_lock_file(&path_with_suffix(database, "-next"))?,
            turn_lock: open_lock_file(&path_with_suffix(database, "-turn"))?,
        })
    }

    /// Waits for our turn. `None` if somebody removed the lock file meanwhile: those who came later
    /// queue elsewhere, and so must we. (Of `-next` alone it does no harm.)
    pub(super) fn take_turn(self: &Arc<Self>) -> io::Result<Option<WriteQueueTurn>> {
        lock_file(&self.next_lock)?;
        let turn = lock_file(&self.turn_lock).map(|()| WriteQueueTurn(Arc::clone(self)));
        self.next_lock.unlock()?;
        let turn = turn?;
        let removed = self.turn_lock.metadata()?.nlink() == 0;
        Ok((!removed).then_some(turn))
    }
}

impl Drop for WriteQueueTurn {
    fn drop(&mut self) {
        // Unlocking a file that we hold open and locked does not fail; if it did, the lock would
        // last as long as the store.
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
    fn one_at_a_time_and_everybody_gets_there() {
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
    fn a_closed_file_gives_up_its_turn() {
        let directory = tempfile::tempdir().unwrap();
        let database = directory.path().join("x.db");
        let first = WriteQueue::open(&database).unwrap();
        // As if its process had died: closed without unlocking.
        first.next_lock.lock().unwrap();
        first.turn_lock.lock().unwrap();
        drop(first);
        let second = Arc::new(WriteQueue::open(&database).unwrap());
        assert!(second.take_turn().unwrap().is_some());
    }

    #[test]
    fn a_removed_lock_file_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let database = directory.path().join("x.db");
        let queue = Arc::new(WriteQueue::open(&database).unwrap());
        assert!(queue.take_turn().unwrap().is_some());
        std::fs::remove_file(path_with_suffix(&database, "-turn")).unwrap();
        assert!(queue.take_turn().unwrap().is_none());
    }
}
