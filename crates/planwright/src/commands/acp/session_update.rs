//! What an agent says and does, as updates for the editor.

use std::path::{Path, PathBuf};

use plan::Epoch;
use plan::transcript::{
    ChecklistItem, ChecklistStatus, FileChangeEntry, FileChangeKind, NoticeLevel, PermissionStatus,
    ToolCallEntry, ToolCallStatus, ToolCallUpdate, TranscriptContent,
};
use serde_json::{Value, json};

/// Turns transcript entries into updates.
pub struct UpdateWriter {
    /// The person's repository. The protocol wants absolute paths, and the sandbox means nothing to an editor.
    repository: PathBuf,
    /// For calls without an id of their own.
    unnamed_calls: u64,
}

impl UpdateWriter {
    pub fn new(repository: &Path) -> Self {
        Self {
            repository: repository.to_owned(),
            unnamed_calls: 0,
        }
    }

    /// Returns the update for an entry of the run with this epoch; `None` if the protocol has none for it.
    pub fn describe_entry(&mut self, epoch: Epoch, content: &TranscriptContent) -> Option<Value> {
        Some(match content {
            TranscriptContent::Text { text } => message_update(&format!("{text}\n\n")),
            TranscriptContent::TextDelta { text } => message_update(text),
            TranscriptContent::Thought { text } => thought_update(text),
            TranscriptContent::ToolCall(call) => self.describe_call(epoch, call),
            TranscriptContent::ToolCallUpdate(update) => describe_call_update(epoch, update)?,
            TranscriptContent::FileChange(change) => self.describe_file_change(epoch, change),
            TranscriptContent::Checklist { items } => describe_checklist(items),
            TranscriptContent::Permission(permission) => match permission.status {
                PermissionStatus::Asked => {
                    // How to answer is said when the question is stored.
                    message_update(&format!(
                        "Asks to {}, and waits for you.\n\n",
                        permission.describe_call()
                    ))
                }
                PermissionStatus::Rejected => thought_update(&format!(
                    "Rejected: {} ({})",
                    permission.describe_call(),
                    permission.reason
                )),
                PermissionStatus::Allowed | PermissionStatus::Cancelled => return None,
            },
            TranscriptContent::Notice { level, text } => match level {
                NoticeLevel::Info => thought_update(text),
                NoticeLevel::Warning | NoticeLevel::Error => message_update(&format!("{text}\n\n")),
            },
            TranscriptContent::Usage(_) => return None,
        })
    }

    fn describe_call(&mut self, epoch: Epoch, call: &ToolCallEntry) -> Value {
        let title = call.title.clone().or_else(|| call.target());
        let locations = call.locations.iter().map(|location| match location.line {
            Some(line) => json!({ "path": self.absolute_path(&location.path), "line": line }),
            None => json!({ "path": self.absolute_path(&location.path) }),
        });
        let locations: Vec<Value> = locations.collect();
        let call_id = match &call.call_id {
            Some(call_id) => editor_call_id(epoch, call_id),
            None => self.next_call_id(epoch),
        };
        json!({
            "sessionUpdate": "tool_call",
            "toolCallId": call_id,
            "title": title.unwrap_or_else(|| call.tool.clone()),
            "kind": call.tool_kind.as_str(),
            "status": status_word(call.status),
            "locations": locations,
            "rawInput": { "tool": call.tool, "inputs": call.inputs },
        })
    }

    fn describe_file_change(&mut self, epoch: Epoch, change: &FileChangeEntry) -> Value {
        let verb = match change.change {
            Some(FileChangeKind::Created) => "Write",
            Some(FileChangeKind::Deleted) => "Delete",
            Some(FileChangeKind::Modified) | None => "Edit",
        };
        json!({
            "sessionUpdate": "tool_call",
            "toolCallId": self.next_call_id(epoch),
            "title": format!("{verb} {}", change.path),
            "kind": "edit",
            "status": "completed",
            "locations": [{ "path": self.absolute_path(&change.path) }],
        })
    }

    fn absolute_path(&self, path: &str) -> String {
        self.repository.join(path).display().to_string()
    }

    fn next_call_id(&mut self, epoch: Epoch) -> String {
        self.unnamed_calls += 1;
        editor_call_id(epoch, &format!("unnamed-{}", self.unnamed_calls))
    }
}

/// Agents use the same ids in every run, but those of a session must differ.
fn editor_call_id(epoch: Epoch, call_id: &str) -> String {
    format!("run-{epoch}-{call_id}")
}

/// A piece of a message to the person.
pub fn message_update(text: &str) -> Value {
    text_update("agent_message_chunk", text)
}

/// What the person said in an earlier prompt.
pub fn prompt_update(text: &str) -> Value {
    text_update("user_message_chunk", text)
}

/// A remark on how things go.
pub fn thought_update(text: &str) -> Value {
    text_update("agent_thought_chunk", &format!("{text}\n"))
}

fn text_update(kind: &str, text: &str) -> Value {
    json!({ "sessionUpdate": kind, "content": { "type": "text", "text": text } })
}

fn describe_call_update(epoch: Epoch, update: &ToolCallUpdate) -> Option<Value> {
    let mut described = json!({
        "sessionUpdate": "tool_call_update",
        "toolCallId": editor_call_id(epoch, update.call_id.as_ref()?),
        "status": status_word(update.status),
    });
    if let Some(output) = &update.output {
        described["content"] = json!([text_content(output)]);
    }
    Some(described)
}

/// A text as content of a tool call.
pub fn text_content(text: &str) -> Value {
    json!({ "type": "content", "content": { "type": "text", "text": text } })
}

fn describe_checklist(items: &[ChecklistItem]) -> Value {
    let entries = items.iter().map(|item| {
        let status = match item.status {
            ChecklistStatus::Pending => "pending",
            ChecklistStatus::InProgress => "in_progress",
            ChecklistStatus::Completed => "completed",
        };
        json!({ "content": item.text, "priority": "medium", "status": status })
    });
    json!({ "sessionUpdate": "plan", "entries": entries.collect::<Vec<_>>() })
}

fn status_word(status: ToolCallStatus) -> &'static str {
    match status {
        ToolCallStatus::Started => "in_progress",
        ToolCallStatus::Completed => "completed",
        ToolCallStatus::Failed => "failed",
    }
}

#[cfg(test)]
mod tests {
    use plan::transcript::ToolKind;

    use super::*;

    #[test]
    fn calls_of_different_runs_have_different_ids_and_absolute_paths() {
        let mut writer = UpdateWriter::new(Path::new("/home/ada/shop"));
        let call = |call_id: Option<&str>| {
            TranscriptContent::ToolCall(ToolCallEntry {
                call_id: call_id.map(str::to_owned),
                tool: "Read".to_owned(),
                tool_kind: ToolKind::Read,
                inputs: vec!["src/a.txt".to_owned()],
                title: None,
                locations: vec![plan::transcript::FileLocation {
                    path: "src/a.txt".to_owned(),
                    line: Some(3),
                }],
                status: ToolCallStatus::Started,
            })
        };
        let first = writer.describe_entry(Epoch(1), &call(Some("c"))).unwrap();
        assert_eq!(first["locations"][0]["path"], "/home/ada/shop/src/a.txt");
        let second = writer.describe_entry(Epoch(2), &call(Some("c"))).unwrap();
        assert_ne!(first["toolCallId"], second["toolCallId"]);
        let update = TranscriptContent::ToolCallUpdate(ToolCallUpdate {
            call_id: Some("c".to_owned()),
            status: ToolCallStatus::Completed,
            exit_code: None,
            output: Some("text".to_owned()),
        });
        let update = writer.describe_entry(Epoch(2), &update).unwrap();
        assert_eq!(update["toolCallId"], second["toolCallId"]);
        let unnamed = writer.describe_entry(Epoch(2), &call(None)).unwrap();
        let other = writer.describe_entry(Epoch(2), &call(None)).unwrap();
        assert_ne!(unnamed["toolCallId"], other["toolCallId"]);
    }
}
