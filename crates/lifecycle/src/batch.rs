//! Submits several commands as one commit: a result together with the claim of the next phase.
//!
//! A batch cannot check rules, because rules judge stored state. If rules apply, or a batch is refused for
//! another reason, the same commands are submitted one by one.

use plan::command::{
    ApplyPlan, ClaimPhase, CompleteApply, CompleteExecute, CompleteStrategize, ExecutePlan,
    SettleUsage,
};
use plan::decide::decide_batch;
use plan::decision::ReportedDecision;
use plan::invariant::Gate;
use plan::judgement::GateJudgement;
use plan::ledger::BudgetAmount;
use plan::reads::CommandTarget;
use plan::stage::ResultContent;
use plan::{Command, DecisionRequest, Phase, Refusal, Span};
use store::{CommitOutcome, ReadSet, Submission};

use crate::{Call, Claim, Lifecycle, LifecycleError, OperationOutcome};

/// What happened after a result was submitted.
pub enum NextPhase {
    Claimed(Box<Claim>),
    /// The result is stored. The next phase needs a person, or a rule blocks it.
    Waits(OperationOutcome),
    /// The plan ended: it had nothing to land.
    Landed(OperationOutcome),
}

/// Decides the commands in order and commits all of them, or none.
pub(crate) fn submit_batch(
    lifecycle: &Lifecycle,
    target: &CommandTarget,
    commands: Vec<Command>,
    call: &Call,
) -> Result<CommitOutcome, LifecycleError> {
    let reads = commands
        .iter()
        .map(|command| command.reads(target))
        .fold(ReadSet::default(), ReadSet::merge_with);
    let requests: Vec<DecisionRequest> = commands
        .into_iter()
        .map(|command| DecisionRequest {
            command,
            plan_id: target.plan_id,
            caller: call.caller.clone(),
            if_version: None,
        })
        .collect();
    Ok(lifecycle.store.commit(Submission {
        id: lifecycle.ids.new_command_id(),
        key: None,
        reads,
        decide: Box::new(move |facts, now| decide_batch(facts, &requests, now)),
    })?)
}

impl Claim {
    /// Submits the strategy and claims execute, unless a person or a rule has to be asked first.
    pub fn complete_strategize_and_continue(
        mut self,
        decisions: Vec<ReportedDecision>,
        lease: Span,
    ) -> Result<NextPhase, LifecycleError> {
        let (lifecycle, call, plan_id) =
            (self.lifecycle.clone(), self.call(), self.outcome.plan.id());
        let owner = self.owner();
        let commands = vec![
            Command::from(CompleteStrategize::new(self.epoch(), decisions.clone())),
            Command::from(ExecutePlan {
                judgement: empty_judgement(),
            }),
            start_command(Phase::Execute, &owner, lease),
        ];
        let targets = lifecycle
            .gates()
            .read_targets(&self.outcome.plan, Gate::Execute)?;
        let submitted = match targets.rules.is_empty() {
            true => submit_batch(
                &lifecycle,
                &CommandTarget::for_plan(&self.outcome.plan),
                commands,
                &call,
            ),
            false => Err(stale_judgement()),
        };
        match submitted {
            Ok(committed) => {
                // The next claim takes over the sandboxes, which requires that their locks are free.
                self.sandbox_locks.clear();
                return Ok(NextPhase::Claimed(Box::new(
                    lifecycle.claims().claim_from_commit(committed, &call)?,
                )));
            }
            Err(LifecycleError::Refused(_)) => {}
            Err(error) => return Err(error),
        }
        let done = self.complete_strategize(decisions)?;
        let next = lifecycle.execute_plan(plan_id, &call).and_then(|_| {
            lifecycle
                .claims()
                .start_execute(plan_id, &owner, lease, &call)
        });
        match next {
            Ok(claim) => Ok(NextPhase::Claimed(Box::new(claim))),
            Err(LifecycleError::Refused(_) | LifecycleError::Blocked(_)) => {
                Ok(NextPhase::Waits(done))
            }
            Err(error) => Err(error),
        }
    }

    /// Submits the result. Also completes the plan if it has nothing to land and no person or rule has to be
    /// asked.
    pub fn complete_execute_and_continue(
        self,
        result: &ResultContent,
        lease: Span,
    ) -> Result<NextPhase, LifecycleError> {
        if !self.outcome.plan.resources().is_empty() {
            return self.complete_execute(result).map(NextPhase::Waits);
        }
        let (lifecycle, call, plan_id) =
            (self.lifecycle.clone(), self.call(), self.outcome.plan.id());
        let owner = self.owner();
        let commands = self.completion_commands(result, lease);
        let target = CommandTarget::for_plan(&self.outcome.plan);
        match submit_batch(&lifecycle, &target, commands, &call) {
            Ok(committed) => return lifecycle.read_outcome(committed).map(NextPhase::Landed),
            Err(LifecycleError::Refused(_)) => {}
            Err(error) => return Err(error),
        }
        let done = self.complete_execute(result)?;
        let next = lifecycle
            .apply_plan(plan_id, &call)
            .and_then(|_| {
                lifecycle
                    .claims()
                    .start_apply(plan_id, &owner, lease, &call)
            })
            .and_then(|claim| claim.complete_apply(Vec::new()));
        match next {
            Ok(done) => Ok(NextPhase::Landed(done)),
            Err(LifecycleError::Refused(_) | LifecycleError::Blocked(_)) => {
                Ok(NextPhase::Waits(done))
            }
            Err(error) => Err(error),
        }
    }

    /// Settles the usage, submits the result and completes the plan in one commit. Returns false if that is
    /// not possible: there is something to land, or a rule or a person has to be asked.
    pub(crate) fn complete_plan_in_one_commit(
        &self,
        result: &ResultContent,
        used: BudgetAmount,
        lease: Span,
    ) -> Result<bool, LifecycleError> {
        let plan = &self.outcome.plan;
        if !plan.resources().is_empty() || !plan.lands_automatically() {
            return Ok(false);
        }
        let epoch = self.epoch();
        let mut commands = vec![Command::from(SettleUsage { epoch, used })];
        commands.extend(self.completion_commands(result, lease));
        let lifecycle = &self.lifecycle;
        match submit_batch(
            lifecycle,
            &CommandTarget::for_plan(plan),
            commands,
            &self.call(),
        ) {
            Ok(_) => Ok(true),
            Err(LifecycleError::Refused(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The commands from submitting the result to the end, for a plan without resources.
    fn completion_commands(&self, result: &ResultContent, lease: Span) -> Vec<Command> {
        vec![
            Command::from(CompleteExecute {
                epoch: self.epoch(),
                result: result.clone(),
                captured: Vec::new(),
                allow_empty: false,
                judgement: empty_judgement(),
            }),
            Command::from(ApplyPlan {
                judgement: empty_judgement(),
            }),
            start_command(Phase::Apply, &self.owner(), lease),
            Command::from(CompleteApply {
                // The epoch that the claim before it in this batch gets.
                epoch: self.epoch().next(),
                landed: Vec::new(),
                rest: None,
            }),
        ]
    }
}

pub(crate) fn start_command(phase: Phase, owner: &str, lease: Span) -> Command {
    Command::from(ClaimPhase {
        phase,
        owner: owner.to_owned(),
        lease,
        judgement: (phase == Phase::Strategize).then(empty_judgement),
    })
}

/// The refusal that makes a batch fall back to single commands, because rules have to be checked.
pub(crate) fn stale_judgement() -> LifecycleError {
    LifecycleError::Refused(Refusal::JudgementStale {
        gate: Gate::Strategize,
    })
}

/// A placeholder. `decide_batch` replaces it with a judgement of the plan at that point.
pub(crate) fn empty_judgement() -> GateJudgement {
    GateJudgement::default()
}
