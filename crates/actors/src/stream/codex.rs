//! The stream of `codex exec --json`: a thread, its turns, and the items of each.

use serde_json::Value;

use super::json::{JsonObject, get_array, get_count, get_object, get_text};
use super::{
    StreamSummary, StreamUpdate, bounded_answer, push_step, push_step_with, push_tool_call,
};
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
        summary: &mut StreamSummary,
        updates: &mut Vec<StreamUpdate>,
    ) {
        apply_event(kind, event, summary, updates);
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

/// The increase since `before`; the whole total if it is smaller, because then it is another count.
fn usage_since(total: u64, before: u64) -> u64 {
    total.checked_sub(before).unwrap_or(total)
}

fn apply_event(
    kind: &str,
    event: &JsonObject,
    summary: &mut StreamSummary,
    updates: &mut Vec<StreamUpdate>,
) {
    match kind {
        "thread.started" => {
            summary.session_started = true;
            if let Some(thread) = get_text(event, "thread_id").filter(|thread| !thread.is_empty()) {
                summary.session = Some(thread.to_owned());
            }
        }
        "item.started" | "item.completed" => {
            summary.last_error = None;
            if let Some(item) = get_object(event, "item") {
                read_item(kind == "item.completed", item, summary, updates);
            }
        }
        "turn.completed" => {
            summary.failure = None;
            summary.last_error = None;
        }
        "turn.failed" => {
            let message = get_object(event, "error").and_then(|error| get_text(error, "message"));
            summary.failure = Some(message.unwrap_or("the turn failed").to_owned());
        }
        "error" => {
            let message = get_text(event, "message").unwrap_or("the agent reported an error");
            push_step(message, updates);
            // It reports every reconnection as an error.
            summary.last_error = Some(message.to_owned());
        }
        _ => {}
    }
}

/// Shows an item when it has news: long operations when they start, others when they complete.
fn read_item(
    completed: bool,
    item: &JsonObject,
    summary: &mut StreamSummary,
    updates: &mut Vec<StreamUpdate>,
) {
    let kind = get_text(item, "type").or_else(|| get_text(item, "item_type"));
    let words = || get_text(item, "text").unwrap_or_default();
    match (kind.unwrap_or_default(), completed) {
        ("agent_message" | "assistant_message" | "plan", true) => {
            push_step(words(), updates);
            if let Some(words) = bounded_answer(words()) {
                summary.answer = Some(words);
            }
        }
        ("reasoning", true) => push_step(&words().replace("**", ""), updates),
        ("command_execution", false) => {
            let command = get_text(item, "command").unwrap_or_default();
            push_step(&format!("$ {command}"), updates);
            push_tool_call("shell", &[command], updates);
        }
        ("file_change", true) => {
            let paths: Vec<&str> = get_array(item, "changes")
                .iter()
                .filter_map(|change| get_text(change.as_object()?, "path"))
                .collect();
            push_step_with("edit", Some(&paths.join(", ")), updates);
            push_tool_call("edit", &paths, updates);
        }
        ("mcp_tool_call", false) => {
            let server = get_text(item, "server").unwrap_or("tool");
            let tool = get_text(item, "tool");
            push_step_with(server, tool, updates);
            let name = format!("mcp__{server}__{}", tool.unwrap_or_default());
            push_tool_call(&name, &[], updates);
        }
        ("web_search", true) => {
            let query = get_text(item, "query");
            push_step_with("search", query, updates);
            push_tool_call("search", query.as_slice(), updates);
        }
        ("todo_list", false) => {
            let items = get_array(item, "items").iter().filter_map(Value::as_object);
            let next = items
                .filter(|item| item.get("completed") != Some(&Value::Bool(true)))
                .find_map(|item| get_text(item, "text"));
            push_step_with("next", next, updates);
        }
        ("error", true) => push_step(get_text(item, "message").unwrap_or_default(), updates),
        _ => {}
    }
}
