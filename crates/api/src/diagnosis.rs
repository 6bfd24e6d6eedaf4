//! Explains why a plan does not move, as typed reasons.

use lifecycle::{ClaimObstacle, GateStatus, Lifecycle, LifecycleError, PlanDiagnosis};
use plan::stage::{ApplyState, LeaseHolder, PlanEnding, PlanFailure, PlanQuestion, WorkState};
use plan::takeover::HolderLiveness;
use plan::{Caller, PlanId, PlanStage, Timestamp};

use crate::next_steps::{is_result_missing, next_steps_after_diagnosis};
use crate::view::{
    DiagnosisReason, HolderStatus, PermissionView, PlanDiagnosisView, QuestionView, RuleFindingView,
};

/// Says what a plan waits for, and what the viewer can do about it. Judges its rules by stored evidence; runs no
/// commands and writes nothing.
pub fn diagnose_plan(
    lifecycle: &Lifecycle,
    plan_id: PlanId,
    viewer: &Caller,
) -> Result<PlanDiagnosisView, LifecycleError> {
    let diagnosis = lifecycle.diagnose_plan(plan_id)?;
    let now = lifecycle.store().now()?;
    let next_steps = next_steps_after_diagnosis(lifecycle, &diagnosis, viewer)?;
    let plan = &diagnosis.row.plan;
    let mut reasons = Vec::new();
    if is_result_missing(lifecycle, plan) {
        // Whether it may land does not matter any more.
        reasons.push(DiagnosisReason::ResultMissing);
    } else {
        reasons.push(find_state_reason(&diagnosis, now));
        reasons.extend(diagnosis.gate.iter().flat_map(list_gate_reasons));
        reasons.extend(find_manual_landing(&diagnosis));
    }
    Ok(PlanDiagnosisView {
        plan_id,
        phase: plan.phase(),
        state: plan.stage().state_name().as_str(),
        reasons,
        next_steps,
        gate: diagnosis.gate.map(Into::into),
        options: diagnosis.options,
    })
}

/// The first reason that holds, in the order in which a plan meets them.
fn find_state_reason(diagnosis: &PlanDiagnosis, now: Timestamp) -> DiagnosisReason {
    match diagnosis.row.plan.stage() {
        PlanStage::Strategize(work) | PlanStage::Execute(work) => match work {
            WorkState::Queued(_) => find_queue_reason(diagnosis, now),
            WorkState::Processing(holder) => describe_holder(diagnosis, holder, now),
            WorkState::AwaitingInput(question) => describe_question(question),
            WorkState::Complete => find_rest_reason(diagnosis),
            WorkState::Errored(failure) => describe_failure(failure),
            WorkState::Cancelled(ending) => describe_ending(ending),
        },
        PlanStage::Apply(landing) => match landing {
            ApplyState::Queued(..) => find_queue_reason(diagnosis, now),
            ApplyState::Processing(holder, _) => describe_holder(diagnosis, holder, now),
            ApplyState::AwaitingInput(question, _) => describe_question(question),
            ApplyState::Errored(failure) => describe_failure(failure),
            ApplyState::Constrained(constraint) => DiagnosisReason::Constrained {
                category: constraint.kind,
                message: constraint.message.to_string(),
                paths: constraint.paths.clone(),
                commits: constraint.commits.clone(),
            },
            ApplyState::Applied(ending) | ApplyState::Cancelled(ending) => describe_ending(ending),
        },
    }
}

fn describe_ending(ending: &PlanEnding) -> DiagnosisReason {
    DiagnosisReason::Ended {
        by: ending.by.to_string(),
        at: ending.at,
    }
}

fn describe_question(question: &PlanQuestion) -> DiagnosisReason {
    DiagnosisReason::QuestionOpen(QuestionView {
        text: question.text.to_string(),
        asked_at: question.asked_at,
        deadline: question.deadline,
    })
}

fn describe_failure(failure: &PlanFailure) -> DiagnosisReason {
    DiagnosisReason::Failed {
        category: failure.category,
        message: failure.message.to_string(),
        at: failure.at,
    }
}

fn describe_holder(
    diagnosis: &PlanDiagnosis,
    holder: &LeaseHolder,
    now: Timestamp,
) -> DiagnosisReason {
    let (owner, since) = (holder.owner.clone(), holder.since);
    let lease = diagnosis.row.lease.as_ref();
    let status = match diagnosis.holder_liveness {
        Some(HolderLiveness::Ended) => return DiagnosisReason::Interrupted { owner, since },
        Some(HolderLiveness::Running) => HolderStatus::Running,
        Some(HolderLiveness::Unknown) | None
            if lease.is_some_and(|lease| lease.expires_at < now) =>
        {
            HolderStatus::LeaseExpired
        }
        Some(HolderLiveness::Unknown) | None => HolderStatus::LeaseValid,
    };
    if let Some(request) = PermissionView::of_plan(&diagnosis.row.plan) {
        return DiagnosisReason::PermissionOpen(request);
    }
    DiagnosisReason::Held {
        owner,
        since,
        holder: status,
    }
}

fn find_queue_reason(diagnosis: &PlanDiagnosis, now: Timestamp) -> DiagnosisReason {
    let plan = &diagnosis.row.plan;
    let queued = plan.stage().queue_entry();
    if let Some(at) = queued.and_then(|queued| queued.retry_at)
        && at > now
    {
        return DiagnosisReason::RetryAt { at };
    }
    match diagnosis.obstacle.clone() {
        Some(ClaimObstacle::ProjectPaused { project, paused }) => {
            return DiagnosisReason::ProjectPaused {
                project,
                by: paused.by.to_string(),
                at: paused.at,
            };
        }
        Some(ClaimObstacle::ProjectDeleted(project)) => {
            return DiagnosisReason::ProjectDeleted { project };
        }
        Some(ClaimObstacle::Host(host)) => return DiagnosisReason::WaitingForHost { host },
        None => {}
    }
    if let Some(shortfall) = diagnosis.over_budget {
        return DiagnosisReason::OverBudget(shortfall);
    }
    if plan.needs_person() {
        return find_rest_reason(diagnosis);
    }
    let actor = plan.actor_for_phase(plan.phase());
    match actor.filter(|actor| plan.actor_definition(actor).is_none()) {
        Some(agent) => DiagnosisReason::WaitingForProgram {
            agent: agent.clone(),
        },
        None => DiagnosisReason::WaitingForWorker {
            plans_ahead: diagnosis.plans_ahead,
        },
    }
}

/// The reason of a plan that could go on at once, if its profile and its rules allow it.
fn find_rest_reason(diagnosis: &PlanDiagnosis) -> DiagnosisReason {
    let plan = &diagnosis.row.plan;
    if plan.needs_person() {
        let profile = plan.profile();
        return DiagnosisReason::ProfileNeedsPerson { profile };
    }
    let mut gates = diagnosis.gate.iter();
    match gates.find(|status| !status.failed_rules.is_empty()) {
        Some(status) => DiagnosisReason::GateClosed { gate: status.gate },
        None => DiagnosisReason::CanContinue,
    }
}

fn list_gate_reasons(status: &GateStatus) -> Vec<DiagnosisReason> {
    let gate = status.gate;
    let failed = status.failed_rules.iter();
    let blocks = failed.map(|rule| DiagnosisReason::RuleBlocks(RuleFindingView::new(gate, rule)));
    let advice = status.failed_advisories.iter();
    let warns = advice.map(|rule| DiagnosisReason::RuleWarns(RuleFindingView::new(gate, rule)));
    let is_open = status.failed_rules.is_empty();
    let open = is_open.then_some(DiagnosisReason::GateOpen {
        gate,
        counts: status.counts,
    });
    blocks.chain(warns).chain(open).collect()
}

/// The result is to be reviewed, although the profile lands others by itself.
fn find_manual_landing(diagnosis: &PlanDiagnosis) -> Option<DiagnosisReason> {
    let plan = &diagnosis.row.plan;
    let is_finished = matches!(plan.stage(), PlanStage::Execute(WorkState::Complete));
    if !is_finished || !plan.has_targets() {
        return None;
    }
    Some(DiagnosisReason::ManualLanding {
        profile: plan.profile(),
        cause: plan.manual_landing_reason()?,
    })
}
