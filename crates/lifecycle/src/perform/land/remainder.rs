//! Builds a new plan from what did not land.

use plan::command::LinkedPlan;
use plan::stage::{RefMove, ResultContent, ResultTree};
use plan::{Plan, PlanId};
use sandbox::SandboxKey;

use super::parse_result_tree;
use crate::perform::enter::parse_object_id;
use crate::{Landing, LifecycleError};

impl Landing<'_> {
    /// Builds a plan with the resources whose targets could not be moved and the paths that were not
    /// selected. Returns nothing if everything landed.
    pub(super) fn build_remainder_plan(
        &self,
        plan: &Plan,
        moves: &[RefMove],
        landed_resources: &[String],
    ) -> Result<Option<LinkedPlan>, LifecycleError> {
        let is_partial = plan
            .approval()
            .is_some_and(|approval| !approval.options.paths.is_empty());
        let remainder_id = self.lifecycle.ids.new_plan_id();
        let mut remaining_trees = Vec::new();
        for tree in plan.result().into_iter().flat_map(|result| &result.trees) {
            let step = moves.iter().find(|step| step.resource == tree.resource);
            let landed = step.filter(|step| landed_resources.contains(&step.resource));
            let unpicked = plan.unpicked_rest().and_then(|rest| {
                let whole = rest.whole_of(&tree.resource)?;
                Some((whole, rest.picked_of(&tree.resource)?))
            });
            match (landed, unpicked) {
                (Some(step), Some((whole, picked))) => remaining_trees.extend(
                    self.build_remainder_tree(plan, remainder_id, whole, Some(picked), step)?,
                ),
                (None, Some((whole, _))) => remaining_trees.push(whole.clone()),
                (Some(step), None) if is_partial => remaining_trees
                    .extend(self.build_remainder_tree(plan, remainder_id, tree, None, step)?),
                (Some(_), None) => {}
                (None, None) if step.is_some() || (is_partial && tree.changes != Some(0)) => {
                    remaining_trees.push(tree.clone());
                }
                (None, None) => {}
            }
        }
        Ok((!remaining_trees.is_empty()).then(|| LinkedPlan {
            id: remainder_id,
            resources: remaining_trees
                .iter()
                .map(|tree| tree.resource.clone())
                .collect(),
            result: ResultContent {
                report: None,
                trees: remaining_trees,
            },
        }))
    }

    /// What was left out of a resource's result, rebased onto the landed commit. If a person picked a part,
    /// that part is what both sides have in common.
    pub(super) fn build_remainder_tree(
        &self,
        plan: &Plan,
        remainder_id: PlanId,
        tree: &ResultTree,
        picked: Option<&ResultTree>,
        step: &RefMove,
    ) -> Result<Option<ResultTree>, LifecycleError> {
        let location = self
            .lifecycle
            .projects()
            .locate_resource_named(plan, &tree.resource)?;
        let sandbox_key = SandboxKey {
            plan_id: plan.id(),
            resource: &location,
        };
        let whole = parse_result_tree(tree)?;
        let picked = picked.map(|picked| parse_object_id(&picked.tree));
        let picked = picked.transpose()?;
        let sandboxes = &self.lifecycle.local_host()?.sandboxes;
        let remainder = sandboxes.landings().compute_rest(
            &sandbox_key,
            remainder_id,
            &whole,
            picked.as_ref(),
            &parse_object_id(&step.new)?,
        )?;
        Ok(remainder.map(|remainder| ResultTree {
            base: remainder.base.to_string(),
            tree: remainder.tree.to_string(),
            changes: None,
            ..tree.clone()
        }))
    }
}
