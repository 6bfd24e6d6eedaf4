//! The question that an agent asked by its tools.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long an agent that asked may go on before its run is ended.
pub(crate) const END_AFTER_QUESTION: Duration = Duration::from_secs(60);

/// At most one per run: the run ends with it.
#[derive(Default)]
pub(crate) struct AskedQuestion(Mutex<Option<(String, Instant)>>);

impl AskedQuestion {
    /// Returns whether this is the first question.
    pub(super) fn take(&self, question: String) -> bool {
        let mut asked = self.lock();
        if asked.is_some() {
            return false;
        }
        *asked = Some((question, Instant::now()));
        true
    }

    pub(crate) fn text(&self) -> Option<String> {
        self.lock().as_ref().map(|(question, _)| question.clone())
    }

    /// Did the agent ask, and go on for longer than this?
    pub(crate) fn is_older_than(&self, limit: Duration) -> bool {
        let asked = self.lock();
        asked
            .as_ref()
            .is_some_and(|(_, asked_at)| asked_at.elapsed() >= limit)
    }

    fn lock(&self) -> MutexGuard<'_, Option<(String, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
