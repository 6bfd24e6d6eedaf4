//! One run: an actor works on a claim, and what it gives is handed in, however long the store is away.
//! What it says is a claim of its own; the result is read from the sandbox.

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use actors::{Actor, Report, ReportOutcome, Stop, Workplace};
use plan::decision::{DecisionKind, ReportedDecision};
use plan::ledger::{BudgetAmount, BudgetGrant};
use plan::stage::{FailureCategory, ResultContent};
use plan::{ErasableText, Phase, Plan, Refusal, Span};
use sandbox::{RunRecord, SandboxKey};

use super::drive::{DriveProgress, PlanDriver};
use super::hold::{HoldOutcome, hold_claim_while};
use crate::meter::UsageMeter;
use crate::{Call, Claim, LifecycleError, OperationOutcome};

/// How long is waited first for a store that is away, and how long at most.
const INITIAL_BACKOFF: Duration = Duration::from_millis(50);
const MAX_BACKOFF: Duration = Duration::from_secs(5);

/// From this pause on it is told that it is waited for.
const WARN_AFTER_BACKOFF: Duration = Duration::from_millis(1600);

/// How long is waited for room on a full disk. A person has to make it, and must be told soon that it is missing.
const DISK_FULL_TIMEOUT: Duration = Duration::from_secs(5);

impl PlanDriver<'_> {
    /// Has an actor work on a claim with what it may use, and hands in what came of it.
    pub(super) fn run_and_submit(
        &self,
        claim: &Claim,
        actor: &dyn Actor,
        grant: BudgetGrant,
    ) -> Result<(), LifecycleError> {
        let stop = Stop::default();
        let meter = UsageMeter::new(grant, stop.clone());
        let outcome = match self.run_actor(claim, actor, &meter, &stop) {
            Ok(held) => held,
            // A store that is away for a moment is no plan's fault; it is given back.
            Err(error @ (LifecycleError::Store(_) | LifecycleError::CommitUnknown(_))) => {
                self.submit_report(
                    claim,
                    &Report::with_outcome(ReportOutcome::Stopped),
                    BudgetAmount::default(),
                )?;
                return Err(error);
            }
            Err(error) => {
                // The plan halts with the reason; nobody could have worked on it like this.
                let failed = Report::failed(FailureCategory::Resource, error.to_string());
                return self.submit_report(claim, &failed, BudgetAmount::default());
            }
        };
        let used = meter.total_usage(outcome.value.usage);
        if outcome.lease_lost {
            // Whoever took it away decided what becomes of it; the sandbox is left as it is.
            self.settle_lost_runs(claim, &outcome.value)?;
            return self.settle_usage(claim, used);
        }
        let mut report = outcome.value;
        let exceeded_limit = match report.outcome {
            ReportOutcome::Stopped | ReportOutcome::Failed { .. } => meter.exceeded_limit(),
            // What was finished in spite of it is not thrown away.
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

    /// Charges what was used.
    fn settle_usage(&self, claim: &Claim, used: BudgetAmount) -> Result<(), LifecycleError> {
        let (plan_id, epoch) = (claim.plan().id, claim.epoch());
        self.lifecycle
            .settle_usage(plan_id, epoch, used, &claim.call())
    }

    /// Before the run itself is charged: killed in between, it is charged all that was set aside for it, and nothing
    /// was used unseen.
    fn settle_lost_runs(&self, claim: &Claim, report: &Report) -> Result<(), LifecycleError> {
        let (plan_id, call) = (claim.plan().id, claim.call());
        let mut lost = report.includes_usage_of.iter();
        lost.try_for_each(|epoch| self.lifecycle.settle_lost_run(plan_id, *epoch, &call))
    }

    /// Has an actor work while the claim is held, from gathering what it needs on.
    fn run_actor(
        &self,
        claim: &Claim,
        actor: &dyn Actor,
        meter: &UsageMeter,
        stop: &Stop,
    ) -> Result<HoldOutcome<Report>, LifecycleError> {
        let on_tick = || self.report_warnings(claim.plan(), meter.check_limits());
        let outcome = hold_claim_while(claim, self.lease, self.stop, stop, &on_tick, || {
            self.run_actor_held(claim, actor, meter, stop)
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
        meter: &UsageMeter,
        stop: &Stop,
    ) -> Result<Report, LifecycleError> {
        let plan = claim.plan();
        let assignment = self.lifecycle.build_assignment(claim)?;
        let began = Instant::now();
        let (mut readable, mut locks) = (Vec::new(), Vec::new());
        let mut run_dir = PathBuf::new();
        if let Some(local_host) = &self.lifecycle.local_host {
            run_dir = local_host
                .sandboxes
                .create_run_dir(plan.id, claim.epoch())?;
            for location in self.lifecycle.locate_resources(plan)? {
                let sandbox_key = SandboxKey {
                    plan_id: plan.id,
                    resource: &location,
                };
                readable.extend(local_host.sandboxes.list_borrowed_objects(&sandbox_key)?);
                let sandbox = local_host.sandboxes.current_sandbox(&sandbox_key)?;
                locks.extend(sandbox.map(|sandbox| sandbox.lock_path()));
            }
        }
        let isolation = std::sync::Mutex::new(None);
        let progress = |progress: actors::RunProgress| {
            if let actors::RunProgress::Started {
                isolation: description,
            } = &progress
            {
                *lock_mutex(&isolation) = Some(description.clone());
            }
            if let actors::RunProgress::UsageChanged(usage) = &progress {
                self.report_warnings(plan, meter.record_usage(*usage));
            }
            (self.on_progress)(plan, &DriveProgress::ActorProgress(progress));
        };
        let workplace = Workplace {
            run_dir: run_dir.clone(),
            readable_paths: readable,
            lock_files: locks,
            time_limit: plan.limits.timeout.map(plan::Span::as_duration),
            strategy_wanted: plan.strategy_wanted,
            stop: stop.clone(),
            on_progress: &progress,
        };
        let work = AssertUnwindSafe(|| actor.work(&assignment, &workplace));
        let report = std::panic::catch_unwind(work).unwrap_or_else(|payload| {
            let message = format!("the actor panicked: {}", panic_message(&*payload));
            Report::failed(FailureCategory::Internal, message)
        });
        let isolation = lock_mutex(&isolation).take();
        self.record_run(claim, &report, &run_dir, began, isolation);
        Ok(report)
    }

    /// Remembers the run. What cannot be remembered is missed in `log`, and nothing else.
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
        let guessed = |_| plan.updated_at.saturating_add(Span(elapsed_micros));
        let ended = self.lifecycle.store.now().unwrap_or_else(guessed);
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
        let _ = local_host.sandboxes.write_run_record(run_dir, &record);
    }

    /// Hands in what came of a run. A store that is away is waited for while the claim is held: what was
    /// worked out must not be lost to a lease that expires. Nothing is taken twice: the store knows what
    /// this holder handed in.
    ///
    /// What was used is charged before that, or in the same commit: nothing can be lost in between, for what is
    /// charged is charged once, and a result that was not handed in is worked on again.
    fn submit_report(
        &self,
        claim: &Claim,
        report: &Report,
        used: BudgetAmount,
    ) -> Result<(), LifecycleError> {
        let stop_retrying = Stop::default();
        let outcome =
            hold_claim_while(claim, self.lease, self.stop, &stop_retrying, &|| {}, || {
                let (mut backoff, began) = (INITIAL_BACKOFF, Instant::now());
                loop {
                    match self.try_submit_report(claim, report, used, &stop_retrying) {
                        Err(error)
                            if error.is_out_of_space() && began.elapsed() >= DISK_FULL_TIMEOUT =>
                        {
                            return Err(error);
                        }
                        Err(error) if error.is_store_unavailable() => {
                            if backoff == WARN_AFTER_BACKOFF {
                                let text =
                                    format!("cannot store the result yet, retrying: {error}");
                                (self.on_progress)(claim.plan(), &DriveProgress::Retrying(text));
                            }
                            if stop_retrying.wait_for_request(backoff) {
                                return Err(error);
                            }
                            backoff = (backoff * 2).min(MAX_BACKOFF);
                        }
                        submitted => return submitted,
                    }
                }
            });
        if outcome.lease_lost {
            // Handed in, or taken away: either way it is decided what becomes of it.
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
        if executed && claim.end_at_once(&result_from_report(report), used, self.lease)? {
            return Ok(());
        }
        self.settle_usage(claim, used)?;
        claim.submit_report(report, &claim.call().with_stop(stop_retrying))?;
        Ok(())
    }
}

impl Claim {
    /// Hands in what an actor reports. What it says and its sandbox does not bear out is a failure of its own.
    pub(crate) fn submit_report(
        &self,
        report: &Report,
        call: &Call,
    ) -> Result<OperationOutcome, LifecycleError> {
        let (lifecycle, plan_id, epoch) = (&self.lifecycle, self.plan().id, self.epoch());
        let phase = self.phase();
        if report.outcome != ReportOutcome::Done {
            self.record_ignored_files();
        }
        let submitted = match &report.outcome {
            ReportOutcome::Stopped => lifecycle.release_lease(plan_id, epoch, call),
            ReportOutcome::Failed { category, message } => {
                let (category, message) = self.attribute_failure(*category, message.clone());
                lifecycle.fail_work(plan_id, epoch, category, &shorten_text(&message), call)
            }
            ReportOutcome::NeedsAnswer {
                question,
                timeout: patience,
            } => lifecycle.ask_question(plan_id, epoch, &shorten_text(question), *patience, call),
            ReportOutcome::Done if phase == Phase::Strategize => {
                lifecycle.complete_strategize(plan_id, epoch, strategy_from_report(report), call)
            }
            ReportOutcome::Done => {
                lifecycle.complete_execute(plan_id, epoch, &result_from_report(report), call)
            }
        };
        let mut category = FailureCategory::Actor;
        let why = match submitted {
            Ok(done) => return Ok(done),
            // Its rules could not be asked to the end; what it made stays where it is.
            Err(LifecycleError::Stopped) => return lifecycle.release_lease(plan_id, epoch, call),
            // Success needs evidence.
            Err(LifecycleError::Refused(Refusal::EmptyResult)) => describe_empty_result(report),
            Err(LifecycleError::Refused(
                refusal @ (Refusal::ReadOnly(_)
                | Refusal::BadDecision { .. }
                | Refusal::BadText { .. }),
            )) => refusal.to_string(),
            Err(LifecycleError::Sandbox(error)) if error.is_uncapturable() => error.to_string(),
            Err(LifecycleError::Sandbox(error)) => {
                category = FailureCategory::Resource;
                error.to_string()
            }
            Err(error) => return Err(error),
        };
        self.record_ignored_files();
        let (category, why) = self.attribute_failure(category, why);
        lifecycle.fail_work(plan_id, epoch, category, &shorten_text(&why), call)
    }

    /// Remembers which ignored files an agent made whose work is not captured: the next run may add them. Without
    /// that they count as not the agent's, and stay out.
    fn record_ignored_files(&self) {
        let (Ok(local_host), Ok(locations)) = (
            self.lifecycle.local_host(),
            self.lifecycle.locate_resources(self.plan()),
        ) else {
            return;
        };
        for location in &locations {
            let sandbox_key = SandboxKey {
                plan_id: self.plan().id,
                resource: location,
            };
            let _ = local_host
                .sandboxes
                .record_ignored_files(&sandbox_key, self.epoch());
        }
    }

    /// What went wrong, by where it came from: whoever works on a repository that goes missing fails over
    /// it in ways of their own, and is not to blame.
    fn attribute_failure(
        &self,
        category: FailureCategory,
        message: String,
    ) -> (FailureCategory, String) {
        match self.lifecycle.check_resource_paths(self.plan()) {
            Err(LifecycleError::Sandbox(gone)) => {
                (FailureCategory::Resource, format!("{gone}\n{message}"))
            }
            Ok(()) | Err(_) => (category, message),
        }
    }
}

/// An agent that says it is done and changed nothing mostly says why in its last words.
fn describe_empty_result(report: &Report) -> String {
    let text = "the agent said it was done, and changed nothing";
    match report.summary_tail() {
        Some(words) => format!("{text}; it said last: {words}"),
        None => text.to_owned(),
    }
}

/// What was made, as far as it was said.
fn result_from_report(report: &Report) -> ResultContent {
    let summary = report.summary.as_ref();
    ResultContent {
        report: summary.map(|text| ErasableText::Known(shorten_text(text))),
        trees: Vec::new(),
    }
}

/// What was decided; without decisions, what was said is one.
fn strategy_from_report(report: &Report) -> Vec<ReportedDecision> {
    let (decisions, summary) = (&report.decisions, &report.summary);
    let summary_text = summary.as_ref();
    let summary_text = summary_text.filter(|text| decisions.is_empty() && !text.trim().is_empty());
    let Some(summary_text) = summary_text else {
        return decisions.clone();
    };
    vec![ReportedDecision {
        kind: DecisionKind::StrategyChoice,
        question: "How is it to be done?".to_owned(),
        choice: shorten_text(summary_text),
        alternatives: Vec::new(),
        rationale: None,
        confidence: None,
        parent: None,
    }]
}

/// The message of a panic, as far as it has one.
fn panic_message(payload: &(dyn std::any::Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    let formatted = || payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(formatted).unwrap_or("no message")
}

/// What can be stored of a text: not more than fits, nothing that no store holds.
pub(super) fn shorten_text(text: &str) -> String {
    const MAX_BYTES: usize = ErasableText::MAX_BYTES / 2;
    let text = text.replace('\0', "");
    let text = text.trim();
    if text.is_empty() {
        return "(nothing was said)".to_owned();
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
