//! What a worker does in one breath: hand in a result and go on with the next phase. As one commit where
//! that is possible, step by step where it is not.

use plan::decide::decide_batch;
use plan::decision::ReportedDecision;
use plan::invariant::Gate;
use plan::judgement::GateJudgement;
use plan::ledger::{BudgetAmount, BudgetGrant, MeteringLevel};
use plan::stage::ResultContent;
use plan::{Command, DecisionRequest, Phase, Plan, Refusal, Span};
use store::{CommitOutcome, ReadSet, Submission};

use crate::judge::GateSubject;
use crate::means::grant_in_receipt;
use crate::submit::{CommandTarget, reads_for};
use crate::{Call, Claim, Lifecycle, LifecycleError, OperationOutcome, UseRequest};

/// What came of going on.
pub enum WentOn {
    /// The next phase is claimed.
    Claimed(Box<Claim>),
    /// The result is in; what comes next waits for somebody else, or for a rule.
    Waits(OperationOutcome),
    /// There was nothing left to do.
    Landed(OperationOutcome),
}

impl Lifecycle {
    /// Makes a plan and claims its first phase.
    pub fn use_and_start(
        &self,
        request: UseRequest,
        owner: &str,
        lease: Span,
        call: &Call,
    ) -> Result<Claim, LifecycleError> {
        if !request.projects.is_empty() {
            self.locate_project_resources(&request.projects)?;
        }
        if call.key.is_some() || !request.projects.is_empty() {
            // A key belongs to one command; and what a repository's own rules judge has to be stored.
            let plan_id = self.use_action(request, call)?.plan.id;
            return self.start_strategize(plan_id, owner, lease, call);
        }
        let new = self.new_plan(request.clone());
        let subject = CommandTarget {
            plan_id: Some(new.id),
            action: new.action.clone(),
            projects: new.projects.clone(),
        };
        let commands = vec![
            Command::Use(new),
            start_command(Phase::Strategize, owner, lease),
        ];
        match self.submit_in_a_row(&subject, commands, call) {
            Ok(committed) => self.claim_from_commit(committed, call),
            // Rules are in force: they judge what is stored, so it has to be stored first.
            Err(LifecycleError::Refused(Refusal::JudgementStale { .. })) => {
                let plan_id = self.use_action(request, call)?.plan.id;
                self.start_strategize(plan_id, owner, lease, &call.follow_up())
            }
            Err(error) => Err(error),
        }
    }

    /// Strategize without anybody: the goal is the strategy. No sandbox is made for it.
    pub(crate) fn strategize_at_once(
        &self,
        plan: &Plan,
        owner: &str,
        lease: Span,
        call: &Call,
    ) -> Result<OperationOutcome, LifecycleError> {
        self.check_resources_reachable(plan)?;
        let commands = vec![
            start_command(Phase::Strategize, owner, lease),
            Command::CompleteStrategize {
                // What the claim right before it will be given.
                epoch: plan.epoch.next(),
                decisions: Vec::new(),
            },
        ];
        let submitted = match self.read_targets(plan, Gate::Strategize)?.rules.is_empty() {
            true => self.submit_in_a_row(&CommandTarget::for_plan(plan), commands, call),
            false => Err(stale_judgement()),
        };
        match submitted {
            Ok(committed) => return self.read_outcome(committed),
            // Rules are in force: they judge what is stored.
            Err(LifecycleError::Refused(Refusal::JudgementStale { .. })) => {}
            Err(error) => return Err(error),
        }
        let claimed = self.submit_judged(
            plan.id,
            Gate::Strategize,
            &GateSubject::Plan,
            call,
            |judgement| Command::Start {
                phase: Phase::Strategize,
                owner: owner.to_owned(),
                lease,
                judgement: Some(judgement),
            },
        )?;
        let epoch = claimed.receipt.epoch;
        let epoch = epoch.expect("BUG: a claim's receipt has its epoch");
        self.complete_strategize(plan.id, epoch, Vec::new(), &call.follow_up())
    }

    /// Claims a phase and sets aside what its holder may use. Execute may be claimed from a strategize that is
    /// still to begin and is nobody's work. Refused if it takes more than a commit.
    pub(crate) fn start_with_means(
        &self,
        plan: &Plan,
        phase: Phase,
        metering: MeteringLevel,
        owner: &str,
        lease: Span,
        call: &Call,
    ) -> Result<(Claim, BudgetGrant), LifecycleError> {
        // Each claim is given the next.
        let mut epoch = plan.epoch.next();
        let mut commands = Vec::new();
        if plan.phase() != phase {
            commands.extend([
                start_command(plan.phase(), owner, lease),
                Command::CompleteStrategize {
                    epoch,
                    decisions: Vec::new(),
                },
                Command::ExecutePlan {
                    judgement: empty_judgement(),
                },
            ]);
            epoch = epoch.next();
        }
        let budget = self.budget;
        commands.extend([
            start_command(phase, owner, lease),
            Command::Reserve {
                epoch,
                metering,
                budget,
            },
        ]);
        let committed = self.submit_in_a_row(&CommandTarget::for_plan(plan), commands, call)?;
        let grant = grant_in_receipt(&committed);
        Ok((self.claim_from_commit(committed, call)?, grant))
    }

    /// Decides commands in a row and commits all of them, or none.
    fn submit_in_a_row(
        &self,
        subject: &CommandTarget,
        commands: Vec<Command>,
        call: &Call,
    ) -> Result<CommitOutcome, LifecycleError> {
        let reads = commands
            .iter()
            .map(|command| reads_for(command, subject))
            .fold(ReadSet::default(), ReadSet::merge_with);
        let requests: Vec<DecisionRequest> = commands
            .into_iter()
            .map(|command| DecisionRequest {
                command,
                plan_id: subject.plan_id,
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
    /// Hands in the strategy and, if nobody has to be asked, claims execute.
    pub fn complete_strategize_and_go_on(
        mut self,
        decisions: Vec<ReportedDecision>,
        lease: Span,
    ) -> Result<WentOn, LifecycleError> {
        let (lifecycle, call, plan_id) =
            (self.lifecycle.clone(), self.call(), self.outcome.plan.id);
        let owner = self.owner();
        let commands = vec![
            Command::CompleteStrategize {
                epoch: self.epoch(),
                decisions: decisions.clone(),
            },
            Command::ExecutePlan {
                judgement: empty_judgement(),
            },
            start_command(Phase::Execute, &owner, lease),
        ];
        let targets = lifecycle.read_targets(&self.outcome.plan, Gate::Execute)?;
        let submitted = match targets.rules.is_empty() {
            true => lifecycle.submit_in_a_row(
                &CommandTarget::for_plan(&self.outcome.plan),
                commands,
                &call,
            ),
            false => Err(stale_judgement()),
        };
        match submitted {
            Ok(committed) => {
                // The next claim takes the sandboxes over, which nobody may be in.
                self.sandbox_holds.clear();
                return Ok(WentOn::Claimed(Box::new(
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
            Ok(claim) => Ok(WentOn::Claimed(Box::new(claim))),
            Err(LifecycleError::Refused(_) | LifecycleError::Blocked(_)) => Ok(WentOn::Waits(done)),
            Err(error) => Err(error),
        }
    }

    /// Hands in the result and, if there is nothing to land and nobody has to be asked, takes the plan to
    /// its end.
    pub fn complete_execute_and_go_on(
        self,
        result: &ResultContent,
        lease: Span,
    ) -> Result<WentOn, LifecycleError> {
        if !self.outcome.plan.resources.is_empty() {
            return self.complete_execute(result).map(WentOn::Waits);
        }
        let (lifecycle, call, plan_id) =
            (self.lifecycle.clone(), self.call(), self.outcome.plan.id);
        let owner = self.owner();
        let commands = self.completion_commands(result, lease);
        let subject = CommandTarget::for_plan(&self.outcome.plan);
        match lifecycle.submit_in_a_row(&subject, commands, &call) {
            Ok(committed) => return lifecycle.read_outcome(committed).map(WentOn::Landed),
            Err(LifecycleError::Refused(_)) => {}
            Err(error) => return Err(error),
        }
        let done = self.complete_execute(result)?;
        let next = lifecycle
            .apply_plan(plan_id, &call)
            .and_then(|_| lifecycle.start_apply(plan_id, &owner, lease, &call))
            .and_then(|claim| claim.complete_apply(Vec::new()));
        match next {
            Ok(done) => Ok(WentOn::Landed(done)),
            Err(LifecycleError::Refused(_) | LifecycleError::Blocked(_)) => Ok(WentOn::Waits(done)),
            Err(error) => Err(error),
        }
    }

    /// Charges what was used, hands in the result and takes the plan to its end as one commit. False if that
    /// takes more than one: there is something to land, rules have to be asked, or a person.
    pub(crate) fn end_at_once(
        &self,
        result: &ResultContent,
        used: BudgetAmount,
        lease: Span,
    ) -> Result<bool, LifecycleError> {
        let plan = &self.outcome.plan;
        if !plan.resources.is_empty() || !plan.lands_automatically() {
            return Ok(false);
        }
        let epoch = self.epoch();
        let mut commands = vec![Command::Settle { epoch, used }];
        commands.extend(self.completion_commands(result, lease));
        let lifecycle = &self.lifecycle;
        match lifecycle.submit_in_a_row(&CommandTarget::for_plan(plan), commands, &self.call()) {
            Ok(_) => Ok(true),
            Err(LifecycleError::Refused(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// From the result of a plan that works on nothing to its end.
    fn completion_commands(&self, result: &ResultContent, lease: Span) -> Vec<Command> {
        vec![
            Command::CompleteExecute {
                epoch: self.epoch(),
                result: result.clone(),
                captured: Vec::new(),
                allow_empty: false,
                judgement: empty_judgement(),
            },
            Command::ApplyPlan {
                judgement: empty_judgement(),
            },
            start_command(Phase::Apply, &self.owner(), lease),
            Command::CompleteApply {
                // What the claim right before it will be given.
                epoch: self.epoch().next(),
                landed: Vec::new(),
                rest: None,
            },
        ]
    }
}

fn start_command(phase: Phase, owner: &str, lease: Span) -> Command {
    Command::Start {
        phase,
        owner: owner.to_owned(),
        lease,
        judgement: (phase == Phase::Strategize).then(empty_judgement),
    }
}

/// Nobody has judged it yet.
fn stale_judgement() -> LifecycleError {
    LifecycleError::Refused(Refusal::JudgementStale {
        gate: Gate::Strategize,
    })
}

/// A place for the judgement that is filled in when the plan is read.
fn empty_judgement() -> GateJudgement {
    GateJudgement::default()
}
