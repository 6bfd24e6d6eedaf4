//! Tailing the log. Commits are one after the other, so positions are handed out in the order in
//! which they become visible and nothing appears behind a cursor.

use std::time::{Duration, Instant};

use plan::{PlanId, Version};
use rusqlite::{Connection, params};

use super::connection::Reader;
use super::read::page;
use super::rows::{all, digest, one};
use super::wrong::Wrong;
use super::{SqliteStore, migrate, statements as sql};
use crate::record::decode;
use crate::sync::{Condvar, Mutex, lock};
use crate::{Cursor, EventPage, StoreError, StoredEvent, Tail};

/// How often commits of other processes are looked for while waiting.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(20);

impl Tail for SqliteStore {
    fn plan_events(
        &self,
        plan: PlanId,
        after: Version,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        // No event has a version beyond the database's integers.
        let after = i64::try_from(after.0).unwrap_or(i64::MAX);
        self.read(Vec::new(), |connection| {
            all(
                connection,
                sql::PLAN_EVENTS,
                params![plan.to_string(), after, page(limit)],
                |row| stored_event(row, 0, None),
            )
        })
    }

    fn events(&self, after: &Cursor, limit: usize) -> Result<EventPage, StoreError> {
        let position = i64::try_from(after.minor).unwrap_or(i64::MAX);
        let events = self.read(Vec::new(), |connection| {
            all(
                connection,
                sql::EVENTS,
                params![position, page(limit)],
                |row| stored_event(row, 1, Some(cursor(row.get(0)?))),
            )
        })?;
        let last = events.last().and_then(|event| event.cursor.clone());
        Ok(EventPage {
            next: last.unwrap_or_else(|| after.clone()),
            events,
        })
    }

    fn latest(&self) -> Result<Cursor, StoreError> {
        self.read(Cursor::START, latest)
    }

    fn wait(&self, timeout: Duration) -> Result<(), StoreError> {
        // A timeout beyond all clocks is none.
        let deadline = Instant::now().checked_add(timeout);
        let seen_here = self.commits.count();
        let mut watch = Watch::begin(self).map_err(|wrong| wrong.at(self.place.shown()))?;
        loop {
            let left = deadline.map_or(self.look_every, |deadline| {
                deadline.saturating_duration_since(Instant::now())
            });
            if left.is_zero()
                || self
                    .commits
                    .wait_beyond(seen_here, left.min(self.look_every))
            {
                break;
            }
            let changed = watch.changed(self);
            if changed.map_err(|wrong| wrong.at(self.place.shown()))? {
                break;
            }
        }
        if let Some((reader, _)) = watch.0 {
            self.readers.give_back(reader);
        }
        Ok(())
    }
}

/// How often this store committed something; wakes those who wait for more.
#[derive(Default)]
pub(super) struct Commits {
    state: Mutex<CommitsState>,
    more: Condvar,
}

#[derive(Default)]
struct CommitsState {
    count: u64,
    waiting: usize,
}

impl Commits {
    /// Something was committed. Asks the system to wake somebody only if somebody waits.
    pub(super) fn announce(&self) {
        let mut state = lock(&self.state);
        state.count += 1;
        if state.waiting > 0 {
            self.more.notify_all();
        }
    }

    fn count(&self) -> u64 {
        lock(&self.state).count
    }

    /// Waits for more commits than these. False if there were none in time.
    fn wait_beyond(&self, seen: u64, timeout: Duration) -> bool {
        let mut state = lock(&self.state);
        if state.count == seen {
            state.waiting += 1;
            let waited = self.more.wait_timeout(state, timeout);
            state = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
            state.waiting -= 1;
        }
        state.count != seen
    }
}

/// What a reader saw of the file when the wait began; `None` if there was no file. The database
/// counts the commits of others per connection, so the same one must look each time.
struct Watch(Option<(Reader, i64)>);

impl Watch {
    fn begin(store: &SqliteStore) -> Result<Self, Wrong> {
        let Some(reader) = store.readers.take(&store.place)? else {
            return Ok(Self(None));
        };
        let version = migrate::number(&reader.connection, sql::DATA_VERSION)?;
        Ok(Self(Some((reader, version))))
    }

    fn changed(&mut self, store: &SqliteStore) -> Result<bool, Wrong> {
        match &self.0 {
            Some((reader, before)) => {
                let now: i64 = migrate::number(&reader.connection, sql::DATA_VERSION)?;
                Ok(now != *before || !reader.is_current(&store.place)?)
            }
            None => Ok(store.place.look()?.is_some()),
        }
    }
}

/// Where the log ends.
pub(super) fn latest(connection: &Connection) -> Result<Cursor, Wrong> {
    let position = one(connection, sql::LATEST_POSITION, [], |row| Ok(row.get(0)?))?;
    Ok(position.map_or(Cursor::START, cursor))
}

fn cursor(position: i64) -> Cursor {
    Cursor {
        major: 0,
        minor: position.unsigned_abs(),
    }
}

/// An event from its three columns, the first of which is at `first`.
fn stored_event(
    row: &rusqlite::Row<'_>,
    first: usize,
    cursor: Option<Cursor>,
) -> Result<StoredEvent, Wrong> {
    let body: String = row.get(first)?;
    let texts = row.get_ref(first + 1)?;
    let recorded = decode(&body, texts.as_str_or_null()?)
        .map_err(|error| Wrong::Corrupt(error.to_string()))?;
    Ok(StoredEvent {
        cursor,
        recorded,
        body,
        hash: digest(row.get_ref(first + 2)?)?,
    })
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failing test may be blunt")]

    use super::*;
    use crate::sqlite::tests::add_rule;
    use crate::{Maintain, SqliteOptions};

    /// Longer than any of these tests may take.
    const LONG: Duration = Duration::from_secs(20);

    /// Does something while somebody waits, and says whether that ended the waiting.
    fn ends_the_waiting(waiter: &SqliteStore, something: impl FnOnce()) -> bool {
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let began = Instant::now();
                waiter.wait(LONG).unwrap();
                began.elapsed()
            });
            while lock(&waiter.commits.state).waiting == 0 {
                std::thread::yield_now();
            }
            something();
            waiting.join().unwrap() < LONG
        })
    }

    /// Nobody looks for the commits of others here: what ends the waiting is that this store says
    /// so itself.
    #[test]
    fn a_commit_of_this_store_ends_the_waiting_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("planwright.db");
        let store = SqliteStore {
            look_every: Duration::MAX,
            ..SqliteStore::new(&path, SqliteOptions::default())
        };
        add_rule(&store, 1).unwrap();
        assert!(ends_the_waiting(&store, || drop(
            add_rule(&store, 2).unwrap()
        )));
    }

    /// And nobody says so here: it is found by looking.
    #[test]
    fn a_commit_of_another_store_and_another_file_are_found_by_looking() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("planwright.db");
        let [here, there] = [(); 2].map(|()| SqliteStore::new(&path, SqliteOptions::default()));
        assert!(ends_the_waiting(&here, || drop(
            add_rule(&there, 1).unwrap()
        )));
        assert!(ends_the_waiting(&here, || drop(
            add_rule(&there, 2).unwrap()
        )));
        let copy = directory.path().join("copy.db");
        there.backup(&copy).unwrap();
        assert!(ends_the_waiting(&here, || std::fs::rename(&copy, &path).unwrap()));
    }
}
