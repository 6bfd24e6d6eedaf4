//! Following the log of all plans.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use store::{Cursor, StoredEvent};

use crate::{Lifecycle, LifecycleError};

/// Events are read in pages of this size.
const EVENT_PAGE_SIZE: usize = 256;

/// Waiting ends with a commit that comes after it began. One that came between looking and waiting is found
/// by looking again this soon.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Events of all plans from a place in the log on, each exactly once.
pub struct EventStream {
    lifecycle: Lifecycle,
    cursor: Cursor,
    buffered: VecDeque<StoredEvent>,
}

impl Lifecycle {
    /// Events after a cursor; [`Cursor::START`] for all there ever were.
    pub fn events(&self, after: Cursor) -> EventStream {
        EventStream {
            lifecycle: self.clone(),
            cursor: after,
            buffered: VecDeque::new(),
        }
    }
}

impl EventStream {
    /// The next event that is there already.
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

    /// The next event, waiting for one up to `timeout`.
    pub fn next_within(
        &mut self,
        timeout: Duration,
    ) -> Result<Option<StoredEvent>, LifecycleError> {
        // A timeout beyond all clocks is none.
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
