//! Why a plan does not move: the real checks, asked without acting.

use actors::Stop;
use plan::decide::{advice, blocked_by, options};
use plan::invariant::Gate;
use plan::judgement::{Counts, FailedRule};
use plan::ledger::Over;
use plan::project::HostId;
use plan::stage::{ConstraintKind, Landing, Work};
use plan::takeover::Liveness;
use plan::{Phase, Plan, PlanId, Refusal, Stage, Verb};
use store::PlanRow;

use crate::judge::{Depth, Matter};
use crate::{Error, Lifecycle};

/// How far it is looked who is due before a plan.
const MOST_AHEAD: usize = 1000;

/// What stands between a plan and its next step.
#[derive(Debug, Clone)]
pub struct Why {
    /// The plan.
    pub row: PlanRow,
    /// The gate before its next step, if that has one: the rules as they judge it now.
    pub gate: Option<GateNow>,
    /// What keeps everybody here from working on it.
    pub obstacle: Option<Obstacle>,
    /// What leaves it nothing to work with.
    pub over: Option<Over>,
    /// How many plans are due before it, if it waits to be taken.
    pub ahead: Option<usize>,
    /// What is known here about the process that holds it.
    pub holder: Option<Liveness>,
    /// What can be done to it as it stands, most useful first.
    pub options: Vec<Verb>,
}

/// What keeps everybody on this host from working on a plan that waits.
#[derive(Debug, Clone, PartialEq)]
pub enum Obstacle {
    /// A project of it is paused, or gone.
    Project(Refusal),
    /// One of its resources lies on this host, and not here.
    Host(HostId),
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
    /// Those that do not either, and hold nothing up.
    pub advice: Vec<FailedRule>,
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
            // The result held; together with what its target has become it did not, and that is told.
            Stage::Apply(Landing::Constrained(of)) if of.kind == ConstraintKind::Gate => None,
            Stage::Execute(Work::Complete) | Stage::Apply(Landing::Constrained(_)) => {
                Some(Gate::Apply)
            }
            Stage::Strategize(_) | Stage::Execute(_) | Stage::Apply(_) => None,
        };
        let gate = match gate {
            None => None,
            Some(gate) => {
                let matter = match gate {
                    Gate::Strategize | Gate::Execute => Matter::Plan,
                    Gate::Result | Gate::Apply => Matter::Stored,
                };
                let judgement =
                    self.judge(&snapshot, gate, &matter, Depth::Look, &Stop::default())?;
                let (counts, failed) =
                    blocked_by(&snapshot.row.plan, &snapshot.rules, gate, &judgement)?;
                Some(GateNow {
                    gate,
                    counts,
                    failed,
                    advice: advice(&snapshot.row.plan, &snapshot.rules, gate, &judgement)?,
                })
            }
        };
        let plan = &snapshot.row.plan;
        let obstacle = self.obstacle(plan)?;
        let works = match plan.phase() {
            Phase::Execute => true,
            // A goal that is its own strategy takes nothing.
            Phase::Strategize => plan.strategy_wanted,
            Phase::Apply => false,
        };
        let over = match plan.stage.waiting() {
            Some(_) if works => {
                let actor = plan.actor_in(plan.phase());
                let definition = actor.and_then(|actor| plan.definition(actor));
                let metering = definition.map(actors::metering).unwrap_or_default();
                self.over_budget(plan, metering)?
            }
            Some(_) | None => None,
        };
        let ahead = match plan.stage.waiting() {
            Some(_) => {
                let due = self.store.due(plan.phase(), None, MOST_AHEAD)?;
                due.iter().position(|one| one.plan == plan.id)
            }
            None => None,
        };
        let holder = self.holder_liveness(&snapshot.row)?;
        Ok(Why {
            obstacle,
            over,
            ahead,
            holder,
            options: options(&snapshot.row.plan),
            row: snapshot.row,
            gate,
        })
    }

    /// What keeps everybody here from working on a plan, if it waits for somebody to do so.
    pub fn obstacle(&self, plan: &Plan) -> Result<Option<Obstacle>, Error> {
        if plan.stage.waiting().is_none() {
            return Ok(None);
        }
        // What is about to land has to be finished, whatever becomes of its project.
        let resources = plan.resources.iter().filter(|_| !plan.is_prepared());
        for resource in resources {
            let refusal = match self.store.project(&resource.project)? {
                None => Refusal::NoSuchProject(resource.project.clone()),
                Some(project) => match project.paused {
                    Some(paused) => Refusal::ProjectPaused {
                        project: project.name,
                        paused,
                    },
                    None => continue,
                },
            };
            return Ok(Some(Obstacle::Project(refusal)));
        }
        Ok(match self.check_reach(plan) {
            Err(Error::WaitingForHost { host, .. }) => Some(Obstacle::Host(host)),
            Err(_) | Ok(()) => None,
        })
    }
}
