//! Workers: take what is due, many plans at once, until asked to stop.
//!
//! A worker signs in under a name of its own, so that others on this host see at once when it is gone
//! and take its plans over. What it takes from the gone or the expired counts as an attempt.

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
use crate::operations::is_takeover_needless;
use crate::{Call, LeaseWatch, Lifecycle, LifecycleError};

/// For how long a claim holds without a renewal.
pub const DEFAULT_LEASE: Span = Span::from_seconds(30);

/// How often it is looked for holders that are gone.
const DEAD_HOLDER_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// How long is waited for something to be committed before looking anew; also how soon a request to
/// stop is noticed.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// How many plans are looked at for holders that are gone.
const MAX_HELD_PLANS: usize = 500;

/// Told how a plan goes.
type DriveProgressCallback = dyn Fn(&Plan, &DriveProgress) + Send + Sync;

/// Takes plans further until asked to stop.
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

/// What a worker did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkerStats {
    /// How often a plan was taken as far as it went.
    pub plans_driven: u64,
    /// How many leases were taken from holders that are gone.
    pub leases_reclaimed: u64,
    /// How often something went wrong that is no plan's fault.
    pub errors: u64,
}

/// How long a worker works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StopCondition {
    /// Until asked to stop.
    Stopped,
    /// Until nothing is due.
    Drained,
    /// Until one plan was taken as far as it goes.
    Once,
}

/// A plan that was taken as far as it goes.
struct DrivenPlan {
    plan_id: PlanId,
    /// Nothing if driving it panicked.
    outcome: Option<Result<DriveOutcome, LifecycleError>>,
}

impl Worker {
    /// A worker with nobody in its crew yet.
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

    /// With an actor of this program.
    ///
    /// # Panics
    ///
    /// If the name is none.
    #[must_use]
    pub fn actor(mut self, name: &str, actor: impl Actor + 'static) -> Self {
        let name: QualifiedName = name.parse().expect("the name of an actor");
        self.actor_set = self.actor_set.with_actor(name, actor);
        self
    }

    /// With this crew.
    #[must_use]
    pub fn actor_set(mut self, crew: ActorSet) -> Self {
        self.actor_set = crew;
        self
    }

    /// Under this name, which nobody else uses.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = owner.into();
        self
    }

    /// So many plans at once.
    #[must_use]
    pub fn concurrency(mut self, plans: usize) -> Self {
        self.concurrency = plans.max(1);
        self
    }

    /// With claims that hold for so long without a renewal.
    #[must_use]
    pub fn lease(mut self, lease: Span) -> Self {
        self.lease = lease;
        self
    }

    /// Only plans that work on this project.
    #[must_use]
    pub fn only_project(mut self, project: Option<QualifiedName>) -> Self {
        self.filter.project = project;
        self
    }

    /// Only plans of this actor.
    #[must_use]
    pub fn only_actor(mut self, actor: Option<QualifiedName>) -> Self {
        self.filter.actor = actor;
        self
    }

    /// Telling somebody how plans go.
    #[must_use]
    pub fn on_progress(
        mut self,
        callback: impl Fn(&Plan, &DriveProgress) + Send + Sync + 'static,
    ) -> Self {
        self.on_progress = Box::new(callback);
        self
    }

    /// Works until asked to stop. What it works on then is given back, to be gone on with by others.
    pub fn run(&self, stop: &Stop) -> Result<WorkerStats, LifecycleError> {
        self.run_until(stop, StopCondition::Stopped)
    }

    /// Works until nothing is due.
    pub fn drain(&self, stop: &Stop) -> Result<WorkerStats, LifecycleError> {
        self.run_until(stop, StopCondition::Drained)
    }

    /// Takes one plan as far as it goes, if one is due.
    pub fn run_once(&self, stop: &Stop) -> Result<WorkerStats, LifecycleError> {
        self.run_until(stop, StopCondition::Once)
    }

    fn run_until(&self, stop: &Stop, until: StopCondition) -> Result<WorkerStats, LifecycleError> {
        let presence = match &self.lifecycle.local_host {
            Some(local_host) => Some(local_host.sandboxes.register_presence(&self.owner)?),
            None => None,
        };
        let ran = self.run_signed_in(stop, until);
        let has_errors = ran.as_ref().map_or(true, |stats| stats.errors > 0);
        if let Some(presence) = presence.filter(|_| has_errors) {
            presence.end_keeping_file();
        }
        ran
    }

    fn run_signed_in(
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
            let (ends, ended): (Sender<DrivenPlan>, Receiver<DrivenPlan>) = channel();
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
                        Ok(taken) => stats.leases_reclaimed += taken,
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
                    // A store that is away for a moment must not end a worker that has plans in hand.
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
                    let ends = ends.clone();
                    scope.spawn(move || {
                        // Whoever panics must not leave the worker waiting for their end.
                        let drive =
                            AssertUnwindSafe(|| self.make_driver(stop).drive_plan(plan_id, None));
                        let outcome = catch_unwind(drive).ok();
                        // Nobody listens any more once the worker has stopped.
                        let _ = ends.send(DrivenPlan { plan_id, outcome });
                    });
                }
                if busy.len() >= max_running {
                    // Nothing can be taken before something ends, whatever is committed meanwhile.
                    if let Ok(end) = ended.recv_timeout(POLL_INTERVAL) {
                        busy.remove(&end.plan_id);
                        record_outcome(&end, &mut picker, &mut stats);
                    }
                    continue;
                }
                if has_unseen {
                    continue;
                }
                // What was committed since it was looked is not waited for.
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

    /// Takes plans from holders whose lease expired, and from those that signed in on this host and are
    /// gone or no longer renew their leases. What somebody else took first is left to them.
    fn reclaim_from_dead_holders(
        &self,
        active_plans: &BTreeSet<PlanId>,
        watch: &mut LeaseWatch,
    ) -> Result<u64, LifecycleError> {
        let call = Call::by(Caller::Worker(self.owner.clone()));
        let expired = self
            .lifecycle
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
            let Some(holder) = row.plan.stage.holder() else {
                continue;
            };
            let takeover = if holder.owner == self.owner {
                // Ours, and nobody here works on it: what came of it could not be stored.
                if active_plans.contains(&row.plan.id) {
                    continue;
                }
                self.lifecycle
                    .reclaim_own_lease(row.plan.id, holder.epoch, &call)
            } else {
                match self.lifecycle.holder_liveness(row)? {
                    Some(HolderLiveness::Running | HolderLiveness::Ended) => {
                        self.lifecycle.take_over_lease_in_row(row, watch, &call)
                    }
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

    /// What was lost once too often waits for a person. Nobody drives it any more who could tell.
    fn report_if_halted(&self, plan: &Plan) {
        if plan.stage.failure().is_some() {
            (self.on_progress)(plan, &DriveProgress::Idle);
        }
    }
}

/// Waits for what is in hand to come to its end.
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

/// What is left alone for a while, and what is counted.
fn record_outcome(end: &DrivenPlan, picker: &mut PlanPicker, stats: &mut WorkerStats) {
    match &end.outcome {
        Some(Ok(DriveOutcome::Idle(IdleReason::NeedsPerson | IdleReason::Ended))) => {
            picker.unpause_plan(end.plan_id);
            stats.plans_driven += 1;
        }
        // Somebody else has it, or it is not due any more.
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
