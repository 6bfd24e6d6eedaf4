//! Reads the event log.
//!
//! A sequence cannot order the log. It numbers events when they are written, not when they are
//! committed: a reader that continues after number 8 misses number 7 if its transaction was still
//! running. So the position of an event is its transaction id and its index within the transaction.
//! Only events of transactions older than the oldest running one are readable. Later commits get
//! larger ids, so nothing is ever inserted before a cursor. The events of one plan are in order,
//! because a commit gets its id while it holds the plan's advisory lock (`ADVISORY_LOCKS`).
//!
//! The cost: a writing transaction that does not end, in any database of the server, holds back the
//! log. The server ends our own idle transactions; meanwhile `wait_for_commit` polls more often.
//!
//! Servers count transactions independently. After a dump and restore on another server, old events
//! could have larger ids than new ones. So stored ids include a base: 0 on the original server, and
//! the largest existing id on a new one. The first write on a new server sets the base
//! (`ADOPT_SERVER`); the cluster's system identifier distinguishes servers. Until then, all stored
//! events are old and readable.

use std::time::Duration;

use plan::{PlanId, PlanVersion};

use super::PostgresStore;
use super::pipeline::values;
use super::rows::{RowColumns, decode_cursor, decode_event_row, to_sql_integer};
use super::statements::{EVENTS, EVENTS_HELD_BACK, LATEST_EVENT, PLAN_EVENTS};
use crate::{CommitMark, Cursor, EventLog, EventPage, StoreError, StoredEvent};

impl EventLog for PostgresStore {
    fn read_plan_events(
        &self,
        plan_id: PlanId,
        after: PlanVersion,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let after = i64::try_from(after.0).unwrap_or(i64::MAX);
        let rows = self.shared.read_rows(|_| {
            vec![(
                PLAN_EVENTS,
                values![plan_id.to_string(), after, clamp_page_size(limit)],
            )]
        })?;
        let Some([events]) = rows.as_deref() else {
            return Ok(Vec::new());
        };
        let place = self.shared.place();
        let without_cursor = |row| {
            let event = decode_event_row(RowColumns::new(row, place))?;
            // No cursor: events of other plans may still be inserted before this one.
            Ok(StoredEvent {
                cursor: None,
                ..event
            })
        };
        events.iter().map(without_cursor).collect()
    }

    fn read_events(&self, after: &Cursor, limit: usize) -> Result<EventPage, StoreError> {
        let (Ok(major), Ok(minor)) = (i64::try_from(after.major), i64::try_from(after.minor))
        else {
            return Ok(EventPage {
                events: Vec::new(),
                next: after.clone(),
            });
        };
        let rows = self.shared.read_rows(|connection| {
            let system = connection.system_id;
            vec![
                (
                    EVENTS,
                    values![major, minor, system, clamp_page_size(limit)],
                ),
                (EVENTS_HELD_BACK, values![system]),
            ]
        })?;
        let place = self.shared.place();
        let mut events = Vec::new();
        if let Some([found, held_back]) = rows.as_deref() {
            events = found
                .iter()
                .map(|row| decode_event_row(RowColumns::new(row, place)))
                .collect::<Result<Vec<_>, _>>()?;
            if let Some(row) = held_back.first() {
                self.shared
                    .commit_signal
                    .set_held_back(RowColumns::new(row, place).get(0)?);
            }
        }
        let next = events.last().and_then(|last| last.cursor.clone());
        Ok(EventPage {
            events,
            next: next.unwrap_or_else(|| after.clone()),
        })
    }

    fn read_latest_cursor(&self) -> Result<Cursor, StoreError> {
        let rows = self
            .shared
            .read_rows(|connection| vec![(LATEST_EVENT, values![connection.system_id])])?;
        match rows.as_deref() {
            Some([rows]) if !rows.is_empty() => {
                decode_cursor(RowColumns::new(&rows[0], self.shared.place()))
            }
            _ => Ok(Cursor::START),
        }
    }

    fn mark_commits(&self) -> Result<CommitMark, StoreError> {
        // Not only in the wait: commits made before the listener listens are not notified.
        self.listener.start_listening();
        Ok(self.shared.commit_signal.mark_commits())
    }

    fn wait_for_commit_after(&self, mark: CommitMark, timeout: Duration) -> Result<(), StoreError> {
        self.shared
            .commit_signal
            .wait_for_commit_after(mark, timeout);
        Ok(())
    }

    fn wake_waiters(&self) {
        self.shared.commit_signal.signal_commit();
    }
}

pub(super) fn clamp_page_size(limit: usize) -> i64 {
    to_sql_integer(limit.clamp(1, 1000) as u64)
}
