//! Failures, questions and answers.

use serde_json::{Value, json};

use crate::authority::CommandAudience;
use crate::command::{CommandDefinition, CommandHeader, PlainCommand};
use crate::decide::DecisionInput;
use crate::decide::draft::DecisionDraft;
use crate::decide::text;
use crate::decision::{DecisionKind, DecisionNode};
use crate::event::RemovedChangeResolution;
use crate::profile::AutomationStep;
use crate::stage::{FailureCategory, PlanFailure, PlanQuestion};
use crate::{Decision, Epoch, Event, Refusal, Span, Timestamp, Verb};

/// End the run with an error.
#[derive(Debug, Clone, PartialEq)]
pub struct FailRun {
    pub epoch: Epoch,
    pub category: FailureCategory,
    pub message: String,
}

impl FailRun {
    pub fn new(epoch: Epoch, category: FailureCategory, message: impl Into<String>) -> Self {
        Self {
            epoch,
            category,
            message: message.into(),
        }
    }
}

impl CommandDefinition for FailRun {
    fn header(&self) -> CommandHeader {
        CommandHeader::for_holder(Verb::Fail, self.epoch)
    }

    fn arguments(&self) -> Value {
        json!([self.epoch, self.category, self.message])
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        fail_work(input.draft()?, self.epoch, self.category, &self.message)
    }
}

impl PlainCommand for FailRun {}

/// Ask a person.
#[derive(Debug, Clone, PartialEq)]
pub struct AskPerson {
    pub epoch: Epoch,
    pub question: String,
    /// Time after which the question expires.
    pub answer_timeout: Option<Span>,
}

impl AskPerson {
    pub fn new(epoch: Epoch, question: impl Into<String>, answer_timeout: Option<Span>) -> Self {
        Self {
            epoch,
            question: question.into(),
            answer_timeout,
        }
    }
}

impl CommandDefinition for AskPerson {
    fn header(&self) -> CommandHeader {
        CommandHeader::for_holder(Verb::Ask, self.epoch)
    }

    fn arguments(&self) -> Value {
        json!([self.epoch, self.question, self.answer_timeout])
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        ask_person(
            input.draft()?,
            self.epoch,
            &self.question,
            self.answer_timeout,
        )
    }
}

impl PlainCommand for AskPerson {}

/// Answer the open question.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerQuestion {
    pub text: String,
}

impl AnswerQuestion {
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into() }
    }
}

impl CommandDefinition for AnswerQuestion {
    fn header(&self) -> CommandHeader {
        CommandHeader::new(Verb::Answer, CommandAudience::People)
    }

    fn arguments(&self) -> Value {
        json!(self.text)
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        answer_question(input.draft()?, &self.text)
    }
}

impl PlainCommand for AnswerQuestion {}

/// Fail the phase because its question was not answered in time.
#[derive(Debug, Clone, PartialEq)]
pub struct ExpireQuestion;

impl CommandDefinition for ExpireQuestion {
    fn header(&self) -> CommandHeader {
        CommandHeader::new(Verb::ExpireQuestion, CommandAudience::Workers)
    }

    fn arguments(&self) -> Value {
        Value::Null
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        expire_question(input.draft()?)
    }
}

impl PlainCommand for ExpireQuestion {}

fn fail_work(
    mut draft: DecisionDraft<'_>,
    epoch: Epoch,
    category: FailureCategory,
    message: &str,
) -> Result<Decision, Refusal> {
    if draft.require_holder(epoch).is_err() || draft.plan.is_prepared() {
        return draft.answer_not_applicable();
    }
    let message = text::require_text("message", message)?;
    draft.emit_event(Event::Failed {
        failure: PlanFailure {
            category,
            message,
            epoch,
            at: draft.now,
        },
    });
    let within_limits = draft.plan.unattended_attempts() < draft.plan.limits().attempts;
    if category.is_transient()
        && within_limits
        && draft.plan.allows_unattended(AutomationStep::Retry)
    {
        let retry_at = draft
            .now
            .saturating_add(retry_delay(draft.plan.unattended_attempts()));
        draft.emit_event(Event::RetryScheduled { retry_at });
    }
    Ok(draft.finish())
}

fn ask_person(
    mut draft: DecisionDraft<'_>,
    epoch: Epoch,
    question: &str,
    answer_timeout: Option<Span>,
) -> Result<Decision, Refusal> {
    if draft.require_holder(epoch).is_err() {
        return draft.answer_not_applicable();
    }
    let text = text::require_text("question", question)?;
    // Past the point of no return a person must decide, so the question never expires.
    let answer_timeout = answer_timeout.filter(|_| !draft.plan.is_prepared());
    let deadline: Option<Timestamp> =
        answer_timeout.map(|timeout| draft.now.saturating_add(timeout));
    draft.emit_event(Event::Asked {
        question: PlanQuestion {
            text,
            epoch,
            asked_at: draft.now,
            deadline,
        },
    });
    Ok(draft.finish())
}

fn answer_question(mut draft: DecisionDraft<'_>, answer: &str) -> Result<Decision, Refusal> {
    let Some(question) = draft.plan.stage().question().cloned() else {
        return draft.answer_not_applicable();
    };
    let answer_text = text::require_text("answer", answer)?;
    let fate = match (draft.plan.is_prepared(), answer.trim()) {
        (false, _) => None,
        (true, "landed") => Some(RemovedChangeResolution::Landed),
        (true, "again") => Some(RemovedChangeResolution::Again),
        (true, "drop") => Some(RemovedChangeResolution::Drop),
        (true, _) => return Err(Refusal::NeedsFate),
    };
    draft.emit_event(Event::Answered {
        answer: answer_text.clone(),
        fate,
    });
    // Node 1 exists: only a holder asks, and the first claim records the root.
    let decisions = vec![DecisionNode {
        number: draft.plan.decisions() + 1,
        parent: Some(1),
        kind: DecisionKind::UserIntervention,
        question: question.text,
        choice: answer_text,
        alternatives: Vec::new(),
        rationale: None,
        confidence: None,
    }];
    draft.emit_event(Event::DecisionsRecorded { decisions });
    if fate == Some(RemovedChangeResolution::Drop) {
        let epoch = draft.plan.epoch().next();
        let reason = "the change was removed after landing, and given up".into();
        draft.emit_event(Event::Cancelled {
            epoch,
            reason: Some(reason),
        });
    }
    Ok(draft.finish())
}

fn expire_question(mut draft: DecisionDraft<'_>) -> Result<Decision, Refusal> {
    let Some(question) = draft.plan.stage().question() else {
        return draft.answer_not_applicable();
    };
    match question.deadline {
        Some(deadline) if deadline <= draft.now => {
            draft.emit_event(Event::QuestionExpired);
            Ok(draft.finish())
        }
        Some(_) | None => Err(Refusal::QuestionOpen),
    }
}

/// 5 seconds, doubled with every attempt, at most 5 minutes.
fn retry_delay(attempts: u32) -> Span {
    let doubled = 5_i64.saturating_mul(1 << attempts.saturating_sub(1).min(10));
    Span::from_seconds(doubled.min(300))
}
