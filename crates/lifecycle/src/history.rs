//! What happened to a plan, from its log.

use std::collections::BTreeMap;

use plan::changeset::{Changeset, ChangesetEntry};
use plan::completion::CompletedCommand;
use plan::decision::DecisionNode;
use plan::{Event, Plan, PlanId, PlanVersion, RecordedEvent, Refusal, Verb, evolve};

use crate::results::collect_results;
use crate::{Lifecycle, LifecycleError, NumberedResult};

const EVENT_PAGE_SIZE: usize = 500;

/// Plans as they were, and what was done to them.
#[derive(Clone, Copy)]
pub struct PlanHistory<'a> {
    lifecycle: &'a Lifecycle,
}

impl Lifecycle {
    pub fn history(&self) -> PlanHistory<'_> {
        PlanHistory { lifecycle: self }
    }
}

impl PlanHistory<'_> {
    pub fn list_changesets(
        &self,
        plan_id: PlanId,
    ) -> Result<Vec<(Changeset, Vec<ChangesetEntry>)>, LifecycleError> {
        let changesets = self.lifecycle.store.list_changesets(plan_id)?;
        if changesets.is_empty() {
            // Distinguishes "no changesets" from "no such plan".
            self.lifecycle.get_plan(plan_id)?;
        }
        Ok(changesets)
    }

    /// Returns the last completion of every verb of a plan, from its log.
    pub fn read_completions(
        &self,
        plan_id: PlanId,
    ) -> Result<BTreeMap<Verb, CompletedCommand>, LifecycleError> {
        Ok(self.lifecycle.store.read_completions(plan_id)?)
    }

    /// Returns all events of a plan, oldest first.
    pub fn read_history(&self, plan_id: PlanId) -> Result<Vec<RecordedEvent>, LifecycleError> {
        let mut history: Vec<RecordedEvent> = Vec::new();
        loop {
            let after = history.last().map_or(PlanVersion(0), |last| last.version);
            let page = self
                .lifecycle
                .store
                .read_plan_events(plan_id, after, EVENT_PAGE_SIZE)?;
            let is_last_page = page.len() < EVENT_PAGE_SIZE;
            history.extend(page.into_iter().map(|stored| stored.recorded));
            if is_last_page {
                break;
            }
        }
        if history.is_empty() {
            // Every plan has at least its `created` event.
            return Err(Refusal::NoSuchPlan(plan_id).into());
        }
        Ok(history)
    }

    /// Rebuilds the plan as it was at a version, from its events.
    pub fn plan_at_version(
        &self,
        plan_id: PlanId,
        version: PlanVersion,
    ) -> Result<Option<Plan>, LifecycleError> {
        let mut past = None;
        for recorded in self
            .lifecycle
            .history()
            .read_history(plan_id)?
            .iter()
            .take_while(|recorded| recorded.version <= version)
        {
            past = Some(
                evolve(past, recorded).map_err(|misfit| store::StoreError::Corrupt {
                    place: format!("plan {plan_id}"),
                    why: misfit.to_string(),
                })?,
            );
        }
        Ok(past)
    }

    /// Returns the nodes of the decision tree, in the order of their numbers.
    pub fn read_decisions(&self, plan_id: PlanId) -> Result<Vec<DecisionNode>, LifecycleError> {
        Ok(collect_decisions(&self.read_history(plan_id)?))
    }

    /// Returns all results of a plan, oldest first, including those that were discarded later.
    pub fn list_results(&self, plan_id: PlanId) -> Result<Vec<NumberedResult>, LifecycleError> {
        Ok(collect_results(&self.read_history(plan_id)?))
    }
}

/// Collects the decision tree from a plan's events.
pub(crate) fn collect_decisions(history: &[RecordedEvent]) -> Vec<DecisionNode> {
    let mut nodes = Vec::new();
    for recorded in history {
        if let Event::DecisionsRecorded { decisions } | Event::GateHeld { decisions, .. } =
            &recorded.event
        {
            nodes.extend_from_slice(decisions);
        }
    }
    nodes
}
