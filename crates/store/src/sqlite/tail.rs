//! Reads the event log. Commits are serial, so positions are assigned in the order in which they
//! become visible, and nothing appears before a cursor.

use std::time::{Duration, Instant};

use plan::{PlanId, PlanVersion};
use rusqlite::{Connection, params};

use super::connection::ReadConnection;
use super::error::SqliteError;
use super::read::clamp_page_size;
use super::rows::{decode_digest, select_all, select_first};
use super::{SqliteStore, migrate, statements as sql};
use crate::event_codec::decode_event;
use crate::sync::{Condvar, Mutex, lock};
use crate::{Cursor, EventLog, EventPage, StoreError, StoredEvent};

/// How often a waiter checks for commits of other processes.
pub(super) const COMMIT_POLL_INTERVAL: Duration = Duration::from_millis(20);

impl EventLog for SqliteStore {
    fn read_plan_events(
        &self,
        plan_id: PlanId,
        after: PlanVersion,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        // Versions never exceed the database's integers.
        let after = i64::try_from(after.0).unwrap_or(i64::MAX);
        self.read_snapshot_or(Vec::new(), |connection| {
            select_all(
                connection,
                sql::PLAN_EVENTS,
                params![plan_id.to_string(), after, clamp_page_size(limit)],
                |row| decode_event_row(row, 0, None),
            )
        })
    }

    fn read_events(&self, after: &Cursor, limit: usize) -> Result<EventPage, StoreError> {
        let position = i64::try_from(after.minor).unwrap_or(i64::MAX);
        let events = self.read_snapshot_or(Vec::new(), |connection| {
            select_all(
                connection,
                sql::EVENTS,
                params![position, clamp_page_size(limit)],
                |row| decode_event_row(row, 1, Some(cursor_at(row.get(0)?))),
            )
        })?;
        let last = events.last().and_then(|event| event.cursor.clone());
        Ok(EventPage {
            next: last.unwrap_or_else(|| after.clone()),
            events,
        })
    }

    fn read_latest_cursor(&self) -> Result<Cursor, StoreError> {
        self.read_snapshot_or(Cursor::START, select_latest_cursor)
    }

    fn wait_for_commit(&self, timeout: Duration) -> Result<(), StoreError> {
        // A timeout beyond the clock's range means no deadline.
        let deadline = Instant::now().checked_add(timeout);
        let seen_count = self.commit_counter.commit_count();
        let mut watch = FileWatch::begin(self)
            .map_err(|error| error.into_store_error(self.file.display_path()))?;
        loop {
            let left = deadline.map_or(self.poll_interval, |deadline| {
                deadline.saturating_duration_since(Instant::now())
            });
            if left.is_zero()
                || self
                    .commit_counter
                    .wait_for_more(seen_count, left.min(self.poll_interval))
            {
                break;
            }
            let changed = watch.has_changed(self);
            if changed.map_err(|error| error.into_store_error(self.file.display_path()))? {
                break;
            }
        }
        if let Some((reader, _)) = watch.0 {
            self.readers.return_reader(reader);
        }
        Ok(())
    }
}

/// Counts this store's commits and wakes waiting threads.
#[derive(Default)]
pub(super) struct CommitCounter {
    state: Mutex<CommitCounterState>,
    changed: Condvar,
}

#[derive(Default)]
struct CommitCounterState {
    count: u64,
    waiter_count: usize,
}

impl CommitCounter {
    /// Counts a commit. Makes the system call to wake threads only if one waits.
    pub(super) fn record_commit(&self) {
        let mut state = lock(&self.state);
        state.count += 1;
        if state.waiter_count > 0 {
            self.changed.notify_all();
        }
    }

    fn commit_count(&self) -> u64 {
        lock(&self.state).count
    }

    /// Waits until the count exceeds `seen_count`. Returns `false` after the timeout.
    fn wait_for_more(&self, seen_count: u64, timeout: Duration) -> bool {
        let mut state = lock(&self.state);
        if state.count == seen_count {
            state.waiter_count += 1;
            let waited = self.changed.wait_timeout(state, timeout);
            state = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
            state.waiter_count -= 1;
        }
        state.count != seen_count
    }
}

/// The state of the file when the wait began; `None` if there was no file. SQLite's `data_version`
/// is per connection, so the same connection must check each time.
struct FileWatch(Option<(ReadConnection, i64)>);

impl FileWatch {
    fn begin(store: &SqliteStore) -> Result<Self, SqliteError> {
        let Some(reader) = store.readers.take_reader(&store.file)? else {
            return Ok(Self(None));
        };
        let version = migrate::query_number(&reader.connection, sql::DATA_VERSION)?;
        Ok(Self(Some((reader, version))))
    }

    fn has_changed(&mut self, store: &SqliteStore) -> Result<bool, SqliteError> {
        match &self.0 {
            Some((reader, before)) => {
                let now: i64 = migrate::query_number(&reader.connection, sql::DATA_VERSION)?;
                Ok(now != *before || !reader.is_current(&store.file)?)
            }
            None => Ok(store.file.find_identity()?.is_some()),
        }
    }
}

pub(super) fn select_latest_cursor(connection: &Connection) -> Result<Cursor, SqliteError> {
    let position = select_first(connection, sql::LATEST_POSITION, [], |row| Ok(row.get(0)?))?;
    Ok(position.map_or(Cursor::START, cursor_at))
}

fn cursor_at(position: i64) -> Cursor {
    Cursor {
        major: 0,
        minor: position.unsigned_abs(),
    }
}

/// Decodes an event from three columns starting at `first`.
fn decode_event_row(
    row: &rusqlite::Row<'_>,
    first: usize,
    cursor: Option<Cursor>,
) -> Result<StoredEvent, SqliteError> {
    let body: String = row.get(first)?;
    let texts = row.get_ref(first + 1)?;
    let recorded = decode_event(&body, texts.as_str_or_null()?)
        .map_err(|error| SqliteError::Corrupt(error.to_string()))?;
    Ok(StoredEvent {
        cursor,
        recorded,
        body,
        hash: decode_digest(row.get_ref(first + 2)?)?,
    })
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::*;
    use crate::sqlite::tests::add_rule;
    use crate::{SqliteOptions, StoreMaintenance};

    /// Longer than any of these tests takes.
    const TEST_TIMEOUT: Duration = Duration::from_secs(20);

    /// Runs `something` during a wait and returns whether the wait ended because of it.
    fn ends_wait(waiter: &SqliteStore, something: impl FnOnce()) -> bool {
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let began = Instant::now();
                waiter.wait_for_commit(TEST_TIMEOUT).unwrap();
                began.elapsed()
            });
            while lock(&waiter.commit_counter.state).waiter_count == 0 {
                std::thread::yield_now();
            }
            something();
            waiting.join().unwrap() < TEST_TIMEOUT
        })
    }

    /// The poll interval cannot end this wait in time, so the store's own signal must.
    #[test]
    fn a_commit_of_this_store_ends_the_wait_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("planwright.db");
        let store = SqliteStore {
            poll_interval: Duration::MAX,
            ..SqliteStore::new(&path, SqliteOptions::default())
        };
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
}
