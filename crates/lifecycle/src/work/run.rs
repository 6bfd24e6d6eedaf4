//! One run: an actor works on a claim, and its report is submitted, with retries while the store is
//! unavailable. The report is not trusted: the result is captured from the sandbox.

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use actors::{Actor, Report, ReportOutcome, RunProgress, Stop, Workplace};
use plan::command::{AskPerson, CompleteStrategize, FailRun, ReleaseLease};
use plan::decision::{DecisionKind, ReportedDecision};
use plan::ledger::{BudgetAmount, BudgetGrant};
use plan::permission_question::ProposedToolCall;
use plan::stage::{FailureCategory, ResultContent};
use plan::{ErasableText, Phase, Plan, Refusal, Span};
use sandbox::{RunRecord, SandboxKey};

use super::decision_recorder::DecisionRecorder;
use super::drive::{DriveProgress, PlanDriver};
use super::transcript_recorder::TranscriptRecorder;
use crate::lease_keeper::{HoldOutcome, LeaseChecks, LeaseKeeper};
use crate::meter::UsageMeter;
use crate::{Call, Claim, LifecycleError, OperationOutcome};

/// The first and the longest pause between retries while the store is unavailable.
const INITIAL_BACKOFF: Duration = Duration::from_millis(50);
const MAX_BACKOFF: Duration = Duration::from_secs(5);

/// The pause after which the retries are reported.
const WARN_AFTER_BACKOFF: Duration = Duration::from_millis(1600);

/// How long to retry on a full disk. A person has to free space, so fail soon.
const DISK_FULL_TIMEOUT: Duration = Duration::from_secs(5);

impl PlanDriver<'_> {
    /// Runs an actor on a claim within its budget, and submits its report.
    pub(super) fn run_and_submit(
        &self,
        claim: &Claim,
        actor: &dyn Actor,
        grant: BudgetGrant,
    ) -> Result<(), LifecycleError> {
        let stop = Stop::default();
        let meter = UsageMeter::new(grant, stop.clone());
        let store = &*self.lifecycle.store;
        let recorder = TranscriptRecorder::new(store, claim.plan().id(), claim.epoch());
        let submitted = self.run_recorded(claim, actor, (&meter, &recorder), &stop);
        // If the store was unavailable before, it has taken the report now.
        recorder.write_rest();
        submitted
    }

    fn run_recorded(
        &self,
        claim: &Claim,
        actor: &dyn Actor,
        (meter, recorder): (&UsageMeter, &TranscriptRecorder<'_>),
        stop: &Stop,
    ) -> Result<(), LifecycleError> {
        let outcome = std::thread::scope(|threads| {
            threads.spawn(|| recorder.write_until_finished());
            // Also ends the thread after a panic.
            let _finisher = recorder.finish_on_drop();
            self.run_actor(claim, actor, (meter, recorder), stop)
        });
        // Store the transcript first, so that a reader of the result can also read what led to it.
        recorder.write_rest();
        let outcome = match outcome {
            Ok(outcome) => outcome,
            // An unavailable store is not the plan's fault, so release the claim.
            Err(error @ (LifecycleError::Store(_) | LifecycleError::CommitUnknown(_))) => {
                self.submit_report(
                    claim,
                    &Report::with_outcome(ReportOutcome::Stopped),
                    BudgetAmount::default(),
                )?;
                return Err(error);
            }
            Err(error) => {
                // The actor could not start: fail the phase with the reason.
                let failed = Report::failed(FailureCategory::Resource, error.to_string());
                return self.submit_report(claim, &failed, BudgetAmount::default());
            }
        };
        let used = meter.total_usage(outcome.value.usage);
        if outcome.lease_lost {
            // The plan belongs to another holder now. Only settle the usage, and leave the sandbox alone.
            self.settle_lost_runs(claim, &outcome.value)?;
            return self.settle_usage(claim, used);
        }
        let mut report = outcome.value;
        let exceeded_limit = match report.outcome {
            ReportOutcome::Stopped | ReportOutcome::Failed { .. } => meter.exceeded_limit(),
            // If the agent finishes anyway, its result is kept.
            ReportOutcome::Done | ReportOutcome::NeedsAnswer { .. } => None,
        };
        if let Some(message) = exceeded_limit {
            report.outcome = ReportOutcome::Failed {
                category: FailureCategory::Budget,
                message,
            };
        }
        self.submit_report(claim, &report, used)
    }

    fn settle_usage(&self, claim: &Claim, used: BudgetAmount) -> Result<(), LifecycleError> {
        let (plan_id, epoch) = (claim.plan().id(), claim.epoch());
        self.lifecycle
            .budgets()
            .settle_usage(plan_id, epoch, used, &claim.call())
    }

    /// Corrects the charges for lost runs whose usage this report includes. Called before the run itself is settled:
    /// if the process dies in between, the run forfeits its whole reservation, so no usage goes uncharged.
    fn settle_lost_runs(&self, claim: &Claim, report: &Report) -> Result<(), LifecycleError> {
        let (plan_id, call) = (claim.plan().id(), claim.call());
        let mut lost_epochs = report.includes_usage_of.iter();
        lost_epochs.try_for_each(|epoch| {
            self.lifecycle
                .budgets()
                .settle_lost_run(plan_id, *epoch, &call)
        })
    }

    /// Runs an actor while the lease is renewed.
    fn run_actor(
        &self,
        claim: &Claim,
        actor: &dyn Actor,
        (meter, recorder): (&UsageMeter, &TranscriptRecorder<'_>),
        stop: &Stop,
    ) -> Result<HoldOutcome<Report>, LifecycleError> {
        let on_tick = || self.report_warnings(claim.plan(), meter.check_limits());
        let checks = LeaseChecks {
            worker_stop: self.stop,
            stop,
            on_tick: &on_tick,
        };
        let keeper = LeaseKeeper::for_claim(claim, self.lease);
        let outcome = keeper.watch_while(&checks, || {
            self.run_actor_held(claim, actor, (meter, recorder), stop)
        });
        Ok(HoldOutcome {
            value: outcome.value?,
            lease_lost: outcome.lease_lost,
        })
    }

    fn report_warnings(&self, plan: &Plan, warnings: Vec<String>) {
        for warning in warnings {
            (self.on_progress)(plan, &DriveProgress::NearLimit(warning));
        }
    }

    fn run_actor_held(
        &self,
        claim: &Claim,
        actor: &dyn Actor,
        (meter, recorder): (&UsageMeter, &TranscriptRecorder<'_>),
        stop: &Stop,
    ) -> Result<Report, LifecycleError> {
        let plan = claim.plan();
        let assignment = claim.build_assignment()?;
        let began = Instant::now();
        let (mut readable, mut locks) = (Vec::new(), Vec::new());
        let mut run_dir = PathBuf::new();
        if let Some(local_host) = &self.lifecycle.local_host {
            run_dir = local_host
                .sandboxes
                .runs()
                .create_run_dir(plan.id(), claim.epoch())?;
            for location in self.lifecycle.projects().locate_resources(plan)? {
                let sandbox_key = SandboxKey {
                    plan_id: plan.id(),
                    resource: &location,
                };
                readable.extend(
                    local_host
                        .sandboxes
                        .runs()
                        .list_borrowed_objects(&sandbox_key)?,
                );
                let sandbox = local_host.sandboxes.current_sandbox(&sandbox_key)?;
                locks.extend(sandbox.map(|sandbox| sandbox.lock_path()));
            }
        }
        let isolation = std::sync::Mutex::new(None);
        let on_progress = |progress: RunProgress| {
            if let Some(usage) = progress.usage() {
                self.report_warnings(plan, meter.record_usage(usage));
            }
            let progress = match progress {
                RunProgress::Started {
                    isolation: description,
                } => {
                    *lock_mutex(&isolation) = Some(description.clone());
                    DriveProgress::AgentRunning {
                        isolation: description,
                    }
                }
                RunProgress::Entry(entry) => DriveProgress::AgentEntry(recorder.record(entry)),
            };
            (self.on_progress)(plan, &progress);
        };
        let ask_person = |tool_call: ProposedToolCall, stop: &Stop| {
            // The run's time limit does not count the time in which a person thinks.
            let _paused = meter.pause_clock();
            self.lifecycle.permissions().ask_person(
                (plan.id(), claim.epoch()),
                &tool_call,
                stop,
                &claim.call(),
            )
        };
        let decisions = DecisionRecorder::new(claim, stop);
        let record_decision = |decision: ReportedDecision| decisions.record(&decision);
        let workplace = Workplace {
            run_dir: run_dir.clone(),
            readable_paths: readable,
            lock_files: locks,
            time_limit: plan.limits().timeout.map(plan::Span::as_duration),
            strategy_wanted: plan.strategy_wanted(),
            profile: plan.profile(),
            stop: stop.clone(),
            ask_person: Some(&ask_person),
            record_decision: Some(&record_decision),
            on_progress: &on_progress,
        };
        let work = AssertUnwindSafe(|| actor.work(&assignment, &workplace));
        let report = std::panic::catch_unwind(work).unwrap_or_else(|payload| {
            let message = format!("the agent panicked: {}", panic_message(&*payload));
            Report::failed(FailureCategory::Internal, message)
        });
        let isolation = lock_mutex(&isolation).take();
        self.record_run(claim, &report, &run_dir, began, isolation);
        Ok(report)
    }

    /// Writes the run record that `log` shows. Best effort.
    fn record_run(
        &self,
        claim: &Claim,
        report: &Report,
        run_dir: &std::path::Path,
        began: Instant,
        isolation: Option<String>,
    ) {
        let (plan, phase) = (claim.plan(), claim.phase());
        let (Some(local_host), Some(actor)) =
            (&self.lifecycle.local_host, plan.actor_for_phase(phase))
        else {
            return;
        };
        let elapsed_micros = i64::try_from(began.elapsed().as_micros()).unwrap_or(i64::MAX);
        // Without the store's clock, estimate from the last update of the plan.
        let estimated = |_| plan.updated_at().saturating_add(Span(elapsed_micros));
        let ended = self.lifecycle.store.now().unwrap_or_else(estimated);
        let record = RunRecord {
            actor: actor.clone(),
            phase,
            began: ended.saturating_add(Span(-elapsed_micros)),
            ended,
            outcome: match &report.outcome {
                ReportOutcome::Done => "done".to_owned(),
                ReportOutcome::Failed { category, .. } => format!("failed: {category}"),
                ReportOutcome::NeedsAnswer { .. } => "asked".to_owned(),
                ReportOutcome::Stopped => "stopped".to_owned(),
            },
            isolation,
            session: report.session.clone(),
            input_tokens: report.usage.input_tokens,
            output_tokens: report.usage.output_tokens,
            cost_micros: report.usage.cost_micros,
        };
        let _ = local_host
            .sandboxes
            .runs()
            .write_run_record(run_dir, &record);
    }

    /// Submits a run's report. Retries while the store is unavailable or a disk is full, and keeps the lease, so that
    /// finished work is not lost. Repeating is safe: the store recognizes what this holder already submitted.
    ///
    /// The usage is settled before the report, or in the same commit. A crash in between loses no charge: usage
    /// is charged once per epoch, and a report that was not submitted is worked on again.
    fn submit_report(
        &self,
        claim: &Claim,
        report: &Report,
        used: BudgetAmount,
    ) -> Result<(), LifecycleError> {
        let stop_retrying = Stop::default();
        let checks = LeaseChecks {
            worker_stop: self.stop,
            stop: &stop_retrying,
            on_tick: &|| {},
        };
        let outcome = LeaseKeeper::for_claim(claim, self.lease).watch_while(&checks, || {
            let (mut backoff, began) = (INITIAL_BACKOFF, Instant::now());
            loop {
                match self.try_submit_report(claim, report, used, &stop_retrying) {
                    Err(error)
                        if error.is_out_of_space() && began.elapsed() >= DISK_FULL_TIMEOUT =>
                    {
                        if let LifecycleError::Sandbox(full) = &error {
                            // The attempt counts, so an agent is not paid again and again for it.
                            return claim.fail_for_now(&full.to_string());
                        }
                        return Err(error);
                    }
                    Err(error) if error.is_store_unavailable() || error.is_out_of_space() => {
                        if backoff == WARN_AFTER_BACKOFF {
                            let text = format!("cannot store the result yet, retrying: {error}");
                            (self.on_progress)(claim.plan(), &DriveProgress::Retrying(text));
                        }
                        if stop_retrying.wait_for_request(backoff) {
                            if let LifecycleError::Sandbox(_) = &error {
                                // The store works, so others can go on with the sandbox at once.
                                return claim.release_for_now();
                            }
                            return Err(error);
                        }
                        backoff = (backoff * 2).min(MAX_BACKOFF);
                    }
                    submitted => return submitted,
                }
            }
        });
        if outcome.lease_lost {
            // The report was submitted, or another holder took over. Either way, nothing is left to do.
            return Ok(());
        }
        outcome.value
    }

    fn try_submit_report(
        &self,
        claim: &Claim,
        report: &Report,
        used: BudgetAmount,
        stop_retrying: &Stop,
    ) -> Result<(), LifecycleError> {
        let executed = claim.phase() == Phase::Execute && report.outcome == ReportOutcome::Done;
        self.settle_lost_runs(claim, report)?;
        if executed
            && claim.complete_plan_in_one_commit(&result_from_report(report), used, self.lease)?
        {
            return Ok(());
        }
        self.settle_usage(claim, used)?;
        let call = claim.call().with_stop(stop_retrying).with_kept_lease();
        claim.submit_report(report, &call)?;
        Ok(())
    }
}

impl Claim {
    /// Fails the run for a reason that passes. The engine retries it later.
    fn fail_for_now(&self, why: &str) -> Result<(), LifecycleError> {
        let category = FailureCategory::Transient;
        let fail = FailRun::new(self.epoch(), category, shorten_text(why));
        let submitted = self
            .lifecycle
            .submit_command(self.plan().id(), fail, &self.call());
        submitted.map(drop)
    }

    /// Gives the plan back. The work stays in the sandbox.
    fn release_for_now(&self) -> Result<(), LifecycleError> {
        let epoch = self.epoch();
        let release = ReleaseLease { epoch };
        let submitted = self
            .lifecycle
            .submit_command(self.plan().id(), release, &self.call());
        submitted.map(drop)
    }

    /// Submits an actor's report. Fails the phase if the sandbox contradicts the report.
    pub(crate) fn submit_report(
        &self,
        report: &Report,
        call: &Call,
    ) -> Result<OperationOutcome, LifecycleError> {
        let (lifecycle, plan_id, epoch) = (&self.lifecycle, self.plan().id(), self.epoch());
        let phase = self.phase();
        if report.outcome != ReportOutcome::Done {
            self.record_ignored_files();
        }
        let submitted = match &report.outcome {
            ReportOutcome::Stopped => {
                lifecycle.submit_command(plan_id, ReleaseLease { epoch }, call)
            }
            ReportOutcome::Failed { category, message } => {
                let (category, message) = self.attribute_failure(*category, message.clone());
                lifecycle.submit_command(
                    plan_id,
                    FailRun::new(epoch, category, shorten_text(&message)),
                    call,
                )
            }
            ReportOutcome::NeedsAnswer { question, timeout } => lifecycle.submit_command(
                plan_id,
                AskPerson::new(epoch, shorten_text(question), *timeout),
                call,
            ),
            ReportOutcome::Done if phase == Phase::Strategize => lifecycle.submit_command(
                plan_id,
                CompleteStrategize::new(epoch, strategy_from_report(report)),
                call,
            ),
            ReportOutcome::Done => {
                lifecycle.complete_execute(plan_id, epoch, &result_from_report(report), call)
            }
        };
        let mut category = FailureCategory::Actor;
        let why = match submitted {
            Ok(done) => return Ok(done),
            // A rule check was stopped. Release the claim; the work stays in the sandbox.
            Err(LifecycleError::Stopped) => {
                return lifecycle.submit_command(plan_id, ReleaseLease { epoch }, call);
            }
            // A report of success without any change is not accepted.
            Err(LifecycleError::Refused(Refusal::EmptyResult)) => describe_empty_result(report),
            Err(LifecycleError::Refused(
                refusal @ (Refusal::ReadOnly(_)
                | Refusal::BadDecision { .. }
                | Refusal::BadText { .. }),
            )) => refusal.to_string(),
            Err(LifecycleError::Sandbox(error)) if error.is_uncapturable() => error.to_string(),
            // The work stays in the sandbox, to be captured when there is space.
            Err(LifecycleError::Sandbox(error)) if error.is_out_of_space() => {
                return Err(error.into());
            }
            Err(LifecycleError::Sandbox(error)) => {
                category = FailureCategory::Resource;
                error.to_string()
            }
            Err(error) => return Err(error),
        };
        self.record_ignored_files();
        let (category, why) = self.attribute_failure(category, why);
        lifecycle.submit_command(
            plan_id,
            FailRun::new(epoch, category, shorten_text(&why)),
            call,
        )
    }

    /// Records which ignored files the agent created, if its work is not captured. Otherwise the next run would treat
    /// them as existing files and leave them out of the result.
    fn record_ignored_files(&self) {
        let (Ok(local_host), Ok(locations)) = (
            self.lifecycle.local_host(),
            self.lifecycle.projects().locate_resources(self.plan()),
        ) else {
            return;
        };
        for location in &locations {
            let sandbox_key = SandboxKey {
                plan_id: self.plan().id(),
                resource: location,
            };
            let _ = local_host
                .sandboxes
                .capture()
                .record_ignored_files(&sandbox_key, self.epoch());
        }
    }

    /// If the repository is missing, blames that instead of the actor, whose error is only a symptom.
    fn attribute_failure(
        &self,
        category: FailureCategory,
        message: String,
    ) -> (FailureCategory, String) {
        match self.lifecycle.sandboxes().check_resource_paths(self.plan()) {
            Err(LifecycleError::Sandbox(error)) => {
                (FailureCategory::Resource, format!("{error}\n{message}"))
            }
            Ok(()) | Err(_) => (category, message),
        }
    }
}

/// Includes the agent's last message, which usually has the reason.
fn describe_empty_result(report: &Report) -> String {
    let text = "the agent reported success but changed nothing";
    match report.summary_tail() {
        Some(last_message) => format!("{text}; its last message: {last_message}"),
        None => text.to_owned(),
    }
}

/// The result without its trees, which the capture adds.
fn result_from_report(report: &Report) -> ResultContent {
    let summary = report.summary.as_ref();
    ResultContent {
        report: summary.map(|text| ErasableText::Known(shorten_text(text))),
        trees: Vec::new(),
    }
}

/// The reported decisions. Without any, the summary becomes the only one.
fn strategy_from_report(report: &Report) -> Vec<ReportedDecision> {
    let (decisions, summary) = (&report.decisions, &report.summary);
    let summary_text = summary.as_ref();
    let summary_text = summary_text.filter(|text| decisions.is_empty() && !text.trim().is_empty());
    let Some(summary_text) = summary_text else {
        return decisions.clone();
    };
    vec![ReportedDecision {
        kind: DecisionKind::StrategyChoice,
        question: "How should it be done?".to_owned(),
        choice: shorten_text(summary_text),
        alternatives: Vec::new(),
        rationale: None,
        confidence: None,
        parent: None,
    }]
}

fn panic_message(payload: &(dyn std::any::Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    let formatted = || payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(formatted).unwrap_or("no message")
}

/// Makes a text storable: removes NUL characters, and cuts the middle out if it is too long.
pub(super) fn shorten_text(text: &str) -> String {
    const MAX_BYTES: usize = ErasableText::MAX_BYTES / 2;
    let text = text.replace('\0', "");
    let text = text.trim();
    if text.is_empty() {
        return "(no message)".to_owned();
    }
    if text.len() <= MAX_BYTES {
        return text.to_owned();
    }
    let head = text.floor_char_boundary(MAX_BYTES / 2);
    let tail = text.ceil_char_boundary(text.len() - MAX_BYTES / 2);
    format!("{}\n[…]\n{}", &text[..head], &text[tail..])
}

fn lock_mutex<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
