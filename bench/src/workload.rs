//! The work that is measured: single transitions of a plan (claim, release), and complete workflows from a new plan
//! to a landed one.

use lifecycle::{Call, Lifecycle, LifecycleError, NextPhase, UseRequest};
use plan::command::{CompleteApply, CompleteStrategize, ReleaseLease};
use plan::stage::ResultContent;
use plan::{Caller, Epoch, PlanActors, PlanId, Span};

const OWNER: &str = "bench";
const LEASE_DURATION: Span = Span::from_seconds(3600);

pub fn bench_call() -> Call {
    Call::by(Caller::Person(OWNER.to_owned()))
}

pub fn make_request() -> UseRequest {
    UseRequest {
        goal: Some("Tidy the documentation of the billing module".to_owned()),
        fallback_actors: Some(PlanActors::for_both_phases(OWNER.parse().unwrap())),
        ..UseRequest::default()
    }
}

/// Creates a plan whose execute phase is queued.
pub fn create_ready_plan(lifecycle: &Lifecycle) -> PlanId {
    let call = bench_call();
    let plan_id = lifecycle
        .use_action(make_request(), &call)
        .unwrap()
        .plan
        .id();
    let claim = lifecycle
        .claims()
        .start_strategize(plan_id, OWNER, LEASE_DURATION, &call)
        .unwrap();
    claim.complete_strategize(Vec::new()).unwrap();
    lifecycle.execute_plan(plan_id, &call).unwrap();
    plan_id
}

/// Claims and releases a plan's execute phase in turn.
pub struct ClaimReleaseCycle<'a> {
    lifecycle: &'a Lifecycle,
    plan_id: PlanId,
    held_epoch: Option<Epoch>,
    call: Call,
}

impl<'a> ClaimReleaseCycle<'a> {
    pub fn new(lifecycle: &'a Lifecycle, plan_id: PlanId) -> Self {
        Self {
            lifecycle,
            plan_id,
            held_epoch: None,
            call: bench_call(),
        }
    }

    /// Commits one transition: a claim if the plan is free, otherwise a release.
    pub fn run_step(&mut self) -> Result<(), LifecycleError> {
        self.held_epoch = match self.held_epoch {
            None => Some(
                self.lifecycle
                    .claims()
                    .start_execute(self.plan_id, OWNER, LEASE_DURATION, &self.call)?
                    .epoch(),
            ),
            Some(epoch) => {
                self.lifecycle
                    .submit_command(self.plan_id, ReleaseLease { epoch }, &self.call)?;
                None
            }
        };
        Ok(())
    }
}

/// A plan that goes through its three phases with one commit per transition: nine in all, for creating the plan,
/// starting and completing each phase, and the two moves between phases.
pub struct StepwiseWorkflow<'a> {
    lifecycle: &'a Lifecycle,
    plan_id: PlanId,
    epoch: Epoch,
    next_step: usize,
    call: Call,
}

impl<'a> StepwiseWorkflow<'a> {
    /// Creates the plan, which is the first transition.
    pub fn create_plan(lifecycle: &'a Lifecycle) -> Result<Self, LifecycleError> {
        let call = bench_call();
        let plan = lifecycle.use_action(make_request(), &call)?.plan;
        Ok(Self {
            lifecycle,
            plan_id: plan.id(),
            epoch: plan.epoch(),
            next_step: 0,
            call,
        })
    }

    pub fn plan_id(&self) -> PlanId {
        self.plan_id
    }

    /// Commits the next transition. Returns false if the plan has already landed.
    pub fn run_step(&mut self) -> Result<bool, LifecycleError> {
        let Self {
            lifecycle,
            plan_id,
            epoch,
            next_step,
            ref call,
        } = *self;
        match next_step {
            0 => {
                let claim =
                    lifecycle
                        .claims()
                        .start_strategize(plan_id, OWNER, LEASE_DURATION, call)?;
                self.epoch = claim.epoch();
            }
            1 => drop(lifecycle.submit_command(
                plan_id,
                CompleteStrategize::new(epoch, Vec::new()),
                call,
            )?),
            2 => drop(lifecycle.execute_plan(plan_id, call)?),
            3 => {
                let claim =
                    lifecycle
                        .claims()
                        .start_execute(plan_id, OWNER, LEASE_DURATION, call)?;
                self.epoch = claim.epoch();
            }
            4 => drop(lifecycle.complete_execute(plan_id, epoch, &make_result(), call)?),
            5 => drop(lifecycle.apply_plan(plan_id, call)?),
            6 => {
                let claim = lifecycle
                    .claims()
                    .start_apply(plan_id, OWNER, LEASE_DURATION, call)?;
                self.epoch = claim.epoch();
            }
            7 => drop(lifecycle.submit_command(
                plan_id,
                CompleteApply::new(epoch, Vec::new(), None),
                call,
            )?),
            _ => return Ok(false),
        }
        self.next_step += 1;
        Ok(true)
    }

    pub fn run_remaining_steps(mut self) -> Result<(), LifecycleError> {
        while self.run_step()? {}
        Ok(())
    }
}

/// Runs the same workflow as a worker does: consecutive decisions share a commit, three commits in all. Returns false
/// if the plan did not land.
pub fn run_batched_workflow(lifecycle: &Lifecycle) -> Result<bool, LifecycleError> {
    let claim =
        lifecycle
            .claims()
            .use_and_start(make_request(), OWNER, LEASE_DURATION, &bench_call())?;
    let NextPhase::Claimed(claim) =
        claim.complete_strategize_and_continue(Vec::new(), LEASE_DURATION)?
    else {
        return Ok(false);
    };
    let next = claim.complete_execute_and_continue(&make_result(), LEASE_DURATION)?;
    Ok(matches!(next, NextPhase::Landed(_)))
}

fn make_result() -> ResultContent {
    ResultContent {
        report: Some("The documentation of the billing module is tidy".into()),
        trees: Vec::new(),
    }
}
