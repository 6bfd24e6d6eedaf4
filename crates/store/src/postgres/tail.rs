//! Tailing the log.
//!
//! A sequence would not do. It numbers events when they are written, not when they are committed:
//! whoever reads up to number 8 while the transaction that took 7 still runs, and goes on from 8,
//! never sees 7. So an event's place is its transaction and its position within that, and only those
//! transactions are read that every transaction before them has ended: older than the oldest that
//! still runs. Whatever commits later gets a later number, so nothing is ever inserted behind a
//! cursor. The events of one plan are in their order because a commit waits for its turn at the plan
//! before it gets its number (`TAKE_TURNS`).
//!
//! The price: a transaction that writes and does not end, in whatever database of the server, holds
//! everybody's log back. The server ends ours when they sit idle; `wait` looks more often meanwhile.
//!
//! Servers count their transactions independently. A store that was dumped and restored elsewhere
//! would find its old events in the future, and put new ones before them. So the number in the table
//! has a base added: 0 where the store was made; where it was moved to, the largest number it brought
//! along. The first write on a new server sets it (`ADOPT`); servers are told apart by the identity
//! they got when their cluster was made. Until then, everything in the table is old and readable.

use std::time::Duration;

use plan::{PlanId, PlanVersion};

use super::PostgresStore;
use super::pipeline::values;
use super::rows::{RowColumns, decode_cursor, decode_event_row, to_sql_integer};
use super::statements::{EVENTS, EVENTS_HELD_BACK, LATEST_EVENT, PLAN_EVENTS};
use crate::{Cursor, EventLog, EventPage, StoreError, StoredEvent};

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
            // No place to go on from in the log of all plans: others may yet come before it.
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

    fn wait_for_commit(&self, timeout: Duration) -> Result<(), StoreError> {
        self.listener.start_listening();
        self.shared.commit_signal.wait_for_commit(timeout);
        Ok(())
    }
}

/// A page's size, within reason.
pub(super) fn clamp_page_size(limit: usize) -> i64 {
    to_sql_integer(limit.clamp(1, 1000) as u64)
}
