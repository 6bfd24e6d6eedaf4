//! Follows the event log of all plans, and waits for commits.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actors::Stop;
use plan::takeover::HolderLiveness;
use store::{CommitMark, Cursor, PlanRow, StoredEvent};

use crate::event_tail::{EVENT_PAGE_SIZE, TailAnswer, TailFollower, TailWait};
use crate::{Lifecycle, LifecycleError};

/// When to read a plan again without a commit.
const READ_INTERVAL: Duration = Duration::from_secs(2);

/// How often to check whether a holder's process still runs. Reads nothing from the store.
const LIVENESS_CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// Yields the events of all plans after a position in the log, each exactly once.
pub struct EventStream {
    lifecycle: Lifecycle,
    cursor: Cursor,
    buffered: VecDeque<StoredEvent>,
    /// Set once the stream has waited.
    follower: Option<TailFollower>,
}

impl Lifecycle {
    /// Returns the events after a cursor. [`Cursor::START`] starts at the beginning of the log.
    ///
    /// The streams of an engine and its clones share one reader of the log, so they are cheap.
    pub fn events(&self, after: Cursor) -> EventStream {
        EventStream {
            lifecycle: self.clone(),
            cursor: after,
            buffered: VecDeque::new(),
            follower: None,
        }
    }

    /// Watches for commits of any process. Call this before the first read of what is watched.
    pub fn watch_commits(&self) -> Result<CommitWatcher<'_>, LifecycleError> {
        let mark = self.store.mark_commits()?;
        Ok(CommitWatcher {
            lifecycle: self,
            mark,
        })
    }
}

impl EventStream {
    /// Returns the next stored event without waiting.
    pub fn next_ready(&mut self) -> Result<Option<StoredEvent>, LifecycleError> {
        if self.buffered.is_empty() {
            let store = &self.lifecycle.store;
            let page = store.read_events(&self.cursor, EVENT_PAGE_SIZE)?;
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
        if timeout.is_zero() {
            return self.next_ready();
        }
        let called_at = Instant::now();
        let mut wait = TailWait {
            called_at,
            // A timeout too large for the clock means no deadline.
            deadline: called_at.checked_add(timeout),
            empty_read_at: None,
        };
        while self.buffered.is_empty() {
            let Lifecycle {
                event_tail, store, ..
            } = &self.lifecycle;
            let follower = self
                .follower
                .get_or_insert_with(|| TailFollower::join(event_tail, store));
            match follower.wait_for_events(&self.cursor, &wait) {
                TailAnswer::Events(events) => {
                    let last = events.last().and_then(|event| event.cursor.clone());
                    self.cursor = last.unwrap_or_else(|| self.cursor.clone());
                    self.buffered = events.into_iter().map(Arc::unwrap_or_clone).collect();
                }
                TailAnswer::ReadStore => {
                    let read_at = Instant::now();
                    if let Some(event) = self.next_ready()? {
                        return Ok(Some(event));
                    }
                    wait.empty_read_at = Some(read_at);
                }
                TailAnswer::TimedOut => return Ok(None),
            }
        }
        Ok(self.buffered.pop_front())
    }
}

/// Waits for commits between reads, and misses none: a commit after the last wait ends the next one.
///
/// For reads that the event log does not cover, such as verdicts, leases and budgets.
pub struct CommitWatcher<'a> {
    lifecycle: &'a Lifecycle,
    mark: CommitMark,
}

impl CommitWatcher<'_> {
    /// Returns whether something may have been committed since the last wait, after `timeout` at the latest. Read again
    /// every two seconds in any case: a notification can be lost.
    pub fn wait_for_commit(&mut self, timeout: Duration) -> Result<bool, LifecycleError> {
        let store = &self.lifecycle.store;
        store.wait_for_commit_after(self.mark, timeout)?;
        let mark = store.mark_commits()?;
        let is_changed = mark != self.mark;
        self.mark = mark;
        Ok(is_changed)
    }

    /// Waits until the plan should be read again: something was committed, its holder's process on this host ended, a
    /// stop was requested, or two seconds passed. Meanwhile calls `show_progress` a few times per second.
    pub fn wait_for_holder(
        &mut self,
        row: &PlanRow,
        stop: &Stop,
        mut show_progress: impl FnMut() -> Result<(), LifecycleError>,
    ) -> Result<(), LifecycleError> {
        let started_at = Instant::now();
        loop {
            show_progress()?;
            if stop.is_requested() || started_at.elapsed() >= READ_INTERVAL {
                return Ok(());
            }
            let is_changed = self.wait_for_commit(LIVENESS_CHECK_INTERVAL)?;
            let liveness = self.lifecycle.leases().holder_liveness(row)?;
            if is_changed || liveness == Some(HolderLiveness::Ended) {
                return show_progress();
            }
        }
    }
}
