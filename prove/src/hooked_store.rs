//! A store that forwards to another store and passes some values through hooks.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plan::changeset::{Changeset, ChangesetEntry};
use plan::invariant::{RuleBook, RuleScope};
use plan::ledger::BudgetLedger;
use plan::review::PlanReview;
use plan::transcript::TranscriptEntry;
use plan::{Action, Epoch, Phase, PlanId, PlanVersion, Project, QualifiedName, Timestamp};
use store::{
    CommitError, CommitMark, CommitOutcome, Cursor, DuePlan, DueQueues, EventLog, EventPage,
    PlanFilter, PlanRow, PlanSnapshot, Store, StoreError, StoreInfo, StoreMaintenance, StoreReader,
    StoreWriter, StoredEvent, StoredTranscriptEntry, Submission, TranscriptLog, TranscriptPosition,
};

/// Hooks that may change what goes into or comes out of a store. By default they change nothing.
pub trait StoreHooks: Send + Sync {
    /// Called with each submission before the store commits it.
    fn edit_submission(&self, submission: Submission) -> Submission {
        submission
    }

    /// Called with each plan row that `read_plan` returns.
    fn edit_row(&self, row: Option<PlanRow>) -> Option<PlanRow> {
        row
    }

    /// Whether waits for commits always take their whole time.
    fn loses_notifications(&self) -> bool {
        false
    }

    /// Called with each page of the log of all plans.
    fn edit_page(&self, page: EventPage) -> EventPage {
        page
    }
}

/// A store with hooks.
pub struct HookedStore<H> {
    store: Arc<dyn Store>,
    hooks: H,
}

impl<H: StoreHooks> HookedStore<H> {
    pub fn new(store: Arc<dyn Store>, hooks: H) -> Self {
        Self { store, hooks }
    }
}

impl<H: StoreHooks> StoreWriter for HookedStore<H> {
    fn commit(&self, submission: Submission) -> Result<CommitOutcome, CommitError> {
        self.store.commit(self.hooks.edit_submission(submission))
    }
}

impl<H: StoreHooks> StoreReader for HookedStore<H> {
    fn read_plan(&self, id: PlanId) -> Result<Option<PlanRow>, StoreError> {
        Ok(self.hooks.edit_row(self.store.read_plan(id)?))
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

    fn list_reviews(&self, plan: PlanId) -> Result<Vec<PlanReview>, StoreError> {
        self.store.list_reviews(plan)
    }

    fn now(&self) -> Result<Timestamp, StoreError> {
        self.store.now()
    }
}

impl<H: StoreHooks> EventLog for HookedStore<H> {
    fn read_plan_events(
        &self,
        plan: PlanId,
        after: PlanVersion,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        self.store.read_plan_events(plan, after, limit)
    }

    fn read_events(&self, after: &Cursor, limit: usize) -> Result<EventPage, StoreError> {
        Ok(self.hooks.edit_page(self.store.read_events(after, limit)?))
    }

    fn read_latest_cursor(&self) -> Result<Cursor, StoreError> {
        self.store.read_latest_cursor()
    }

    fn mark_commits(&self) -> Result<CommitMark, StoreError> {
        self.store.mark_commits()
    }

    fn wait_for_commit_after(&self, mark: CommitMark, timeout: Duration) -> Result<(), StoreError> {
        if self.hooks.loses_notifications() {
            std::thread::sleep(timeout);
            return Ok(());
        }
        self.store.wait_for_commit_after(mark, timeout)
    }

    fn wake_waiters(&self) {
        self.store.wake_waiters();
    }
}

impl<H: StoreHooks> TranscriptLog for HookedStore<H> {
    fn append_transcript(
        &self,
        plan: PlanId,
        epoch: Epoch,
        first_sequence: u64,
        entries: &[TranscriptEntry],
    ) -> Result<(), StoreError> {
        self.store
            .append_transcript(plan, epoch, first_sequence, entries)
    }

    fn read_transcript(
        &self,
        plan: PlanId,
        after: Option<TranscriptPosition>,
        limit: usize,
    ) -> Result<Vec<StoredTranscriptEntry>, StoreError> {
        self.store.read_transcript(plan, after, limit)
    }

    fn find_transcript_end(&self, plan: PlanId) -> Result<Option<TranscriptPosition>, StoreError> {
        self.store.find_transcript_end(plan)
    }

    fn delete_transcript(&self, plan: PlanId) -> Result<u64, StoreError> {
        self.store.delete_transcript(plan)
    }
}

impl<H: StoreHooks> StoreMaintenance for HookedStore<H> {
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
