//! Advances one plan step by step until it ends or needs a person.

use actors::Stop;
use plan::command::{ExpireQuestion, RevertPlan};
use plan::decide::{EngineStep, IdleReason, next_engine_step};
use plan::ledger::BudgetShortfall;
use plan::plan::ResultRemedy;
use plan::transcript::TranscriptEntry;
use plan::{Caller, Phase, Plan, PlanId, QualifiedName, Refusal, Span};
use store::PlanRow;

use super::ActorSet;
use super::run::shorten_text;
use crate::{Call, LandingOutcome, Lifecycle, LifecycleError};

/// The maximum number of steps in one drive, including those that another holder did first.
const MAX_DRIVE_STEPS: usize = 64;

/// Advances plans, one at a time.
pub struct PlanDriver<'a> {
    pub lifecycle: &'a Lifecycle,
    pub actor_set: &'a ActorSet,
    /// The holder's name. The caller registers its presence under it, so that others notice when it dies.
    pub owner: &'a str,
    pub lease: Span,
    /// Stops the drive and its actor when requested.
    pub stop: &'a Stop,
    pub on_progress: &'a (dyn Fn(&Plan, &DriveProgress) + Send + Sync),
}

/// Progress of a drive.
#[derive(Debug, Clone, PartialEq)]
pub enum DriveProgress {
    ActorStarted {
        actor: QualifiedName,
        phase: Phase,
    },
    /// The agent's program runs, confined like this.
    AgentRunning {
        isolation: String,
    },
    /// What the agent says and does.
    AgentEntry(TranscriptEntry),
    /// 80 % of a limit is used. The text names the amount and the limit.
    NearLimit(String),
    LandingStarted,
    LandingEnded(Box<LandingOutcome>),
    /// The result breaks a rule, so the engine sends the plan back by itself.
    SentBack(ResultRemedy),
    /// The plan needs a person, or has ended.
    Idle,
    /// The engine retries after a failure that is not the plan's fault.
    Retrying(String),
    /// The drive ended with a failure that is not the plan's fault.
    EngineFailure(String),
}

/// Why a drive ended.
#[derive(Debug)]
pub enum DriveOutcome {
    Idle(IdleReason),
    /// A gate is closed, and nothing has changed since it was last judged.
    Blocked,
    /// This actor cannot run here.
    NoActor(QualifiedName),
    /// The resources are on another host, or the project is paused or deleted.
    Unreachable(LifecycleError),
    /// The remaining budget is reserved by other plans.
    OverBudget(BudgetShortfall),
    Stopped,
}

impl PlanDriver<'_> {
    /// Advances a plan until it ends or needs a person. The requester only authorizes the next step; the
    /// plan's profile decides about later steps.
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
                // The request to land is stale: rules changed after the approval, so a person has to look again.
                Err(LifecycleError::Refused(Refusal::ApprovalVoid(_))) if requester.is_none() => {
                    (self.on_progress)(&row.plan, &DriveProgress::Idle);
                    return Ok(DriveOutcome::Blocked);
                }
                // Another holder was faster. Read the plan again and find its next step.
                Err(LifecycleError::Refused(refusal)) if is_overtaken(&refusal) => {}
                // The claim was released. The stop is handled at the top of the loop.
                Err(LifecycleError::Stopped) => {}
                // The failure is stored in the plan, so this drive did not fail.
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
        let (lifecycle, plan_id) = (self.lifecycle, plan.id());
        match step {
            EngineStep::Idle(reason) => return Ok(Some(DriveOutcome::Idle(reason))),
            // The engine sends it back in its own name, even for a person: these are counted.
            EngineStep::Remedy(remedy) => self.send_back(plan, remedy)?,
            EngineStep::ExpireQuestion => {
                lifecycle.submit_command(plan_id, ExpireQuestion, call)?;
            }
            EngineStep::Enter(Phase::Apply) => {
                lifecycle.apply_plan(plan_id, call)?;
            }
            EngineStep::Enter(Phase::Strategize | Phase::Execute) => {
                lifecycle.execute_plan(plan_id, call)?;
            }
            EngineStep::Claim(Phase::Apply) => {
                (self.on_progress)(plan, &DriveProgress::LandingStarted);
                let claim = lifecycle
                    .claims()
                    .start_apply(plan_id, self.owner, self.lease, call)?;
                let landed = lifecycle.landing().drive_landing(&claim)?;
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

    /// Sends a result that breaks rules back to be fixed, or back to strategize.
    fn send_back(&self, plan: &Plan, remedy: ResultRemedy) -> Result<(), LifecycleError> {
        let findings = describe_unmet_rules(plan);
        let call = Call::by(Caller::Worker(self.owner.to_owned()));
        (self.on_progress)(plan, &DriveProgress::SentBack(remedy));
        match remedy {
            ResultRemedy::Fix => {
                self.lifecycle
                    .revise_plan(plan.id(), &findings, Vec::new(), &call)?
            }
            ResultRemedy::Revert => self.lifecycle.submit_command(
                plan.id(),
                RevertPlan::new(findings.clone()),
                &call,
            )?,
        };
        Ok(())
    }

    /// Does the plan now wait for a person or for a later retry?
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

    /// Did a gate block this version of the plan, with unchanged rules and targets?
    fn is_still_blocked(&self, row: &PlanRow) -> Result<bool, LifecycleError> {
        let Some(verdict) = row.current_verdict() else {
            return Ok(false);
        };
        let tips = self
            .lifecycle
            .gates()
            .read_targets(&row.plan, verdict.gate)?
            .tips;
        let rules = self.lifecycle.rules().rules_for_plan(&row.plan)?;
        Ok(rules.revisions == verdict.revisions && tips == verdict.tips)
    }
}

/// Feedback for the actor that has to fix the result.
fn describe_unmet_rules(plan: &Plan) -> String {
    let mut text = "The result does not meet these rules:".to_owned();
    for unmet in plan.unmet_rules() {
        text.push_str(&format!("\n\n- {}: {}", unmet.rule.name, unmet.evidence));
    }
    shorten_text(&text)
}

/// Does the refusal only mean that the plan changed since it was read?
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
