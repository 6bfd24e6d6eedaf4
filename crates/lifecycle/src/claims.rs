//! Claims phases of plans, alone or together with other commands in one commit.

use plan::command::{ClaimPhase, CompleteStrategize, CreatePlan, ExecutePlan, ReserveBudget};
use plan::invariant::Gate;
use plan::ledger::{BudgetGrant, MeteringLevel};
use plan::reads::CommandTarget;
use plan::{Command, Phase, Plan, PlanId, Refusal, Span};
use store::{CommitOutcome, DuePlan};

use crate::batch::{empty_judgement, stale_judgement, start_command, submit_batch};
use crate::budget::read_grant;
use crate::judge::GateSubject;
use crate::operations::plan_target;
use crate::{Call, Claim, Lifecycle, LifecycleError, OperationOutcome, UseRequest};

/// Leases on phases of plans that are free.
#[derive(Clone, Copy)]
pub struct Claims<'a> {
    lifecycle: &'a Lifecycle,
}

impl Lifecycle {
    pub fn claims(&self) -> Claims<'_> {
        Claims { lifecycle: self }
    }
}

impl Claims<'_> {
    /// Creates a plan and claims its first phase.
    pub fn use_and_start(
        &self,
        request: UseRequest,
        owner: &str,
        lease: Span,
        call: &Call,
    ) -> Result<Claim, LifecycleError> {
        if !request.projects.is_empty() {
            self.lifecycle
                .sandboxes()
                .locate_project_resources(&request.projects)?;
        }
        if call.key.is_some() || !request.projects.is_empty() {
            // A key belongs to one command, and a repository's own rules can only judge a stored plan.
            let plan_id = self.lifecycle.use_action(request, call)?.plan.id();
            return self.start_strategize(plan_id, owner, lease, call);
        }
        let new = self.lifecycle.new_plan(request.clone());
        let target = CommandTarget {
            plan_id: Some(new.id),
            action: new.action.clone(),
            projects: new.projects.clone(),
        };
        let commands = vec![
            Command::from(CreatePlan(new)),
            start_command(Phase::Strategize, owner, lease),
        ];
        match submit_batch(self.lifecycle, &target, commands, call) {
            Ok(committed) => self.claim_from_commit(committed, call),
            // Rules are in force. They judge stored state, so the plan has to be stored first.
            Err(LifecycleError::Refused(Refusal::JudgementStale { .. })) => {
                let plan_id = self.lifecycle.use_action(request, call)?.plan.id();
                self.start_strategize(plan_id, owner, lease, &call.follow_up())
            }
            Err(error) => Err(error),
        }
    }

    /// Claims the plan that has waited longest in a phase, if one is due. Concurrent callers never get the
    /// same plan.
    pub fn claim_next(
        &self,
        phase: Phase,
        owner: &str,
        lease: Span,
        call: &Call,
    ) -> Result<Option<Claim>, LifecycleError> {
        const CANDIDATE_PAGE_SIZE: usize = 32;
        let mut after = None;
        loop {
            let due =
                self.lifecycle
                    .store
                    .list_claimable_plans(phase, after, CANDIDATE_PAGE_SIZE)?;
            let Some(last) = due.last().copied() else {
                return Ok(None);
            };
            for DuePlan { plan_id, .. } in due {
                let claim = match phase {
                    Phase::Strategize => self.start_strategize(plan_id, owner, lease, call),
                    Phase::Execute => self.start_execute(plan_id, owner, lease, call),
                    Phase::Apply => self.start_apply(plan_id, owner, lease, call),
                };
                match claim {
                    Ok(claim) => return Ok(Some(claim)),
                    // Another caller was faster, a gate blocks it, or it is on another host: try the next.
                    Err(
                        LifecycleError::Refused(_)
                        | LifecycleError::Blocked(_)
                        | LifecycleError::NoLocalHost
                        | LifecycleError::WaitingForHost { .. },
                    ) => {}
                    Err(error) => return Err(error),
                }
            }
            after = Some(last);
        }
    }

    /// Claims the strategize phase and prepares its sandboxes.
    pub fn start_strategize(
        &self,
        plan_id: PlanId,
        owner: &str,
        lease: Span,
        call: &Call,
    ) -> Result<Claim, LifecycleError> {
        self.lifecycle.sandboxes().check_plan_reachable(plan_id)?;
        let owner = owner.to_owned();
        let committed = self.lifecycle.gates().submit_judged(
            plan_id,
            Gate::Strategize,
            &GateSubject::Plan,
            call,
            |judgement| ClaimPhase {
                phase: Phase::Strategize,
                owner: owner.clone(),
                lease,
                judgement: Some(judgement),
            },
        )?;
        self.claim_from_commit(committed, call)
    }

    /// Claims the execute phase and prepares its sandboxes.
    pub fn start_execute(
        &self,
        plan_id: PlanId,
        owner: &str,
        lease: Span,
        call: &Call,
    ) -> Result<Claim, LifecycleError> {
        self.claim_phase(plan_id, Phase::Execute, owner, lease, call)
    }

    pub fn start_apply(
        &self,
        plan_id: PlanId,
        owner: &str,
        lease: Span,
        call: &Call,
    ) -> Result<Claim, LifecycleError> {
        self.claim_phase(plan_id, Phase::Apply, owner, lease, call)
    }

    /// Completes strategize without an actor: the goal is the strategy. Creates no sandbox.
    pub(crate) fn strategize_without_actor(
        &self,
        plan: &Plan,
        owner: &str,
        lease: Span,
        call: &Call,
    ) -> Result<OperationOutcome, LifecycleError> {
        self.lifecycle.sandboxes().check_resources_reachable(plan)?;
        let commands = vec![
            start_command(Phase::Strategize, owner, lease),
            Command::from(CompleteStrategize {
                // The epoch that the claim before it in this batch gets.
                epoch: plan.epoch().next(),
                decisions: Vec::new(),
            }),
        ];
        let submitted = match self
            .lifecycle
            .gates()
            .read_targets(plan, Gate::Strategize)?
            .rules
            .is_empty()
        {
            true => submit_batch(
                self.lifecycle,
                &CommandTarget::for_plan(plan),
                commands,
                call,
            ),
            false => Err(stale_judgement()),
        };
        match submitted {
            Ok(committed) => return self.lifecycle.read_outcome(committed),
            // Rules are in force. They judge stored state, so submit step by step.
            Err(LifecycleError::Refused(Refusal::JudgementStale { .. })) => {}
            Err(error) => return Err(error),
        }
        let claimed = self.lifecycle.gates().submit_judged(
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
        self.lifecycle.submit_command(
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
        let budget = self.lifecycle.budget;
        commands.extend([
            start_command(phase, owner, lease),
            Command::from(ReserveBudget {
                epoch,
                metering,
                budget,
            }),
        ]);
        let committed = submit_batch(
            self.lifecycle,
            &CommandTarget::for_plan(plan),
            commands,
            call,
        )?;
        let grant = read_grant(&committed);
        Ok((self.claim_from_commit(committed, call)?, grant))
    }

    fn claim_phase(
        &self,
        plan_id: PlanId,
        phase: Phase,
        owner: &str,
        lease: Span,
        call: &Call,
    ) -> Result<Claim, LifecycleError> {
        self.lifecycle.sandboxes().check_plan_reachable(plan_id)?;
        let command = ClaimPhase {
            phase,
            owner: owner.to_owned(),
            lease,
            judgement: None,
        };
        let committed = self
            .lifecycle
            .submit(command, &plan_target(plan_id), call)?;
        self.claim_from_commit(committed, call)
    }

    pub(crate) fn claim_from_commit(
        &self,
        committed: CommitOutcome,
        call: &Call,
    ) -> Result<Claim, LifecycleError> {
        let claim = Claim::new(
            self.lifecycle.clone(),
            self.lifecycle.read_outcome(committed)?,
            call,
        );
        self.lifecycle.sandboxes().prepare_sandboxes(claim, call)
    }
}
