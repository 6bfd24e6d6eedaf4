//! The work that is measured: durable transitions of a plan, alternately claimed and released, and
//! whole lives.

use lifecycle::{Call, Lifecycle, UseRequest, WentOn};
use plan::stage::ResultContent;
use plan::{Caller, Epoch, PlanActors, PlanId, Span};

/// The person on whose word everything happens.
pub fn call() -> Call {
    Call::by(Caller::Person("bench".to_owned()))
}

/// A plan whose execute phase waits to be claimed.
pub fn ready_plan(lifecycle: &Lifecycle) -> PlanId {
    let call = call();
    let plan = lifecycle.use_action(request(), &call).unwrap().plan.id;
    let claim = lifecycle
        .start_strategize(plan, "bench", Span::from_seconds(3600), &call)
        .unwrap();
    claim.complete_strategize(Vec::new()).unwrap();
    lifecycle.execute_plan(plan, &call).unwrap();
    plan
}

/// What a new plan is made of.
pub fn request() -> UseRequest {
    UseRequest {
        goal: Some("Tidy the documentation of the billing module".to_owned()),
        fallback_actors: Some(PlanActors::for_both_phases("bench".parse().unwrap())),
        ..UseRequest::default()
    }
}

/// One transition: claims the execute phase, or gives it back.
pub struct Transitions<'a> {
    lifecycle: &'a Lifecycle,
    plan: PlanId,
    held: Option<Epoch>,
    call: Call,
}

impl<'a> Transitions<'a> {
    pub fn of(lifecycle: &'a Lifecycle, plan: PlanId) -> Self {
        Self {
            lifecycle,
            plan,
            held: None,
            call: call(),
        }
    }

    pub fn step(&mut self) -> Result<(), lifecycle::LifecycleError> {
        self.held = match self.held {
            None => {
                let lease = Span::from_seconds(3600);
                Some(
                    self.lifecycle
                        .start_execute(self.plan, "bench", lease, &self.call)?
                        .epoch(),
                )
            }
            Some(epoch) => {
                self.lifecycle.release_lease(self.plan, epoch, &self.call)?;
                None
            }
        };
        Ok(())
    }
}

/// A plan's life through its three phases, each started and completed: nine transitions, the making
/// of the plan and the two moves between phases among them.
pub struct Life<'a> {
    lifecycle: &'a Lifecycle,
    plan: PlanId,
    epoch: Epoch,
    next: usize,
    call: Call,
}

impl<'a> Life<'a> {
    /// The first transition: the plan is made.
    pub fn begin(lifecycle: &'a Lifecycle) -> Result<Self, lifecycle::LifecycleError> {
        let call = call();
        let done = lifecycle.use_action(request(), &call)?;
        Ok(Self {
            lifecycle,
            plan: done.plan.id,
            epoch: done.plan.epoch,
            next: 0,
            call,
        })
    }

    pub fn plan(&self) -> PlanId {
        self.plan
    }

    /// The next transition. False if there is none: it is over.
    pub fn step(&mut self) -> Result<bool, lifecycle::LifecycleError> {
        let Self {
            lifecycle,
            plan,
            epoch,
            next,
            ref call,
        } = *self;
        let lease = Span::from_seconds(3600);
        match next {
            0 => {
                let claim = lifecycle.start_strategize(plan, "bench", lease, call)?;
                self.epoch = claim.epoch();
            }
            1 => drop(lifecycle.complete_strategize(plan, epoch, Vec::new(), call)?),
            2 => drop(lifecycle.execute_plan(plan, call)?),
            3 => {
                let claim = lifecycle.start_execute(plan, "bench", lease, call)?;
                self.epoch = claim.epoch();
            }
            4 => drop(lifecycle.complete_execute(plan, epoch, &result(), call)?),
            5 => drop(lifecycle.apply_plan(plan, call)?),
            6 => {
                let claim = lifecycle.start_apply(plan, "bench", lease, call)?;
                self.epoch = claim.epoch();
            }
            7 => drop(lifecycle.complete_apply(plan, epoch, Vec::new(), None, call)?),
            _ => return Ok(false),
        }
        self.next += 1;
        Ok(true)
    }

    /// All that is left of it.
    pub fn live(mut self) -> Result<(), lifecycle::LifecycleError> {
        while self.step()? {}
        Ok(())
    }
}

/// The same life as a single worker lives it: decisions in a row share a commit, three of them in all.
/// False if somebody else had to be waited for.
pub fn live_in_a_row(lifecycle: &Lifecycle) -> Result<bool, lifecycle::LifecycleError> {
    let lease = Span::from_seconds(3600);
    let claim = lifecycle.use_and_start(request(), "bench", lease, &call())?;
    let WentOn::Claimed(claim) = claim.complete_strategize_and_go_on(Vec::new(), lease)? else {
        return Ok(false);
    };
    let went_on = claim.complete_execute_and_go_on(&result(), lease)?;
    Ok(matches!(went_on, WentOn::Landed(_)))
}

fn result() -> ResultContent {
    ResultContent {
        report: Some("The documentation of the billing module is tidy".into()),
        trees: Vec::new(),
    }
}
