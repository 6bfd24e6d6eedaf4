//! Notices commits: those of this store by a signal, those of other processes by looking at the file.
//!
//! Of the threads that wait, one looks at the file for all. When its own wait ends, another one
//! takes its place. While nobody waits, nobody looks.

use std::time::{Duration, Instant};

use super::connection::{ReadConnection, ReaderPool};
use super::database_file::DatabaseFile;
use super::error::SqliteError;
use super::{migrate, statements as sql};
use crate::CommitMark;
use crate::sync::{Condvar, Mutex, MutexGuard, lock};

/// How often the file is looked at. Costs two system calls and no read of a page.
const FILE_POLL_INTERVAL: Duration = Duration::from_millis(20);

pub(super) struct CommitWatch {
    state: Mutex<WatchState>,
    changed: Condvar,
    /// Locked by whoever looks at the file, and never together with `state`.
    file_state: Mutex<FileState>,
    poll_interval: Duration,
}

#[derive(Default)]
struct WatchState {
    /// Commits of this store, and looks that found the file changed. A commit can count twice.
    commit_count: u64,
    waiter_count: usize,
    has_poller: bool,
}

/// The file when it was last looked at.
#[derive(Default)]
enum FileState {
    #[default]
    Unknown,
    Absent,
    /// SQLite's `data_version` is per connection, so the same connection must look each time.
    Open {
        reader: ReadConnection,
        data_version: i64,
    },
}

impl Default for CommitWatch {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            changed: Condvar::default(),
            file_state: Mutex::default(),
            poll_interval: FILE_POLL_INTERVAL,
        }
    }
}

impl CommitWatch {
    /// Counts a commit of this store. Makes the system call to wake threads only if one waits.
    pub(super) fn record_commit(&self) {
        self.count_commit(&mut lock(&self.state));
    }

    /// Marks everything that is committed now.
    pub(super) fn mark_commits(&self, file: &DatabaseFile) -> Result<CommitMark, SqliteError> {
        // The file is compared with this look from here on, so a commit from here on is noticed.
        if self.look_at_file(file)? {
            self.record_commit();
        }
        Ok(CommitMark(lock(&self.state).commit_count))
    }

    pub(super) fn wait_for_commit_after(
        &self,
        mark: CommitMark,
        timeout: Duration,
        file: &DatabaseFile,
    ) -> Result<(), SqliteError> {
        // A timeout beyond the clock's range means no deadline.
        let deadline = Instant::now().checked_add(timeout);
        let mut state = lock(&self.state);
        let mut outcome = Ok(());
        while outcome.is_ok() && state.commit_count == mark.0 {
            let left = deadline.map_or(Duration::MAX, |deadline| {
                deadline.saturating_duration_since(Instant::now())
            });
            if left.is_zero() {
                break;
            }
            if state.has_poller {
                state = self.wait_for_signal(state, left);
                continue;
            }
            state.has_poller = true;
            state = self.wait_for_signal(state, left.min(self.poll_interval));
            if state.commit_count == mark.0 {
                drop(state);
                let looked = self.look_at_file(file);
                state = lock(&self.state);
                match looked {
                    Ok(true) => self.count_commit(&mut state),
                    Ok(false) => {}
                    Err(error) => outcome = Err(error),
                }
            }
            state.has_poller = false;
        }
        if !state.has_poller && state.waiter_count > 0 {
            self.changed.notify_one();
        }
        outcome
    }

    fn count_commit(&self, state: &mut WatchState) {
        state.commit_count += 1;
        if state.waiter_count > 0 {
            self.changed.notify_all();
        }
    }

    fn wait_for_signal<'a>(
        &self,
        mut state: MutexGuard<'a, WatchState>,
        timeout: Duration,
    ) -> MutexGuard<'a, WatchState> {
        state.waiter_count += 1;
        let waited = self.changed.wait_timeout(state, timeout);
        let mut state = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        state.waiter_count -= 1;
        state
    }

    /// Returns whether the file changed since the last look.
    fn look_at_file(&self, file: &DatabaseFile) -> Result<bool, SqliteError> {
        let mut file_state = lock(&self.file_state);
        let (next, changed) = match std::mem::take(&mut *file_state) {
            FileState::Unknown => (FileState::open(file)?, false),
            FileState::Absent => {
                let next = FileState::open(file)?;
                let appeared = matches!(next, FileState::Open { .. });
                (next, appeared)
            }
            FileState::Open { reader, .. } if !reader.is_current(file)? => {
                (FileState::open(file)?, true)
            }
            FileState::Open {
                reader,
                data_version: before,
            } => {
                let data_version = query_data_version(&reader)?;
                let next = FileState::Open {
                    reader,
                    data_version,
                };
                (next, data_version != before)
            }
        };
        *file_state = next;
        Ok(changed)
    }
}

impl FileState {
    fn open(file: &DatabaseFile) -> Result<Self, SqliteError> {
        let Some(reader) = ReaderPool::open_current(file)? else {
            return Ok(Self::Absent);
        };
        let data_version = query_data_version(&reader)?;
        Ok(Self::Open {
            reader,
            data_version,
        })
    }
}

fn query_data_version(reader: &ReadConnection) -> Result<i64, SqliteError> {
    migrate::query_number(&reader.connection, sql::DATA_VERSION)
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::*;
    use crate::sqlite::tests::add_rule;
    use crate::{EventLog, SqliteOptions, SqliteStore, StoreMaintenance};

    /// Longer than any of these tests takes.
    const TEST_TIMEOUT: Duration = Duration::from_secs(20);

    fn wait_for_waiters(store: &SqliteStore, count: usize) {
        while lock(&store.commit_watch.state).waiter_count < count {
            std::thread::yield_now();
        }
    }

    /// Runs `something` during a wait and returns whether the wait ended because of it.
    fn ends_wait(waiter: &SqliteStore, something: impl FnOnce()) -> bool {
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let began = Instant::now();
                waiter.wait_for_commit(TEST_TIMEOUT).unwrap();
                began.elapsed()
            });
            wait_for_waiters(waiter, 1);
            something();
            waiting.join().unwrap() < TEST_TIMEOUT
        })
    }

    /// The poll interval cannot end this wait in time, so the store's own signal must.
    #[test]
    fn a_commit_of_this_store_ends_the_wait_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("planwright.db");
        let mut store = SqliteStore::new(&path, SqliteOptions::default());
        store.commit_watch.poll_interval = Duration::MAX;
        add_rule(&store, 1).unwrap();
        assert!(ends_wait(&store, || drop(add_rule(&store, 2).unwrap())));
    }

    /// The other store sends no signal, so polling must find the commit.
    #[test]
    fn polling_finds_commits_of_another_store_and_a_replaced_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("planwright.db");
        let [here, there] = [(); 2].map(|()| SqliteStore::new(&path, SqliteOptions::default()));
        assert!(ends_wait(&here, || drop(add_rule(&there, 1).unwrap())));
        assert!(ends_wait(&here, || drop(add_rule(&there, 2).unwrap())));
        let copy = directory.path().join("copy.db");
        there.write_backup(&copy).unwrap();
        assert!(ends_wait(&here, || std::fs::rename(&copy, &path).unwrap()));
    }

    /// One thread looks for all. When its time is up, another one must go on.
    #[test]
    fn waiters_are_woken_after_the_one_that_looked_gave_up() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("planwright.db");
        let [here, there] = [(); 2].map(|()| SqliteStore::new(&path, SqliteOptions::default()));
        add_rule(&there, 1).unwrap();
        let mark = here.mark_commits().unwrap();
        std::thread::scope(|scope| {
            let looking = scope.spawn(|| {
                here.wait_for_commit_after(mark, Duration::from_millis(200))
                    .unwrap();
            });
            wait_for_waiters(&here, 1);
            let waiting = [(); 5].map(|()| {
                scope.spawn(|| {
                    let began = Instant::now();
                    here.wait_for_commit_after(mark, TEST_TIMEOUT).unwrap();
                    began.elapsed()
                })
            });
            looking.join().unwrap();
            add_rule(&there, 2).unwrap();
            for waiting in waiting {
                assert!(waiting.join().unwrap() < TEST_TIMEOUT);
            }
        });
    }
}
