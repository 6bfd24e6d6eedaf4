//! Applies events to plans. No other code changes a plan.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::{PickedTree, SandboxStartPoint};
use crate::event::{PlanCreated, RemovedChangeResolution};
use crate::judgement::PersonRuling;
use crate::permission_question::{PermissionAnswer, PermissionQuestion};
use crate::plan::{Approval, PlanLimits, PlanState, PlanTerms, RuleWaiver};
use crate::stage::{
    ApplyState, ConstraintKind, FailureCategory, LandingIntent, LeaseHolder, PlanEnding,
    PlanFailure, PlanQuestion, QueueEntry, ResultContent, UnpickedRest, WorkState,
};
use crate::{
    Caller, Epoch, Event, Phase, Plan, PlanStage, PlanVersion, RecordedEvent, SandboxPreparation,
};

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
    if plan.state.version.next() != recorded.version || plan.terms.id != recorded.plan {
        let found = format!("version {} of plan {}", plan.state.version, plan.terms.id);
        return Err(replay_error(recorded, found));
    }
    apply_to_stage(plan, recorded)
        .ok_or_else(|| replay_error(recorded, plan.state.stage.to_string()))?;
    plan.state.version = recorded.version;
    plan.state.updated_at = recorded.at;
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
    let terms = PlanTerms {
        id: recorded.plan,
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
        policy: created.policy.clone(),
        origin: created.origin,
        created_at: recorded.at,
        created_by: recorded.by.clone(),
    };
    let state = PlanState {
        version: recorded.version,
        bases: created.bases.clone(),
        sandbox_preparation: SandboxPreparation::default(),
        limits: created.limits,
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
        picked: false,
        rest: None,
        approval: None,
        landed: Vec::new(),
        unmet: Vec::new(),
        fixes: 0,
        waivers: Vec::new(),
        rulings: Vec::new(),
        updated_at: recorded.at,
    };
    Plan::from_parts(Arc::new(terms), state)
}

/// Returns `None` if the event does not fit the plan's stage; the stage is then unchanged.
fn apply_to_stage(plan: &mut Plan, recorded: &RecordedEvent) -> Option<()> {
    if plan.state.stage.is_final() {
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
            plan.state.decisions += u32::try_from(decisions.len()).ok()?;
        }
        Event::Claimed {
            phase: claimed,
            owner,
            epoch,
            asked,
        } => {
            let holder = LeaseHolder {
                owner: owner.clone(),
                epoch: *epoch,
                since: at,
                permission: None,
            };
            start_holding(plan, *claimed, holder)?;
            plan.state.asked |= asked;
        }
        Event::BasesRecorded { epoch, bases } => {
            if phase == Phase::Apply {
                return None;
            }
            require_held_by(plan, *epoch, phase)?;
            plan.state.bases.clone_from(bases);
            plan.state.sandbox_preparation = SandboxPreparation::default();
        }
        Event::StrategizeCompleted { epoch } => {
            require_held_by(plan, *epoch, Phase::Strategize)?;
            plan.state.stage = PlanStage::Strategize(WorkState::Complete);
        }
        Event::ExecuteEntered { asked } => {
            let PlanStage::Strategize(WorkState::Complete) = plan.state.stage else {
                return None;
            };
            plan.state.asked = *asked;
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
            plan.state.stage = PlanStage::Execute(WorkState::Complete);
            plan.state.result = Some(result.clone());
            plan.state.unmet.clone_from(unmet);
            plan.state.approval = None;
        }
        Event::ResultPicked {
            epoch,
            result,
            reduced: _,
            keeps_rest,
        } => replace_result(plan, *epoch, result, *keeps_rest)?,
        Event::Approved {
            content,
            options,
            rules,
            tips,
            by_profile,
            once,
            lands,
        } => {
            plan.state.approval = Some(Approval {
                content: *content,
                options: options.clone(),
                rules: rules.clone(),
                tips: tips.clone(),
                by_profile: *by_profile,
                once: *once,
                lands: *lands,
                by: recorded.by.clone(),
                at,
            });
        }
        Event::ApplyEntered { asked } => {
            let PlanStage::Execute(WorkState::Complete) = plan.state.stage else {
                return None;
            };
            plan.state.asked = *asked;
            plan.state.picked = false;
            enter_phase(plan, Phase::Apply, queued);
        }
        Event::ApplyPrepared { epoch, intent } => {
            let stored @ None = processing_intent(plan, *epoch)? else {
                return None;
            };
            *stored = Some(intent.clone());
        }
        Event::ApplyWithdrawn { epoch } => {
            processing_intent(plan, *epoch)?.take()?;
        }
        Event::Landed { epoch } => {
            let intent = processing_intent(plan, *epoch)?.take()?;
            plan.state.landed = intent.moves;
            plan.state.stage = PlanStage::Apply(ApplyState::Applied(PlanEnding {
                at,
                by: recorded.by.clone(),
                reason: None,
            }));
        }
        Event::Constrained { constraint } => {
            let None = processing_intent(plan, constraint.epoch)? else {
                return None;
            };
            plan.state.stage = PlanStage::Apply(ApplyState::Constrained(constraint.clone()));
        }
        Event::Failed { failure } => {
            if plan.is_prepared() || failure.epoch < plan.state.epoch {
                return None;
            }
            plan.state.stage.holder()?;
            plan.state.epoch = failure.epoch;
            plan.state.stage = errored_stage(phase, failure.clone());
        }
        Event::RetryScheduled { retry_at } => {
            plan.state.stage.failure()?;
            plan.state.attempt += 1;
            plan.state.unattended_attempts += 1;
            plan.state.stage = PlanStage::queued_with_intent(
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
        } => restart_execute(plan, *epoch, *limits, queued)?,
        Event::Retried {
            fresh,
            limits,
            restarts_execute: None,
        } => retry_phase(plan, *fresh, *limits, queued)?,
        Event::Asked { question } => wait_for_answer(plan, question)?,
        Event::Answered { fate, .. } => {
            plan.state.stage.question()?;
            let intent = plan.state.stage.intent().cloned();
            let intent = intent_after_answer(intent, *fate, &recorded.by)?;
            plan.state.unattended_attempts = 1;
            plan.state.stage = PlanStage::queued_with_intent(phase, queued, intent);
        }
        Event::QuestionExpired => {
            let question = plan.state.stage.question()?;
            if plan.is_prepared() {
                return None;
            }
            let failure = PlanFailure {
                category: FailureCategory::Unanswered,
                // Replay must rebuild the same plan: never change this text.
                message: format!(
                    "the question was not answered in time: {}",
                    question.text.first_line()
                )
                .into(),
                epoch: plan.state.epoch,
                at,
            };
            plan.state.stage = errored_stage(phase, failure);
        }
        Event::PermissionAsked {
            epoch,
            digest,
            call,
        } => {
            if phase == Phase::Apply {
                return None;
            }
            require_held_by(plan, *epoch, phase)?;
            plan.state.stage.holder_mut()?.permission = Some(Box::new(PermissionQuestion {
                digest: *digest,
                call: call.clone(),
                asked_at: at,
                answer: None,
            }));
        }
        Event::PermissionAnswered { digest, allowed } => {
            let question = plan.state.stage.holder_mut()?.permission.as_mut()?;
            if question.digest != *digest || question.answer.is_some() {
                return None;
            }
            question.answer = Some(PermissionAnswer {
                allowed: *allowed,
                by: recorded.by.clone(),
                at,
            });
        }
        Event::Revised {
            to,
            epoch,
            dropped,
            automatic,
            feedback: _,
            comments: _,
        } => {
            raise_epoch(plan, *epoch)?;
            plan.state.approval = None;
            plan.state.picked = false;
            plan.state.fixes = if *automatic { plan.state.fixes + 1 } else { 0 };
            plan.state.unmet.clear();
            plan.state.asked = recorded.by.is_person();
            let preparation = &mut plan.state.sandbox_preparation;
            // Keep paths that an earlier revision dropped and that no holder has restored yet.
            for path in dropped {
                if !preparation.dropped.contains(path) {
                    preparation.dropped.push(path.clone());
                }
            }
            preparation.catch_up |= is_merge_constraint(&plan.state.stage);
            enter_phase(plan, *to, queued);
        }
        Event::Reverted {
            epoch, automatic, ..
        } => {
            raise_epoch(plan, *epoch)?;
            discard_result(plan);
            plan.state.reversions += 1;
            plan.state.automatic_reversions += u32::from(*automatic);
            plan.state.asked = recorded.by.is_person();
            plan.set_sandbox_start(SandboxStartPoint::Afresh);
            enter_phase(plan, Phase::Strategize, queued);
        }
        Event::Released { epoch } => {
            require_held_by(plan, *epoch, phase)?;
            plan.state.stage =
                PlanStage::queued_with_intent(phase, queued, plan.state.stage.intent().cloned());
        }
        Event::Reclaimed { epoch, .. } => {
            plan.state.stage.holder()?;
            if *epoch <= plan.state.epoch {
                return None;
            }
            plan.state.epoch = *epoch;
            plan.state.attempt += 1;
            plan.state.unattended_attempts += 1;
            plan.state.stage =
                PlanStage::queued_with_intent(phase, queued, plan.state.stage.intent().cloned());
        }
        Event::Waived { rule, reason } => {
            plan.state.waivers.push(RuleWaiver {
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
            plan.state.rulings.retain(|ruling| !same(ruling));
            plan.state.rulings.push(PersonRuling {
                rule: rule.clone(),
                subject: *subject,
                outcome: outcome.clone(),
                by: recorded.by.clone(),
                at,
            });
        }
        Event::Cancelled { epoch, reason } => {
            raise_epoch(plan, *epoch)?;
            let ending = PlanEnding {
                at,
                by: recorded.by.clone(),
                reason: reason.clone(),
            };
            plan.state.stage = match phase {
                Phase::Strategize => PlanStage::Strategize(WorkState::Cancelled(ending)),
                Phase::Execute => PlanStage::Execute(WorkState::Cancelled(ending)),
                Phase::Apply => PlanStage::Apply(ApplyState::Cancelled(ending)),
            };
        }
    }
    Some(())
}

/// Gives a queued plan to its holder.
fn start_holding(plan: &mut Plan, claimed: Phase, holder: LeaseHolder) -> Option<()> {
    if claimed != plan.phase() || holder.epoch <= plan.state.epoch {
        return None;
    }
    plan.state.stage.queue_entry()?;
    plan.state.epoch = holder.epoch;
    plan.state.stage = match &mut plan.state.stage {
        PlanStage::Strategize(_) => PlanStage::Strategize(WorkState::Processing(holder)),
        PlanStage::Execute(_) => PlanStage::Execute(WorkState::Processing(holder)),
        PlanStage::Apply(landing) => {
            PlanStage::Apply(ApplyState::Processing(holder, take_intent(landing)))
        }
    };
    Some(())
}

/// Replaces the result by a part of it. A plan that was about to land goes back to be approved.
fn replace_result(
    plan: &mut Plan,
    epoch: Epoch,
    result: &ResultContent,
    keeps_rest: bool,
) -> Option<()> {
    let returns_from_apply = match &plan.state.stage {
        PlanStage::Execute(WorkState::Complete) => false,
        PlanStage::Apply(
            ApplyState::Queued(..) | ApplyState::Errored(_) | ApplyState::Constrained(_),
        ) => true,
        PlanStage::Strategize(_) | PlanStage::Execute(_) | PlanStage::Apply(_) => return None,
    };
    raise_epoch(plan, epoch)?;
    let whole = plan.state.result.replace(result.clone())?;
    if keeps_rest {
        // A rest that waits already keeps what it left out.
        let rest = plan.state.rest.take();
        plan.state.rest = Some(UnpickedRest {
            whole: rest.map_or(whole.trees, |rest| rest.whole),
            picked: result.trees.clone(),
        });
    }
    if returns_from_apply {
        plan.state.attempt = 1;
        plan.state.unattended_attempts = 1;
    }
    plan.state.approval = None;
    plan.state.unmet.clear();
    plan.state.asked = false;
    plan.state.picked = true;
    let picked = result.trees.iter().map(|tree| PickedTree {
        resource: tree.resource.clone(),
        tree: tree.tree.clone(),
    });
    let preparation = &mut plan.state.sandbox_preparation;
    preparation.picked = picked.collect();
    preparation.catch_up |= is_merge_constraint(&plan.state.stage);
    plan.state.stage = PlanStage::Execute(WorkState::Complete);
    Some(())
}

/// Goes back to execute from the base. The result is discarded.
fn restart_execute(
    plan: &mut Plan,
    epoch: Epoch,
    limits: PlanLimits,
    queued: QueueEntry,
) -> Option<()> {
    match &plan.state.stage {
        PlanStage::Execute(WorkState::Complete)
        | PlanStage::Apply(ApplyState::Errored(_) | ApplyState::Constrained(_)) => {}
        PlanStage::Strategize(_) | PlanStage::Execute(_) | PlanStage::Apply(_) => return None,
    }
    raise_epoch(plan, epoch)?;
    discard_result(plan);
    plan.state.limits = limits;
    plan.state.asked = true;
    plan.set_sandbox_start(SandboxStartPoint::Afresh);
    enter_phase(plan, Phase::Execute, queued);
    Some(())
}

/// Queues the phase again.
fn retry_phase(plan: &mut Plan, fresh: bool, limits: PlanLimits, queued: QueueEntry) -> Option<()> {
    if !matches!(
        plan.state.stage,
        PlanStage::Apply(ApplyState::Constrained(_))
    ) {
        plan.state.stage.failure()?;
    }
    plan.state.attempt += 1;
    plan.state.unattended_attempts = 1;
    plan.state.limits = limits;
    plan.state.asked = true;
    if fresh {
        plan.set_sandbox_start(SandboxStartPoint::Afresh);
    }
    plan.state.stage = PlanStage::queued_with_intent(plan.phase(), queued, None);
    Some(())
}

fn wait_for_answer(plan: &mut Plan, question: &PlanQuestion) -> Option<()> {
    require_held_by(plan, question.epoch, plan.phase())?;
    let question = question.clone();
    plan.state.stage = match &mut plan.state.stage {
        PlanStage::Strategize(_) => PlanStage::Strategize(WorkState::AwaitingInput(question)),
        PlanStage::Execute(_) => PlanStage::Execute(WorkState::AwaitingInput(question)),
        PlanStage::Apply(landing) => {
            PlanStage::Apply(ApplyState::AwaitingInput(question, take_intent(landing)))
        }
    };
    Some(())
}

/// Returns the intent that stays after a person answered. `fate` answers whether a change that was removed from its
/// target counts as landed. It is given exactly if there is an intent.
fn intent_after_answer(
    intent: Option<LandingIntent>,
    fate: Option<RemovedChangeResolution>,
    by: &Caller,
) -> Option<Option<LandingIntent>> {
    match (intent, fate) {
        (Some(mut intent), Some(RemovedChangeResolution::Landed)) => {
            intent.vouched = Some(by.clone());
            Some(Some(intent))
        }
        (Some(_), Some(RemovedChangeResolution::Again | RemovedChangeResolution::Drop)) => {
            Some(None)
        }
        (None, None) => Some(None),
        (Some(_), None) | (None, Some(_)) => None,
    }
}

/// Fences the holder. Impossible past the point of no return: a landing that was begun has to be finished under its
/// own epoch.
fn raise_epoch(plan: &mut Plan, epoch: Epoch) -> Option<()> {
    if plan.is_prepared() || epoch <= plan.state.epoch {
        return None;
    }
    plan.state.epoch = epoch;
    Some(())
}

fn discard_result(plan: &mut Plan) {
    plan.state.approval = None;
    plan.state.result = None;
    plan.state.picked = false;
    plan.state.rest = None;
    plan.state.unmet.clear();
    plan.state.fixes = 0;
}

/// The intent of the landing that this epoch works on.
fn processing_intent(plan: &mut Plan, epoch: Epoch) -> Option<&mut Option<LandingIntent>> {
    require_held_by(plan, epoch, Phase::Apply)?;
    match &mut plan.state.stage {
        PlanStage::Apply(ApplyState::Processing(_, intent)) => Some(intent),
        PlanStage::Strategize(_) | PlanStage::Execute(_) | PlanStage::Apply(_) => None,
    }
}

fn enter_phase(plan: &mut Plan, phase: Phase, queued: QueueEntry) {
    *plan.state.entries.entry(phase).or_insert(0) += 1;
    plan.state.attempt = 1;
    plan.state.unattended_attempts = 1;
    plan.state.stage = PlanStage::queued_with_intent(phase, queued, None);
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
    (plan.phase() == phase && plan.state.stage.holder()?.epoch == epoch).then_some(())
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
