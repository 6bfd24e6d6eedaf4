//! A store around a store, with a few doors to step through. What a door does not change goes straight to
//! the real one.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plan::changeset::{Changeset, ChangesetEntry};
use plan::invariant::{RuleBook, RuleScope};
use plan::ledger::BudgetLedger;
use plan::{Action, Phase, PlanId, PlanVersion, Project, QualifiedName, Timestamp};
use store::{
    CommitError, CommitOutcome, Cursor, DuePlan, DueQueues, EventLog, EventPage, PlanFilter,
    PlanRow, PlanSnapshot, Store, StoreError, StoreInfo, StoreMaintenance, StoreReader,
    StoreWriter, StoredEvent, Submission,
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

impl<D: Doors> StoreWriter for Wrapped<D> {
    fn commit(&self, submission: Submission) -> Result<CommitOutcome, CommitError> {
        self.store.commit(self.doors.submission(submission))
    }
}

impl<D: Doors> StoreReader for Wrapped<D> {
    fn read_plan(&self, id: PlanId) -> Result<Option<PlanRow>, StoreError> {
        Ok(self.doors.row(self.store.read_plan(id)?))
    }

    fn list_plans(
        &self,
        filter: &PlanFilter,
        after: Option<PlanId>,
        limit: usize,
    ) -> Result<Vec<PlanRow>, StoreError> {
        self.store.list_plans(filter, after, limit)
    }

    fn find_plan_ids(&self, fragment: &str, limit: usize) -> Result<Vec<PlanId>, StoreError> {
        self.store.find_plan_ids(fragment, limit)
    }

    fn list_due_plans(
        &self,
        phase: Phase,
        after: Option<DuePlan>,
        limit: usize,
    ) -> Result<Vec<DuePlan>, StoreError> {
        self.store.list_due_plans(phase, after, limit)
    }

    fn list_claimable_plans(
        &self,
        phase: Phase,
        after: Option<DuePlan>,
        limit: usize,
    ) -> Result<Vec<DuePlan>, StoreError> {
        self.store.list_claimable_plans(phase, after, limit)
    }

    fn read_due_queues(&self, limit: usize) -> Result<DueQueues, StoreError> {
        self.store.read_due_queues(limit)
    }

    fn list_expired_leases(&self, limit: usize) -> Result<Vec<PlanId>, StoreError> {
        self.store.list_expired_leases(limit)
    }

    fn read_snapshot(&self, id: PlanId) -> Result<Option<PlanSnapshot>, StoreError> {
        self.store.read_snapshot(id)
    }

    fn read_action(&self, name: &QualifiedName) -> Result<Option<Action>, StoreError> {
        self.store.read_action(name)
    }

    fn list_actions(
        &self,
        after: Option<&QualifiedName>,
        limit: usize,
    ) -> Result<Vec<Action>, StoreError> {
        self.store.list_actions(after, limit)
    }

    fn read_project(&self, name: &QualifiedName) -> Result<Option<Project>, StoreError> {
        self.store.read_project(name)
    }

    fn list_projects(
        &self,
        after: Option<&QualifiedName>,
        limit: usize,
    ) -> Result<Vec<Project>, StoreError> {
        self.store.list_projects(after, limit)
    }

    fn read_rules(&self, scopes: &[RuleScope]) -> Result<RuleBook, StoreError> {
        self.store.read_rules(scopes)
    }

    fn list_changesets(
        &self,
        plan: PlanId,
    ) -> Result<Vec<(Changeset, Vec<ChangesetEntry>)>, StoreError> {
        self.store.list_changesets(plan)
    }

    fn read_ledger(&self, plan: PlanId) -> Result<BudgetLedger, StoreError> {
        self.store.read_ledger(plan)
    }

    fn now(&self) -> Result<Timestamp, StoreError> {
        self.store.now()
    }
}

impl<D: Doors> EventLog for Wrapped<D> {
    fn read_plan_events(
        &self,
        plan: PlanId,
        after: PlanVersion,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        self.store.read_plan_events(plan, after, limit)
    }

    fn read_events(&self, after: &Cursor, limit: usize) -> Result<EventPage, StoreError> {
        Ok(self.doors.page(self.store.read_events(after, limit)?))
    }

    fn read_latest_cursor(&self) -> Result<Cursor, StoreError> {
        self.store.read_latest_cursor()
    }

    fn wait_for_commit(&self, timeout: Duration) -> Result<(), StoreError> {
        self.store.wait_for_commit(timeout)
    }
}

impl<D: Doors> StoreMaintenance for Wrapped<D> {
    fn read_info(&self) -> Result<StoreInfo, StoreError> {
        self.store.read_info()
    }

    fn migrate_schema(&self) -> Result<(u32, u32), StoreError> {
        self.store.migrate_schema()
    }

    fn write_backup(&self, to: &Path) -> Result<(), StoreError> {
        self.store.write_backup(to)
    }

    fn check_integrity(&self) -> Result<Vec<String>, StoreError> {
        self.store.check_integrity()
    }
}
