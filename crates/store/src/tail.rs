//! Tailing events: every one exactly once, in order per plan.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use plan::{Digest, PlanId, PlanVersion, RecordedEvent};

use crate::StoreError;

/// Reading the log.
///
/// # Contract
///
/// Following `next` from page to page shows every committed event exactly once, the events of one
/// plan in their order. Nothing is ever inserted behind a cursor that was handed out.
pub trait EventLog {
    /// Events of one plan after a version, oldest first.
    fn read_plan_events(
        &self,
        plan_id: PlanId,
        after: PlanVersion,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, StoreError>;

    /// Events of all plans after a cursor.
    fn read_events(&self, after: &Cursor, limit: usize) -> Result<EventPage, StoreError>;

    /// The cursor behind everything that can be read now.
    fn read_latest_cursor(&self) -> Result<Cursor, StoreError>;

    /// Returns when something may have been committed since this call began, or after `timeout`. A
    /// hint, not a promise: callers look again either way.
    fn wait_for_commit(&self, timeout: Duration) -> Result<(), StoreError>;
}

/// A page of the log.
#[derive(Debug, Clone, PartialEq)]
pub struct EventPage {
    /// The events.
    pub events: Vec<StoredEvent>,
    /// Where to go on; the given cursor if there was nothing.
    pub next: Cursor,
}

/// An event as it stands in the log.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredEvent {
    /// The place right behind it; `None` where only the plan's own order was asked for.
    pub cursor: Option<Cursor>,
    /// What happened.
    pub recorded: RecordedEvent,
    /// The bytes that were hashed.
    pub body: String,
    /// The hash of the event before it and those bytes.
    pub hash: Digest,
}

/// A place in the log of all plans. Opaque: only the store that made it can read it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cursor {
    /// Major order: the transaction in stores where commits overlap, otherwise 0.
    pub(crate) major: u64,
    /// Order within it.
    pub(crate) minor: u64,
}

impl Cursor {
    /// Before everything.
    pub const START: Self = Self { major: 0, minor: 0 };
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for Cursor {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        let parse = || {
            let (major, minor) = given.split_once('.')?;
            Some(Self {
                major: major.parse().ok()?,
                minor: minor.parse().ok()?,
            })
        };
        parse().ok_or_else(|| format!("`{given}` is no cursor; take one from an earlier answer"))
    }
}
