//! Compares the recorded starts of the actor, the faults of the workers and the stored plans.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use plan::stage::FailureCategory;
use plan::{Event, Phase, Plan, RecordedEvent};

use super::WorkerTrialOutcome;
use super::asking_actor::read_made_calls;
use super::permission_check::PermissionLog;
use super::trial_actor::{ActorStart, DELIBERATE_FAILURE, read_starts};
use crate::trial::Trial;
use crate::trial_env::TrialEnv;
use crate::trial_logs::EventDump;
use crate::worker_group::WorkerFaultLog;

/// How long ended processes may take to disappear.
const PROCESS_EXIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Phase and owner of a claim.
struct ClaimRecord {
    phase: Phase,
    owner: String,
}

/// A plan with its log, its claims by epoch, and the recorded starts of its actors.
struct PlanTrace<'a> {
    plan: &'a Plan,
    history: Vec<RecordedEvent>,
    claims: BTreeMap<u64, ClaimRecord>,
    starts: Vec<&'a ActorStart>,
}

/// Counts what happened and finds all violations.
pub fn check_outcome(
    trial: &Trial,
    env: &TrialEnv,
    faults: &WorkerFaultLog,
    full_disks: u32,
) -> anyhow::Result<WorkerTrialOutcome> {
    let mut outcome = WorkerTrialOutcome {
        kills: faults.kills,
        pauses: faults.pauses,
        hangups: faults.hangups,
        full_disks,
        violations: find_orphan_processes(env),
        ..WorkerTrialOutcome::default()
    };
    let starts = read_starts(&env.records_dir)?;
    let made_calls = read_made_calls(&env.records_dir)?;
    outcome.starts = starts.len();
    let plans = env.list_plans()?;
    outcome.plans = plans.len();
    let mut landed = BTreeMap::new();
    let mut event_dump = EventDump::create_in(&env.records_dir)?;
    for plan in &plans {
        let plan_id = plan.id().to_string();
        let history = env.lifecycle.history().read_history(plan.id())?;
        event_dump.append_events(&history)?;
        let mut permissions = PermissionLog::read(&history);
        for call in made_calls.iter().filter(|call| call.plan_id == plan_id) {
            permissions.check_call(call);
        }
        outcome.decided_calls += permissions.answers;
        outcome.violations.extend(permissions.violations);
        let trace = PlanTrace {
            plan,
            claims: collect_claims(&history),
            starts: starts
                .iter()
                .filter(|start| start.plan_id == plan_id)
                .collect(),
            history,
        };
        trace.check_ending(&mut outcome);
        trace.check_starts(faults, &mut outcome.violations);
        let result_epoch = trace.check_results(&mut outcome.violations);
        trace.check_reclaims(faults, &mut outcome);
        let is_applied = plan.stage().to_string() == "apply/applied";
        if is_applied && !plan.resources().is_empty() {
            landed.insert(plan_id, result_epoch);
        }
    }
    outcome.violations.extend(check_repository(env, &landed)?);
    outcome.missing = find_missing(&outcome, trial);
    Ok(outcome)
}

fn find_missing(outcome: &WorkerTrialOutcome, trial: &Trial) -> Vec<String> {
    let as_usize = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
    let per_minute = |count| trial.scale_per_minute(count);
    [
        (outcome.applied, 5 + per_minute(10), "applied plans"),
        (as_usize(outcome.kills), 3 + per_minute(5), "kills"),
        (as_usize(outcome.pauses), 1 + per_minute(3), "pauses"),
        (as_usize(outcome.hangups), per_minute(3), "closed terminals"),
        (
            as_usize(outcome.full_disks),
            1 + per_minute(3),
            "full disks",
        ),
        (outcome.reclaims, 1 + per_minute(5), "reclaimed leases"),
        (
            outcome.decided_calls,
            1 + per_minute(5),
            "decided tool calls",
        ),
    ]
    .into_iter()
    .filter(|(count, minimum, _)| count < minimum)
    .map(|(count, minimum, name)| format!("{count} {name}, expected at least {minimum}"))
    .collect()
}

fn collect_claims(history: &[RecordedEvent]) -> BTreeMap<u64, ClaimRecord> {
    let claim_of = |recorded: &RecordedEvent| match &recorded.event {
        Event::Claimed {
            phase,
            owner,
            epoch,
            ..
        } => {
            let (phase, owner) = (*phase, owner.clone());
            Some((epoch.0, ClaimRecord { phase, owner }))
        }
        _ => None,
    };
    history.iter().filter_map(claim_of).collect()
}

impl PlanTrace<'_> {
    /// The plan was applied, waits for a review, or failed for a valid reason.
    fn check_ending(&self, outcome: &mut WorkerTrialOutcome) {
        let (id, stage) = (self.plan.id(), self.plan.stage().to_string());
        let profile = self.plan.profile().to_string();
        if let Some(failure) = self.plan.stage().failure() {
            outcome.failed += 1;
            let message = failure.message.as_str();
            let is_deliberate =
                failure.category == FailureCategory::Actor && message.contains(DELIBERATE_FAILURE);
            // Every attempt may have met a full disk.
            let had_no_space = failure.category == FailureCategory::Transient
                && message.to_lowercase().contains("no space left");
            if failure.category != FailureCategory::Lost && !is_deliberate && !had_no_space {
                let problem = format!(
                    "{id} failed without a valid reason ({}): {message}",
                    failure.category
                );
                outcome.violations.push(problem);
            }
            return;
        }
        match (stage.as_str(), profile.as_str()) {
            ("apply/applied", "auto") => outcome.applied += 1,
            ("apply/applied", "review") if self.plan.resources().is_empty() => outcome.applied += 1,
            ("execute/complete", "review") => outcome.to_review += 1,
            _ => outcome.violations.push(format!("{id} is stuck in {stage}")),
        }
    }

    /// Whether the holder of this epoch released the lease.
    fn was_released(&self, epoch: u64) -> bool {
        self.history.iter().any(|recorded| match recorded.event {
            Event::Released { epoch: released } => released.0 == epoch,
            _ => false,
        })
    }

    /// Each start has a claim, each attempt was started once, and no actor was started beside a running one.
    fn check_starts(&self, faults: &WorkerFaultLog, violations: &mut Vec<String>) {
        let id = self.plan.id();
        let (mut attempts, mut epochs) = (BTreeSet::new(), BTreeSet::new());
        let directory_by_epoch: BTreeMap<u64, &Path> = self
            .starts
            .iter()
            .map(|start| (start.epoch, start.directory.as_path()))
            .collect();
        for start in &self.starts {
            let claim = self.claims.get(&start.epoch);
            if claim.is_none_or(|claim| claim.phase.to_string() != start.phase) {
                violations.push(format!("{id}: an actor started without a claim: {start:?}"));
            }
            // A released attempt does not count: the next start has the same number.
            let was_released = self.was_released(start.epoch);
            let is_first = was_released || attempts.insert((start.phase.as_str(), start.attempt));
            if !is_first || !epochs.insert(start.epoch) {
                violations.push(format!("{id}: an attempt was started twice: {start:?}"));
            }
            for other_epoch in &start.concurrent_epochs {
                if directory_by_epoch.get(other_epoch) == Some(&start.directory.as_path()) {
                    violations.push(format!(
                        "{id}: two actors worked in one directory: {start:?}"
                    ));
                }
                let older_epoch = (*other_epoch).min(start.epoch);
                if !self.was_disturbed(older_epoch, start.at, faults) {
                    violations.push(format!(
                        "{id}: two actors worked at once, and the worker of the first was not disturbed: {start:?}"
                    ));
                }
            }
        }
    }

    /// Whether a fault disturbed the worker that held this epoch, before `by`.
    fn was_disturbed(&self, epoch: u64, by: i64, faults: &WorkerFaultLog) -> bool {
        let owner = self.claims.get(&epoch).map(|claim| claim.owner.as_str());
        owner.is_some_and(|owner| faults.was_disturbed(owner, by))
    }

    /// No lease was reclaimed from a running holder.
    fn check_reclaims(&self, faults: &WorkerFaultLog, outcome: &mut WorkerTrialOutcome) {
        let mut holder = "nobody";
        for recorded in &self.history {
            let owner = match &recorded.event {
                Event::Reclaimed { owner, .. } => owner,
                // The last allowed reclaim fails the plan.
                Event::Failed { failure } if failure.category == FailureCategory::Lost => holder,
                Event::Claimed { owner, .. } => {
                    holder = owner;
                    continue;
                }
                _ => continue,
            };
            outcome.reclaims += 1;
            if !faults.was_disturbed(owner, recorded.at.0) {
                outcome.violations.push(format!(
                    "{} was reclaimed from {owner}, which was not disturbed",
                    self.plan.id()
                ));
            }
        }
    }

    /// Each phase's result was accepted once and from the holder. Returns the epoch of the execute result.
    fn check_results(&self, violations: &mut Vec<String>) -> Option<u64> {
        let id = self.plan.id();
        let (mut holder, mut result_epoch) = (None, None);
        let mut completed = BTreeSet::new();
        for recorded in &self.history {
            match &recorded.event {
                Event::Claimed { epoch, .. } => holder = Some(epoch.0),
                Event::Reclaimed { .. } | Event::Failed { .. } | Event::Released { .. } => {
                    holder = None;
                }
                Event::StrategizeCompleted { epoch }
                    if holder != Some(epoch.0) || !completed.insert(Phase::Strategize) =>
                {
                    violations.push(format!(
                        "{id}: a second strategy, or one by a former holder, was accepted"
                    ));
                }
                Event::ExecuteCompleted { epoch, result, .. } => {
                    if holder != Some(epoch.0) || !completed.insert(Phase::Execute) {
                        violations.push(format!(
                            "{id}: a second result, or one by a former holder, was accepted"
                        ));
                    }
                    let report = result.report.as_ref().map(plan::ErasableText::as_str);
                    if report != Some(&format!("epoch {epoch}")) {
                        violations.push(format!("{id}: the report of epoch {epoch} is {report:?}"));
                    }
                    result_epoch = Some(epoch.0);
                }
                _ => {}
            }
        }
        result_epoch
    }
}

/// The branch contains each landed plan once, with the file of the accepted epoch, and no other plan.
fn check_repository(
    env: &TrialEnv,
    landed: &BTreeMap<String, Option<u64>>,
) -> anyhow::Result<Vec<String>> {
    let mut problems =
        env.find_repository_problems(&landed.keys().map(String::as_str).collect())?;
    for (plan_id, epoch) in landed {
        let text = env
            .run_git(&["show", &format!("main:made/{plan_id}.txt")])
            .ok();
        let expected = epoch.map(|epoch| format!("epoch {epoch}"));
        if text != expected {
            problems.push(format!(
                "{plan_id} landed as {text:?}, expected {expected:?}"
            ));
        }
    }
    Ok(problems)
}

/// Waits for the processes of the trial to end and reports those that do not.
fn find_orphan_processes(env: &TrialEnv) -> Vec<String> {
    let deadline = Instant::now() + PROCESS_EXIT_TIMEOUT;
    loop {
        let found = env.list_processes();
        if found.is_empty() || Instant::now() >= deadline {
            return found
                .iter()
                .map(|(pid, command_line)| {
                    format!("a process was left behind: {pid} {command_line}")
                })
                .collect();
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}
