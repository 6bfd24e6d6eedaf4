//! Reads the event log of all plans, and waits for new events.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use store::{Cursor, StoredEvent};

use crate::{Lifecycle, LifecycleError};

const EVENT_PAGE_SIZE: usize = 256;

/// The longest single wait. `wait_for_commit` misses a commit between the last read and the start of the
/// wait, so the log is read again at this interval.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Yields the events of all plans after a position in the log, each exactly once.
pub struct EventStream {
    lifecycle: Lifecycle,
    cursor: Cursor,
    buffered: VecDeque<StoredEvent>,
}

impl Lifecycle {
    /// Returns the events after a cursor. [`Cursor::START`] starts at the beginning of the log.
    pub fn events(&self, after: Cursor) -> EventStream {
        EventStream {
            lifecycle: self.clone(),
            cursor: after,
            buffered: VecDeque::new(),
        }
    }
}

impl EventStream {
    /// Returns the next stored event without waiting.
    pub fn next_ready(&mut self) -> Result<Option<StoredEvent>, LifecycleError> {
        if self.buffered.is_empty() {
            let page = self
                .lifecycle
                .store
                .read_events(&self.cursor, EVENT_PAGE_SIZE)?;
            self.cursor = page.next;
            self.buffered = page.events.into();
        }
        Ok(self.buffered.pop_front())
    }

    /// Returns the next event, waiting up to `timeout` for it.
    pub fn next_within(
        &mut self,
        timeout: Duration,
    ) -> Result<Option<StoredEvent>, LifecycleError> {
        // A timeout too large for the clock means no deadline.
        let deadline = Instant::now().checked_add(timeout);
        loop {
            if let Some(event) = self.next_ready()? {
                return Ok(Some(event));
            }
            let remaining = deadline.map_or(POLL_INTERVAL, |deadline| {
                deadline.saturating_duration_since(Instant::now())
            });
            if remaining.is_zero() {
                return Ok(None);
            }
            self.lifecycle
                .store
                .wait_for_commit(remaining.min(POLL_INTERVAL))?;
        }
    }
}
