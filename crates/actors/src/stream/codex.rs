//! The stream of `codex exec --json`: a thread, its turns, and the items of each.

use plan::transcript::{
    ChecklistItem, ChecklistStatus, FileChangeEntry, FileChangeKind, NoticeLevel, ToolCallStatus,
    ToolKind,
};
use serde_json::Value;

use super::entry_collector::{EntryCollector, ToolCallResult};
use super::json::{JsonObject, get_array, get_count, get_object, get_text};
use super::session_usage::usage_since;
use super::tool_call::{ToolCallInput, error_message, result_text};
use crate::EarlierSession;

/// State between lines.
pub(super) struct CodexReader {
    /// The resumed thread. Its totals include usage of earlier runs.
    earlier: Option<EarlierSession>,
}

impl CodexReader {
    pub(super) fn new(earlier: Option<EarlierSession>) -> Self {
        Self { earlier }
    }

    pub(super) fn read_event(
        &mut self,
        kind: &str,
        event: &JsonObject,
        collector: &mut EntryCollector,
    ) {
        apply_event(kind, event, collector);
        let summary = &mut collector.summary;
        // It may have started another thread.
        self.earlier
            .take_if(|earlier| summary.session.as_ref() != Some(&earlier.session));
        if kind == "turn.completed"
            && let Some(used) = get_object(event, "usage")
        {
            let earlier = self.earlier.as_ref();
            let before = earlier.map(|earlier| earlier.used).unwrap_or_default();
            summary.includes_usage_of = earlier
                .map(|earlier| earlier.lost_runs.clone())
                .unwrap_or_default();
            let used = |key, before| usage_since(get_count(used, key), before);
            summary.usage.input_tokens = used("input_tokens", before.input_tokens);
            summary.usage.output_tokens = used("output_tokens", before.output_tokens);
        }
    }
}

fn apply_event(kind: &str, event: &JsonObject, collector: &mut EntryCollector) {
    let summary = &mut collector.summary;
    match kind {
        "thread.started" => {
            summary.session_started = true;
            if let Some(thread) = get_text(event, "thread_id").filter(|thread| !thread.is_empty()) {
                summary.session = Some(thread.to_owned());
            }
        }
        "item.started" | "item.updated" | "item.completed" => {
            summary.last_error = None;
            if let Some(item) = get_object(event, "item") {
                read_item(kind, item, collector);
            }
        }
        "turn.completed" => {
            summary.failure = None;
            summary.last_error = None;
        }
        "turn.failed" => {
            let message = get_object(event, "error").and_then(|error| get_text(error, "message"));
            let message = message.unwrap_or("the turn failed");
            // It was reported as an error before.
            match summary.last_error.as_deref() == Some(message) {
                true => summary.failure = Some(message.to_owned()),
                false => collector.add_failure(message),
            }
        }
        // It reports every reconnection as an error.
        "error" => collector.add_error(NoticeLevel::Warning, error_message(event)),
        _ => {}
    }
}

fn read_item(event_kind: &str, item: &JsonObject, collector: &mut EntryCollector) {
    let kind = get_text(item, "type").or_else(|| get_text(item, "item_type"));
    let words = || get_text(item, "text").unwrap_or_default();
    let call_id = get_text(item, "id");
    match (kind.unwrap_or_default(), event_kind) {
        ("agent_message" | "assistant_message" | "plan", "item.completed") => {
            collector.add_message(words())
        }
        ("reasoning", "item.completed") => collector.add_thought(&words().replace("**", "")),
        ("command_execution", "item.started") => {
            let command = get_text(item, "command").unwrap_or_default();
            let call = ToolCallInput::with_operands("shell", ToolKind::Execute, vec![command]);
            collector.start_call(call_id, &call);
        }
        ("command_execution", "item.completed") => {
            let exit_code = item.get("exit_code").and_then(Value::as_i64);
            let result = ToolCallResult {
                failed: has_failed(item) || exit_code.is_some_and(|code| code != 0),
                exit_code,
                output: get_text(item, "aggregated_output").map(str::to_owned),
                ..ToolCallResult::default()
            };
            collector.end_call(call_id, result);
        }
        ("file_change", "item.completed") => read_file_changes(item, collector),
        ("mcp_tool_call", "item.started") => {
            let server = get_text(item, "server").unwrap_or("tool");
            let tool = get_text(item, "tool").unwrap_or_default();
            let name = format!("mcp__{server}__{tool}");
            let call = ToolCallInput::with_operands(&name, ToolKind::Other, Vec::new());
            collector.start_call(call_id, &call);
        }
        ("mcp_tool_call", "item.completed") => {
            let result = get_object(item, "result");
            let output = result.and_then(|result| result_text(result.get("content")));
            let error = get_object(item, "error").map(|_| error_message(item).to_owned());
            let result = ToolCallResult {
                failed: has_failed(item) || error.is_some(),
                output: error.or(output),
                ..ToolCallResult::default()
            };
            collector.end_call(call_id, result);
        }
        ("web_search", "item.completed") => {
            let query = get_text(item, "query").into_iter().collect();
            let call = ToolCallInput::with_operands("search", ToolKind::Search, query);
            collector.add_finished_call(&call, ToolCallStatus::Completed);
        }
        ("todo_list", _) => {
            let items = get_array(item, "items").iter();
            let items = items.filter_map(|item| parse_checklist_item(item.as_object()?));
            collector.add_checklist(items.collect());
        }
        ("error", "item.completed") => collector.add_notice(
            NoticeLevel::Warning,
            get_text(item, "message").unwrap_or_default(),
        ),
        _ => {}
    }
}

fn read_file_changes(item: &JsonObject, collector: &mut EntryCollector) {
    let changes = get_array(item, "changes").iter();
    let changes: Vec<FileChangeEntry> = changes
        .filter_map(|change| parse_file_change(change.as_object()?))
        .collect();
    let paths = changes.iter().map(|change| change.path.as_str()).collect();
    let status = match has_failed(item) {
        true => ToolCallStatus::Failed,
        false => ToolCallStatus::Completed,
    };
    collector.add_finished_call(
        &ToolCallInput::with_operands("edit", ToolKind::Edit, paths),
        status,
    );
    if status == ToolCallStatus::Completed {
        for change in changes {
            collector.add_file_change(change);
        }
    }
}

fn parse_file_change(change: &JsonObject) -> Option<FileChangeEntry> {
    Some(FileChangeEntry {
        path: get_text(change, "path")?.to_owned(),
        change: match get_text(change, "kind") {
            Some("add") => Some(FileChangeKind::Created),
            Some("update") => Some(FileChangeKind::Modified),
            Some("delete") => Some(FileChangeKind::Deleted),
            Some(_) | None => None,
        },
        line_counts: None,
    })
}

fn parse_checklist_item(item: &JsonObject) -> Option<ChecklistItem> {
    Some(ChecklistItem {
        text: get_text(item, "text")?.to_owned(),
        status: match item.get("completed") {
            Some(Value::Bool(true)) => ChecklistStatus::Completed,
            Some(_) | None => ChecklistStatus::Pending,
        },
    })
}

fn has_failed(item: &JsonObject) -> bool {
    matches!(get_text(item, "status"), Some("failed" | "declined"))
}
