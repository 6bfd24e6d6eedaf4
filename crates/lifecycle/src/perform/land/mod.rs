//! Landing a result, and taking back what landed.
//!
//! May be repeated: before the intent is stored nothing of the user's has moved, and afterwards it
//! is the targets themselves that are asked what became of it. A withdrawal is asked for only where
//! no target ever had the change; whatever comes of it, nothing lands after it without a new intent.

mod follow;
mod rest;
mod sign;
mod steps;
mod undo;

use plan::changeset::TreePath;
use plan::how::Shape;
use plan::stage::{Category, ConstraintKind, Intent, Landing, RefMove, ResultTree};
use plan::ways::Clean;
use plan::{Command, Epoch, How, Plan, PlanId, Refusal, Span, Stage};
use sandbox::land::{Landed, Message, Outcome, Proposal, Proposed};
use sandbox::{Obstacle, Room, SandboxError, Site};
use store::PlanRow;

pub use steps::Stepped;
pub use undo::Undone;

use follow::{Follow, is_overtaken};

use super::enter::object;
use crate::{Call, Claim, Done, Error, Lifecycle};

/// Targets that keep moving are given up on after so many steps: each merge is proposed in one and brought in
/// by another.
const MOST_STEPS: usize = 100;

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
        /// Somebody else brought it in, while this caller waited.
        followed: bool,
    },
    /// It cannot land as it is; nothing of the user's was touched.
    Constrained(Done),
    /// Only a person can say what is to become of it.
    Asks(Done),
    /// Somebody else had it, and it failed or was cancelled.
    NotLanded(Done),
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
    /// it after a crash finishes what was begun. Where somebody else is faster, theirs is followed.
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
        if wishes_anew(&row.plan, how) && row.plan.result.is_some() {
            self.check_wish(&row.plan, how)?;
        }
        // Held until the landing has ended: whoever comes after a crash need not wait for the lease.
        let _presence = match &self.hands {
            Some(hands) => Some(hands.workshop.sign_in(owner)?),
            None => None,
        };
        if let Stage::Apply(Landing::Applied(_)) = &row.plan.stage
            && call.key.is_some()
        {
            let again = self.begun_before(plan, how, call)?;
            return Ok(landed(again, Vec::new(), None));
        }
        let is_over = row.plan.stage.is_final();
        let mut follow = Follow::new(plan, how, call);
        let mut claimed = self.claim_landing(&row.plan, how, owner, call);
        loop {
            let refusal = match claimed.and_then(|claim| self.drive_apply(&claim)) {
                Err(Error::Refused(refusal)) if !is_over && is_overtaken(&refusal) => refusal,
                settled => return settled,
            };
            match self.follow(&mut follow, refusal)? {
                Some(driven) => return Ok(driven),
                None => claimed = self.start_apply(plan, owner, LEASE, &next),
            }
        }
    }

    /// Takes a plan to where it can be landed, signed to arrive like this, and claims it.
    fn claim_landing(
        &self,
        before: &Plan,
        how: &How,
        owner: &str,
        call: &Call,
    ) -> Result<Claim, Error> {
        let (plan, next) = (before.id, call.follow_up());
        if let Stage::Apply(landing) = &before.stage {
            match landing {
                Landing::Constrained(_) => {
                    self.sign(before, how, call)?;
                    self.retry(plan, false, None, &next)?;
                }
                Landing::Errored(_) => {
                    self.retry(plan, false, None, call)?;
                    self.sign_anew(plan, how, owner, &next)?;
                }
                Landing::Processing(..) => {
                    // Whoever landed it is gone, or this is refused with who it is.
                    self.take_over_landing(plan, call)?;
                    self.sign_anew(plan, how, owner, &next)?;
                }
                Landing::Queued(..) => self.sign_anew(plan, how, owner, call)?,
                Landing::AwaitingInput(..) | Landing::Applied(_) | Landing::Cancelled(_) => {}
            }
        } else {
            let signed = self.sign(before, how, call)?;
            self.apply_plan(plan, if signed { &next } else { call })?;
        }
        self.start_apply(plan, owner, LEASE, &next)
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
            Err(Error::Sandbox(error)) if error.is_passing() || self.may_have_moved(id) => {
                // Nothing is lost: whoever tries next finds the plan waiting, with its intent if
                // there is one.
                let _ = self.release(id, epoch, &call);
                Err(error.into())
            }
            Err(Error::Sandbox(error)) => {
                // Trying again would give the same; a person has to see why.
                let _ = self.fail(id, epoch, Category::Resource, &error.to_string(), &call);
                Err(error.into())
            }
            other => other,
        }
    }

    /// Is it past the point of no return?
    fn may_have_moved(&self, plan: PlanId) -> bool {
        let row = self.get_plan(plan);
        row.is_ok_and(|row| row.plan.is_prepared())
    }

    fn drive(&self, id: PlanId, epoch: Epoch, call: &Call) -> Result<Driven, Error> {
        for _ in 0..MOST_STEPS {
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
            let Some(outcome) = self.signed_part(plan, &room, tree, &approval.how)? else {
                continue;
            };
            match workshop.propose(&room, epoch, &outcome, &how, &message)? {
                Proposed::Ready(proposal) => moves.push(RefMove {
                    resource: tree.resource.clone(),
                    target: proposal.target,
                    onto: (proposal.old != proposal.onto).then(|| proposal.onto.to_string()),
                    old: proposal.old.to_string(),
                    new: proposal.new.to_string(),
                }),
                Proposed::Nothing => nothing.push(target_name(&site)),
                Proposed::Conflict { paths, commits } => {
                    let changed = match &approval.how.shape {
                        Shape::Uncommitted if tree.target.is_empty() => place(&site).to_string(),
                        Shape::Uncommitted => {
                            format!("the commit checked out in {}", place(&site))
                        }
                        Shape::Commit | Shape::Branch(_) => target_name(&site),
                    };
                    let text = format!("{changed} changed the same lines since this plan began");
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
        match self.prepare_apply(plan.id, epoch, &moves, call) {
            Ok(done) => Ok(Stepped::Done(done)),
            // It was fine by itself, and is not together with what its target has become.
            Err(Error::Blocked(blocked)) => {
                let failed = blocked.failed.iter();
                let failed = failed.map(|one| format!("{}: {}", one.rule.name, one.evidence));
                let failed: Vec<String> = failed.collect();
                let text = format!("on the merged tree {blocked}: {}", failed.join("; "));
                let kind = ConstraintKind::Gate;
                self.hinder(plan.id, epoch, (kind, text), Vec::new(), Vec::new(), call)
            }
            Err(Error::Refused(refusal @ Refusal::ApprovalVoid(_))) => {
                let kind = ConstraintKind::ApprovalVoid;
                let text = refusal.to_string();
                self.hinder(plan.id, epoch, (kind, text), Vec::new(), Vec::new(), call)
            }
            Err(error) => Err(error),
        }
    }

    /// What was signed of a resource's result: all of it, or what the paths choose, if anything.
    fn signed_part(
        &self,
        plan: &Plan,
        room: &Room<'_>,
        tree: &ResultTree,
        how: &How,
    ) -> Result<Option<Outcome>, Error> {
        let whole = outcome_of(tree)?;
        if how.paths.is_empty() {
            return Ok(Some(whole));
        }
        match self.hands()?.workshop.restrict(room, &whole, &how.paths) {
            // With several resources a path need not be in each of them.
            Err(SandboxError::NothingMatches { .. }) if plan.resources.len() > 1 => Ok(None),
            other => Ok(Some(other?)),
        }
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

    fn hinder_by(
        &self,
        plan: PlanId,
        epoch: Epoch,
        site: &Site,
        obstacle: Obstacle,
        call: &Call,
    ) -> Result<Stepped, Error> {
        let place = place(site);
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

    pub(crate) fn site_named(&self, plan: &Plan, resource: &str) -> Result<Site, Error> {
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
        onto: object(step.merged_with())?,
    })
}

fn landed(done: Done, kept: Vec<TreePath>, rest: Option<PlanId>) -> Driven {
    Driven::Landed {
        done,
        kept,
        rest,
        followed: false,
    }
}

/// Shall it arrive in another way than it was signed for? Past the point of no return nobody can wish.
fn wishes_anew(plan: &Plan, how: &How) -> bool {
    let signed = plan.valid_approval().map(|approval| &approval.how);
    signed != Some(how) && plan.has_targets() && !plan.is_prepared()
}

/// How the workshop calls it.
fn arrival(how: &How) -> sandbox::land::How {
    match &how.shape {
        Shape::Commit => sandbox::land::How::Commit { merge: how.merge },
        Shape::Branch(name) => sandbox::land::How::Branch(name.clone()),
        Shape::Uncommitted => sandbox::land::How::Uncommitted,
    }
}

/// Where the person's files are.
fn place(site: &Site) -> impl std::fmt::Display {
    site.place.path().display()
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
