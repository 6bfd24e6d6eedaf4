//! The operations on plans. Each submits one command. A command that needs no preparation has no
//! function here: see [`Lifecycle::submit_command`].

use std::collections::BTreeSet;
use std::sync::Arc;

use plan::changeset::{Node, TreePath};
use plan::command::{
    ApplyPlan, CancelPlan, CompleteExecute, CreatePlan, ExecutePlan, NewPlan, OpenChangeset,
    PlainCommand, RetryPhase, ReviseWork,
};
use plan::invariant::Gate;
use plan::judgement::GateJudgement;
use plan::plan::{PlanLimits, ProfileSource};
use plan::repository_policy::SandboxCleanupPolicy;
use plan::stage::{ResultContent, WorkState};
use plan::{
    ActorDefinition, Command, CommandReceipt, Epoch, Plan, PlanActors, PlanId, PlanStage, Profile,
    QualifiedName, ReceiptOutcome, RepositoryPolicy,
};
use store::CommitOutcome;

use crate::judge::GateSubject;
use crate::{Call, Lifecycle, LifecycleError, SubmitExceptions};
use plan::reads::CommandTarget;

/// The result of an operation on a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct OperationOutcome {
    /// The plan after the operation. Its current state if `repeated` is set.
    pub plan: Plan,
    pub receipt: CommandReceipt,
    /// The operation was already done, under the same key or by the same holder.
    pub repeated: bool,
}

/// The input for a new plan.
#[derive(Debug, Clone, Default)]
pub struct UseRequest {
    /// From [`Lifecycle::new_plan_id`], for a caller that named the plan before it could be created. Otherwise the plan
    /// gets a new id.
    pub plan_id: Option<PlanId>,
    pub action: Option<QualifiedName>,
    /// Defaults to the action's description.
    pub goal: Option<String>,
    /// Pairs of name and value.
    pub arguments: Vec<(String, String)>,
    /// Used if the action names no actors.
    pub fallback_actors: Option<PlanActors>,
    /// Overrides the action's profile.
    pub profile: Option<Profile>,
    /// Definitions of the actors, frozen into the plan.
    pub definitions: Vec<ActorDefinition>,
    /// A person wants to see a strategy before execute.
    pub strategy_wanted: bool,
    /// Used if neither `profile` nor the action sets a profile, with the source of the setting.
    pub fallback_profile: Option<(Profile, ProfileSource)>,
    pub limits: PlanLimits,
    pub projects: Vec<QualifiedName>,
    /// Include uncommitted changes in the base.
    pub with_uncommitted_changes: bool,
    /// Settings from the repositories' configuration.
    pub policy: RepositoryPolicy,
}

impl Lifecycle {
    /// Returns an id that no plan has, for [`UseRequest::plan_id`].
    pub fn new_plan_id(&self) -> PlanId {
        self.ids.new_plan_id()
    }

    /// Creates a plan, with or without an action.
    pub fn use_action(
        &self,
        request: UseRequest,
        call: &Call,
    ) -> Result<OperationOutcome, LifecycleError> {
        let with_uncommitted = request.with_uncommitted_changes;
        let mut new_plan = self.new_plan(request);
        if with_uncommitted {
            new_plan.bases = self
                .sandboxes()
                .snapshot_uncommitted(new_plan.id, &new_plan.projects)?;
        }
        new_plan.policy.rules = self.gates().read_uncommitted_rules(&new_plan.projects)?;
        let command = CreatePlan(new_plan);
        let committed = self.submit(command, &CommandTarget::default(), call)?;
        self.read_outcome(committed)
    }

    /// Moves a plan with a completed strategy into execute.
    pub fn execute_plan(
        &self,
        plan_id: PlanId,
        call: &Call,
    ) -> Result<OperationOutcome, LifecycleError> {
        let command = |judgement| ExecutePlan { judgement };
        let committed = self.gates().submit_judged(
            plan_id,
            Gate::Execute,
            &GateSubject::Plan,
            call,
            command,
        )?;
        self.read_outcome(committed)
    }

    /// Opens a changeset for one unit of work (a node).
    pub fn open_changeset(
        &self,
        plan_id: PlanId,
        epoch: Epoch,
        node: Node,
        call: &Call,
    ) -> Result<OperationOutcome, LifecycleError> {
        self.submit_for_plan(
            plan_id,
            OpenChangeset {
                epoch,
                id: self.ids.new_changeset_id(),
                node,
            },
            call,
        )
    }

    /// Captures the sandboxes and submits the result.
    pub fn complete_execute(
        &self,
        plan_id: PlanId,
        epoch: Epoch,
        result: &ResultContent,
        call: &Call,
    ) -> Result<OperationOutcome, LifecycleError> {
        self.complete_execute_with(plan_id, epoch, result, SubmitExceptions::default(), call)
    }

    /// Like [`Self::complete_execute`], but accepts what `exceptions` allow.
    pub fn complete_execute_with(
        &self,
        plan_id: PlanId,
        epoch: Epoch,
        result: &ResultContent,
        exceptions: SubmitExceptions,
        call: &Call,
    ) -> Result<OperationOutcome, LifecycleError> {
        let (result, captured) = self
            .sandboxes()
            .capture_if_held(plan_id, epoch, result, exceptions)?;
        let complete = |judgement| CompleteExecute {
            epoch,
            result: result.clone(),
            captured: captured.clone(),
            allow_empty: exceptions.empty_result,
            judgement,
        };
        let is_refused_as_empty = !exceptions.empty_result
            && result.is_empty()
            && self.get_plan(plan_id)?.plan.has_targets();
        if is_refused_as_empty {
            // No rule has to be checked for that.
            return self.submit_for_plan(plan_id, complete(GateJudgement::default()), call);
        }
        let gate_subject = GateSubject::Result(&result);
        // The rule checks may take longer than the lease.
        let committed = self.leases().keep_lease_while(plan_id, epoch, call, || {
            self.gates()
                .submit_judged(plan_id, Gate::Result, &gate_subject, call, complete)
        })?;
        self.read_outcome(committed)
    }

    /// Moves a plan with a completed result into apply.
    pub fn apply_plan(
        &self,
        plan_id: PlanId,
        call: &Call,
    ) -> Result<OperationOutcome, LifecycleError> {
        let command = |judgement| ApplyPlan { judgement };
        let committed = self.gates().submit_judged(
            plan_id,
            Gate::Apply,
            &GateSubject::StoredResult,
            call,
            command,
        )?;
        self.read_outcome(committed)
    }

    /// Queues the phase again. `fresh` discards the work so far.
    pub fn retry_phase(
        &self,
        plan_id: PlanId,
        fresh: bool,
        limits: Option<PlanLimits>,
        call: &Call,
    ) -> Result<OperationOutcome, LifecycleError> {
        self.sandboxes()
            .check_resource_paths(&self.get_plan(plan_id)?.plan)?;
        self.submit_for_plan(plan_id, RetryPhase { fresh, limits }, call)
    }

    /// Sends the work back to its phase with feedback. Reverts `dropped_paths` first.
    pub fn revise_plan(
        &self,
        plan_id: PlanId,
        feedback: &str,
        dropped_paths: Vec<TreePath>,
        call: &Call,
    ) -> Result<OperationOutcome, LifecycleError> {
        let revise = ReviseWork {
            feedback: feedback.to_owned(),
            comments: BTreeSet::new(),
            dropped: dropped_paths,
        };
        self.send_back(plan_id, revise, call)
    }

    /// Sends the work back to its phase, with draft comments of the caller's review.
    pub fn send_back(
        &self,
        plan_id: PlanId,
        revise: ReviseWork,
        call: &Call,
    ) -> Result<OperationOutcome, LifecycleError> {
        self.sandboxes()
            .check_resource_paths(&self.get_plan(plan_id)?.plan)?;
        self.submit_for_plan(plan_id, revise, call)
    }

    /// Cancels the plan. Nothing lands.
    pub fn cancel_plan(
        &self,
        plan_id: PlanId,
        reason: Option<&str>,
        call: &Call,
    ) -> Result<OperationOutcome, LifecycleError> {
        let reason = reason.map(str::to_owned);
        let done = self.submit_for_plan(plan_id, CancelPlan { reason }, call)?;
        if done.plan.policy().clean == SandboxCleanupPolicy::OnTerminal && self.local_host.is_some()
        {
            // Best effort: `sandbox clean` removes what remains.
            let _ = self.sandboxes().clean_sandboxes(&done.plan);
        }
        Ok(done)
    }

    pub(crate) fn new_plan(&self, request: UseRequest) -> NewPlan {
        NewPlan {
            id: request.plan_id.unwrap_or_else(|| self.new_plan_id()),
            action: request.action,
            goal: request.goal,
            arguments: request.arguments,
            fallback_actors: request.fallback_actors,
            profile: request
                .profile
                .map(|profile| (profile, ProfileSource::Flag)),
            fallback_profile: request.fallback_profile,
            definitions: request.definitions,
            strategy_wanted: request.strategy_wanted,
            limits: request.limits,
            projects: request.projects,
            bases: Vec::new(),
            policy: request.policy,
        }
    }

    /// Submits a command that needs no preparation.
    pub fn submit_command(
        &self,
        plan_id: PlanId,
        command: impl PlainCommand,
        call: &Call,
    ) -> Result<OperationOutcome, LifecycleError> {
        self.submit_for_plan(plan_id, command, call)
    }

    pub(crate) fn submit_for_plan(
        &self,
        plan_id: PlanId,
        command: impl Into<Command>,
        call: &Call,
    ) -> Result<OperationOutcome, LifecycleError> {
        let committed = self.submit(command, &plan_target(plan_id), call)?;
        self.read_outcome(committed)
    }

    pub(crate) fn read_outcome(
        &self,
        committed: CommitOutcome,
    ) -> Result<OperationOutcome, LifecycleError> {
        let repeated =
            committed.is_repeat || committed.receipt.outcome == ReceiptOutcome::AlreadyDone;
        let plan = match committed.plan {
            Some(plan) => Arc::unwrap_or_clone(plan),
            None => {
                let plan_id = committed
                    .receipt
                    .plan
                    .expect("BUG: a receipt of an operation on a plan names it");
                self.get_plan(plan_id)
                    .map_err(LifecycleError::into_commit_unknown)?
                    .plan
            }
        };
        Ok(OperationOutcome {
            plan,
            receipt: committed.receipt,
            repeated,
        })
    }
}

pub(crate) fn plan_target(plan_id: PlanId) -> CommandTarget {
    CommandTarget {
        plan_id: Some(plan_id),
        ..CommandTarget::default()
    }
}

/// The gate before the plan's next step. Until its strategy is complete, that is the strategize gate.
pub(crate) fn next_gate(plan: &Plan) -> Gate {
    match plan.stage() {
        PlanStage::Strategize(WorkState::Complete) => Gate::Execute,
        PlanStage::Strategize(_) => Gate::Strategize,
        PlanStage::Execute(_) | PlanStage::Apply(_) => Gate::Apply,
    }
}
