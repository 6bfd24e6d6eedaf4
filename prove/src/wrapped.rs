//! A store around a store, with a few doors to step through. What a door does not change goes straight to
//! the real one.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plan::changeset::{Changeset, Entry};
use plan::invariant::{RuleBook, Scope};
use plan::ledger::Ledger;
use plan::{Action, Name, Phase, PlanId, Project, Timestamp, Version};
use store::{
    Agenda, Commit, CommitError, Committed, Cursor, Due, EventPage, Maintain, PlanFilter, PlanRow,
    Read, Snapshot, Store, StoreError, StoreInfo, StoredEvent, Submission, Tail,
};

/// What is different about a wrapped store.
pub trait Doors: Send + Sync {
    /// A submission on its way in.
    fn submission(&self, submission: Submission) -> Submission {
        submission
    }

    /// A plan on its way out.
    fn row(&self, row: Option<PlanRow>) -> Option<PlanRow> {
        row
    }

    /// A page of the log on its way out.
    fn page(&self, page: EventPage) -> EventPage {
        page
    }
}

/// The wrapped store.
pub struct Wrapped<D> {
    store: Arc<dyn Store>,
    doors: D,
}

impl<D: Doors> Wrapped<D> {
    /// This store, with these doors.
    pub fn new(store: Arc<dyn Store>, doors: D) -> Self {
        Self { store, doors }
    }
}

impl<D: Doors> Commit for Wrapped<D> {
    fn commit(&self, submission: Submission) -> Result<Committed, CommitError> {
        self.store.commit(self.doors.submission(submission))
    }
}

impl<D: Doors> Read for Wrapped<D> {
    fn plan(&self, id: PlanId) -> Result<Option<PlanRow>, StoreError> {
        Ok(self.doors.row(self.store.plan(id)?))
    }

    fn plans(
        &self,
        filter: &PlanFilter,
        after: Option<PlanId>,
        limit: usize,
    ) -> Result<Vec<PlanRow>, StoreError> {
        self.store.plans(filter, after, limit)
    }

    fn plans_like(&self, fragment: &str, limit: usize) -> Result<Vec<PlanId>, StoreError> {
        self.store.plans_like(fragment, limit)
    }

    fn due(&self, phase: Phase, after: Option<Due>, limit: usize) -> Result<Vec<Due>, StoreError> {
        self.store.due(phase, after, limit)
    }

    fn claimable(
        &self,
        phase: Phase,
        after: Option<Due>,
        limit: usize,
    ) -> Result<Vec<Due>, StoreError> {
        self.store.claimable(phase, after, limit)
    }

    fn agenda(&self, limit: usize) -> Result<Agenda, StoreError> {
        self.store.agenda(limit)
    }

    fn expired(&self, limit: usize) -> Result<Vec<PlanId>, StoreError> {
        self.store.expired(limit)
    }

    fn snapshot(&self, id: PlanId) -> Result<Option<Snapshot>, StoreError> {
        self.store.snapshot(id)
    }

    fn action(&self, name: &Name) -> Result<Option<Action>, StoreError> {
        self.store.action(name)
    }

    fn actions(&self, after: Option<&Name>, limit: usize) -> Result<Vec<Action>, StoreError> {
        self.store.actions(after, limit)
    }

    fn project(&self, name: &Name) -> Result<Option<Project>, StoreError> {
        self.store.project(name)
    }

    fn projects(&self, after: Option<&Name>, limit: usize) -> Result<Vec<Project>, StoreError> {
        self.store.projects(after, limit)
    }

    fn rules(&self, scopes: &[Scope]) -> Result<RuleBook, StoreError> {
        self.store.rules(scopes)
    }

    fn changesets(&self, plan: PlanId) -> Result<Vec<(Changeset, Vec<Entry>)>, StoreError> {
        self.store.changesets(plan)
    }

    fn ledger(&self, plan: PlanId) -> Result<Ledger, StoreError> {
        self.store.ledger(plan)
    }

    fn now(&self) -> Result<Timestamp, StoreError> {
        self.store.now()
    }
}

impl<D: Doors> Tail for Wrapped<D> {
    fn plan_events(
        &self,
        plan: PlanId,
        after: Version,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        self.store.plan_events(plan, after, limit)
    }

    fn events(&self, after: &Cursor, limit: usize) -> Result<EventPage, StoreError> {
        Ok(self.doors.page(self.store.events(after, limit)?))
    }

    fn latest(&self) -> Result<Cursor, StoreError> {
        self.store.latest()
    }

    fn wait(&self, timeout: Duration) -> Result<(), StoreError> {
        self.store.wait(timeout)
    }
}

impl<D: Doors> Maintain for Wrapped<D> {
    fn info(&self) -> Result<StoreInfo, StoreError> {
        self.store.info()
    }

    fn migrate(&self) -> Result<(u32, u32), StoreError> {
        self.store.migrate()
    }

    fn backup(&self, to: &Path) -> Result<(), StoreError> {
        self.store.backup(to)
    }

    fn check(&self) -> Result<Vec<String>, StoreError> {
        self.store.check()
    }
}
