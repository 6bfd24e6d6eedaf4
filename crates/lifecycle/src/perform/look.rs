//! Looking at what a plan changed. Changes nothing.

use plan::stage::{Landing, Work};
use plan::{PlanId, Stage};
use sandbox::{Look, Room};

use super::enter::object;
use crate::{Error, Lifecycle};

/// What a plan changed on one resource.
pub struct Looked {
    /// The plan's resource.
    pub resource: String,
    /// The two states to compare.
    pub look: Look,
}

impl Lifecycle {
    /// What the sandboxes of a plan hold at this moment, whatever was handed in.
    pub fn look_inside(&self, plan: PlanId) -> Result<Vec<Looked>, Error> {
        let plan = self.get_plan(plan)?.plan;
        let workshop = &self.hands()?.workshop;
        let mut looked = Vec::new();
        for site in self.sites(&plan)? {
            let room = Room {
                plan: plan.id,
                site: &site,
            };
            let look = workshop.look_inside(&room)?;
            looked.extend(look.map(|look| Looked {
                resource: site.name.clone(),
                look,
            }));
        }
        Ok(looked)
    }

    /// What a plan changed: as it landed, as it was handed in, or as it stands while somebody works.
    pub fn look(&self, plan: PlanId) -> Result<Vec<Looked>, Error> {
        let plan = self.get_plan(plan)?.plan;
        let workshop = &self.hands()?.workshop;
        let mut looked = Vec::new();
        for site in self.sites(&plan)? {
            let room = Room {
                plan: plan.id,
                site: &site,
            };
            let landed = plan.landed.iter().find(|step| step.resource == site.name);
            let mut trees = plan.result.iter().flat_map(|result| &result.trees);
            let tree = trees.rfind(|tree| tree.resource == site.name);
            let working = matches!(
                plan.stage,
                Stage::Execute(
                    Work::Processing(_)
                        | Work::Errored(_)
                        | Work::AwaitingInput(_)
                        | Work::Queued(_)
                )
            );
            let look = match (&plan.stage, landed, tree) {
                (Stage::Apply(Landing::Applied(_)), Some(step), _) => {
                    workshop.look_at_landed(&room, &object(&step.new)?)?
                }
                (_, _, Some(tree)) if !working => {
                    workshop.look(&room, &object(&tree.base)?, &object(&tree.tree)?)?
                }
                _ => match workshop.look_inside(&room)? {
                    Some(look) => look,
                    None => continue,
                },
            };
            looked.push(Looked {
                resource: site.name,
                look,
            });
        }
        Ok(looked)
    }
}
