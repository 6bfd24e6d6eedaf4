//! One run: an actor works on a claim, and what it gives is handed in, however long the store is away.
//! What it says is a claim of its own; the result is read from the sandbox.

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use actors::{Actor, Outcome, Report, Stop, Workplace};
use plan::decision::{DecisionKind, ReportedDecision};
use plan::ledger::{Amount, Grant};
use plan::stage::{Category, ResultContent};
use plan::{Phase, Plan, Refusal, Span, Text};
use sandbox::{Room, RunRecord};

use super::drive::{Drive, Happening};
use super::hold::{Held, holding};
use crate::meter::Meter;
use crate::{Call, Claim, Done, Error};

/// How long is waited first for a store that is away, and how long at most.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// From this pause on it is told that it is waited for.
const TELLING_PAUSE: Duration = Duration::from_millis(1600);

/// How long is waited for room on a full disk. A person has to make it, and must be told soon that it is missing.
const DISK_FULL_TIMEOUT: Duration = Duration::from_secs(5);

impl Drive<'_> {
    /// Has an actor work on a claim with what it may use, and hands in what came of it.
    pub(super) fn work_on(
        &self,
        claim: &Claim,
        actor: &dyn Actor,
        grant: Grant,
    ) -> Result<(), Error> {
        let stop = Stop::default();
        let meter = Meter::new(grant, stop.clone());
        let held = match self.run(claim, actor, &meter, &stop) {
            Ok(held) => held,
            // A store that is away for a moment is no plan's fault; it is given back.
            Err(error @ (Error::Store(_) | Error::Unknown(_))) => {
                self.hand_in(claim, &Report::of(Outcome::Stopped), Amount::default())?;
                return Err(error);
            }
            Err(error) => {
                // The plan halts with the reason; nobody could have worked on it like this.
                let failed = Report::failed(Category::Resource, error.to_string());
                return self.hand_in(claim, &failed, Amount::default());
            }
        };
        let used = meter.used(held.given.usage);
        if held.lost {
            // Whoever took it away decided what becomes of it; the sandbox is left as it is.
            self.settle_lost_runs(claim, &held.given)?;
            return self.settle(claim, used);
        }
        let mut report = held.given;
        let halted = match report.outcome {
            Outcome::Stopped | Outcome::Failed { .. } => meter.over(),
            // What was finished in spite of it is not thrown away.
            Outcome::Done | Outcome::Asks { .. } => None,
        };
        if let Some(message) = halted {
            report.outcome = Outcome::Failed {
                category: Category::Budget,
                message,
            };
        }
        self.hand_in(claim, &report, used)
    }

    /// Charges what was used.
    fn settle(&self, claim: &Claim, used: Amount) -> Result<(), Error> {
        let (plan, epoch) = (claim.plan().id, claim.epoch());
        self.lifecycle.settle(plan, epoch, used, &claim.call())
    }

    /// Before the run itself is charged: killed in between, it is charged all that was set aside for it, and nothing
    /// was used unseen.
    fn settle_lost_runs(&self, claim: &Claim, report: &Report) -> Result<(), Error> {
        let (plan, call) = (claim.plan().id, claim.call());
        let mut lost = report.includes_usage_of.iter();
        lost.try_for_each(|epoch| self.lifecycle.settle_lost_run(plan, *epoch, &call))
    }

    /// Has an actor work while the claim is held, from gathering what it needs on.
    fn run(
        &self,
        claim: &Claim,
        actor: &dyn Actor,
        meter: &Meter,
        stop: &Stop,
    ) -> Result<Held<Report>, Error> {
        let look = || self.warn(claim.plan(), meter.look());
        let held = holding(claim, self.lease, self.stop, stop, &look, || {
            self.run_held(claim, actor, meter, stop)
        });
        Ok(Held {
            given: held.given?,
            lost: held.lost,
        })
    }

    fn warn(&self, plan: &Plan, warnings: Vec<String>) {
        for warning in warnings {
            (self.tell)(plan, &Happening::NearLimit(warning));
        }
    }

    fn run_held(
        &self,
        claim: &Claim,
        actor: &dyn Actor,
        meter: &Meter,
        stop: &Stop,
    ) -> Result<Report, Error> {
        let plan = claim.plan();
        let assignment = self.lifecycle.assignment(claim)?;
        let began = Instant::now();
        let (mut readable, mut locks) = (Vec::new(), Vec::new());
        let mut run = PathBuf::new();
        if let Some(hands) = &self.lifecycle.hands {
            run = hands.workshop.begin_run(plan.id, claim.epoch())?;
            for site in self.lifecycle.sites(plan)? {
                let room = Room {
                    plan: plan.id,
                    site: &site,
                };
                readable.extend(hands.workshop.borrowed(&room)?);
                let sandbox = hands.workshop.current(&room)?;
                locks.extend(sandbox.map(|sandbox| sandbox.lock()));
            }
        }
        let isolation = std::sync::Mutex::new(None);
        let progress = |progress: actors::Progress| {
            if let actors::Progress::Began { isolation: how } = &progress {
                *lock(&isolation) = Some(how.clone());
            }
            if let actors::Progress::Used(usage) = &progress {
                self.warn(plan, meter.tell(*usage));
            }
            (self.tell)(plan, &Happening::Progress(progress));
        };
        let workplace = Workplace {
            run: run.clone(),
            readable,
            locks,
            time: plan.limits.timeout.map(plan::Span::as_duration),
            strategy_wanted: plan.strategy_wanted,
            stop: stop.clone(),
            progress: &progress,
        };
        let work = AssertUnwindSafe(|| actor.work(&assignment, &workplace));
        let report = std::panic::catch_unwind(work).unwrap_or_else(|payload| {
            let message = format!("the actor panicked: {}", panic_message(&*payload));
            Report::failed(Category::Internal, message)
        });
        let isolation = lock(&isolation).take();
        self.record(claim, &report, &run, began, isolation);
        Ok(report)
    }

    /// Remembers the run. What cannot be remembered is missed in `log`, and nothing else.
    fn record(
        &self,
        claim: &Claim,
        report: &Report,
        run: &std::path::Path,
        began: Instant,
        isolation: Option<String>,
    ) {
        let (plan, phase) = (claim.plan(), claim.phase());
        let (Some(hands), Some(actor)) = (&self.lifecycle.hands, plan.actor_in(phase)) else {
            return;
        };
        let took = i64::try_from(began.elapsed().as_micros()).unwrap_or(i64::MAX);
        let guessed = |_| plan.updated_at.plus(Span(took));
        let ended = self.lifecycle.store.now().unwrap_or_else(guessed);
        let record = RunRecord {
            actor: actor.clone(),
            phase,
            began: ended.plus(Span(-took)),
            ended,
            outcome: match &report.outcome {
                Outcome::Done => "done".to_owned(),
                Outcome::Failed { category, .. } => format!("failed: {category}"),
                Outcome::Asks { .. } => "asked".to_owned(),
                Outcome::Stopped => "stopped".to_owned(),
            },
            isolation,
            session: report.session.clone(),
            input_tokens: report.usage.input_tokens,
            output_tokens: report.usage.output_tokens,
            cost_micros: report.usage.cost_micros,
        };
        let _ = hands.workshop.end_run(run, &record);
    }

    /// Hands in what came of a run. A store that is away is waited for while the claim is held: what was
    /// worked out must not be lost to a lease that expires. Nothing is taken twice: the store knows what
    /// this holder handed in.
    ///
    /// What was used is charged before that, or in the same commit: nothing can be lost in between, for what is
    /// charged is charged once, and a result that was not handed in is worked on again.
    fn hand_in(&self, claim: &Claim, report: &Report, used: Amount) -> Result<(), Error> {
        let enough = Stop::default();
        let held = holding(claim, self.lease, self.stop, &enough, &|| {}, || {
            let (mut pause, began) = (FIRST_PAUSE, Instant::now());
            loop {
                match self.hand_in_now(claim, report, used, &enough) {
                    Err(error)
                        if error.is_out_of_space() && began.elapsed() >= DISK_FULL_TIMEOUT =>
                    {
                        return Err(error);
                    }
                    Err(error) if error.is_of_a_store_that_is_away() => {
                        if pause == TELLING_PAUSE {
                            let text = format!("cannot store the result yet, retrying: {error}");
                            (self.tell)(claim.plan(), &Happening::Retries(text));
                        }
                        if enough.wait(pause) {
                            return Err(error);
                        }
                        pause = (pause * 2).min(LONGEST_PAUSE);
                    }
                    handed_in => return handed_in,
                }
            }
        });
        if held.lost {
            // Handed in, or taken away: either way it is decided what becomes of it.
            return Ok(());
        }
        held.given
    }

    fn hand_in_now(
        &self,
        claim: &Claim,
        report: &Report,
        used: Amount,
        enough: &Stop,
    ) -> Result<(), Error> {
        let executed = claim.phase() == Phase::Execute && report.outcome == Outcome::Done;
        self.settle_lost_runs(claim, report)?;
        if executed && claim.end_at_once(&result(report), used, self.lease)? {
            return Ok(());
        }
        self.settle(claim, used)?;
        claim.hand_in(report, &claim.call().until(enough))?;
        Ok(())
    }
}

impl Claim {
    /// Hands in what an actor reports. What it says and its sandbox does not bear out is a failure of its own.
    pub(crate) fn hand_in(&self, report: &Report, call: &Call) -> Result<Done, Error> {
        let (lifecycle, plan, epoch) = (&self.lifecycle, self.plan().id, self.epoch());
        let phase = self.phase();
        if report.outcome != Outcome::Done {
            self.remember_ignored();
        }
        let handed_in = match &report.outcome {
            Outcome::Stopped => lifecycle.release(plan, epoch, call),
            Outcome::Failed { category, message } => {
                let (category, message) = self.blamed(*category, message.clone());
                lifecycle.fail(plan, epoch, category, &shortened(&message), call)
            }
            Outcome::Asks { question, patience } => {
                lifecycle.ask(plan, epoch, &shortened(question), *patience, call)
            }
            Outcome::Done if phase == Phase::Strategize => {
                lifecycle.complete_strategize(plan, epoch, strategy(report), call)
            }
            Outcome::Done => lifecycle.complete_execute(plan, epoch, &result(report), call),
        };
        let mut category = Category::Actor;
        let why = match handed_in {
            Ok(done) => return Ok(done),
            // Its rules could not be asked to the end; what it made stays where it is.
            Err(Error::Stopped) => return lifecycle.release(plan, epoch, call),
            // Success needs evidence.
            Err(Error::Refused(Refusal::EmptyResult)) => changed_nothing(report),
            Err(Error::Refused(
                refusal @ (Refusal::ReadOnly(_)
                | Refusal::BadDecision { .. }
                | Refusal::BadText { .. }),
            )) => refusal.to_string(),
            Err(Error::Sandbox(error)) if error.is_uncapturable() => error.to_string(),
            Err(Error::Sandbox(error)) => {
                category = Category::Resource;
                error.to_string()
            }
            Err(error) => return Err(error),
        };
        self.remember_ignored();
        let (category, why) = self.blamed(category, why);
        lifecycle.fail(plan, epoch, category, &shortened(&why), call)
    }

    /// Remembers which ignored files an agent made whose work is not captured: the next run may add them. Without
    /// that they count as not the agent's, and stay out.
    fn remember_ignored(&self) {
        let (Ok(hands), Ok(sites)) = (self.lifecycle.hands(), self.lifecycle.sites(self.plan()))
        else {
            return;
        };
        for site in &sites {
            let room = Room {
                plan: self.plan().id,
                site,
            };
            let _ = hands.workshop.remember_ignored(&room, self.epoch());
        }
    }

    /// What went wrong, by where it came from: whoever works on a repository that goes missing fails over
    /// it in ways of their own, and is not to blame.
    fn blamed(&self, category: Category, said: String) -> (Category, String) {
        match self.lifecycle.check_places(self.plan()) {
            Err(Error::Sandbox(gone)) => (Category::Resource, format!("{gone}\n{said}")),
            Ok(()) | Err(_) => (category, said),
        }
    }
}

/// An agent that says it is done and changed nothing mostly says why in its last words.
fn changed_nothing(report: &Report) -> String {
    let text = "the agent said it was done, and changed nothing";
    match report.last_words() {
        Some(words) => format!("{text}; it said last: {words}"),
        None => text.to_owned(),
    }
}

/// What was made, as far as it was said.
fn result(report: &Report) -> ResultContent {
    let summary = report.summary.as_ref();
    ResultContent {
        report: summary.map(|text| Text::Known(shortened(text))),
        trees: Vec::new(),
    }
}

/// What was decided; without decisions, what was said is one.
fn strategy(report: &Report) -> Vec<ReportedDecision> {
    let (decisions, summary) = (&report.decisions, &report.summary);
    let said = summary.as_ref();
    let said = said.filter(|text| decisions.is_empty() && !text.trim().is_empty());
    let Some(said) = said else {
        return decisions.clone();
    };
    vec![ReportedDecision {
        kind: DecisionKind::StrategyChoice,
        question: "How is it to be done?".to_owned(),
        choice: shortened(said),
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
pub(super) fn shortened(text: &str) -> String {
    const MOST: usize = Text::MAX_BYTES / 2;
    let text = text.replace('\0', "");
    let text = text.trim();
    if text.is_empty() {
        return "(nothing was said)".to_owned();
    }
    if text.len() <= MOST {
        return text.to_owned();
    }
    let head = text.floor_char_boundary(MOST / 2);
    let tail = text.ceil_char_boundary(text.len() - MOST / 2);
    format!("{}\n[…]\n{}", &text[..head], &text[tail..])
}

fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
