//! The memory store: for embedding and tests. Same traits, same suite, same guarantees, except that
//! nothing outlives the process.
//!
//! One lock around everything. A commit decides and writes under it, so readers see a commit whole
//! or not at all. Writes go to the real tables only after the decision returned, and none of them
//! can fail half way.

mod tables;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plan::changeset::{Changeset, Entry};
use plan::facts::Outcome;
use plan::invariant::{RuleBook, Scope};
use plan::ledger::Ledger;
use plan::{Action, Decision, Facts, Name, Phase, PlanId, Project, Timestamp, Version};

use crate::fault::{Fault, FaultPoint, Faults};
use crate::sync::{Condvar, Mutex, lock};
use crate::{
    Agenda, Clock, Commit, CommitError, Committed, Cursor, Due, EventPage, LedgerReads, Maintain,
    PlanFilter, PlanRow, Read, Reads, Snapshot, StoreError, StoreInfo, StoredEvent, Submission,
    Tail,
};
use tables::Tables;

/// The schema of the databases of this program.
const SCHEMA: u32 = 3;

/// A store in this process's memory.
#[derive(Default)]
pub struct MemoryStore {
    tables: Mutex<Tables>,
    committed: Condvar,
    clock: Clock,
    faults: Faults,
}

impl MemoryStore {
    /// An empty store on the system's clock.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty store with this clock and these faults, for tests.
    pub fn with(clock: Clock, faults: Faults) -> Self {
        Self {
            clock,
            faults,
            ..Self::default()
        }
    }

    fn fail_at(&self, point: FaultPoint) -> Result<(), StoreError> {
        match self.faults.at(point) {
            Fault::None => Ok(()),
            Fault::Fail => Err(StoreError::Database {
                why: format!("fault injected: {point:?}"),
            }),
            Fault::Full => Err(StoreError::Full {
                place: "fault injected".to_owned(),
            }),
        }
    }

    /// What is due of those that are asked for.
    fn due_among(
        &self,
        tables: &Tables,
        after: Option<Due>,
        limit: usize,
        is_asked_for: impl Fn(&plan::Plan) -> bool,
    ) -> Vec<Due> {
        let now = self.clock.now();
        let mut due: Vec<Due> = tables
            .plans
            .values()
            .filter(|(plan, _)| is_asked_for(plan))
            .filter_map(|(plan, _)| {
                Some(Due {
                    due_at: plan.due_at()?,
                    plan: plan.id,
                })
            })
            .filter(|due| due.due_at <= now && after.is_none_or(|after| *due > after))
            .collect();
        due.sort_unstable();
        due.truncate(page(limit));
        due
    }
}

/// The end of the log.
fn end_of(tables: &Tables) -> Cursor {
    Cursor {
        major: 0,
        minor: tables.log.len() as u64,
    }
}

impl Commit for MemoryStore {
    fn commit(&self, mut submission: Submission) -> Result<Committed, CommitError> {
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
            return Ok(Committed {
                receipt: receipt.clone(),
                plan: None,
                remembered: true,
            });
        }
        let facts = tables.facts(&submission.reads);
        let decision = (submission.decide)(&facts, self.clock.now())?;
        self.fail_at(FaultPoint::Decided)?;
        tables.check_that_it_follows(&decision)?;
        self.fail_at(FaultPoint::BeforeCommit)?;
        let committed = Committed::of(&decision, &facts);
        tables.write(decision);
        if let Some(key) = submission.key
            && !matches!(committed.receipt.outcome, Outcome::Blocked(_))
        {
            tables.keys.insert(
                (key.scope, key.key),
                (key.fingerprint, committed.receipt.clone()),
            );
        }
        // Nothing can come between here and the caller: a lost answer is settled by looking, and
        // the look finds the commit.
        let _answer_lost = self.faults.at(FaultPoint::AfterCommit);
        drop(tables);
        self.committed.notify_all();
        Ok(committed)
    }
}

impl Read for MemoryStore {
    fn plan(&self, id: PlanId) -> Result<Option<PlanRow>, StoreError> {
        Ok(lock(&self.tables).plan_row(id))
    }

    fn plans(
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
            .take(page(limit))
            .collect())
    }

    fn plans_like(&self, fragment: &str, limit: usize) -> Result<Vec<PlanId>, StoreError> {
        let tables = lock(&self.tables);
        let like = |id: &&PlanId| {
            let text = id.to_string();
            text.starts_with(fragment) || text.ends_with(fragment)
        };
        Ok(tables
            .plans
            .keys()
            .filter(like)
            .take(page(limit))
            .copied()
            .collect())
    }

    fn due(&self, phase: Phase, after: Option<Due>, limit: usize) -> Result<Vec<Due>, StoreError> {
        let is_of_it = |plan: &plan::Plan| plan.phase() == phase;
        Ok(self.due_among(&lock(&self.tables), after, limit, is_of_it))
    }

    fn claimable(
        &self,
        phase: Phase,
        after: Option<Due>,
        limit: usize,
    ) -> Result<Vec<Due>, StoreError> {
        let is_claimable =
            |plan: &plan::Plan| plan.phase() == phase && plan.stage.waiting().is_some();
        Ok(self.due_among(&lock(&self.tables), after, limit, is_claimable))
    }

    fn agenda(&self, limit: usize) -> Result<Agenda, StoreError> {
        let tables = lock(&self.tables);
        let due = Agenda::PHASES.map(|phase| {
            let due = self.due_among(&tables, None, limit, |plan| plan.phase() == phase);
            (phase, due)
        });
        Ok(Agenda {
            latest: end_of(&tables),
            due: due.into(),
        })
    }

    fn expired(&self, limit: usize) -> Result<Vec<PlanId>, StoreError> {
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
            .take(page(limit))
            .map(|(_, id)| id)
            .collect())
    }

    fn snapshot(&self, id: PlanId) -> Result<Option<Snapshot>, StoreError> {
        let tables = lock(&self.tables);
        let Some(row) = tables.plan_row(id) else {
            return Ok(None);
        };
        let scopes = row.plan.scopes();
        let entry = row.plan.entry(Phase::Execute);
        Ok(Some(Snapshot {
            action: row
                .plan
                .action
                .as_ref()
                .and_then(|name| tables.actions.get(name))
                .cloned(),
            rules: tables.rules(&scopes),
            evidence: tables
                .evidence
                .values()
                .filter(|evidence| evidence.plan == id && evidence.entry == entry)
                .cloned()
                .collect(),
            row,
        }))
    }

    fn action(&self, name: &Name) -> Result<Option<Action>, StoreError> {
        Ok(lock(&self.tables).actions.get(name).cloned())
    }

    fn actions(&self, after: Option<&Name>, limit: usize) -> Result<Vec<Action>, StoreError> {
        let tables = lock(&self.tables);
        let later = tables
            .actions
            .iter()
            .filter(|(name, _)| after.is_none_or(|after| *name > after));
        Ok(later
            .take(page(limit))
            .map(|(_, action)| action.clone())
            .collect())
    }

    fn project(&self, name: &Name) -> Result<Option<Project>, StoreError> {
        Ok(lock(&self.tables).projects.get(name).cloned())
    }

    fn projects(&self, after: Option<&Name>, limit: usize) -> Result<Vec<Project>, StoreError> {
        let tables = lock(&self.tables);
        let later = tables
            .projects
            .iter()
            .filter(|(name, _)| after.is_none_or(|after| *name > after));
        Ok(later
            .take(page(limit))
            .map(|(_, project)| project.clone())
            .collect())
    }

    fn rules(&self, scopes: &[Scope]) -> Result<RuleBook, StoreError> {
        Ok(lock(&self.tables).rules(scopes))
    }

    fn changesets(&self, plan: PlanId) -> Result<Vec<(Changeset, Vec<Entry>)>, StoreError> {
        let tables = lock(&self.tables);
        let of_plan = tables
            .changesets
            .values()
            .filter(|changeset| changeset.plan == plan);
        Ok(of_plan
            .map(|changeset| (changeset.clone(), tables.entries_of(changeset.id)))
            .collect())
    }

    fn ledger(&self, plan: PlanId) -> Result<Ledger, StoreError> {
        Ok(lock(&self.tables).ledger(plan))
    }

    fn now(&self) -> Result<Timestamp, StoreError> {
        Ok(self.clock.now())
    }
}

impl Tail for MemoryStore {
    fn plan_events(
        &self,
        plan: PlanId,
        after: Version,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let tables = lock(&self.tables);
        let events = tables
            .events
            .get(&plan)
            .map(Vec::as_slice)
            .unwrap_or_default();
        let skipped = usize::try_from(after.0).unwrap_or(usize::MAX);
        // Its place among all plans was not asked for, and no database knows it here.
        let of_plan = |stored: &StoredEvent| StoredEvent {
            cursor: None,
            ..stored.clone()
        };
        let page = events.iter().skip(skipped).take(page(limit));
        Ok(page.map(of_plan).collect())
    }

    fn events(&self, after: &Cursor, limit: usize) -> Result<EventPage, StoreError> {
        let tables = lock(&self.tables);
        let skipped = usize::try_from(after.minor).unwrap_or(usize::MAX);
        let page = tables.log.iter().skip(skipped).take(page(limit));
        let events: Vec<StoredEvent> = page
            .filter_map(|(plan, version)| tables.event(*plan, *version))
            .collect();
        let next = events
            .last()
            .and_then(|last| last.cursor.clone())
            .unwrap_or_else(|| after.clone());
        Ok(EventPage { events, next })
    }

    fn latest(&self) -> Result<Cursor, StoreError> {
        Ok(end_of(&lock(&self.tables)))
    }

    fn wait(&self, timeout: Duration) -> Result<(), StoreError> {
        let tables = lock(&self.tables);
        let seen = tables.commits;
        let waited = self
            .committed
            .wait_timeout_while(tables, timeout, |tables| tables.commits == seen);
        drop(waited);
        Ok(())
    }
}

impl Maintain for MemoryStore {
    fn info(&self) -> Result<StoreInfo, StoreError> {
        Ok(StoreInfo {
            kind: "memory",
            place: "memory".to_owned(),
            schema: Some(SCHEMA),
            known_schema: SCHEMA,
        })
    }

    fn migrate(&self) -> Result<(u32, u32), StoreError> {
        Ok((SCHEMA, SCHEMA))
    }

    fn backup(&self, _to: &Path) -> Result<(), StoreError> {
        Err(StoreError::Unsupported {
            what: "a memory store has no file to copy".to_owned(),
        })
    }

    fn check(&self) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }
}

/// As many rows as a page holds: what the caller wants, within the bounds of every store.
fn page(limit: usize) -> usize {
    limit.clamp(1, 1000)
}

impl Tables {
    /// What the keys of the databases refuse: a plan made twice, an event out of turn.
    fn check_that_it_follows(&self, decision: &Decision) -> Result<(), StoreError> {
        for change in &decision.plans {
            let stored = self.plans.get(&change.plan.id);
            let version = stored.map_or(Version(0), |(plan, _)| plan.version);
            let first = change.events.first().map(|recorded| recorded.version);
            if first != Some(version.next()) {
                return Err(StoreError::Database {
                    why: format!("plan {} is at version {version} already", change.plan.id),
                });
            }
        }
        Ok(())
    }

    fn facts(&self, reads: &Reads) -> Facts {
        let held = reads
            .plan
            .as_ref()
            .and_then(|(id, _)| Some(&self.plans.get(id)?.0));
        let (projects, live_plans) = self.projects(held.map(Arc::as_ref), &reads.projects);
        let plan = reads.plan.as_ref().map(|(id, _)| *id);
        let scopes: Vec<Scope> = reads.rules.iter().map(|(scope, _)| scope.clone()).collect();
        let (changesets, entries) = self.open_changesets(plan, &reads.changesets);
        Facts {
            plan: held.cloned(),
            lease: plan.and_then(|id| self.leases.get(&id).cloned()),
            action: reads
                .action
                .as_ref()
                .and_then(|(name, _)| self.actions.get(name).cloned()),
            rules: if scopes.is_empty() {
                RuleBook::default()
            } else {
                self.rules(&scopes)
            },
            changesets,
            entries,
            projects,
            live_plans,
            ledger: match (reads.ledger, plan) {
                (LedgerReads::OfPlan, Some(plan)) => self.ledger(plan),
                (LedgerReads::OfPlan, None) | (LedgerReads::None, _) => Ledger::default(),
            },
        }
    }
}
