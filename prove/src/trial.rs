//! Settings, progress output and clock shared by all trials that start processes.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;
use rustix::time::{ClockId, clock_gettime};

use crate::call_trial::TrialDatabase;

/// Settings common to all trials.
pub struct Trial {
    pub database: TrialDatabase,
    /// The number of clients or workers.
    pub processes: u32,
    /// How long the harness disturbs the processes.
    pub duration: Duration,
    /// The seed of all random choices.
    pub seed: u64,
    /// The directory for all files of the trial.
    pub directory: PathBuf,
    /// The `planwright` program.
    pub program: PathBuf,
    /// Set by a signal handler; the trial then cleans up and ends.
    pub interrupted: Arc<AtomicBool>,
}

impl Trial {
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Fails if the trial was interrupted: an interrupted trial proves nothing.
    pub fn require_uninterrupted(&self) -> anyhow::Result<()> {
        if self.is_interrupted() {
            bail!("interrupted; nothing was proven");
        }
        Ok(())
    }

    /// A rate per minute, scaled to the duration of the trial.
    pub fn scale_per_minute(&self, per_minute: u64) -> usize {
        usize::try_from(per_minute * self.duration.as_secs() / 60).unwrap_or(usize::MAX)
    }

    /// The random generator of one client, derived from the seed.
    pub fn random_for_client(&self, client: u32) -> fastrand::Rng {
        fastrand::Rng::with_seed(self.seed ^ u64::from(client) << 32)
    }
}

/// Prints the progress of a trial at a fixed interval.
pub struct TrialProgress {
    deadline: Instant,
    last_printed: Instant,
}

impl TrialProgress {
    const PRINT_INTERVAL: Duration = Duration::from_secs(10);

    /// The progress of a trial that starts now.
    pub fn start_now(trial: &Trial) -> Self {
        let now = Instant::now();
        Self {
            deadline: now + trial.duration,
            last_printed: now,
        }
    }

    pub fn has_time(&self) -> bool {
        Instant::now() < self.deadline
    }

    /// Prints a status line if the last one is older than the interval.
    pub fn print_if_due(&mut self, status: impl FnOnce() -> String) {
        if self.last_printed.elapsed() > Self::PRINT_INTERVAL {
            self.last_printed = Instant::now();
            let left = self.deadline.saturating_duration_since(self.last_printed);
            print_status(format_args!("{} s left, {}", left.as_secs(), status()));
        }
    }
}

/// Prints a line to stderr. Ignores errors, because the terminal may be closed by now.
pub fn print_status(message: impl Display) {
    let _ = writeln!(io::stderr(), "{message}");
}

/// Microseconds since 1970, on the clock that the stores use.
pub fn realtime_micros() -> i64 {
    let time = clock_gettime(ClockId::Realtime);
    time.tv_sec * 1_000_000 + time.tv_nsec / 1000
}
