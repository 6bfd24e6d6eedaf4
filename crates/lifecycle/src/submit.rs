//! The only write path of the product. Turns a command into a submission, which the store decides and commits.

use plan::authority::check_authority;
use plan::reads::CommandTarget;
use plan::{Caller, Command, DecisionRequest, PlanId, ReceiptOutcome, Refusal, decide};
use store::{CommitOutcome, IdempotencyKey, Submission};

use crate::{Call, Lifecycle, LifecycleError};

impl Lifecycle {
    /// Decides and commits one command.
    pub(crate) fn submit(
        &self,
        command: impl Into<Command>,
        target: &CommandTarget,
        call: &Call,
    ) -> Result<CommitOutcome, LifecycleError> {
        let command = command.into();
        // Before a remembered answer is returned. What an agent may do depends on the plan, so `decide` checks it; the
        // scope of its keys keeps other callers' answers from it.
        if !matches!(call.caller, Caller::Agent(_)) {
            check_authority(&command, &call.caller, None)?;
        }
        let key = call.key.as_ref().map(|key| IdempotencyKey {
            scope: key_scope(&command, target.plan_id, key.scope_owner(&call.caller)),
            key: key.text.clone(),
            fingerprint: command.fingerprint(call.if_version),
        });
        let reads = command.reads(target);
        let request = DecisionRequest {
            command,
            plan_id: target.plan_id,
            caller: call.caller.clone(),
            if_version: call.if_version,
        };
        // The store calls `decide` inside the transaction, possibly more than once, on locked rows.
        let committed = self.store.commit(Submission {
            id: self.ids.new_command_id(),
            key,
            reads,
            decide: Box::new(move |facts, now| decide(facts, &request, now)),
        })?;
        match committed.receipt.outcome {
            ReceiptOutcome::Blocked(blocked) => Err(LifecycleError::Blocked(blocked)),
            ReceiptOutcome::Done | ReceiptOutcome::AlreadyDone => Ok(committed),
        }
    }

    pub(crate) fn read_command_target(
        &self,
        plan_id: PlanId,
    ) -> Result<CommandTarget, LifecycleError> {
        let row = self
            .store
            .read_plan(plan_id)?
            .ok_or(Refusal::NoSuchPlan(plan_id))?;
        Ok(CommandTarget::for_plan(&row.plan))
    }
}

/// The scope within which an idempotency key must be unique.
fn key_scope(command: &Command, plan_id: Option<PlanId>, owner: Option<&Caller>) -> String {
    let mut scope = command.verb().to_string();
    if let Some(plan_id) = plan_id {
        scope.push_str(&format!(" {plan_id}"));
    }
    if let Some(owner) = owner {
        let kind = match owner {
            Caller::Person(_) => "person",
            Caller::Agent(_) => "agent",
            Caller::Worker(_) => "worker",
        };
        scope.push_str(&format!(" {kind} {}", owner.name()));
    }
    scope
}
