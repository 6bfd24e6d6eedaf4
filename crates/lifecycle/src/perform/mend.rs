//! Finishing what crashes left. May be repeated: what is finished is not found again.

use plan::stage::{Landing, StateName};
use plan::takeover::Liveness;
use plan::{Phase, Plan, PlanId, Span, Stage, Timestamp};
use store::{PlanFilter, PlanRow};

use super::Driven;
use crate::{Call, Error, Lifecycle};

/// How many plans are looked at for things to mend.
const MOST: usize = 1000;

/// Something a crash left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mendable {
    /// A landing past the point of no return whose holder is gone.
    Landing(PlanId),
    /// A plan that landed and still has sandboxes or pins.
    Remains(PlanId),
}

impl Lifecycle {
    /// What crashes left on this host. Only looks.
    pub fn mendable(&self) -> Result<Vec<Mendable>, Error> {
        self.hands()?;
        let now = self.store.now()?;
        let mut found = Vec::new();
        for state in [StateName::Queued, StateName::Processing] {
            let filter = PlanFilter {
                phase: Some(Phase::Apply),
                state: Some(state),
                ..PlanFilter::default()
            };
            for row in self.store.plans(&filter, None, MOST)? {
                let gone = match row.plan.stage.holder() {
                    Some(_) => self.is_left_here(&row, now)?,
                    None => true,
                };
                if row.plan.is_prepared() && row.plan.has_targets() && gone {
                    found.push(Mendable::Landing(row.plan.id));
                }
            }
        }
        for plan in self.sandboxes()? {
            let landed = |plan: &Plan| matches!(plan.stage, Stage::Apply(Landing::Applied(_)));
            let row = self.store.plan(plan)?;
            if row.is_some_and(|row| landed(&row.plan)) {
                found.push(Mendable::Remains(plan));
            }
        }
        Ok(found)
    }

    /// Did its holder end without giving it back, and can it be gone on with from here?
    fn is_left_here(&self, row: &PlanRow, now: Timestamp) -> Result<bool, Error> {
        let ended = self.holder_liveness(row)? == Some(Liveness::Ended);
        Ok(ended || self.is_abandoned(row, now)? && self.check_reach(&row.plan).is_ok())
    }

    /// Finishes one thing; of a landing, what came of it.
    pub fn mend(&self, what: &Mendable, owner: &str, call: &Call) -> Result<Option<Driven>, Error> {
        match what {
            Mendable::Landing(plan) => {
                let row = self.get_plan(*plan)?;
                if row.plan.stage.holder().is_some() {
                    self.reclaim_from_the_gone(*plan, call)?;
                }
                let claim = self.start_apply(*plan, owner, Span::seconds(60), call)?;
                self.drive_apply(&claim).map(Some)
            }
            Mendable::Remains(plan) => {
                let plan = self.get_plan(*plan)?.plan;
                self.tidy(&plan)?;
                Ok(None)
            }
        }
    }
}
