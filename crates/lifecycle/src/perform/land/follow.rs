//! Waits for a landing that another process is doing, and reports its outcome to the caller.

use std::time::{Duration, Instant};

use plan::plan::PlanOrigin;
use plan::stage::{ApplyState, FailureCategory, StateName};
use plan::{
    CommandReceipt, LandingOptions, Phase, Plan, PlanId, PlanStage, ReceiptOutcome, Refusal, Verb,
};
use store::PlanFilter;

use super::LandingOutcome;
use super::approve::changed_trees;
use crate::{Call, EngineProgress, Landing, LifecycleError, OperationOutcome};

/// How long to wait for another process's landing. It may have slow rules to check.
const FOLLOW_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// How many plans are searched for the remainder of another.
const MAX_PLANS: usize = 1000;

/// A landing that the caller requested and another process may be doing.
pub(super) struct LandingFollower<'a> {
    pub plan_id: PlanId,
    /// The options that the caller requested.
    pub options: &'a LandingOptions,
    pub call: &'a Call,
    started_at: Instant,
    /// Progress is reported once.
    is_reported: bool,
}

impl<'a> LandingFollower<'a> {
    pub fn new(plan_id: PlanId, options: &'a LandingOptions, call: &'a Call) -> Self {
        Self {
            plan_id,
            options,
            call,
            started_at: Instant::now(),
            is_reported: false,
        }
    }
}

impl Landing<'_> {
    /// Waits until the other holder has finished. Returns nothing if the landing can be claimed now. Returns the
    /// refusal if the plan landed with other options than requested.
    pub(super) fn follow_landing(
        &self,
        follower: &mut LandingFollower<'_>,
        refusal: Refusal,
    ) -> Result<Option<LandingOutcome>, LifecycleError> {
        let stop = follower.call.stop.clone().unwrap_or_default();
        let mut commits = self.lifecycle.watch_commits()?;
        loop {
            let row = self.lifecycle.get_plan(follower.plan_id)?;
            let plan = &row.plan;
            let PlanStage::Apply(landing) = plan.stage() else {
                return Err(refusal.into());
            };
            let holder = match landing {
                ApplyState::Applied(_) => {
                    let approved_options = plan.approval().map(|approval| &approval.options);
                    if plan.has_targets() && approved_options != Some(follower.options) {
                        return Err(refusal.into());
                    }
                    return Ok(Some(LandingOutcome::Landed {
                        rest: self.find_rest(plan)?,
                        done: outcome_by_other(plan),
                        kept: Vec::new(),
                        followed: true,
                    }));
                }
                ApplyState::Constrained(_) => {
                    return Ok(Some(LandingOutcome::Constrained(outcome_by_other(plan))));
                }
                ApplyState::AwaitingInput(..) => {
                    return Ok(Some(LandingOutcome::NeedsAnswer(outcome_by_other(plan))));
                }
                ApplyState::Errored(failure)
                    if failure.category == FailureCategory::Lost
                        && self.retry_lost_landing(plan, follower.call)? =>
                {
                    continue;
                }
                ApplyState::Errored(_) | ApplyState::Cancelled(_) => {
                    return Ok(Some(LandingOutcome::NotLanded(outcome_by_other(plan))));
                }
                ApplyState::Queued(..) => return Ok(None),
                ApplyState::Processing(holder, _) => &holder.owner,
            };
            if follower.started_at.elapsed() >= FOLLOW_TIMEOUT {
                return Err(refusal.into());
            }
            if !follower.is_reported {
                self.lifecycle
                    .report_progress(plan, EngineProgress::FollowingLanding(holder));
                follower.is_reported = true;
            }
            if self.try_take_over(plan, follower.call)? {
                continue;
            }
            commits.wait_for_holder(&row, &stop, || Ok(()))?;
            if stop.is_requested() {
                return Err(LifecycleError::Stopped);
            }
        }
    }

    /// Takes a landing over from a dead holder. The request counts as a retry, even if the plan has used up its
    /// attempts.
    pub(super) fn take_over_landing(
        &self,
        plan_id: PlanId,
        call: &Call,
    ) -> Result<(), LifecycleError> {
        let reclaimed = self
            .lifecycle
            .leases()
            .reclaim_from_dead_holder(plan_id, call)?
            .plan;
        if let PlanStage::Apply(ApplyState::Errored(_)) = reclaimed.stage() {
            self.lifecycle
                .retry_phase(plan_id, false, None, &call.follow_up())?;
        }
        Ok(())
    }

    /// Retries a landing that another process reclaimed from a dead holder, if that used up the attempts. As in
    /// `take_over_landing`, the follower's request counts as a retry. Returns whether the plan changed: of several
    /// followers one retries, and the others go on from there.
    fn retry_lost_landing(&self, plan: &Plan, call: &Call) -> Result<bool, LifecycleError> {
        match self
            .lifecycle
            .retry_phase(plan.id(), false, None, &call.follow_up())
        {
            Ok(_) => Ok(true),
            Err(LifecycleError::Refused(_)) => {
                Ok(self.lifecycle.get_plan(plan.id())?.plan.version() != plan.version())
            }
            Err(error) => Err(error),
        }
    }

    fn try_take_over(&self, plan: &Plan, call: &Call) -> Result<bool, LifecycleError> {
        match self.take_over_landing(plan.id(), &call.follow_up()) {
            Ok(()) => Ok(true),
            Err(LifecycleError::Refused(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Finds the plan with the remainder of this one, if parts did not land.
    fn find_rest(&self, plan: &Plan) -> Result<Option<PlanId>, LifecycleError> {
        let changed = changed_trees(plan).count();
        let options = plan.approval().map(|approval| &approval.options);
        let is_partial = options.is_some_and(|options| !options.paths.is_empty());
        if !is_partial && plan.landed().len() >= changed {
            return Ok(None);
        }
        let filter = PlanFilter {
            phase: Some(Phase::Execute),
            state: Some(StateName::Complete),
            project: plan.resources().first().map(|one| one.project.clone()),
            ..PlanFilter::default()
        };
        let rows = self.lifecycle.store.list_plans(&filter, None, MAX_PLANS)?;
        let rest = rows
            .iter()
            .find(|row| row.plan.origin() == PlanOrigin::RestOf(plan.id()));
        Ok(rest.map(|row| row.plan.id()))
    }
}

/// The outcome for a caller that waited: the plan as the other holder left it.
fn outcome_by_other(plan: &Plan) -> OperationOutcome {
    let receipt = CommandReceipt {
        verb: Verb::ApplyPlan,
        outcome: ReceiptOutcome::Done,
        plan: Some(plan.id()),
        version: Some(plan.version()),
        epoch: None,
        changeset: None,
        grant: None,
        at: plan.updated_at(),
    };
    OperationOutcome {
        plan: plan.clone(),
        receipt,
        repeated: false,
    }
}

/// Does the refusal mean that another holder has the plan or has moved it on?
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

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use plan::stage::ResultContent;
    use plan::{Caller, Span};
    use store::MemoryStore;

    use super::*;
    use crate::Lifecycle;
    use crate::NextPhase;
    use crate::claim::tests::claim_new_plan;

    /// Guards against answering with a failure that another process recorded while the caller waited: the caller
    /// asked for this landing, so it is tried again.
    #[test]
    fn a_follower_retries_a_landing_whose_holders_died_too_often() {
        let lifecycle = Lifecycle::open(MemoryStore::new());
        let minute = Span::from_seconds(60);
        let claim = claim_new_plan(&lifecycle, minute);
        let plan_id = claim.plan().id();
        let ada = Call::by(Caller::Person("ada".to_owned()));
        let Ok(NextPhase::Claimed(claim)) =
            claim.complete_strategize_and_continue(Vec::new(), minute)
        else {
            panic!("execute was not claimed");
        };
        claim.complete_execute(&ResultContent::default()).unwrap();
        lifecycle.apply_plan(plan_id, &ada).unwrap();
        for _ in 0..lifecycle.get_plan(plan_id).unwrap().plan.limits().attempts {
            let epoch = lifecycle
                .claims()
                .start_apply(plan_id, "gone", minute, &ada)
                .unwrap()
                .epoch();
            lifecycle
                .leases()
                .reclaim_own_lease(plan_id, epoch, &ada)
                .unwrap();
        }
        let row = lifecycle.get_plan(plan_id).unwrap();
        assert_eq!(row.plan.stage().to_string(), "apply/errored");
        let options = LandingOptions::default();
        let mut follower = LandingFollower::new(plan_id, &options, &ada);
        let followed = lifecycle
            .landing()
            .follow_landing(&mut follower, Refusal::NeedsApproval);
        assert!(matches!(followed, Ok(None)), "{followed:?}");
        let row = lifecycle.get_plan(plan_id).unwrap();
        assert_eq!(row.plan.stage().to_string(), "apply/queued");
    }
}
