//! What an agent does right now, from the newest entries of its transcript.

use lifecycle::{Lifecycle, LifecycleError};
use plan::transcript::{
    ChecklistStatus, FileChangeKind, PermissionStatus, ToolCallEntry, ToolKind, TranscriptContent,
};
use plan::{Plan, Timestamp};
use serde::Serialize;
use store::TranscriptPosition;

/// The newest entries that are searched for one that says what the agent does.
const SEARCHED_ENTRIES: u64 = 24;

/// A longer text is cut: it is one cell of a list.
const MAX_SUBJECT_CHARS: usize = 200;

/// What the holder of a plan does now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlanActivity {
    /// When the holder claimed the plan.
    pub since: Timestamp,
    /// The newest thing that the agent did; `None` if it has not said anything yet.
    pub latest: Option<AgentStep>,
}

/// One thing that an agent does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AgentStep {
    /// A verb, or the name of a tool.
    pub verb: String,
    /// One line, as the agent wrote it.
    pub subject: String,
}

/// Returns what the holder of a plan does now; `None` if nobody holds it.
pub fn find_current_activity(
    lifecycle: &Lifecycle,
    plan: &Plan,
) -> Result<Option<PlanActivity>, LifecycleError> {
    let Some(holder) = plan.stage().holder() else {
        return Ok(None);
    };
    let activity = |latest| {
        Some(PlanActivity {
            since: holder.since,
            latest,
        })
    };
    let store = lifecycle.store();
    let end = store.find_transcript_end(plan.id())?;
    // What an earlier holder did says nothing about this one.
    let Some(end) = end.filter(|end| end.epoch >= holder.epoch) else {
        return Ok(activity(None));
    };
    let after = match end.sequence.checked_sub(SEARCHED_ENTRIES) {
        Some(sequence) => Some(TranscriptPosition { sequence, ..end }),
        None => TranscriptPosition::before_epoch(end.epoch),
    };
    let entries = store.read_transcript(plan.id(), after, SEARCHED_ENTRIES as usize)?;
    let mut newest = entries.iter().rev();
    Ok(activity(
        newest.find_map(|stored| describe_entry(&stored.entry.content)),
    ))
}

/// What an entry says about the agent's work; `None` if it says nothing new.
fn describe_entry(content: &TranscriptContent) -> Option<AgentStep> {
    let (verb, subject) = match content {
        TranscriptContent::ToolCall(call) => (tool_verb(call), tool_subject(call)),
        TranscriptContent::FileChange(change) => {
            let verb = match change.change {
                Some(FileChangeKind::Created) => "write",
                Some(FileChangeKind::Deleted) => "delete",
                Some(FileChangeKind::Modified) | None => "edit",
            };
            (verb.to_owned(), change.path.as_str())
        }
        TranscriptContent::Checklist { items } => {
            let mut items = items.iter();
            let current = items.find(|item| item.status == ChecklistStatus::InProgress)?;
            ("step".to_owned(), current.text.as_str())
        }
        TranscriptContent::Text { text } | TranscriptContent::TextDelta { text } => {
            ("says".to_owned(), text.as_str())
        }
        TranscriptContent::Thought { text } => ("thinks".to_owned(), text.as_str()),
        TranscriptContent::Permission(permission) => match permission.status {
            PermissionStatus::Asked => ("asks".to_owned(), permission.tool.as_str()),
            PermissionStatus::Rejected => ("rejected".to_owned(), permission.tool.as_str()),
            PermissionStatus::Allowed | PermissionStatus::Cancelled => return None,
        },
        TranscriptContent::Notice { text, .. } => ("notice".to_owned(), text.as_str()),
        TranscriptContent::ToolCallUpdate(_) | TranscriptContent::Usage(_) => return None,
    };
    let mut lines = subject.lines().map(str::trim);
    let line = lines.rfind(|line| !line.is_empty()).unwrap_or_default();
    if line.is_empty() && !matches!(content, TranscriptContent::ToolCall(_)) {
        return None;
    }
    Some(AgentStep {
        verb,
        subject: line.chars().take(MAX_SUBJECT_CHARS).collect(),
    })
}

fn tool_verb(call: &ToolCallEntry) -> String {
    let verb = match call.tool_kind {
        ToolKind::Read => "read",
        ToolKind::Edit => "edit",
        ToolKind::Delete => "delete",
        ToolKind::Move => "move",
        ToolKind::Search => "search",
        ToolKind::Execute => "run",
        ToolKind::Fetch => "fetch",
        ToolKind::Think => "think",
        ToolKind::Other => return call.tool.chars().take(MAX_SUBJECT_CHARS).collect(),
    };
    verb.to_owned()
}

fn tool_subject(call: &ToolCallEntry) -> &str {
    let location = call.locations.first().map(|location| &location.path);
    // A command or a pattern says more than the files it names.
    let subject = match call.tool_kind {
        ToolKind::Execute | ToolKind::Search | ToolKind::Fetch => call.inputs.first().or(location),
        ToolKind::Read
        | ToolKind::Edit
        | ToolKind::Delete
        | ToolKind::Move
        | ToolKind::Think
        | ToolKind::Other => location.or(call.inputs.first()),
    };
    subject.or(call.title.as_ref()).map_or("", String::as_str)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "these are tests")]
mod tests {
    use plan::transcript::{FileChangeEntry, FileLocation, ToolCallStatus, Usage};

    use super::*;

    fn tool_call(kind: ToolKind, inputs: &[&str], paths: &[&str]) -> TranscriptContent {
        let locations = paths.iter().map(|path| FileLocation {
            path: (*path).to_owned(),
            line: None,
        });
        TranscriptContent::ToolCall(ToolCallEntry {
            call_id: None,
            tool: "mcp__shop__order".to_owned(),
            tool_kind: kind,
            inputs: inputs.iter().map(|input| (*input).to_owned()).collect(),
            title: None,
            locations: locations.collect(),
            status: ToolCallStatus::Started,
        })
    }

    #[track_caller]
    fn check_step(content: &TranscriptContent, verb: &str, subject: &str) {
        let step = describe_entry(content).unwrap();
        assert_eq!((step.verb.as_str(), step.subject.as_str()), (verb, subject));
    }

    #[test]
    fn entries_are_said_in_a_verb_and_its_object() {
        check_step(
            &tool_call(ToolKind::Edit, &["x"], &["src/a.rs"]),
            "edit",
            "src/a.rs",
        );
        check_step(
            &tool_call(ToolKind::Execute, &["cargo test"], &["src"]),
            "run",
            "cargo test",
        );
        check_step(
            &tool_call(ToolKind::Other, &[], &[]),
            "mcp__shop__order",
            "",
        );
        let text = |text: &str| TranscriptContent::Text {
            text: text.to_owned(),
        };
        check_step(&text("First.\n\nThen this.\n \n"), "says", "Then this.");
        let file = TranscriptContent::FileChange(FileChangeEntry {
            path: "b.txt".to_owned(),
            change: Some(FileChangeKind::Created),
            line_counts: None,
        });
        check_step(&file, "write", "b.txt");
        assert_eq!(describe_entry(&text("\n")), None);
        let usage = TranscriptContent::Usage(Usage::default());
        assert_eq!(describe_entry(&usage), None);
        let long = describe_entry(&text(&"\u{1f600}".repeat(5000))).unwrap();
        assert_eq!(long.subject.chars().count(), MAX_SUBJECT_CHARS);
    }
}
