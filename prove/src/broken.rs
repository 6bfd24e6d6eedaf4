//! Bugs, planted between the engine and the store, to see whether the checker finds them. Each is one that
//! a system of this kind really had. Compiled for tests only.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use plan::stage::{ApplyState, WorkState};
use plan::{Decision, DecisionFacts, Epoch, PlanId, PlanStage, Refusal, RowWrite};
use store::{EventPage, PlanRow, Submission};

use crate::wrapped::Doors;

/// Sorts of bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Bug {
    /// Reads come from memory of an earlier read.
    StaleRead,
    /// A holder whose authority is over may write.
    NoFence,
    /// Changes go to whichever changeset comes first.
    WrongChangeset,
    /// Of racing callers, more than one wins.
    DoubleTransition,
    /// The plan moves, its lease does not.
    HalfCommit,
    /// A reader of the log skips an event now and then.
    LostEvent,
}

/// A store with a bug.
pub struct Broken {
    bug: Bug,
    calls: AtomicU64,
    remembered: Mutex<BTreeMap<PlanId, PlanRow>>,
}

/// How often a bug strikes: seldom enough that most things work.
const ONE_IN: u64 = 5;

impl Broken {
    /// With this bug.
    pub fn new(bug: Bug) -> Self {
        Self {
            bug,
            calls: AtomicU64::new(0),
            remembered: Mutex::new(BTreeMap::new()),
        }
    }

    fn strikes(&self) -> bool {
        self.calls.fetch_add(1, Ordering::Relaxed) % ONE_IN == ONE_IN - 1
    }
}

impl Doors for Broken {
    fn submission(&self, mut submission: Submission) -> Submission {
        let mut decide = submission.decide;
        let bug = self.bug;
        let strikes = self.strikes();
        submission.decide = Box::new(move |facts, now| {
            let decided = decide(facts, now);
            let holder = facts.plan.as_ref().and_then(|plan| plan.stage.holder());
            match (bug, decided) {
                (Bug::NoFence, Err(Refusal::Fenced { given, current })) => {
                    decide(&held_by(facts, given), now)
                        .map_err(|_| Refusal::Fenced { given, current })
                }
                (Bug::DoubleTransition, Err(refusal)) if holder.is_some() => {
                    decide(&queued(facts, now), now).map_err(|_| refusal)
                }
                (Bug::WrongChangeset, Ok(decision)) => Ok(into_another(decision, facts)),
                (Bug::HalfCommit, Ok(mut decision)) if strikes => {
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

    fn row(&self, row: Option<PlanRow>) -> Option<PlanRow> {
        let row = row?;
        if self.bug != Bug::StaleRead {
            return Some(row);
        }
        let mut remembered = self.remembered.lock().expect("BUG: nobody panics in here");
        if self.strikes() {
            remembered.remove(&row.plan.id);
        }
        Some(remembered.entry(row.plan.id).or_insert(row).clone())
    }

    fn page(&self, mut page: EventPage) -> EventPage {
        if self.bug == Bug::LostEvent && page.events.len() > 1 && self.strikes() {
            page.events.remove(0);
        }
        page
    }
}

/// The facts, if whoever has this epoch still held the plan.
fn held_by(facts: &DecisionFacts, epoch: Epoch) -> DecisionFacts {
    let mut facts = facts.clone();
    if let Some(plan) = facts.plan.as_mut().map(Arc::make_mut) {
        plan.epoch = epoch;
        match &mut plan.stage {
            PlanStage::Strategize(WorkState::Processing(holder))
            | PlanStage::Execute(WorkState::Processing(holder))
            | PlanStage::Apply(ApplyState::Processing(holder, _)) => holder.epoch = epoch,
            PlanStage::Strategize(_) | PlanStage::Execute(_) | PlanStage::Apply(_) => {}
        }
    }
    facts
}

/// The facts, if nobody held the plan yet.
fn queued(facts: &DecisionFacts, now: plan::Timestamp) -> DecisionFacts {
    let mut facts = facts.clone();
    if let Some(plan) = facts.plan.as_mut().map(Arc::make_mut) {
        plan.stage = PlanStage::queued_since(plan.phase(), now);
    }
    facts
}

/// The decision, with its entries in another open changeset if there is one.
fn into_another(mut decision: Decision, facts: &DecisionFacts) -> Decision {
    for row in &mut decision.rows {
        if let RowWrite::PutEntry(right, _) = row {
            let wrong = facts.changesets.iter().find(|wrong| wrong.id != *right);
            *right = wrong.map_or(*right, |wrong| wrong.id);
        }
    }
    decision
}
