//! Lists the steps of a plan by its stage, and keeps those that the viewer can take.

use lifecycle::{ClaimObstacle, Lifecycle, LifecycleError};
use plan::decide::{EngineStep, available_verbs, next_engine_step};
use plan::event::RemovedChangeResolution;
use plan::invariant::Gate;
use plan::judgement::{FailedRule, PendingVerdictReason};
use plan::landing_options::LandingDestination;
use plan::ledger::{AccountName, BudgetShortfall, BudgetUnit};
use plan::plan::ResultRemedy;
use plan::stage::{ApplyState, ConstraintKind, LandingConstraint, WorkState};
use plan::{Caller, Phase, Plan, PlanStage, Timestamp, Verb};
use store::PlanRow;

use super::requirement::{is_applicable, is_authorized};
use super::{NextStep, RaisedLimit, is_workable};
use crate::derived_plans::{DerivedPlans, find_derived_plans};
use crate::landing::default_landing_options;
use crate::plans;

/// A time after every retry delay: a step is offered although a worker still has to wait for it.
const AFTER_EVERY_DELAY: Timestamp = Timestamp(i64::MAX);

/// What is known about the rules of the gate before the plan.
#[derive(Debug, Clone, Copy)]
pub(super) enum RuleFindings<'a> {
    /// Only what was stored when the gate was last judged.
    Stored,
    /// The rules that fail now.
    Judged(&'a [FailedRule]),
}

/// What decides which steps a plan has for a viewer.
pub(super) struct StepOffer<'a> {
    row: &'a PlanRow,
    viewer: &'a Caller,
    obstacle: Option<ClaimObstacle>,
    findings: RuleFindings<'a>,
    /// The holder ended without releasing the plan.
    is_interrupted: bool,
    /// The engine can run its agents.
    is_workable: bool,
    /// Limits of the plan that leave nothing for another run.
    spent_limits: Vec<RaisedLimit>,
    /// The same, for the budget of all plans.
    spent_budget: Vec<RaisedLimit>,
    has_transcript: bool,
    derived: DerivedPlans,
    can_undo: bool,
    /// The private repository with the result was deleted.
    is_result_missing: bool,
}

impl<'a> StepOffer<'a> {
    pub fn new(
        lifecycle: &Lifecycle,
        row: &'a PlanRow,
        viewer: &'a Caller,
        obstacle: Option<ClaimObstacle>,
        findings: RuleFindings<'a>,
    ) -> Result<Self, LifecycleError> {
        let mut offer = Self {
            row,
            viewer,
            obstacle,
            findings,
            is_interrupted: plans::is_interrupted(lifecycle, row)?,
            is_workable: is_workable(&row.plan),
            spent_limits: Vec::new(),
            spent_budget: Vec::new(),
            has_transcript: false,
            derived: find_derived_plans(lifecycle, row)?,
            can_undo: false,
            is_result_missing: is_result_missing(lifecycle, &row.plan),
        };
        match row.plan.stage() {
            PlanStage::Strategize(WorkState::Errored(_))
            | PlanStage::Execute(WorkState::Errored(_)) => {
                offer.has_transcript = has_transcript(lifecycle, &row.plan);
                offer.read_spent_limits(lifecycle)?;
            }
            PlanStage::Apply(ApplyState::Applied(_)) => {
                offer.can_undo = offer.derived.undone_by.is_none()
                    && !landed_on_new_branch(&row.plan)
                    && has_all_resources(lifecycle, &row.plan)?;
            }
            PlanStage::Strategize(_) | PlanStage::Execute(_) | PlanStage::Apply(_) => {}
        }
        Ok(offer)
    }

    /// Adds the budget that a queued plan waits for, unless it becomes free by itself.
    pub fn add_shortfall(&mut self, shortfall: Option<&BudgetShortfall>) {
        let Some(over) = shortfall.filter(|over| over.is_spent()) else {
            return;
        };
        if over.account == AccountName::Global {
            let raised = RaisedLimit::new(over.unit, over.spent, over.limit);
            self.spent_budget.push(raised);
        }
    }

    pub fn list_steps(&self) -> Vec<NextStep> {
        let plan = &self.row.plan;
        let mut steps: Vec<NextStep> = Vec::new();
        for step in self.list_candidates() {
            if is_applicable(&step, plan)
                && is_authorized(&step, self.viewer, Some(plan))
                && self.is_allowed_by_profile(&step)
                && !steps.contains(&step)
            {
                steps.push(step);
            }
        }
        steps
    }

    fn list_candidates(&self) -> Vec<NextStep> {
        if self.is_result_missing {
            return vec![NextStep::RetryFresh, NextStep::Cancel];
        }
        match self.row.plan.stage() {
            PlanStage::Strategize(work) => self.steps_for_work(work, Phase::Strategize),
            PlanStage::Execute(WorkState::Complete) => self.steps_for_result(),
            PlanStage::Execute(work) => self.steps_for_work(work, Phase::Execute),
            PlanStage::Apply(landing) => self.steps_for_landing(landing),
        }
    }

    fn steps_for_work(&self, work: &WorkState, phase: Phase) -> Vec<NextStep> {
        let mut steps = Vec::new();
        match work {
            WorkState::Queued(_) => {
                steps.extend(self.steps_for_rules());
                steps.extend(self.steps_to_start(phase));
                steps.push(NextStep::Cancel);
            }
            WorkState::Processing(_) => {
                if self.is_interrupted && self.is_workable {
                    steps.push(NextStep::Run { phase });
                } else if self.is_interrupted {
                    steps.push(NextStep::Reclaim);
                }
                steps.extend(self.steps_while_held());
            }
            WorkState::AwaitingInput(_) => {
                steps.extend([NextStep::Answer, NextStep::Revise, NextStep::Cancel]);
            }
            // Only strategize gets here: a result is reviewed.
            WorkState::Complete => {
                steps.extend(self.steps_for_rules());
                match self.is_workable {
                    true => steps.push(NextStep::Run {
                        phase: Phase::Execute,
                    }),
                    false => steps.push(NextStep::EnterExecute),
                }
                steps.extend(self.steps_to_leave_to_worker());
                steps.extend([NextStep::Revise, NextStep::Cancel]);
            }
            WorkState::Errored(_) => {
                steps.extend(self.steps_to_retry());
                if self.has_transcript {
                    steps.push(NextStep::ReadTranscript);
                }
                steps.extend([NextStep::Revise, NextStep::Cancel]);
            }
            WorkState::Cancelled(_) => {}
        }
        steps
    }

    /// Starts a queued phase, after what keeps it from starting.
    fn steps_to_start(&self, phase: Phase) -> Vec<NextStep> {
        let mut steps = Vec::new();
        for limit in &self.spent_budget {
            steps.push(NextStep::RaiseBudget { limit: *limit });
        }
        match &self.obstacle {
            Some(ClaimObstacle::ProjectPaused { project, .. }) => {
                steps.push(NextStep::ResumeProject {
                    project: project.clone(),
                });
            }
            // Nothing that can be done to the plan helps.
            Some(ClaimObstacle::ProjectDeleted(_) | ClaimObstacle::Host(_)) => {
                steps.extend(self.step_to_explain());
            }
            None if phase == Phase::Apply => {
                steps.push(self.apply());
                steps.extend(self.steps_to_leave_to_worker());
            }
            None if self.is_workable => {
                steps.push(NextStep::Run { phase });
                steps.extend(self.steps_to_leave_to_worker());
            }
            None => {
                steps.extend(self.step_to_explain());
                steps.push(NextStep::ClaimPhase { phase });
            }
        }
        steps
    }

    /// For a plan that goes on without a person, once a worker takes it.
    fn steps_to_leave_to_worker(&self) -> Vec<NextStep> {
        match self.row.needs_person() {
            true => Vec::new(),
            false => vec![NextStep::StartWorker, NextStep::Wait],
        }
    }

    fn steps_while_held(&self) -> Vec<NextStep> {
        let mut steps = Vec::new();
        let question = self.row.plan.stage().open_permission();
        // Nobody waits for the answer if the holder's process ended.
        if let Some(question) = question.filter(|_| !self.is_interrupted) {
            let request = question.digest;
            steps.push(NextStep::AllowToolCall { request });
            steps.push(NextStep::RejectToolCall { request });
        }
        if !self.is_workable {
            let epoch = self.row.plan.epoch();
            let verbs = available_verbs(&self.row.plan).into_iter();
            let commands = verbs.filter(|verb| is_holder_verb(*verb));
            steps.extend(commands.map(|verb| NextStep::HolderCommand { verb, epoch }));
        }
        if !self.is_interrupted && question.is_none() {
            steps.push(NextStep::Wait);
        }
        steps.push(NextStep::Cancel);
        steps
    }

    fn steps_for_result(&self) -> Vec<NextStep> {
        let plan = &self.row.plan;
        let mut steps = self.steps_for_rules();
        let mut landing = vec![self.apply()];
        if plan.has_targets() {
            landing.push(NextStep::Diff);
        }
        if plan.automatic_remedy().is_some() {
            if self.is_workable {
                let phase = Phase::Execute;
                steps.push(NextStep::Run { phase });
            }
            steps.extend(self.steps_to_leave_to_worker());
        }
        match steps.is_empty() {
            true => {
                steps.extend(landing);
                steps.extend(self.steps_to_leave_to_worker());
                steps.push(NextStep::Revise);
            }
            // It lands only after something else has changed. Mending it comes before waiving its rules.
            false => {
                let is_waiver = |step: &NextStep| matches!(step, NextStep::Waive { .. });
                let (waivers, others) = steps.into_iter().partition(is_waiver);
                steps = others;
                steps.push(NextStep::Revise);
                steps.extend::<Vec<NextStep>>(waivers);
                if let RuleFindings::Judged(_) = self.findings {
                    landing.remove(0);
                }
                steps.extend(landing.into_iter().rev());
            }
        }
        steps.push(NextStep::Cancel);
        steps
    }

    fn steps_for_landing(&self, landing: &ApplyState) -> Vec<NextStep> {
        let mut steps = Vec::new();
        match landing {
            ApplyState::Queued(_, Some(_)) => {
                steps.push(NextStep::FinishLanding);
                steps.extend(self.steps_to_leave_to_worker());
            }
            ApplyState::Queued(_, None) => {
                steps.extend(self.steps_to_start(Phase::Apply));
                steps.extend([NextStep::Revise, NextStep::Cancel]);
            }
            ApplyState::Processing(_, intent) => {
                match (self.is_interrupted, intent) {
                    (true, Some(_)) => steps.push(NextStep::FinishLanding),
                    (true, None) => steps.push(self.apply()),
                    (false, _) => {}
                }
                steps.extend(self.steps_while_held());
            }
            ApplyState::AwaitingInput(_, Some(_)) => steps.extend(
                [
                    RemovedChangeResolution::Landed,
                    RemovedChangeResolution::Again,
                    RemovedChangeResolution::Drop,
                ]
                .map(|resolution| NextStep::ResolveRemovedChange { resolution }),
            ),
            ApplyState::AwaitingInput(_, None) => {
                steps.extend([NextStep::Answer, NextStep::Revise, NextStep::Cancel]);
            }
            ApplyState::Errored(_) => {
                steps.extend([NextStep::Retry, NextStep::Revise, NextStep::Cancel]);
            }
            ApplyState::Constrained(constraint) => {
                steps.extend(self.steps_for_constraint(constraint));
            }
            ApplyState::Applied(_) => {
                if let Some(plan_id) = self.derived.rest {
                    steps.push(NextStep::ApplyRest { plan_id });
                }
                if self.can_undo {
                    steps.push(NextStep::Undo);
                }
            }
            ApplyState::Cancelled(_) => {}
        }
        steps
    }

    fn steps_for_constraint(&self, constraint: &LandingConstraint) -> Vec<NextStep> {
        let mut steps = self.steps_for_rules();
        match constraint.kind {
            // Without paths, the target already has every change.
            ConstraintKind::Conflict if constraint.paths.is_empty() => {
                return vec![NextStep::Cancel, NextStep::Revise];
            }
            // Landing it in the same form again fails the same way, unless the target changes.
            ConstraintKind::Conflict => {
                let again = NextStep::Apply { options: None };
                steps.extend([NextStep::Revise, NextStep::Diff, again, NextStep::Cancel]);
                return steps;
            }
            ConstraintKind::Gate => {
                steps.push(NextStep::Revise);
                steps.extend(self.steps_for_merged_result());
                steps.push(NextStep::Diff);
            }
            ConstraintKind::LocalEdits | ConstraintKind::OperationInProgress => {
                steps.push(self.apply());
                if self.can_land_on_branch() {
                    steps.push(NextStep::ApplyToBranch);
                }
                steps.extend([NextStep::Diff, NextStep::Revise]);
            }
            ConstraintKind::ApprovalVoid => {
                steps.extend([self.apply(), NextStep::Diff, NextStep::Revise]);
            }
        }
        steps.extend([self.apply(), NextStep::Cancel]);
        steps
    }

    /// What helps against the rules that block the plan now.
    fn steps_for_rules(&self) -> Vec<NextStep> {
        match self.findings {
            RuleFindings::Judged(failed) => failed.iter().flat_map(steps_for_failed_rule).collect(),
            RuleFindings::Stored if self.row.is_blocked() => {
                let verdict = self.row.current_verdict();
                let failed = verdict.into_iter().flat_map(|verdict| &verdict.failed);
                let mut steps = vec![NextStep::Explain];
                steps.extend(failed.flat_map(steps_for_failed_rule));
                steps
            }
            RuleFindings::Stored => Vec::new(),
        }
    }

    /// What helps against the rules that failed on the result merged with its target. Their verdict was stored
    /// just before the plan was constrained.
    fn steps_for_merged_result(&self) -> Vec<NextStep> {
        let verdict = self.row.verdict.as_ref().filter(|verdict| {
            verdict.gate == Gate::Apply && verdict.version.next() == self.row.plan.version()
        });
        let failed = verdict.into_iter().flat_map(|verdict| &verdict.failed);
        failed.flat_map(steps_for_failed_rule).collect()
    }

    fn steps_to_retry(&self) -> Vec<NextStep> {
        let mut steps: Vec<NextStep> = self
            .spent_budget
            .iter()
            .map(|limit| NextStep::RaiseBudget { limit: *limit })
            .collect();
        steps.push(match self.spent_limits.is_empty() {
            true => NextStep::Retry,
            false => NextStep::RaiseLimits {
                limits: self.spent_limits.clone(),
            },
        });
        steps
    }

    /// After a diagnosis there is nothing left to explain.
    fn step_to_explain(&self) -> Option<NextStep> {
        match self.findings {
            RuleFindings::Stored => Some(NextStep::Explain),
            RuleFindings::Judged(_) => None,
        }
    }

    /// Lands it as it was approved, even if that approval was for one landing that failed.
    fn apply(&self) -> NextStep {
        let plan = &self.row.plan;
        let approved = plan.valid_approval();
        let approved = approved.filter(|_| plan.phase() == Phase::Apply);
        let options = approved.map(|approval| &approval.options);
        let options = options.filter(|options| *options != default_landing_options(plan));
        NextStep::Apply {
            options: options.cloned(),
        }
    }

    fn can_land_on_branch(&self) -> bool {
        let mut resources = self.row.plan.resources().iter();
        resources.any(|resource| resource.target.is_some())
    }

    /// Returns whether the plan's profile lets a worker take the step. People need no permission of a profile;
    /// agents have none of these steps.
    fn is_allowed_by_profile(&self, step: &NextStep) -> bool {
        if !self.viewer.is_worker() {
            return true;
        }
        let plan = &self.row.plan;
        let engine_step = next_engine_step(plan, self.viewer, AFTER_EVERY_DELAY);
        match step {
            // A dead holder's lease can be taken under every profile.
            NextStep::Run { .. } | NextStep::Apply { .. } if self.is_interrupted => true,
            NextStep::Run { .. }
            | NextStep::ClaimPhase { .. }
            | NextStep::EnterExecute
            | NextStep::Apply { .. } => match engine_step {
                EngineStep::Claim(_) | EngineStep::Enter(_) | EngineStep::Remedy(_) => true,
                EngineStep::ExpireQuestion | EngineStep::Idle(_) => false,
            },
            NextStep::Revise => engine_step == EngineStep::Remedy(ResultRemedy::Fix),
            NextStep::Explain
            | NextStep::Diff
            | NextStep::ReadTranscript
            | NextStep::Wait
            | NextStep::StartWorker
            | NextStep::HolderCommand { .. }
            | NextStep::Reclaim
            | NextStep::Answer
            | NextStep::AllowToolCall { .. }
            | NextStep::RejectToolCall { .. }
            | NextStep::ResolveRemovedChange { .. }
            | NextStep::ApproveRule { .. }
            | NextStep::RejectRule { .. }
            | NextStep::Waive { .. }
            | NextStep::ApplyToBranch
            | NextStep::FinishLanding
            | NextStep::ApplyRest { .. }
            | NextStep::Retry
            | NextStep::RetryFresh
            | NextStep::RaiseLimits { .. }
            | NextStep::RaiseBudget { .. }
            | NextStep::ResumeProject { .. }
            | NextStep::Undo
            | NextStep::Cancel => true,
        }
    }

    /// Finds the limits that refuse a retry, and the budget that leaves nothing for it.
    fn read_spent_limits(&mut self, lifecycle: &Lifecycle) -> Result<(), LifecycleError> {
        let (limits, budget) = (self.row.plan.limits(), lifecycle.budget());
        let is_limited =
            |unit: BudgetUnit| limits.limit_for(unit).is_some() || budget.limit_for(unit).is_some();
        if !BudgetUnit::ALL.into_iter().any(is_limited) {
            return Ok(());
        }
        let ledger = lifecycle.budgets().read_ledger(self.row.plan.id())?;
        for unit in BudgetUnit::ALL {
            let spent = ledger.plan.settled.in_unit(unit);
            let limit = limits.limit_for(unit).filter(|limit| spent >= *limit);
            let raised = limit.map(|limit| RaisedLimit::new(unit, spent, limit));
            self.spent_limits.extend(raised);
            let spent = ledger.global.settled.in_unit(unit);
            let limit = budget.limit_for(unit).filter(|limit| spent >= *limit);
            let raised = limit.map(|limit| RaisedLimit::new(unit, spent, limit));
            self.spent_budget.extend(raised);
        }
        Ok(())
    }
}

/// What helps against one rule: a person's answer if it waits for one, otherwise a waiver if it allows any.
pub(super) fn steps_for_failed_rule(failed: &FailedRule) -> Vec<NextStep> {
    let rule = failed.rule.name.clone();
    match failed.waits {
        Some(PendingVerdictReason::Person) => vec![
            NextStep::ApproveRule { rule: rule.clone() },
            NextStep::RejectRule { rule },
        ],
        Some(PendingVerdictReason::Check) | None if failed.waivable => {
            vec![NextStep::Waive { rule }]
        }
        Some(PendingVerdictReason::Check) | None => Vec::new(),
    }
}

/// Is this a command that only the holder submits, under its epoch?
fn is_holder_verb(verb: Verb) -> bool {
    matches!(
        verb,
        Verb::CompleteStrategize
            | Verb::CompleteExecute
            | Verb::CompleteApply
            | Verb::PrepareApply
            | Verb::WithdrawApply
            | Verb::Constrain
            | Verb::Release
            | Verb::Fail
            | Verb::Ask
    )
}

/// Was the result deleted that a person is to land? Only the work itself can make it again.
pub(crate) fn is_result_missing(lifecycle: &Lifecycle, plan: &Plan) -> bool {
    let awaits_landing = match plan.stage() {
        PlanStage::Execute(WorkState::Complete)
        | PlanStage::Apply(ApplyState::Errored(_) | ApplyState::Constrained(_)) => {
            !plan.is_prepared()
        }
        PlanStage::Strategize(_) | PlanStage::Execute(_) | PlanStage::Apply(_) => false,
    };
    awaits_landing && lifecycle.landing().is_result_missing(plan)
}

/// Is there a transcript of any of its runs on this host? An agent that failed to start leaves none.
fn has_transcript(lifecycle: &Lifecycle, plan: &Plan) -> bool {
    let Ok(local_host) = lifecycle.local_host() else {
        return false;
    };
    let runs = local_host.sandboxes.runs().list_runs(plan.id());
    runs.is_ok_and(|runs| runs.iter().any(|run| run.transcript_path().exists()))
}

/// Did it land on a branch of its own? That branch is deleted with git instead of being undone.
fn landed_on_new_branch(plan: &Plan) -> bool {
    plan.approval()
        .is_some_and(|approval| matches!(approval.options.shape, LandingDestination::Branch(_)))
}

/// Do all projects of the plan still have its resources? An undo plan needs them.
fn has_all_resources(lifecycle: &Lifecycle, plan: &Plan) -> Result<bool, LifecycleError> {
    for wanted in plan.resources() {
        let project = lifecycle.store().read_project(&wanted.project)?;
        let resources = project.iter().flat_map(|project| &project.resources);
        if !resources.into_iter().any(|one| one.name == wanted.resource) {
            return Ok(false);
        }
    }
    Ok(true)
}
