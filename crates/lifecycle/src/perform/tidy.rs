//! Tidying up after plans. May be repeated: what is gone is gone, what is kept is kept once.

use std::path::PathBuf;

use plan::stage::Landing;
use plan::{Plan, PlanId, Stage};
use sandbox::{ArchivedFiles, Leftover, Opened, Remarks, Room};

use super::EnteredSandbox;
use super::enter::{object, result_tree};
use crate::{Claim, Error, Lifecycle};

/// Work that did not land and is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The plan's resource.
    pub resource: String,
    /// Where it is kept.
    pub leftover: Leftover,
}

/// What tidying up did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tidied {
    /// The sandboxes were removed.
    pub removed: bool,
    /// What is kept under rescue refs.
    pub kept: Vec<Kept>,
    /// Ignored files that are part of no result, below the home.
    pub archived: Vec<ArchivedFiles>,
    /// Directories with what agents left in their repositories and no ref can keep.
    pub set_aside: Vec<PathBuf>,
}

/// A sandbox that a person is about to enter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenSandbox {
    /// Where it is.
    pub sandbox: EnteredSandbox,
    /// Whether git can be used there.
    pub opened: Opened,
}

impl Lifecycle {
    /// Removes the sandboxes of a plan that has ended. What did not land is kept under a rescue ref
    /// first; somebody in there, or a plan that goes on, keeps them.
    pub fn tidy(&self, plan: &Plan) -> Result<Tidied, Error> {
        let workshop = &self.hands()?.workshop;
        let mut tidied = Tidied::default();
        let landed = matches!(plan.stage, Stage::Apply(Landing::Applied(_)));
        for site in self.sites(plan)? {
            let room = Room {
                plan: plan.id,
                site: &site,
            };
            let newest = match result_tree(plan, &site.name) {
                Some(tree) if landed => workshop.rescue_late(&room, &object(tree)?)?,
                Some(_) | None => workshop.rescue(&room)?,
            };
            let older = workshop.rescue_older(&room)?;
            tidied.archived.extend(workshop.archive_left_out(&room)?);
            let agents = workshop.rescue_agent_refs(&room, landed)?;
            tidied.set_aside.extend(agents.set_aside);
            let kept = newest.into_iter().chain(older).chain(agents.refs);
            tidied.kept.extend(kept.map(|leftover| Kept {
                resource: site.name.clone(),
                leftover,
            }));
        }
        let sites = self.sites(plan)?;
        let release_pins = || {
            for site in sites.iter().filter(|_| plan.stage.is_final()) {
                let room = Room {
                    plan: plan.id,
                    site,
                };
                workshop.release_pins(&room, plan.epoch)?;
            }
            Ok(())
        };
        tidied.removed = workshop.remove(plan.id, release_pins)?;
        Ok(tidied)
    }

    /// Brings back the sandboxes of work that was kept, as it was when it was cleaned up.
    pub fn restore(&self, plan: PlanId) -> Result<Vec<EnteredSandbox>, Error> {
        let plan = self.get_plan(plan)?.plan;
        let workshop = &self.hands()?.workshop;
        let mut restored = Vec::new();
        for site in self.sites(&plan)? {
            let room = Room {
                plan: plan.id,
                site: &site,
            };
            if let Some(sandbox) = workshop.restore(&room, plan.epoch)? {
                restored.push(EnteredSandbox {
                    resource: site.name.clone(),
                    path: sandbox.path,
                });
            }
        }
        Ok(restored)
    }

    /// What is kept of the branches, tags and stashes that agents made for themselves.
    pub fn agent_refs_of(&self, plan: PlanId) -> Result<Vec<Kept>, Error> {
        let plan = self.get_plan(plan)?.plan;
        let workshop = &self.hands()?.workshop;
        let mut found = Vec::new();
        for site in self.sites(&plan)? {
            let room = Room {
                plan: plan.id,
                site: &site,
            };
            let kept = workshop.rescued_agent_refs(&room)?;
            found.extend(kept.into_iter().map(|leftover| Kept {
                resource: site.name.clone(),
                leftover,
            }));
        }
        Ok(found)
    }

    /// The sandboxes of a plan that are there.
    pub fn sandboxes_of(&self, plan: PlanId) -> Result<Vec<EnteredSandbox>, Error> {
        let plan = self.get_plan(plan)?.plan;
        let workshop = &self.hands()?.workshop;
        let mut found = Vec::new();
        for site in self.sites(&plan)? {
            let room = Room {
                plan: plan.id,
                site: &site,
            };
            found.extend(workshop.current(&room)?.map(|sandbox| EnteredSandbox {
                resource: site.name.clone(),
                path: sandbox.path,
            }));
        }
        Ok(found)
    }

    /// The sandboxes of a plan, each opened for a person: no git command run there executes what an agent wrote,
    /// unless somebody is still at work.
    pub fn open_sandboxes(&self, plan: PlanId) -> Result<Vec<OpenSandbox>, Error> {
        let plan = self.get_plan(plan)?.plan;
        let is_held = plan.stage.holder().is_some();
        self.open_each(&plan, |room| match is_held {
            true => Ok(Some(Opened::InUse)),
            false => Ok(self.hands()?.workshop.open_for_person(room, None)?),
        })
    }

    /// The same by whoever holds the plan, and is that person.
    pub fn open_held_sandboxes(&self, claim: &Claim) -> Result<Vec<OpenSandbox>, Error> {
        self.open_each(claim.plan(), |room| {
            let workshop = &self.hands()?.workshop;
            Ok(workshop.open_for_person(room, Some(claim.epoch()))?)
        })
    }

    fn open_each(
        &self,
        plan: &Plan,
        open: impl Fn(&Room<'_>) -> Result<Option<Opened>, Error>,
    ) -> Result<Vec<OpenSandbox>, Error> {
        let workshop = &self.hands()?.workshop;
        let mut found = Vec::new();
        for site in self.sites(plan)? {
            let room = Room {
                plan: plan.id,
                site: &site,
            };
            let Some(sandbox) = workshop.current(&room)? else {
                continue;
            };
            // Where nothing is left, nothing can run.
            let opened = open(&room)?.unwrap_or_else(|| Opened::Clean(Remarks::default()));
            found.push(OpenSandbox {
                sandbox: EnteredSandbox {
                    resource: site.name.clone(),
                    path: sandbox.path,
                },
                opened,
            });
        }
        Ok(found)
    }

    /// Plans that have sandboxes here.
    pub fn sandboxes(&self) -> Result<Vec<PlanId>, Error> {
        let found = self.hands()?.workshop.sandboxes()?;
        Ok(found.into_iter().map(|state| state.plan).collect())
    }
}
