//! Driving: one plan from where it stands as far as it goes without a person.

use actors::{Progress, Stop};
use plan::decide::{Next, Rest, next};
use plan::ledger::Over;
use plan::plan::Remedy;
use plan::{Caller, Name, Phase, Plan, PlanId, Refusal, Span};
use store::PlanRow;

use super::Crew;
use super::run::shortened;
use crate::{Call, Driven, Error, Lifecycle};

/// How many steps are taken at most, others being faster included, before this is given up for now.
const MOST_STEPS: usize = 64;

/// Takes plans further, one at a time.
pub struct Drive<'a> {
    /// The engine.
    pub lifecycle: &'a Lifecycle,
    /// Who can work.
    pub crew: &'a Crew,
    /// The name the holder gives itself. It is signed in under it, so that others see when it is gone.
    pub owner: &'a str,
    /// For how long a claim holds without a renewal.
    pub lease: Span,
    /// Asked to stop?
    pub stop: &'a Stop,
    /// Who wants to know how it goes.
    pub tell: &'a (dyn Fn(&Plan, &Happening) + Send + Sync),
}

/// How driving goes.
#[derive(Debug, Clone, PartialEq)]
pub enum Happening {
    /// An actor starts to work on a phase.
    Works {
        /// Who.
        actor: Name,
        /// On what.
        phase: Phase,
    },
    /// How it goes.
    Progress(Progress),
    /// Four fifths of what it may use are gone: how much of what, for people.
    NearLimit(String),
    /// The result is being brought in.
    Lands,
    /// What came of that.
    Landed(Box<Driven>),
    /// Its result does not meet its rules, and it goes back by itself.
    SentBack(Remedy),
    /// It goes no further without a person, or has ended.
    Rests,
    /// Something cannot be done yet that is not the plan's fault, and is tried again.
    Retries(String),
    /// Something went wrong that is not the plan's fault.
    Trouble(String),
}

/// Why a plan goes no further for now.
#[derive(Debug)]
pub enum Rested {
    /// There is nothing to do for this reason.
    Rests(Rest),
    /// A gate does not open; nothing changed since it was last judged.
    Blocked,
    /// Nobody of the crew can work on it.
    NobodyFor(Name),
    /// Its resources are elsewhere, its project is paused or gone.
    Unreachable(Error),
    /// What it could use is set aside for others at work.
    OverBudget(Over),
    /// It was asked to stop.
    Stopped,
}

impl Drive<'_> {
    /// Takes a plan as far as it goes. A person who asks for it has asked for its next step, and for no
    /// other: what comes after that is for the plan's profile to say.
    pub fn go(&self, plan: PlanId, asks: Option<&Caller>) -> Result<Rested, Error> {
        let worker = Caller::Worker(self.owner.to_owned());
        let mut asks = asks;
        for _ in 0..MOST_STEPS {
            if self.stop.is_asked() {
                return Ok(Rested::Stopped);
            }
            let row = self.lifecycle.get_plan(plan)?;
            let now = self.lifecycle.store.now()?;
            let by = asks.unwrap_or(&worker);
            let step = next(&row.plan, by, now);
            if let Next::Rest(rest) = step {
                if let Rest::Person | Rest::Over = rest {
                    (self.tell)(&row.plan, &Happening::Rests);
                }
                return Ok(Rested::Rests(rest));
            }
            if asks.is_none() && self.is_still_blocked(&row)? {
                return Ok(Rested::Blocked);
            }
            let call = Call::by(by.clone()).until(self.stop);
            match self.step(&row.plan, step, &call) {
                Ok(None) => asks = None,
                Ok(Some(rested)) => return Ok(rested),
                Err(Error::Blocked(_)) if asks.is_none() => {
                    (self.tell)(&row.plan, &Happening::Rests);
                    return Ok(Rested::Blocked);
                }
                Err(
                    error @ (Error::NoHands
                    | Error::WaitingForHost { .. }
                    | Error::Refused(
                        Refusal::ProjectPaused { .. } | Refusal::NoSuchProject(_),
                    )),
                ) => return Ok(Rested::Unreachable(error)),
                // Somebody was faster; what is to be done now is asked anew.
                Err(Error::Refused(refusal)) if is_overtaken(&refusal) => {}
                // It was given back; that it shall stop is seen above.
                Err(Error::Stopped) => {}
                // The plan itself says what went wrong.
                Err(Error::Sandbox(_)) if self.has_halted(plan)? => asks = None,
                Err(error) => {
                    (self.tell)(&row.plan, &Happening::Trouble(error.to_string()));
                    return Err(error);
                }
            }
        }
        Ok(Rested::Rests(Rest::Held))
    }

    fn step(&self, plan: &Plan, step: Next, call: &Call) -> Result<Option<Rested>, Error> {
        let (lifecycle, id) = (self.lifecycle, plan.id);
        match step {
            Next::Rest(rest) => return Ok(Some(Rested::Rests(rest))),
            // Whoever asked for it to go on, it is the engine that sends it back: it counts how often.
            Next::Mend(remedy) => self.mend(plan, remedy)?,
            Next::ExpireQuestion => {
                lifecycle.expire_question(id, call)?;
            }
            Next::Enter(Phase::Apply) => {
                lifecycle.apply_plan(id, call)?;
            }
            Next::Enter(Phase::Strategize | Phase::Execute) => {
                lifecycle.execute_plan(id, call)?;
            }
            Next::Claim(Phase::Apply) => {
                (self.tell)(plan, &Happening::Lands);
                let claim = lifecycle.start_apply(id, self.owner, self.lease, call)?;
                let landed = lifecycle.drive_apply(&claim)?;
                (self.tell)(plan, &Happening::Landed(Box::new(landed)));
            }
            Next::Claim(phase) => {
                let Some(actor) = self.crew.member(plan, phase) else {
                    return Ok(plan.actor_in(phase).cloned().map(Rested::NobodyFor));
                };
                return self.claim(plan, phase, &actor, call);
            }
        }
        Ok(None)
    }

    /// Does something about a result that does not meet its rules.
    fn mend(&self, plan: &Plan, remedy: Remedy) -> Result<(), Error> {
        let found = findings(plan);
        let call = Call::by(Caller::Worker(self.owner.to_owned()));
        (self.tell)(plan, &Happening::SentBack(remedy));
        match remedy {
            Remedy::Fix => self.lifecycle.revise(plan.id, &found, Vec::new(), &call)?,
            Remedy::Revert => self.lifecycle.revert(plan.id, &found, &call)?,
        };
        Ok(())
    }

    /// Did what went wrong halt the plan, to wait for a person or to be tried again later?
    fn has_halted(&self, plan: PlanId) -> Result<bool, Error> {
        let row = self.lifecycle.get_plan(plan)?;
        let now = self.lifecycle.store.now()?;
        let worker = Caller::Worker(self.owner.to_owned());
        Ok(match next(&row.plan, &worker, now) {
            Next::Rest(Rest::Person | Rest::NotDue(_) | Rest::Over) => true,
            Next::Rest(Rest::Held)
            | Next::Claim(_)
            | Next::Enter(_)
            | Next::Mend(_)
            | Next::ExpireQuestion => false,
        })
    }

    /// A gate held it as it stands, by the rules as they stand.
    fn is_still_blocked(&self, row: &PlanRow) -> Result<bool, Error> {
        let Some(verdict) = row.verdict_now() else {
            return Ok(false);
        };
        let tips = self.lifecycle.targets_of(&row.plan, verdict.gate)?.tips;
        let rules = self.lifecycle.rules_of(&row.plan)?;
        Ok(rules.revisions == verdict.revisions && tips == verdict.tips)
    }
}

/// What is wrong with a result, for whoever is to mend it.
fn findings(plan: &Plan) -> String {
    let mut text = "These rules are not met by the result:".to_owned();
    for unmet in plan.unmet() {
        text.push_str(&format!("\n\n- {}: {}", unmet.rule.name, unmet.evidence));
    }
    shortened(&text)
}

/// Is it only that the plan is not where it was a moment ago?
fn is_overtaken(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::Held { .. }
            | Refusal::WrongState { .. }
            | Refusal::Fenced { .. }
            | Refusal::Final { .. }
            | Refusal::NotDue { .. }
            | Refusal::QuestionOpen
            | Refusal::JudgementStale { .. }
            | Refusal::LeaseRuns { .. }
    )
}
