//! Applies events to plans. No other code changes a plan.

use std::collections::BTreeMap;

use crate::base::SandboxStartPoint;
use crate::event::{PlanCreated, RemovedChangeResolution};
use crate::judgement::PersonRuling;
use crate::plan::{Approval, RuleWaiver};
use crate::stage::{
    ApplyState, ConstraintKind, FailureCategory, LandingIntent, LeaseHolder, PlanEnding,
    PlanFailure, QueueEntry, WorkState,
};
use crate::{Epoch, Event, Phase, Plan, PlanStage, PlanVersion, RecordedEvent, SandboxPreparation};

/// The event does not fit the plan: the log is damaged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {version} (`{kind}`) does not follow {stage}")]
pub struct ReplayError {
    pub version: PlanVersion,
    pub kind: &'static str,
    /// The stage that the event does not fit.
    pub stage: String,
}

/// Returns the plan after one more event.
pub fn evolve(plan: Option<Plan>, recorded: &RecordedEvent) -> Result<Plan, ReplayError> {
    match (plan, &recorded.event) {
        (None, Event::Created(created)) => Ok(plan_from_created(created, recorded)),
        (None, _) => Err(replay_error(recorded, "nothing".to_owned())),
        (Some(mut plan), _) => {
            apply_event(&mut plan, recorded)?;
            Ok(plan)
        }
    }
}

/// Applies one event in place. After an error the plan may be partly changed and must be discarded.
pub(crate) fn apply_event(plan: &mut Plan, recorded: &RecordedEvent) -> Result<(), ReplayError> {
    if plan.version.next() != recorded.version || plan.id != recorded.plan {
        let found = format!("version {} of plan {}", plan.version, plan.id);
        return Err(replay_error(recorded, found));
    }
    apply_to_stage(plan, recorded).ok_or_else(|| replay_error(recorded, plan.stage.to_string()))?;
    plan.version = recorded.version;
    plan.updated_at = recorded.at;
    Ok(())
}

/// Builds a plan from its events. `None` if there are no events.
pub fn replay_events<'a>(
    events: impl IntoIterator<Item = &'a RecordedEvent>,
) -> Result<Option<Plan>, ReplayError> {
    events
        .into_iter()
        .try_fold(None, |plan, recorded| evolve(plan, recorded).map(Some))
}

fn replay_error(recorded: &RecordedEvent, stage: String) -> ReplayError {
    ReplayError {
        version: recorded.version,
        kind: recorded.event.kind(),
        stage,
    }
}

fn plan_from_created(created: &PlanCreated, recorded: &RecordedEvent) -> Plan {
    let (stage, phase) = match created.result {
        Some(_) => (PlanStage::Execute(WorkState::Complete), Phase::Execute),
        None => (
            PlanStage::queued_since(Phase::Strategize, recorded.at),
            Phase::Strategize,
        ),
    };
    Plan {
        id: recorded.plan,
        version: recorded.version,
        goal: created.goal.clone(),
        action: created.action.clone(),
        arguments: created.arguments.clone(),
        actors: created.actors.clone(),
        definitions: created.definitions.clone(),
        strategy_wanted: created.strategy_wanted,
        profile: created.profile,
        profile_source: created.profile_source,
        read_only: created.read_only,
        resources: created.resources.clone(),
        bases: created.bases.clone(),
        policy: created.policy.clone(),
        sandbox_preparation: SandboxPreparation::default(),
        limits: created.limits,
        origin: created.origin,
        stage,
        epoch: Epoch(0),
        attempt: 1,
        unattended_attempts: 1,
        entries: BTreeMap::from([(phase, 1)]),
        reversions: 0,
        automatic_reversions: 0,
        asked: false,
        decisions: 0,
        result: created.result.clone(),
        approval: None,
        landed: Vec::new(),
        unmet: Vec::new(),
        fixes: 0,
        waivers: Vec::new(),
        rulings: Vec::new(),
        created_at: recorded.at,
        created_by: recorded.by.clone(),
        updated_at: recorded.at,
    }
}

/// Returns `None` if the event does not fit the plan's stage; the stage is then unchanged.
fn apply_to_stage(plan: &mut Plan, recorded: &RecordedEvent) -> Option<()> {
    if plan.stage.is_final() {
        return None;
    }
    let at = recorded.at;
    let queued = QueueEntry {
        since: at,
        retry_at: None,
    };
    let phase = plan.phase();
    match &recorded.event {
        Event::Created(_) => return None,
        Event::ChangesetSealed { .. } => {}
        Event::DecisionsRecorded { decisions } | Event::GateHeld { decisions, .. } => {
            plan.decisions += u32::try_from(decisions.len()).ok()?;
        }
        Event::Claimed {
            phase: claimed,
            owner,
            epoch,
            asked,
        } => {
            if *claimed != phase || *epoch <= plan.epoch {
                return None;
            }
            plan.stage.queue_entry()?;
            let holder = LeaseHolder {
                owner: owner.clone(),
                epoch: *epoch,
                since: at,
            };
            plan.stage = match &mut plan.stage {
                PlanStage::Strategize(_) => PlanStage::Strategize(WorkState::Processing(holder)),
                PlanStage::Execute(_) => PlanStage::Execute(WorkState::Processing(holder)),
                PlanStage::Apply(landing) => {
                    PlanStage::Apply(ApplyState::Processing(holder, take_intent(landing)))
                }
            };
            plan.epoch = *epoch;
            plan.asked |= asked;
        }
        Event::BasesRecorded { epoch, bases } => {
            if phase == Phase::Apply {
                return None;
            }
            require_held_by(plan, *epoch, phase)?;
            plan.bases.clone_from(bases);
            plan.sandbox_preparation = SandboxPreparation::default();
        }
        Event::StrategizeCompleted { epoch } => {
            require_held_by(plan, *epoch, Phase::Strategize)?;
            plan.stage = PlanStage::Strategize(WorkState::Complete);
        }
        Event::ExecuteEntered { asked } => {
            let PlanStage::Strategize(WorkState::Complete) = plan.stage else {
                return None;
            };
            plan.asked = *asked;
            // Strategize is read-only: discard anything it left in the sandbox.
            plan.set_sandbox_start(SandboxStartPoint::Base);
            enter_phase(plan, Phase::Execute, queued);
        }
        Event::ExecuteCompleted {
            epoch,
            result,
            unmet,
        } => {
            require_held_by(plan, *epoch, Phase::Execute)?;
            plan.stage = PlanStage::Execute(WorkState::Complete);
            plan.result = Some(result.clone());
            plan.unmet.clone_from(unmet);
            plan.approval = None;
        }
        Event::Approved {
            content,
            options,
            rules,
            tips,
            by_profile,
            once,
        } => {
            plan.approval = Some(Approval {
                content: *content,
                options: options.clone(),
                rules: rules.clone(),
                tips: tips.clone(),
                by_profile: *by_profile,
                once: *once,
                by: recorded.by.clone(),
                at,
            });
        }
        Event::ApplyEntered { asked } => {
            let PlanStage::Execute(WorkState::Complete) = plan.stage else {
                return None;
            };
            plan.asked = *asked;
            enter_phase(plan, Phase::Apply, queued);
        }
        Event::ApplyPrepared { epoch, intent } => {
            require_held_by(plan, *epoch, Phase::Apply)?;
            let PlanStage::Apply(ApplyState::Processing(_, prepared @ None)) = &mut plan.stage
            else {
                return None;
            };
            *prepared = Some(intent.clone());
        }
        Event::ApplyWithdrawn { epoch } => {
            require_held_by(plan, *epoch, Phase::Apply)?;
            let PlanStage::Apply(ApplyState::Processing(_, prepared @ Some(_))) = &mut plan.stage
            else {
                return None;
            };
            *prepared = None;
        }
        Event::Landed { epoch } => {
            require_held_by(plan, *epoch, Phase::Apply)?;
            let PlanStage::Apply(ApplyState::Processing(_, Some(intent))) = &mut plan.stage else {
                return None;
            };
            plan.landed = std::mem::take(&mut intent.moves);
            plan.stage = PlanStage::Apply(ApplyState::Applied(PlanEnding {
                at,
                by: recorded.by.clone(),
                reason: None,
            }));
        }
        Event::Constrained { constraint } => {
            require_held_by(plan, constraint.epoch, Phase::Apply)?;
            let PlanStage::Apply(ApplyState::Processing(_, None)) = plan.stage else {
                return None;
            };
            plan.stage = PlanStage::Apply(ApplyState::Constrained(constraint.clone()));
        }
        Event::Failed { failure } => {
            if plan.is_prepared() || failure.epoch < plan.epoch {
                return None;
            }
            plan.stage.holder()?;
            plan.epoch = failure.epoch;
            plan.stage = errored_stage(phase, failure.clone());
        }
        Event::RetryScheduled { retry_at } => {
            plan.stage.failure()?;
            plan.attempt += 1;
            plan.unattended_attempts += 1;
            plan.stage = PlanStage::queued_with_intent(
                phase,
                QueueEntry {
                    since: at,
                    retry_at: Some(*retry_at),
                },
                None,
            );
        }
        Event::Retried {
            limits,
            restarts_execute: Some(epoch),
            fresh: _,
        } => {
            let has_ended = match &plan.stage {
                PlanStage::Execute(work) => matches!(work, WorkState::Complete),
                PlanStage::Apply(landing) => {
                    matches!(landing, ApplyState::Errored(_) | ApplyState::Constrained(_))
                }
                PlanStage::Strategize(_) => false,
            };
            if !has_ended || plan.is_prepared() || *epoch <= plan.epoch {
                return None;
            }
            plan.epoch = *epoch;
            plan.approval = None;
            plan.result = None;
            plan.unmet.clear();
            plan.fixes = 0;
            plan.limits = *limits;
            plan.asked = true;
            plan.set_sandbox_start(SandboxStartPoint::Afresh);
            enter_phase(plan, Phase::Execute, queued);
        }
        Event::Retried {
            fresh,
            limits,
            restarts_execute: None,
        } => {
            let constrained = matches!(plan.stage, PlanStage::Apply(ApplyState::Constrained(_)));
            if !constrained {
                plan.stage.failure()?;
            }
            plan.attempt += 1;
            plan.unattended_attempts = 1;
            plan.limits = *limits;
            plan.asked = true;
            if *fresh {
                plan.set_sandbox_start(SandboxStartPoint::Afresh);
            }
            plan.stage = PlanStage::queued_with_intent(phase, queued, None);
        }
        Event::Asked { question } => {
            require_held_by(plan, question.epoch, phase)?;
            let question = question.clone();
            plan.stage = match &mut plan.stage {
                PlanStage::Strategize(_) => {
                    PlanStage::Strategize(WorkState::AwaitingInput(question))
                }
                PlanStage::Execute(_) => PlanStage::Execute(WorkState::AwaitingInput(question)),
                PlanStage::Apply(landing) => {
                    PlanStage::Apply(ApplyState::AwaitingInput(question, take_intent(landing)))
                }
            };
        }
        Event::Answered { fate, .. } => {
            plan.stage.question()?;
            let intent = plan.stage.intent().cloned();
            let intent = match (intent, fate) {
                (Some(mut intent), Some(RemovedChangeResolution::Landed)) => {
                    intent.vouched = Some(recorded.by.clone());
                    Some(intent)
                }
                (Some(_), Some(RemovedChangeResolution::Again | RemovedChangeResolution::Drop)) => {
                    None
                }
                (None, None) => None,
                (Some(_), None) | (None, Some(_)) => return None,
            };
            plan.unattended_attempts = 1;
            plan.stage = PlanStage::queued_with_intent(phase, queued, intent);
        }
        Event::QuestionExpired => {
            let question = plan.stage.question()?;
            if plan.is_prepared() {
                return None;
            }
            let failure = PlanFailure {
                category: FailureCategory::Unanswered,
                // Replay must rebuild the same plan: never change this text.
                message: format!("nobody answered: {}", question.text.first_line()).into(),
                epoch: plan.epoch,
                at,
            };
            plan.stage = errored_stage(phase, failure);
        }
        Event::Revised {
            to,
            epoch,
            dropped,
            automatic,
            feedback: _,
        } => {
            if plan.is_prepared() || *epoch <= plan.epoch {
                return None;
            }
            plan.epoch = *epoch;
            plan.approval = None;
            plan.fixes = if *automatic { plan.fixes + 1 } else { 0 };
            plan.unmet.clear();
            plan.asked = recorded.by.is_person();
            // Keep paths that an earlier revision dropped and that no holder has restored yet.
            let newly_dropped = dropped
                .iter()
                .filter(|path| !plan.sandbox_preparation.dropped.contains(path));
            let newly_dropped: Vec<_> = newly_dropped.cloned().collect();
            plan.sandbox_preparation.dropped.extend(newly_dropped);
            plan.sandbox_preparation.catch_up |= is_merge_constraint(&plan.stage);
            enter_phase(plan, *to, queued);
        }
        Event::Reverted {
            epoch, automatic, ..
        } => {
            if plan.is_prepared() || *epoch <= plan.epoch {
                return None;
            }
            plan.epoch = *epoch;
            plan.approval = None;
            plan.result = None;
            plan.unmet.clear();
            plan.fixes = 0;
            plan.reversions += 1;
            plan.automatic_reversions += u32::from(*automatic);
            plan.asked = recorded.by.is_person();
            plan.set_sandbox_start(SandboxStartPoint::Afresh);
            enter_phase(plan, Phase::Strategize, queued);
        }
        Event::Released { epoch } => {
            require_held_by(plan, *epoch, phase)?;
            plan.stage = PlanStage::queued_with_intent(phase, queued, plan.stage.intent().cloned());
        }
        Event::Reclaimed { epoch, .. } => {
            plan.stage.holder()?;
            if *epoch <= plan.epoch {
                return None;
            }
            plan.epoch = *epoch;
            plan.attempt += 1;
            plan.unattended_attempts += 1;
            plan.stage = PlanStage::queued_with_intent(phase, queued, plan.stage.intent().cloned());
        }
        Event::Waived { rule, reason } => {
            plan.waivers.push(RuleWaiver {
                rule: rule.clone(),
                by: recorded.by.clone(),
                reason: reason.clone(),
                at,
            });
        }
        Event::RuledOn {
            rule,
            subject,
            outcome,
        } => {
            let same = |ruling: &PersonRuling| ruling.rule == *rule && ruling.subject == *subject;
            plan.rulings.retain(|ruling| !same(ruling));
            plan.rulings.push(PersonRuling {
                rule: rule.clone(),
                subject: *subject,
                outcome: outcome.clone(),
                by: recorded.by.clone(),
                at,
            });
        }
        Event::Cancelled { epoch, reason } => {
            if plan.is_prepared() || *epoch <= plan.epoch {
                return None;
            }
            plan.epoch = *epoch;
            let ending = PlanEnding {
                at,
                by: recorded.by.clone(),
                reason: reason.clone(),
            };
            plan.stage = match phase {
                Phase::Strategize => PlanStage::Strategize(WorkState::Cancelled(ending)),
                Phase::Execute => PlanStage::Execute(WorkState::Cancelled(ending)),
                Phase::Apply => PlanStage::Apply(ApplyState::Cancelled(ending)),
            };
        }
    }
    Some(())
}

fn enter_phase(plan: &mut Plan, phase: Phase, queued: QueueEntry) {
    *plan.entries.entry(phase).or_insert(0) += 1;
    plan.attempt = 1;
    plan.unattended_attempts = 1;
    plan.stage = PlanStage::queued_with_intent(phase, queued, None);
}

/// Returns whether the result failed only after merging with its target. The next run then merges
/// the target first.
fn is_merge_constraint(stage: &PlanStage) -> bool {
    match stage {
        PlanStage::Apply(ApplyState::Constrained(constraint)) => match constraint.kind {
            ConstraintKind::Conflict | ConstraintKind::Gate => true,
            ConstraintKind::LocalEdits
            | ConstraintKind::OperationInProgress
            | ConstraintKind::ApprovalVoid => false,
        },
        PlanStage::Strategize(_) | PlanStage::Execute(_) | PlanStage::Apply(_) => false,
    }
}

fn require_held_by(plan: &Plan, epoch: Epoch, phase: Phase) -> Option<()> {
    (plan.phase() == phase && plan.stage.holder()?.epoch == epoch).then_some(())
}

fn errored_stage(phase: Phase, failure: PlanFailure) -> PlanStage {
    match phase {
        Phase::Strategize => PlanStage::Strategize(WorkState::Errored(failure)),
        Phase::Execute => PlanStage::Execute(WorkState::Errored(failure)),
        Phase::Apply => PlanStage::Apply(ApplyState::Errored(failure)),
    }
}

fn take_intent(landing: &mut ApplyState) -> Option<LandingIntent> {
    match landing {
        ApplyState::Queued(_, intent)
        | ApplyState::Processing(_, intent)
        | ApplyState::AwaitingInput(_, intent) => intent.take(),
        ApplyState::Errored(_)
        | ApplyState::Constrained(_)
        | ApplyState::Applied(_)
        | ApplyState::Cancelled(_) => None,
    }
}
