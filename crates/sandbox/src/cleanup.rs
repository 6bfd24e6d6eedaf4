//! Removes sandboxes that are no longer needed and keeps work that did not land.

use std::path::PathBuf;
use std::time::Duration;

use plan::{Epoch, PlanId};

use crate::directory_occupant::{DirectoryOccupant, find_occupant};
use crate::error::FileErrorContext;
use crate::local_resource::SandboxKey;
use crate::sandboxes::{Sandbox, SandboxEntryMode, Sandboxes};
use crate::step_faults::SandboxStep;
use crate::supervise::{self, ExclusiveLock};
use crate::{LocationProblem, ObjectId, SandboxError, files, refs};

/// How long to wait for a lock that may be held by accident: a forked child inherits open locks
/// until it executes its program.
const FORKED_LOCK_TIMEOUT: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanSandboxDir {
    pub plan_id: PlanId,
    /// The directory with all of the plan's sandboxes.
    pub path: PathBuf,
}

/// A ref that keeps work that did not land.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RescueRef {
    pub plan_id: PlanId,
    pub ref_name: String,
    pub commit: ObjectId,
}

/// The prefix of a plan's directory while it is being removed.
const REMOVED_PREFIX: &str = "removed-";

/// Removes sandboxes without losing work: what did not land is kept and can be restored.
#[derive(Clone, Copy)]
pub struct SandboxRescue<'a> {
    pub(crate) sandboxes: &'a Sandboxes,
}

impl Sandboxes {
    pub fn rescue(&self) -> SandboxRescue<'_> {
        SandboxRescue { sandboxes: self }
    }
}

impl SandboxRescue<'_> {
    /// All plans with a directory here, including directories that a killed process did not finish
    /// removing.
    pub fn list_plan_dirs(&self) -> Result<Vec<PlanSandboxDir>, SandboxError> {
        let mut found: Vec<PlanSandboxDir> = Vec::new();
        for directory in self.plan_roots() {
            let names = files::list_names(&directory)?.into_iter();
            let new = names.filter_map(|name: String| {
                let plan = name
                    .strip_prefix(REMOVED_PREFIX)
                    .unwrap_or(&name)
                    .parse()
                    .ok()?;
                let path = directory.join(name);
                let is_new = !found.iter().any(|one| one.plan_id == plan);
                is_new.then_some(PlanSandboxDir {
                    plan_id: plan,
                    path,
                })
            });
            let new: Vec<PlanSandboxDir> = new.collect();
            found.extend(new);
        }
        found.sort_by_key(|one| one.plan_id);
        Ok(found)
    }

    /// Keeps the content of the newest sandbox under a rescue ref in the user's repository, if it
    /// differs from its base. Safe to repeat.
    pub fn rescue_current_work(
        &self,
        key: &SandboxKey<'_>,
    ) -> Result<Option<RescueRef>, SandboxError> {
        let Some(sandbox) = self.sandboxes.current_sandbox(key)? else {
            return self.rescue_checkpoint(key);
        };
        if sandbox.exists() {
            self.sandboxes
                .capture()
                .capture_sandbox(key, sandbox.holder_epoch, &sandbox.base)?;
        }
        let Some(commit) = self.sandboxes.vaults().vault_for(key).checkpoint_commit()? else {
            return Ok(None);
        };
        let name = refs::rescue_ref(key.plan_id, &key.dir_name());
        self.write_rescue_ref(key, &sandbox.base, commit, name)
    }

    /// Rescues the newest checkpoint in the vault, if the sandbox is gone.
    fn rescue_checkpoint(&self, key: &SandboxKey<'_>) -> Result<Option<RescueRef>, SandboxError> {
        let vault = self.sandboxes.vaults().vault_for(key);
        let Some(commit) = vault.checkpoint_commit()? else {
            return self.find_rescue_ref(key);
        };
        let vault = self.sandboxes.vaults().open_vault(key)?;
        let base = refs::resolve_name(&vault.git(), &format!("{commit}^1"))?;
        let Some(base) = base else {
            return self.find_rescue_ref(key);
        };
        let name = refs::rescue_ref(key.plan_id, &key.dir_name());
        self.write_rescue_ref(key, &base, commit, name)
    }

    /// Rescues the sandboxes that newer ones replaced, each under its own ref.
    pub fn rescue_older_sandboxes(
        &self,
        key: &SandboxKey<'_>,
    ) -> Result<Vec<RescueRef>, SandboxError> {
        let mut older = self.sandboxes.list_sandboxes(key)?;
        older.pop();
        if older.is_empty() {
            return Ok(Vec::new());
        }
        let vault = self.sandboxes.vaults().open_vault(key)?;
        let mut rescued = Vec::new();
        for sandbox in older.iter().filter(|sandbox| sandbox.exists()) {
            let tree = self.sandboxes.capture().write_sandbox_tree(key, sandbox)?;
            let commit = vault.create_commit(&tree, Some(&sandbox.base), "Left behind")?;
            let name = refs::older_rescue_ref(key.plan_id, &key.dir_name(), sandbox.creator_epoch);
            rescued.extend(self.write_rescue_ref(key, &sandbox.base, commit, name)?);
        }
        Ok(rescued)
    }

    /// Rescues what was changed in the newest sandbox after this result was submitted.
    pub fn rescue_late_changes(
        &self,
        key: &SandboxKey<'_>,
        result: &ObjectId,
    ) -> Result<Option<RescueRef>, SandboxError> {
        let sandbox = self.sandboxes.current_sandbox(key)?.filter(Sandbox::exists);
        let Some(sandbox) = sandbox else {
            return Ok(None);
        };
        let vault = self.sandboxes.vaults().open_vault(key)?;
        let tree = self.sandboxes.capture().write_sandbox_tree(key, &sandbox)?;
        if tree == *result {
            return Ok(None);
        }
        let commit = vault.create_commit(&tree, Some(&sandbox.base), "Left behind")?;
        let name = refs::rescue_ref(key.plan_id, &key.dir_name());
        self.write_rescue_ref(key, &sandbox.base, commit, name)
    }

    fn write_rescue_ref(
        &self,
        key: &SandboxKey<'_>,
        base: &ObjectId,
        commit: ObjectId,
        name: String,
    ) -> Result<Option<RescueRef>, SandboxError> {
        let vault = self.sandboxes.vaults().open_vault(key)?;
        if vault.read_tree_of(&commit)? == vault.read_tree_of(base)? {
            return Ok(None);
        }
        let repository = self.sandboxes.open_repository(key.resource)?;
        let git = repository.git();
        crate::land::copy_objects(&vault, &repository, &commit, base)?;
        git.run(&["update-ref", &name, commit.as_str()])?;
        self.sandboxes
            .capture()
            .complete_step(SandboxStep::Rescued, repository.path())?;
        Ok(Some(RescueRef {
            plan_id: key.plan_id,
            ref_name: name,
            commit,
        }))
    }

    /// The newest rescue ref of a plan.
    pub fn find_rescue_ref(&self, key: &SandboxKey<'_>) -> Result<Option<RescueRef>, SandboxError> {
        let git = self.sandboxes.open_repository(key.resource)?.git();
        let newest = refs::rescue_ref(key.plan_id, &key.dir_name());
        let older = format!("{newest}+*");
        // Sorted by the epoch that made them. The newest has no number.
        let by_age = [
            "for-each-ref",
            "--sort=version:refname",
            "--format=%(refname)",
        ];
        let listed = git.read_line(&[&by_age[..], &[&older]].concat())?;
        let names = [newest.as_str()].into_iter().chain(listed.lines().rev());
        let mut found = None;
        for name in names {
            found = refs::resolve_name(&git, name)?.map(|commit| (name.to_owned(), commit));
            if found.is_some() {
                break;
            }
        }
        Ok(found.map(|(name, commit)| RescueRef {
            plan_id: key.plan_id,
            ref_name: name,
            commit,
        }))
    }

    /// Recreates the sandbox of work that is kept under a rescue ref.
    pub fn restore_from_rescue(
        &self,
        key: &SandboxKey<'_>,
        epoch: Epoch,
    ) -> Result<Option<Sandbox>, SandboxError> {
        if let Some(sandbox) = self.sandboxes.current_sandbox(key)? {
            return Ok(Some(sandbox));
        }
        let Some(rescued) = self.find_rescue_ref(key)? else {
            return Ok(None);
        };
        let repository = self.sandboxes.open_repository(key.resource)?;
        let git = repository.git();
        let missing_object = || SandboxError::ObjectMissing {
            path: repository.path().to_owned(),
            object: rescued.commit.to_string(),
        };
        let base = refs::resolve_name(&git, &format!("{}^1", rescued.commit))?
            .ok_or_else(missing_object)?;
        let tree = refs::resolve_name(&git, &format!("{}^{{tree}}", rescued.commit))?
            .ok_or_else(missing_object)?;
        self.sandboxes
            .vaults()
            .seed_checkpoint(key, epoch, &base, &tree)?;
        let entered =
            self.sandboxes
                .enter_sandbox(key, epoch, &base, SandboxEntryMode::Continue)?;
        self.restore_archived_files(key, &entered.sandbox)?;
        Ok(Some(entered.sandbox))
    }

    /// Removes everything of a plan, unless a process runs in one of its directories. The caller
    /// has rescued the work. `before_deletion` runs after the directories are renamed; if the
    /// process is killed before the end, the renamed directories are found and the removal is
    /// repeated.
    pub fn remove_plan(
        &self,
        plan_id: PlanId,
        before_deletion: impl FnOnce() -> Result<(), SandboxError>,
    ) -> Result<bool, SandboxError> {
        let directory = self.sandboxes.home().plan_directory(plan_id);
        // Held until the directory is gone, so that a process waiting for a lock then finds no
        // sandbox.
        let _locks = self.lock_all_sandboxes(plan_id)?;
        match find_occupant(&directory) {
            DirectoryOccupant::Nobody => {}
            DirectoryOccupant::Unknown if !directory.exists() => {}
            DirectoryOccupant::Unknown => {
                return Err(SandboxError::UnusableLocation {
                    path: directory,
                    problem: LocationProblem::UnknownOccupant,
                });
            }
            DirectoryOccupant::Process(process) => {
                return Err(SandboxError::OccupiedByProcess {
                    path: directory,
                    process,
                });
            }
        }
        let mut set_aside = Vec::new();
        for root in self.plan_roots() {
            let directory = root.join(plan_id.to_string());
            let aside = root.join(format!("{REMOVED_PREFIX}{plan_id}"));
            // Renamed first, so that leftovers of a killed process do not count as a sandbox.
            if directory.exists() {
                files::remove_tree(&aside)?;
                std::fs::rename(&directory, &aside).while_being("removed", &directory)?;
                self.sandboxes
                    .capture()
                    .complete_step(SandboxStep::SandboxSetAside, &aside)?;
            }
            if aside.exists() {
                set_aside.push(aside);
            }
        }
        before_deletion()?;
        for aside in &set_aside {
            files::remove_tree(aside)?;
        }
        Ok(!set_aside.is_empty())
    }

    /// The directories that have a subdirectory per plan. Vaults come last: while they exist, a
    /// plan's results can be found.
    fn plan_roots(&self) -> [PathBuf; 2] {
        ["sandboxes", "vaults"].map(|name| self.sandboxes.home().join(name))
    }

    /// Locks all sandboxes of a plan; fails if one of them is in use.
    fn lock_all_sandboxes(&self, plan_id: PlanId) -> Result<Vec<ExclusiveLock>, SandboxError> {
        let directory = self.sandboxes.home().plan_directory(plan_id);
        let mut locks = Vec::new();
        for creator_epoch in files::list_names::<u64>(&directory)? {
            let epoch_dir = directory.join(creator_epoch.to_string());
            for name in files::list_names::<String>(&epoch_dir)? {
                let path = epoch_dir.join(&name);
                if !name.ends_with(".busy") {
                    continue;
                }
                let lock = supervise::lock_exclusive(&path, FORKED_LOCK_TIMEOUT)?;
                locks.push(lock.ok_or_else(|| SandboxError::SandboxInUse {
                    path: epoch_dir.clone(),
                })?);
            }
        }
        Ok(locks)
    }
}
