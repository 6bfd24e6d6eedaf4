//! Signing a result as it shall arrive: looked at before, and only once.

use plan::how::Shape;
use plan::invariant::{Gate, RuleRef};
use plan::stage::{ConstraintKind, Landing, ResultTree};
use plan::{Command, How, Plan, PlanId, Stage};
use sandbox::{Room, SandboxError};

use super::{LEASE, arrival, outcome_of, wishes_anew};
use crate::{Call, Done, Error, Lifecycle};

impl Lifecycle {
    /// Signs a plan that waits to land anew, if it shall arrive in another way than it was signed for.
    pub(super) fn sign_anew(
        &self,
        plan: PlanId,
        how: &How,
        owner: &str,
        call: &Call,
    ) -> Result<(), Error> {
        let row = self.get_plan(plan)?;
        let waits = matches!(row.plan.stage, Stage::Apply(Landing::Queued(..)));
        if !waits || !wishes_anew(&row.plan, how) {
            return Ok(());
        }
        let next = call.follow_up();
        let claim = self.start_apply(plan, owner, LEASE, &next)?;
        let constrain = Command::Constrain {
            epoch: claim.epoch(),
            kind: ConstraintKind::ApprovalVoid,
            message: "it shall arrive in another way than it was signed for".to_owned(),
            paths: Vec::new(),
            commits: Vec::new(),
        };
        self.run(plan, constrain, &next)?;
        self.sign(&row.plan, how, call)?;
        self.retry(plan, false, None, &next).map(drop)
    }

    /// Can the result arrive like this at all? Looked at before it is signed.
    pub(super) fn check_wish(&self, plan: &Plan, how: &How) -> Result<(), Error> {
        let workshop = &self.hands()?.workshop;
        let mut unmatched = None;
        let mut matched = how.paths.is_empty();
        for tree in changed_trees(plan) {
            let site = self.site_named(plan, &tree.resource)?;
            let room = Room {
                plan: plan.id,
                site: &site,
            };
            workshop.check_arrival(&room, &arrival(how))?;
            if !how.paths.is_empty() {
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

    /// Is the result there, and can it arrive like this? Asked before it is signed; of what lies on another
    /// host, the landing finds out.
    pub(crate) fn check_arrival(&self, plan: PlanId, how: &How) -> Result<(), Error> {
        let Some(hands) = &self.hands else {
            return Ok(());
        };
        let Some(row) = self.store.plan(plan)? else {
            return Ok(());
        };
        if !row.plan.stage.is_final() {
            self.check_result(&row.plan)?;
        }
        if matches!(how.shape, Shape::Commit) {
            return Ok(());
        }
        for tree in changed_trees(&row.plan) {
            if let Ok(site) = self.site_named(&row.plan, &tree.resource) {
                let room = Room { plan, site: &site };
                hands.workshop.check_arrival(&room, &arrival(how))?;
            }
        }
        Ok(())
    }

    /// Can everything of a result be reached from here? What cannot be shown is not signed.
    fn check_result(&self, plan: &Plan) -> Result<(), Error> {
        let workshop = &self.hands()?.workshop;
        for tree in plan.result.iter().flat_map(|result| &result.trees) {
            match self.site_named(plan, &tree.resource) {
                Ok(site) => {
                    let plan = plan.id;
                    let room = Room { plan, site: &site };
                    workshop.check_result(&room, &outcome_of(tree)?)?;
                }
                Err(Error::WaitingForHost { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whoever asks again under the key it was landed with gets the same answer: the first step of
    /// landing bears it.
    pub(super) fn begun_before(&self, plan: PlanId, how: &How, call: &Call) -> Result<Done, Error> {
        match self.approve_for(plan, how, true, call) {
            Err(Error::Refused(_)) => self.apply_plan(plan, call),
            other => other,
        }
    }

    /// Is the signature on the rules as they are, and on the targets where that matters?
    fn is_signed_under_these_rules(&self, plan: &Plan) -> Result<bool, Error> {
        let targets = self.targets_of(plan, Gate::Apply)?;
        let rules = self.rules_of(plan)?.of_plan(plan, &targets);
        let rules = rules.effective_at(Gate::Apply.judged_with());
        let rules: Vec<RuleRef> = rules.iter().map(|rule| rule.reference()).collect();
        let tips = plan.approval.as_ref().map(|approval| &approval.tips);
        let survives = plan.profile.approval_survives_merge() || tips == Some(&targets.tips);
        Ok(survives && plan.void_because(&rules).is_none())
    }

    /// Signs the result as it stands; `false` if it is signed like this already.
    pub(super) fn sign(&self, plan: &Plan, how: &How, call: &Call) -> Result<bool, Error> {
        let signed = plan
            .valid_approval()
            .filter(|approval| approval.how == *how);
        if !plan.has_targets() {
            return Ok(false);
        }
        if signed.is_some() && self.is_signed_under_these_rules(plan)? {
            return Ok(false);
        }
        self.approve_for(plan.id, how, true, call).map(|_| true)
    }
}

/// What a result changes.
pub(super) fn changed_trees(plan: &Plan) -> impl Iterator<Item = &ResultTree> {
    let trees = plan.result.iter().flat_map(|result| &result.trees);
    trees.filter(|tree| tree.changes != Some(0))
}
