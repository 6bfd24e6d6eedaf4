//! Puts together what several updates say about one tool call.
//!
//! An agent announces a call before it knows its input, and later updates add to it. The entry of a call is
//! made once its input is known or it runs.

use std::collections::BTreeMap;

use plan::guard::ToolCall;
use plan::permission::PermissionRequest;
use plan::transcript::{
    FileChangeEntry, FileChangeKind, FileLocation, LineCounts, ToolCallEntry, ToolCallStatus,
    ToolCallUpdate, ToolKind, TranscriptContent,
};
use serde_json::Value;

use super::agent_flavor::AgentFlavor;
use crate::stream::EntryCleaner;
use crate::stream::json::{JsonObject, get_array, get_object, get_text};
use crate::stream::tool_call::{classify_tool, count_changed_lines, tool_operands};

/// How many calls are remembered until they end.
const MAX_OPEN_CALLS: usize = 256;

/// The most paths of one call.
const MAX_PATHS: usize = 256;

#[derive(Default)]
pub(super) struct ToolCallTracker {
    open_calls: BTreeMap<String, OpenToolCall>,
}

/// What is known about a call.
#[derive(Debug, Clone, Default)]
struct OpenToolCall {
    tool: Option<String>,
    tool_kind: Option<ToolKind>,
    title: Option<String>,
    raw_input: Option<JsonObject>,
    locations: Vec<FileLocation>,
    changes: Vec<FileChangeEntry>,
    /// What the tool returned.
    output: Option<String>,
    exit_code: Option<i64>,
    is_reported: bool,
}

impl ToolCallTracker {
    /// Does a tool run, according to the agent?
    pub(super) fn has_running_call(&self) -> bool {
        self.open_calls.values().any(|call| call.is_reported)
    }

    /// Reads a `tool_call` or `tool_call_update`.
    pub(super) fn read_update(
        &mut self,
        update: &JsonObject,
        flavor: AgentFlavor,
    ) -> Vec<TranscriptContent> {
        let call_id = get_text(update, "toolCallId").unwrap_or_default();
        let is_known = self.open_calls.contains_key(call_id);
        let mut call = self.open_calls.remove(call_id).unwrap_or_default();
        call.read_fields(call_id, update, flavor);
        let status = get_text(update, "status").unwrap_or_default();
        let mut entries = Vec::new();
        let has_ended = matches!(status, "completed" | "failed" | "cancelled");
        let is_full = !is_known && self.open_calls.len() >= MAX_OPEN_CALLS;
        if !call.is_reported
            && (call.has_input() || status == "in_progress" || has_ended || is_full)
        {
            call.is_reported = true;
            entries.push(TranscriptContent::ToolCall(call.to_entry(call_id)));
        }
        if has_ended {
            entries.extend(call.end(call_id, status == "completed"));
        } else if !is_full {
            self.open_calls.insert(call_id.to_owned(), call);
        }
        entries
    }

    /// Reads the call of a permission request. Returns the request, and the entry of the call unless it was
    /// reported before.
    pub(super) fn read_request(
        &mut self,
        tool_call: &JsonObject,
        flavor: AgentFlavor,
        cleaner: &EntryCleaner<'_>,
    ) -> (PermissionRequest, Option<TranscriptContent>) {
        let call_id = get_text(tool_call, "toolCallId").unwrap_or_default();
        let mut call = self.open_calls.remove(call_id).unwrap_or_default();
        call.read_fields(call_id, tool_call, flavor);
        let mut inputs: Vec<String> = Vec::new();
        for input in call.inputs() {
            let input = match call.names_files() {
                true => cleaner.to_repository_path(&input),
                false => input,
            };
            if !inputs.contains(&input) {
                inputs.push(input);
            }
        }
        let request = PermissionRequest {
            call_id: Some(call_id.to_owned()).filter(|id| !id.is_empty()),
            call: ToolCall {
                tool: call.tool_name(),
                inputs,
            },
            tool_kind: call.tool_kind(),
            title: call.title.clone(),
            raw_input: call
                .raw_input
                .clone()
                .map(|input| Value::Object(input).to_string()),
        };
        let entry = (!call.is_reported).then(|| {
            call.is_reported = true;
            TranscriptContent::ToolCall(call.to_entry(call_id))
        });
        if self.open_calls.len() < MAX_OPEN_CALLS {
            self.open_calls.insert(call_id.to_owned(), call);
        }
        (request, entry)
    }
}

impl OpenToolCall {
    /// Takes over what an update says. What it does not mention stays.
    fn read_fields(&mut self, call_id: &str, update: &JsonObject, flavor: AgentFlavor) {
        let title = get_text(update, "title").filter(|title| !title.trim().is_empty());
        if self.tool.is_none() {
            let name = tool_name_in_update(update);
            let in_title = title.filter(|_| flavor.titles_name_tools && self.title.is_none());
            let in_id = call_id
                .split_once("__")
                .map(|(tool, _)| tool)
                .filter(|_| flavor.call_ids_name_tools);
            self.tool = name.or(in_title).or(in_id).map(str::to_owned);
        }
        if let Some(title) = title {
            self.title = Some(title.to_owned());
        }
        if let Some(kind) = get_text(update, "kind") {
            self.tool_kind = Some(parse_tool_kind(kind));
        }
        if let Some(input) = get_object(update, "rawInput").filter(|input| !input.is_empty()) {
            self.raw_input = Some(input.clone());
        }
        let locations = get_array(update, "locations").iter();
        let locations: Vec<FileLocation> = locations
            .filter_map(|location| read_location(location.as_object()?))
            .take(MAX_PATHS)
            .collect();
        if !locations.is_empty() {
            self.locations = locations;
        }
        self.read_content(get_array(update, "content"));
        if let Some(output) = update.get("rawOutput") {
            self.read_raw_output(output);
        }
        let exit = get_object(update, "_meta").and_then(|meta| get_object(meta, "terminal_exit"));
        if let Some(exit) = exit {
            self.exit_code = exit.get("exit_code").and_then(Value::as_i64);
        }
    }

    fn read_content(&mut self, blocks: &[Value]) {
        let blocks = || blocks.iter().filter_map(Value::as_object);
        let of_type = |kind: &'static str| {
            blocks().filter(move |block| get_text(block, "type") == Some(kind))
        };
        let changes: Vec<FileChangeEntry> = of_type("diff")
            .filter_map(read_file_change)
            .take(MAX_PATHS)
            .collect();
        if !changes.is_empty() {
            self.changes = changes;
        }
        let texts: Vec<&str> = of_type("content")
            .filter_map(|block| get_text(get_object(block, "content")?, "text"))
            .collect();
        if !texts.is_empty() {
            self.output = Some(texts.join("\n"));
        }
    }

    fn read_raw_output(&mut self, output: &Value) {
        const TEXT_KEYS: [&str; 4] = ["output", "stdout", "text", "content"];
        let Value::Object(fields) = output else {
            if let Value::String(text) = output
                && self.output.is_none()
            {
                self.output = Some(text.clone());
            }
            return;
        };
        if self.output.is_none() {
            let text = TEXT_KEYS.iter().find_map(|key| get_text(fields, key));
            self.output = text.map(str::to_owned);
        }
        let find_code = |fields: &JsonObject| {
            let mut keys = ["exitCode", "exit_code", "exit"].iter();
            keys.find_map(|key| fields.get(*key)?.as_i64())
        };
        let nested = get_array(fields, "contents")
            .iter()
            .filter_map(Value::as_object)
            .chain(get_object(fields, "metadata"))
            .find_map(find_code);
        self.exit_code = find_code(fields).or(nested).or(self.exit_code);
    }

    fn tool_kind(&self) -> ToolKind {
        let of_name = || self.tool.as_deref().map(classify_tool);
        self.tool_kind
            .filter(|kind| *kind != ToolKind::Other)
            .or_else(of_name)
            .unwrap_or(ToolKind::Other)
    }

    fn tool_name(&self) -> String {
        let kind = self.tool_kind().as_str();
        self.tool.clone().unwrap_or_else(|| kind.to_owned())
    }

    fn names_files(&self) -> bool {
        match self.tool_kind() {
            ToolKind::Read | ToolKind::Edit | ToolKind::Delete | ToolKind::Move => true,
            ToolKind::Search
            | ToolKind::Execute
            | ToolKind::Fetch
            | ToolKind::Think
            | ToolKind::Other => false,
        }
    }

    fn has_input(&self) -> bool {
        self.raw_input.is_some() || !self.locations.is_empty()
    }

    /// What the call works on, the most telling first. A title is used if nothing else is known.
    fn inputs(&self) -> Vec<String> {
        let mut inputs: Vec<String> = Vec::new();
        if let Some(input) = &self.raw_input {
            inputs.extend(commands_in(input));
            if inputs.is_empty() {
                inputs.extend(tool_operands(input).into_iter().map(str::to_owned));
                inputs.extend(get_text(input, "fileName").map(str::to_owned));
            }
        }
        if self.names_files() {
            inputs.extend(self.locations.iter().map(|location| location.path.clone()));
            inputs.extend(self.changes.iter().map(|change| change.path.clone()));
        }
        if inputs.is_empty() {
            inputs.extend(self.title.clone());
        }
        inputs
    }

    fn to_entry(&self, call_id: &str) -> ToolCallEntry {
        let mut inputs = Vec::new();
        for input in self.inputs() {
            // The same path, absolute and relative.
            let is_known =
                |known: &String| *known == input || input.ends_with(&format!("/{known}"));
            if !inputs.iter().any(is_known) {
                inputs.push(input);
            }
        }
        ToolCallEntry {
            call_id: Some(call_id.to_owned()).filter(|id| !id.is_empty()),
            tool: self.tool_name(),
            tool_kind: self.tool_kind(),
            inputs,
            title: self.title.clone(),
            locations: self.locations.clone(),
            status: ToolCallStatus::Started,
        }
    }

    /// The entries of a call that ended.
    fn end(self, call_id: &str, is_successful: bool) -> Vec<TranscriptContent> {
        let mut entries = vec![TranscriptContent::ToolCallUpdate(ToolCallUpdate {
            call_id: Some(call_id.to_owned()).filter(|id| !id.is_empty()),
            status: match is_successful {
                true => ToolCallStatus::Completed,
                false => ToolCallStatus::Failed,
            },
            exit_code: self.exit_code,
            output: self.output.clone().filter(|text| !text.trim().is_empty()),
        })];
        if is_successful {
            let changes = self.file_changes().into_iter();
            entries.extend(changes.map(TranscriptContent::FileChange));
        }
        entries
    }

    fn file_changes(self) -> Vec<FileChangeEntry> {
        let change = match self.tool_kind() {
            ToolKind::Edit if !self.changes.is_empty() => return self.changes,
            ToolKind::Edit => None,
            ToolKind::Delete => Some(FileChangeKind::Deleted),
            ToolKind::Read
            | ToolKind::Move
            | ToolKind::Search
            | ToolKind::Execute
            | ToolKind::Fetch
            | ToolKind::Think
            | ToolKind::Other => return self.changes,
        };
        let locations = self.locations.into_iter();
        let changes = locations.map(|location| FileChangeEntry {
            path: location.path,
            change,
            line_counts: None,
        });
        changes.collect()
    }
}

/// Where agents name the tool. The protocol has no field for it.
fn tool_name_in_update(update: &JsonObject) -> Option<&str> {
    let meta = get_object(update, "_meta");
    let in_meta = |key: &str| get_text(meta?, key);
    get_text(update, "name")
        .or_else(|| get_text(get_object(meta?, "claudeCode")?, "toolName"))
        .or_else(|| in_meta("toolName"))
        .or_else(|| in_meta("tool_name"))
        .filter(|name| !name.is_empty())
}

fn parse_tool_kind(kind: &str) -> ToolKind {
    match kind {
        "read" => ToolKind::Read,
        "edit" => ToolKind::Edit,
        "delete" => ToolKind::Delete,
        "move" => ToolKind::Move,
        "search" => ToolKind::Search,
        "execute" => ToolKind::Execute,
        "fetch" => ToolKind::Fetch,
        "think" => ToolKind::Think,
        _ => ToolKind::Other,
    }
}

fn read_location(location: &JsonObject) -> Option<FileLocation> {
    Some(FileLocation {
        path: get_text(location, "path")?.to_owned(),
        line: location.get("line").and_then(Value::as_u64),
    })
}

/// Reads a diff. Agents write an empty old text for new files and for empty ones alike.
fn read_file_change(diff: &JsonObject) -> Option<FileChangeEntry> {
    let path = get_text(diff, "path")?.to_owned();
    let new_text = get_text(diff, "newText")?;
    let (change, line_counts) = match diff.get("oldText") {
        Some(Value::Null) => {
            let added = new_text.lines().count() as u64;
            let line_counts = LineCounts { added, removed: 0 };
            (Some(FileChangeKind::Created), Some(line_counts))
        }
        Some(Value::String(old_text)) => (
            (!old_text.is_empty()).then_some(FileChangeKind::Modified),
            Some(count_changed_lines(old_text, new_text)),
        ),
        _ => (None, None),
    };
    Some(FileChangeEntry {
        path,
        change,
        line_counts,
    })
}

/// The commands of a tool that runs some: a text, a list of texts, or the words of one command.
fn commands_in(input: &JsonObject) -> Vec<String> {
    let texts = |key: &str| {
        let items = get_array(input, key).iter();
        items.filter_map(Value::as_str).collect::<Vec<_>>()
    };
    let mut commands: Vec<String> = texts("commands").into_iter().map(str::to_owned).collect();
    for key in ["command", "cmd"] {
        let words = texts(key);
        if !words.is_empty() {
            commands.push(words.join(" "));
        }
        commands.extend(get_text(input, key).map(str::to_owned));
    }
    let mut seen = Vec::new();
    commands.retain(|command| {
        let is_new = !seen.contains(command);
        seen.push(command.clone());
        is_new
    });
    commands
}
