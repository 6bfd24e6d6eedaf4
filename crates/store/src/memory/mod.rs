//! The memory store, for embedding and tests. It has the guarantees of the other stores, except
//! that nothing survives the process.
//!
//! One lock guards all tables. A commit decides and writes under it, so readers see a commit whole
//! or not at all. Writes start only after the decision has returned, and none of them can fail.

mod tables;

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plan::changeset::{Changeset, ChangesetEntry};
use plan::completion::{CompletedCommand, KnownCompletions};
use plan::facts::ReceiptOutcome;
use plan::invariant::{RuleBook, RuleScope};
use plan::ledger::BudgetLedger;
use plan::review::PlanReview;
use plan::transcript::TranscriptEntry;
use plan::{
    Action, Decision, DecisionFacts, Epoch, Phase, PlanId, PlanVersion, Project, QualifiedName,
    Timestamp, Verb,
};

use crate::commit::{COMPLETION_PAGE_SIZE, decide_with_completions, find_completion};
use crate::fault::{FaultPoint, StoreFault, StoreFaults};
use crate::sync::{Condvar, Mutex, lock};
use crate::{
    Clock, CommitError, CommitMark, CommitOutcome, Cursor, DuePlan, DueQueues, EventLog, EventPage,
    LedgerReads, PlanFilter, PlanRow, PlanSnapshot, ReadSet, ReviewReads, StoreError, StoreInfo,
    StoreMaintenance, StoreReader, StoreWriter, StoredEvent, StoredTranscriptEntry, Submission,
    TranscriptLog, TranscriptPosition,
};
use tables::MemoryTables;

/// Reported by `read_info`; the memory store has no schema of its own.
const SUPPORTED_SCHEMA_VERSION: u32 = 7;

/// A store in the memory of this process.
#[derive(Default)]
pub struct MemoryStore {
    tables: Mutex<MemoryTables>,
    commit_signal: Condvar,
    clock: Clock,
    faults: StoreFaults,
}

impl MemoryStore {
    /// Creates an empty store with the system clock.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty store with this clock and these faults, for tests.
    pub fn with_clock_and_faults(clock: Clock, faults: StoreFaults) -> Self {
        Self {
            clock,
            faults,
            ..Self::default()
        }
    }

    fn inject_fault(&self, point: FaultPoint) -> Result<(), StoreError> {
        match self.faults.fault_at(point) {
            StoreFault::None => Ok(()),
            StoreFault::Fail => Err(StoreError::Database {
                why: format!("fault injected: {point:?}"),
            }),
            StoreFault::Full => Err(StoreError::Full {
                place: "fault injected".to_owned(),
            }),
        }
    }

    /// Returns the due plans that `is_wanted` selects.
    fn list_due_among(
        &self,
        tables: &MemoryTables,
        after: Option<DuePlan>,
        limit: usize,
        is_wanted: impl Fn(&plan::Plan) -> bool,
    ) -> Vec<DuePlan> {
        let now = self.clock.now();
        let mut due: Vec<DuePlan> = tables
            .plans
            .values()
            .filter(|(plan, _)| is_wanted(plan))
            .filter_map(|(plan, _)| {
                Some(DuePlan {
                    due_at: plan.due_at()?,
                    plan_id: plan.id(),
                })
            })
            .filter(|due| due.due_at <= now && after.is_none_or(|after| *due > after))
            .collect();
        due.sort_unstable();
        due.truncate(clamp_page_size(limit));
        due
    }
}

fn log_end(tables: &MemoryTables) -> Cursor {
    Cursor {
        major: 0,
        minor: tables.log.len() as u64,
    }
}

impl StoreWriter for MemoryStore {
    fn commit(&self, mut submission: Submission) -> Result<CommitOutcome, CommitError> {
        let mut tables = lock(&self.tables);
        if let Some(key) = &submission.key
            && let Some((fingerprint, receipt)) =
                tables.keys.get(&(key.scope.clone(), key.key.clone()))
        {
            if *fingerprint != key.fingerprint {
                return Err(CommitError::KeyReused {
                    key: key.key.clone(),
                });
            }
            return Ok(CommitOutcome {
                receipt: receipt.clone(),
                plan: None,
                is_repeat: true,
            });
        }
        let mut facts = tables.read_facts(&submission.reads);
        let decision = decide_with_completions(
            &mut submission.decide,
            &mut facts,
            self.clock.now(),
            |plan_id, verb| tables.find_completion(plan_id, verb),
        )??;
        self.inject_fault(FaultPoint::Decided)?;
        tables.check_next_versions(&decision)?;
        self.inject_fault(FaultPoint::BeforeCommit)?;
        let committed = CommitOutcome::from_decision(&decision, &facts);
        tables.write_decision(decision);
        if let Some(key) = submission.key
            && !matches!(committed.receipt.outcome, ReceiptOutcome::Blocked(_))
        {
            tables.keys.insert(
                (key.scope, key.key),
                (key.fingerprint, committed.receipt.clone()),
            );
        }
        // A lost response has no effect here: resolving it would find the commit.
        let _answer_lost = self.faults.fault_at(FaultPoint::AfterCommit);
        drop(tables);
        self.commit_signal.notify_all();
        Ok(committed)
    }
}

impl StoreReader for MemoryStore {
    fn read_plan(&self, plan_id: PlanId) -> Result<Option<PlanRow>, StoreError> {
        Ok(lock(&self.tables).plan_row(plan_id))
    }

    fn list_plans(
        &self,
        filter: &PlanFilter,
        after: Option<PlanId>,
        limit: usize,
    ) -> Result<Vec<PlanRow>, StoreError> {
        let tables = lock(&self.tables);
        let older = tables
            .plans
            .iter()
            .rev()
            .filter(|(id, _)| after.is_none_or(|after| **id < after));
        let rows = older.filter_map(|(id, _)| tables.plan_row(*id));
        Ok(rows
            .filter(|row| filter.matches(row))
            .take(clamp_page_size(limit))
            .collect())
    }

    fn find_plan_ids(&self, fragment: &str, limit: usize) -> Result<Vec<PlanId>, StoreError> {
        let tables = lock(&self.tables);
        let has_fragment = |id: &&PlanId| {
            let text = id.to_string();
            text.starts_with(fragment) || text.ends_with(fragment)
        };
        Ok(tables
            .plans
            .keys()
            .filter(has_fragment)
            .take(clamp_page_size(limit))
            .copied()
            .collect())
    }

    fn list_due_plans(
        &self,
        phase: Phase,
        after: Option<DuePlan>,
        limit: usize,
    ) -> Result<Vec<DuePlan>, StoreError> {
        let is_in_phase = |plan: &plan::Plan| plan.phase() == phase;
        Ok(self.list_due_among(&lock(&self.tables), after, limit, is_in_phase))
    }

    fn list_claimable_plans(
        &self,
        phase: Phase,
        after: Option<DuePlan>,
        limit: usize,
    ) -> Result<Vec<DuePlan>, StoreError> {
        let is_claimable =
            |plan: &plan::Plan| plan.phase() == phase && plan.stage().queue_entry().is_some();
        Ok(self.list_due_among(&lock(&self.tables), after, limit, is_claimable))
    }

    fn read_due_queues(&self, limit: usize) -> Result<DueQueues, StoreError> {
        let tables = lock(&self.tables);
        let due = DueQueues::PHASE_ORDER.map(|phase| {
            let due = self.list_due_among(&tables, None, limit, |plan| plan.phase() == phase);
            (phase, due)
        });
        Ok(DueQueues {
            latest_cursor: log_end(&tables),
            queues: due.into(),
        })
    }

    fn list_expired_leases(&self, limit: usize) -> Result<Vec<PlanId>, StoreError> {
        let now = self.clock.now();
        let tables = lock(&self.tables);
        let mut expired: Vec<(Timestamp, PlanId)> = tables
            .leases
            .values()
            .filter(|lease| lease.expires_at <= now)
            .map(|lease| (lease.expires_at, lease.plan))
            .collect();
        expired.sort_unstable();
        Ok(expired
            .into_iter()
            .take(clamp_page_size(limit))
            .map(|(_, id)| id)
            .collect())
    }

    fn read_snapshot(&self, plan_id: PlanId) -> Result<Option<PlanSnapshot>, StoreError> {
        let tables = lock(&self.tables);
        let Some(row) = tables.plan_row(plan_id) else {
            return Ok(None);
        };
        let scopes = row.plan.rule_scopes();
        let entry = row.plan.entry_number(Phase::Execute);
        Ok(Some(PlanSnapshot {
            action: row
                .plan
                .action()
                .and_then(|name| tables.actions.get(name))
                .cloned(),
            rules: tables.read_rules(&scopes),
            evidence: tables
                .evidence
                .values()
                .filter(|evidence| evidence.plan == plan_id && evidence.entry == entry)
                .cloned()
                .collect(),
            row,
        }))
    }

    fn read_action(&self, name: &QualifiedName) -> Result<Option<Action>, StoreError> {
        Ok(lock(&self.tables).actions.get(name).cloned())
    }

    fn list_actions(
        &self,
        after: Option<&QualifiedName>,
        limit: usize,
    ) -> Result<Vec<Action>, StoreError> {
        let tables = lock(&self.tables);
        let later = tables
            .actions
            .iter()
            .filter(|(name, _)| after.is_none_or(|after| *name > after));
        Ok(later
            .take(clamp_page_size(limit))
            .map(|(_, action)| action.clone())
            .collect())
    }

    fn read_project(&self, name: &QualifiedName) -> Result<Option<Project>, StoreError> {
        Ok(lock(&self.tables).projects.get(name).cloned())
    }

    fn list_projects(
        &self,
        after: Option<&QualifiedName>,
        limit: usize,
    ) -> Result<Vec<Project>, StoreError> {
        let tables = lock(&self.tables);
        let later = tables
            .projects
            .iter()
            .filter(|(name, _)| after.is_none_or(|after| *name > after));
        Ok(later
            .take(clamp_page_size(limit))
            .map(|(_, project)| project.clone())
            .collect())
    }

    fn read_rules(&self, scopes: &[RuleScope]) -> Result<RuleBook, StoreError> {
        Ok(lock(&self.tables).read_rules(scopes))
    }

    fn list_changesets(
        &self,
        plan_id: PlanId,
    ) -> Result<Vec<(Changeset, Vec<ChangesetEntry>)>, StoreError> {
        let tables = lock(&self.tables);
        let plan_changesets = tables
            .changesets
            .values()
            .filter(|changeset| changeset.plan == plan_id);
        Ok(plan_changesets
            .map(|changeset| (changeset.clone(), tables.list_entries(changeset.id)))
            .collect())
    }

    fn read_ledger(&self, plan_id: PlanId) -> Result<BudgetLedger, StoreError> {
        Ok(lock(&self.tables).read_ledger(plan_id))
    }

    fn list_reviews(&self, plan_id: PlanId) -> Result<Vec<PlanReview>, StoreError> {
        Ok(lock(&self.tables).list_reviews(plan_id))
    }

    fn now(&self) -> Result<Timestamp, StoreError> {
        Ok(self.clock.now())
    }
}

impl EventLog for MemoryStore {
    fn read_plan_events(
        &self,
        plan_id: PlanId,
        after: PlanVersion,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let tables = lock(&self.tables);
        let events = tables
            .events
            .get(&plan_id)
            .map(Vec::as_slice)
            .unwrap_or_default();
        let skipped = usize::try_from(after.0).unwrap_or(usize::MAX);
        // Databases do not return the position among all plans for this query either.
        let without_cursor = |stored: &StoredEvent| StoredEvent {
            cursor: None,
            ..stored.clone()
        };
        let page = events.iter().skip(skipped).take(clamp_page_size(limit));
        Ok(page.map(without_cursor).collect())
    }

    fn read_events(&self, after: &Cursor, limit: usize) -> Result<EventPage, StoreError> {
        let tables = lock(&self.tables);
        let skipped = usize::try_from(after.minor).unwrap_or(usize::MAX);
        let page = tables.log.iter().skip(skipped).take(clamp_page_size(limit));
        let events: Vec<StoredEvent> = page
            .filter_map(|(plan, version)| tables.event_at(*plan, *version))
            .collect();
        let next = events
            .last()
            .and_then(|last| last.cursor.clone())
            .unwrap_or_else(|| after.clone());
        Ok(EventPage { events, next })
    }

    fn read_latest_cursor(&self) -> Result<Cursor, StoreError> {
        Ok(log_end(&lock(&self.tables)))
    }

    fn mark_commits(&self) -> Result<CommitMark, StoreError> {
        Ok(CommitMark(lock(&self.tables).signal_count))
    }

    fn wait_for_commit_after(&self, mark: CommitMark, timeout: Duration) -> Result<(), StoreError> {
        let tables = lock(&self.tables);
        let waited = self
            .commit_signal
            .wait_timeout_while(tables, timeout, |tables| tables.signal_count == mark.0);
        drop(waited);
        Ok(())
    }

    fn wake_waiters(&self) {
        lock(&self.tables).signal_count += 1;
        self.commit_signal.notify_all();
    }
}

impl TranscriptLog for MemoryStore {
    fn append_transcript(
        &self,
        plan_id: PlanId,
        epoch: Epoch,
        first_sequence: u64,
        entries: &[TranscriptEntry],
    ) -> Result<(), StoreError> {
        if entries.is_empty() {
            return Ok(());
        }
        let mut tables = lock(&self.tables);
        if !tables.plans.contains_key(&plan_id) {
            return Err(StoreError::NoSuchPlan { plan_id });
        }
        let transcript = tables.transcripts.entry(plan_id).or_default();
        for (sequence, entry) in (first_sequence..).zip(entries) {
            let position = TranscriptPosition { epoch, sequence };
            transcript.entry(position).or_insert_with(|| entry.clone());
        }
        Ok(())
    }

    fn read_transcript(
        &self,
        plan_id: PlanId,
        after: Option<TranscriptPosition>,
        limit: usize,
    ) -> Result<Vec<StoredTranscriptEntry>, StoreError> {
        let tables = lock(&self.tables);
        let Some(transcript) = tables.transcripts.get(&plan_id) else {
            return Ok(Vec::new());
        };
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let page = transcript.range((start, Bound::Unbounded));
        Ok(page
            .take(clamp_page_size(limit))
            .map(|(position, entry)| StoredTranscriptEntry {
                position: *position,
                entry: entry.clone(),
            })
            .collect())
    }

    fn find_transcript_end(
        &self,
        plan_id: PlanId,
    ) -> Result<Option<TranscriptPosition>, StoreError> {
        let tables = lock(&self.tables);
        let transcript = tables.transcripts.get(&plan_id);
        Ok(transcript.and_then(|entries| entries.keys().next_back().copied()))
    }

    fn delete_transcript(&self, plan_id: PlanId) -> Result<u64, StoreError> {
        let deleted = lock(&self.tables).transcripts.remove(&plan_id);
        Ok(deleted.map_or(0, |entries| entries.len() as u64))
    }
}

impl StoreMaintenance for MemoryStore {
    fn read_info(&self) -> Result<StoreInfo, StoreError> {
        Ok(StoreInfo {
            kind: "memory",
            place: "memory".to_owned(),
            schema_version: Some(SUPPORTED_SCHEMA_VERSION),
            supported_schema_version: SUPPORTED_SCHEMA_VERSION,
        })
    }

    fn migrate_schema(&self) -> Result<(u32, u32), StoreError> {
        Ok((SUPPORTED_SCHEMA_VERSION, SUPPORTED_SCHEMA_VERSION))
    }

    fn write_backup(&self, _to: &Path) -> Result<(), StoreError> {
        Err(StoreError::Unsupported {
            what: "a memory store has no file to copy".to_owned(),
        })
    }

    fn check_integrity(&self) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }
}

/// Limits a page to the bounds of every store.
fn clamp_page_size(limit: usize) -> usize {
    limit.clamp(1, 1000)
}

impl MemoryTables {
    fn find_completion(
        &self,
        plan_id: PlanId,
        verb: Verb,
    ) -> Result<Option<CompletedCommand>, StoreError> {
        let log = self.events.get(&plan_id);
        find_completion(verb, |markers, before| {
            let events = log.into_iter().flatten().rev().filter(|stored| {
                let has_marker = |marker: &String| stored.body.contains(marker);
                stored.recorded.version < before && markers.iter().any(has_marker)
            });
            let page = events.take(COMPLETION_PAGE_SIZE);
            Ok(page.map(|stored| stored.recorded.clone()).collect())
        })
    }

    /// Refuses what the databases' keys refuse: a plan created twice, an event with the wrong
    /// version.
    fn check_next_versions(&self, decision: &Decision) -> Result<(), StoreError> {
        for change in &decision.plans {
            let stored = self.plans.get(&change.plan.id());
            let version = stored.map_or(PlanVersion(0), |(plan, _)| plan.version());
            let first = change.events.first().map(|recorded| recorded.version);
            if first != Some(version.next()) {
                return Err(StoreError::Database {
                    why: format!("plan {} is already at version {version}", change.plan.id()),
                });
            }
        }
        Ok(())
    }

    fn read_facts(&self, reads: &ReadSet) -> DecisionFacts {
        let stored_plan = reads
            .plan
            .as_ref()
            .and_then(|(id, _)| Some(&self.plans.get(id)?.0));
        let (projects, live_plans) =
            self.read_projects(stored_plan.map(Arc::as_ref), &reads.projects);
        let plan_id = reads.plan.as_ref().map(|(id, _)| *id);
        let scopes: Vec<RuleScope> = reads.rules.iter().map(|(scope, _)| scope.clone()).collect();
        let (changesets, entries) = self.read_open_changesets(plan_id, &reads.changesets);
        DecisionFacts {
            plan: stored_plan.cloned(),
            lease: plan_id.and_then(|id| self.leases.get(&id).cloned()),
            action: reads
                .action
                .as_ref()
                .and_then(|(name, _)| self.actions.get(name).cloned()),
            rules: if scopes.is_empty() {
                RuleBook::default()
            } else {
                self.read_rules(&scopes)
            },
            changesets,
            entries,
            projects,
            live_plans,
            ledger: match (reads.ledger, plan_id) {
                (LedgerReads::OfPlan, Some(plan)) => self.read_ledger(plan),
                (LedgerReads::OfPlan, None) | (LedgerReads::None, _) => BudgetLedger::default(),
            },
            reviews: match (reads.reviews, plan_id) {
                (ReviewReads::OfPlan, Some(plan)) => self.list_reviews(plan),
                (ReviewReads::OfPlan, None) | (ReviewReads::None, _) => Vec::new(),
            },
            completions: KnownCompletions::new(),
        }
    }
}
