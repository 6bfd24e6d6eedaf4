//! Why a plan does not move: the real checks, asked without acting.

use plan::decide::{blocked_by, options};
use plan::invariant::Gate;
use plan::judgement::{Counts, FailedRule};
use plan::stage::Work;
use plan::{PlanId, Refusal, Stage, Verb};
use store::PlanRow;

use crate::judge::judge;
use crate::{Error, Lifecycle};

/// What stands between a plan and its next step.
#[derive(Debug, Clone)]
pub struct Why {
    /// The plan.
    pub row: PlanRow,
    /// The gate before its next step, if that has one: the rules as they judge it now.
    pub gate: Option<GateNow>,
    /// What can be done to it as it stands, most useful first.
    pub options: Vec<Verb>,
}

/// A gate as it is at this moment.
#[derive(Debug, Clone)]
pub struct GateNow {
    /// Which.
    pub gate: Gate,
    /// How many rules hold.
    pub counts: Counts,
    /// Those that do not.
    pub failed: Vec<FailedRule>,
}

impl Lifecycle {
    /// Looks at what a plan waits for. Writes nothing.
    pub fn why(&self, plan: PlanId) -> Result<Why, Error> {
        let snapshot = self
            .store
            .snapshot(plan)?
            .ok_or(Refusal::NoSuchPlan(plan))?;
        let gate = match &snapshot.row.plan.stage {
            Stage::Strategize(Work::Queued(_)) => Some(Gate::Strategize),
            Stage::Strategize(Work::Complete) => Some(Gate::Execute),
            Stage::Execute(Work::Complete) => Some(Gate::Apply),
            Stage::Strategize(_) | Stage::Execute(_) | Stage::Apply(_) => None,
        };
        let gate = match gate {
            None => None,
            Some(gate) => {
                let judgement = judge(&snapshot, gate);
                let (counts, failed) =
                    blocked_by(&snapshot.row.plan, &snapshot.rules, gate, &judgement)?;
                Some(GateNow {
                    gate,
                    counts,
                    failed,
                })
            }
        };
        Ok(Why {
            options: options(&snapshot.row.plan),
            row: snapshot.row,
            gate,
        })
    }
}
