//! Workers: advance due plans, several at once, until a stop is requested.
//!
//! A worker registers its presence under a unique name, so that others on this host notice at once when it
//! dies and take over its plans. Each takeover counts as an attempt.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use actors::{Actor, Stop};
use plan::decide::IdleReason;
use plan::stage::StateName;
use plan::takeover::HolderLiveness;
use plan::{Caller, Plan, PlanId, QualifiedName, Span};
use store::PlanFilter;

use super::pick::{PickedPlans, PlanPicker, RetryPolicy, WorkFilter};
use super::{ActorSet, DriveOutcome, DriveProgress, PlanDriver};
use crate::leases::is_takeover_needless;
use crate::{Call, LeaseWatch, Lifecycle, LifecycleError};

/// How long a claim is valid without a renewal.
pub const DEFAULT_LEASE: Span = Span::from_seconds(30);

/// How often to look for dead holders.
const DEAD_HOLDER_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The longest wait for a commit before the next scan. A requested stop is noticed within this time.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// How many held plans are checked for dead holders.
const MAX_HELD_PLANS: usize = 500;

type DriveProgressCallback = dyn Fn(&Plan, &DriveProgress) + Send + Sync;

/// Advances due plans until a stop is requested.
///
/// ```text
/// Worker::new(&lifecycle).actor("bot", MyBot).run(&stop)
/// ```
pub struct Worker {
    lifecycle: Lifecycle,
    actor_set: ActorSet,
    owner: String,
    concurrency: usize,
    lease: Span,
    filter: WorkFilter,
    on_progress: Box<DriveProgressCallback>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkerStats {
    /// How often a plan was driven until it ended or needed a person.
    pub plans_driven: u64,
    /// How many leases were reclaimed from dead holders.
    pub leases_reclaimed: u64,
    /// Failures that are not a plan's fault.
    pub errors: u64,
}

/// When a worker ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StopCondition {
    /// A stop is requested.
    Stopped,
    /// Nothing is due.
    Drained,
    /// One plan was driven.
    Once,
}

/// The end of one drive.
struct DrivenPlan {
    plan_id: PlanId,
    /// Not set if the drive panicked.
    outcome: Option<Result<DriveOutcome, LifecycleError>>,
}

impl Worker {
    /// Creates a worker without actors and with a unique name.
    pub fn new(lifecycle: &Lifecycle) -> Self {
        Self {
            lifecycle: lifecycle.clone(),
            actor_set: ActorSet::default(),
            owner: format!("worker-{}", lifecycle.ids.new_command_id()),
            concurrency: 1,
            lease: DEFAULT_LEASE,
            filter: WorkFilter::default(),
            on_progress: Box::new(|_, _| {}),
        }
    }

    /// Adds a built-in actor.
    ///
    /// # Panics
    ///
    /// If `name` is not a valid actor name.
    #[must_use]
    pub fn actor(mut self, name: &str, actor: impl Actor + 'static) -> Self {
        let name: QualifiedName = name.parse().expect("a valid actor name");
        self.actor_set = self.actor_set.with_actor(name, actor);
        self
    }

    #[must_use]
    pub fn actor_set(mut self, actor_set: ActorSet) -> Self {
        self.actor_set = actor_set;
        self
    }

    /// Sets the worker's name, which no other process may use.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = owner.into();
        self
    }

    /// Sets how many plans run at once.
    #[must_use]
    pub fn concurrency(mut self, plans: usize) -> Self {
        self.concurrency = plans.max(1);
        self
    }

    /// Sets how long a claim is valid without a renewal. All workers of a store must use the same length.
    #[must_use]
    pub fn lease(mut self, lease: Span) -> Self {
        self.lease = lease;
        self
    }

    /// Takes only plans of this project.
    #[must_use]
    pub fn only_project(mut self, project: Option<QualifiedName>) -> Self {
        self.filter.project = project;
        self
    }

    /// Takes only plans of this actor.
    #[must_use]
    pub fn only_actor(mut self, actor: Option<QualifiedName>) -> Self {
        self.filter.actor = actor;
        self
    }

    /// Takes only plans that this caller created.
    #[must_use]
    pub fn only_author(mut self, author: Option<Caller>) -> Self {
        self.filter.author = author;
        self
    }

    /// Calls `callback` with the progress of each plan.
    #[must_use]
    pub fn on_progress(
        mut self,
        callback: impl Fn(&Plan, &DriveProgress) + Send + Sync + 'static,
    ) -> Self {
        self.on_progress = Box::new(callback);
        self
    }

    /// Works until `stop` is requested. Then releases its plans, so that others can continue them.
    pub fn run(&self, stop: &Stop) -> Result<WorkerStats, LifecycleError> {
        self.run_until(stop, StopCondition::Stopped)
    }

    /// Works until nothing is due.
    pub fn drain(&self, stop: &Stop) -> Result<WorkerStats, LifecycleError> {
        self.run_until(stop, StopCondition::Drained)
    }

    /// Drives one plan, if one is due.
    pub fn run_once(&self, stop: &Stop) -> Result<WorkerStats, LifecycleError> {
        self.run_until(stop, StopCondition::Once)
    }

    fn run_until(&self, stop: &Stop, until: StopCondition) -> Result<WorkerStats, LifecycleError> {
        let presence = match &self.lifecycle.local_host {
            Some(local_host) => Some(
                local_host
                    .sandboxes
                    .processes()
                    .register_presence(&self.owner)?,
            ),
            None => None,
        };
        let ran = self.run_registered(stop, until);
        let has_errors = ran.as_ref().map_or(true, |stats| stats.errors > 0);
        // After errors this worker may still hold plans. Its presence file shows others that it has ended.
        if let Some(presence) = presence.filter(|_| has_errors) {
            presence.end_keeping_file();
        }
        ran
    }

    fn run_registered(
        &self,
        stop: &Stop,
        until: StopCondition,
    ) -> Result<WorkerStats, LifecycleError> {
        let mut stats = WorkerStats::default();
        let retry_policy = match until {
            StopCondition::Stopped => RetryPolicy::Later,
            StopCondition::Drained | StopCondition::Once => RetryPolicy::Never,
        };
        let mut picker = PlanPicker::new(self.filter.clone(), retry_policy);
        let mut last_dead_holder_check: Option<Instant> = None;
        let mut watch = LeaseWatch::new(self.lease);
        std::thread::scope(|scope| {
            let (sender, ended): (Sender<DrivenPlan>, Receiver<DrivenPlan>) = channel();
            let mut busy = BTreeSet::new();
            loop {
                while let Ok(end) = ended.try_recv() {
                    busy.remove(&end.plan_id);
                    record_outcome(&end, &mut picker, &mut stats);
                }
                let is_done = until == StopCondition::Once && stats.plans_driven > 0;
                if stop.is_requested() || is_done {
                    break;
                }
                if last_dead_holder_check
                    .is_none_or(|at| at.elapsed() >= DEAD_HOLDER_CHECK_INTERVAL)
                {
                    match self.reclaim_from_dead_holders(&busy, &mut watch) {
                        Ok(reclaimed) => stats.leases_reclaimed += reclaimed,
                        Err(_) => stats.errors += 1,
                    }
                    last_dead_holder_check = Some(Instant::now());
                }
                let max_running = match until {
                    StopCondition::Once => 1,
                    StopCondition::Stopped | StopCondition::Drained => self.concurrency,
                };
                let free = max_running.saturating_sub(busy.len());
                let picked = picker.pick_plans(&self.lifecycle, &busy, free);
                let (picked, log_end) = match picked {
                    Ok(PickedPlans { plans, log_end }) => (plans, log_end),
                    // A temporary failure of the store must not end a worker that has running plans.
                    Err(_) if until == StopCondition::Stopped => {
                        stats.errors += 1;
                        (Vec::new(), None)
                    }
                    Err(error) => {
                        wait_for_running(&mut busy, &ended, &mut picker, &mut stats);
                        return Err(error);
                    }
                };
                let has_unseen = picker.has_unseen_plans() && until != StopCondition::Stopped;
                let keeps_waiting = match until {
                    StopCondition::Stopped => true,
                    StopCondition::Drained => has_unseen || picker.has_budget_waiters(),
                    StopCondition::Once => has_unseen,
                };
                if picked.is_empty() && busy.is_empty() && !keeps_waiting {
                    break;
                }
                for plan_id in picked {
                    busy.insert(plan_id);
                    let sender = sender.clone();
                    scope.spawn(move || {
                        // Catch panics, or the worker would wait forever for the end of this drive.
                        let drive =
                            AssertUnwindSafe(|| self.make_driver(stop).drive_plan(plan_id, None));
                        let outcome = catch_unwind(drive).ok();
                        // The receiver is gone if the worker has stopped.
                        let _ = sender.send(DrivenPlan { plan_id, outcome });
                    });
                }
                if busy.len() >= max_running {
                    // All slots are busy: wait for a drive to end, not for commits.
                    if let Ok(end) = ended.recv_timeout(POLL_INTERVAL) {
                        busy.remove(&end.plan_id);
                        record_outcome(&end, &mut picker, &mut stats);
                    }
                    continue;
                }
                if has_unseen {
                    continue;
                }
                // Do not wait if there were commits since the scan: scan again.
                let unchanged = match (log_end, self.lifecycle.store.read_latest_cursor()) {
                    (Some(seen), Ok(now)) => seen == now,
                    (None, _) | (_, Err(_)) => true,
                };
                if unchanged && self.lifecycle.store.wait_for_commit(POLL_INTERVAL).is_err() {
                    stop.wait_for_request(POLL_INTERVAL);
                }
            }
            wait_for_running(&mut busy, &ended, &mut picker, &mut stats);
            Ok(stats)
        })
    }

    fn make_driver<'a>(&'a self, stop: &'a Stop) -> PlanDriver<'a> {
        PlanDriver {
            lifecycle: &self.lifecycle,
            actor_set: &self.actor_set,
            owner: &self.owner,
            lease: self.lease,
            stop,
            on_progress: self.on_progress.as_ref(),
        }
    }

    /// Reclaims expired leases, and leases of holders registered on this host that have died or no longer
    /// renew. Skips plans that others reclaim first.
    fn reclaim_from_dead_holders(
        &self,
        active_plans: &BTreeSet<PlanId>,
        watch: &mut LeaseWatch,
    ) -> Result<u64, LifecycleError> {
        let call = Call::by(Caller::Worker(self.owner.clone()));
        let expired =
            self.lifecycle
                .leases()
                .reclaim_expired_except(active_plans, MAX_HELD_PLANS, &call)?;
        expired.iter().for_each(|plan| self.report_if_halted(plan));
        let mut reclaimed = expired.len() as u64;
        if self.lifecycle.local_host.is_none() {
            return Ok(reclaimed);
        }
        let held_filter = PlanFilter {
            state: Some(StateName::Processing),
            ..PlanFilter::default()
        };
        let rows = self
            .lifecycle
            .list_plans(&held_filter, None, MAX_HELD_PLANS)?;
        watch.retain_plans(&rows);
        for row in &rows {
            let Some(holder) = row.plan.stage().holder() else {
                continue;
            };
            let takeover = if holder.owner == self.owner {
                // Our own lease, but no thread works on it: its report could not be stored.
                if active_plans.contains(&row.plan.id()) {
                    continue;
                }
                self.lifecycle
                    .leases()
                    .reclaim_own_lease(row.plan.id(), holder.epoch, &call)
            } else {
                match self.lifecycle.leases().holder_liveness(row)? {
                    Some(HolderLiveness::Running | HolderLiveness::Ended) => self
                        .lifecycle
                        .leases()
                        .take_over_lease_in_row(row, watch, &call),
                    Some(HolderLiveness::Unknown) | None => continue,
                }
            };
            match takeover {
                Ok(done) => {
                    self.report_if_halted(&done.plan);
                    reclaimed += 1;
                }
                Err(LifecycleError::Refused(refusal)) if is_takeover_needless(&refusal) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(reclaimed)
    }

    /// Reports a reclaimed plan that has no attempts left. No drive will report it.
    fn report_if_halted(&self, plan: &Plan) {
        if plan.stage().failure().is_some() {
            (self.on_progress)(plan, &DriveProgress::Idle);
        }
    }
}

/// Waits for the running drives to end.
fn wait_for_running(
    busy: &mut BTreeSet<PlanId>,
    ended: &Receiver<DrivenPlan>,
    picker: &mut PlanPicker,
    stats: &mut WorkerStats,
) {
    while !busy.is_empty() {
        let Ok(end) = ended.recv() else {
            return;
        };
        busy.remove(&end.plan_id);
        record_outcome(&end, picker, stats);
    }
}

/// Updates the picker and the statistics after a drive.
fn record_outcome(end: &DrivenPlan, picker: &mut PlanPicker, stats: &mut WorkerStats) {
    match &end.outcome {
        Some(Ok(DriveOutcome::Idle(IdleReason::NeedsPerson | IdleReason::Ended))) => {
            picker.unpause_plan(end.plan_id);
            stats.plans_driven += 1;
        }
        // Another holder has it, or it is no longer due.
        Some(Ok(DriveOutcome::Idle(IdleReason::Held | IdleReason::NotDue(_)))) => {
            picker.unpause_plan(end.plan_id)
        }
        Some(Ok(
            DriveOutcome::Blocked | DriveOutcome::NoActor(_) | DriveOutcome::Unreachable(_),
        )) => {
            picker.pause_plan(end.plan_id);
        }
        Some(Ok(DriveOutcome::OverBudget(_))) => return picker.wait_for_budget(end.plan_id),
        Some(Ok(DriveOutcome::Stopped)) => {}
        Some(Err(_)) | None => {
            picker.pause_plan(end.plan_id);
            stats.errors += 1;
        }
    }
    picker.retry_budget_waiters();
}
