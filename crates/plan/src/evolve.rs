//! One event further: the only code that changes a plan.

use std::collections::BTreeMap;

use crate::base::Start;
use crate::event::{Created, Fate};
use crate::judgement::Ruling;
use crate::plan::{Approval, Done, Origin, Waiver};
use crate::stage::{
    Category, ConstraintKind, Ending, Failure, Holder, Intent, Landing, Queued, Work,
};
use crate::{Entrance, Epoch, Event, Phase, Plan, Recorded, Stage, Verb, Version};

/// An event that cannot follow the plan it was recorded for: the log is damaged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {version} (`{kind}`) does not follow {stage}")]
pub struct Misfit {
    /// Which event.
    pub version: Version,
    /// Its type.
    pub kind: &'static str,
    /// What it should have followed.
    pub stage: String,
}

/// The plan after one more event.
pub fn evolve(plan: Option<Plan>, recorded: &Recorded) -> Result<Plan, Misfit> {
    match (plan, &recorded.event) {
        (None, Event::Created(created)) => {
            let mut plan = created_plan(created, recorded);
            note(&mut plan, recorded, None);
            Ok(plan)
        }
        (None, _) => Err(misfit(recorded, "nothing".to_owned())),
        (Some(mut plan), _) => {
            advance(&mut plan, recorded)?;
            Ok(plan)
        }
    }
}

/// Takes a plan one event further. Whoever is told of a misfit must not go on with it.
pub(crate) fn advance(plan: &mut Plan, recorded: &Recorded) -> Result<(), Misfit> {
    if plan.version.next() != recorded.version || plan.id != recorded.plan {
        let found = format!("version {} of plan {}", plan.version, plan.id);
        return Err(misfit(recorded, found));
    }
    let held = plan.stage.holder().map(|holder| holder.epoch);
    step(plan, recorded).ok_or_else(|| misfit(recorded, plan.stage.to_string()))?;
    note(plan, recorded, held);
    Ok(())
}

/// The plan all these events add up to.
pub fn replay<'a>(events: impl IntoIterator<Item = &'a Recorded>) -> Result<Option<Plan>, Misfit> {
    events
        .into_iter()
        .try_fold(None, |plan, recorded| evolve(plan, recorded).map(Some))
}

fn misfit(recorded: &Recorded, stage: String) -> Misfit {
    Misfit {
        version: recorded.version,
        kind: recorded.event.kind(),
        stage,
    }
}

/// What every event leaves: how far the plan has come, when, and who did what.
fn note(plan: &mut Plan, recorded: &Recorded, held: Option<Epoch>) {
    plan.version = recorded.version;
    plan.updated_at = recorded.at;
    if let Some((verb, epoch)) = verb_of(&recorded.event, held) {
        let done = Done {
            at: recorded.at,
            by: recorded.by.clone(),
            epoch,
        };
        plan.done.insert(verb, done);
    }
}

fn created_plan(created: &Created, recorded: &Recorded) -> Plan {
    let (stage, phase) = match created.result {
        Some(_) => (Stage::Execute(Work::Complete), Phase::Execute),
        None => (
            Stage::queued(Phase::Strategize, recorded.at),
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
        ways: created.ways.clone(),
        entrance: Entrance::default(),
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
        done: BTreeMap::new(),
        created_at: recorded.at,
        updated_at: recorded.at,
    }
}

/// `None` if the event does not fit the plan's stage, which is then what it was.
fn step(plan: &mut Plan, recorded: &Recorded) -> Option<()> {
    if plan.stage.is_final() {
        return None;
    }
    let at = recorded.at;
    let queued = Queued {
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
            plan.stage.waiting()?;
            let holder = Holder {
                owner: owner.clone(),
                epoch: *epoch,
                since: at,
            };
            plan.stage = match &mut plan.stage {
                Stage::Strategize(_) => Stage::Strategize(Work::Processing(holder)),
                Stage::Execute(_) => Stage::Execute(Work::Processing(holder)),
                Stage::Apply(landing) => {
                    Stage::Apply(Landing::Processing(holder, take_intent(landing)))
                }
            };
            plan.epoch = *epoch;
            plan.asked |= asked;
        }
        Event::BasesRecorded { epoch, bases } => {
            if phase == Phase::Apply {
                return None;
            }
            held_by(plan, *epoch, phase)?;
            plan.bases.clone_from(bases);
            plan.entrance = Entrance::default();
        }
        Event::StrategizeCompleted { epoch } => {
            held_by(plan, *epoch, Phase::Strategize)?;
            plan.stage = Stage::Strategize(Work::Complete);
        }
        Event::ExecuteEntered { asked } => {
            let Stage::Strategize(Work::Complete) = plan.stage else {
                return None;
            };
            plan.asked = *asked;
            // What strategize left behind is no result.
            plan.enter_with(Start::Base);
            enter(plan, Phase::Execute, queued);
        }
        Event::ExecuteCompleted {
            epoch,
            result,
            unmet,
        } => {
            held_by(plan, *epoch, Phase::Execute)?;
            plan.stage = Stage::Execute(Work::Complete);
            plan.result = Some(result.clone());
            plan.unmet.clone_from(unmet);
            plan.approval = None;
        }
        Event::Approved {
            content,
            how,
            rules,
            tips,
            by_profile,
            once,
        } => {
            plan.approval = Some(Approval {
                content: *content,
                how: how.clone(),
                rules: rules.clone(),
                tips: tips.clone(),
                by_profile: *by_profile,
                once: *once,
                by: recorded.by.clone(),
                at,
            });
        }
        Event::ApplyEntered { asked } => {
            let Stage::Execute(Work::Complete) = plan.stage else {
                return None;
            };
            plan.asked = *asked;
            enter(plan, Phase::Apply, queued);
        }
        Event::ApplyPrepared { epoch, intent } => {
            held_by(plan, *epoch, Phase::Apply)?;
            let Stage::Apply(Landing::Processing(_, prepared @ None)) = &mut plan.stage else {
                return None;
            };
            *prepared = Some(intent.clone());
            plan.done.remove(&Verb::WithdrawApply);
        }
        Event::ApplyWithdrawn { epoch } => {
            held_by(plan, *epoch, Phase::Apply)?;
            let Stage::Apply(Landing::Processing(_, prepared @ Some(_))) = &mut plan.stage else {
                return None;
            };
            *prepared = None;
            // Taken back, it is no longer done: who repeats it must not be told that it is.
            plan.done.remove(&Verb::PrepareApply);
        }
        Event::Landed { epoch } => {
            held_by(plan, *epoch, Phase::Apply)?;
            let Stage::Apply(Landing::Processing(_, Some(intent))) = &mut plan.stage else {
                return None;
            };
            plan.landed = std::mem::take(&mut intent.moves);
            plan.stage = Stage::Apply(Landing::Applied(Ending {
                at,
                by: recorded.by.clone(),
                reason: None,
            }));
        }
        Event::Constrained { constraint } => {
            held_by(plan, constraint.epoch, Phase::Apply)?;
            let Stage::Apply(Landing::Processing(_, None)) = plan.stage else {
                return None;
            };
            plan.stage = Stage::Apply(Landing::Constrained(constraint.clone()));
        }
        Event::Failed { failure } => {
            if plan.is_prepared() || failure.epoch < plan.epoch {
                return None;
            }
            plan.stage.holder()?;
            plan.epoch = failure.epoch;
            plan.stage = errored(phase, failure.clone());
        }
        Event::RetryScheduled { retry_at } => {
            plan.stage.failure()?;
            plan.attempt += 1;
            plan.unattended_attempts += 1;
            plan.stage = Stage::requeued(
                phase,
                Queued {
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
                Stage::Execute(work) => matches!(work, Work::Complete),
                Stage::Apply(landing) => {
                    matches!(landing, Landing::Errored(_) | Landing::Constrained(_))
                }
                Stage::Strategize(_) => false,
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
            plan.enter_with(Start::Afresh);
            enter(plan, Phase::Execute, queued);
        }
        Event::Retried {
            fresh,
            limits,
            restarts_execute: None,
        } => {
            let constrained = matches!(plan.stage, Stage::Apply(Landing::Constrained(_)));
            if !constrained {
                plan.stage.failure()?;
            }
            plan.attempt += 1;
            plan.unattended_attempts = 1;
            plan.limits = *limits;
            plan.asked = true;
            if *fresh {
                plan.enter_with(Start::Afresh);
            }
            plan.stage = Stage::requeued(phase, queued, None);
        }
        Event::Asked { question } => {
            held_by(plan, question.epoch, phase)?;
            let question = question.clone();
            plan.stage = match &mut plan.stage {
                Stage::Strategize(_) => Stage::Strategize(Work::AwaitingInput(question)),
                Stage::Execute(_) => Stage::Execute(Work::AwaitingInput(question)),
                Stage::Apply(landing) => {
                    Stage::Apply(Landing::AwaitingInput(question, take_intent(landing)))
                }
            };
        }
        Event::Answered { fate, .. } => {
            plan.stage.question()?;
            let intent = plan.stage.intent().cloned();
            let intent = match (intent, fate) {
                (Some(mut intent), Some(Fate::Landed)) => {
                    intent.vouched = Some(recorded.by.clone());
                    Some(intent)
                }
                (Some(_), Some(Fate::Again | Fate::Drop)) => None,
                (None, None) => None,
                (Some(_), None) | (None, Some(_)) => return None,
            };
            if intent.is_none() {
                plan.done.remove(&Verb::PrepareApply);
            }
            plan.unattended_attempts = 1;
            plan.stage = Stage::requeued(phase, queued, intent);
        }
        Event::QuestionExpired => {
            let question = plan.stage.question()?;
            if plan.is_prepared() {
                return None;
            }
            let failure = Failure {
                category: Category::Unanswered,
                message: format!("nobody answered: {}", question.text.first_line()).into(),
                epoch: plan.epoch,
                at,
            };
            plan.stage = errored(phase, failure);
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
            // What nobody came to take out yet still is to be.
            let more = dropped
                .iter()
                .filter(|path| !plan.entrance.dropped.contains(path));
            let more: Vec<_> = more.cloned().collect();
            plan.entrance.dropped.extend(more);
            plan.entrance.catch_up |= is_about_the_merge(&plan.stage);
            enter(plan, *to, queued);
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
            plan.enter_with(Start::Afresh);
            enter(plan, Phase::Strategize, queued);
        }
        Event::Released { epoch } => {
            held_by(plan, *epoch, phase)?;
            plan.stage = Stage::requeued(phase, queued, plan.stage.intent().cloned());
        }
        Event::Reclaimed { epoch, .. } => {
            plan.stage.holder()?;
            if *epoch <= plan.epoch {
                return None;
            }
            plan.epoch = *epoch;
            plan.attempt += 1;
            plan.unattended_attempts += 1;
            plan.stage = Stage::requeued(phase, queued, plan.stage.intent().cloned());
        }
        Event::Waived { rule, reason } => {
            plan.waivers.push(Waiver {
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
            let same = |ruling: &Ruling| ruling.rule == *rule && ruling.subject == *subject;
            plan.rulings.retain(|ruling| !same(ruling));
            plan.rulings.push(Ruling {
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
            let ending = Ending {
                at,
                by: recorded.by.clone(),
                reason: reason.clone(),
            };
            plan.stage = match phase {
                Phase::Strategize => Stage::Strategize(Work::Cancelled(ending)),
                Phase::Execute => Stage::Execute(Work::Cancelled(ending)),
                Phase::Apply => Stage::Apply(Landing::Cancelled(ending)),
            };
        }
    }
    Some(())
}

fn enter(plan: &mut Plan, phase: Phase, queued: Queued) {
    *plan.entries.entry(phase).or_insert(0) += 1;
    plan.attempt = 1;
    plan.unattended_attempts = 1;
    plan.stage = Stage::requeued(phase, queued, None);
}

/// Was it fine by itself, and is not together with what its target has become?
fn is_about_the_merge(stage: &Stage) -> bool {
    match stage {
        Stage::Apply(Landing::Constrained(constraint)) => match constraint.kind {
            ConstraintKind::Conflict | ConstraintKind::Gate => true,
            ConstraintKind::LocalEdits
            | ConstraintKind::OperationInProgress
            | ConstraintKind::ApprovalVoid => false,
        },
        Stage::Strategize(_) | Stage::Execute(_) | Stage::Apply(_) => false,
    }
}

fn held_by(plan: &Plan, epoch: Epoch, phase: Phase) -> Option<()> {
    (plan.phase() == phase && plan.stage.holder()?.epoch == epoch).then_some(())
}

fn errored(phase: Phase, failure: Failure) -> Stage {
    match phase {
        Phase::Strategize => Stage::Strategize(Work::Errored(failure)),
        Phase::Execute => Stage::Execute(Work::Errored(failure)),
        Phase::Apply => Stage::Apply(Landing::Errored(failure)),
    }
}

fn take_intent(landing: &mut Landing) -> Option<Intent> {
    match landing {
        Landing::Queued(_, intent)
        | Landing::Processing(_, intent)
        | Landing::AwaitingInput(_, intent) => intent.take(),
        Landing::Errored(_)
        | Landing::Constrained(_)
        | Landing::Applied(_)
        | Landing::Cancelled(_) => None,
    }
}

/// The verb an event is the doing of, and its epoch; `None` where a verb's other event tells.
fn verb_of(event: &Event, held: Option<Epoch>) -> Option<(Verb, Option<Epoch>)> {
    let told = match event {
        Event::GateHeld { .. } | Event::DecisionsRecorded { .. } | Event::RetryScheduled { .. } => {
            return None;
        }
        Event::Created(created) => match created.origin {
            Origin::Use => (Verb::Use, None),
            Origin::UndoOf(_) => (Verb::Undo, None),
            Origin::RestOf(_) => return None,
        },
        Event::Claimed {
            phase: Phase::Strategize,
            epoch,
            ..
        } => (Verb::StartStrategize, Some(*epoch)),
        Event::Claimed {
            phase: Phase::Execute,
            epoch,
            ..
        } => (Verb::StartExecute, Some(*epoch)),
        Event::Claimed {
            phase: Phase::Apply,
            epoch,
            ..
        } => (Verb::StartApply, Some(*epoch)),
        Event::BasesRecorded { epoch, .. } => (Verb::RecordBases, Some(*epoch)),
        Event::StrategizeCompleted { epoch } => (Verb::CompleteStrategize, Some(*epoch)),
        Event::ExecuteEntered { .. } => (Verb::ExecutePlan, None),
        Event::ChangesetSealed { .. } => (Verb::SealChangeset, None),
        Event::ExecuteCompleted { epoch, .. } => (Verb::CompleteExecute, Some(*epoch)),
        Event::Approved { .. } => (Verb::Approve, None),
        Event::ApplyEntered { .. } => (Verb::ApplyPlan, None),
        Event::ApplyPrepared { epoch, .. } => (Verb::PrepareApply, Some(*epoch)),
        Event::ApplyWithdrawn { epoch } => (Verb::WithdrawApply, Some(*epoch)),
        Event::Landed { epoch } => (Verb::CompleteApply, Some(*epoch)),
        Event::Constrained { constraint } => (Verb::Constrain, Some(constraint.epoch)),
        // A failure under another epoch than the holder's is how a last reclaim ends.
        Event::Failed { failure } if held != Some(failure.epoch) => (Verb::Reclaim, None),
        Event::Failed { failure } => (Verb::Fail, Some(failure.epoch)),
        Event::Retried { .. } => (Verb::Retry, None),
        Event::Asked { question } => (Verb::Ask, Some(question.epoch)),
        Event::Answered { .. } => (Verb::Answer, None),
        Event::QuestionExpired => (Verb::ExpireQuestion, None),
        Event::Revised { .. } => (Verb::Revise, None),
        Event::Reverted { .. } => (Verb::Revert, None),
        Event::Released { epoch } => (Verb::Release, Some(*epoch)),
        Event::Reclaimed { .. } => (Verb::Reclaim, None),
        Event::Waived { .. } => (Verb::Waive, None),
        Event::RuledOn { .. } => (Verb::RuleOn, None),
        Event::Cancelled { .. } => (Verb::Cancel, None),
    };
    Some(told)
}
