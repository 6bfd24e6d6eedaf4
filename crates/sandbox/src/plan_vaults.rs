//! Vaults by plan and resource: opening, creating and repairing them, and the commits that they and the user's
//! repository keep for a plan.

use plan::Epoch;

use crate::inspect::check_objects_present;
use crate::local_resource::SandboxKey;
use crate::sandboxes::{Sandbox, Sandboxes};
use crate::vault::Vault;
use crate::{ObjectId, Repository, SandboxError, checkout, refs};

/// The vaults of plans.
#[derive(Clone, Copy)]
pub struct PlanVaults<'a> {
    sandboxes: &'a Sandboxes,
}

impl Sandboxes {
    pub fn vaults(&self) -> PlanVaults<'_> {
        PlanVaults { sandboxes: self }
    }
}

impl PlanVaults<'_> {
    /// The vault of one resource. It need not exist.
    pub(crate) fn vault_for(&self, key: &SandboxKey<'_>) -> Vault {
        let name = format!("{}.git", key.dir_name());
        let mut path = self
            .sandboxes
            .home()
            .vault_directory(key.plan_id)
            .join(&name);
        if !path.exists() {
            // Earlier versions created vaults here. A plan keeps the one it started with.
            let earlier = self
                .sandboxes
                .home()
                .plan_directory(key.plan_id)
                .join(&name);
            if earlier.exists() {
                path = earlier;
            }
        }
        Vault::at_path(self.sandboxes.git_env(), &path)
    }

    /// Like [`Self::vault_for`], but creates it if it is missing and updates the repository's path
    /// in it.
    pub(crate) fn open_vault(&self, key: &SandboxKey<'_>) -> Result<Vault, SandboxError> {
        let vault = self.vault_for(key);
        let likely = key.resource.location.guess_objects_dir();
        if likely.is_some_and(|objects| vault.borrows_from(&objects)) {
            return Ok(vault);
        }
        self.create_vault(key, &self.sandboxes.open_repository(key.resource)?)
    }

    /// Has anything been captured in the sandbox, so that the vault has a result? Does not start git.
    pub fn has_checkpoint(&self, key: &SandboxKey<'_>) -> bool {
        !self.vault_for(key).has_no_checkpoint()
    }

    /// Creates a vault, or the missing parts of it. If the vault was lost, rebuilds the sandboxes'
    /// indexes from their base, because they name objects of the vault.
    pub(crate) fn create_vault(
        &self,
        key: &SandboxKey<'_>,
        repository: &Repository,
    ) -> Result<Vault, SandboxError> {
        let vault = self.vault_for(key);
        if let Some(above) = vault.path().parent() {
            self.sandboxes.home().make_home_directory(above)?;
        }
        if vault.path().join("HEAD").exists() {
            vault.create_or_repair(repository, self.sandboxes.faults())?;
            return Ok(vault);
        }
        let mut without_vault = self.sandboxes.list_sandboxes(key)?;
        without_vault.retain(Sandbox::exists);
        for sandbox in &without_vault {
            let _ = std::fs::remove_file(&sandbox.index_path);
        }
        vault.create_or_repair(repository, self.sandboxes.faults())?;
        for sandbox in &without_vault {
            checkout::rebuild_index(&vault, sandbox)?;
        }
        Ok(vault)
    }

    /// Records a result as the first checkpoint of a plan that starts from one. Keeps an existing
    /// checkpoint.
    pub fn seed_checkpoint(
        &self,
        key: &SandboxKey<'_>,
        epoch: Epoch,
        base: &ObjectId,
        tree: &ObjectId,
    ) -> Result<(), SandboxError> {
        let repository = self.sandboxes.open_repository(key.resource)?;
        let vault = self.create_vault(key, &repository)?;
        if vault.checkpoint_commit()?.is_some() {
            return Ok(());
        }
        match check_objects_present(&vault.git(), repository.path(), &vault, base, tree) {
            // The sandbox has the result and is captured again.
            Err(SandboxError::ResultMissing { .. })
                if self
                    .sandboxes
                    .current_sandbox(key)?
                    .is_some_and(|sandbox| sandbox.exists()) =>
            {
                return Ok(());
            }
            checked => checked?,
        }
        let checkpoint = vault.create_checkpoint(key.plan_id, epoch, base, tree)?;
        self.save_checkpoint(key, epoch, &checkpoint, None)
    }

    /// Sets the newest checkpoint, unless it changed since `before`.
    pub(crate) fn save_checkpoint(
        &self,
        key: &SandboxKey<'_>,
        epoch: Epoch,
        checkpoint: &ObjectId,
        before: Option<&ObjectId>,
    ) -> Result<(), SandboxError> {
        let saved = self.vault_for(key).set_checkpoint(checkpoint, before);
        if saved.is_err() {
            // Only a newer holder sets another checkpoint in the meantime; this then reports the
            // fence.
            self.sandboxes.find_sandbox_held_by(key, epoch)?;
        }
        saved
    }

    /// Creates a ref to the base, so that git does not prune it while the plan exists.
    pub(crate) fn pin_base(
        &self,
        key: &SandboxKey<'_>,
        repository: &Repository,
        base: &ObjectId,
    ) -> Result<(), SandboxError> {
        let git = repository.git();
        let vault = self.vault_for(key);
        let name = refs::base_ref(key.plan_id, &key.dir_name());
        let (commit, parent) = (format!("{base}^{{commit}}"), format!("{name}^1"));
        // A commit on top of the base keeps the base as well. The rest of a partly landed plan is
        // one.
        let [in_repository, pinned, below] = refs::resolve_names(&git, [&commit, &name, &parent])?;
        let is_pinned = pinned.as_ref() == Some(base) || below.as_ref() == Some(base);
        if in_repository.is_some() {
            if !is_pinned {
                git.run(&["update-ref", &name, base.as_str()])?;
            }
        } else if refs::resolve_name(&vault.git(), &commit)?.is_some() {
            vault.keep_object("base", base)?;
        } else {
            return Err(SandboxError::ObjectMissing {
                path: repository.path().to_owned(),
                object: base.to_string(),
            });
        }
        Ok(())
    }

    /// Pins the base without reading first. Succeeds if nothing is pinned yet and the user's
    /// repository has the base, which is the usual case for a new plan.
    pub(crate) fn pin_first_base(
        &self,
        key: &SandboxKey<'_>,
        repository: &Repository,
        base: &ObjectId,
    ) -> Result<bool, SandboxError> {
        let name = refs::base_ref(key.plan_id, &key.dir_name());
        let (new, absent) = (base.as_str(), base.null_id());
        let git = repository.git();
        let output = git.try_run(&["update-ref", &name, new, absent.as_str()])?;
        Ok(output.exit_code == 0)
    }
}
