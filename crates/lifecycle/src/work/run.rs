//! One run: an actor works on a claim, and what it gives is handed in. What it says is a claim of its
//! own; the result is read from the sandbox.

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;

use actors::{Actor, Outcome, Report, Stop, Workplace};
use plan::decision::{DecisionKind, ReportedDecision};
use plan::ledger::{Amount, Grant};
use plan::stage::{Category, ResultContent};
use plan::{Phase, Refusal, Text, Timestamp};
use sandbox::{Room, RunRecord, SandboxError};

use super::drive::{Drive, Happening};
use super::hold::{Held, holding};
use super::meter::Meter;
use crate::{Claim, Error};

impl Drive<'_> {
    /// Has an actor work on a claim with what it may use, and hands in what came of it.
    ///
    /// What was used is charged before that: between the two nothing can be lost, for what is charged is
    /// charged once, and a result that was not handed in is worked on again.
    pub(super) fn work_on(
        &self,
        claim: Claim,
        actor: &dyn Actor,
        grant: Grant,
    ) -> Result<(), Error> {
        let (lifecycle, plan, epoch, call) =
            (self.lifecycle, claim.plan().id, claim.epoch(), claim.call());
        let stop = Stop::default();
        let meter = Meter::new(grant, stop.clone());
        let held = match self.run(&claim, actor, &meter, &stop) {
            Ok(held) => held,
            // A store that is away for a moment is no plan's fault; the lease will tell.
            Err(error @ (Error::Store(_) | Error::Unknown(_))) => return Err(error),
            Err(error) => {
                // The plan halts with the reason; nobody could have worked on it like this.
                lifecycle.settle(plan, epoch, Amount::default(), &call)?;
                claim.fail(Category::Resource, &shortened(&error.to_string()))?;
                return Ok(());
            }
        };
        lifecycle.settle(plan, epoch, meter.used(held.given.usage), &call)?;
        if held.lost {
            // Whoever took it away decided what becomes of it; the sandbox is left as it is.
            return Ok(());
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
        self.hand_in(claim, report)
    }

    fn run(
        &self,
        claim: &Claim,
        actor: &dyn Actor,
        meter: &Meter,
        stop: &Stop,
    ) -> Result<Held<Report>, Error> {
        let plan = claim.plan();
        let assignment = self.lifecycle.assignment(claim)?;
        let began = self.lifecycle.store.now()?;
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
        let warn = |warnings: Vec<String>| {
            for warning in warnings {
                (self.tell)(plan, &Happening::NearLimit(warning));
            }
        };
        let progress = |progress: actors::Progress| {
            if let actors::Progress::Began { isolation: how } = &progress {
                *lock(&isolation) = Some(how.clone());
            }
            if let actors::Progress::Used(usage) = &progress {
                warn(meter.tell(*usage));
            }
            (self.tell)(plan, &Happening::Progress(progress));
        };
        let workplace = Workplace {
            run: run.clone(),
            readable,
            locks,
            time: plan.limits.timeout.map(as_duration),
            strategy_wanted: plan.strategy_wanted,
            stop: stop.clone(),
            progress: &progress,
        };
        let look = || warn(meter.look());
        let held = holding(claim, self.lease, self.stop, stop, &look, || {
            let work = AssertUnwindSafe(|| actor.work(&assignment, &workplace));
            std::panic::catch_unwind(work).unwrap_or_else(|_| {
                Report::failed(
                    Category::Internal,
                    "the actor panicked; its program has a defect",
                )
            })
        });
        let isolation = lock(&isolation).take();
        self.record(claim, &held.given, &run, began, isolation);
        Ok(held)
    }

    /// Remembers the run. What cannot be remembered is missed in `log`, and nothing else.
    fn record(
        &self,
        claim: &Claim,
        report: &Report,
        run: &std::path::Path,
        began: Timestamp,
        isolation: Option<String>,
    ) {
        let (plan, phase) = (claim.plan(), claim.phase());
        let (Some(hands), Some(actor)) = (&self.lifecycle.hands, plan.actor_in(phase)) else {
            return;
        };
        let record = RunRecord {
            actor: actor.clone(),
            phase,
            began,
            ended: self.lifecycle.store.now().unwrap_or(began),
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

    fn hand_in(&self, claim: Claim, report: Report) -> Result<(), Error> {
        let (lifecycle, plan, epoch) = (self.lifecycle, claim.plan().id, claim.epoch());
        let (phase, call) = (claim.phase(), claim.call());
        let handed_in = match report.outcome {
            Outcome::Stopped => claim.release(),
            Outcome::Failed { category, message } => claim.fail(category, &shortened(&message)),
            Outcome::Asks { question, patience } => claim.ask(&shortened(&question), patience),
            Outcome::Done if phase == Phase::Strategize => {
                claim.complete_strategize(strategy(report.decisions, report.summary))
            }
            Outcome::Done => {
                let summary = report.summary.map(|text| Text::Known(shortened(&text)));
                claim.complete_execute(&ResultContent {
                    report: summary,
                    trees: Vec::new(),
                })
            }
        };
        let mut category = Category::Actor;
        let why = match handed_in {
            Ok(_) => return Ok(()),
            // Success needs evidence.
            Err(Error::Refused(Refusal::EmptyResult)) => {
                "the agent said it was done, and changed nothing".to_owned()
            }
            Err(Error::Refused(
                refusal @ (Refusal::ReadOnly(_)
                | Refusal::BadDecision { .. }
                | Refusal::BadText { .. }),
            )) => refusal.to_string(),
            Err(Error::Sandbox(error @ SandboxError::Uncapturable { .. })) => error.to_string(),
            Err(Error::Sandbox(error)) => {
                category = Category::Resource;
                error.to_string()
            }
            Err(error) => return Err(error),
        };
        lifecycle.fail(plan, epoch, category, &shortened(&why), &call)?;
        Ok(())
    }
}

/// What was decided; without decisions, what was said is one.
fn strategy(decisions: Vec<ReportedDecision>, summary: Option<String>) -> Vec<ReportedDecision> {
    let said = summary.filter(|text| decisions.is_empty() && !text.trim().is_empty());
    let Some(said) = said else {
        return decisions;
    };
    vec![ReportedDecision {
        kind: DecisionKind::StrategyChoice,
        question: "How is it to be done?".to_owned(),
        choice: shortened(&said),
        alternatives: Vec::new(),
        rationale: None,
        confidence: None,
        parent: None,
    }]
}

/// What can be stored of a text: not more than fits, nothing that no store holds.
fn shortened(text: &str) -> String {
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

fn as_duration(span: plan::Span) -> std::time::Duration {
    std::time::Duration::from_micros(u64::try_from(span.0).unwrap_or(0))
}

fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
