//! Reading: each call asks the store anew.

use plan::changeset::{Changeset, Entry};
use plan::decision::DecisionNode;
use plan::invariant::RuleBook;
use plan::{Action, Event, Name, Phase, Plan, PlanId, Recorded, Refusal, Span, Version, evolve};
use store::{Due, PlanFilter, PlanRow};

use crate::operations::gate_ahead;
use crate::{Call, Claim, Error, Lifecycle};

/// Events of one plan are read in pages of this size.
const PAGE: usize = 500;

impl Lifecycle {
    /// One plan with its lease and verdict.
    pub fn get_plan(&self, id: PlanId) -> Result<PlanRow, Error> {
        Ok(self.store.plan(id)?.ok_or(Refusal::NoSuchPlan(id))?)
    }

    /// A page of plans, newest first, older than `after`.
    pub fn list_plans(
        &self,
        filter: &PlanFilter,
        after: Option<PlanId>,
        limit: usize,
    ) -> Result<Vec<PlanRow>, Error> {
        Ok(self.store.plans(filter, after, limit)?)
    }

    /// One action.
    pub fn get_action(&self, name: &Name) -> Result<Action, Error> {
        Ok(self
            .store
            .action(name)?
            .ok_or_else(|| Refusal::NoSuchAction(name.clone()))?)
    }

    /// A page of actions by name.
    pub fn list_actions(&self, after: Option<&Name>, limit: usize) -> Result<Vec<Action>, Error> {
        Ok(self.store.actions(after, limit)?)
    }

    /// The rules of all scopes.
    pub fn list_rules(&self) -> Result<RuleBook, Error> {
        Ok(self.store.rules(&[])?)
    }

    /// The rules of the scopes that bear on a plan.
    pub fn rules_of(&self, plan: &Plan) -> Result<RuleBook, Error> {
        Ok(self.store.rules(&plan.scopes())?)
    }

    /// The rules that bear on a plan, those of its targets' own `planwright.yaml` included.
    pub fn rules_in_force(&self, plan: PlanId) -> Result<RuleBook, Error> {
        let plan = self.get_plan(plan)?.plan;
        let targets = self.targets_of(&plan, gate_ahead(&plan))?;
        Ok(self.rules_of(&plan)?.of_plan(&plan, &targets))
    }

    /// The changesets of a plan with their entries.
    pub fn changesets(&self, plan: PlanId) -> Result<Vec<(Changeset, Vec<Entry>)>, Error> {
        let changesets = self.store.changesets(plan)?;
        if changesets.is_empty() {
            // None of a plan is an answer; none because there is no plan is not.
            self.get_plan(plan)?;
        }
        Ok(changesets)
    }

    /// All events of a plan, in order.
    pub fn history(&self, plan: PlanId) -> Result<Vec<Recorded>, Error> {
        let mut history: Vec<Recorded> = Vec::new();
        loop {
            let after = history.last().map_or(Version(0), |last| last.version);
            let page = self.store.plan_events(plan, after, PAGE)?;
            let last = page.len() < PAGE;
            history.extend(page.into_iter().map(|stored| stored.recorded));
            if last {
                break;
            }
        }
        if history.is_empty() {
            // Every plan has at least the event that made it.
            return Err(Refusal::NoSuchPlan(plan).into());
        }
        Ok(history)
    }

    /// The plan as it was at a version.
    pub fn plan_at(&self, plan: PlanId, version: Version) -> Result<Option<Plan>, Error> {
        let mut past = None;
        for recorded in self
            .history(plan)?
            .iter()
            .take_while(|recorded| recorded.version <= version)
        {
            past = Some(
                evolve(past, recorded).map_err(|misfit| store::StoreError::Corrupt {
                    place: format!("plan {plan}"),
                    why: misfit.to_string(),
                })?,
            );
        }
        Ok(past)
    }

    /// The decision tree, in the order of its numbers.
    pub fn decisions(&self, plan: PlanId) -> Result<Vec<DecisionNode>, Error> {
        Ok(decisions_in(&self.history(plan)?))
    }

    /// Claims the plan of a phase that waited longest, if any is due. Of several callers each gets
    /// another one, or none.
    pub fn claim(
        &self,
        phase: Phase,
        owner: &str,
        lease: Span,
        call: &Call,
    ) -> Result<Option<Claim>, Error> {
        const CANDIDATES: usize = 32;
        let mut after = None;
        loop {
            let due = self.store.claimable(phase, after, CANDIDATES)?;
            let Some(last) = due.last().copied() else {
                return Ok(None);
            };
            for Due { plan, .. } in due {
                let claim = match phase {
                    Phase::Strategize => self.start_strategize(plan, owner, lease, call),
                    Phase::Execute => self.start_execute(plan, owner, lease, call),
                    Phase::Apply => self.start_apply(plan, owner, lease, call),
                };
                match claim {
                    Ok(claim) => return Ok(Some(claim)),
                    // Somebody was faster, a gate holds it, or it is for another host: try the next.
                    Err(
                        Error::Refused(_)
                        | Error::Blocked(_)
                        | Error::NoHands
                        | Error::WaitingForHost { .. },
                    ) => {}
                    Err(error) => return Err(error),
                }
            }
            after = Some(last);
        }
    }
}

/// The decision tree of a plan with these events.
pub(crate) fn decisions_in(history: &[Recorded]) -> Vec<DecisionNode> {
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
