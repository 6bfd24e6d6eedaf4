//! Finishing a landing, or taking it back: the branch tells which way it goes.

use plan::changeset::TreePath;

use crate::fault::Step;
use crate::repository::{Checkout, Repository};
use crate::room::{Room, SitePlace, Workshop};
use crate::{SandboxError, files, git};

use super::in_tree::is_in_tree;
use super::index::{self, IndexLock};
use super::journal::{self, Journal};
use super::{Proposal, Seen, exchange, observe};

impl Workshop {
    /// A journal found in a checkout: the branch tells which way it goes.
    pub(super) fn settle_journal(
        &self,
        room: &Room<'_>,
        repository: &Repository,
        checkouts: &[Checkout],
        proposal: &Proposal,
    ) -> Result<Option<Vec<TreePath>>, SandboxError> {
        let mut checkouts = checkouts.to_vec();
        if matches!(room.site.place, SitePlace::Dir { .. }) {
            checkouts = repository.own_checkout().into_iter().collect();
        }
        for checkout in checkouts {
            let ours = IndexLock::find(&checkout.git_dir, room.plan)?;
            let Some(journal) = Journal::read(room, &checkout)? else {
                // Killed between locking and writing the journal: nothing was touched yet.
                if let Some(lock) = ours {
                    Journal::forget(room, &checkout)?;
                    lock.remove()?;
                }
                continue;
            };
            let seen = observe(repository, proposal)?;
            let still_on_it = is_in_tree(room, &proposal.target)
                || checkout.branch.as_ref() == Some(&proposal.target);
            if seen == Seen::Landed && journal.is_of(proposal) && still_on_it {
                let lock = match ours {
                    Some(lock) => lock,
                    None => IndexLock::take_again(&checkout.git_dir, room.plan)?,
                };
                let kept = self.roll_forward(room, repository, &checkout, &journal, lock)?;
                return Ok(Some(kept));
            }
            // A person who took the change out of the branch again, or went on to another one, has
            // seen to the files as well: the half of it that is still to come would only disturb them.
            if matches!(seen, Seen::Removed | Seen::Landed) && journal.is_of(proposal) {
                exchange::rescue_late_saves(self, room, &checkout, &journal)?;
            }
            let moved = observe(repository, &journal.proposal())?;
            self.put_index_back(
                room,
                repository,
                &checkout,
                &journal,
                (moved, ours.as_ref()),
            )?;
            Journal::forget(room, &checkout)?;
            if let Some(lock) = ours {
                lock.remove()?;
            }
        }
        Ok(None)
    }

    /// The branch has moved: the files and the index follow. Every step may have been done before.
    pub(super) fn roll_forward(
        &self,
        room: &Room<'_>,
        repository: &Repository,
        checkout: &Checkout,
        journal: &Journal,
        lock: IndexLock,
    ) -> Result<Vec<TreePath>, SandboxError> {
        let kept = exchange::exchange(self, room, checkout, journal)?;
        self.after(Step::AllExchanged, &checkout.work_tree)?;
        if !journal.keeps_index() {
            let yard = journal::yard(room, &checkout.git_dir);
            let index = index::build(repository, checkout, &journal.head, &journal.new, &yard)?;
            lock.place(&index)?;
        }
        self.finish(room, repository, checkout, journal, lock)?;
        Ok(kept)
    }

    /// The change is not in the branch: it goes out of the index as well.
    pub(super) fn put_index_back(
        &self,
        room: &Room<'_>,
        repository: &Repository,
        checkout: &Checkout,
        journal: &Journal,
        found: (Seen, Option<&IndexLock>),
    ) -> Result<(), SandboxError> {
        let yard = journal::yard(room, &checkout.git_dir);
        match found {
            (Seen::Untouched | Seen::Moved, Some(lock)) => lock.put_back(&yard),
            // Somebody removed the lock and may have used the index since: their part of it stays.
            (Seen::Untouched, None) if index::was_exchanged(&yard) => {
                let lock = IndexLock::take_again(&checkout.git_dir, room.plan)?;
                let index = index::build(repository, checkout, &journal.new, &journal.head, &yard)?;
                lock.place(&index)?;
                lock.remove()
            }
            (Seen::Untouched | Seen::Moved, None) | (Seen::Landed | Seen::Removed, _) => Ok(()),
        }
    }

    /// The files are there: the index learns how they look, and what was needed on the way goes.
    pub(super) fn finish(
        &self,
        room: &Room<'_>,
        repository: &Repository,
        checkout: &Checkout,
        journal: &Journal,
        lock: IndexLock,
    ) -> Result<(), SandboxError> {
        if !journal.keeps_index() {
            let yard = journal::yard(room, &checkout.git_dir);
            let written = journal.steps.iter().filter(|step| step.after.is_some());
            let written = git::literal(written.map(|step| &step.path));
            let index = index::refreshed(repository, checkout, &yard, &written)?;
            lock.place(&index)?;
        }
        self.after(Step::IndexRefreshed, &checkout.git_dir)?;
        lock.remove()?;
        files::sync_directory(&checkout.git_dir)?;
        self.after(Step::Unlocked, &checkout.git_dir)?;
        exchange::rescue_late_saves(self, room, checkout, journal)?;
        Journal::forget(room, checkout)?;
        self.after(Step::JournalRemoved, &checkout.git_dir)
    }
}
