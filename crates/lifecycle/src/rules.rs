//! Rules: storing them, and finding those that apply to a plan.

use plan::command::{AddRule, RecordRuling, RemoveRule, WaiveRule};
use plan::invariant::{Gate, RuleBook, RuleDraft, RuleName, RuleScope};
use plan::judgement::RuleOutcome;
use plan::reads::CommandTarget;
use plan::{Plan, PlanId};

use crate::judge::{GateSubject, check_rule};
use crate::operations::next_gate;
use crate::{Call, Lifecycle, LifecycleError, OperationOutcome};

/// Stored rules, and those of repositories.
#[derive(Clone, Copy)]
pub struct Rules<'a> {
    lifecycle: &'a Lifecycle,
}

impl Lifecycle {
    pub fn rules(&self) -> Rules<'_> {
        Rules { lifecycle: self }
    }
}

impl Rules<'_> {
    pub fn add_rule(
        &self,
        scope: RuleScope,
        draft: RuleDraft,
        call: &Call,
    ) -> Result<(), LifecycleError> {
        check_rule(&draft)?;
        let target = self.target_for_scope(&scope)?;
        self.lifecycle
            .submit(AddRule { scope, draft }, &target, call)?;
        Ok(())
    }

    pub fn remove_rule(
        &self,
        scope: RuleScope,
        name: RuleName,
        call: &Call,
    ) -> Result<(), LifecycleError> {
        let target = self.target_for_scope(&scope)?;
        self.lifecycle
            .submit(RemoveRule { scope, name }, &target, call)?;
        Ok(())
    }

    /// Records a person's verdict on an `ask` rule, for the plan in its current state.
    pub fn record_ruling(
        &self,
        plan_id: PlanId,
        rule: RuleName,
        outcome: RuleOutcome,
        call: &Call,
    ) -> Result<OperationOutcome, LifecycleError> {
        let row = self.lifecycle.get_plan(plan_id)?;
        let gate = next_gate(&row.plan);
        let targets = self.lifecycle.gates().read_targets(&row.plan, gate)?;
        let gate_subject = match row.plan.result() {
            Some(result) if gate == Gate::Apply => GateSubject::Result(result),
            Some(_) | None => GateSubject::Plan,
        };
        let command = RecordRuling {
            rule,
            subject: gate_subject.compute_digest(&row.plan, gate),
            outcome,
            targets,
        };
        let committed =
            self.lifecycle
                .submit(command, &CommandTarget::for_plan(&row.plan), call)?;
        self.lifecycle.read_outcome(committed)
    }

    /// Waives a rule for this plan.
    pub fn waive_rule(
        &self,
        plan_id: PlanId,
        rule: RuleName,
        reason: &str,
        call: &Call,
    ) -> Result<OperationOutcome, LifecycleError> {
        let row = self.lifecycle.get_plan(plan_id)?;
        let waive = WaiveRule {
            rule,
            reason: reason.to_owned(),
            targets: self
                .lifecycle
                .gates()
                .read_targets(&row.plan, next_gate(&row.plan))?,
        };
        let committed = self
            .lifecycle
            .submit(waive, &CommandTarget::for_plan(&row.plan), call)?;
        self.lifecycle.read_outcome(committed)
    }

    /// Returns the stored rules of all scopes.
    pub fn list_rules(&self) -> Result<RuleBook, LifecycleError> {
        Ok(self.lifecycle.store.read_rules(&[])?)
    }

    /// Returns the stored rules of the scopes that apply to a plan.
    pub fn rules_for_plan(&self, plan: &Plan) -> Result<RuleBook, LifecycleError> {
        Ok(self.lifecycle.store.read_rules(&plan.rule_scopes())?)
    }

    /// Returns all rules that apply to a plan, including those in `planwright.yaml` of its targets.
    pub fn effective_rules(&self, plan_id: PlanId) -> Result<RuleBook, LifecycleError> {
        let plan = self.lifecycle.get_plan(plan_id)?.plan;
        let targets = self
            .lifecycle
            .gates()
            .read_targets(&plan, next_gate(&plan))?;
        Ok(self.rules_for_plan(&plan)?.with_plan_rules(&plan, &targets))
    }

    fn target_for_scope(&self, scope: &RuleScope) -> Result<CommandTarget, LifecycleError> {
        match scope {
            RuleScope::Global
            | RuleScope::Project(_)
            | RuleScope::Repository(_)
            | RuleScope::WorkingTree(_)
            | RuleScope::Action(_) => Ok(CommandTarget::default()),
            RuleScope::Plan(id) => self.lifecycle.read_command_target(*id),
        }
    }
}
