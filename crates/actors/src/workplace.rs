//! Where a run takes place: what surrounds an actor that is not part of its assignment.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::Usage;

/// The surroundings of one run.
pub struct Workplace<'a> {
    /// A directory of its own for this run: assignment, transcript, report. Nobody else writes there.
    pub run: PathBuf,
    /// What a confined actor must be able to read beside its sandboxes: the objects they borrow.
    pub readable: Vec<PathBuf>,
    /// Held by the processes of the run for as long as one of them lives.
    pub locks: Vec<PathBuf>,
    /// How long the run may take.
    pub time: Option<Duration>,
    /// A strategy was asked for: work in strategize even if the actor has no command of its own for it.
    pub strategy_wanted: bool,
    /// Asked to stop?
    pub stop: Stop,
    /// Who wants to know how it goes.
    pub progress: &'a (dyn Fn(Progress) + Send + Sync),
}

/// How a run goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// It began, confined like this.
    Began {
        /// In words, for people.
        isolation: String,
    },
    /// It says what it does now, in a line.
    Step(String),
    /// What it has used so far.
    Used(Usage),
}

/// A request to stop that many can look at and wait for.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<(Mutex<bool>, Condvar)>);

impl Stop {
    /// Asks to stop.
    pub fn ask(&self) {
        let (asked, told) = &*self.0;
        *asked.lock().unwrap_or_else(PoisonError::into_inner) = true;
        told.notify_all();
    }

    /// Was it asked for?
    pub fn is_asked(&self) -> bool {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it is asked for, at most so long. Says whether it was.
    pub fn wait(&self, at_most: Duration) -> bool {
        let (asked, told) = &*self.0;
        let until = Instant::now() + at_most;
        let mut asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
        while !*asked {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = told.wait_timeout(asked, left);
            asked = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}
