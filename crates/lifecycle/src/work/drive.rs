//! Driving: one plan from where it stands as far as it goes without a person.

use actors::{RunProgress, Stop};
use plan::decide::{EngineStep, IdleReason, next_engine_step};
use plan::ledger::BudgetShortfall;
use plan::plan::ResultRemedy;
use plan::{Caller, Phase, Plan, PlanId, QualifiedName, Refusal, Span};
use store::PlanRow;

use super::ActorSet;
use super::run::shorten_text;
use crate::{Call, LandingOutcome, Lifecycle, LifecycleError};

/// How many steps are taken at most, others being faster included, before this is given up for now.
const MAX_DRIVE_STEPS: usize = 64;

/// Takes plans further, one at a time.
pub struct PlanDriver<'a> {
    /// The engine.
    pub lifecycle: &'a Lifecycle,
    /// Who can work.
    pub actor_set: &'a ActorSet,
    /// The name the holder gives itself. It is signed in under it, so that others see when it is gone.
    pub owner: &'a str,
    /// For how long a claim holds without a renewal.
    pub lease: Span,
    /// Asked to stop?
    pub stop: &'a Stop,
    /// Who wants to know how it goes.
    pub on_progress: &'a (dyn Fn(&Plan, &DriveProgress) + Send + Sync),
}

/// How driving goes.
#[derive(Debug, Clone, PartialEq)]
pub enum DriveProgress {
    /// An actor starts to work on a phase.
    ActorStarted {
        /// Who.
        actor: QualifiedName,
        /// On what.
        phase: Phase,
    },
    /// How it goes.
    ActorProgress(RunProgress),
    /// Four fifths of what it may use are gone: how much of what, for people.
    NearLimit(String),
    /// The result is being brought in.
    LandingStarted,
    /// What came of that.
    LandingEnded(Box<LandingOutcome>),
    /// Its result does not meet its rules, and it goes back by itself.
    SentBack(ResultRemedy),
    /// It goes no further without a person, or has ended.
    Idle,
    /// Something cannot be done yet that is not the plan's fault, and is tried again.
    Retrying(String),
    /// Something went wrong that is not the plan's fault.
    EngineFailure(String),
}

/// Why a plan goes no further for now.
#[derive(Debug)]
pub enum DriveOutcome {
    /// There is nothing to do for this reason.
    Idle(IdleReason),
    /// A gate does not open; nothing changed since it was last judged.
    Blocked,
    /// Nobody of the crew can work on it.
    NoActor(QualifiedName),
    /// Its resources are elsewhere, its project is paused or gone.
    Unreachable(LifecycleError),
    /// What it could use is set aside for others at work.
    OverBudget(BudgetShortfall),
    /// It was asked to stop.
    Stopped,
}

impl PlanDriver<'_> {
    /// Takes a plan as far as it goes. A person who asks for it has asked for its next step, and for no
    /// other: what comes after that is for the plan's profile to say.
    pub fn drive_plan(
        &self,
        plan_id: PlanId,
        requested_by: Option<&Caller>,
    ) -> Result<DriveOutcome, LifecycleError> {
        let worker = Caller::Worker(self.owner.to_owned());
        let mut requester = requested_by;
        for _ in 0..MAX_DRIVE_STEPS {
            if self.stop.is_requested() {
                return Ok(DriveOutcome::Stopped);
            }
            let row = self.lifecycle.get_plan(plan_id)?;
            let now = self.lifecycle.store.now()?;
            let caller = requester.unwrap_or(&worker);
            let step = next_engine_step(&row.plan, caller, now);
            if let EngineStep::Idle(reason) = step {
                if let IdleReason::NeedsPerson | IdleReason::Ended = reason {
                    (self.on_progress)(&row.plan, &DriveProgress::Idle);
                }
                return Ok(DriveOutcome::Idle(reason));
            }
            if requester.is_none() && self.is_still_blocked(&row)? {
                return Ok(DriveOutcome::Blocked);
            }
            let call = Call::by(caller.clone()).with_stop(self.stop);
            match self.perform_step(&row.plan, step, &call) {
                Ok(None) => requester = None,
                Ok(Some(outcome)) => return Ok(outcome),
                Err(LifecycleError::Blocked(_)) if requester.is_none() => {
                    (self.on_progress)(&row.plan, &DriveProgress::Idle);
                    return Ok(DriveOutcome::Blocked);
                }
                Err(
                    error @ (LifecycleError::NoLocalHost
                    | LifecycleError::WaitingForHost { .. }
                    | LifecycleError::Refused(
                        Refusal::ProjectPaused { .. } | Refusal::NoSuchProject(_),
                    )),
                ) => return Ok(DriveOutcome::Unreachable(error)),
                // Somebody was faster; what is to be done now is asked anew.
                Err(LifecycleError::Refused(refusal)) if is_overtaken(&refusal) => {}
                // It was given back; that it shall stop is seen above.
                Err(LifecycleError::Stopped) => {}
                // The plan itself says what went wrong.
                Err(LifecycleError::Sandbox(_)) if self.has_halted(plan_id)? => requester = None,
                Err(error) => {
                    (self.on_progress)(&row.plan, &DriveProgress::EngineFailure(error.to_string()));
                    return Err(error);
                }
            }
        }
        Ok(DriveOutcome::Idle(IdleReason::Held))
    }

    fn perform_step(
        &self,
        plan: &Plan,
        step: EngineStep,
        call: &Call,
    ) -> Result<Option<DriveOutcome>, LifecycleError> {
        let (lifecycle, plan_id) = (self.lifecycle, plan.id);
        match step {
            EngineStep::Idle(reason) => return Ok(Some(DriveOutcome::Idle(reason))),
            // Whoever asked for it to go on, it is the engine that sends it back: it counts how often.
            EngineStep::Remedy(remedy) => self.send_back(plan, remedy)?,
            EngineStep::ExpireQuestion => {
                lifecycle.expire_question(plan_id, call)?;
            }
            EngineStep::Enter(Phase::Apply) => {
                lifecycle.apply_plan(plan_id, call)?;
            }
            EngineStep::Enter(Phase::Strategize | Phase::Execute) => {
                lifecycle.execute_plan(plan_id, call)?;
            }
            EngineStep::Claim(Phase::Apply) => {
                (self.on_progress)(plan, &DriveProgress::LandingStarted);
                let claim = lifecycle.start_apply(plan_id, self.owner, self.lease, call)?;
                let landed = lifecycle.drive_landing(&claim)?;
                (self.on_progress)(plan, &DriveProgress::LandingEnded(Box::new(landed)));
            }
            EngineStep::Claim(phase) => {
                let Some(actor) = self.actor_set.find_actor(plan, phase) else {
                    return Ok(plan
                        .actor_for_phase(phase)
                        .cloned()
                        .map(DriveOutcome::NoActor));
                };
                return self.claim_and_work(plan, phase, &actor, call);
            }
        }
        Ok(None)
    }

    /// Does something about a result that does not meet its rules.
    fn send_back(&self, plan: &Plan, remedy: ResultRemedy) -> Result<(), LifecycleError> {
        let findings = describe_unmet_rules(plan);
        let call = Call::by(Caller::Worker(self.owner.to_owned()));
        (self.on_progress)(plan, &DriveProgress::SentBack(remedy));
        match remedy {
            ResultRemedy::Fix => {
                self.lifecycle
                    .revise_plan(plan.id, &findings, Vec::new(), &call)?
            }
            ResultRemedy::Revert => self
                .lifecycle
                .revert_to_strategize(plan.id, &findings, &call)?,
        };
        Ok(())
    }

    /// Did what went wrong halt the plan, to wait for a person or to be tried again later?
    fn has_halted(&self, plan_id: PlanId) -> Result<bool, LifecycleError> {
        let row = self.lifecycle.get_plan(plan_id)?;
        let now = self.lifecycle.store.now()?;
        let worker = Caller::Worker(self.owner.to_owned());
        Ok(match next_engine_step(&row.plan, &worker, now) {
            EngineStep::Idle(
                IdleReason::NeedsPerson | IdleReason::NotDue(_) | IdleReason::Ended,
            ) => true,
            EngineStep::Idle(IdleReason::Held)
            | EngineStep::Claim(_)
            | EngineStep::Enter(_)
            | EngineStep::Remedy(_)
            | EngineStep::ExpireQuestion => false,
        })
    }

    /// A gate held it as it stands, by the rules as they stand.
    fn is_still_blocked(&self, row: &PlanRow) -> Result<bool, LifecycleError> {
        let Some(verdict) = row.current_verdict() else {
            return Ok(false);
        };
        let tips = self.lifecycle.read_targets(&row.plan, verdict.gate)?.tips;
        let rules = self.lifecycle.rules_for_plan(&row.plan)?;
        Ok(rules.revisions == verdict.revisions && tips == verdict.tips)
    }
}

/// What is wrong with a result, for whoever is to mend it.
fn describe_unmet_rules(plan: &Plan) -> String {
    let mut text = "These rules are not met by the result:".to_owned();
    for unmet in plan.unmet_rules() {
        text.push_str(&format!("\n\n- {}: {}", unmet.rule.name, unmet.evidence));
    }
    shorten_text(&text)
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
