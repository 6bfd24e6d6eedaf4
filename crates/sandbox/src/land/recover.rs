//! Finishes or undoes an interrupted landing. The branch decides: if it moved, roll forward.

use plan::changeset::TreePath;

use crate::local_resource::{ResourceLocation, SandboxKey};
use crate::repository::{Repository, UserCheckout};
use crate::step_faults::SandboxStep;
use crate::{Landings, SandboxError, files, git};

use super::index::{self, IndexLock};
use super::journal::{self, LandingJournal};
use super::working_tree::is_working_tree_landing;
use super::{LandingProposal, TargetState, file_exchange, read_target_state};

impl Landings<'_> {
    /// Finishes or undoes what the journals in the checkouts record. Returns the files that the
    /// user changed, if it rolled forward.
    pub(super) fn recover_from_journal(
        &self,
        key: &SandboxKey<'_>,
        repository: &Repository,
        checkouts: &[UserCheckout],
        proposal: &LandingProposal,
    ) -> Result<Option<Vec<TreePath>>, SandboxError> {
        let mut checkouts = checkouts.to_vec();
        if matches!(key.resource.location, ResourceLocation::Dir { .. }) {
            checkouts = repository.own_checkout().into_iter().collect();
        }
        for checkout in checkouts {
            let own_lock = IndexLock::find_own(&checkout.git_dir, key.plan_id)?;
            let Some(journal) = LandingJournal::read(key, &checkout)? else {
                // Killed between locking and writing the journal: nothing was touched.
                if let Some(lock) = own_lock {
                    LandingJournal::remove_landing_files(key, &checkout)?;
                    lock.release()?;
                }
                continue;
            };
            let state = read_target_state(repository, proposal)?;
            let has_target = is_working_tree_landing(key, &proposal.target)
                || checkout.branch.as_ref() == Some(&proposal.target);
            if state == TargetState::Landed && journal.is_about_proposal(proposal) && has_target {
                let lock = match own_lock {
                    Some(lock) => lock,
                    None => IndexLock::reacquire(&checkout.git_dir, key.plan_id)?,
                };
                let kept = self.roll_forward(key, repository, &checkout, &journal, lock)?;
                return Ok(Some(kept));
            }
            // The user removed the change from the branch, or switched to another one, and took
            // care of the files. Updating the remaining files would only disturb them.
            if matches!(state, TargetState::Removed | TargetState::Landed)
                && journal.is_about_proposal(proposal)
            {
                file_exchange::rescue_late_saves(self.sandboxes, key, &checkout, &journal)?;
            }
            let journal_state = read_target_state(repository, &journal.to_proposal())?;
            self.restore_index(
                key,
                repository,
                &checkout,
                &journal,
                (journal_state, own_lock.as_ref()),
            )?;
            LandingJournal::remove_landing_files(key, &checkout)?;
            if let Some(lock) = own_lock {
                lock.release()?;
            }
        }
        Ok(None)
    }

    /// The branch has moved: updates the files and the index. Every step may have been done before.
    pub(super) fn roll_forward(
        &self,
        key: &SandboxKey<'_>,
        repository: &Repository,
        checkout: &UserCheckout,
        journal: &LandingJournal,
        lock: IndexLock,
    ) -> Result<Vec<TreePath>, SandboxError> {
        let kept = file_exchange::exchange_files(self.sandboxes, key, checkout, journal)?;
        self.sandboxes
            .capture()
            .complete_step(SandboxStep::AllExchanged, &checkout.work_tree)?;
        if !journal.keeps_index() {
            let landing_dir = journal::landing_dir(key, &checkout.git_dir);
            let index = index::build_index(
                repository,
                checkout,
                &journal.head,
                &journal.new,
                &landing_dir,
            )?;
            lock.replace_index(&index)?;
        }
        self.finish_landing(key, repository, checkout, journal, lock)?;
        Ok(kept)
    }

    /// The branch does not contain the change: removes it from the index as well.
    pub(super) fn restore_index(
        &self,
        key: &SandboxKey<'_>,
        repository: &Repository,
        checkout: &UserCheckout,
        journal: &LandingJournal,
        found: (TargetState, Option<&IndexLock>),
    ) -> Result<(), SandboxError> {
        let landing_dir = journal::landing_dir(key, &checkout.git_dir);
        match found {
            (TargetState::Untouched | TargetState::Moved, Some(lock)) => {
                lock.restore_old_index(&landing_dir)
            }
            // The user removed the lock and may have used the index since. Undo only our entries.
            (TargetState::Untouched, None) if index::was_index_replaced(&landing_dir) => {
                let lock = IndexLock::reacquire(&checkout.git_dir, key.plan_id)?;
                let index = index::build_index(
                    repository,
                    checkout,
                    &journal.new,
                    &journal.head,
                    &landing_dir,
                )?;
                lock.replace_index(&index)?;
                lock.release()
            }
            (TargetState::Untouched | TargetState::Moved, None)
            | (TargetState::Landed | TargetState::Removed, _) => Ok(()),
        }
    }

    /// The files are updated: refreshes the index and removes the lock, the journal and the staged
    /// files.
    pub(super) fn finish_landing(
        &self,
        key: &SandboxKey<'_>,
        repository: &Repository,
        checkout: &UserCheckout,
        journal: &LandingJournal,
        lock: IndexLock,
    ) -> Result<(), SandboxError> {
        if !journal.keeps_index() {
            let landing_dir = journal::landing_dir(key, &checkout.git_dir);
            let written = journal.steps.iter().filter(|step| step.after.is_some());
            let written = git::literal_pathspecs(written.map(|step| &step.path));
            let index = index::build_refreshed_index(repository, checkout, &landing_dir, &written)?;
            lock.replace_index(&index)?;
        }
        self.sandboxes
            .capture()
            .complete_step(SandboxStep::IndexRefreshed, &checkout.git_dir)?;
        lock.release()?;
        files::sync_directory(&checkout.git_dir)?;
        self.sandboxes
            .capture()
            .complete_step(SandboxStep::Unlocked, &checkout.git_dir)?;
        file_exchange::rescue_late_saves(self.sandboxes, key, checkout, journal)?;
        LandingJournal::remove_landing_files(key, checkout)?;
        self.sandboxes
            .capture()
            .complete_step(SandboxStep::JournalRemoved, &checkout.git_dir)
    }
}
