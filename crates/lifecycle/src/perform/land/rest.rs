//! What did not land, as a plan of its own.

use plan::command::LinkedPlan;
use plan::stage::{RefMove, ResultContent, ResultTree};
use plan::{Plan, PlanId};
use sandbox::Room;

use super::outcome_of;
use crate::perform::enter::object;
use crate::{Error, Lifecycle};

impl Lifecycle {
    /// What did not land, as a plan of its own: resources that could not any more after another had,
    /// and the paths that were left out.
    pub(super) fn rest_of(
        &self,
        plan: &Plan,
        moves: &[RefMove],
        arrived: &[String],
    ) -> Result<Option<LinkedPlan>, Error> {
        let partly = plan
            .approval
            .as_ref()
            .is_some_and(|approval| !approval.how.paths.is_empty());
        let id = self.ids.plan();
        let mut left = Vec::new();
        for tree in plan.result.iter().flat_map(|result| &result.trees) {
            let step = moves.iter().find(|step| step.resource == tree.resource);
            let landed = step.filter(|step| arrived.contains(&step.resource));
            match landed {
                Some(step) if partly => left.extend(self.left_out(plan, id, tree, step)?),
                Some(_) => {}
                None if step.is_some() || (partly && tree.changes != Some(0)) => {
                    left.push(tree.clone());
                }
                None => {}
            }
        }
        Ok((!left.is_empty()).then(|| LinkedPlan {
            id,
            resources: left.iter().map(|tree| tree.resource.clone()).collect(),
            result: ResultContent {
                report: None,
                trees: left,
            },
        }))
    }

    /// The paths of a resource that were left out, based on what landed.
    pub(super) fn left_out(
        &self,
        plan: &Plan,
        for_plan: PlanId,
        tree: &ResultTree,
        step: &RefMove,
    ) -> Result<Option<ResultTree>, Error> {
        let site = self.site_named(plan, &tree.resource)?;
        let room = Room {
            plan: plan.id,
            site: &site,
        };
        let whole = outcome_of(tree)?;
        let workshop = &self.hands()?.workshop;
        let rest = workshop.rest(&room, for_plan, &whole, &object(&step.new)?)?;
        Ok(rest.map(|rest| ResultTree {
            base: rest.base.to_string(),
            tree: rest.tree.to_string(),
            changes: None,
            ..tree.clone()
        }))
    }
}
