//! Reading: each call asks the store anew.

use plan::changeset::{Changeset, ChangesetEntry};
use plan::decision::DecisionNode;
use plan::invariant::RuleBook;
use plan::{
    Action, Event, Phase, Plan, PlanId, PlanVersion, QualifiedName, RecordedEvent, Refusal, Span,
    evolve,
};
use store::{DuePlan, PlanFilter, PlanRow};

use crate::operations::next_gate;
use crate::{Call, Claim, Lifecycle, LifecycleError};

/// Events of one plan are read in pages of this size.
const EVENT_PAGE_SIZE: usize = 500;

impl Lifecycle {
    /// One plan with its lease and verdict.
    pub fn get_plan(&self, plan_id: PlanId) -> Result<PlanRow, LifecycleError> {
        Ok(self
            .store
            .read_plan(plan_id)?
            .ok_or(Refusal::NoSuchPlan(plan_id))?)
    }

    /// A page of plans, newest first, older than `after`.
    pub fn list_plans(
        &self,
        filter: &PlanFilter,
        after: Option<PlanId>,
        limit: usize,
    ) -> Result<Vec<PlanRow>, LifecycleError> {
        Ok(self.store.list_plans(filter, after, limit)?)
    }

    /// One action.
    pub fn get_action(&self, name: &QualifiedName) -> Result<Action, LifecycleError> {
        Ok(self
            .store
            .read_action(name)?
            .ok_or_else(|| Refusal::NoSuchAction(name.clone()))?)
    }

    /// A page of actions by name.
    pub fn list_actions(
        &self,
        after: Option<&QualifiedName>,
        limit: usize,
    ) -> Result<Vec<Action>, LifecycleError> {
        Ok(self.store.list_actions(after, limit)?)
    }

    /// The rules of all scopes.
    pub fn list_rules(&self) -> Result<RuleBook, LifecycleError> {
        Ok(self.store.read_rules(&[])?)
    }

    /// The rules of the scopes that bear on a plan.
    pub fn rules_for_plan(&self, plan: &Plan) -> Result<RuleBook, LifecycleError> {
        Ok(self.store.read_rules(&plan.rule_scopes())?)
    }

    /// The rules that bear on a plan, those of its targets' own `planwright.yaml` included.
    pub fn effective_rules(&self, plan_id: PlanId) -> Result<RuleBook, LifecycleError> {
        let plan = self.get_plan(plan_id)?.plan;
        let targets = self.read_targets(&plan, next_gate(&plan))?;
        Ok(self.rules_for_plan(&plan)?.with_plan_rules(&plan, &targets))
    }

    /// The changesets of a plan with their entries.
    pub fn list_changesets(
        &self,
        plan_id: PlanId,
    ) -> Result<Vec<(Changeset, Vec<ChangesetEntry>)>, LifecycleError> {
        let changesets = self.store.list_changesets(plan_id)?;
        if changesets.is_empty() {
            // None of a plan is an answer; none because there is no plan is not.
            self.get_plan(plan_id)?;
        }
        Ok(changesets)
    }

    /// All events of a plan, in order.
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
            // Every plan has at least the event that made it.
            return Err(Refusal::NoSuchPlan(plan_id).into());
        }
        Ok(history)
    }

    /// The plan as it was at a version.
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

    /// The decision tree, in the order of its numbers.
    pub fn read_decisions(&self, plan_id: PlanId) -> Result<Vec<DecisionNode>, LifecycleError> {
        Ok(collect_decisions(&self.read_history(plan_id)?))
    }

    /// Claims the plan of a phase that waited longest, if any is due. Of several callers each gets
    /// another one, or none.
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
            for DuePlan { plan_id: plan, .. } in due {
                let claim = match phase {
                    Phase::Strategize => self.start_strategize(plan, owner, lease, call),
                    Phase::Execute => self.start_execute(plan, owner, lease, call),
                    Phase::Apply => self.start_apply(plan, owner, lease, call),
                };
                match claim {
                    Ok(claim) => return Ok(Some(claim)),
                    // Somebody was faster, a gate holds it, or it is for another host: try the next.
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

/// The decision tree of a plan with these events.
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
