//! Bugs that the harness simulates by acting on the workers or the store. Compiled for tests only.

use std::sync::Arc;

use fastrand::Rng;
use lifecycle::{Call, Lifecycle, LifecycleError};
use plan::{Caller, Timestamp};
use store::Submission;

use super::fast_clock_worker::FastClockWorker;
use crate::hooked_store::{HookedStore, StoreHooks};
use crate::trial_env::TrialEnv;
use crate::worker_group::WorkerGroup;

/// A bug of the workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum WorkerBug {
    /// A plan is reclaimed although its lease is valid
    TwoOwners,
    /// The processes of an actor outlive it
    OrphanProcess,
    /// A worker whose terminal is closed does not release its leases
    UnheardHangup,
    /// A worker whose clock is ahead reclaims plans from running workers
    FastClock,
    /// The permission of an earlier run of the plan is used again
    StalePermission,
    /// A full disk is not recognized, so it halts plans
    UnknownFullDisk,
}

/// Makes every lease look expired.
struct ExpiredLeaseHooks;

impl StoreHooks for ExpiredLeaseHooks {
    fn edit_submission(&self, mut submission: Submission) -> Submission {
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

/// Sometimes lets the bug strike.
pub fn plant_bug(
    bug: WorkerBug,
    env: &TrialEnv,
    workers: &mut WorkerGroup,
    random: &mut Rng,
) -> anyhow::Result<()> {
    if random.u8(..100) < 70 {
        return Ok(());
    }
    match bug {
        WorkerBug::TwoOwners => reclaim_valid_lease(env),
        WorkerBug::UnheardHangup => workers.hang_up_without_release(env, random),
        WorkerBug::FastClock => FastClockWorker::without_process_check(env).reclaim_expired(),
        WorkerBug::OrphanProcess => workers.kill_with_supervisors(env, random),
        // Planted in the actor, or in what git says.
        WorkerBug::StalePermission | WorkerBug::UnknownFullDisk => Ok(()),
    }
}

fn reclaim_valid_lease(env: &TrialEnv) -> anyhow::Result<()> {
    let plans = env.list_plans()?;
    let held = plans.iter().find(|plan| plan.stage().holder().is_some());
    let Some(plan) = held else {
        return Ok(());
    };
    let store = HookedStore::new(Arc::clone(&env.store), ExpiredLeaseHooks);
    let lifecycle = Lifecycle::on(Arc::new(store));
    match lifecycle
        .leases()
        .reclaim_lease(plan.id(), &Call::by(Caller::Worker("greedy".to_owned())))
    {
        // Refused if the holder completed the phase meanwhile.
        Ok(_) | Err(LifecycleError::Refused(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
