//! Bugs that are done to the workers of a trial as if the engine had them. Compiled for tests only.

use std::sync::Arc;

use fastrand::Rng;
use lifecycle::{Call, Lifecycle, LifecycleError};
use plan::{Caller, Timestamp};
use store::Submission;

use super::hasty::Hasty;
use crate::crowd::Crowd;
use crate::ground::Ground;
use crate::wrapped::{Doors, Wrapped};

/// Sorts of bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Bug {
    /// A plan is taken from a holder whose lease runs.
    TwoOwners,
    /// What an actor started is not ended with it.
    OrphanProcess,
    /// A worker whose terminal is closed gives nothing back.
    UnheardHangup,
    /// A worker whose clock is ahead takes plans from workers that run.
    FastClock,
}

/// Every lease has expired.
struct NoLease;

impl Doors for NoLease {
    fn submission(&self, mut submission: Submission) -> Submission {
        let mut decide = submission.decide;
        submission.decide = Box::new(move |facts, now| {
            let mut facts = facts.clone();
            if let Some(lease) = &mut facts.lease {
                lease.expires_at = Timestamp(i64::MIN);
            }
            decide(&facts, now)
        });
        submission
    }
}

/// Lets a bug strike now and then.
pub fn plant(bug: Bug, ground: &Ground, crowd: &mut Crowd, random: &mut Rng) -> anyhow::Result<()> {
    if random.u8(..100) < 70 {
        return Ok(());
    }
    match bug {
        Bug::TwoOwners => take_from_the_living(ground),
        Bug::UnheardHangup => crowd.close_terminal_unheard(ground, random),
        Bug::FastClock => Hasty::blind(ground).look(),
        Bug::OrphanProcess => crowd.kill_with_supervisors(ground, random),
    }
}

fn take_from_the_living(ground: &Ground) -> anyhow::Result<()> {
    let held = ground.plans()?;
    let held = held.iter().find(|plan| plan.stage.holder().is_some());
    let Some(plan) = held else {
        return Ok(());
    };
    let lifecycle = Lifecycle::on(Arc::new(Wrapped::new(Arc::clone(&ground.store), NoLease)));
    match lifecycle.reclaim_lease(plan.id, &Call::by(Caller::Worker("greedy".to_owned()))) {
        // Somebody handed it in meanwhile.
        Ok(_) | Err(LifecycleError::Refused(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
