//! Reads the contents of the store after the clients have ended.

use std::collections::BTreeMap;

use plan::changeset::{Changeset, ChangesetEntry};
use plan::evolve::evolve;
use plan::stage::StateName;
use plan::{Phase, Plan, PlanId, PlanVersion, RecordedEvent};
use store::verify::verify_store;
use store::{PlanFilter, PlanRow, Store, StoreError};

const PAGE_SIZE: usize = 500;

/// All plans with their logs.
#[derive(Debug, Clone, Default)]
pub struct StoreContents {
    pub plans: BTreeMap<PlanId, StoredPlan>,
    /// The findings of the store's own verification: hash chains, replay, database files.
    pub problems: Vec<String>,
}

/// A stored plan with its log and changesets.
#[derive(Debug, Clone)]
pub struct StoredPlan {
    pub row: PlanRow,
    pub events: Vec<RecordedEvent>,
    /// The status after each event, as far as the log could be replayed.
    pub statuses: Vec<RecordedPlanStatus>,
    pub changesets: Vec<(Changeset, Vec<ChangesetEntry>)>,
}

/// The status of a plan after an event. Only the fields that are checked, because there are many of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedPlanStatus {
    pub phase: Phase,
    pub state: StateName,
    /// Prepared to land: past the point of no return.
    pub prepared: bool,
    pub epoch: u64,
    /// The epoch of the holder.
    pub holder: Option<u64>,
    /// Counters that must never decrease.
    pub counters: [(&'static str, i64); 9],
    /// Must not decrease until the plan enters a phase again.
    pub attempt: u32,
}

impl RecordedPlanStatus {
    fn from_plan(plan: &Plan) -> Self {
        let entries = |phase| i64::from(plan.entry_number(phase));
        let as_signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        Self {
            phase: plan.phase(),
            state: plan.stage().state_name(),
            prepared: plan.is_prepared(),
            epoch: plan.epoch().0,
            holder: plan.stage().holder().map(|holder| holder.epoch.0),
            counters: [
                ("the version", as_signed(plan.version().0)),
                ("the epoch", as_signed(plan.epoch().0)),
                ("the time", plan.updated_at().0),
                ("the number of reversions", i64::from(plan.reversions())),
                (
                    "the number of automatic reversions",
                    i64::from(plan.automatic_reversions()),
                ),
                ("the number of decisions", i64::from(plan.decisions())),
                ("the entries into strategize", entries(Phase::Strategize)),
                ("the entries into execute", entries(Phase::Execute)),
                ("the entries into apply", entries(Phase::Apply)),
            ],
            attempt: plan.attempt(),
        }
    }

    /// Phase and state, as they are displayed.
    pub fn stage_text(&self) -> String {
        format!("{}/{}", self.phase, self.state)
    }

    /// No event may follow.
    pub fn is_final(&self) -> bool {
        matches!(self.state, StateName::Applied | StateName::Cancelled)
    }
}

impl StoreContents {
    /// Reads all plans.
    pub fn read_store(store: &dyn Store) -> Result<Self, StoreError> {
        let mut stored = Self {
            problems: verify_store(store)?.problems,
            ..Self::default()
        };
        let mut after = None;
        loop {
            let page = store.list_plans(&PlanFilter::default(), after, PAGE_SIZE)?;
            let Some(last) = page.last() else {
                return Ok(stored);
            };
            after = Some(last.plan.id());
            for row in page {
                let plan = StoredPlan::read_plan(store, row)?;
                stored.plans.insert(plan.id(), plan);
            }
        }
    }
}

impl StoredPlan {
    fn read_plan(store: &dyn Store, row: PlanRow) -> Result<Self, StoreError> {
        let id = row.plan.id();
        let mut events: Vec<RecordedEvent> = Vec::new();
        loop {
            let after = events
                .last()
                .map_or(PlanVersion(0), |recorded| recorded.version);
            let page = store.read_plan_events(id, after, PAGE_SIZE)?;
            if page.is_empty() {
                break;
            }
            events.extend(page.into_iter().map(|stored| stored.recorded));
        }
        let mut statuses = Vec::new();
        let mut plan = None;
        for recorded in &events {
            // The store's own verification reports a log that cannot be replayed.
            let Ok(next) = evolve(plan, recorded) else {
                break;
            };
            statuses.push(RecordedPlanStatus::from_plan(&next));
            plan = Some(next);
        }
        Ok(Self {
            changesets: store.list_changesets(id)?,
            row,
            events,
            statuses,
        })
    }

    pub fn id(&self) -> PlanId {
        self.row.plan.id()
    }

    /// The status at a version, counted from 1.
    pub fn status_at(&self, version: u64) -> Option<&RecordedPlanStatus> {
        let index = usize::try_from(version.checked_sub(1)?).ok()?;
        self.statuses.get(index)
    }

    /// The number of versions that could be replayed.
    pub fn version_count(&self) -> u64 {
        self.statuses.len() as u64
    }
}
