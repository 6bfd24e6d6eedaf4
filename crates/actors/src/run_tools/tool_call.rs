//! The calls that an agent can make, read strictly and with bounds.

use plan::decision::ReportedDecision;
use plan::transcript::{ChecklistItem, ChecklistStatus};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::secrets::SecretValues;

/// Longest texts, in bytes.
const MAX_TEXT_BYTES: usize = 8 * 1024;
const MAX_STEP_BYTES: usize = 512;

/// Most alternatives of a decision, and most steps.
const MAX_LIST_LEN: usize = 64;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum RunToolCall {
    /// Ends the run with a question to a person.
    Ask {
        question: String,
    },
    RecordDecision(ReportedDecision),
    /// At least one of both.
    ReportProgress {
        message: Option<String>,
        steps: Option<Vec<ChecklistItem>>,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AskArguments {
    question: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProgressArguments {
    message: Option<String>,
    steps: Option<Vec<StepArgument>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StepArgument {
    text: String,
    status: ChecklistStatus,
}

impl RunToolCall {
    /// Fails with the reason, for the agent.
    pub(super) fn parse(tool: &str, arguments: Value) -> Result<Self, String> {
        match tool {
            "ask" => {
                let AskArguments { question } = read_arguments(arguments)?;
                check_text("question", &question, MAX_TEXT_BYTES)?;
                Ok(Self::Ask { question })
            }
            "record_decision" => {
                let decision: ReportedDecision = read_arguments(arguments)?;
                check_decision(&decision)?;
                Ok(Self::RecordDecision(decision))
            }
            "report_progress" => {
                let ProgressArguments { message, steps } = read_arguments(arguments)?;
                if message.is_none() && steps.is_none() {
                    return Err("needs `message` or `steps`".to_owned());
                }
                if let Some(message) = &message {
                    check_text("message", message, MAX_TEXT_BYTES)?;
                }
                let steps = steps.map(read_steps).transpose()?;
                Ok(Self::ReportProgress { message, steps })
            }
            _ => Err("there is no such tool".to_owned()),
        }
    }

    /// Hides the secrets of the run in texts that are stored. Entries of the transcript are cleaned later.
    pub(super) fn without_secrets(self, secrets: &SecretValues) -> Self {
        let hide = |text: String| secrets.hide_in_text(&text).into_owned();
        match self {
            Self::Ask { question } => Self::Ask {
                question: hide(question),
            },
            Self::RecordDecision(decision) => Self::RecordDecision(ReportedDecision {
                question: hide(decision.question),
                choice: hide(decision.choice),
                alternatives: decision.alternatives.into_iter().map(hide).collect(),
                rationale: decision.rationale.map(hide),
                ..decision
            }),
            progress @ Self::ReportProgress { .. } => progress,
        }
    }
}

fn read_arguments<T: DeserializeOwned>(arguments: Value) -> Result<T, String> {
    serde_json::from_value(arguments).map_err(|error| error.to_string())
}

fn read_steps(steps: Vec<StepArgument>) -> Result<Vec<ChecklistItem>, String> {
    check_count("steps", steps.len())?;
    let steps = steps.into_iter().map(|step| {
        check_text("text", &step.text, MAX_STEP_BYTES)?;
        Ok(ChecklistItem {
            text: step.text,
            status: step.status,
        })
    });
    steps.collect()
}

fn check_decision(decision: &ReportedDecision) -> Result<(), String> {
    if !decision.kind.is_for_actors() {
        let kind = decision.kind;
        return Err(format!("`{kind}` is not a decision for agents to make"));
    }
    check_text("question", &decision.question, MAX_TEXT_BYTES)?;
    check_text("choice", &decision.choice, MAX_TEXT_BYTES)?;
    check_count("alternatives", decision.alternatives.len())?;
    for alternative in &decision.alternatives {
        check_text("alternatives", alternative, MAX_TEXT_BYTES)?;
    }
    match &decision.rationale {
        Some(rationale) => check_text("rationale", rationale, MAX_TEXT_BYTES),
        None => Ok(()),
    }
}

fn check_count(name: &str, count: usize) -> Result<(), String> {
    match count > MAX_LIST_LEN {
        true => Err(format!("`{name}` has more than {MAX_LIST_LEN} items")),
        false => Ok(()),
    }
}

fn check_text(name: &str, text: &str, max_bytes: usize) -> Result<(), String> {
    if text.trim().is_empty() {
        return Err(format!("`{name}` is empty"));
    }
    if text.contains('\0') {
        return Err(format!("`{name}` contains a NUL character"));
    }
    if text.len() > max_bytes {
        return Err(format!("`{name}` is longer than {max_bytes} bytes"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn calls_are_read_strictly() {
        let refusal = |tool: &str, arguments: Value| {
            let read = RunToolCall::parse(tool, arguments);
            read.expect_err("it is accepted")
        };
        let long = "x".repeat(MAX_TEXT_BYTES + 1);
        let decision = |key: &str, value: Value| {
            let mut arguments =
                json!({"kind": "implementation_choice", "question": "How?", "choice": "So."});
            arguments[key] = value;
            arguments
        };
        for (tool, arguments, why) in [
            ("approve", json!({}), "no such tool"),
            ("ask", json!({}), "missing field `question`"),
            ("ask", json!({"question": " "}), "`question` is empty"),
            ("ask", json!({"question": "a\0b"}), "NUL"),
            ("ask", json!({"question": long}), "longer than 8192 bytes"),
            (
                "ask",
                json!({"question": "?", "plan": "p"}),
                "unknown field `plan`",
            ),
            ("ask", json!("?"), "invalid type"),
            (
                "record_decision",
                decision("kind", json!("user_intervention")),
                "not a decision for agents",
            ),
            (
                "record_decision",
                decision("choice", json!(long)),
                "longer than",
            ),
            (
                "record_decision",
                decision("alternatives", json!(vec!["x"; 65])),
                "more than 64 items",
            ),
            (
                "record_decision",
                decision("epoch", json!(3)),
                "unknown field `epoch`",
            ),
            (
                "record_decision",
                decision("confidence", json!(2)),
                "between 0 and 1",
            ),
            ("report_progress", json!({}), "needs `message` or `steps`"),
            (
                "report_progress",
                json!({"steps": [{"text": "x", "status": "done"}]}),
                "unknown variant",
            ),
        ] {
            let refused = refusal(tool, arguments);
            assert!(refused.contains(why), "{tool}: {refused}");
        }
        let accepted = decision("rationale", json!("Because."));
        RunToolCall::parse("record_decision", accepted).unwrap();
    }
}
