//! Minimal decisions, and a temporary directory for a store.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use plan::event::PlanCreated;
use plan::facts::{Lease, PlanChange, ReceiptOutcome};
use plan::plan::{PlanLimits, PlanOrigin, ProfileSource};
use plan::{
    Caller, CommandId, CommandReceipt, Decision, DecisionFacts, Digest, Event, Phase, Plan,
    PlanActors, PlanId, PlanVersion, Profile, RecordedEvent, Refusal, RowWrite, Span, Timestamp,
    Verb, evolve,
};
use planwright_store::sqlite::{SqliteOptions, SqliteStore};
use planwright_store::verify::verify_store;
use planwright_store::{
    CommitError, CommitOutcome, DecideFn, IdempotencyKey, ReadSet, RowAccess, StoreReader,
    StoreWriter, Submission,
};

/// A temporary directory with the path of a database in it.
pub struct DatabaseDir {
    pub directory: tempfile::TempDir,
    pub path: PathBuf,
}

impl DatabaseDir {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("planwright.db");
        Self { directory, path }
    }

    pub fn store(&self) -> SqliteStore {
        SqliteStore::new(&self.path, SqliteOptions::default())
    }

    /// Returns the names of the files in the directory.
    pub fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.directory.path()).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

pub fn plan_id(number: u64) -> PlanId {
    PlanId::from_parts(1_700_000_000_000, u128::from(number))
}

/// Unique among all processes of a test.
pub fn command_id() -> CommandId {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let random = u128::from(std::process::id()) << 48 | u128::from(number);
    CommandId::from_parts(1_700_000_000_000, random)
}

pub fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey {
        scope: "use".to_owned(),
        key: text.to_owned(),
        fingerprint: Digest::hash_bytes(b"arguments"),
    }
}

/// Creates a submission for a plan.
pub fn submission_for(plan: PlanId, decide: DecideFn) -> Submission {
    Submission {
        id: command_id(),
        key: None,
        reads: ReadSet {
            plan: Some((plan, RowAccess::Exclusive)),
            ..ReadSet::default()
        },
        decide,
    }
}

pub fn create(store: &SqliteStore, plan: PlanId) -> Result<CommitOutcome, CommitError> {
    store.commit(submission_for(plan, creates(plan, "tidy up")))
}

/// Commits an event that adds or drops a lease.
pub fn toggle(store: &SqliteStore, plan: PlanId) -> Result<CommitOutcome, CommitError> {
    store.commit(submission_for(plan, toggles()))
}

pub fn creates(id: PlanId, goal: &str) -> DecideFn {
    let goal = goal.to_owned();
    Box::new(move |facts, now| {
        assert!(facts.plan.is_none(), "{id} is there already");
        let created = Event::Created(Box::new(PlanCreated {
            definitions: Vec::new(),
            strategy_wanted: false,
            bases: Vec::new(),
            policy: Default::default(),
            goal: goal.clone().into(),
            action: None,
            arguments: BTreeMap::new(),
            actors: PlanActors::for_both_phases("bot".parse().unwrap()),
            profile: Profile::Review,
            profile_source: ProfileSource::Default,
            read_only: false,
            resources: Vec::new(),
            limits: PlanLimits::default(),
            origin: PlanOrigin::Use,
            result: None,
        }));
        Ok(one_event(None, id, created, Vec::new(), now))
    })
}

/// Claims a plan, or releases it if it is claimed.
pub fn toggles() -> DecideFn {
    Box::new(|facts, now| {
        let plan = required(facts)?;
        let id = plan.id();
        let (event, row) = match plan.stage().holder() {
            None => {
                let epoch = plan.epoch().next();
                let owner = "worker".to_owned();
                let lease = Lease {
                    plan: id,
                    owner: owner.clone(),
                    epoch,
                    expires_at: now.saturating_add(Span::from_seconds(30)),
                };
                let claimed = Event::Claimed {
                    phase: Phase::Strategize,
                    owner,
                    epoch,
                    asked: false,
                };
                (claimed, RowWrite::PutLease(lease))
            }
            Some(holder) => {
                let epoch = holder.epoch;
                (Event::Released { epoch }, RowWrite::DropLease(id))
            }
        };
        Ok(one_event(Some(plan), id, event, vec![row], now))
    })
}

pub fn decide_nothing() -> DecideFn {
    Box::new(|facts, now| {
        let plan = required(facts)?;
        Ok(Decision {
            receipt: receipt(&plan, ReceiptOutcome::AlreadyDone, now),
            plans: Vec::new(),
            rows: Vec::new(),
        })
    })
}

pub fn required(facts: &DecisionFacts) -> Result<Plan, Refusal> {
    let plan = facts.plan.as_deref().cloned();
    plan.ok_or(Refusal::NoSuchPlan(plan_id(0)))
}

pub fn one_event(
    before: Option<Plan>,
    id: PlanId,
    event: Event,
    rows: Vec<RowWrite>,
    now: Timestamp,
) -> Decision {
    let version = before.as_ref().map_or(PlanVersion(0), plan::Plan::version);
    let recorded = RecordedEvent {
        plan: id,
        version: version.next(),
        at: now,
        by: Caller::Worker("worker".to_owned()),
        event,
    };
    let plan = evolve(before, &recorded).unwrap();
    Decision {
        receipt: receipt(&plan, ReceiptOutcome::Done, now),
        plans: vec![PlanChange {
            plan: plan.into(),
            events: vec![recorded],
        }],
        rows,
    }
}

pub fn receipt(plan: &Plan, outcome: ReceiptOutcome, at: Timestamp) -> CommandReceipt {
    CommandReceipt {
        verb: Verb::Renew,
        outcome,
        plan: Some(plan.id()),
        version: Some(plan.version()),
        epoch: Some(plan.epoch()),
        changeset: None,
        grant: None,
        at,
    }
}

/// Returns a plan's version; 0 if it does not exist.
pub fn version(store: &SqliteStore, plan: PlanId) -> u64 {
    let row = store.read_plan(plan).unwrap();
    row.map_or(0, |row| row.plan.version().0)
}

/// Verifies all hash chains, replays and the file. Returns the number of plans and events.
pub fn verify_counts(store: &SqliteStore) -> (u64, u64) {
    let verified = verify_store(store).unwrap();
    assert_eq!(verified.problems, Vec::<String>::new());
    (verified.plans, verified.events)
}
