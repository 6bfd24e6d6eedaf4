//! Removes the sandboxes of ended plans after rescuing work that did not land. Idempotent.

use std::path::PathBuf;

use plan::stage::{ApplyState, ResultContent};
use plan::{Plan, PlanId, PlanStage};
use sandbox::{ArchivedFiles, NestedRepositories, RescueRef, SandboxKey, SandboxOpening};

use super::EnteredSandbox;
use super::enter::{parse_object_id, tree_of_resource};
use crate::{Claim, LifecycleError, PlanSandboxes, ResultSource};

/// Work that did not land, kept under a rescue ref.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RescuedWork {
    pub resource: String,
    pub leftover: RescueRef,
}

/// What a cleanup did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CleanupReport {
    /// False if a sandbox is in use or the plan can continue.
    pub is_removed: bool,
    pub rescued: Vec<RescuedWork>,
    /// Archives of ignored files that are in no result. Stored below the home directory.
    pub archived: Vec<ArchivedFiles>,
    /// Copies of repository data left by agents that no ref can preserve.
    pub preserved_dirs: Vec<PathBuf>,
}

/// A sandbox that is opened for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenSandbox {
    pub sandbox: EnteredSandbox,
    /// Whether git commands are safe there.
    pub opened: SandboxOpening,
}

impl PlanSandboxes<'_> {
    /// Removes the sandboxes of an ended plan, after saving unlanded work under rescue refs. Keeps them if
    /// they are in use or the plan can continue.
    pub fn clean_sandboxes(&self, plan: &Plan) -> Result<CleanupReport, LifecycleError> {
        let sandboxes = &self.lifecycle.local_host()?.sandboxes;
        let mut report = CleanupReport::default();
        let landed = matches!(plan.stage(), PlanStage::Apply(ApplyState::Applied(_)));
        let submitted = match landed {
            true => self.find_submitted_result(plan)?,
            false => None,
        };
        for location in self.lifecycle.projects().locate_resources(plan)? {
            let sandbox_key = SandboxKey {
                plan_id: plan.id(),
                resource: &location,
            };
            let submitted = submitted.as_ref();
            let submitted = submitted.and_then(|result| tree_of_resource(result, &location.name));
            let newest = match submitted {
                Some(tree) => sandboxes
                    .rescue()
                    .rescue_late_changes(&sandbox_key, &parse_object_id(tree)?)?,
                None => sandboxes.rescue().rescue_current_work(&sandbox_key)?,
            };
            let older = sandboxes.rescue().rescue_older_sandboxes(&sandbox_key)?;
            report
                .archived
                .extend(sandboxes.rescue().archive_left_out_files(&sandbox_key)?);
            let agents = sandboxes.rescue().rescue_agent_refs(&sandbox_key, landed)?;
            report.preserved_dirs.extend(agents.raw_copies);
            let rescued = newest.into_iter().chain(older).chain(agents.refs);
            report.rescued.extend(rescued.map(|leftover| RescuedWork {
                resource: location.name.clone(),
                leftover,
            }));
        }
        let locations = self.lifecycle.projects().locate_resources(plan)?;
        let release_pins = || {
            for location in locations.iter().filter(|_| plan.stage().is_final()) {
                let sandbox_key = SandboxKey {
                    plan_id: plan.id(),
                    resource: location,
                };
                sandboxes
                    .landings()
                    .release_pins(&sandbox_key, plan.epoch())?;
            }
            Ok(())
        };
        report.is_removed = sandboxes.rescue().remove_plan(plan.id(), release_pins)?;
        Ok(report)
    }

    /// The result that the sandboxes were left with. A pick changes the result and not the sandboxes: what it
    /// left out is in a plan of its own, or a person decided against it.
    fn find_submitted_result(&self, plan: &Plan) -> Result<Option<ResultContent>, LifecycleError> {
        if plan.sandbox_preparation().picked.is_empty() {
            return Ok(plan.result().cloned());
        }
        let results = self.lifecycle.history().list_results(plan.id())?;
        let mut submitted = results.into_iter().rev();
        let submitted = submitted.find(|result| result.source != ResultSource::Picked);
        Ok(submitted.map(|result| result.content))
    }

    /// Restores sandboxes from rescue refs, as they were before the cleanup.
    pub fn restore_sandboxes(
        &self,
        plan_id: PlanId,
    ) -> Result<Vec<EnteredSandbox>, LifecycleError> {
        let plan = self.lifecycle.get_plan(plan_id)?.plan;
        let sandboxes = &self.lifecycle.local_host()?.sandboxes;
        let mut restored = Vec::new();
        for location in self.lifecycle.projects().locate_resources(&plan)? {
            let sandbox_key = SandboxKey {
                plan_id: plan.id(),
                resource: &location,
            };
            if let Some(sandbox) = sandboxes
                .rescue()
                .restore_from_rescue(&sandbox_key, plan.epoch())?
            {
                restored.push(EnteredSandbox {
                    resource: location.name.clone(),
                    path: sandbox.path,
                });
            }
        }
        Ok(restored)
    }

    /// Lists the rescued branches, tags and stashes that agents created.
    pub fn list_agent_refs(&self, plan_id: PlanId) -> Result<Vec<RescuedWork>, LifecycleError> {
        let plan = self.lifecycle.get_plan(plan_id)?.plan;
        let sandboxes = &self.lifecycle.local_host()?.sandboxes;
        let mut found = Vec::new();
        for location in self.lifecycle.projects().locate_resources(&plan)? {
            let sandbox_key = SandboxKey {
                plan_id: plan.id(),
                resource: &location,
            };
            let rescued = sandboxes.rescue().list_rescued_agent_refs(&sandbox_key)?;
            found.extend(rescued.into_iter().map(|leftover| RescuedWork {
                resource: location.name.clone(),
                leftover,
            }));
        }
        Ok(found)
    }

    /// Lists the existing sandboxes of a plan.
    pub fn list_sandboxes(&self, plan_id: PlanId) -> Result<Vec<EnteredSandbox>, LifecycleError> {
        let plan = self.lifecycle.get_plan(plan_id)?.plan;
        let sandboxes = &self.lifecycle.local_host()?.sandboxes;
        let mut found = Vec::new();
        for location in self.lifecycle.projects().locate_resources(&plan)? {
            let sandbox_key = SandboxKey {
                plan_id: plan.id(),
                resource: &location,
            };
            found.extend(
                sandboxes
                    .current_sandbox(&sandbox_key)?
                    .map(|sandbox| EnteredSandbox {
                        resource: location.name.clone(),
                        path: sandbox.path,
                    }),
            );
        }
        Ok(found)
    }

    /// Opens the sandboxes of a plan for a person, so that git commands there execute nothing that an agent wrote.
    /// Sandboxes of a held plan are left as they are.
    pub fn open_sandboxes(&self, plan_id: PlanId) -> Result<Vec<OpenSandbox>, LifecycleError> {
        let plan = self.lifecycle.get_plan(plan_id)?.plan;
        let is_held = plan.stage().holder().is_some();
        self.open_each_sandbox(&plan, |sandbox_key| match is_held {
            true => Ok(Some(SandboxOpening::InUse)),
            false => Ok(self
                .lifecycle
                .local_host()?
                .sandboxes
                .open_for_person(sandbox_key, None)?),
        })
    }

    /// Like [`Self::open_sandboxes`], for the person who holds the plan.
    pub fn open_held_sandboxes(&self, claim: &Claim) -> Result<Vec<OpenSandbox>, LifecycleError> {
        self.open_each_sandbox(claim.plan(), |sandbox_key| {
            let sandboxes = &self.lifecycle.local_host()?.sandboxes;
            Ok(sandboxes.open_for_person(sandbox_key, Some(claim.epoch()))?)
        })
    }

    fn open_each_sandbox(
        &self,
        plan: &Plan,
        open: impl Fn(&SandboxKey<'_>) -> Result<Option<SandboxOpening>, LifecycleError>,
    ) -> Result<Vec<OpenSandbox>, LifecycleError> {
        let sandboxes = &self.lifecycle.local_host()?.sandboxes;
        let mut found = Vec::new();
        for location in self.lifecycle.projects().locate_resources(plan)? {
            let sandbox_key = SandboxKey {
                plan_id: plan.id(),
                resource: &location,
            };
            let Some(sandbox) = sandboxes.current_sandbox(&sandbox_key)? else {
                continue;
            };
            // Without a repository, no git command can run agent code.
            let opened = open(&sandbox_key)?
                .unwrap_or_else(|| SandboxOpening::Clean(NestedRepositories::default()));
            found.push(OpenSandbox {
                sandbox: EnteredSandbox {
                    resource: location.name.clone(),
                    path: sandbox.path,
                },
                opened,
            });
        }
        Ok(found)
    }

    /// Lists the plans with sandboxes on this host.
    pub fn plans_with_sandboxes(&self) -> Result<Vec<PlanId>, LifecycleError> {
        let found = self
            .lifecycle
            .local_host()?
            .sandboxes
            .rescue()
            .list_plan_dirs()?;
        Ok(found.into_iter().map(|state| state.plan_id).collect())
    }
}
