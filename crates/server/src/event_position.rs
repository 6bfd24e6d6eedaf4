//! The ids of server-sent events: a position in the store's log, and the event that the client saw there.

use std::fmt;
use std::str::FromStr;

use store::{Cursor, Store, StoreError, StoredEvent};

const HASH_PREFIX_LENGTH: usize = 12;

/// Stands for the hash before the first event.
const NO_EVENT: &str = "0";

/// A position that names the event before it, so that it does not fit another store by accident.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPosition {
    pub cursor: Cursor,
    /// The beginning of the event's hash.
    hash_prefix: String,
}

impl EventPosition {
    /// The position after an event; `None` if the event was read by plan.
    pub fn after_event(event: &StoredEvent) -> Option<Self> {
        Some(Self {
            cursor: event.cursor.clone()?,
            hash_prefix: hash_prefix(event),
        })
    }

    /// The position at the end of the log.
    pub fn find_latest(store: &dyn Store) -> Result<Self, StoreError> {
        let cursor = store.read_latest_cursor()?;
        let event = store.read_event_at(&cursor)?;
        Ok(Self {
            hash_prefix: event.as_ref().map_or(NO_EVENT.to_owned(), hash_prefix),
            cursor,
        })
    }

    /// Whether this store has this event at this position.
    pub fn fits(&self, store: &dyn Store) -> Result<bool, StoreError> {
        if self.hash_prefix == NO_EVENT {
            return Ok(self.cursor == Cursor::START);
        }
        let event = store.read_event_at(&self.cursor)?;
        Ok(event.is_some_and(|event| hash_prefix(&event) == self.hash_prefix))
    }
}

fn hash_prefix(event: &StoredEvent) -> String {
    event
        .hash
        .to_string()
        .chars()
        .take(HASH_PREFIX_LENGTH)
        .collect()
}

impl fmt::Display for EventPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.cursor, self.hash_prefix)
    }
}

impl FromStr for EventPosition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let malformed = || format!("`{text}` is not the id of an event");
        let (cursor, hash_prefix) = text.split_once('-').ok_or_else(malformed)?;
        Ok(Self {
            cursor: cursor.parse().map_err(|_| malformed())?,
            hash_prefix: hash_prefix.to_owned(),
        })
    }
}
