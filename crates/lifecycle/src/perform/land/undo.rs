//! Taking back what landed: a new plan with the inverse change.
//!
//! Whoever takes a plan back while others do gets the same plan as they: each try has a key that all of
//! them derive alike, and the store gives what was committed under it.

use plan::command::LinkedPlan;
use plan::how::LandingDestination;
use plan::plan::PlanOrigin;
use plan::stage::{ApplyState, IgnoredPaths, ResultContent, ResultTree, StateName};
use plan::{Command, LandingOptions, Phase, Plan, PlanId, PlanStage};
use sandbox::SandboxKey;
use store::{PlanFilter, PlanRow};

use crate::perform::enter::parse_object_id;
use crate::{Call, Lifecycle, LifecycleError, OperationOutcome};

/// How many plans are looked at for one that takes another back.
const MAX_UNDO_CANDIDATES: usize = 1000;

/// A plan that takes another back.
#[derive(Debug, Clone, PartialEq)]
pub struct UndoPlan {
    /// The plan: a new one, or one that was begun and has not ended.
    pub plan_id: PlanId,
    /// It was taken back before, by this or another call.
    pub earlier_outcome: Option<OperationOutcome>,
    /// How it should arrive: like what it takes back.
    pub options: LandingOptions,
}

impl Lifecycle {
    /// Makes a plan that takes a landed one back: the inverse change, to be merged with what came
    /// since.
    pub fn undo_plan(&self, plan_id: PlanId, call: &Call) -> Result<UndoPlan, LifecycleError> {
        let origin = self.get_plan(plan_id)?.plan;
        if !matches!(origin.stage, PlanStage::Apply(ApplyState::Applied(_)))
            || !origin.has_targets()
        {
            let empty_undo = LinkedPlan {
                id: self.ids.new_plan_id(),
                resources: Vec::new(),
                result: ResultContent::default(),
            };
            // Refused: nothing landed.
            let done = self.submit_for_plan(plan_id, Command::Undo(empty_undo), call)?;
            return Ok(UndoPlan {
                plan_id: done.plan.id,
                earlier_outcome: None,
                options: LandingOptions::default(),
            });
        }
        let origin_options = origin.approval.as_ref().map(|approval| &approval.how);
        let shape = origin_options
            .map(|how| how.shape.clone())
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
        let sandboxes = &self.local_host()?.sandboxes;
        let mut trees = Vec::new();
        for step in &origin.landed {
            let location = self.locate_resource_named(&origin, &step.resource)?;
            let sandbox_key = SandboxKey {
                plan_id,
                resource: &location,
            };
            let (tree, changes) =
                sandboxes.read_state_before_landing(&sandbox_key, &parse_object_id(&step.new)?)?;
            let resource = origin
                .resources
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
                // A person asks for it to be undone.
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
            plan_id: done.plan.id,
            earlier_outcome: Some(done).filter(|done| done.plan.stage.is_final()),
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
            id: self.ids.new_plan_id(),
            resources: trees.map(|tree| tree.resource.clone()).collect(),
            result: result.clone(),
        };
        self.submit_for_plan(plan_id, Command::Undo(linked), call)
    }

    /// The plan that takes this one back: of those who ask at once, and of those who ask again, all get
    /// the same. One that was cancelled, or was taken back itself, makes room for the next.
    fn find_or_create_undo(
        &self,
        origin: &Plan,
        result: &ResultContent,
        call: &Call,
    ) -> Result<OperationOutcome, LifecycleError> {
        // What has landed stays at its version: whoever expects another is refused, whoever expects this
        // one asks for the same as who expects none.
        if call
            .if_version
            .is_some_and(|version| version != origin.version)
        {
            return self.create_undo_plan(origin.id, result, call);
        }
        let mut number = 1_u32;
        loop {
            let key = format!("planwright undo {number}");
            let call = call.follow_up().with_key(key);
            let done = self.create_undo_plan(origin.id, result, &call)?;
            let is_spent = match &done.plan.stage {
                PlanStage::Apply(ApplyState::Applied(_)) => self.is_undone(&done.plan)?,
                stage => stage.is_final(),
            };
            if !is_spent {
                return Ok(done);
            }
            number += 1;
        }
    }

    /// Did a plan land that takes this one back?
    fn is_undone(&self, plan: &Plan) -> Result<bool, LifecycleError> {
        let filter = PlanFilter {
            phase: Some(Phase::Apply),
            state: Some(StateName::Applied),
            project: plan.resources.first().map(|one| one.project.clone()),
            ..PlanFilter::default()
        };
        let rows = self.store.list_plans(&filter, None, MAX_UNDO_CANDIDATES)?;
        let undoes = |row: &PlanRow| row.plan.origin == PlanOrigin::UndoOf(plan.id);
        Ok(rows.iter().any(undoes))
    }

    /// A plan with the inverse of this one that has not ended: a crash cut it off, or something is in its
    /// way. Taking back goes on with it.
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
                project: origin.resources.first().map(|one| one.project.clone()),
                ..PlanFilter::default()
            };
            let rows = self.store.list_plans(&filter, None, MAX_UNDO_CANDIDATES)?;
            let undoes = |row: &&PlanRow| row.plan.origin == PlanOrigin::UndoOf(origin.id);
            if let Some(row) = rows.iter().find(undoes) {
                return Ok(Some(row.plan.id));
            }
        }
        Ok(None)
    }
}
