//! Following the log of all plans.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use store::{Cursor, StoredEvent};

use crate::{Error, Lifecycle};

/// Events are read in pages of this size.
const PAGE: usize = 256;

/// Waiting ends with a commit that comes after it began. One that came between looking and waiting is found
/// by looking again this soon.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Events of all plans from a place in the log on, each exactly once.
pub struct Events {
    lifecycle: Lifecycle,
    cursor: Cursor,
    read: VecDeque<StoredEvent>,
}

impl Lifecycle {
    /// Events after a cursor; [`Cursor::START`] for all there ever were.
    pub fn events(&self, after: Cursor) -> Events {
        Events {
            lifecycle: self.clone(),
            cursor: after,
            read: VecDeque::new(),
        }
    }
}

impl Events {
    /// The next event that is there already.
    pub fn next_ready(&mut self) -> Result<Option<StoredEvent>, Error> {
        if self.read.is_empty() {
            let page = self.lifecycle.store.events(&self.cursor, PAGE)?;
            self.cursor = page.next;
            self.read = page.events.into();
        }
        Ok(self.read.pop_front())
    }

    /// The next event, waiting for one up to `timeout`.
    pub fn next_within(&mut self, timeout: Duration) -> Result<Option<StoredEvent>, Error> {
        // A timeout beyond all clocks is none.
        let deadline = Instant::now().checked_add(timeout);
        loop {
            if let Some(event) = self.next_ready()? {
                return Ok(Some(event));
            }
            let left = deadline.map_or(LOOK_AGAIN, |deadline| {
                deadline.saturating_duration_since(Instant::now())
            });
            if left.is_zero() {
                return Ok(None);
            }
            self.lifecycle.store.wait(left.min(LOOK_AGAIN))?;
        }
    }
}
