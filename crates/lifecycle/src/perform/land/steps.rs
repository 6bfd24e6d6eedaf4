//! Landing step by step, for scripts. Each step may be repeated like the whole.

use plan::{Epoch, PlanId, Refusal};
use sandbox::Room;
use sandbox::land::Seen;

use super::{Driven, landed, proposal_of};
use crate::{Call, Done, Error, Lifecycle};

/// What one step of a landing came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Stepped {
    /// It was done; the landing goes on.
    Done(Done),
    /// The targets moved: the intent was withdrawn, and a new one is to be prepared.
    Withdrawn,
    /// The landing has ended.
    Ended(Driven),
}

impl Lifecycle {
    /// One step of a landing: merges, looks for obstacles and stores the intent; or says why not.
    pub fn prepare_landing(
        &self,
        plan: PlanId,
        epoch: Epoch,
        call: &Call,
    ) -> Result<Stepped, Error> {
        let row = self.get_plan(plan)?;
        if !row.plan.has_targets() || !row.plan.is_held_by(epoch) || row.plan.is_prepared() {
            // Nothing to merge, or for the decision to refuse.
            let done = self.prepare_apply(plan, epoch, &[], call)?;
            return Ok(Stepped::Done(done));
        }
        self.propose(&row, epoch, call)
    }

    /// One step of a landing: brings in what the intent says.
    pub fn complete_landing(
        &self,
        plan: PlanId,
        epoch: Epoch,
        call: &Call,
    ) -> Result<Stepped, Error> {
        let row = self.get_plan(plan)?;
        let intent = row.plan.stage.intent().cloned();
        let intent = intent.filter(|intent| row.plan.is_held_by(epoch) && intent.vouched.is_none());
        let driven = match intent {
            Some(intent) if !intent.moves.is_empty() => {
                self.bring_in(&row.plan, epoch, &intent, call)?
            }
            Some(_) | None => {
                let done = self.complete_apply(plan, epoch, Vec::new(), None, call)?;
                Stepped::Ended(landed(done, Vec::new(), None))
            }
        };
        if let Stepped::Ended(Driven::Landed { done, .. }) = &driven {
            self.after_landing(&done.plan);
        }
        Ok(driven)
    }

    /// One step of a landing: takes the intent back, after looking that no target has or ever had it.
    pub fn withdraw_landing(&self, plan: PlanId, epoch: Epoch, call: &Call) -> Result<Done, Error> {
        let row = self.get_plan(plan)?;
        let intent = row
            .plan
            .stage
            .intent()
            .filter(|_| row.plan.is_held_by(epoch));
        for step in intent
            .map(|intent| intent.moves.as_slice())
            .unwrap_or_default()
        {
            let site = self.site_named(&row.plan, &step.resource)?;
            let room = Room { plan, site: &site };
            let proposal = proposal_of(step)?;
            let workshop = &self.hands()?.workshop;
            match workshop.observe(&room, &proposal)? {
                Seen::Untouched | Seen::Moved => workshop.settle(&room, &proposal)?,
                Seen::Landed | Seen::Removed => {
                    return Err(Refusal::PointOfNoReturn {
                        verb: plan::Verb::WithdrawApply,
                    }
                    .into());
                }
            }
        }
        self.withdraw_apply(plan, epoch, call)
    }
}
