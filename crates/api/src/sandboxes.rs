//! Sandboxes on this host: which exist, which can go, and what was kept of them.

use std::path::PathBuf;

use lifecycle::{CleanupReport, EnteredSandbox, Lifecycle, LifecycleError, RescuedWork};
use plan::{PlanId, PlanStage};

use crate::plans::find_standing;
use crate::standing::PlanStanding;

/// The sandboxes of one plan.
#[derive(Debug)]
pub struct PlanSandboxDirs {
    pub plan_id: PlanId,
    /// `None` if the store does not know the plan: the sandboxes belong to another store, or the plan was never
    /// committed.
    pub standing: Option<PlanStanding>,
    pub paths: Vec<PathBuf>,
}

/// Ignored files of a plan, kept when its sandboxes were removed.
#[derive(Debug)]
pub struct FileArchive {
    pub plan_id: PlanId,
    pub path: PathBuf,
}

#[derive(Debug)]
pub struct SandboxList {
    pub sandboxes: Vec<PlanSandboxDirs>,
    pub archives: Vec<FileArchive>,
}

/// What happened to the sandboxes of one finished plan.
#[derive(Debug)]
pub struct CleanedSandboxes {
    pub plan_id: PlanId,
    pub result: Result<CleanupReport, LifecycleError>,
}

/// Why the sandboxes of a plan cannot be removed or restored.
#[derive(Debug, thiserror::Error)]
pub enum SandboxOperationError {
    #[error("the plan is not finished ({0})")]
    NotFinished(Box<PlanStage>),
    #[error("nothing was kept for this plan")]
    NothingKept {
        /// Ignored files are kept here.
        archive: Option<PathBuf>,
    },
    #[error(transparent)]
    Engine(#[from] LifecycleError),
}

/// What was restored of a plan's sandboxes.
#[derive(Debug)]
pub struct RestoredSandboxes {
    pub sandboxes: Vec<EnteredSandbox>,
    /// Branches, tags and stashes that the agent made.
    pub agent_refs: Vec<RescuedWork>,
}

pub fn list_sandboxes(lifecycle: &Lifecycle) -> Result<SandboxList, LifecycleError> {
    let mut sandboxes = Vec::new();
    for plan_id in lifecycle.sandboxes().plans_with_sandboxes()? {
        let (standing, paths) = match lifecycle.get_plan(plan_id) {
            Ok(row) => {
                let found = lifecycle.sandboxes().list_sandboxes(plan_id);
                let found = found.unwrap_or_default().into_iter();
                let paths = found.map(|one| one.path).collect();
                (Some(find_standing(lifecycle, &row)?), paths)
            }
            Err(LifecycleError::Refused(_)) => (None, Vec::new()),
            Err(error) => return Err(error),
        };
        sandboxes.push(PlanSandboxDirs {
            plan_id,
            standing,
            paths,
        });
    }
    let rescue = lifecycle.local_host()?.sandboxes.rescue();
    let archived = rescue.list_archived_plans()?.into_iter();
    let archives = archived.filter_map(|plan_id| {
        let path = rescue.find_archive(plan_id)?;
        Some(FileArchive { plan_id, path })
    });
    Ok(SandboxList {
        archives: archives.collect(),
        sandboxes,
    })
}

/// Removes the sandboxes of all finished plans. Work that did not land is kept.
pub fn clean_all_sandboxes(lifecycle: &Lifecycle) -> Result<Vec<CleanedSandboxes>, LifecycleError> {
    let mut cleaned = Vec::new();
    for plan_id in lifecycle.sandboxes().plans_with_sandboxes()? {
        match lifecycle.get_plan(plan_id) {
            Ok(row) if row.plan.stage().is_final() => cleaned.push(CleanedSandboxes {
                plan_id,
                result: lifecycle.sandboxes().clean_sandboxes(&row.plan),
            }),
            Ok(_) | Err(LifecycleError::Refused(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(cleaned)
}

/// Removes the sandboxes of one finished plan.
pub fn clean_plan_sandboxes(
    lifecycle: &Lifecycle,
    plan_id: PlanId,
) -> Result<CleanupReport, SandboxOperationError> {
    let plan = lifecycle.get_plan(plan_id)?.plan;
    if !plan.stage().is_final() {
        let stage = Box::new(plan.stage().clone());
        return Err(SandboxOperationError::NotFinished(stage));
    }
    Ok(lifecycle.sandboxes().clean_sandboxes(&plan)?)
}

/// Restores removed sandboxes from the work that was kept.
pub fn restore_sandboxes(
    lifecycle: &Lifecycle,
    plan_id: PlanId,
) -> Result<RestoredSandboxes, SandboxOperationError> {
    let restored = RestoredSandboxes {
        sandboxes: lifecycle.sandboxes().restore_sandboxes(plan_id)?,
        agent_refs: lifecycle.sandboxes().list_agent_refs(plan_id)?,
    };
    if restored.sandboxes.is_empty() && restored.agent_refs.is_empty() {
        let rescue = lifecycle.local_host()?.sandboxes.rescue();
        let archive = rescue.find_archive(plan_id);
        return Err(SandboxOperationError::NothingKept { archive });
    }
    Ok(restored)
}
