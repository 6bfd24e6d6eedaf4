//! Signing a result as it shall arrive: looked at before, and only once.

use plan::how::Shape;
use plan::stage::ConstraintKind;
use plan::{Command, How, Plan, PlanId};
use sandbox::{Room, SandboxError};

use super::{LEASE, arrival, outcome_of};
use crate::{Call, Done, Error, Lifecycle};

impl Lifecycle {
    /// Takes a plan that waits to land back to where it can be signed in another way.
    pub(super) fn void_signature(
        &self,
        plan: PlanId,
        owner: &str,
        call: &Call,
    ) -> Result<(), Error> {
        let claim = self.start_apply(plan, owner, LEASE, call)?;
        let constrain = Command::Constrain {
            epoch: claim.epoch(),
            kind: ConstraintKind::ApprovalVoid,
            message: "it shall arrive in another way than it was signed for".to_owned(),
            paths: Vec::new(),
            commits: Vec::new(),
        };
        self.run(plan, constrain, call).map(drop)
    }

    /// Can the result arrive like this at all? Looked at before it is signed.
    pub(super) fn check_wish(&self, plan: &Plan, how: &How) -> Result<(), Error> {
        let workshop = &self.hands()?.workshop;
        let mut unmatched = None;
        let mut matched = how.paths.is_empty();
        for tree in plan.result.iter().flat_map(|result| &result.trees) {
            let site = self.site_named(plan, &tree.resource)?;
            let room = Room {
                plan: plan.id,
                site: &site,
            };
            workshop.check_arrival(&room, &arrival(how))?;
            if !how.paths.is_empty() && tree.changes != Some(0) {
                match workshop.restrict(&room, &outcome_of(tree)?, &how.paths) {
                    Ok(_) => matched = true,
                    Err(error @ SandboxError::NothingMatches { .. }) => unmatched = Some(error),
                    Err(error) => return Err(error.into()),
                }
            }
        }
        match unmatched {
            Some(error) if !matched => Err(error.into()),
            Some(_) | None => Ok(()),
        }
    }

    /// Can a result arrive like this? Asked before it is signed; of what lies on another host, the
    /// landing finds out.
    pub(crate) fn check_arrival(&self, plan: PlanId, how: &How) -> Result<(), Error> {
        let (Shape::Branch(_), Some(hands)) = (&how.shape, &self.hands) else {
            return Ok(());
        };
        let Some(row) = self.store.plan(plan)? else {
            return Ok(());
        };
        for resource in &row.plan.resources {
            if let Ok(site) = self.site(resource) {
                let room = Room { plan, site: &site };
                hands.workshop.check_arrival(&room, &arrival(how))?;
            }
        }
        Ok(())
    }

    /// Whoever asks again under the key it was landed with gets the same answer: the first step of
    /// landing bears it.
    pub(super) fn begun_before(&self, plan: PlanId, how: &How, call: &Call) -> Result<Done, Error> {
        let sign = Command::Approve { how: how.clone() };
        match self.run(plan, sign, call) {
            Err(Error::Refused(_)) => self.apply_plan(plan, call),
            other => other,
        }
    }

    /// Signs the result as it stands; `false` if it is signed like this already.
    pub(super) fn sign(&self, plan: &Plan, how: &How, call: &Call) -> Result<bool, Error> {
        let signed = plan.valid_approval();
        if !plan.has_targets() || signed.is_some_and(|approval| approval.how == *how) {
            return Ok(false);
        }
        self.approve(plan.id, how, call).map(|_| true)
    }
}
