//! Bugs that are done to the workers of a trial as if the engine had them. Compiled for tests only.

use std::sync::Arc;

use fastrand::Rng;
use lifecycle::{Call, Error, Lifecycle};
use plan::{Caller, Timestamp};
use rustix::process::{Pid, Signal, kill_process};
use store::Submission;

use crate::ground::Ground;
use crate::wrapped::{Doors, Wrapped};

/// Sorts of bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Bug {
    /// A plan is taken from a holder whose lease runs.
    TwoOwners,
    /// What an actor started is not ended with it.
    OrphanProcess,
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
pub fn plant(bug: Bug, ground: &Ground, random: &mut Rng) -> anyhow::Result<()> {
    if random.u8(..100) < 70 {
        return Ok(());
    }
    match bug {
        Bug::TwoOwners => take_from_the_living(ground),
        Bug::OrphanProcess => {
            kill_a_supervisor(ground);
            Ok(())
        }
    }
}

fn take_from_the_living(ground: &Ground) -> anyhow::Result<()> {
    let held = ground.plans()?;
    let held = held.iter().find(|plan| plan.stage.holder().is_some());
    let Some(plan) = held else {
        return Ok(());
    };
    let lifecycle = Lifecycle::on(Arc::new(Wrapped::new(Arc::clone(&ground.store), NoLease)));
    match lifecycle.reclaim(plan.id, &Call::by(Caller::Worker("greedy".to_owned()))) {
        // Somebody handed it in meanwhile.
        Ok(_) | Err(Error::Refused(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Nobody is left to end what its actor started.
fn kill_a_supervisor(ground: &Ground) {
    let is_supervisor = |(_, words): &&(i32, String)| words.ends_with(" supervise");
    let processes = ground.processes();
    let supervisor = processes.iter().find(is_supervisor);
    if let Some(process) = supervisor.and_then(|(number, _)| Pid::from_raw(*number)) {
        let _gone_already = kill_process(process, Signal::KILL);
    }
}
