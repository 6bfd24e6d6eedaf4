//! The work that is measured: durable transitions of a plan, alternately claimed and released.

use lifecycle::{Call, Lifecycle, UseRequest};
use plan::{Actors, Caller, Epoch, PlanId, Span};

/// The person on whose word everything happens.
pub fn call() -> Call {
    Call::by(Caller::Person("bench".to_owned()))
}

/// A plan whose execute phase waits to be claimed.
pub fn ready_plan(lifecycle: &Lifecycle) -> PlanId {
    let call = call();
    let plan = lifecycle.use_action(request(), &call).unwrap().plan.id;
    let claim = lifecycle
        .start_strategize(plan, "bench", Span::seconds(3600), &call)
        .unwrap();
    claim.complete_strategize(Vec::new()).unwrap();
    lifecycle.execute_plan(plan, &call).unwrap();
    plan
}

/// What a new plan is made of.
pub fn request() -> UseRequest {
    UseRequest {
        goal: Some("Tidy the documentation of the billing module".to_owned()),
        fallback_actors: Some(Actors::both("bench".parse().unwrap())),
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

    pub fn step(&mut self) -> Result<(), lifecycle::Error> {
        self.held = match self.held {
            None => {
                let lease = Span::seconds(3600);
                Some(
                    self.lifecycle
                        .start_execute(self.plan, "bench", lease, &self.call)?
                        .epoch(),
                )
            }
            Some(epoch) => {
                self.lifecycle.release(self.plan, epoch, &self.call)?;
                None
            }
        };
        Ok(())
    }
}
