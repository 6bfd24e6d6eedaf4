//! Reads the event log. Commits are serial, so positions are assigned in the order in which they
//! become visible, and nothing appears before a cursor.

use std::time::Duration;

use plan::{PlanId, PlanVersion};
use rusqlite::{Connection, params};

use super::error::SqliteError;
use super::read::clamp_page_size;
use super::rows::{decode_digest, select_all, select_first};
use super::{SqliteStore, statements as sql};
use crate::event_codec::decode_event;
use crate::{CommitMark, Cursor, EventLog, EventPage, StoreError, StoredEvent};

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

    fn mark_commits(&self) -> Result<CommitMark, StoreError> {
        self.commit_watch
            .mark_commits(&self.file)
            .map_err(|error| error.into_store_error(self.file.display_path()))
    }

    fn wait_for_commit_after(&self, mark: CommitMark, timeout: Duration) -> Result<(), StoreError> {
        self.commit_watch
            .wait_for_commit_after(mark, timeout, &self.file)
            .map_err(|error| error.into_store_error(self.file.display_path()))
    }

    fn wake_waiters(&self) {
        self.commit_watch.record_commit();
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
