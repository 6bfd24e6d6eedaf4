//! The `work` trial: real workers run a real actor on plans, and are killed, paused past their leases and hung up on.
//! At times git has no space left. Some actors ask before they make a tool call, and a person decides. Afterwards every plan must have ended with a
//! reason, each result must have been accepted once and from the holder, no attempt may have been started twice or beside
//! a running holder, every call must have been allowed in the run that made it, and no process may be left.

pub mod asking_actor;
#[cfg(feature = "broken")]
pub mod bugs;
pub mod trial_actor;

mod check;
mod deciding_person;
mod fast_clock_worker;
mod full_disk;
mod permission_check;

use std::process::Child;
use std::time::{Duration, Instant};

use anyhow::bail;
use fastrand::Rng;

use self::deciding_person::DecidingPerson;
use self::fast_clock_worker::FastClockWorker;
use self::full_disk::{FullDisk, NO_SPACE_MESSAGE};
use crate::trial::{Trial, TrialProgress};
use crate::trial_env::{TrialActorSpec, TrialEnv};
use crate::worker_group::{FaultPolicy, WorkerGroup};

pub struct WorkerTrialSettings {
    pub trial: Trial,
    /// The bug to plant.
    #[cfg(feature = "broken")]
    pub bug: Option<bugs::WorkerBug>,
}

/// Counts and verdict of the trial.
#[derive(Debug, Default)]
pub struct WorkerTrialOutcome {
    pub plans: usize,
    /// Plans that landed, or had nothing to land.
    pub applied: usize,
    /// Plans whose result waits for a review.
    pub to_review: usize,
    /// Plans that failed with a reason.
    pub failed: usize,
    /// Starts of the actor.
    pub starts: usize,
    /// Leases reclaimed from a holder.
    pub reclaims: usize,
    /// Tool calls that the person decided.
    pub decided_calls: usize,
    pub kills: u32,
    /// Workers paused past their lease.
    pub pauses: u32,
    /// Workers whose terminal was closed.
    pub hangups: u32,
    /// How often the disk was full.
    pub full_disks: u32,
    pub violations: Vec<String>,
    /// What did not happen often enough for the trial to count.
    pub missing: Vec<String>,
}

const FAULT_POLICY: FaultPolicy = FaultPolicy {
    interval: Duration::from_millis(600),
    pauses_and_hangups: true,
};

/// The harness creates plans until this many per worker are unfinished.
const UNFINISHED_PLANS_PER_WORKER: usize = 3;

/// How many processes create plans at once.
const MAX_PLAN_CREATORS: usize = 2;

/// How long all plans may stand still before they count as stuck, once the faults have ended.
const NO_PROGRESS_TIMEOUT: Duration = Duration::from_secs(120);

/// Runs the trial.
pub fn run(settings: &WorkerTrialSettings) -> anyhow::Result<WorkerTrialOutcome> {
    let trial = &settings.trial;
    let actor = TrialActorSpec {
        subcommand: "actor",
        output_format: "text",
        runs_strategize: true,
        program_env: Vec::new(),
    };
    let mut env = TrialEnv::create(trial, actor)?;
    #[cfg(not(feature = "broken"))]
    let uses_stale_permissions = false;
    #[cfg(feature = "broken")]
    let uses_stale_permissions = settings.bug == Some(bugs::WorkerBug::StalePermission);
    env.add_asking_actor(uses_stale_permissions)?;
    #[cfg(not(feature = "broken"))]
    let git_message = NO_SPACE_MESSAGE;
    #[cfg(feature = "broken")]
    let git_message = match settings.bug {
        Some(bugs::WorkerBug::UnknownFullDisk) => "error: unable to write file",
        _ => NO_SPACE_MESSAGE,
    };
    let mut full_disk = FullDisk::install(&mut env, git_message)?;
    let mut random = Rng::with_seed(trial.seed);
    let mut workers = WorkerGroup::start_all(&env, trial.processes, FAULT_POLICY)?;
    let mut creators = Vec::new();
    let max_unfinished = UNFINISHED_PLANS_PER_WORKER * usize::try_from(trial.processes)?;
    let mut progress = TrialProgress::start_now(trial);
    let fast_clock_worker = FastClockWorker::new(&env);
    let mut person = DecidingPerson::default();
    while progress.has_time() {
        trial.require_uninterrupted()?;
        fast_clock_worker.reclaim_expired()?;
        person.answer_requests(&env, &mut random)?;
        reap_creators(&mut creators)?;
        if creators.len() < MAX_PLAN_CREATORS && env.list_unfinished_plans()?.len() < max_unfinished
        {
            creators.push(env.spawn_plan_creator(&mut random)?);
        }
        std::thread::sleep(Duration::from_millis(random.u64(20..100)));
        workers.inject_fault(&env, &mut random)?;
        full_disk.change_if_due(&mut random)?;
        progress.print_if_due(|| workers.summary());
        #[cfg(feature = "broken")]
        if let Some(bug) = settings.bug {
            bugs::plant_bug(bug, &env, &mut workers, &mut random)?;
        }
    }
    full_disk.free()?;
    workers.resume_all()?;
    let mut deadline = Instant::now() + NO_PROGRESS_TIMEOUT;
    let last_deadline = deadline + trial.duration;
    let mut last_versions = Vec::new();
    while Instant::now() < deadline.min(last_deadline) {
        progress.print_if_due(|| format!("{} plans not finished", last_versions.len()));
        reap_creators(&mut creators)?;
        person.answer_requests(&env, &mut random)?;
        let unfinished = env.list_unfinished_plans()?;
        if creators.is_empty() && unfinished.is_empty() {
            break;
        }
        // However many plans there are: as long as one of them moves, they are not stuck.
        let versions: Vec<_> = unfinished
            .iter()
            .map(|plan| (plan.id(), plan.version()))
            .collect();
        if versions != last_versions {
            deadline = Instant::now() + NO_PROGRESS_TIMEOUT;
            last_versions = versions;
        }
        trial.require_uninterrupted()?;
        workers.require_all_running()?;
        std::thread::sleep(Duration::from_millis(100));
    }
    let faults = workers.stop_workers()?;
    check::check_outcome(trial, &env, &faults, full_disk.count)
}

/// Removes the plan creators that have ended. Fails if one of them failed.
fn reap_creators(creators: &mut Vec<Child>) -> anyhow::Result<()> {
    let mut running = Vec::new();
    for mut creator in creators.drain(..) {
        match creator.try_wait()? {
            None => running.push(creator),
            Some(status) if status.success() => {}
            Some(status) => bail!("could not create a plan: {status}"),
        }
    }
    *creators = running;
    Ok(())
}
