//! What all trials with processes have in common.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;
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
    /// Becomes true when somebody asks to stop; everything is then cleaned up.
    pub interrupted: Arc<AtomicBool>,
}

impl Trial {
    /// Was it asked to end early?
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// One that was asked to end early proves nothing, whatever happened before.
    pub fn require_uninterrupted(&self) -> anyhow::Result<()> {
        if self.is_interrupted() {
            bail!("interrupted; nothing was proven");
        }
        Ok(())
    }

    /// What comes to so many in a minute, over all of it.
    pub fn at(&self, in_a_minute: u64) -> usize {
        usize::try_from(in_a_minute * self.duration.as_secs() / 60).unwrap_or(usize::MAX)
    }

    /// The choices of one of its players.
    pub fn choices_of(&self, player: u32) -> fastrand::Rng {
        fastrand::Rng::with_seed(self.seed ^ u64::from(player) << 32)
    }
}

/// Says how a trial goes, every ten seconds.
pub struct Progress {
    until: Instant,
    told: Instant,
}

impl Progress {
    const PAUSE: Duration = Duration::from_secs(10);

    /// Of one that begins now.
    pub fn of(trial: &Trial) -> Self {
        let told = Instant::now();
        let until = told + trial.duration;
        Self { until, told }
    }

    /// Is there time left?
    pub fn has_time(&self) -> bool {
        Instant::now() < self.until
    }

    /// Says what was done so far, if it is time to.
    pub fn tell(&mut self, done: impl FnOnce() -> String) {
        if self.told.elapsed() > Self::PAUSE {
            self.told = Instant::now();
            let left = self.until.saturating_duration_since(self.told);
            say(format_args!("{} s to go, {}", left.as_secs(), done()));
        }
    }
}

/// Says how it goes, to whoever still listens: a terminal may be gone by now.
pub fn say(words: impl Display) {
    let _nobody_listens = writeln!(io::stderr(), "{words}");
}

/// Microseconds since 1970, by the clock that the stores have.
pub fn moment() -> i64 {
    let time = clock_gettime(ClockId::Realtime);
    time.tv_sec * 1_000_000 + time.tv_nsec / 1000
}
