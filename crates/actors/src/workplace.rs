//! Where a run takes place: what surrounds an actor that is not part of its assignment.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::Usage;

/// The surroundings of one run.
pub struct Workplace<'a> {
    /// A directory of its own for this run: assignment, transcript, report. Nobody else writes there.
    pub run_dir: PathBuf,
    /// What a confined actor must be able to read beside its sandboxes: the objects they borrow.
    pub readable_paths: Vec<PathBuf>,
    /// Held by the processes of the run for as long as one of them lives.
    pub lock_files: Vec<PathBuf>,
    /// How long the run may take.
    pub time_limit: Option<Duration>,
    /// A strategy was asked for: work in strategize even if the actor has no command of its own for it.
    pub strategy_wanted: bool,
    /// Asked to stop?
    pub stop: Stop,
    /// Who wants to know how it goes.
    pub on_progress: &'a (dyn Fn(RunProgress) + Send + Sync),
}

/// How a run goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunProgress {
    /// It began, confined like this.
    Started {
        /// In words, for people.
        isolation: String,
    },
    /// It says what it does now, in a line.
    Step(String),
    /// What it has used so far.
    UsageChanged(Usage),
}

/// A request to stop that many can look at and wait for.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<(Mutex<bool>, Condvar)>);

impl Stop {
    /// Asks to stop.
    pub fn request(&self) {
        let (requested, condvar) = &*self.0;
        *requested.lock().unwrap_or_else(PoisonError::into_inner) = true;
        condvar.notify_all();
    }

    /// Was it asked for?
    pub fn is_requested(&self) -> bool {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it is asked for, at most so long. Says whether it was.
    pub fn wait_for_request(&self, timeout: Duration) -> bool {
        let (requested, condvar) = &*self.0;
        let deadline = Instant::now() + timeout;
        let mut requested = requested.lock().unwrap_or_else(PoisonError::into_inner);
        while !*requested {
            let remaining = deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return false;
            }
            let waited = condvar.wait_timeout(requested, remaining);
            requested = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}
