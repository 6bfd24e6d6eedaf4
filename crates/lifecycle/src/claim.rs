//! A claim: the right to work on a plan's phase, as a value. Nobody handles epochs by hand.

use std::time::{Duration, Instant};

use actors::Report;
use plan::decision::ReportedDecision;
use plan::stage::{FailureCategory, ResultContent};
use plan::{Caller, Epoch, Phase, Plan, Span};
use sandbox::SharedLock;

use crate::meter::amount_from_usage;
use crate::{Call, EnteredSandbox, ExecutionContext, Lifecycle, LifecycleError, OperationOutcome};

/// The right to work on a phase. Handing in a result, failing, asking or releasing consumes it.
///
/// Dropping it does none of these: the lease runs out and the plan is reclaimed, which counts as an
/// attempt. A worker that panics on a plan must not get it back for ever.
#[must_use = "a claim that is dropped blocks the plan until its lease expires"]
pub struct Claim {
    pub(crate) lifecycle: Lifecycle,
    pub(crate) outcome: OperationOutcome,
    phase: Phase,
    epoch: Epoch,
    caller: Caller,
    /// When it was made, by this machine's clock: its lease is to be renewed from then on.
    pub(crate) claimed_at: Instant,
    pub(crate) sandboxes: Vec<EnteredSandbox>,
    /// Nobody else takes the sandboxes over while the claim is there.
    pub(crate) sandbox_holds: Vec<SharedLock>,
}

impl Claim {
    pub(crate) fn new(lifecycle: Lifecycle, outcome: OperationOutcome, call: &Call) -> Self {
        let epoch = outcome
            .receipt
            .epoch
            .expect("BUG: a claim's receipt has its epoch");
        Self {
            lifecycle,
            phase: outcome.plan.phase(),
            epoch,
            caller: call.caller.clone(),
            claimed_at: Instant::now(),
            sandboxes: Vec::new(),
            sandbox_holds: Vec::new(),
            outcome,
        }
    }

    /// The plan as it was claimed.
    pub fn plan(&self) -> &Plan {
        &self.outcome.plan
    }

    /// What was answered.
    pub fn outcome(&self) -> &OperationOutcome {
        &self.outcome
    }

    /// Where to work, resource by resource; nowhere for a plan without any.
    pub fn sandboxes(&self) -> &[EnteredSandbox] {
        &self.sandboxes
    }

    /// The authority.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The phase that was claimed.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Where changes are recorded while executing.
    pub fn context(&self) -> ExecutionContext {
        ExecutionContext::new(
            self.lifecycle.clone(),
            self.outcome.plan.id,
            self.epoch,
            self.call(),
        )
    }

    /// Keeps the lease.
    pub fn renew(&self, lease: Span) -> Result<(), LifecycleError> {
        self.lifecycle
            .renew_lease(self.outcome.plan.id, self.epoch, lease, &self.call())
            .map(drop)
    }

    /// Hands in what an actor reports, as a worker does: the strategy or the result if it is done, its failure, its
    /// question, or the phase itself if it was stopped. One that says it is done and changed nothing has failed: the
    /// plan that is given back says what became of it.
    ///
    /// What it used is charged if means were set aside for the claim ([`Lifecycle::reserve`]). Landing is no actor's
    /// work, and a report of it is refused.
    pub fn complete(self, report: &Report) -> Result<OperationOutcome, LifecycleError> {
        let (plan_id, call) = (self.outcome.plan.id, self.call());
        let used = amount_from_usage(report.usage, self.held_duration()?);
        self.lifecycle
            .settle_usage(plan_id, self.epoch, used, &call)?;
        self.submit_report(report, &call)
    }

    /// Hands in the strategy.
    pub fn complete_strategize(
        self,
        decisions: Vec<ReportedDecision>,
    ) -> Result<OperationOutcome, LifecycleError> {
        self.lifecycle.complete_strategize(
            self.outcome.plan.id,
            self.epoch,
            decisions,
            &self.call(),
        )
    }

    /// Hands in the result.
    pub fn complete_execute(
        self,
        result: &ResultContent,
    ) -> Result<OperationOutcome, LifecycleError> {
        self.lifecycle
            .complete_execute(self.outcome.plan.id, self.epoch, result, &self.call())
    }

    /// Records that everything landed.
    pub fn complete_apply(
        self,
        landed_resources: Vec<String>,
    ) -> Result<OperationOutcome, LifecycleError> {
        self.lifecycle.complete_apply(
            self.outcome.plan.id,
            self.epoch,
            landed_resources,
            None,
            &self.call(),
        )
    }

    /// Ends the work with an error.
    pub fn fail(
        self,
        category: FailureCategory,
        message: &str,
    ) -> Result<OperationOutcome, LifecycleError> {
        self.lifecycle.fail_work(
            self.outcome.plan.id,
            self.epoch,
            category,
            message,
            &self.call(),
        )
    }

    /// Asks a person.
    pub fn ask(
        self,
        question: &str,
        answer_timeout: Option<Span>,
    ) -> Result<OperationOutcome, LifecycleError> {
        self.lifecycle.ask_question(
            self.outcome.plan.id,
            self.epoch,
            question,
            answer_timeout,
            &self.call(),
        )
    }

    /// Gives the phase back, as on a clean shutdown.
    pub fn release(self) -> Result<OperationOutcome, LifecycleError> {
        self.lifecycle
            .release_lease(self.outcome.plan.id, self.epoch, &self.call())
    }

    pub(crate) fn call(&self) -> Call {
        Call::by(self.caller.clone())
    }

    /// How long ago it was claimed.
    fn held_duration(&self) -> Result<Duration, LifecycleError> {
        let holder = self.outcome.plan.stage.holder();
        let since = holder.map_or(self.outcome.plan.updated_at, |holder| holder.since);
        Ok(self.lifecycle.store.now()?.span_since(since).as_duration())
    }

    /// The name the holder gave itself.
    pub(crate) fn owner(&self) -> String {
        let holder = self.outcome.plan.stage.holder();
        holder.map_or_else(String::new, |holder| holder.owner.clone())
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
#[allow(
    clippy::unwrap_used,
    reason = "a test whose set-up fails has failed, and the panic says where"
)]
pub(crate) mod tests {
    use plan::PlanActors;
    use testkit::samples;

    use super::*;
    use crate::UseRequest;

    /// A plan that works on nothing, claimed for this long.
    pub(crate) fn claim_new_plan(lifecycle: &Lifecycle, lease: Span) -> Claim {
        let ada = Call::by(Caller::Person("ada".to_owned()));
        let request = UseRequest {
            goal: Some("Look around".to_owned()),
            fallback_actors: Some(PlanActors::for_both_phases(samples::parse_name("robot"))),
            ..UseRequest::default()
        };
        let plan_id = lifecycle.use_action(request, &ada).unwrap().plan.id;
        lifecycle
            .start_strategize(plan_id, "me", lease, &ada)
            .unwrap()
    }
}
