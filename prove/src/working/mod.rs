//! Workers under chaos: real workers have a real program work on plans, are killed at any moment, stopped
//! past their leases and woken again. Afterwards every plan must have come to an end that says why, each
//! result must have been taken once and from whoever had the authority, nobody may have been started twice
//! or beside a living holder, and no process may be left.

pub mod actor;
#[cfg(feature = "broken")]
pub mod bug;

mod check;
mod crowd;
mod ground;

use std::path::PathBuf;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;
use fastrand::Rng;
use rustix::time::{ClockId, clock_gettime};

use crate::arena::Database;
use crowd::Crowd;
use ground::Ground;

/// What a trial is played with.
pub struct Settings {
    /// On which database.
    pub database: Database,
    /// How many workers.
    pub processes: u32,
    /// For how long.
    pub duration: Duration,
    /// What the choices follow from.
    pub seed: u64,
    /// Everything is kept here.
    pub directory: PathBuf,
    /// The planwright program.
    pub program: PathBuf,
    /// Ends it early.
    pub interrupted: Arc<AtomicBool>,
    /// A planted bug.
    #[cfg(feature = "broken")]
    pub bug: Option<bug::Bug>,
}

/// What came of a trial.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Plans that were made.
    pub plans: usize,
    /// Plans that landed on the repository, or had nothing to land.
    pub applied: usize,
    /// Plans that wait for a person to look at their result.
    pub to_review: usize,
    /// Plans that failed and say why.
    pub failed: usize,
    /// How often the actor was started.
    pub starts: usize,
    /// How often a plan was taken from a holder.
    pub taken_over: usize,
    /// Workers that were killed.
    pub kills: u32,
    /// Workers that were stopped past their lease.
    pub stops: u32,
    /// What must never happen.
    pub violations: Vec<String>,
    /// What did not happen often enough for the trial to mean anything.
    pub missing: Vec<String>,
}

/// For how long a claim holds without a renewal.
const LEASE: Duration = Duration::from_secs(3);

/// Plans that are made ahead of the work, for each worker.
const AHEAD: usize = 3;

/// Plans that are made at once.
const MAKERS: usize = 2;

/// How long the workers may take to bring every plan to its end, once nobody disturbs them.
const PATIENCE: Duration = Duration::from_secs(120);

/// Plays a trial.
pub fn run(settings: &Settings) -> anyhow::Result<Outcome> {
    let ground = Ground::prepare(settings)?;
    let mut random = Rng::with_seed(settings.seed);
    let mut crowd = Crowd::start(&ground, settings.processes)?;
    let mut makers = Vec::new();
    let ahead = AHEAD * usize::try_from(settings.processes)?;
    let until = Instant::now() + settings.duration;
    while Instant::now() < until {
        if settings.interrupted.load(Ordering::Relaxed) {
            bail!("interrupted; nothing was proven");
        }
        finished(&mut makers)?;
        if makers.len() < MAKERS && ground.unfinished()?.len() < ahead {
            makers.push(ground.make_plan(&mut random)?);
        }
        std::thread::sleep(Duration::from_millis(random.u64(20..100)));
        crowd.strike(&ground, &mut random)?;
        #[cfg(feature = "broken")]
        if let Some(bug) = settings.bug {
            bug::plant(bug, &ground, &mut random)?;
        }
    }
    crowd.wake_everybody()?;
    let patience = Instant::now() + PATIENCE;
    while !(makers.is_empty() && ground.unfinished()?.is_empty()) && Instant::now() < patience {
        finished(&mut makers)?;
        if settings.interrupted.load(Ordering::Relaxed) {
            bail!("interrupted; nothing was proven");
        }
        crowd.require_all()?;
        std::thread::sleep(Duration::from_millis(100));
    }
    let deeds = crowd.dismiss()?;
    check::check(&ground, &deeds)
}

/// Forgets those that have made their plan.
fn finished(makers: &mut Vec<Child>) -> anyhow::Result<()> {
    let mut going = Vec::new();
    for mut maker in makers.drain(..) {
        match maker.try_wait()? {
            None => going.push(maker),
            Some(status) if status.success() => {}
            Some(status) => bail!("a plan could not be made: {status}"),
        }
    }
    *makers = going;
    Ok(())
}

/// Microseconds since 1970, by the clock that the stores have.
fn moment() -> i64 {
    let time = clock_gettime(ClockId::Realtime);
    time.tv_sec * 1_000_000 + time.tv_nsec / 1000
}
