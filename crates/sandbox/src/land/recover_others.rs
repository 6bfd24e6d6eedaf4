//! Finishes or undoes landings of other plans that were killed. The caller holds the landing lock,
//! so no other landing can be running.

use plan::PlanId;

use crate::error::FileErrorContext;
use crate::local_resource::{LocalResource, ResourceLocation, SandboxKey};
use crate::refs::EpochFence;
use crate::repository::{Repository, UserCheckout};
use crate::{Landings, SandboxError, files};

use super::index::{self, IndexLock};
use super::journal::LandingJournal;
use super::{TargetState, file_exchange, landing_lock};

impl Landings<'_> {
    /// Recovers interrupted landings before a merge, if there are any. A half-landed change of
    /// another plan would look like an edit of the user.
    pub(super) fn recover_other_plans_if_any(
        &self,
        repository: &Repository,
    ) -> Result<(), SandboxError> {
        let own = repository.git_dir().join("planwright");
        let shared = repository.common_dir().join("planwright");
        if !own.exists() && !shared.exists() {
            return Ok(());
        }
        // Another process is landing right now; its files are not leftovers.
        let Some(_lock) = landing_lock::try_lock_repository(repository)? else {
            return Ok(());
        };
        self.recover_other_plans(repository, &repository.list_checkouts()?)
    }

    /// Rolls forward landings whose branch moved, undoes the others, and removes stale index locks.
    pub(super) fn recover_other_plans(
        &self,
        repository: &Repository,
        checkouts: &[UserCheckout],
    ) -> Result<(), SandboxError> {
        for checkout in checkouts {
            for (plan, name) in list_interrupted_landings(checkout)? {
                let resource = LocalResource {
                    name,
                    location: ResourceLocation::Dir {
                        path: checkout.work_tree.clone(),
                    },
                };
                let key = SandboxKey {
                    plan_id: plan,
                    resource: &resource,
                };
                self.recover_plan_landing(&key, repository, checkout)?;
            }
            IndexLock::remove_stale_lock(&checkout.git_dir)?;
        }
        Ok(())
    }

    fn recover_plan_landing(
        &self,
        key: &SandboxKey<'_>,
        repository: &Repository,
        checkout: &UserCheckout,
    ) -> Result<(), SandboxError> {
        let lock = IndexLock::find_own(&checkout.git_dir, key.plan_id)?;
        let journal = LandingJournal::read(key, checkout)?;
        if journal.is_some() {
            // The process that started the landing is gone, but a git it started may still run. It
            // must not move the branch after we found that it did not move.
            EpochFence::invalidate(&repository.git(), key.plan_id)?;
        }
        let state = match &journal {
            Some(journal) => super::read_target_state(repository, &journal.to_proposal())?,
            None => TargetState::Untouched,
        };
        if let (Some(journal), TargetState::Landed) = (&journal, state) {
            let lock = match lock {
                Some(lock) => lock,
                None => IndexLock::reacquire(&checkout.git_dir, key.plan_id)?,
            };
            self.roll_forward(key, repository, checkout, journal, lock)?;
            return Ok(());
        }
        if let (Some(journal), TargetState::Removed) = (&journal, state) {
            file_exchange::rescue_late_saves(self.sandboxes, key, checkout, journal)?;
        }
        if let Some(journal) = &journal {
            let found = (state, lock.as_ref());
            self.restore_index(key, repository, checkout, journal, found)?;
        }
        LandingJournal::remove_landing_files(key, checkout)?;
        lock.map_or(Ok(()), IndexLock::release)
    }
}

/// The plan and the sandbox name of each landing with files in a checkout.
fn list_interrupted_landings(
    checkout: &UserCheckout,
) -> Result<Vec<(PlanId, String)>, SandboxError> {
    let directory = checkout.git_dir.join("planwright");
    let entries = match std::fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if files::is_not_found(&error) => return Ok(Vec::new()),
        Err(error) => return Err(error).while_being("read", &directory),
    };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry.while_being("read", &directory)?.file_name();
        let parts = name.to_str().and_then(|name| name.split_once('+'));
        let plan = parts.and_then(|(plan, name)| Some((plan.parse().ok()?, name.to_owned())));
        found.extend(plan);
    }
    Ok(found)
}

impl IndexLock {
    /// Removes a lock that a killed landing left before it wrote anything else.
    fn remove_stale_lock(git_dir: &std::path::Path) -> Result<(), SandboxError> {
        let path = git_dir.join("index.lock");
        let ours = std::fs::read(&path)
            .is_ok_and(|content| content.starts_with(index::LOCK_MARK_PREFIX.as_bytes()));
        if !ours {
            return Ok(());
        }
        std::fs::remove_file(&path).while_being("removed", &path)
    }
}
