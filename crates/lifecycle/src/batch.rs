//! Submits several commands as one commit: a result together with the claim of the next phase.
//!
//! A batch cannot check rules, because rules judge stored state. If rules apply, or a batch is refused for
//! another reason, the same commands are submitted one by one.

use plan::command::{
    ApplyPlan, ClaimPhase, CompleteApply, CompleteExecute, CompleteStrategize, CreatePlan,
    ExecutePlan, ReserveBudget, SettleUsage,
};
use plan::decide::decide_batch;
use plan::decision::ReportedDecision;
use plan::invariant::Gate;
use plan::judgement::GateJudgement;
use plan::ledger::{BudgetAmount, BudgetGrant, MeteringLevel};
use plan::stage::ResultContent;
use plan::{Command, DecisionRequest, Phase, Plan, Refusal, Span};
use store::{CommitOutcome, ReadSet, Submission};

use crate::budget::read_grant;
use crate::judge::GateSubject;
use crate::{Call, Claim, Lifecycle, LifecycleError, OperationOutcome, UseRequest};
use plan::reads::CommandTarget;

/// What happened after a result was submitted.
pub enum NextPhase {
    Claimed(Box<Claim>),
    /// The result is stored. The next phase needs a person, or a rule blocks it.
    Waits(OperationOutcome),
    /// The plan ended: it had nothing to land.
    Landed(OperationOutcome),
}

impl Lifecycle {
    /// Creates a plan and claims its first phase.
    pub fn use_and_start(
        &self,
        request: UseRequest,
        owner: &str,
        lease: Span,
        call: &Call,
    ) -> Result<Claim, LifecycleError> {
        if !request.projects.is_empty() {
            self.sandboxes()
                .locate_project_resources(&request.projects)?;
        }
        if call.key.is_some() || !request.projects.is_empty() {
            // A key belongs to one command, and a repository's own rules can only judge a stored plan.
            let plan_id = self.use_action(request, call)?.plan.id();
            return self.start_strategize(plan_id, owner, lease, call);
        }
        let new = self.new_plan(request.clone());
        let target = CommandTarget {
            plan_id: Some(new.id),
            action: new.action.clone(),
            projects: new.projects.clone(),
        };
        let commands = vec![
            Command::from(CreatePlan(new)),
            start_command(Phase::Strategize, owner, lease),
        ];
        match self.submit_batch(&target, commands, call) {
            Ok(committed) => self.claim_from_commit(committed, call),
            // Rules are in force. They judge stored state, so the plan has to be stored first.
            Err(LifecycleError::Refused(Refusal::JudgementStale { .. })) => {
                let plan_id = self.use_action(request, call)?.plan.id();
                self.start_strategize(plan_id, owner, lease, &call.follow_up())
            }
            Err(error) => Err(error),
        }
    }

    /// Completes strategize without an actor: the goal is the strategy. Creates no sandbox.
    pub(crate) fn strategize_without_actor(
        &self,
        plan: &Plan,
        owner: &str,
        lease: Span,
        call: &Call,
    ) -> Result<OperationOutcome, LifecycleError> {
        self.sandboxes().check_resources_reachable(plan)?;
        let commands = vec![
            start_command(Phase::Strategize, owner, lease),
            Command::from(CompleteStrategize {
                // The epoch that the claim before it in this batch gets.
                epoch: plan.epoch().next(),
                decisions: Vec::new(),
            }),
        ];
        let submitted = match self
            .gates()
            .read_targets(plan, Gate::Strategize)?
            .rules
            .is_empty()
        {
            true => self.submit_batch(&CommandTarget::for_plan(plan), commands, call),
            false => Err(stale_judgement()),
        };
        match submitted {
            Ok(committed) => return self.read_outcome(committed),
            // Rules are in force. They judge stored state, so submit step by step.
            Err(LifecycleError::Refused(Refusal::JudgementStale { .. })) => {}
            Err(error) => return Err(error),
        }
        let claimed = self.gates().submit_judged(
            plan.id(),
            Gate::Strategize,
            &GateSubject::Plan,
            call,
            |judgement| {
                Command::from(ClaimPhase {
                    phase: Phase::Strategize,
                    owner: owner.to_owned(),
                    lease,
                    judgement: Some(judgement),
                })
            },
        )?;
        let epoch = claimed.receipt.epoch;
        let epoch = epoch.expect("BUG: a claim's receipt has its epoch");
        self.submit_command(
            plan.id(),
            CompleteStrategize::new(epoch, Vec::new()),
            &call.follow_up(),
        )
    }

    /// Claims a phase and reserves its budget in one commit. Execute may be claimed directly from a queued
    /// strategize that needs no actor. Refused if this takes more than one commit.
    pub(crate) fn claim_with_budget(
        &self,
        plan: &Plan,
        phase: Phase,
        metering: MeteringLevel,
        owner: &str,
        lease: Span,
        call: &Call,
    ) -> Result<(Claim, BudgetGrant), LifecycleError> {
        // Each claim gets the next epoch.
        let mut epoch = plan.epoch().next();
        let mut commands = Vec::new();
        if plan.phase() != phase {
            commands.extend([
                start_command(plan.phase(), owner, lease),
                Command::from(CompleteStrategize::new(epoch, Vec::new())),
                Command::from(ExecutePlan {
                    judgement: empty_judgement(),
                }),
            ]);
            epoch = epoch.next();
        }
        let budget = self.budget;
        commands.extend([
            start_command(phase, owner, lease),
            Command::from(ReserveBudget {
                epoch,
                metering,
                budget,
            }),
        ]);
        let committed = self.submit_batch(&CommandTarget::for_plan(plan), commands, call)?;
        let grant = read_grant(&committed);
        Ok((self.claim_from_commit(committed, call)?, grant))
    }

    /// Decides the commands in order and commits all of them, or none.
    fn submit_batch(
        &self,
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
        Ok(self.store.commit(Submission {
            id: self.ids.new_command_id(),
            key: None,
            reads,
            decide: Box::new(move |facts, now| decide_batch(facts, &requests, now)),
        })?)
    }
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
            true => lifecycle.submit_batch(
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
                    lifecycle.claim_from_commit(committed, &call)?,
                )));
            }
            Err(LifecycleError::Refused(_)) => {}
            Err(error) => return Err(error),
        }
        let done = self.complete_strategize(decisions)?;
        let next = lifecycle
            .execute_plan(plan_id, &call)
            .and_then(|_| lifecycle.start_execute(plan_id, &owner, lease, &call));
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
        match lifecycle.submit_batch(&target, commands, &call) {
            Ok(committed) => return lifecycle.read_outcome(committed).map(NextPhase::Landed),
            Err(LifecycleError::Refused(_)) => {}
            Err(error) => return Err(error),
        }
        let done = self.complete_execute(result)?;
        let next = lifecycle
            .apply_plan(plan_id, &call)
            .and_then(|_| lifecycle.start_apply(plan_id, &owner, lease, &call))
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
        match lifecycle.submit_batch(&CommandTarget::for_plan(plan), commands, &self.call()) {
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

fn start_command(phase: Phase, owner: &str, lease: Span) -> Command {
    Command::from(ClaimPhase {
        phase,
        owner: owner.to_owned(),
        lease,
        judgement: (phase == Phase::Strategize).then(empty_judgement),
    })
}

/// The refusal that makes a batch fall back to single commands, because rules have to be checked.
fn stale_judgement() -> LifecycleError {
    LifecycleError::Refused(Refusal::JudgementStale {
        gate: Gate::Strategize,
    })
}

/// A placeholder. `decide_batch` replaces it with a judgement of the plan at that point.
fn empty_judgement() -> GateJudgement {
    GateJudgement::default()
}
