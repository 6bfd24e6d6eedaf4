//! Questions about single tool calls, which a person answers while the agent waits.

use serde_json::{Value, json};

use crate::authority::CommandAudience;
use crate::command::{CommandDefinition, CommandHeader, PlainCommand};
use crate::decide::DecisionInput;
use crate::decide::draft::DecisionDraft;
use crate::decide::text;
use crate::permission_question::ProposedToolCall;
use crate::{Decision, Digest, Epoch, Event, Phase, ReceiptOutcome, Refusal, Verb};

/// Ask a person about one tool call, while the run goes on.
#[derive(Debug, Clone, PartialEq)]
pub struct AskPermission {
    pub epoch: Epoch,
    pub call: ProposedToolCall,
}

impl CommandDefinition for AskPermission {
    fn header(&self) -> CommandHeader {
        CommandHeader::for_holder(Verb::AskPermission, self.epoch)
    }

    fn arguments(&self) -> Value {
        json!([self.epoch, self.call])
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        ask_permission(input.draft()?, self.epoch, &self.call)
    }
}

impl PlainCommand for AskPermission {}

/// Allow or reject the tool call that a person was asked about.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerPermission {
    /// Of the question as it was shown.
    pub digest: Digest,
    pub allowed: bool,
}

impl CommandDefinition for AnswerPermission {
    fn header(&self) -> CommandHeader {
        CommandHeader::new(Verb::AnswerPermission, CommandAudience::People)
    }

    fn arguments(&self) -> Value {
        json!([self.digest, self.allowed])
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        answer_permission(input.draft()?, self.digest, self.allowed)
    }
}

impl PlainCommand for AnswerPermission {}

fn ask_permission(
    mut draft: DecisionDraft<'_>,
    epoch: Epoch,
    call: &ProposedToolCall,
) -> Result<Decision, Refusal> {
    // A holder may ask many times, so an earlier question of its epoch does not answer for this one.
    draft.require_holder(epoch)?;
    if draft.plan.phase() == Phase::Apply {
        return draft.answer_not_applicable();
    }
    // The holder asks again if it cannot learn whether the question was stored.
    let open = draft.plan.stage().open_permission();
    if open.is_some_and(|question| question.call == *call) {
        return Ok(draft.finish_with_rows(Vec::new(), ReceiptOutcome::AlreadyDone));
    }
    text::require_text("tool call", call.summary.as_str())?;
    if let Some(input) = &call.input {
        text::require_storable("tool input", input.as_str())?;
    }
    let version = draft.plan.version().next();
    draft.emit_event(Event::PermissionAsked {
        epoch,
        digest: call.digest_for(draft.plan.id(), epoch, version),
        call: call.clone(),
    });
    Ok(draft.finish())
}

fn answer_permission(
    mut draft: DecisionDraft<'_>,
    digest: Digest,
    allowed: bool,
) -> Result<Decision, Refusal> {
    let holder = draft.plan.stage().holder();
    let question = holder.and_then(|holder| holder.permission.as_deref());
    let Some(question) = question else {
        return draft.answer_not_applicable();
    };
    if question.digest != digest {
        return Err(Refusal::PermissionOutdated);
    }
    match &question.answer {
        None => {
            draft.emit_event(Event::PermissionAnswered { digest, allowed });
            Ok(draft.finish())
        }
        Some(answer) if answer.allowed == allowed => {
            Ok(draft.finish_with_rows(Vec::new(), ReceiptOutcome::AlreadyDone))
        }
        Some(answer) => Err(Refusal::PermissionAnswered(answer.clone())),
    }
}
