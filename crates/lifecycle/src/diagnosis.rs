//! Explains why a plan does not move. Runs the same checks as the operations, but writes nothing.

use actors::Stop;
use plan::decide::{available_verbs, evaluate_gate, failed_advisory_rules};
use plan::invariant::Gate;
use plan::judgement::{FailedRule, RuleCounts};
use plan::ledger::BudgetShortfall;
use plan::project::{HostId, ProjectPause};
use plan::stage::{ApplyState, ConstraintKind, WorkState};
use plan::takeover::HolderLiveness;
use plan::{Phase, PlanId, PlanStage, QualifiedName, Refusal, Verb};
use store::PlanRow;

use crate::judge::{CheckDepth, GateSubject};
use crate::{Lifecycle, LifecycleError};

/// How many due plans are read to find a plan's place in the queue.
const MAX_PLANS_AHEAD: usize = 1000;

/// What a plan is waiting for.
#[derive(Debug, Clone)]
pub struct PlanDiagnosis {
    pub row: PlanRow,
    /// The gate before the next step, if there is one, judged by stored evidence.
    pub gate: Option<GateStatus>,
    /// What prevents a claim on this host.
    pub obstacle: Option<ClaimObstacle>,
    /// Set if no budget is left for a run.
    pub over_budget: Option<BudgetShortfall>,
    /// How many due plans come before it. Set only if the plan is queued.
    pub plans_ahead: Option<usize>,
    /// Whether the holder's process runs on this host. Set only if the plan is held.
    pub holder_liveness: Option<HolderLiveness>,
    /// The commands that are possible now, most useful first.
    pub options: Vec<Verb>,
}

/// Why a queued plan cannot be claimed on this host.
#[derive(Debug, Clone, PartialEq)]
pub enum ClaimObstacle {
    ProjectPaused {
        project: QualifiedName,
        paused: ProjectPause,
    },
    ProjectDeleted(QualifiedName),
    /// One of its resources is on this other host.
    Host(HostId),
}

/// The current state of a gate.
#[derive(Debug, Clone)]
pub struct GateStatus {
    pub gate: Gate,
    pub counts: RuleCounts,
    pub failed_rules: Vec<FailedRule>,
    /// Advisory rules that failed. They do not block.
    pub failed_advisories: Vec<FailedRule>,
}

impl Lifecycle {
    /// Finds out what a plan is waiting for. Read-only; runs no rule commands.
    pub fn diagnose_plan(&self, plan_id: PlanId) -> Result<PlanDiagnosis, LifecycleError> {
        let snapshot = self
            .store
            .read_snapshot(plan_id)?
            .ok_or(Refusal::NoSuchPlan(plan_id))?;
        let gate = match snapshot.row.plan.stage() {
            PlanStage::Strategize(WorkState::Queued(_)) => Some(Gate::Strategize),
            PlanStage::Strategize(WorkState::Complete) => Some(Gate::Execute),
            // The result alone passed the gate; the merged tree did not. The stored constraint has the reason.
            PlanStage::Apply(ApplyState::Constrained(constraint))
                if constraint.kind == ConstraintKind::Gate =>
            {
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
                let judgement = self.gates().judge_gate(
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
        let obstacle = self.leases().find_claim_obstacle(plan)?;
        let needs_actor = match plan.phase() {
            Phase::Execute => true,
            // If the goal is the strategy, no actor runs.
            Phase::Strategize => plan.strategy_wanted(),
            Phase::Apply => false,
        };
        let over_budget = match plan.stage().queue_entry() {
            Some(_) if needs_actor => {
                let actor = plan.actor_for_phase(plan.phase());
                let definition = actor.and_then(|actor| plan.actor_definition(actor));
                let metering = definition.map(actors::metering).unwrap_or_default();
                self.budgets().check_over_budget(plan, metering)?
            }
            Some(_) | None => None,
        };
        let plans_ahead = match plan.stage().queue_entry() {
            Some(_) => {
                let due = self
                    .store
                    .list_due_plans(plan.phase(), None, MAX_PLANS_AHEAD)?;
                due.iter().position(|one| one.plan_id == plan.id())
            }
            None => None,
        };
        let holder_liveness = self.leases().holder_liveness(&snapshot.row)?;
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
}
