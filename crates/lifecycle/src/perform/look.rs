//! Looking at what a plan changed. Changes nothing.

use plan::stage::{IgnoredPaths, Work};
use plan::{Plan, PlanId, Stage};
use sandbox::{Look, Room};

use super::capture::ignored_paths;
use super::enter::object;
use crate::{Error, Lifecycle};

/// What a plan changed on one resource.
pub struct Looked {
    /// The plan's resource.
    pub resource: String,
    /// The two states to compare.
    pub look: Look,
    /// What became of files that git ignores.
    pub ignored: IgnoredPaths,
}

impl Lifecycle {
    /// What the sandboxes of a plan hold at this moment, whatever was handed in.
    pub fn look_inside(&self, plan: PlanId) -> Result<Vec<Looked>, Error> {
        let workshop = &self.hands()?.workshop;
        self.look_at_each(plan, |_, room| Ok(workshop.look_inside(room)?))
    }

    /// What a plan changed: as it landed, as it was handed in, or as it stands while somebody works.
    pub fn look(&self, plan: PlanId) -> Result<Vec<Looked>, Error> {
        let workshop = &self.hands()?.workshop;
        self.look_at_each(plan, |plan, room| {
            let name = &room.site.name;
            if let Some(step) = plan.landed.iter().find(|step| step.resource == *name) {
                return Ok(Some(workshop.look_at_landed(room, &object(&step.new)?)?));
            }
            let mut trees = plan.result.iter().flat_map(|result| &result.trees);
            match trees.find(|tree| tree.resource == *name) {
                Some(tree) if !is_being_worked_on(plan) => {
                    let (base, tree) = (object(&tree.base)?, object(&tree.tree)?);
                    Ok(Some(workshop.look(room, &base, &tree)?))
                }
                Some(_) | None => Ok(workshop.look_inside(room)?),
            }
        })
    }

    fn look_at_each(
        &self,
        plan: PlanId,
        look: impl Fn(&Plan, &Room<'_>) -> Result<Option<Look>, Error>,
    ) -> Result<Vec<Looked>, Error> {
        let plan = self.get_plan(plan)?.plan;
        let mut looked = Vec::new();
        for site in self.sites(&plan)? {
            let room = Room {
                plan: plan.id,
                site: &site,
            };
            let seen = look(&plan, &room)?;
            let trees = plan.result.iter().flat_map(|result| &result.trees);
            let mut recorded = trees.filter(|tree| tree.resource == site.name);
            looked.extend(seen.map(|look| {
                Looked {
                    resource: site.name.clone(),
                    ignored: match &look.ignored {
                        Some(found) => ignored_paths(found),
                        None => recorded
                            .next()
                            .map_or_else(IgnoredPaths::default, |tree| tree.ignored.clone()),
                    },
                    look,
                }
            }));
        }
        Ok(looked)
    }
}

/// Is what was handed in before being worked on again?
fn is_being_worked_on(plan: &Plan) -> bool {
    match &plan.stage {
        Stage::Execute(work) => match work {
            Work::Queued(_) | Work::Processing(_) | Work::AwaitingInput(_) | Work::Errored(_) => {
                true
            }
            Work::Complete | Work::Cancelled(_) => false,
        },
        Stage::Strategize(_) | Stage::Apply(_) => false,
    }
}
