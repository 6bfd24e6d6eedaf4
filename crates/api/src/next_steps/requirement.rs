//! What a step requires: the command that it submits first, checked by the rules that decide this command.

use std::collections::BTreeSet;

use plan::authority::check_authority;
use plan::command::{
    AnswerPermission, AnswerQuestion, ApplyPlan, ApproveResult, CancelPlan, ClaimPhase,
    ExecutePlan, LinkedPlan, ReclaimGrounds, ReclaimLease, RecordRuling, ResumeProject, RetryPhase,
    RevertPlan, ReviseWork, UndoLanding, WaiveRule,
};
use plan::decide::available_verbs;
use plan::judgement::{GateJudgement, PlanTargets, RuleOutcome};
use plan::stage::{ApplyState, ResultContent, WorkState};
use plan::{Caller, Command, Digest, LandingOptions, Phase, Plan, PlanStage, Span, Verb};

use super::NextStep;

/// What a step requires of the viewer and of the plan's stage.
enum StepRequirement {
    /// Everybody may look and wait.
    Nothing,
    /// It is no command on this plan, but a person decides it.
    Person,
    /// The caller must hold the plan, which its epoch proves.
    Holder(Verb),
    /// The command must be allowed to the viewer, and be possible now.
    Command(Box<Command>),
}

/// Returns whether the viewer may do it. Without a plan, as if somebody else had created it.
pub(super) fn is_authorized(step: &NextStep, viewer: &Caller, plan: Option<&Plan>) -> bool {
    match find_requirement(step, plan) {
        StepRequirement::Nothing | StepRequirement::Holder(_) => true,
        StepRequirement::Person => viewer.is_person(),
        StepRequirement::Command(command) => check_authority(&command, viewer, plan).is_ok(),
    }
}

/// Returns whether the plan's stage allows it.
pub(super) fn is_applicable(step: &NextStep, plan: &Plan) -> bool {
    let verb = match find_requirement(step, Some(plan)) {
        StepRequirement::Nothing | StepRequirement::Person => return true,
        StepRequirement::Holder(verb) => verb,
        StepRequirement::Command(command) => command.verb(),
    };
    let is_open = !plan.stage().is_final() && !plan.is_prepared();
    let is_held = plan.stage().holder().is_some();
    let retries_fresh = *step == NextStep::RetryFresh && is_open && !is_held;
    // The first five depend on more than the plan's stage, so `available_verbs` leaves them out.
    (verb == Verb::ResumeProject)
        || retries_fresh
        || (verb == Verb::Reclaim && is_held)
        || (verb == Verb::Waive && is_open)
        || (verb == Verb::RuleOn && is_open && !is_held)
        || available_verbs(plan).contains(&verb)
}

/// Finds the requirement of a step. The commands carry no texts, ids or judgements of the caller: these decide
/// neither who may submit a command nor in which stage.
fn find_requirement(step: &NextStep, plan: Option<&Plan>) -> StepRequirement {
    let command = match step {
        NextStep::Explain | NextStep::Diff | NextStep::ReadTranscript | NextStep::Wait => {
            return StepRequirement::Nothing;
        }
        NextStep::StartWorker | NextStep::RaiseBudget { .. } | NextStep::ApplyRest { .. } => {
            return StepRequirement::Person;
        }
        NextStep::HolderCommand { verb, .. } => return StepRequirement::Holder(*verb),
        NextStep::Run { phase } | NextStep::ClaimPhase { phase } => start_phase(*phase, plan),
        NextStep::FinishLanding => start_phase(Phase::Apply, plan),
        NextStep::EnterExecute => ExecutePlan {
            judgement: GateJudgement::default(),
        }
        .into(),
        NextStep::Reclaim => reclaim(),
        NextStep::Answer | NextStep::ResolveRemovedChange { .. } => AnswerQuestion {
            text: String::new(),
        }
        .into(),
        NextStep::AllowToolCall { request } => answer_permission(*request, true),
        NextStep::RejectToolCall { request } => answer_permission(*request, false),
        NextStep::ApproveRule { rule } | NextStep::RejectRule { rule } => RecordRuling {
            rule: rule.clone(),
            subject: Digest::default(),
            outcome: RuleOutcome::Held,
            targets: PlanTargets::default(),
        }
        .into(),
        NextStep::Waive { rule } => WaiveRule {
            rule: rule.clone(),
            reason: String::new(),
            targets: PlanTargets::default(),
        }
        .into(),
        NextStep::Apply { .. } | NextStep::ApplyToBranch => land(plan),
        NextStep::Retry | NextStep::RetryFresh | NextStep::RaiseLimits { .. } => RetryPhase {
            fresh: *step == NextStep::RetryFresh,
            limits: None,
        }
        .into(),
        NextStep::ResumeProject { project } => ResumeProject(project.clone()).into(),
        NextStep::Revise => ReviseWork {
            feedback: String::new(),
            comments: BTreeSet::new(),
            dropped: Vec::new(),
        }
        .into(),
        NextStep::Undo => UndoLanding(LinkedPlan {
            id: plan::PlanId::from_parts(0, 0),
            resources: Vec::new(),
            result: ResultContent::default(),
        })
        .into(),
        NextStep::Cancel => CancelPlan { reason: None }.into(),
    };
    StepRequirement::Command(Box::new(command))
}

/// Claims the phase, from a queue or from a holder that ended, or enters it.
fn start_phase(phase: Phase, plan: Option<&Plan>) -> Command {
    let stage = plan.map(Plan::stage);
    if stage.is_some_and(|stage| stage.holder().is_some()) {
        return reclaim();
    }
    if stage.is_some_and(|stage| stage.queue_entry().is_some()) {
        return ClaimPhase {
            phase,
            owner: String::new(),
            lease: Span::from_seconds(0),
            judgement: None,
        }
        .into();
    }
    if stage.is_some_and(|stage| matches!(stage, PlanStage::Execute(WorkState::Complete)))
        && phase == Phase::Execute
    {
        // The engine sends a result that fails its rules back by itself.
        return RevertPlan {
            reason: String::new(),
        }
        .into();
    }
    let judgement = GateJudgement::default();
    match phase {
        Phase::Apply => ApplyPlan { judgement }.into(),
        Phase::Strategize | Phase::Execute => ExecutePlan { judgement }.into(),
    }
}

/// Lands a result. Unless the profile lands it or it is in the queue already, it is approved first.
fn land(plan: Option<&Plan>) -> Command {
    let is_approved = plan.is_some_and(|plan| match plan.stage() {
        PlanStage::Apply(ApplyState::Constrained(_)) => false,
        PlanStage::Apply(_) => true,
        PlanStage::Strategize(_) | PlanStage::Execute(_) => plan.may_enter_apply_unattended(),
    });
    match is_approved {
        true => start_phase(Phase::Apply, plan),
        false => ApproveResult {
            options: LandingOptions::default(),
            targets: PlanTargets::default(),
            once: true,
            lands: false,
        }
        .into(),
    }
}

fn answer_permission(digest: Digest, allowed: bool) -> Command {
    AnswerPermission { digest, allowed }.into()
}

fn reclaim() -> Command {
    ReclaimLease {
        grounds: ReclaimGrounds::Expired,
    }
    .into()
}
