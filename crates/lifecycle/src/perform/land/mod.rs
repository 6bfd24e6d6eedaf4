//! Lands a result, and undoes a landed one.
//!
//! Idempotent: nothing of the user's moves before the intent is stored. Afterwards, the targets themselves
//! show whether they have the change. The intent is withdrawn only if no target ever had the change, and
//! nothing lands after that without a new intent.

mod approve;
mod follow;
mod pick;
mod remainder;
mod steps;
mod undo;

use plan::changeset::TreePath;
use plan::command::{
    AskPerson, CompleteApply, ConstrainApply, FailRun, ReleaseLease, WithdrawApply,
};
use plan::landing_options::LandingDestination;
use plan::plan::PlanOrigin;
use plan::repository_policy::SandboxCleanupPolicy;
use plan::stage::{
    ApplyState, ConstraintKind, FailureCategory, LandingIntent, RefMove, ResultTree,
};
use plan::{Epoch, LandingOptions, Plan, PlanId, PlanStage, Refusal, Span};
use sandbox::land::{LandAttempt, LandingMessage, LandingProposal, ProposalOutcome, SandboxResult};
use sandbox::{LandingObstacle, LocalResource, SandboxError, SandboxKey};
use store::PlanRow;

pub use pick::{PartSelection, PickMode, PickOutcome, whole_result_of};
pub use steps::LandingStep;
pub use undo::UndoPlan;

use follow::{LandingFollower, is_overtaken};

use super::enter::parse_object_id;
use crate::{Call, Claim, Lifecycle, LifecycleError, OperationOutcome};

/// The landing gives up after this many steps if its targets keep moving. Each attempt takes two steps:
/// propose the merge, then move the targets.
const MAX_LANDING_STEPS: usize = 100;

/// The lease of a landing in the foreground.
const LANDING_LEASE: Span = Span::from_seconds(60);

/// How a landing ended.
#[derive(Debug, Clone, PartialEq)]
pub enum LandingOutcome {
    /// Every target has the change.
    Landed {
        done: OperationOutcome,
        /// Files that a person saved during the landing. They keep the person's version.
        kept: Vec<TreePath>,
        /// A new plan with what did not land.
        rest: Option<PlanId>,
        /// Another process landed it while this caller waited.
        followed: bool,
    },
    /// The result cannot land as it is. Nothing was changed.
    Constrained(OperationOutcome),
    /// A person has to decide how to continue.
    NeedsAnswer(OperationOutcome),
    /// Another process was landing it, and it failed or was cancelled.
    NotLanded(OperationOutcome),
}

/// The outcome for one target.
enum TargetOutcome {
    Landed,
    Moved,
    Obstructed(LandingObstacle),
    Removed,
}

/// Brings results into their targets, and takes them back.
#[derive(Clone, Copy)]
pub struct Landing<'a> {
    lifecycle: &'a Lifecycle,
}

impl Lifecycle {
    pub fn landing(&self) -> Landing<'_> {
        Landing { lifecycle: self }
    }
}

impl Landing<'_> {
    /// Approves a result and lands it in the foreground. After a crash, calling it again finishes the
    /// landing. If another process is already landing the plan, waits for it.
    pub fn approve_and_land(
        &self,
        plan_id: PlanId,
        options: &LandingOptions,
        owner: &str,
        call: &Call,
    ) -> Result<LandingOutcome, LifecycleError> {
        let row = self.lifecycle.get_plan(plan_id)?;
        self.lifecycle
            .sandboxes()
            .check_resources_reachable(&row.plan)?;
        let follow_up = call.follow_up();
        if needs_new_approval(&row.plan, options) && row.plan.result().is_some() {
            self.check_landing_options(&row.plan, options)?;
        }
        // Held until the landing ends. After a crash, others see that this process is dead and need not
        // wait for the lease to expire.
        let _presence = match &self.lifecycle.local_host {
            Some(local_host) => Some(local_host.sandboxes.processes().register_presence(owner)?),
            None => None,
        };
        if let PlanStage::Apply(ApplyState::Applied(_)) = row.plan.stage()
            && call.key.is_some()
        {
            let repeated = self.repeat_keyed_landing(plan_id, options, call)?;
            return Ok(landed_outcome(repeated, Vec::new(), None));
        }
        let is_over = row.plan.stage().is_final();
        let mut follower = LandingFollower::new(plan_id, options, call);
        let mut claimed = self.claim_landing(&row.plan, options, owner, call);
        loop {
            let refusal = match claimed.and_then(|claim| self.drive_landing(&claim)) {
                Err(LifecycleError::Refused(refusal)) if !is_over && is_overtaken(&refusal) => {
                    refusal
                }
                settled => return settled,
            };
            // Another holder was faster: wait for it. If it gives up or dies, claim the landing here.
            match self.follow_landing(&mut follower, refusal)? {
                Some(outcome) => return Ok(outcome),
                None => {
                    claimed = self.lifecycle.claims().start_apply(
                        plan_id,
                        owner,
                        LANDING_LEASE,
                        &follow_up,
                    )
                }
            }
        }
    }

    /// Moves a plan to apply, approved with these options, and claims it.
    fn claim_landing(
        &self,
        plan: &Plan,
        options: &LandingOptions,
        owner: &str,
        call: &Call,
    ) -> Result<Claim, LifecycleError> {
        let (plan_id, follow_up) = (plan.id(), call.follow_up());
        if let PlanStage::Apply(landing) = plan.stage() {
            match landing {
                ApplyState::Constrained(_) => {
                    self.approve_if_needed(plan, options, call)?;
                    self.lifecycle
                        .retry_phase(plan_id, false, None, &follow_up)?;
                }
                ApplyState::Errored(_) => {
                    self.lifecycle.retry_phase(plan_id, false, None, call)?;
                    self.renew_approval(plan_id, options, owner, &follow_up)?;
                }
                ApplyState::Processing(..) => {
                    // Refused with the holder's name if it is alive.
                    self.take_over_landing(plan_id, call)?;
                    self.renew_approval(plan_id, options, owner, &follow_up)?;
                }
                ApplyState::Queued(..) => self.renew_approval(plan_id, options, owner, call)?,
                ApplyState::AwaitingInput(..)
                | ApplyState::Applied(_)
                | ApplyState::Cancelled(_) => {}
            }
        } else {
            let is_newly_approved = self.approve_if_needed(plan, options, call)?;
            self.lifecycle
                .apply_plan(plan_id, if is_newly_approved { &follow_up } else { call })?;
        }
        self.lifecycle
            .claims()
            .start_apply(plan_id, owner, LANDING_LEASE, &follow_up)
    }

    /// Runs a claimed landing to its end.
    pub fn drive_landing(&self, claim: &Claim) -> Result<LandingOutcome, LifecycleError> {
        let (plan_id, epoch, call) = (claim.plan().id(), claim.epoch(), claim.call());
        let landing = self
            .lifecycle
            .leases()
            .keep_lease_while(plan_id, epoch, &call, || {
                self.run_landing_steps(plan_id, epoch, &call)
            });
        match landing {
            Err(LifecycleError::Sandbox(error)) if error.is_invalid_landing_option() => {
                // A person can approve it again with other options.
                let constrain = ConstrainApply {
                    epoch,
                    kind: ConstraintKind::ApprovalVoid,
                    message: error.to_string(),
                    paths: Vec::new(),
                    commits: Vec::new(),
                };
                self.lifecycle.submit_for_plan(plan_id, constrain, &call)?;
                Err(error.into())
            }
            Err(LifecycleError::Sandbox(error))
                if error.is_transient() || self.is_landing_prepared(plan_id) =>
            {
                // Queue it for a retry. A stored intent stays, so the retry finishes what was begun.
                let _ = self
                    .lifecycle
                    .submit_command(plan_id, ReleaseLease { epoch }, &call);
                Err(error.into())
            }
            Err(LifecycleError::Sandbox(error)) => {
                // A retry would fail the same way, so a person has to see the reason.
                let _ = self.lifecycle.submit_command(
                    plan_id,
                    FailRun::new(epoch, FailureCategory::Resource, error.to_string()),
                    &call,
                );
                Err(error.into())
            }
            other => other,
        }
    }

    /// Is the intent stored, so that targets may have moved?
    fn is_landing_prepared(&self, plan_id: PlanId) -> bool {
        let row = self.lifecycle.get_plan(plan_id);
        row.is_ok_and(|row| row.plan.is_prepared())
    }

    fn run_landing_steps(
        &self,
        plan_id: PlanId,
        epoch: Epoch,
        call: &Call,
    ) -> Result<LandingOutcome, LifecycleError> {
        for _ in 0..MAX_LANDING_STEPS {
            let row = self.lifecycle.get_plan(plan_id)?;
            if !row.plan.has_targets() {
                let done = self.lifecycle.submit_command(
                    plan_id,
                    CompleteApply::new(epoch, Vec::new(), None),
                    call,
                )?;
                return Ok(landed_outcome(done, Vec::new(), None));
            }
            let ended = match row.plan.stage().intent().cloned() {
                Some(intent) if intent.vouched.is_some() => {
                    let done = self.lifecycle.submit_command(
                        plan_id,
                        CompleteApply::new(epoch, Vec::new(), None),
                        call,
                    )?;
                    Some(landed_outcome(done, Vec::new(), None))
                }
                Some(intent) => match self.move_targets(&row.plan, epoch, &intent, call)? {
                    LandingStep::Ended(outcome) => Some(outcome),
                    LandingStep::Completed(_) | LandingStep::Withdrawn => None,
                },
                None => match self.propose_landing(&row, epoch, call)? {
                    LandingStep::Ended(outcome) => Some(outcome),
                    LandingStep::Completed(_) | LandingStep::Withdrawn => None,
                },
            };
            if let Some(outcome) = ended {
                if let LandingOutcome::Landed { done, .. } = &outcome {
                    self.clean_after_landing(&done.plan);
                }
                return Ok(outcome);
            }
        }
        Err(SandboxError::TargetMoved {
            target: "the target".to_owned(),
        }
        .into())
    }

    /// Merges, checks for obstacles and stores the intent. Moves nothing.
    fn propose_landing(
        &self,
        row: &PlanRow,
        epoch: Epoch,
        call: &Call,
    ) -> Result<LandingStep, LifecycleError> {
        let plan = &row.plan;
        let sandboxes = &self.lifecycle.local_host()?.sandboxes;
        let approval = plan.valid_approval().ok_or(Refusal::NeedsApproval)?;
        let mode = landing_method(&approval.options);
        let message = LandingMessage {
            plan_id: plan.id(),
            text: approval
                .options
                .message
                .as_ref()
                .unwrap_or(plan.goal())
                .to_string(),
            agent: match plan.origin() {
                PlanOrigin::UndoOf(_) => None,
                PlanOrigin::Use | PlanOrigin::RestOf(_) => {
                    Some(plan.actors().execution.to_string())
                }
            },
            chain_head: row.head,
            unix_seconds: self.lifecycle.store.now()?.0.div_euclid(1_000_000),
            allow_empty: approval.options.allow_empty,
        };
        let mut moves = Vec::new();
        let mut unchanged_targets = Vec::new();
        let trees = plan.result().into_iter().flat_map(|result| &result.trees);
        for tree in trees.filter(|tree| tree.changes != Some(0) || approval.options.allow_empty) {
            let location = self
                .lifecycle
                .projects()
                .locate_resource_named(plan, &tree.resource)?;
            let sandbox_key = SandboxKey {
                plan_id: plan.id(),
                resource: &location,
            };
            let Some(outcome) = self.approved_part(plan, &sandbox_key, tree, &approval.options)?
            else {
                continue;
            };
            match sandboxes.landings().propose_landing(
                &sandbox_key,
                epoch,
                &outcome,
                &mode,
                &message,
            )? {
                ProposalOutcome::Ready(proposal) => moves.push(RefMove {
                    resource: tree.resource.clone(),
                    target: proposal.target,
                    onto: (proposal.old != proposal.merged_with)
                        .then(|| proposal.merged_with.to_string()),
                    old: proposal.old.to_string(),
                    new: proposal.new.to_string(),
                }),
                ProposalOutcome::AlreadyLanded => unchanged_targets.push(target_name(&location)),
                ProposalOutcome::Conflict { paths, commits } => {
                    let changed = match &approval.options.shape {
                        LandingDestination::Uncommitted if tree.target.is_empty() => {
                            display_path(&location).to_string()
                        }
                        LandingDestination::Uncommitted => {
                            format!("the commit checked out in {}", display_path(&location))
                        }
                        LandingDestination::Commit | LandingDestination::Branch(_) => {
                            target_name(&location)
                        }
                    };
                    let text = format!("{changed} changed the same lines since this plan began");
                    let commits = commits.iter().map(ToString::to_string).collect();
                    let kind = ConstraintKind::Conflict;
                    return self.end_constrained(
                        plan.id(),
                        epoch,
                        (kind, text),
                        paths,
                        commits,
                        call,
                    );
                }
                ProposalOutcome::Blocked(obstacle) => {
                    return self.constrain_by_obstacle(plan.id(), epoch, &location, obstacle, call);
                }
            }
        }
        if moves.is_empty() {
            let text = format!(
                "{} already has every change of this plan",
                unchanged_targets.join(", ")
            );
            let kind = ConstraintKind::Conflict;
            return self.end_constrained(
                plan.id(),
                epoch,
                (kind, text),
                Vec::new(),
                Vec::new(),
                call,
            );
        }
        match self
            .lifecycle
            .landing()
            .prepare_apply(plan.id(), epoch, &moves, call)
        {
            Ok(done) => Ok(LandingStep::Completed(done)),
            // The result alone passed its rules; merged with the current target it does not.
            Err(LifecycleError::Blocked(blocked)) => {
                let failed = blocked.failed.iter();
                let failed =
                    failed.map(|one| format!("rule `{}` failed: {}", one.rule.name, one.evidence));
                let failed: Vec<String> = failed.collect();
                let text = format!("on the merged tree, {}", failed.join("; "));
                let kind = ConstraintKind::Gate;
                self.end_constrained(plan.id(), epoch, (kind, text), Vec::new(), Vec::new(), call)
            }
            Err(LifecycleError::Refused(refusal @ Refusal::ApprovalVoid(_))) => {
                let kind = ConstraintKind::ApprovalVoid;
                let text = refusal.to_string();
                self.end_constrained(plan.id(), epoch, (kind, text), Vec::new(), Vec::new(), call)
            }
            Err(error) => Err(error),
        }
    }

    /// The approved part of a resource's result: all of it, or the selected paths, if any match.
    fn approved_part(
        &self,
        plan: &Plan,
        sandbox_key: &SandboxKey<'_>,
        tree: &ResultTree,
        options: &LandingOptions,
    ) -> Result<Option<SandboxResult>, LifecycleError> {
        let whole = parse_result_tree(tree)?;
        if options.paths.is_empty() {
            return Ok(Some(whole));
        }
        match self
            .lifecycle
            .local_host()?
            .sandboxes
            .landings()
            .restrict_result(sandbox_key, &whole, &options.paths)
        {
            // With several resources, a path need not exist in each.
            Err(SandboxError::NoPathMatches { .. }) if plan.resources().len() > 1 => Ok(None),
            other => Ok(Some(other?)),
        }
    }

    /// Moves the targets as the intent says.
    fn move_targets(
        &self,
        plan: &Plan,
        epoch: Epoch,
        intent: &LandingIntent,
        call: &Call,
    ) -> Result<LandingStep, LifecycleError> {
        let sandboxes = &self.lifecycle.local_host()?.sandboxes;
        let mut kept = Vec::new();
        let mut outcomes = Vec::new();
        for step in &intent.moves {
            let location = self
                .lifecycle
                .projects()
                .locate_resource_named(plan, &step.resource)?;
            let sandbox_key = SandboxKey {
                plan_id: plan.id(),
                resource: &location,
            };
            let proposal = parse_proposal(step)?;
            let outcome =
                match sandboxes
                    .landings()
                    .land_proposal(&sandbox_key, epoch, &proposal)?
                {
                    LandAttempt::Landed { kept: saved } => {
                        kept.extend(saved);
                        TargetOutcome::Landed
                    }
                    LandAttempt::TargetMoved => TargetOutcome::Moved,
                    LandAttempt::Blocked(obstacle) => TargetOutcome::Obstructed(obstacle),
                    LandAttempt::Removed => TargetOutcome::Removed,
                };
            outcomes.push((step, location, outcome));
        }
        if let Some((step, location, _)) = outcomes
            .iter()
            .find(|(_, _, outcome)| matches!(outcome, TargetOutcome::Removed))
        {
            let question = format!(
                "The change landed on {} as {} and was removed afterwards. Does it count as landed, \
                 should it land again, or should it be dropped? Answer landed, again or drop.",
                target_name(location),
                &step.new[..step.new.len().min(10)],
            );
            let done = self.lifecycle.submit_command(
                plan.id(),
                AskPerson::new(epoch, question.clone(), None),
                call,
            )?;
            return Ok(LandingStep::Ended(LandingOutcome::NeedsAnswer(done)));
        }
        let landed_resources: Vec<String> = outcomes
            .iter()
            .filter(|(_, _, outcome)| matches!(outcome, TargetOutcome::Landed))
            .map(|(step, _, _)| step.resource.clone())
            .collect();
        if landed_resources.is_empty() {
            // No target has the change, so the intent can be withdrawn safely.
            self.lifecycle
                .submit_command(plan.id(), WithdrawApply { epoch }, call)?;
            let obstructed =
                outcomes
                    .into_iter()
                    .find_map(|(_, location, outcome)| match outcome {
                        TargetOutcome::Obstructed(obstacle) => Some((location, obstacle)),
                        TargetOutcome::Landed | TargetOutcome::Moved | TargetOutcome::Removed => {
                            None
                        }
                    });
            return match obstructed {
                Some((location, obstacle)) => {
                    self.constrain_by_obstacle(plan.id(), epoch, &location, obstacle, call)
                }
                None => Ok(LandingStep::Withdrawn),
            };
        }
        // Some targets have the change, so the landing counts. The others become a new plan.
        let rest = self.lifecycle.landing().build_remainder_plan(
            plan,
            &intent.moves,
            &landed_resources,
        )?;
        let rest_id = rest.as_ref().map(|rest| rest.id);
        let done = self.lifecycle.submit_command(
            plan.id(),
            CompleteApply::new(epoch, landed_resources, rest),
            call,
        )?;
        Ok(LandingStep::Ended(landed_outcome(done, kept, rest_id)))
    }

    fn constrain_by_obstacle(
        &self,
        plan_id: PlanId,
        epoch: Epoch,
        location: &LocalResource,
        obstacle: LandingObstacle,
        call: &Call,
    ) -> Result<LandingStep, LifecycleError> {
        let path = display_path(location);
        let (kind, text, paths) = match obstacle {
            LandingObstacle::LocalEdits(paths) => (
                ConstraintKind::LocalEdits,
                format!("{path} has local edits in paths this plan changes"),
                paths,
            ),
            LandingObstacle::InProgress(what) => (
                ConstraintKind::OperationInProgress,
                format!("a {what} is in progress in {path}"),
                Vec::new(),
            ),
        };
        self.end_constrained(plan_id, epoch, (kind, text), paths, Vec::new(), call)
    }

    fn end_constrained(
        &self,
        plan_id: PlanId,
        epoch: Epoch,
        (kind, text): (ConstraintKind, String),
        paths: Vec<TreePath>,
        commits: Vec<String>,
        call: &Call,
    ) -> Result<LandingStep, LifecycleError> {
        let constrain = ConstrainApply {
            epoch,
            kind,
            message: text,
            paths,
            commits,
        };
        let done = self.lifecycle.submit_for_plan(plan_id, constrain, call)?;
        Ok(LandingStep::Ended(LandingOutcome::Constrained(done)))
    }

    /// Removes the sandboxes and the refs that protected the landing. Best effort: a later cleanup removes
    /// what remains.
    fn clean_after_landing(&self, plan: &Plan) {
        if plan.policy().clean != SandboxCleanupPolicy::Manual {
            let _ = self.lifecycle.sandboxes().clean_sandboxes(plan);
        }
    }
}

fn parse_result_tree(tree: &ResultTree) -> Result<SandboxResult, LifecycleError> {
    Ok(SandboxResult {
        base: parse_object_id(&tree.base)?,
        tree: parse_object_id(&tree.tree)?,
    })
}

fn parse_proposal(step: &RefMove) -> Result<LandingProposal, LifecycleError> {
    Ok(LandingProposal {
        target: step.target.clone(),
        old: parse_object_id(&step.old)?,
        new: parse_object_id(&step.new)?,
        merged_with: parse_object_id(step.merge_parent())?,
    })
}

fn landed_outcome(
    done: OperationOutcome,
    kept: Vec<TreePath>,
    rest: Option<PlanId>,
) -> LandingOutcome {
    LandingOutcome::Landed {
        done,
        kept,
        rest,
        followed: false,
    }
}

/// Do the options differ from the approved ones? A prepared landing keeps its options.
fn needs_new_approval(plan: &Plan, options: &LandingOptions) -> bool {
    let approved = plan.valid_approval().map(|approval| &approval.options);
    approved != Some(options) && plan.has_targets() && !plan.is_prepared()
}

fn landing_method(options: &LandingOptions) -> sandbox::land::LandingMethod {
    match &options.shape {
        LandingDestination::Commit => sandbox::land::LandingMethod::Commit {
            merge: options.merge,
        },
        LandingDestination::Branch(name) => sandbox::land::LandingMethod::Branch(name.clone()),
        LandingDestination::Uncommitted => sandbox::land::LandingMethod::Uncommitted,
    }
}

fn display_path(location: &LocalResource) -> impl std::fmt::Display {
    location.location.path().display()
}

/// The name of the branch or directory, for messages.
fn target_name(location: &LocalResource) -> String {
    match &location.location {
        sandbox::ResourceLocation::Git { target, .. } => target
            .strip_prefix("refs/heads/")
            .unwrap_or(target)
            .to_owned(),
        sandbox::ResourceLocation::Dir { path } => path.display().to_string(),
    }
}
