//! Workers under chaos: real workers have a real program work on plans, are killed at any moment, stopped
//! past their leases and woken again. Afterwards every plan must have come to an end that says why, each
//! result must have been taken once and from whoever had the authority, nobody may have been started twice
//! or beside a living holder, and no process may be left.

pub mod actor;
#[cfg(feature = "broken")]
pub mod bug;

mod check;
mod hasty;

use std::process::Child;
use std::time::{Duration, Instant};

use anyhow::bail;
use fastrand::Rng;

use self::hasty::Hasty;
use crate::crowd::{Crowd, Manners};
use crate::ground::{Cast, Ground};
use crate::trial::{Progress, Trial};

/// What a trial is played with.
pub struct Settings {
    /// As every trial.
    pub trial: Trial,
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
    /// Workers whose terminal was closed.
    pub hangups: u32,
    /// What must never happen.
    pub violations: Vec<String>,
    /// What did not happen often enough for the trial to mean anything.
    pub missing: Vec<String>,
}

/// How workers are treated.
const MANNERS: Manners = Manners {
    breath: Duration::from_millis(600),
    stops: true,
};

/// Plans that are made ahead of the work, for each worker.
const AHEAD: usize = 3;

/// Plans that are made at once.
const MAKERS: usize = 2;

/// How long the workers may take to move any plan towards its end, once nobody disturbs them.
const PATIENCE: Duration = Duration::from_secs(120);

/// Plays a trial.
pub fn run(settings: &Settings) -> anyhow::Result<Outcome> {
    let trial = &settings.trial;
    let cast = Cast {
        word: "actor",
        output: "text",
        strategizes: true,
        environment: Vec::new(),
    };
    let ground = Ground::prepare(trial, cast)?;
    let mut random = Rng::with_seed(trial.seed);
    let mut crowd = Crowd::start(&ground, trial.processes, MANNERS)?;
    let mut makers = Vec::new();
    let ahead = AHEAD * usize::try_from(trial.processes)?;
    let mut progress = Progress::of(trial);
    let hasty = Hasty::on(&ground);
    while progress.has_time() {
        trial.require_uninterrupted()?;
        hasty.look()?;
        finished(&mut makers)?;
        if makers.len() < MAKERS && ground.unfinished()?.len() < ahead {
            makers.push(ground.make_plan(&mut random)?);
        }
        std::thread::sleep(Duration::from_millis(random.u64(20..100)));
        crowd.strike(&ground, &mut random)?;
        progress.tell(|| crowd.told());
        #[cfg(feature = "broken")]
        if let Some(bug) = settings.bug {
            bug::plant(bug, &ground, &mut crowd, &mut random)?;
        }
    }
    crowd.wake_everybody()?;
    let mut patience = Instant::now() + PATIENCE;
    let longest = patience + trial.duration;
    let mut left = Vec::new();
    while Instant::now() < patience.min(longest) {
        progress.tell(|| format!("{} plans to be brought to their end", left.len()));
        finished(&mut makers)?;
        let unfinished = ground.unfinished()?;
        if makers.is_empty() && unfinished.is_empty() {
            break;
        }
        // However many there are: as long as something moves, nothing is stuck.
        let now: Vec<_> = unfinished
            .iter()
            .map(|plan| (plan.id, plan.version))
            .collect();
        if now != left {
            patience = Instant::now() + PATIENCE;
            left = now;
        }
        trial.require_uninterrupted()?;
        crowd.require_all()?;
        std::thread::sleep(Duration::from_millis(100));
    }
    let deeds = crowd.dismiss()?;
    check::check(trial, &ground, &deeds)
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
