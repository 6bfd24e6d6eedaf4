//! Prepares the sandboxes of a claim: the first effect of every claim in strategize and execute.
//!
//! Idempotent: a holder gets the sandbox it already has. The pending preparation (`Plan::entrance`) is
//! cleared only by the commit that records it as done, so a crash repeats it.

use std::cell::Cell;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use actors::Stop;
use plan::base::SandboxStartPoint;
use plan::command::{FailRun, RecordBases, ReleaseLease};
use plan::stage::{FailureCategory, ResultContent};
use plan::{Epoch, Phase, Plan, PlanId, Refusal, ResourceCommit};
use sandbox::{
    LocalResource, ObjectId, OccupiedSandbox, SandboxCondition, SandboxError, SandboxKey,
    SharedLock,
};

use crate::{Call, Claim, EngineProgress, LifecycleError, PlanSandboxes};

/// How long a set-up command may run.
const SETUP_TIMEOUT: Duration = Duration::from_secs(600);

/// How often the claim is checked while a set-up command runs.
const LEASE_CHECK_INTERVAL: Duration = Duration::from_millis(250);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnteredSandbox {
    /// The name of the plan's resource.
    pub resource: String,
    /// The working tree.
    pub path: PathBuf,
}

impl PlanSandboxes<'_> {
    /// Prepares a claim's sandboxes. If that fails, fails the phase with the reason, because work
    /// without a sandbox is impossible.
    pub(crate) fn prepare_sandboxes(
        &self,
        mut claim: Claim,
        call: &Call,
    ) -> Result<Claim, LifecycleError> {
        let plan = claim.plan();
        let epoch = claim.epoch();
        if plan.resources().is_empty() || claim.phase() == Phase::Apply || !plan.is_held_by(epoch) {
            return Ok(claim);
        }
        let entered = self
            .lifecycle
            .leases()
            .keep_lease_while(plan.id(), epoch, call, || {
                self.enter_sandboxes(plan, epoch, &call.follow_up())
            });
        match entered {
            Ok((plan, sandboxes, locks)) => {
                claim.outcome.plan = plan;
                claim.sandboxes = sandboxes;
                claim.sandbox_locks = locks;
                Ok(claim)
            }
            Err(LifecycleError::Stopped) => {
                // Also refuses if another holder has taken over the plan in the meantime.
                self.lifecycle.submit_command(
                    plan.id(),
                    ReleaseLease { epoch },
                    &call.follow_up(),
                )?;
                Err(LifecycleError::Stopped)
            }
            Err(error) => {
                let category = categorize_failure(&error);
                // If this fails too, the lease expires and the plan is reclaimed.
                let _ = self.lifecycle.submit_command(
                    plan.id(),
                    FailRun::new(epoch, category, error.to_string()),
                    &call.follow_up(),
                );
                Err(error)
            }
        }
    }

    /// Checks that a plan's resources are on this host. Runs before a claim, so that a plan on another
    /// host stays claimable there. Missing resources are reported by the claim itself.
    pub(crate) fn check_resources_reachable(&self, plan: &Plan) -> Result<(), LifecycleError> {
        match self.lifecycle.projects().locate_resources(plan) {
            Err(error @ (LifecycleError::WaitingForHost { .. } | LifecycleError::NoLocalHost)) => {
                Err(error)
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Checks that a plan's resources exist where its projects say, so that no work is queued on missing
    /// ones. Skips resources on other hosts.
    pub fn check_resource_paths(&self, plan: &Plan) -> Result<(), LifecycleError> {
        let Some(local_host) = &self.lifecycle.local_host else {
            return Ok(());
        };
        for resource in plan.resources() {
            match self.lifecycle.projects().locate_resource(resource) {
                Ok(location) => local_host.sandboxes.check_location(&location)?,
                Err(LifecycleError::WaitingForHost { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Like [`Self::check_resources_reachable`], by plan id. A missing plan passes.
    pub(crate) fn check_plan_reachable(&self, plan_id: plan::PlanId) -> Result<(), LifecycleError> {
        match self.lifecycle.store.read_plan(plan_id)? {
            Some(row) if !row.plan.resources().is_empty() => {
                self.check_resources_reachable(&row.plan)
            }
            Some(_) | None => Ok(()),
        }
    }

    fn enter_sandboxes(
        &self,
        plan: &Plan,
        epoch: Epoch,
        call: &Call,
    ) -> Result<(Plan, Vec<EnteredSandbox>, Vec<SharedLock>), LifecycleError> {
        let (mut sandboxes, mut locks) = (Vec::new(), Vec::new());
        let mut bases = Vec::new();
        for location in self.lifecycle.projects().locate_resources(plan)? {
            let sandbox_key = SandboxKey {
                plan_id: plan.id(),
                resource: &location,
            };
            let OccupiedSandbox { sandbox, lock } =
                self.enter_sandbox(plan, epoch, &sandbox_key, call)?;
            bases.push(ResourceCommit {
                resource: location.name.clone(),
                commit: sandbox.base.to_string(),
            });
            sandboxes.push(EnteredSandbox {
                resource: location.name,
                path: sandbox.path,
            });
            locks.push(lock);
        }
        if plan.bases() == bases && plan.sandbox_preparation().is_default() {
            return Ok((plan.clone(), sandboxes, locks));
        }
        let done = self
            .lifecycle
            .submit_for_plan(plan.id(), RecordBases { epoch, bases }, call)?;
        Ok((done.plan, sandboxes, locks))
    }

    fn enter_sandbox(
        &self,
        plan: &Plan,
        epoch: Epoch,
        sandbox_key: &SandboxKey<'_>,
        call: &Call,
    ) -> Result<OccupiedSandbox, LifecycleError> {
        // Entering is repeated after an interruption, so git may end in the middle of it.
        let sandboxes = self.lifecycle.local_host()?.sandboxes.clone();
        let sandboxes = &sandboxes.with_git_stop(call.stop.as_ref());
        let base = match plan.base_commit(&sandbox_key.resource.name) {
            Some(commit) => parse_object_id(commit)?,
            None => sandboxes.read_tip(sandbox_key.resource)?,
        };
        let start = match plan.sandbox_preparation().start {
            SandboxStartPoint::Continue => sandbox::SandboxEntryMode::Continue,
            SandboxStartPoint::Base => sandbox::SandboxEntryMode::ResetToBase,
            SandboxStartPoint::Afresh => sandbox::SandboxEntryMode::NewDirectory,
        };
        if start == sandbox::SandboxEntryMode::Continue {
            // An undo or remainder plan starts with a result, which its sandbox must contain.
            if let Some(tree) = result_tree(plan, &sandbox_key.resource.name) {
                sandboxes.vaults().seed_checkpoint(
                    sandbox_key,
                    epoch,
                    &base,
                    &parse_object_id(tree)?,
                )?;
            }
        }
        let OccupiedSandbox { mut sandbox, lock } =
            sandboxes.enter_sandbox(sandbox_key, epoch, &base, start)?;
        let mut sandbox_setups = plan.policy().sandbox_setups.iter();
        let sandbox_setup = sandbox_setups.find(|one| one.resource == sandbox_key.resource.name);
        let is_new = sandbox.creator_epoch == epoch;
        let mut has_ignored = !is_new;
        if is_new {
            let include = sandbox_setup
                .map(|one| one.include.as_slice())
                .unwrap_or_default();
            has_ignored = sandboxes
                .copy_ignored_files(sandbox_key, &sandbox, include)?
                .files
                > 0;
        }
        let setup_command = sandbox_setup.and_then(|one| one.setup.as_deref());
        has_ignored |= setup_command.is_some();
        let was_set_up = setup_command.is_none() || sandbox.is_set_up();
        if let Some(command) = setup_command.filter(|_| !sandbox.is_set_up()) {
            self.lifecycle
                .report_progress(plan, EngineProgress::SettingUpSandbox(command));
            let is_wanted = self.make_wanted_check(plan.id(), epoch, call);
            sandboxes.run_set_up(sandbox_key, &sandbox, command, SETUP_TIMEOUT, &is_wanted)?;
        }
        // Ignored files that exist before the agent starts are not part of its work.
        if has_ignored {
            let condition = if is_new || !was_set_up {
                SandboxCondition::BeforeAnyAgent
            } else if start == sandbox::SandboxEntryMode::ResetToBase {
                SandboxCondition::AtBase
            } else {
                SandboxCondition::AsLeft
            };
            sandboxes
                .capture()
                .protect_ignored_files(sandbox_key, &sandbox, condition)?;
        }
        let picked = plan.sandbox_preparation().picked.iter();
        let mut picked = picked.filter(|tree| tree.resource == sandbox_key.resource.name);
        if let Some(picked) = picked.next() {
            let tree = parse_object_id(&picked.tree)?;
            sandboxes.take_out_unpicked(sandbox_key, epoch, &tree)?;
        }
        if plan.sandbox_preparation().catch_up {
            let tip = sandboxes.read_tip(sandbox_key.resource)?;
            sandbox = sandboxes.merge_target_into_sandbox(sandbox_key, epoch, &tip)?;
        }
        if !plan.sandbox_preparation().dropped.is_empty() {
            sandboxes.revert_paths(sandbox_key, epoch, &plan.sandbox_preparation().dropped)?;
        }
        Ok(OccupiedSandbox { sandbox, lock })
    }

    /// Returns a check for slow steps: false once a stop is requested or the lease is lost.
    fn make_wanted_check<'a>(
        &'a self,
        plan_id: PlanId,
        epoch: Epoch,
        call: &'a Call,
    ) -> impl Fn() -> bool + 'a {
        let checked_at = Cell::new(Instant::now());
        move || {
            if call.stop.as_ref().is_some_and(Stop::is_requested) {
                return false;
            }
            if checked_at.get().elapsed() < LEASE_CHECK_INTERVAL {
                return true;
            }
            checked_at.set(Instant::now());
            match self.lifecycle.store.read_plan(plan_id) {
                Ok(row) => row.is_some_and(|row| row.plan.is_held_by(epoch)),
                // If the store is unavailable, keep going: the lease may still be valid.
                Err(_) => true,
            }
        }
    }

    /// Snapshots the uncommitted changes in these projects' resources, as bases of a new plan.
    pub(crate) fn snapshot_uncommitted(
        &self,
        plan_id: plan::PlanId,
        projects: &[plan::QualifiedName],
    ) -> Result<Vec<ResourceCommit>, LifecycleError> {
        let sandboxes = &self.lifecycle.local_host()?.sandboxes;
        let mut bases = Vec::new();
        for location in self.locate_project_resources(projects)? {
            let sandbox_key = SandboxKey {
                plan_id,
                resource: &location,
            };
            let tip = sandboxes.read_tip(&location)?;
            let base = sandboxes.snapshot_uncommitted_changes(&sandbox_key, &tip)?;
            bases.push(ResourceCommit {
                resource: location.name.clone(),
                commit: base.to_string(),
            });
        }
        Ok(bases)
    }

    /// Looks up the resources of projects, named as a new plan would name them. All must be on this host.
    pub fn locate_project_resources(
        &self,
        projects: &[plan::QualifiedName],
    ) -> Result<Vec<LocalResource>, LifecycleError> {
        let mut locations = Vec::new();
        for name in projects {
            let project = self.lifecycle.projects().get_project(name)?;
            for resource in project.freeze_resources() {
                locations.push(self.lifecycle.projects().locate_resource(&resource)?);
            }
        }
        Ok(locations)
    }
}

fn categorize_failure(error: &LifecycleError) -> FailureCategory {
    match error {
        LifecycleError::Sandbox(error) if error.is_transient() => FailureCategory::Transient,
        LifecycleError::Store(_) | LifecycleError::CommitUnknown(_) => FailureCategory::Transient,
        LifecycleError::Sandbox(_)
        | LifecycleError::ResourceGone { .. }
        | LifecycleError::NoLocalHost
        | LifecycleError::WaitingForHost { .. }
        | LifecycleError::LandedOnBranch { .. }
        | LifecycleError::Stopped
        | LifecycleError::Refused(_)
        | LifecycleError::Blocked(_)
        | LifecycleError::KeyReused { .. }
        | LifecycleError::InvalidRule(_)
        | LifecycleError::UnreadableRules(_) => FailureCategory::Resource,
    }
}

/// Parses an object hash that is stored in a plan.
pub(crate) fn parse_object_id(text: &str) -> Result<ObjectId, LifecycleError> {
    text.parse().map_err(|_| {
        LifecycleError::Sandbox(SandboxError::GitFailed {
            command: "rev-parse".to_owned(),
            said: format!("`{text}` is not the hash of an object"),
        })
    })
}

/// The tree of a resource in the plan's result.
pub(super) fn result_tree<'a>(plan: &'a Plan, resource: &str) -> Option<&'a str> {
    tree_of_resource(plan.result()?, resource)
}

/// The tree of a resource in a result.
pub(super) fn tree_of_resource<'a>(result: &'a ResultContent, resource: &str) -> Option<&'a str> {
    let mut trees = result.trees.iter();
    let tree = trees.find(|tree| tree.resource == resource)?;
    Some(&tree.tree)
}

impl From<SandboxError> for LifecycleError {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "a new kind of error is passed on as it is"
    )]
    fn from(error: SandboxError) -> Self {
        match error {
            // The git fence and the store refuse a stale epoch alike.
            SandboxError::FencedByNewerHolder { given, current } => {
                Self::Refused(Refusal::Fenced {
                    given: Epoch(given),
                    current: Epoch(current),
                })
            }
            SandboxError::SetUpStopped { .. } | SandboxError::GitStopped { .. } => Self::Stopped,
            other => Self::Sandbox(other),
        }
    }
}
