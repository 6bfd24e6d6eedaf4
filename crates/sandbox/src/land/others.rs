//! What other plans left in a checkout when they were killed. Whoever has the turn finishes it: nobody
//! else is landing, so that whoever began it is gone.

use plan::PlanId;

use crate::error::Doing;
use crate::refs::Fence;
use crate::repository::{Checkout, Repository};
use crate::room::{Room, Site, SitePlace, Workshop};
use crate::{SandboxError, files};

use super::index::{self, IndexLock};
use super::journal::Journal;
use super::{Seen, exchange, turn};

impl Workshop {
    /// The same before anything is merged, where there is something: half of another plan's change in
    /// the files would look like an edit of the person's.
    pub(super) fn settle_leftovers(&self, repository: &Repository) -> Result<(), SandboxError> {
        let own = repository.git_dir().join("planwright");
        let shared = repository.common_dir().join("planwright");
        if !own.exists() && !shared.exists() {
            return Ok(());
        }
        // Somebody who is landing at this moment has left nothing yet.
        let Some(_turn) = turn::try_take(repository)? else {
            return Ok(());
        };
        self.settle_others(repository, &repository.checkouts()?)
    }

    /// Rolls forward what moved its branch, takes back what did not, and removes locks of ours.
    pub(super) fn settle_others(
        &self,
        repository: &Repository,
        checkouts: &[Checkout],
    ) -> Result<(), SandboxError> {
        for checkout in checkouts {
            for (plan, name) in left_in(checkout)? {
                let site = Site {
                    name,
                    place: SitePlace::Dir {
                        path: checkout.work_tree.clone(),
                    },
                };
                let room = Room { plan, site: &site };
                self.settle_one(&room, repository, checkout)?;
            }
            IndexLock::remove_ours(&checkout.git_dir)?;
        }
        Ok(())
    }

    fn settle_one(
        &self,
        room: &Room<'_>,
        repository: &Repository,
        checkout: &Checkout,
    ) -> Result<(), SandboxError> {
        let lock = IndexLock::find(&checkout.git_dir, room.plan)?;
        let journal = Journal::read(room, checkout)?;
        if journal.is_some() {
            // Whoever began it is gone, but a git that it started may not be: it must not move the branch
            // once it is settled that it did not move.
            Fence::void(&repository.git(), room.plan)?;
        }
        let moved = match &journal {
            Some(journal) => super::observe(repository, &journal.proposal())?,
            None => Seen::Untouched,
        };
        if let (Some(journal), Seen::Landed) = (&journal, moved) {
            let lock = match lock {
                Some(lock) => lock,
                None => IndexLock::take_again(&checkout.git_dir, room.plan)?,
            };
            self.roll_forward(room, repository, checkout, journal, lock)?;
            return Ok(());
        }
        if let (Some(journal), Seen::Removed) = (&journal, moved) {
            exchange::rescue_late_saves(self, room, checkout, journal)?;
        }
        if let Some(journal) = &journal {
            let found = (moved, lock.as_ref());
            self.put_index_back(room, repository, checkout, journal, found)?;
        }
        Journal::forget(room, checkout)?;
        lock.map_or(Ok(()), IndexLock::remove)
    }
}

/// The landings that have something in a checkout: the plan, and the name of its room.
fn left_in(checkout: &Checkout) -> Result<Vec<(PlanId, String)>, SandboxError> {
    let directory = checkout.git_dir.join("planwright");
    let entries = match std::fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if files::is_absent(&error) => return Ok(Vec::new()),
        Err(error) => return Err(error).doing("read", &directory),
    };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry.doing("read", &directory)?.file_name();
        let parts = name.to_str().and_then(|name| name.split_once('+'));
        let plan = parts.and_then(|(plan, room)| Some((plan.parse().ok()?, room.to_owned())));
        found.extend(plan);
    }
    Ok(found)
}

impl IndexLock {
    /// Removes a lock that some landing of ours left before it wrote anything else.
    fn remove_ours(git_dir: &std::path::Path) -> Result<(), SandboxError> {
        let path = git_dir.join("index.lock");
        let ours =
            std::fs::read(&path).is_ok_and(|content| content.starts_with(index::MARK.as_bytes()));
        if !ours {
            return Ok(());
        }
        std::fs::remove_file(&path).doing("removed", &path)
    }
}
