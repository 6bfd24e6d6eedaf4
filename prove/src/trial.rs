//! What trials with the real program have in common.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::arena::Database;

/// What a trial is played with.
pub struct Trial {
    /// On which database.
    pub database: Database,
    /// How many players, or workers.
    pub processes: u32,
    /// For how long.
    pub duration: Duration,
    /// What all choices follow from.
    pub seed: u64,
    /// Everything is kept here.
    pub directory: PathBuf,
    /// The planwright program.
    pub program: PathBuf,
    /// Ends it early.
    pub interrupted: Arc<AtomicBool>,
}

impl Trial {
    /// Was it asked to end early?
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// The choices of one of its players.
    pub fn choices_of(&self, player: u32) -> fastrand::Rng {
        fastrand::Rng::with_seed(self.seed ^ u64::from(player) << 32)
    }
}

/// Microseconds since 1970, by the clock that the stores have.
pub fn moment() -> i64 {
    let time = clock_gettime(ClockId::Realtime);
    time.tv_sec * 1_000_000 + time.tv_nsec / 1000
}
