//! Computes a plan's diff, even while an agent is working. Read-only; caches nothing.

use plan::stage::{IgnoredPaths, ResultContent, WorkState};
use plan::{Plan, PlanId, PlanStage};
use sandbox::{SandboxKey, TreeDiff};

use super::capture::summarize_ignored;
use super::enter::parse_object_id;
use crate::{LifecycleError, PlanSandboxes};

/// A plan's changes to one resource.
pub struct ResourceChanges {
    pub resource: String,
    pub comparison: TreeDiff,
    /// What happened to files that git ignores.
    pub ignored: IgnoredPaths,
}

impl PlanSandboxes<'_> {
    /// Returns the current changes in a plan's sandboxes, regardless of the submitted result.
    pub fn view_sandbox_changes(
        &self,
        plan_id: PlanId,
    ) -> Result<Vec<ResourceChanges>, LifecycleError> {
        let sandboxes = &self.lifecycle.local_host()?.sandboxes;
        self.view_each_resource(plan_id, |_, sandbox_key| {
            Ok(sandboxes.diffs().diff_sandbox(sandbox_key)?)
        })
    }

    /// Returns a plan's changes: as landed, as submitted, or as they are in the sandbox during execute.
    pub fn view_changes(&self, plan_id: PlanId) -> Result<Vec<ResourceChanges>, LifecycleError> {
        let sandboxes = &self.lifecycle.local_host()?.sandboxes;
        self.view_each_resource(plan_id, |plan, sandbox_key| {
            let name = &sandbox_key.resource.name;
            if let Some(step) = plan.landed().iter().find(|step| step.resource == *name) {
                return Ok(Some(
                    sandboxes
                        .diffs()
                        .diff_landed_commit(sandbox_key, &parse_object_id(&step.new)?)?,
                ));
            }
            let mut trees = plan.result().into_iter().flat_map(|result| &result.trees);
            match trees.find(|tree| tree.resource == *name) {
                Some(tree) if !is_executing_again(plan) => {
                    let (base, tree) = (parse_object_id(&tree.base)?, parse_object_id(&tree.tree)?);
                    Ok(Some(sandboxes.diffs().diff_trees(
                        sandbox_key,
                        &base,
                        &tree,
                    )?))
                }
                Some(_) | None => Ok(sandboxes.diffs().diff_sandbox(sandbox_key)?),
            }
        })
    }

    /// Returns the changes between two results of a plan, or from the base to one of them.
    pub fn view_result_changes(
        &self,
        plan_id: PlanId,
        from: Option<&ResultContent>,
        to: &ResultContent,
    ) -> Result<Vec<ResourceChanges>, LifecycleError> {
        let sandboxes = &self.lifecycle.local_host()?.sandboxes;
        let tree_in = |result: &ResultContent, name: &str| {
            let mut trees = result.trees.iter();
            trees.find(|tree| tree.resource == name).cloned()
        };
        self.view_each_resource(plan_id, |_, sandbox_key| {
            let name = &sandbox_key.resource.name;
            let Some(new) = tree_in(to, name) else {
                return Ok(None);
            };
            let old = match from.and_then(|from| tree_in(from, name)) {
                Some(earlier) => earlier.tree,
                None => new.base,
            };
            let (old, new) = (parse_object_id(&old)?, parse_object_id(&new.tree)?);
            Ok(Some(sandboxes.diffs().diff_trees(
                sandbox_key,
                &old,
                &new,
            )?))
        })
    }

    fn view_each_resource(
        &self,
        plan_id: PlanId,
        compare: impl Fn(&Plan, &SandboxKey<'_>) -> Result<Option<TreeDiff>, LifecycleError>,
    ) -> Result<Vec<ResourceChanges>, LifecycleError> {
        let plan = self.lifecycle.get_plan(plan_id)?.plan;
        let mut changes = Vec::new();
        for location in self.lifecycle.projects().locate_resources(&plan)? {
            let sandbox_key = SandboxKey {
                plan_id: plan.id(),
                resource: &location,
            };
            let compared = compare(&plan, &sandbox_key)?;
            let trees = plan.result().into_iter().flat_map(|result| &result.trees);
            let mut submitted_trees = trees.filter(|tree| tree.resource == location.name);
            changes.extend(compared.map(|comparison| {
                ResourceChanges {
                    resource: location.name.clone(),
                    ignored: match &comparison.ignored {
                        Some(found) => summarize_ignored(found),
                        None => submitted_trees
                            .next()
                            .map_or_else(IgnoredPaths::default, |tree| tree.ignored.clone()),
                    },
                    comparison,
                }
            }));
        }
        Ok(changes)
    }
}

/// Is the plan executing again after it submitted a result?
fn is_executing_again(plan: &Plan) -> bool {
    match plan.stage() {
        PlanStage::Execute(work) => match work {
            WorkState::Queued(_)
            | WorkState::Processing(_)
            | WorkState::AwaitingInput(_)
            | WorkState::Errored(_) => true,
            WorkState::Complete | WorkState::Cancelled(_) => false,
        },
        PlanStage::Strategize(_) | PlanStage::Apply(_) => false,
    }
}
