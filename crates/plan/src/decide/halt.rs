//! Halting: failures, questions and their answers.

use crate::decide::draft::Draft;
use crate::decide::text;
use crate::decision::{DecisionKind, DecisionNode};
use crate::event::Fate;
use crate::profile::Step;
use crate::stage::{Category, Failure, Question};
use crate::{Decision, Epoch, Event, Refusal, Span, Timestamp};

pub(super) fn fail(
    mut draft: Draft<'_>,
    epoch: Epoch,
    category: Category,
    message: &str,
) -> Result<Decision, Refusal> {
    if draft.require_holder(epoch).is_err() || draft.plan.is_prepared() {
        return draft.not_now();
    }
    let message = text::checked("message", message)?;
    draft.emit(Event::Failed {
        failure: Failure {
            category,
            message,
            epoch,
            at: draft.now,
        },
    });
    let within_limits = draft.plan.unattended_attempts < draft.plan.limits.attempts;
    if category.is_transient() && within_limits && draft.plan.goes(Step::Retry) {
        let retry_at = draft.now.plus(pause_before(draft.plan.unattended_attempts));
        draft.emit(Event::RetryScheduled { retry_at });
    }
    Ok(draft.done())
}

pub(super) fn ask(
    mut draft: Draft<'_>,
    epoch: Epoch,
    question: &str,
    patience: Option<Span>,
) -> Result<Decision, Refusal> {
    if draft.require_holder(epoch).is_err() {
        return draft.not_now();
    }
    let text = text::checked("question", question)?;
    // What became of a change that landed and is gone must not be decided by a clock.
    let patience = patience.filter(|_| !draft.plan.is_prepared());
    let deadline: Option<Timestamp> = patience.map(|patience| draft.now.plus(patience));
    draft.emit(Event::Asked {
        question: Question {
            text,
            epoch,
            asked_at: draft.now,
            deadline,
        },
    });
    Ok(draft.done())
}

pub(super) fn answer(mut draft: Draft<'_>, answer: &str) -> Result<Decision, Refusal> {
    let Some(question) = draft.plan.stage.question().cloned() else {
        return draft.not_now();
    };
    draft.require_person()?;
    let said = text::checked("answer", answer)?;
    let fate = match (draft.plan.is_prepared(), answer.trim()) {
        (false, _) => None,
        (true, "landed") => Some(Fate::Landed),
        (true, "again") => Some(Fate::Again),
        (true, "drop") => Some(Fate::Drop),
        (true, _) => return Err(Refusal::NeedsFate),
    };
    draft.emit(Event::Answered {
        answer: said.clone(),
        fate,
    });
    // A question is asked by a holder, and the first claim recorded the root.
    let decisions = vec![DecisionNode {
        number: draft.plan.decisions + 1,
        parent: Some(1),
        kind: DecisionKind::UserIntervention,
        question: question.text,
        choice: said,
        alternatives: Vec::new(),
        rationale: None,
        confidence: None,
    }];
    draft.emit(Event::DecisionsRecorded { decisions });
    if fate == Some(Fate::Drop) {
        let epoch = draft.plan.epoch.next();
        let reason = "the change was removed after landing, and given up".into();
        draft.emit(Event::Cancelled {
            epoch,
            reason: Some(reason),
        });
    }
    Ok(draft.done())
}

pub(super) fn expire_question(mut draft: Draft<'_>) -> Result<Decision, Refusal> {
    let Some(question) = draft.plan.stage.question() else {
        return draft.not_now();
    };
    match question.deadline {
        Some(deadline) if deadline <= draft.now => {
            draft.emit(Event::QuestionExpired);
            Ok(draft.done())
        }
        Some(_) | None => Err(Refusal::QuestionOpen),
    }
}

/// 5 seconds, doubled with every attempt, 5 minutes at most.
fn pause_before(attempts: u32) -> Span {
    let doubled = 5_i64.saturating_mul(1 << attempts.saturating_sub(1).min(10));
    Span::seconds(doubled.min(300))
}
