//! Finishing a landing, or taking it back: the branch tells which way it goes.

use plan::changeset::TreePath;

use crate::repository::{Repository, UserCheckout};
use crate::sandboxes::{ResourceLocation, SandboxKey, Sandboxes};
use crate::step_faults::Step;
use crate::{SandboxError, files, git};

use super::index::{self, IndexLock};
use super::journal::{self, LandingJournal};
use super::working_tree::is_working_tree_landing;
use super::{LandingProposal, TargetState, file_exchange, read_target_state};

impl Sandboxes {
    /// A journal found in a checkout: the branch tells which way it goes.
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
                // Killed between locking and writing the journal: nothing was touched yet.
                if let Some(lock) = own_lock {
                    LandingJournal::remove_landing_files(key, &checkout)?;
                    lock.release()?;
                }
                continue;
            };
            let state = read_target_state(repository, proposal)?;
            let still_on_it = is_working_tree_landing(key, &proposal.target)
                || checkout.branch.as_ref() == Some(&proposal.target);
            if state == TargetState::Landed && journal.is_about_proposal(proposal) && still_on_it {
                let lock = match own_lock {
                    Some(lock) => lock,
                    None => IndexLock::reacquire(&checkout.git_dir, key.plan_id)?,
                };
                let kept = self.roll_forward(key, repository, &checkout, &journal, lock)?;
                return Ok(Some(kept));
            }
            // A person who took the change out of the branch again, or went on to another one, has
            // seen to the files as well: the half of it that is still to come would only disturb them.
            if matches!(state, TargetState::Removed | TargetState::Landed)
                && journal.is_about_proposal(proposal)
            {
                file_exchange::rescue_late_saves(self, key, &checkout, &journal)?;
            }
            let moved = read_target_state(repository, &journal.to_proposal())?;
            self.restore_index(
                key,
                repository,
                &checkout,
                &journal,
                (moved, own_lock.as_ref()),
            )?;
            LandingJournal::remove_landing_files(key, &checkout)?;
            if let Some(lock) = own_lock {
                lock.release()?;
            }
        }
        Ok(None)
    }

    /// The branch has moved: the files and the index follow. Every step may have been done before.
    pub(super) fn roll_forward(
        &self,
        key: &SandboxKey<'_>,
        repository: &Repository,
        checkout: &UserCheckout,
        journal: &LandingJournal,
        lock: IndexLock,
    ) -> Result<Vec<TreePath>, SandboxError> {
        let kept = file_exchange::exchange_files(self, key, checkout, journal)?;
        self.complete_step(Step::AllExchanged, &checkout.work_tree)?;
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

    /// The change is not in the branch: it goes out of the index as well.
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
            // Somebody removed the lock and may have used the index since: their part of it stays.
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

    /// The files are there: the index learns how they look, and what was needed on the way goes.
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
        self.complete_step(Step::IndexRefreshed, &checkout.git_dir)?;
        lock.release()?;
        files::sync_directory(&checkout.git_dir)?;
        self.complete_step(Step::Unlocked, &checkout.git_dir)?;
        file_exchange::rescue_late_saves(self, key, checkout, journal)?;
        LandingJournal::remove_landing_files(key, checkout)?;
        self.complete_step(Step::JournalRemoved, &checkout.git_dir)
    }
}
