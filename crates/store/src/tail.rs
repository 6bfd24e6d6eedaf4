//! The event log: reads every event exactly once, in order per plan.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use plan::completion::{CompletedCommand, collect_completions};
use plan::{Digest, PlanId, PlanVersion, RecordedEvent, Verb};

use crate::StoreError;

/// The largest page that every store returns. Few plans have more events.
const EVENTS_PAGE_SIZE: usize = 1000;

/// Reads the log.
///
/// # Contract
///
/// Following `next` from page to page returns every committed event exactly once, the events of one
/// plan in order. No event is ever inserted before a cursor that was returned.
pub trait EventLog {
    /// Returns events of one plan after a version, oldest first.
    fn read_plan_events(
        &self,
        plan_id: PlanId,
        after: PlanVersion,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, StoreError>;

    /// Returns the last completion of every verb of a plan. Reads the plan's whole log.
    fn read_completions(
        &self,
        plan_id: PlanId,
    ) -> Result<BTreeMap<Verb, CompletedCommand>, StoreError> {
        let mut events: Vec<RecordedEvent> = Vec::new();
        loop {
            let after = events.last().map_or(PlanVersion(0), |last| last.version);
            let page = self.read_plan_events(plan_id, after, EVENTS_PAGE_SIZE)?;
            let is_last = page.len() < EVENTS_PAGE_SIZE;
            events.extend(page.into_iter().map(|stored| stored.recorded));
            if is_last {
                return Ok(collect_completions(&events));
            }
        }
    }

    /// Returns events of all plans after a cursor.
    fn read_events(&self, after: &Cursor, limit: usize) -> Result<EventPage, StoreError>;

    /// Returns the event whose position is exactly this cursor, if there is one.
    fn read_event_at(&self, cursor: &Cursor) -> Result<Option<StoredEvent>, StoreError> {
        let Some(before) = cursor.just_before() else {
            return Ok(None);
        };
        let page = self.read_events(&before, 1)?;
        let mut events = page.events.into_iter();
        Ok(events.find(|event| event.cursor.as_ref() == Some(cursor)))
    }

    /// Returns the cursor after the last readable event.
    fn read_latest_cursor(&self) -> Result<Cursor, StoreError>;

    /// Marks the present, to wait for what is committed after it. Take the mark before reading, so
    /// that no commit falls between the read and the wait.
    fn mark_commits(&self) -> Result<CommitMark, StoreError>;

    /// Returns when something may have been committed since `mark`, or after `timeout`. Only a
    /// hint: a notification can be lost, so callers must read again either way.
    ///
    /// A commit of this process ends the wait at once, one of another process usually within 50
    /// milliseconds. However many threads of a process wait, they cost as much as one.
    fn wait_for_commit_after(&self, mark: CommitMark, timeout: Duration) -> Result<(), StoreError>;

    /// Returns when something may have been committed since the call began, or after `timeout`.
    fn wait_for_commit(&self, timeout: Duration) -> Result<(), StoreError> {
        self.wait_for_commit_after(self.mark_commits()?, timeout)
    }

    /// Ends all waits of this store, as a commit would.
    fn wake_waiters(&self);
}

/// How many commits a store in this process knew of. Comparable only within one store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitMark(pub(crate) u64);

#[derive(Debug, Clone, PartialEq)]
pub struct EventPage {
    pub events: Vec<StoredEvent>,
    /// The cursor to continue from; the one passed in if the page is empty.
    pub next: Cursor,
}

#[derive(Debug, Clone, PartialEq)]
pub struct StoredEvent {
    /// The position after this event; `None` if it was read by plan.
    pub cursor: Option<Cursor>,
    pub recorded: RecordedEvent,
    /// The hashed bytes.
    pub body: String,
    /// Hash of the previous event's hash and the body.
    pub hash: Digest,
}

/// A position in the log of all plans. Opaque to callers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cursor {
    /// The transaction in stores whose commits overlap, otherwise 0.
    pub(crate) major: u64,
    /// The position within `major`.
    pub(crate) minor: u64,
}

impl Cursor {
    /// The position before the first event.
    pub const START: Self = Self { major: 0, minor: 0 };

    /// A position with at most one event between it and this one. Positions in the log start at 1.
    fn just_before(&self) -> Option<Self> {
        Some(Self {
            major: self.major,
            minor: self.minor.checked_sub(1)?,
        })
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for Cursor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (major, minor) = text.split_once('.')?;
            Some(Self {
                major: major.parse().ok()?,
                minor: minor.parse().ok()?,
            })
        };
        parse().ok_or_else(|| format!("`{text}` is not a cursor; use one from an earlier response"))
    }
}
