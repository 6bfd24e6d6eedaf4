//! Queries. Each call reads from the store; nothing is cached.

use std::collections::BTreeMap;

use plan::changeset::{Changeset, ChangesetEntry};
use plan::completion::CompletedCommand;
use plan::decision::DecisionNode;
use plan::{
    Action, Event, Phase, Plan, PlanId, PlanVersion, QualifiedName, RecordedEvent, Refusal, Span,
    Verb, evolve,
};
use store::{DuePlan, PlanFilter, PlanRow};

use crate::{Call, Claim, Lifecycle, LifecycleError};

const EVENT_PAGE_SIZE: usize = 500;

impl Lifecycle {
    /// Returns a plan with its lease and its latest gate verdict.
    pub fn get_plan(&self, plan_id: PlanId) -> Result<PlanRow, LifecycleError> {
        Ok(self
            .store
            .read_plan(plan_id)?
            .ok_or(Refusal::NoSuchPlan(plan_id))?)
    }

    /// Returns a page of plans older than `after`, newest first.
    pub fn list_plans(
        &self,
        filter: &PlanFilter,
        after: Option<PlanId>,
        limit: usize,
    ) -> Result<Vec<PlanRow>, LifecycleError> {
        Ok(self.store.list_plans(filter, after, limit)?)
    }

    /// Returns the last completion of every verb of a plan, from its log.
    pub fn read_completions(
        &self,
        plan_id: PlanId,
    ) -> Result<BTreeMap<Verb, CompletedCommand>, LifecycleError> {
        Ok(self.store.read_completions(plan_id)?)
    }

    pub fn get_action(&self, name: &QualifiedName) -> Result<Action, LifecycleError> {
        Ok(self
            .store
            .read_action(name)?
            .ok_or_else(|| Refusal::NoSuchAction(name.clone()))?)
    }

    /// Returns a page of actions, ordered by name.
    pub fn list_actions(
        &self,
        after: Option<&QualifiedName>,
        limit: usize,
    ) -> Result<Vec<Action>, LifecycleError> {
        Ok(self.store.list_actions(after, limit)?)
    }

    pub fn list_changesets(
        &self,
        plan_id: PlanId,
    ) -> Result<Vec<(Changeset, Vec<ChangesetEntry>)>, LifecycleError> {
        let changesets = self.store.list_changesets(plan_id)?;
        if changesets.is_empty() {
            // Distinguishes "no changesets" from "no such plan".
            self.get_plan(plan_id)?;
        }
        Ok(changesets)
    }

    /// Returns all events of a plan, oldest first.
    pub fn read_history(&self, plan_id: PlanId) -> Result<Vec<RecordedEvent>, LifecycleError> {
        let mut history: Vec<RecordedEvent> = Vec::new();
        loop {
            let after = history.last().map_or(PlanVersion(0), |last| last.version);
            let page = self
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

    /// Claims the plan that has waited longest in a phase, if one is due. Concurrent callers never get the
    /// same plan.
    pub fn claim(
        &self,
        phase: Phase,
        owner: &str,
        lease: Span,
        call: &Call,
    ) -> Result<Option<Claim>, LifecycleError> {
        const CANDIDATE_PAGE_SIZE: usize = 32;
        let mut after = None;
        loop {
            let due = self
                .store
                .list_claimable_plans(phase, after, CANDIDATE_PAGE_SIZE)?;
            let Some(last) = due.last().copied() else {
                return Ok(None);
            };
            for DuePlan { plan_id, .. } in due {
                let claim = match phase {
                    Phase::Strategize => self.start_strategize(plan_id, owner, lease, call),
                    Phase::Execute => self.start_execute(plan_id, owner, lease, call),
                    Phase::Apply => self.start_apply(plan_id, owner, lease, call),
                };
                match claim {
                    Ok(claim) => return Ok(Some(claim)),
                    // Another caller was faster, a gate blocks it, or it is on another host: try the next.
                    Err(
                        LifecycleError::Refused(_)
                        | LifecycleError::Blocked(_)
                        | LifecycleError::NoLocalHost
                        | LifecycleError::WaitingForHost { .. },
                    ) => {}
                    Err(error) => return Err(error),
                }
            }
            after = Some(last);
        }
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
