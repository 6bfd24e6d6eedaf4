//! Why a plan does not move: the real checks, asked without acting.

use actors::Stop;
use plan::decide::{available_verbs, evaluate_gate, failed_advisory_rules};
use plan::invariant::Gate;
use plan::judgement::{FailedRule, RuleCounts};
use plan::ledger::BudgetShortfall;
use plan::project::HostId;
use plan::stage::{ApplyState, ConstraintKind, WorkState};
use plan::takeover::HolderLiveness;
use plan::{Phase, Plan, PlanId, PlanStage, Refusal, Verb};
use store::PlanRow;

use crate::judge::{CheckDepth, GateSubject};
use crate::{Lifecycle, LifecycleError};

/// How far it is looked who is due before a plan.
const MAX_PLANS_AHEAD: usize = 1000;

/// What stands between a plan and its next step.
#[derive(Debug, Clone)]
pub struct PlanDiagnosis {
    /// The plan.
    pub row: PlanRow,
    /// The gate before its next step, if that has one: the rules as they judge it now.
    pub gate: Option<GateStatus>,
    /// What keeps everybody here from working on it.
    pub obstacle: Option<ClaimObstacle>,
    /// What leaves it nothing to work with.
    pub over_budget: Option<BudgetShortfall>,
    /// How many plans are due before it, if it waits to be taken.
    pub plans_ahead: Option<usize>,
    /// What is known here about the process that holds it.
    pub holder_liveness: Option<HolderLiveness>,
    /// What can be done to it as it stands, most useful first.
    pub options: Vec<Verb>,
}

/// What keeps everybody on this host from working on a plan that waits.
#[derive(Debug, Clone, PartialEq)]
pub enum ClaimObstacle {
    /// A project of it is paused, or gone.
    Project(Refusal),
    /// One of its resources lies on this host, and not here.
    Host(HostId),
}

/// A gate as it is at this moment.
#[derive(Debug, Clone)]
pub struct GateStatus {
    /// Which.
    pub gate: Gate,
    /// How many rules hold.
    pub counts: RuleCounts,
    /// Those that do not.
    pub failed_rules: Vec<FailedRule>,
    /// Those that do not either, and hold nothing up.
    pub failed_advisories: Vec<FailedRule>,
}

impl Lifecycle {
    /// Looks at what a plan waits for. Writes nothing.
    pub fn diagnose_plan(&self, plan_id: PlanId) -> Result<PlanDiagnosis, LifecycleError> {
        let snapshot = self
            .store
            .read_snapshot(plan_id)?
            .ok_or(Refusal::NoSuchPlan(plan_id))?;
        let gate = match &snapshot.row.plan.stage {
            PlanStage::Strategize(WorkState::Queued(_)) => Some(Gate::Strategize),
            PlanStage::Strategize(WorkState::Complete) => Some(Gate::Execute),
            // The result held; together with what its target has become it did not, and that is told.
            PlanStage::Apply(ApplyState::Constrained(of)) if of.kind == ConstraintKind::Gate => {
                None
            }
            PlanStage::Execute(WorkState::Complete)
            | PlanStage::Apply(ApplyState::Constrained(_)) => Some(Gate::Apply),
            PlanStage::Strategize(_) | PlanStage::Execute(_) | PlanStage::Apply(_) => None,
        };
        let gate = match gate {
            None => None,
            Some(gate) => {
                let gate_subject = match gate {
                    Gate::Strategize | Gate::Execute => GateSubject::Plan,
                    Gate::Result | Gate::Apply => GateSubject::StoredResult,
                };
                let judgement = self.judge_gate(
                    &snapshot,
                    gate,
                    &gate_subject,
                    CheckDepth::StoredEvidence,
                    &Stop::default(),
                )?;
                let (counts, failed_rules) =
                    evaluate_gate(&snapshot.row.plan, &snapshot.rules, gate, &judgement)?;
                Some(GateStatus {
                    gate,
                    counts,
                    failed_rules,
                    failed_advisories: failed_advisory_rules(
                        &snapshot.row.plan,
                        &snapshot.rules,
                        gate,
                        &judgement,
                    )?,
                })
            }
        };
        let plan = &snapshot.row.plan;
        let obstacle = self.find_claim_obstacle(plan)?;
        let needs_actor = match plan.phase() {
            Phase::Execute => true,
            // A goal that is its own strategy takes nothing.
            Phase::Strategize => plan.strategy_wanted,
            Phase::Apply => false,
        };
        let over_budget = match plan.stage.queue_entry() {
            Some(_) if needs_actor => {
                let actor = plan.actor_for_phase(plan.phase());
                let definition = actor.and_then(|actor| plan.actor_definition(actor));
                let metering = definition.map(actors::metering).unwrap_or_default();
                self.check_over_budget(plan, metering)?
            }
            Some(_) | None => None,
        };
        let plans_ahead = match plan.stage.queue_entry() {
            Some(_) => {
                let due = self
                    .store
                    .list_due_plans(plan.phase(), None, MAX_PLANS_AHEAD)?;
                due.iter().position(|one| one.plan_id == plan.id)
            }
            None => None,
        };
        let holder_liveness = self.holder_liveness(&snapshot.row)?;
        Ok(PlanDiagnosis {
            obstacle,
            over_budget,
            plans_ahead,
            holder_liveness,
            options: available_verbs(&snapshot.row.plan),
            row: snapshot.row,
            gate,
        })
    }

    /// What keeps everybody here from working on a plan, if it waits for somebody to do so.
    pub fn find_claim_obstacle(
        &self,
        plan: &Plan,
    ) -> Result<Option<ClaimObstacle>, LifecycleError> {
        if plan.stage.queue_entry().is_none() {
            return Ok(None);
        }
        // What is about to land has to be finished, whatever becomes of its project.
        let resources = plan.resources.iter().filter(|_| !plan.is_prepared());
        for resource in resources {
            let refusal = match self.store.read_project(&resource.project)? {
                None => Refusal::NoSuchProject(resource.project.clone()),
                Some(project) => match project.paused {
                    Some(paused) => Refusal::ProjectPaused {
                        project: project.name,
                        paused,
                    },
                    None => continue,
                },
            };
            return Ok(Some(ClaimObstacle::Project(refusal)));
        }
        Ok(match self.check_resources_reachable(plan) {
            Err(LifecycleError::WaitingForHost { host, .. }) => Some(ClaimObstacle::Host(host)),
            Err(_) | Ok(()) => None,
        })
    }
}
