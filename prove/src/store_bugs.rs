//! Bugs planted between the engine and the store, to test that the checker finds them. Each is a bug that a real system
//! of this kind had. Compiled for tests only.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use plan::stage::{ApplyState, WorkState};
use plan::{Decision, DecisionFacts, Epoch, PlanId, PlanStage, Refusal, RowWrite};
use store::{EventPage, PlanRow, Submission};
use testkit::edit_plan;

use crate::hooked_store::StoreHooks;

/// A bug of the engine or the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum StoreBug {
    /// Reads return a cached row
    StaleRead,
    /// A holder with an old epoch may write
    NoFence,
    /// Changes go to the first open changeset, not the node's
    WrongChangeset,
    /// More than one of several racing callers wins
    DoubleTransition,
    /// The plan is written but its lease is not
    HalfCommit,
    /// A log reader sometimes skips an event
    LostEvent,
}

/// Adds a bug to a store.
pub struct StoreBugHooks {
    bug: StoreBug,
    calls: AtomicU64,
    cached_rows: Mutex<BTreeMap<PlanId, PlanRow>>,
}

/// A bug strikes on every n-th call: rarely enough that most calls work.
const STRIKE_INTERVAL: u64 = 5;

impl StoreBugHooks {
    pub fn new(bug: StoreBug) -> Self {
        Self {
            bug,
            calls: AtomicU64::new(0),
            cached_rows: Mutex::new(BTreeMap::new()),
        }
    }

    /// Counts a call; true if the bug affects it.
    fn strikes_now(&self) -> bool {
        self.calls.fetch_add(1, Ordering::Relaxed) % STRIKE_INTERVAL == STRIKE_INTERVAL - 1
    }
}

impl StoreHooks for StoreBugHooks {
    fn edit_submission(&self, mut submission: Submission) -> Submission {
        let mut decide = submission.decide;
        let bug = self.bug;
        let strikes = self.strikes_now();
        submission.decide = Box::new(move |facts, now| {
            let decided = decide(facts, now);
            let holder = facts.plan.as_ref().and_then(|plan| plan.stage().holder());
            match (bug, decided) {
                (StoreBug::NoFence, Err(Refusal::Fenced { given, current })) => {
                    decide(&with_holder_epoch(facts, given), now)
                        .map_err(|_| Refusal::Fenced { given, current })
                }
                (StoreBug::DoubleTransition, Err(refusal)) if holder.is_some() => {
                    decide(&with_queued_plan(facts, now), now).map_err(|_| refusal)
                }
                (StoreBug::WrongChangeset, Ok(decision)) => Ok(redirect_entries(decision, facts)),
                (StoreBug::HalfCommit, Ok(mut decision)) if strikes => {
                    decision.rows.retain(|row| {
                        !matches!(row, RowWrite::PutLease(_) | RowWrite::DropLease(_))
                    });
                    Ok(decision)
                }
                (_, decided) => decided,
            }
        });
        submission
    }

    fn edit_row(&self, row: Option<PlanRow>) -> Option<PlanRow> {
        let row = row?;
        if self.bug != StoreBug::StaleRead {
            return Some(row);
        }
        let mut cached_rows = self
            .cached_rows
            .lock()
            .expect("BUG: no holder of this lock panics");
        if self.strikes_now() {
            cached_rows.remove(&row.plan.id());
        }
        Some(cached_rows.entry(row.plan.id()).or_insert(row).clone())
    }

    fn edit_page(&self, mut page: EventPage) -> EventPage {
        if self.bug == StoreBug::LostEvent && page.events.len() > 1 && self.strikes_now() {
            page.events.remove(0);
        }
        page
    }
}

/// The facts as if the holder with this epoch still held the plan.
fn with_holder_epoch(facts: &DecisionFacts, epoch: Epoch) -> DecisionFacts {
    let mut facts = facts.clone();
    if let Some(plan) = &facts.plan {
        let mut stage = plan.stage().clone();
        match &mut stage {
            PlanStage::Strategize(WorkState::Processing(holder))
            | PlanStage::Execute(WorkState::Processing(holder))
            | PlanStage::Apply(ApplyState::Processing(holder, _)) => holder.epoch = epoch,
            PlanStage::Strategize(_) | PlanStage::Execute(_) | PlanStage::Apply(_) => {}
        }
        let edited = edit_plan(plan, |fields| {
            fields.insert("epoch".to_owned(), serde_json::json!(epoch));
            fields.insert("stage".to_owned(), serde_json::json!(stage));
        });
        facts.plan = Some(Arc::new(edited));
    }
    facts
}

/// The facts as if nobody had claimed the plan yet.
fn with_queued_plan(facts: &DecisionFacts, now: plan::Timestamp) -> DecisionFacts {
    let mut facts = facts.clone();
    if let Some(plan) = &facts.plan {
        let stage = PlanStage::queued_since(plan.phase(), now);
        let edited = edit_plan(plan, |fields| {
            fields.insert("stage".to_owned(), serde_json::json!(stage));
        });
        facts.plan = Some(Arc::new(edited));
    }
    facts
}

/// The decision with its entries moved to another open changeset, if there is one.
fn redirect_entries(mut decision: Decision, facts: &DecisionFacts) -> Decision {
    for row in &mut decision.rows {
        if let RowWrite::PutEntry(changeset, _) = row {
            let other = facts.changesets.iter().find(|other| other.id != *changeset);
            *changeset = other.map_or(*changeset, |other| other.id);
        }
    }
    decision
}
