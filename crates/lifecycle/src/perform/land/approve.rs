//! Approves a result before landing. Checks the landing options first, and skips a valid approval.

use plan::command::{ApproveResult, ConstrainApply};
use plan::invariant::{Gate, RuleRef};
use plan::landing_options::LandingDestination;
use plan::plan::PlanOrigin;
use plan::reads::CommandTarget;
use plan::stage::{ApplyState, ConstraintKind, ResultTree};
use plan::{LandingOptions, Plan, PlanId, PlanStage};
use sandbox::{SandboxError, SandboxKey};

use super::{LANDING_LEASE, landing_method, needs_new_approval, parse_result_tree};
use crate::{Call, Landing, LifecycleError, OperationOutcome};

/// What an approval is given for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ApprovalPurpose {
    /// For any later landing.
    Standing,
    /// For the landing that the caller is about to start.
    CallerLanding,
    /// For a landing by the engine.
    EngineLanding,
}

impl Landing<'_> {
    /// Approves the result for landing with these options. Does not land it.
    pub fn approve_result(
        &self,
        plan_id: PlanId,
        options: &LandingOptions,
        call: &Call,
    ) -> Result<OperationOutcome, LifecycleError> {
        self.submit_approval(plan_id, options, ApprovalPurpose::Standing, call)
    }

    /// Approves the result and asks the engine to land it. Whoever drives the plan next lands it. A landing that could
    /// not be completed is queued again in a second commit.
    pub fn request_landing(
        &self,
        plan_id: PlanId,
        options: &LandingOptions,
        call: &Call,
    ) -> Result<OperationOutcome, LifecycleError> {
        let plan = self.lifecycle.get_plan(plan_id)?.plan;
        if plan.has_targets() && plan.result().is_some() {
            self.check_landing_options(&plan, options)?;
        }
        let done = self.submit_approval(plan_id, options, ApprovalPurpose::EngineLanding, call)?;
        match done.plan.stage() {
            PlanStage::Apply(ApplyState::Constrained(_)) => {
                self.lifecycle
                    .retry_phase(plan_id, false, None, &call.follow_up())
            }
            PlanStage::Strategize(_) | PlanStage::Execute(_) | PlanStage::Apply(_) => Ok(done),
        }
    }

    fn submit_approval(
        &self,
        plan_id: PlanId,
        options: &LandingOptions,
        purpose: ApprovalPurpose,
        call: &Call,
    ) -> Result<OperationOutcome, LifecycleError> {
        self.check_can_land(plan_id, options)?;
        let row = self.lifecycle.get_plan(plan_id)?;
        let targets = self
            .lifecycle
            .gates()
            .read_targets(&row.plan, Gate::Apply)?;
        let approve = ApproveResult {
            options: options.clone(),
            targets,
            once: purpose != ApprovalPurpose::Standing,
            lands: purpose == ApprovalPurpose::EngineLanding,
        };
        let committed =
            self.lifecycle
                .submit(approve, &CommandTarget::for_plan(&row.plan), call)?;
        self.lifecycle.read_outcome(committed)
    }

    /// Approves a queued landing again if the options differ from the approved ones.
    pub(super) fn renew_approval(
        &self,
        plan_id: PlanId,
        options: &LandingOptions,
        owner: &str,
        call: &Call,
    ) -> Result<(), LifecycleError> {
        let row = self.lifecycle.get_plan(plan_id)?;
        let is_queued = matches!(row.plan.stage(), PlanStage::Apply(ApplyState::Queued(..)));
        if !is_queued || !needs_new_approval(&row.plan, options) {
            return Ok(());
        }
        let follow_up = call.follow_up();
        let claim =
            self.lifecycle
                .claims()
                .start_apply(plan_id, owner, LANDING_LEASE, &follow_up)?;
        let constrain = ConstrainApply {
            epoch: claim.epoch(),
            kind: ConstraintKind::ApprovalVoid,
            message: "the requested landing options differ from the approved ones".to_owned(),
            paths: Vec::new(),
            commits: Vec::new(),
        };
        self.lifecycle
            .submit_for_plan(plan_id, constrain, &follow_up)?;
        self.approve_if_needed(&row.plan, options, call)?;
        self.lifecycle
            .retry_phase(plan_id, false, None, &follow_up)
            .map(drop)
    }

    /// Checks that the result can land with these options.
    pub(crate) fn check_landing_options(
        &self,
        plan: &Plan,
        options: &LandingOptions,
    ) -> Result<(), LifecycleError> {
        let sandboxes = &self.lifecycle.local_host()?.sandboxes;
        let mut unmatched = None;
        let mut matched = options.paths.is_empty();
        for tree in changed_trees(plan) {
            let location = self
                .lifecycle
                .projects()
                .locate_resource_named(plan, &tree.resource)?;
            let sandbox_key = SandboxKey {
                plan_id: plan.id(),
                resource: &location,
            };
            sandboxes
                .landings()
                .check_landing_method(&sandbox_key, &landing_method(options))?;
            if !options.paths.is_empty() {
                match sandboxes.landings().restrict_result(
                    &sandbox_key,
                    &parse_result_tree(tree)?,
                    &options.paths,
                ) {
                    Ok(_) => matched = true,
                    Err(error @ SandboxError::NoPathMatches { .. }) => unmatched = Some(error),
                    Err(error) => return Err(error.into()),
                }
            }
        }
        match unmatched {
            Some(error) if !matched => Err(error.into()),
            Some(_) | None => Ok(()),
        }
    }

    /// Checks that the result exists and can land with these options. Skips resources on other hosts; the
    /// landing checks those.
    pub(crate) fn check_can_land(
        &self,
        plan_id: PlanId,
        options: &LandingOptions,
    ) -> Result<(), LifecycleError> {
        let Some(local_host) = &self.lifecycle.local_host else {
            return Ok(());
        };
        let Some(row) = self.lifecycle.store.read_plan(plan_id)? else {
            return Ok(());
        };
        if !row.plan.stage().is_final() {
            self.check_result_reachable(&row.plan)?;
        }
        if matches!(options.shape, LandingDestination::Commit) {
            return Ok(());
        }
        for tree in changed_trees(&row.plan) {
            if let Ok(location) = self
                .lifecycle
                .projects()
                .locate_resource_named(&row.plan, &tree.resource)
            {
                let sandbox_key = SandboxKey {
                    plan_id,
                    resource: &location,
                };
                local_host
                    .sandboxes
                    .landings()
                    .check_landing_method(&sandbox_key, &landing_method(options))?;
            }
        }
        Ok(())
    }

    /// Was the result of a plan's work deleted, or the vault that had it? Skips resources on other hosts, and does
    /// not start git.
    pub fn is_result_missing(&self, plan: &Plan) -> bool {
        let Ok(local_host) = self.lifecycle.local_host() else {
            return false;
        };
        // The results of an undo or a rest come from elsewhere.
        if plan.origin() != PlanOrigin::Use {
            return false;
        }
        let mut trees = plan.result().into_iter().flat_map(|result| &result.trees);
        trees.any(|tree| {
            let location = self
                .lifecycle
                .projects()
                .locate_resource_named(plan, &tree.resource);
            location.is_ok_and(|location| {
                let plan_id = plan.id();
                let resource = &location;
                !local_host
                    .sandboxes
                    .vaults()
                    .has_checkpoint(&SandboxKey { plan_id, resource })
            })
        })
    }

    /// Checks that all trees of a result exist. What a person cannot see, they cannot approve.
    fn check_result_reachable(&self, plan: &Plan) -> Result<(), LifecycleError> {
        let sandboxes = &self.lifecycle.local_host()?.sandboxes;
        for tree in plan.result().into_iter().flat_map(|result| &result.trees) {
            match self
                .lifecycle
                .projects()
                .locate_resource_named(plan, &tree.resource)
            {
                Ok(location) => {
                    let plan_id = plan.id();
                    let sandbox_key = SandboxKey {
                        plan_id,
                        resource: &location,
                    };
                    sandboxes
                        .landings()
                        .check_result(&sandbox_key, &parse_result_tree(tree)?)?;
                }
                Err(LifecycleError::WaitingForHost { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Repeats a keyed landing that has ended, with the same answer. The key was used by the first command
    /// of the landing, which is either the approval or the move into apply.
    pub(super) fn repeat_keyed_landing(
        &self,
        plan_id: PlanId,
        options: &LandingOptions,
        call: &Call,
    ) -> Result<OperationOutcome, LifecycleError> {
        match self.submit_approval(plan_id, options, ApprovalPurpose::CallerLanding, call) {
            Err(LifecycleError::Refused(_)) => self.lifecycle.apply_plan(plan_id, call),
            other => other,
        }
    }

    /// Is the approval still valid for the current rules and, if the profile requires it, the current targets?
    fn is_approval_current(&self, plan: &Plan) -> Result<bool, LifecycleError> {
        let targets = self.lifecycle.gates().read_targets(plan, Gate::Apply)?;
        let rules = self
            .lifecycle
            .rules()
            .rules_for_plan(plan)?
            .with_plan_rules(plan, &targets);
        let rules = rules.effective_rules_at(Gate::Apply.judged_gates());
        let rules: Vec<RuleRef> = rules.iter().map(|rule| rule.reference()).collect();
        let tips = plan.approval().map(|approval| &approval.tips);
        let survives = plan.profile().approval_survives_merge() || tips == Some(&targets.tips);
        Ok(survives && plan.approval_void_reason(&rules).is_none())
    }

    /// Approves the result. Returns false if a valid approval with these options exists.
    pub(super) fn approve_if_needed(
        &self,
        plan: &Plan,
        options: &LandingOptions,
        call: &Call,
    ) -> Result<bool, LifecycleError> {
        let current_approval = plan
            .valid_approval()
            .filter(|approval| approval.options == *options);
        if !plan.has_targets() {
            return Ok(false);
        }
        if current_approval.is_some() && self.is_approval_current(plan)? {
            return Ok(false);
        }
        self.submit_approval(plan.id(), options, ApprovalPurpose::CallerLanding, call)
            .map(|_| true)
    }
}

/// The trees of the result that contain changes.
pub(super) fn changed_trees(plan: &Plan) -> impl Iterator<Item = &ResultTree> {
    let trees = plan.result().into_iter().flat_map(|result| &result.trees);
    trees.filter(|tree| tree.changes != Some(0))
}
