//! Following a landing that somebody else does: whoever asked for it learns what came of it.

use std::time::{Duration, Instant};

use actors::Stop;
use plan::plan::Origin;
use plan::stage::{Landing, StateName};
use plan::{How, Outcome, Phase, Plan, PlanId, Receipt, Refusal, Stage, Verb};
use store::PlanFilter;

use super::Driven;
use super::sign::changed_trees;
use crate::{Aside, Call, Done, Error, Lifecycle};

/// Longest time that a landing of somebody else is followed; it may have slow rules to check.
const FOLLOW_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// How long a commit is waited for before looking anew: nobody commits that a holder is gone.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// How many plans are looked at for the rest of another.
const MAX_PLANS: usize = 1000;

/// A landing that the caller asked for, and that somebody else may have.
pub(super) struct Follow<'a> {
    pub plan: PlanId,
    /// How the caller wants it to arrive.
    pub how: &'a How,
    pub call: &'a Call,
    began: Instant,
    is_told: bool,
}

impl<'a> Follow<'a> {
    pub fn new(plan: PlanId, how: &'a How, call: &'a Call) -> Self {
        Self {
            plan,
            how,
            call,
            began: Instant::now(),
            is_told: false,
        }
    }
}

impl Lifecycle {
    /// Waits until whoever has a landing is done with it; nothing if it can be claimed now. Where it did not come to what was asked
    /// for, the refusal stands.
    pub(super) fn follow(
        &self,
        follow: &mut Follow<'_>,
        refusal: Refusal,
    ) -> Result<Option<Driven>, Error> {
        let stop = follow.call.stop.clone().unwrap_or_default();
        loop {
            let plan = self.get_plan(follow.plan)?.plan;
            let Stage::Apply(landing) = &plan.stage else {
                return Err(refusal.into());
            };
            let holder = match landing {
                Landing::Applied(_) => {
                    let as_asked = plan.approval.as_ref().map(|approval| &approval.how);
                    if plan.has_targets() && as_asked != Some(follow.how) {
                        return Err(refusal.into());
                    }
                    return Ok(Some(Driven::Landed {
                        rest: self.find_rest(&plan)?,
                        done: outcome(plan),
                        kept: Vec::new(),
                        followed: true,
                    }));
                }
                Landing::Constrained(_) => {
                    return Ok(Some(Driven::Constrained(outcome(plan))));
                }
                Landing::AwaitingInput(..) => {
                    return Ok(Some(Driven::Asks(outcome(plan))));
                }
                Landing::Errored(_) | Landing::Cancelled(_) => {
                    return Ok(Some(Driven::NotLanded(outcome(plan))));
                }
                Landing::Queued(..) => return Ok(None),
                Landing::Processing(holder, _) => &holder.owner,
            };
            if follow.began.elapsed() >= FOLLOW_TIMEOUT {
                return Err(refusal.into());
            }
            if !follow.is_told {
                self.tell(&plan, Aside::Follows(holder));
                follow.is_told = true;
            }
            if self.is_taken_over(&plan, follow.call)? {
                continue;
            }
            self.wait_for_commit(&stop)?;
        }
    }

    /// Takes a landing from a holder that is gone. Whoever asks for it now asks for another try, also where the lost
    /// tries were as many as the plan may have.
    pub(super) fn take_over_landing(&self, plan: PlanId, call: &Call) -> Result<(), Error> {
        let reclaimed = self.reclaim_from_the_gone(plan, call)?.plan;
        if let Stage::Apply(Landing::Errored(_)) = reclaimed.stage {
            self.retry(plan, false, None, &call.follow_up())?;
        }
        Ok(())
    }

    fn is_taken_over(&self, plan: &Plan, call: &Call) -> Result<bool, Error> {
        match self.take_over_landing(plan.id, &call.follow_up()) {
            Ok(()) => Ok(true),
            Err(Error::Refused(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn wait_for_commit(&self, stop: &Stop) -> Result<(), Error> {
        self.store.wait(POLL_INTERVAL)?;
        match stop.is_asked() {
            true => Err(Error::Stopped),
            false => Ok(()),
        }
    }

    /// The plan that took on what did not land of this one.
    fn find_rest(&self, plan: &Plan) -> Result<Option<PlanId>, Error> {
        let changed = changed_trees(plan).count();
        let how = plan.approval.as_ref().map(|approval| &approval.how);
        let partly = how.is_some_and(|how| !how.paths.is_empty());
        if !partly && plan.landed.len() >= changed {
            return Ok(None);
        }
        let filter = PlanFilter {
            phase: Some(Phase::Execute),
            state: Some(StateName::Complete),
            project: plan.resources.first().map(|one| one.project.clone()),
            ..PlanFilter::default()
        };
        let rows = self.store.plans(&filter, None, MAX_PLANS)?;
        let rest = rows
            .iter()
            .find(|row| row.plan.origin == Origin::RestOf(plan.id));
        Ok(rest.map(|row| row.plan.id))
    }
}

/// A plan as somebody else left it.
fn outcome(plan: Plan) -> Done {
    let receipt = Receipt {
        verb: Verb::ApplyPlan,
        outcome: Outcome::Done,
        plan: Some(plan.id),
        version: Some(plan.version),
        epoch: None,
        changeset: None,
        grant: None,
        at: plan.updated_at,
    };
    Done {
        plan,
        receipt,
        repeated: false,
    }
}

/// Did somebody else have the plan, or move it on?
pub(super) fn is_overtaken(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::Held { .. }
            | Refusal::LeaseRuns { .. }
            | Refusal::WrongState { .. }
            | Refusal::Fenced { .. }
            | Refusal::Final { .. }
    )
}
