//! What the store holds in the end, read once.

use std::collections::BTreeMap;

use plan::changeset::{Changeset, ChangesetEntry};
use plan::evolve::evolve;
use plan::stage::StateName;
use plan::{Phase, Plan, PlanId, PlanVersion, RecordedEvent};
use store::verify::verify_store;
use store::{PlanFilter, PlanRow, Store, StoreError};

const PAGE: usize = 500;

/// Every plan with its log.
#[derive(Debug, Clone, Default)]
pub struct Stored {
    /// The plans.
    pub plans: BTreeMap<PlanId, StoredPlan>,
    /// What the store's own check found: chains, replay, the database's files.
    pub problems: Vec<String>,
}

/// One plan.
#[derive(Debug, Clone)]
pub struct StoredPlan {
    /// As it is stored.
    pub row: PlanRow,
    /// Its log.
    pub events: Vec<RecordedEvent>,
    /// Where it stood after each event; as many as could be replayed.
    pub states: Vec<Standing>,
    /// Its changesets.
    pub changesets: Vec<(Changeset, Vec<ChangesetEntry>)>,
}

/// Where a plan stood: as much of it as is looked at, since there are many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Its phase.
    pub phase: Phase,
    /// Its state.
    pub state: StateName,
    /// Past the point of no return.
    pub prepared: bool,
    /// Its epoch.
    pub epoch: u64,
    /// The epoch of the one that works.
    pub holder: Option<u64>,
    /// Everything that must only rise.
    pub counters: [(&'static str, i64); 9],
    /// Must only rise while the phase is not entered anew.
    pub attempt: u32,
}

impl Standing {
    fn of(plan: &Plan) -> Self {
        let entries = |phase| i64::from(plan.entry_number(phase));
        let counted = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        Self {
            phase: plan.phase(),
            state: plan.stage.state_name(),
            prepared: plan.is_prepared(),
            epoch: plan.epoch.0,
            holder: plan.stage.holder().map(|holder| holder.epoch.0),
            counters: [
                ("the version", counted(plan.version.0)),
                ("the epoch", counted(plan.epoch.0)),
                ("the time", plan.updated_at.0),
                ("the number of reversions", i64::from(plan.reversions)),
                (
                    "the number of automatic reversions",
                    i64::from(plan.automatic_reversions),
                ),
                ("the number of decisions", i64::from(plan.decisions)),
                ("the entries into strategize", entries(Phase::Strategize)),
                ("the entries into execute", entries(Phase::Execute)),
                ("the entries into apply", entries(Phase::Apply)),
            ],
            attempt: plan.attempt,
        }
    }

    /// Phase and state, as they are shown.
    pub fn stage(&self) -> String {
        format!("{}/{}", self.phase, self.state)
    }

    /// Nothing may follow.
    pub fn is_final(&self) -> bool {
        matches!(self.state, StateName::Applied | StateName::Cancelled)
    }
}

impl Stored {
    /// Reads everything.
    pub fn read(store: &dyn Store) -> Result<Self, StoreError> {
        let mut stored = Self {
            problems: verify_store(store)?.problems,
            ..Self::default()
        };
        let mut after = None;
        loop {
            let page = store.list_plans(&PlanFilter::default(), after, PAGE)?;
            let Some(last) = page.last() else {
                return Ok(stored);
            };
            after = Some(last.plan.id);
            for row in page {
                let plan = StoredPlan::read(store, row)?;
                stored.plans.insert(plan.id(), plan);
            }
        }
    }
}

impl StoredPlan {
    fn read(store: &dyn Store, row: PlanRow) -> Result<Self, StoreError> {
        let id = row.plan.id;
        let mut events: Vec<RecordedEvent> = Vec::new();
        loop {
            let after = events
                .last()
                .map_or(PlanVersion(0), |recorded| recorded.version);
            let page = store.read_plan_events(id, after, PAGE)?;
            if page.is_empty() {
                break;
            }
            events.extend(page.into_iter().map(|stored| stored.recorded));
        }
        let mut states = Vec::new();
        let mut plan = None;
        for recorded in &events {
            // Where it fails, the store's own check says so.
            let Ok(next) = evolve(plan, recorded) else {
                break;
            };
            states.push(Standing::of(&next));
            plan = Some(next);
        }
        Ok(Self {
            changesets: store.list_changesets(id)?,
            row,
            events,
            states,
        })
    }

    /// Which plan.
    pub fn id(&self) -> PlanId {
        self.row.plan.id
    }

    /// Where it stood at a version, from 1.
    pub fn at(&self, version: u64) -> Option<&Standing> {
        let index = usize::try_from(version.checked_sub(1)?).ok()?;
        self.states.get(index)
    }

    /// How many versions there are.
    pub fn versions(&self) -> u64 {
        self.states.len() as u64
    }
}
