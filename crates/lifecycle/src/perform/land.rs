//! Landing a result, and taking back what landed.
//!
//! May be repeated: before the intent is stored nothing of the user's has moved, and afterwards it
//! is the targets themselves that are asked what became of it. A withdrawal is asked for only where
//! no target ever had the change; whatever comes of it, nothing lands after it without a new intent.

use plan::changeset::TreePath;
use plan::command::LinkedPlan;
use plan::how::Shape;
use plan::plan::Origin;
use plan::stage::{ConstraintKind, Intent, Landing, RefMove, ResultContent, ResultTree, StateName};
use plan::ways::Clean;
use plan::{Command, Epoch, How, Phase, Plan, PlanId, Refusal, Span, Stage};
use sandbox::land::{Landed, Message, Outcome, Proposal, Proposed, Seen};
use sandbox::{Obstacle, Room, SandboxError, Site};
use store::{PlanFilter, PlanRow};

use super::enter::object;
use crate::{Call, Claim, Done, Error, Lifecycle};

/// Targets that keep moving are given up on after so many merges.
const MOST_MERGES: usize = 10;

/// How many plans are looked at for one that was cut off.
const MOST_PLANS: usize = 1000;

/// How long a landing may stay unheard of.
const LEASE: Span = Span::seconds(60);

/// How driving a landing ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Driven {
    /// Every target has the change.
    Landed {
        /// The plan.
        done: Done,
        /// Files that a person saved meanwhile, left as they saved them.
        kept: Vec<TreePath>,
        /// What could not land any more, as a plan of its own.
        rest: Option<PlanId>,
    },
    /// It cannot land as it is; nothing of the user's was touched.
    Constrained(Done),
    /// Only a person can say what is to become of it.
    Asks(Done),
}

/// A plan that takes another back.
#[derive(Debug, Clone, PartialEq)]
pub struct Undone {
    /// The plan: a new one, or one that was begun and has not ended.
    pub plan: PlanId,
    /// The same was asked under the same key, and is over.
    pub repeated: Option<Done>,
    /// How it should arrive: like what it takes back.
    pub how: How,
}

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

/// What came of one resource.
enum Fate {
    Landed,
    Moved,
    Hindered(Obstacle),
    Removed,
}

impl Lifecycle {
    /// Signs a result and lands it in the foreground: from wherever it stands to its end. Repeating
    /// it after a crash finishes what was begun.
    pub fn apply(
        &self,
        plan: PlanId,
        how: &How,
        owner: &str,
        call: &Call,
    ) -> Result<Driven, Error> {
        let row = self.get_plan(plan)?;
        self.check_reach(&row.plan)?;
        let next = call.follow_up();
        let signed = row.plan.valid_approval().map(|approval| &approval.how);
        let wishes_anew = signed != Some(how) && row.plan.has_targets();
        if wishes_anew && row.plan.result.is_some() && !row.plan.is_prepared() {
            self.check_wish(&row.plan, how)?;
        }
        // Held until the landing has ended: whoever comes after a crash need not wait for the lease.
        let _presence = match &self.hands {
            Some(hands) => Some(hands.workshop.sign_in(owner)?),
            None => None,
        };
        if let Stage::Apply(landing) = &row.plan.stage {
            match landing {
                Landing::Constrained(_) => {
                    self.sign(&row.plan, how, call)?;
                    self.retry(plan, false, None, &next)?;
                }
                Landing::Errored(_) => {
                    self.retry(plan, false, None, call)?;
                }
                Landing::Processing(..) => {
                    // Whoever landed it is gone, or this is refused with who it is.
                    self.reclaim_from_the_gone(plan, call)?;
                }
                Landing::Applied(_) if call.key.is_some() => {
                    let again = self.begun_before(plan, how, call)?;
                    return Ok(landed(again, Vec::new(), None));
                }
                Landing::Queued(_, None) if wishes_anew => {
                    self.void_signature(plan, owner, &next)?;
                    self.sign(&row.plan, how, call)?;
                    self.retry(plan, false, None, &next)?;
                }
                Landing::Queued(..)
                | Landing::AwaitingInput(..)
                | Landing::Applied(_)
                | Landing::Cancelled(_) => {}
            }
        } else {
            let signed = self.sign(&row.plan, how, call)?;
            self.apply_plan(plan, if signed { &next } else { call })?;
        }
        let claim = self.start_apply(plan, owner, LEASE, &next)?;
        self.drive_apply(&claim)
    }

    /// Brings a claimed landing to its end.
    pub fn drive_apply(&self, claim: &Claim) -> Result<Driven, Error> {
        let (id, epoch, call) = (claim.plan().id, claim.epoch(), claim.call());
        let driven = self.keeping_the_lease(id, epoch, &call, || self.drive(id, epoch, &call));
        match driven {
            Err(Error::Sandbox(error)) if error.is_about_the_wish() => {
                // It can be signed anew, in another way.
                let constrain = Command::Constrain {
                    epoch,
                    kind: ConstraintKind::ApprovalVoid,
                    message: error.to_string(),
                    paths: Vec::new(),
                    commits: Vec::new(),
                };
                self.run(id, constrain, &call)?;
                Err(error.into())
            }
            Err(error @ Error::Sandbox(_)) => {
                // Nothing is lost: whoever tries next finds the plan waiting, with its intent if
                // there is one.
                let _ = self.release(id, epoch, &call);
                Err(error)
            }
            other => other,
        }
    }

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

    /// Makes a plan that takes a landed one back: the inverse change, to be merged with what came
    /// since.
    pub fn undo(&self, plan: PlanId, call: &Call) -> Result<Undone, Error> {
        let origin = self.get_plan(plan)?.plan;
        if !matches!(origin.stage, Stage::Apply(Landing::Applied(_))) || !origin.has_targets() {
            let nothing = LinkedPlan {
                id: self.ids.plan(),
                resources: Vec::new(),
                result: ResultContent::default(),
            };
            // Refused: nothing landed.
            let done = self.run(plan, Command::Undo(nothing), call)?;
            return Ok(Undone {
                plan: done.plan.id,
                repeated: None,
                how: How::default(),
            });
        }
        let how = origin.approval.as_ref().map(|approval| &approval.how);
        let shape = how.map(|how| how.shape.clone()).unwrap_or_default();
        if let Shape::Branch(name) = shape {
            return Err(Error::LandedOnBranch { branch: name });
        }
        let how = How {
            shape,
            ..How::default()
        };
        if call.key.is_none()
            && let Some(id) = self.unfinished_undo(&origin)?
        {
            return Ok(Undone {
                plan: id,
                repeated: None,
                how,
            });
        }
        let workshop = &self.hands()?.workshop;
        let mut trees = Vec::new();
        for step in &origin.landed {
            let site = self.site_named(&origin, &step.resource)?;
            let room = Room { plan, site: &site };
            let (tree, changes) = workshop.before_landing(&room, &object(&step.new)?)?;
            let resource = origin
                .resources
                .iter()
                .find(|one| one.name == step.resource);
            let target = resource.and_then(|resource| resource.target.clone());
            trees.push(ResultTree {
                resource: step.resource.clone(),
                target: target.unwrap_or_default(),
                base: step.new.clone(),
                tree: tree.to_string(),
                changes: Some(changes),
            });
        }
        let linked = LinkedPlan {
            id: self.ids.plan(),
            resources: trees.iter().map(|tree| tree.resource.clone()).collect(),
            result: ResultContent {
                report: None,
                trees,
            },
        };
        let done = self.run(plan, Command::Undo(linked), call)?;
        Ok(Undone {
            plan: done.plan.id,
            repeated: Some(done).filter(|done| done.plan.stage.is_final()),
            how,
        })
    }

    /// Takes a plan that waits to land back to where it can be signed in another way.
    fn void_signature(&self, plan: PlanId, owner: &str, call: &Call) -> Result<(), Error> {
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
    fn check_wish(&self, plan: &Plan, how: &How) -> Result<(), Error> {
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

    /// A plan that began to land the inverse of this one and has not ended: a crash cut it off, or
    /// something is in its way. Taking back goes on with it.
    fn unfinished_undo(&self, origin: &Plan) -> Result<Option<PlanId>, Error> {
        let states = [
            StateName::Queued,
            StateName::Processing,
            StateName::Errored,
            StateName::Constrained,
        ];
        for state in states {
            let filter = PlanFilter {
                phase: Some(Phase::Apply),
                state: Some(state),
                project: origin.resources.first().map(|one| one.project.clone()),
                ..PlanFilter::default()
            };
            let rows = self.store.plans(&filter, None, MOST_PLANS)?;
            let undoes = |row: &&PlanRow| row.plan.origin == Origin::UndoOf(origin.id);
            if let Some(row) = rows.iter().find(undoes) {
                return Ok(Some(row.plan.id));
            }
        }
        Ok(None)
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
    fn begun_before(&self, plan: PlanId, how: &How, call: &Call) -> Result<Done, Error> {
        let sign = Command::Approve { how: how.clone() };
        match self.run(plan, sign, call) {
            Err(Error::Refused(_)) => self.apply_plan(plan, call),
            other => other,
        }
    }

    /// Signs the result as it stands; `false` if it is signed like this already.
    fn sign(&self, plan: &Plan, how: &How, call: &Call) -> Result<bool, Error> {
        let signed = plan.valid_approval();
        if !plan.has_targets() || signed.is_some_and(|approval| approval.how == *how) {
            return Ok(false);
        }
        self.approve(plan.id, how, call).map(|_| true)
    }

    fn drive(&self, id: PlanId, epoch: Epoch, call: &Call) -> Result<Driven, Error> {
        for _ in 0..MOST_MERGES {
            let row = self.get_plan(id)?;
            if !row.plan.has_targets() {
                let done = self.complete_apply(id, epoch, Vec::new(), None, call)?;
                return Ok(landed(done, Vec::new(), None));
            }
            let ended = match row.plan.stage.intent().cloned() {
                Some(intent) if intent.vouched.is_some() => {
                    let done = self.complete_apply(id, epoch, Vec::new(), None, call)?;
                    Some(landed(done, Vec::new(), None))
                }
                Some(intent) => match self.bring_in(&row.plan, epoch, &intent, call)? {
                    Stepped::Ended(driven) => Some(driven),
                    Stepped::Done(_) | Stepped::Withdrawn => None,
                },
                None => match self.propose(&row, epoch, call)? {
                    Stepped::Ended(driven) => Some(driven),
                    Stepped::Done(_) | Stepped::Withdrawn => None,
                },
            };
            if let Some(driven) = ended {
                if let Driven::Landed { done, .. } = &driven {
                    self.after_landing(&done.plan);
                }
                return Ok(driven);
            }
        }
        Err(SandboxError::TargetMoved {
            target: id.to_string(),
        }
        .into())
    }

    /// Merges, looks for obstacles and stores the intent.
    fn propose(&self, row: &PlanRow, epoch: Epoch, call: &Call) -> Result<Stepped, Error> {
        let plan = &row.plan;
        let workshop = &self.hands()?.workshop;
        let approval = plan.valid_approval().ok_or(Refusal::NeedsApproval)?;
        let how = arrival(&approval.how);
        let message = Message {
            plan: plan.id,
            goal: plan.goal.to_string(),
            chain: row.head,
            seconds: self.store.now()?.0.div_euclid(1_000_000),
            even_if_empty: approval.how.allow_empty,
        };
        let mut moves = Vec::new();
        let mut nothing = Vec::new();
        let trees = plan.result.iter().flat_map(|result| &result.trees);
        for tree in trees.filter(|tree| tree.changes != Some(0) || approval.how.allow_empty) {
            let site = self.site_named(plan, &tree.resource)?;
            let room = Room {
                plan: plan.id,
                site: &site,
            };
            let mut outcome = outcome_of(tree)?;
            if !approval.how.paths.is_empty() {
                outcome = match workshop.restrict(&room, &outcome, &approval.how.paths) {
                    // With several resources a path need not be in each of them.
                    Err(SandboxError::NothingMatches { .. }) if plan.resources.len() > 1 => {
                        continue;
                    }
                    other => other?,
                };
            }
            match workshop.propose(&room, epoch, &outcome, &how, &message)? {
                Proposed::Ready(proposal) => moves.push(RefMove {
                    resource: tree.resource.clone(),
                    target: proposal.target,
                    old: proposal.old.to_string(),
                    new: proposal.new.to_string(),
                }),
                Proposed::Nothing => nothing.push(target_name(&site)),
                Proposed::Conflict { paths, commits } => {
                    let text = format!(
                        "{} changed the same lines since this plan began",
                        target_name(&site)
                    );
                    let commits = commits.iter().map(ToString::to_string).collect();
                    let kind = ConstraintKind::Conflict;
                    return self.hinder(plan.id, epoch, (kind, text), paths, commits, call);
                }
                Proposed::Hindered(obstacle) => {
                    return self.hinder_by(plan.id, epoch, &site, obstacle, call);
                }
            }
        }
        if moves.is_empty() {
            let text = format!(
                "{} has every change of this plan already",
                nothing.join(", ")
            );
            let kind = ConstraintKind::Conflict;
            return self.hinder(plan.id, epoch, (kind, text), Vec::new(), Vec::new(), call);
        }
        let done = self.prepare_apply(plan.id, epoch, &moves, call)?;
        Ok(Stepped::Done(done))
    }

    /// Brings in what the intent says.
    fn bring_in(
        &self,
        plan: &Plan,
        epoch: Epoch,
        intent: &Intent,
        call: &Call,
    ) -> Result<Stepped, Error> {
        let workshop = &self.hands()?.workshop;
        let mut kept = Vec::new();
        let mut fates = Vec::new();
        for step in &intent.moves {
            let site = self.site_named(plan, &step.resource)?;
            let room = Room {
                plan: plan.id,
                site: &site,
            };
            let proposal = proposal_of(step)?;
            let fate = match workshop.land(&room, epoch, &proposal)? {
                Landed::Yes { kept: saved } => {
                    kept.extend(saved);
                    Fate::Landed
                }
                Landed::Moved => Fate::Moved,
                Landed::Hindered(obstacle) => Fate::Hindered(obstacle),
                Landed::Removed => Fate::Removed,
            };
            fates.push((step, site, fate));
        }
        if let Some((step, site, _)) = fates
            .iter()
            .find(|(_, _, fate)| matches!(fate, Fate::Removed))
        {
            let question = format!(
                "The change was brought into {} as {} and then taken out by somebody. Does it count \
                 as landed, shall it be brought in again, or dropped? Answer landed, again or drop.",
                target_name(site),
                &step.new[..step.new.len().min(10)],
            );
            let done = self.ask(plan.id, epoch, &question, None, call)?;
            return Ok(Stepped::Ended(Driven::Asks(done)));
        }
        let arrived: Vec<String> = fates
            .iter()
            .filter(|(_, _, fate)| matches!(fate, Fate::Landed))
            .map(|(step, _, _)| step.resource.clone())
            .collect();
        if arrived.is_empty() {
            self.withdraw_apply(plan.id, epoch, call)?;
            let hindered = fates.into_iter().find_map(|(_, site, fate)| match fate {
                Fate::Hindered(obstacle) => Some((site, obstacle)),
                Fate::Landed | Fate::Moved | Fate::Removed => None,
            });
            return match hindered {
                Some((site, obstacle)) => self.hinder_by(plan.id, epoch, &site, obstacle, call),
                None => Ok(Stepped::Withdrawn),
            };
        }
        let rest = self.rest_of(plan, &intent.moves, &arrived)?;
        let rest_id = rest.as_ref().map(|rest| rest.id);
        let done = self.complete_apply(plan.id, epoch, arrived, rest, call)?;
        Ok(Stepped::Ended(landed(done, kept, rest_id)))
    }

    /// What did not land, as a plan of its own: resources that could not any more after another had,
    /// and the paths that were left out.
    fn rest_of(
        &self,
        plan: &Plan,
        moves: &[RefMove],
        arrived: &[String],
    ) -> Result<Option<LinkedPlan>, Error> {
        let partly = plan
            .approval
            .as_ref()
            .is_some_and(|approval| !approval.how.paths.is_empty());
        let id = self.ids.plan();
        let mut left = Vec::new();
        for tree in plan.result.iter().flat_map(|result| &result.trees) {
            let step = moves.iter().find(|step| step.resource == tree.resource);
            let landed = step.filter(|step| arrived.contains(&step.resource));
            match landed {
                Some(step) if partly => left.extend(self.left_out(plan, id, tree, step)?),
                Some(_) => {}
                None if step.is_some() || (partly && tree.changes != Some(0)) => {
                    left.push(tree.clone());
                }
                None => {}
            }
        }
        Ok((!left.is_empty()).then(|| LinkedPlan {
            id,
            resources: left.iter().map(|tree| tree.resource.clone()).collect(),
            result: ResultContent {
                report: None,
                trees: left,
            },
        }))
    }

    /// The paths of a resource that were left out, based on what landed.
    fn left_out(
        &self,
        plan: &Plan,
        for_plan: PlanId,
        tree: &ResultTree,
        step: &RefMove,
    ) -> Result<Option<ResultTree>, Error> {
        let site = self.site_named(plan, &tree.resource)?;
        let room = Room {
            plan: plan.id,
            site: &site,
        };
        let whole = outcome_of(tree)?;
        let workshop = &self.hands()?.workshop;
        let rest = workshop.rest(&room, for_plan, &whole, &object(&step.new)?)?;
        Ok(rest.map(|rest| ResultTree {
            base: rest.base.to_string(),
            tree: rest.tree.to_string(),
            changes: None,
            ..tree.clone()
        }))
    }

    fn hinder_by(
        &self,
        plan: PlanId,
        epoch: Epoch,
        site: &Site,
        obstacle: Obstacle,
        call: &Call,
    ) -> Result<Stepped, Error> {
        let place = site.place.path().display();
        let (kind, text, paths) = match obstacle {
            Obstacle::LocalEdits(paths) => (
                ConstraintKind::LocalEdits,
                format!("{place} has local edits in paths this plan changes"),
                paths,
            ),
            Obstacle::InProgress(what) => (
                ConstraintKind::OperationInProgress,
                format!("a {what} is in progress in {place}"),
                Vec::new(),
            ),
        };
        self.hinder(plan, epoch, (kind, text), paths, Vec::new(), call)
    }

    fn hinder(
        &self,
        plan: PlanId,
        epoch: Epoch,
        (kind, text): (ConstraintKind, String),
        paths: Vec<TreePath>,
        commits: Vec<String>,
        call: &Call,
    ) -> Result<Stepped, Error> {
        let constrain = Command::Constrain {
            epoch,
            kind,
            message: text,
            paths,
            commits,
        };
        let done = self.run(plan, constrain, call)?;
        Ok(Stepped::Ended(Driven::Constrained(done)))
    }

    /// What only kept the landing safe goes, and so do the sandboxes. If it cannot, it is found and
    /// removed by a later tidying up; the landing is no less done for it.
    fn after_landing(&self, plan: &Plan) {
        if plan.ways.clean != Clean::Manual {
            let _ = self.tidy(plan);
        }
    }

    fn site_named(&self, plan: &Plan, resource: &str) -> Result<Site, Error> {
        let found = plan.resources.iter().find(|one| one.name == resource);
        let found = found.ok_or_else(|| Error::ResourceGone {
            resource: resource.to_owned(),
        })?;
        self.site(found)
    }
}

fn outcome_of(tree: &ResultTree) -> Result<Outcome, Error> {
    Ok(Outcome {
        base: object(&tree.base)?,
        tree: object(&tree.tree)?,
    })
}

fn proposal_of(step: &RefMove) -> Result<Proposal, Error> {
    Ok(Proposal {
        target: step.target.clone(),
        old: object(&step.old)?,
        new: object(&step.new)?,
    })
}

fn landed(done: Done, kept: Vec<TreePath>, rest: Option<PlanId>) -> Driven {
    Driven::Landed { done, kept, rest }
}

/// How the workshop calls it.
fn arrival(how: &How) -> sandbox::land::How {
    match &how.shape {
        Shape::Commit => sandbox::land::How::Commit { merge: how.merge },
        Shape::Branch(name) => sandbox::land::How::Branch(name.clone()),
        Shape::Uncommitted => sandbox::land::How::Uncommitted,
    }
}

/// What a change lands on, for people.
fn target_name(site: &Site) -> String {
    match &site.place {
        sandbox::SitePlace::Git { target, .. } => target
            .strip_prefix("refs/heads/")
            .unwrap_or(target)
            .to_owned(),
        sandbox::SitePlace::Dir { path } => path.display().to_string(),
    }
}
