//! Undoes a landed plan with a new plan that contains the inverse change.
//!
//! Concurrent undos of one plan all get the same new plan: they derive the same idempotency key, and the
//! store returns what was committed under it.

use plan::command::LinkedPlan;
use plan::command::UndoLanding;
use plan::landing_options::LandingDestination;
use plan::plan::PlanOrigin;
use plan::stage::{ApplyState, IgnoredPaths, ResultContent, ResultTree, StateName};
use plan::{LandingOptions, Phase, Plan, PlanId, PlanStage};
use sandbox::SandboxKey;
use store::{PlanFilter, PlanRow};

use crate::perform::enter::parse_object_id;
use crate::{Call, Landing, LifecycleError, OperationOutcome};

/// How many plans per state are searched for an undo of another.
const MAX_UNDO_CANDIDATES: usize = 1000;

/// A plan that undoes another.
#[derive(Debug, Clone, PartialEq)]
pub struct UndoPlan {
    /// A new plan, or an unfinished undo plan that already exists.
    pub plan_id: PlanId,
    /// Set if an earlier call already completed the undo.
    pub earlier_outcome: Option<OperationOutcome>,
    /// The landing options of the plan that is undone.
    pub options: LandingOptions,
}

impl Landing<'_> {
    /// Creates a plan with the inverse of a landed one. Landing it merges the inverse with later changes.
    pub fn undo_plan(&self, plan_id: PlanId, call: &Call) -> Result<UndoPlan, LifecycleError> {
        let origin = self.lifecycle.get_plan(plan_id)?.plan;
        if !matches!(origin.stage(), PlanStage::Apply(ApplyState::Applied(_)))
            || !origin.has_targets()
        {
            let empty_undo = LinkedPlan {
                id: self.lifecycle.ids.new_plan_id(),
                resources: Vec::new(),
                result: ResultContent::default(),
            };
            // Nothing landed. Submit anyway, so that the decision returns the right refusal.
            let done = self
                .lifecycle
                .submit_for_plan(plan_id, UndoLanding(empty_undo), call)?;
            return Ok(UndoPlan {
                plan_id: done.plan.id(),
                earlier_outcome: None,
                options: LandingOptions::default(),
            });
        }
        let origin_options = origin.approval().map(|approval| &approval.options);
        let shape = origin_options
            .map(|options| options.shape.clone())
            .unwrap_or_default();
        if let LandingDestination::Branch(name) = shape {
            return Err(LifecycleError::LandedOnBranch { branch: name });
        }
        let options = LandingOptions {
            shape,
            ..LandingOptions::default()
        };
        if call.key.is_none()
            && let Some(undo_id) = self.find_unfinished_undo(&origin)?
        {
            return Ok(UndoPlan {
                plan_id: undo_id,
                earlier_outcome: None,
                options,
            });
        }
        let sandboxes = &self.lifecycle.local_host()?.sandboxes;
        let mut trees = Vec::new();
        for step in origin.landed() {
            let location = self
                .lifecycle
                .projects()
                .locate_resource_named(&origin, &step.resource)?;
            let sandbox_key = SandboxKey {
                plan_id,
                resource: &location,
            };
            let (tree, changes) = sandboxes
                .diffs()
                .read_state_before_landing(&sandbox_key, &parse_object_id(&step.new)?)?;
            let resource = origin
                .resources()
                .iter()
                .find(|one| one.name == step.resource);
            let target = resource.and_then(|resource| resource.target.clone());
            trees.push(ResultTree {
                resource: step.resource.clone(),
                target: target.unwrap_or_default(),
                base: step.new.clone(),
                tree: tree.to_string(),
                changes: Some(changes),
                ignored: IgnoredPaths::default(),
                // A person requests the undo, so no extra confirmation is needed.
                changes_settings: false,
            });
        }
        let result = ResultContent {
            report: None,
            trees,
        };
        let done = match call.key {
            Some(_) => self.create_undo_plan(plan_id, &result, call)?,
            None => self.find_or_create_undo(&origin, &result, call)?,
        };
        Ok(UndoPlan {
            plan_id: done.plan.id(),
            earlier_outcome: Some(done).filter(|done| done.plan.stage().is_final()),
            options,
        })
    }

    fn create_undo_plan(
        &self,
        plan_id: PlanId,
        result: &ResultContent,
        call: &Call,
    ) -> Result<OperationOutcome, LifecycleError> {
        let trees = result.trees.iter();
        let linked = LinkedPlan {
            id: self.lifecycle.ids.new_plan_id(),
            resources: trees.map(|tree| tree.resource.clone()).collect(),
            result: result.clone(),
        };
        self.lifecycle
            .submit_for_plan(plan_id, UndoLanding(linked), call)
    }

    /// Returns the undo plan of this plan. Concurrent and repeated calls get the same one. After an undo plan
    /// was cancelled or undone itself, the next number is tried.
    fn find_or_create_undo(
        &self,
        origin: &Plan,
        result: &ResultContent,
        call: &Call,
    ) -> Result<OperationOutcome, LifecycleError> {
        // A landed plan never changes its version. Another expected version is refused by the command;
        // the current one makes no difference.
        if call
            .if_version
            .is_some_and(|version| version != origin.version())
        {
            return self.create_undo_plan(origin.id(), result, call);
        }
        let mut number = 1_u32;
        loop {
            let key = format!("planwright undo {number}");
            let call = call.follow_up().with_shared_key(key);
            let done = self.create_undo_plan(origin.id(), result, &call)?;
            let stage = done.plan.stage();
            let is_spent = match matches!(stage, PlanStage::Apply(ApplyState::Applied(_))) {
                true => self.is_undone(&done.plan)?,
                false => stage.is_final(),
            };
            if !is_spent {
                return Ok(done);
            }
            number += 1;
        }
    }

    /// Has a plan that undoes this one landed?
    fn is_undone(&self, plan: &Plan) -> Result<bool, LifecycleError> {
        let filter = PlanFilter {
            phase: Some(Phase::Apply),
            state: Some(StateName::Applied),
            project: plan.resources().first().map(|one| one.project.clone()),
            ..PlanFilter::default()
        };
        let rows = self
            .lifecycle
            .store
            .list_plans(&filter, None, MAX_UNDO_CANDIDATES)?;
        let undoes = |row: &PlanRow| row.plan.origin() == PlanOrigin::UndoOf(plan.id());
        Ok(rows.iter().any(undoes))
    }

    /// Finds an undo of this plan that has not ended, because of a crash or an obstacle. It is continued
    /// instead of creating another.
    fn find_unfinished_undo(&self, origin: &Plan) -> Result<Option<PlanId>, LifecycleError> {
        let stages = [
            (Phase::Execute, StateName::Complete),
            (Phase::Apply, StateName::Queued),
            (Phase::Apply, StateName::Processing),
            (Phase::Apply, StateName::Errored),
            (Phase::Apply, StateName::Constrained),
        ];
        for (phase, state) in stages {
            let filter = PlanFilter {
                phase: Some(phase),
                state: Some(state),
                project: origin.resources().first().map(|one| one.project.clone()),
                ..PlanFilter::default()
            };
            let rows = self
                .lifecycle
                .store
                .list_plans(&filter, None, MAX_UNDO_CANDIDATES)?;
            let undoes = |row: &&PlanRow| row.plan.origin() == PlanOrigin::UndoOf(origin.id());
            if let Some(row) = rows.iter().find(undoes) {
                return Ok(Some(row.plan.id()));
            }
        }
        Ok(None)
    }
}
