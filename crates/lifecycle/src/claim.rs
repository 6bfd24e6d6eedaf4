//! A claim: a held lease as a value, so that callers need not handle epochs.

use std::time::{Duration, Instant};

use actors::Report;
use plan::command::{
    AskPerson, CompleteApply, CompleteStrategize, FailRun, PlainCommand, ReleaseLease, RenewLease,
};
use plan::decision::ReportedDecision;
use plan::stage::{FailureCategory, ResultContent};
use plan::{Caller, Epoch, Phase, Plan, Span};
use sandbox::SharedLock;

use crate::meter::amount_from_usage;
use crate::{Call, EnteredSandbox, ExecutionContext, Lifecycle, LifecycleError, OperationOutcome};

/// The right to work on a phase. Submitting a result, failing, asking or releasing consumes it.
///
/// Dropping it does none of these: the lease expires and the plan is reclaimed, which counts as an
/// attempt. So a plan that makes its worker panic is not retried forever.
#[must_use = "a claim that is dropped blocks the plan until its lease expires"]
pub struct Claim {
    pub(crate) lifecycle: Lifecycle,
    pub(crate) outcome: OperationOutcome,
    phase: Phase,
    epoch: Epoch,
    caller: Caller,
    /// The time of the claim by the monotonic clock. The first renewal is due relative to it.
    pub(crate) claimed_at: Instant,
    pub(crate) sandboxes: Vec<EnteredSandbox>,
    /// Locks that keep others from taking over the sandboxes while the claim exists.
    pub(crate) sandbox_locks: Vec<SharedLock>,
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
            sandbox_locks: Vec::new(),
            outcome,
        }
    }

    /// The plan as of the claim.
    pub fn plan(&self) -> &Plan {
        &self.outcome.plan
    }

    pub fn outcome(&self) -> &OperationOutcome {
        &self.outcome
    }

    /// One sandbox per resource. Empty for a plan without resources.
    pub fn sandboxes(&self) -> &[EnteredSandbox] {
        &self.sandboxes
    }

    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The context that records changes during execute.
    pub fn context(&self) -> ExecutionContext {
        ExecutionContext::new(
            self.lifecycle.clone(),
            self.outcome.plan.id(),
            self.epoch,
            self.call(),
        )
    }

    pub fn renew(&self, lease: Span) -> Result<(), LifecycleError> {
        self.submit_command(RenewLease::new(self.epoch, lease))
            .map(drop)
    }

    /// Submits an actor's report as a worker does. Depending on its outcome, stores the strategy or the result, fails
    /// the phase, asks a question, or releases the claim. A report of success without any change fails the phase.
    ///
    /// Charges the usage if budget was reserved for the claim ([`Budgets::reserve_budget`](crate::Budgets::reserve_budget)). Refused in apply, which
    /// is not an actor's work.
    pub fn complete(self, report: &Report) -> Result<OperationOutcome, LifecycleError> {
        let (plan_id, call) = (self.outcome.plan.id(), self.call());
        let used = amount_from_usage(report.usage, self.held_duration()?);
        self.lifecycle
            .budgets()
            .settle_usage(plan_id, self.epoch, used, &call)?;
        self.submit_report(report, &call)
    }

    /// Submits the strategy.
    pub fn complete_strategize(
        self,
        decisions: Vec<ReportedDecision>,
    ) -> Result<OperationOutcome, LifecycleError> {
        self.submit_command(CompleteStrategize::new(self.epoch, decisions))
    }

    /// Captures the sandboxes and submits the result.
    pub fn complete_execute(
        self,
        result: &ResultContent,
    ) -> Result<OperationOutcome, LifecycleError> {
        self.lifecycle
            .complete_execute(self.outcome.plan.id(), self.epoch, result, &self.call())
    }

    /// Records a completed landing on these resources.
    pub fn complete_apply(
        self,
        landed_resources: Vec<String>,
    ) -> Result<OperationOutcome, LifecycleError> {
        self.submit_command(CompleteApply::new(self.epoch, landed_resources, None))
    }

    /// Ends the claim with a failure.
    pub fn fail(
        self,
        category: FailureCategory,
        message: &str,
    ) -> Result<OperationOutcome, LifecycleError> {
        self.submit_command(FailRun::new(self.epoch, category, message))
    }

    /// Asks a person a question and ends the claim.
    pub fn ask(
        self,
        question: &str,
        answer_timeout: Option<Span>,
    ) -> Result<OperationOutcome, LifecycleError> {
        self.submit_command(AskPerson::new(self.epoch, question, answer_timeout))
    }

    /// Queues the phase again, as on a clean shutdown. Does not count as an attempt.
    pub fn release(self) -> Result<OperationOutcome, LifecycleError> {
        self.submit_command(ReleaseLease { epoch: self.epoch })
    }

    fn submit_command(
        &self,
        command: impl PlainCommand,
    ) -> Result<OperationOutcome, LifecycleError> {
        let plan_id = self.outcome.plan.id();
        self.lifecycle
            .submit_command(plan_id, command, &self.call())
    }

    pub(crate) fn call(&self) -> Call {
        Call::by(self.caller.clone())
    }

    /// The time since the claim, by the store's clock.
    fn held_duration(&self) -> Result<Duration, LifecycleError> {
        let holder = self.outcome.plan.stage().holder();
        let since = holder.map_or(self.outcome.plan.updated_at(), |holder| holder.since);
        Ok(self.lifecycle.store.now()?.span_since(since).as_duration())
    }

    pub(crate) fn owner(&self) -> String {
        let holder = self.outcome.plan.stage().holder();
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

    /// Creates a plan without resources and claims it.
    pub(crate) fn claim_new_plan(lifecycle: &Lifecycle, lease: Span) -> Claim {
        let ada = Call::by(Caller::Person("ada".to_owned()));
        let request = UseRequest {
            goal: Some("Look around".to_owned()),
            fallback_actors: Some(PlanActors::for_both_phases(samples::parse_name("robot"))),
            ..UseRequest::default()
        };
        let plan_id = lifecycle.use_action(request, &ada).unwrap().plan.id();
        lifecycle
            .claims()
            .start_strategize(plan_id, "me", lease, &ada)
            .unwrap()
    }
}
