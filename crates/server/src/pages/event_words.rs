//! The events of a plan in plain words.

use plan::event::{Event, RemovedChangeResolution};
use plan::judgement::RuleOutcome;
use plan::{Caller, Phase};

use super::visible::visible;

/// An event as people read it.
pub struct EventWords {
    /// Its id in the shell, without `i-`.
    pub icon: &'static str,
    /// The colour of the icon.
    pub class: &'static str,
    pub text: String,
    /// It changes nothing that a person decides about. Listed only among all events.
    pub is_detail: bool,
}

/// Who did something, without the ids of processes.
pub fn describe_caller(caller: &Caller) -> String {
    match caller {
        Caller::Person(name) => visible(name),
        Caller::Agent(name) => format!("agent {}", visible(name)),
        Caller::Worker(_) => "worker".to_owned(),
    }
}

/// What the words of an event depend on besides the event.
#[derive(Debug, Clone, Copy)]
pub struct EventContext {
    /// Somebody asked for a strategy. Without one, its phase passes by itself.
    pub has_strategy: bool,
    /// The number of the result that the event makes, if it makes one.
    pub result: Option<u32>,
}

pub fn describe_event(event: &Event, context: EventContext) -> EventWords {
    let EventContext {
        has_strategy,
        result,
    } = context;
    let result = result.map_or_else(|| "a result".to_owned(), |number| format!("r{number}"));
    match event {
        Event::Created(_) => step("plus", "", "Created the plan"),
        Event::GateHeld { .. } => detail("Every rule of the gate held"),
        Event::Claimed { phase, .. } => match phase {
            Phase::Strategize if !has_strategy => detail("Began the strategy"),
            Phase::Strategize => step("working", "working", "Began to write a strategy"),
            Phase::Execute => step("working", "working", "Began to work"),
            Phase::Apply => step("working", "working", "Began to land"),
        },
        Event::BasesRecorded { .. } => detail("Prepared the sandbox"),
        Event::DecisionsRecorded { decisions } => {
            let text = match decisions.len() {
                1 => "Recorded a decision".to_owned(),
                count => format!("Recorded {count} decisions"),
            };
            match has_strategy {
                true => step("list", "", text),
                false => detail(text),
            }
        }
        Event::StrategizeCompleted { .. } if has_strategy => {
            step("review", "attention", "Submitted the strategy")
        }
        Event::StrategizeCompleted { .. } => detail("Finished the strategy"),
        Event::ExecuteEntered { .. } => detail("Queued the work"),
        Event::ChangesetSealed { entries, .. } => detail(format!("Sealed {entries} changes")),
        Event::ExecuteCompleted { unmet, .. } => match unmet.len() {
            0 => step("review", "attention", format!("Submitted {result}")),
            1 => step(
                "review",
                "bad",
                format!("Submitted {result}; it fails a rule"),
            ),
            count => step(
                "review",
                "bad",
                format!("Submitted {result}; it fails {count} rules"),
            ),
        },
        Event::ResultPicked { keeps_rest, .. } => {
            let rest = match keeps_rest {
                true => "; the rest becomes a plan",
                false => "",
            };
            step("edit", "", format!("Picked a part, {result}{rest}"))
        }
        Event::Approved {
            by_profile, lands, ..
        } => {
            let text = match (by_profile, lands) {
                (Some(profile), _) => format!("Approved by profile {profile}"),
                (None, true) => "Approved it, to land".to_owned(),
                (None, false) => "Approved it".to_owned(),
            };
            step("landed", "good", text)
        }
        Event::ApplyEntered { .. } => detail("Queued the landing"),
        Event::ApplyPrepared { .. } => detail("Prepared the landing"),
        Event::ApplyWithdrawn { .. } => {
            step("undone", "", "Withdrew the landing before anything changed")
        }
        Event::Landed { .. } => step("landed", "good", "Landed"),
        Event::Constrained { constraint } => {
            let text = format!(
                "Could not land: {}",
                first_line(constraint.message.as_str())
            );
            step("conflict", "bad", text)
        }
        Event::Failed { failure } => {
            let text = format!("Failed: {}", first_line(failure.message.as_str()));
            step("failed", "bad", text)
        }
        Event::RetryScheduled { .. } => step("waiting", "", "Scheduled another attempt"),
        Event::Retried { fresh: true, .. } => step("undone", "", "Asked to start from scratch"),
        Event::Retried { fresh: false, .. } => step("undone", "", "Asked for another attempt"),
        Event::Asked { question } => {
            let text = format!("Asked: {}", first_line(question.text.as_str()));
            step("question", "attention", text)
        }
        Event::Answered { answer, fate } => {
            let text = match fate {
                None => format!("Answered: {}", first_line(answer.as_str())),
                Some(RemovedChangeResolution::Landed) => "Counted it as landed".to_owned(),
                Some(RemovedChangeResolution::Again) => "Asked to land it again".to_owned(),
                Some(RemovedChangeResolution::Drop) => "Gave the change up".to_owned(),
            };
            step("says", "", text)
        }
        Event::QuestionExpired => step("waiting", "bad", "The question was not answered in time"),
        Event::PermissionAsked { call, .. } => {
            let text = format!("Asked to {}", first_line(call.summary.as_str()));
            step("key", "attention", text)
        }
        Event::PermissionAnswered { allowed: true, .. } => step("key", "good", "Allowed it"),
        Event::PermissionAnswered { allowed: false, .. } => step("key", "bad", "Rejected it"),
        Event::Revised {
            feedback,
            automatic,
            ..
        } => {
            let why = match automatic {
                true => "Sent back by the engine",
                false => "Sent back",
            };
            let text = format!("{why}: {}", first_line(feedback.as_str()));
            step("undone", "attention", text)
        }
        Event::Reverted { reason, .. } => {
            let text = format!("Back to the strategy: {}", first_line(reason.as_str()));
            step("undone", "", text)
        }
        Event::Released { .. } => detail("Released the plan"),
        Event::Reclaimed { .. } => step("working", "", "Taken over from a worker that is gone"),
        Event::Waived { rule, reason } => {
            let text = format!("Waived rule {}: {}", rule.name, first_line(reason.as_str()));
            step("landed", "", text)
        }
        Event::RuledOn { rule, outcome, .. } => {
            let verdict = match outcome {
                RuleOutcome::Held => "holds",
                RuleOutcome::Failed(_) | RuleOutcome::Broken(_) => "does not hold",
                RuleOutcome::Open(_) => "is open",
            };
            step(
                "person",
                "",
                format!("Said that rule {} {verdict}", rule.name),
            )
        }
        Event::Cancelled { reason, .. } => {
            let reason = reason.as_ref().map(|reason| first_line(reason.as_str()));
            let text = reason.map_or("Cancelled it".to_owned(), |it| {
                format!("Cancelled it: {it}")
            });
            step("cancelled", "", text)
        }
    }
}

fn step(icon: &'static str, class: &'static str, text: impl Into<String>) -> EventWords {
    EventWords {
        icon,
        class,
        text: text.into(),
        is_detail: false,
    }
}

fn detail(text: impl Into<String>) -> EventWords {
    EventWords {
        icon: "notice",
        class: "",
        text: text.into(),
        is_detail: true,
    }
}

fn first_line(text: &str) -> String {
    visible(text.lines().next().unwrap_or_default())
}
