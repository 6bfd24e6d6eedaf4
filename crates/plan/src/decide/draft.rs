//! A draft of a decision about one plan.

use std::sync::Arc;

use crate::decide::DecisionRequest;
use crate::decide::available_verbs::available_verbs;
use crate::decide::ledger;
use crate::evolve::apply_event;
use crate::facts::{Lease, PlanChange};
use crate::ledger::BudgetGrant;
use crate::profile::AutomationStep;
use crate::{
    ChangesetId, CommandReceipt, Decision, DecisionFacts, Epoch, Event, Plan, ReceiptOutcome,
    RecordedEvent, Refusal, RowWrite, Timestamp,
};

/// Collects events and rows. Its plan always includes the collected events.
pub(super) struct DecisionDraft<'a> {
    pub facts: &'a DecisionFacts,
    pub request: &'a DecisionRequest,
    /// Never before the plan's last event, so that the log is in time order even if clocks differ.
    pub now: Timestamp,
    pub plan: Arc<Plan>,
    pub rows: Vec<RowWrite>,
    pub epoch: Option<Epoch>,
    pub changeset: Option<ChangesetId>,
    pub grant: Option<BudgetGrant>,
    /// The plan as read from the store.
    plan_before: &'a Arc<Plan>,
    events: Vec<RecordedEvent>,
    new_plans: Vec<PlanChange>,
}

impl<'a> DecisionDraft<'a> {
    /// Starts a draft on the plan in the facts.
    pub fn for_request(
        facts: &'a DecisionFacts,
        request: &'a DecisionRequest,
        now: Timestamp,
    ) -> Result<Self, Refusal> {
        let id = request
            .plan_id
            .expect("BUG: a command about a plan names it");
        let before = facts.plan.as_ref().ok_or(Refusal::NoSuchPlan(id))?;
        Ok(Self {
            facts,
            request,
            now: now.max(before.updated_at()),
            plan: Arc::clone(before),
            plan_before: before,
            rows: Vec::new(),
            epoch: request.command.epoch(),
            changeset: None,
            grant: None,
            events: Vec::new(),
            new_plans: Vec::new(),
        })
    }

    /// Adds an event and applies it to the plan.
    pub fn emit_event(&mut self, event: Event) {
        let recorded = RecordedEvent {
            plan: self.plan.id(),
            version: self.plan.version().next(),
            at: self.now,
            by: self.request.caller.clone(),
            event,
        };
        apply_event(Arc::make_mut(&mut self.plan), &recorded)
            .expect("BUG: a decision emits only events that fit the plan");
        self.events.push(recorded);
    }

    /// Adds a new plan to create in the same commit.
    pub fn add_new_plan(&mut self, change: PlanChange) {
        self.new_plans.push(change);
    }

    /// Checks that the epoch is the current holder's.
    pub fn require_holder(&self, epoch: Epoch) -> Result<(), Refusal> {
        match self.plan.stage().holder() {
            Some(holder) if holder.epoch == epoch => Ok(()),
            Some(_) | None => Err(Refusal::Fenced {
                given: epoch,
                current: self.plan.epoch(),
            }),
        }
    }

    /// Checks that the caller is a person.
    pub fn require_person(&self) -> Result<(), Refusal> {
        if self.request.caller.is_person() {
            return Ok(());
        }
        Err(Refusal::NeedsPerson {
            verb: self.request.command.verb(),
            profile: self.plan.profile(),
        })
    }

    /// Checks that the profile allows the step without a person, or that the caller is one.
    pub fn require_person_or(&self, step: AutomationStep) -> Result<(), Refusal> {
        if self.plan.allows_unattended(step) {
            return Ok(());
        }
        self.require_person()
    }

    /// Returns the collected events and rows as a decision. Drops the lease if the plan has no
    /// holder any more, and its reviews if it has ended.
    pub fn finish(mut self) -> Decision {
        if self.plan_before.stage().holder().is_some() && self.plan.stage().holder().is_none() {
            self.rows.push(RowWrite::DropLease(self.plan.id()));
        }
        if !self.plan_before.stage().is_final() && self.plan.stage().is_final() {
            self.rows.push(RowWrite::DropReviews(self.plan.id()));
        }
        self.rows
            .extend(ledger::forfeit_rows(self.facts, &self.plan, self.now));
        let receipt = self.make_receipt(ReceiptOutcome::Done);
        let mut plans = Vec::new();
        if !self.events.is_empty() {
            plans.push(PlanChange {
                plan: self.plan,
                events: self.events,
            });
        }
        plans.extend(self.new_plans);
        Decision {
            plans,
            rows: self.rows,
            receipt,
        }
    }

    /// Returns a decision with these rows only. Discards the collected events.
    pub fn finish_with_rows(self, rows: Vec<RowWrite>, outcome: ReceiptOutcome) -> Decision {
        let mut receipt = self.make_receipt(outcome);
        receipt.version = Some(self.plan_before.version());
        Decision {
            plans: Vec::new(),
            rows,
            receipt,
        }
    }

    /// Answers a command that does not apply in this stage: "already done" if the same epoch did it
    /// before, otherwise the most specific refusal.
    pub fn answer_not_applicable(self) -> Result<Decision, Refusal> {
        let verb = self.request.command.verb();
        let given = self.request.command.epoch();
        let last_completion = || {
            let known = self.facts.completions.get(&verb);
            known.ok_or(Refusal::CompletionNotRead { verb })
        };
        // First of all: a holder that lost an answer must learn that its command succeeded, even if
        // the plan has ended or has another holder by now.
        if let Some(given) = given
            && let Some(done) = last_completion()?
            && done.epoch == Some(given)
        {
            return Ok(self.finish_with_rows(Vec::new(), ReceiptOutcome::AlreadyDone));
        }
        if let Some(ending) = self.plan.stage().ending() {
            let state = self.plan.stage().state_name().as_str();
            return Err(Refusal::Final {
                verb,
                state,
                ending: ending.clone(),
            });
        }
        if let Some(given) = given
            && self
                .plan
                .stage()
                .holder()
                .is_none_or(|holder| holder.epoch != given)
        {
            return Err(Refusal::Fenced {
                given,
                current: self.plan.epoch(),
            });
        }
        if self.plan.is_prepared() {
            return Err(Refusal::PointOfNoReturn { verb });
        }
        let stage = self.plan.stage().to_string();
        Err(Refusal::WrongState {
            verb,
            stage,
            done: last_completion()?.clone(),
            possible_verbs: available_verbs(&self.plan),
        })
    }

    /// Adds the lease row of a claim or renewal.
    pub fn put_lease(&mut self, owner: &str, epoch: Epoch, expires_at: Timestamp) {
        let lease = Lease {
            plan: self.plan.id(),
            owner: owner.to_owned(),
            epoch,
            expires_at,
        };
        self.rows.push(RowWrite::PutLease(lease));
    }

    fn make_receipt(&self, outcome: ReceiptOutcome) -> CommandReceipt {
        CommandReceipt {
            verb: self.request.command.verb(),
            outcome,
            plan: Some(self.plan.id()),
            version: Some(self.plan.version()),
            epoch: self.epoch,
            changeset: self.changeset,
            grant: self.grant.clone().map(Box::new),
            at: self.now,
        }
    }
}
