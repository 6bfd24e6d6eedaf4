//! The stream of `codex exec --json`: a thread, its turns, and the items of each.

use serde_json::Value;

use super::json::{Object, count, list, object, text};
use super::{Heard, Said, answer, called, step, step_with};
use crate::Earlier;

/// What has to be remembered between lines.
pub(super) struct Codex {
    /// The thread that is gone on with: what it used in runs before this one, it counts again.
    earlier: Option<Earlier>,
}

impl Codex {
    pub(super) fn new(earlier: Option<Earlier>) -> Self {
        Self { earlier }
    }

    pub(super) fn event(
        &mut self,
        kind: &str,
        event: &Object,
        heard: &mut Heard,
        said: &mut Vec<Said>,
    ) {
        take(kind, event, heard, said);
        // It may have begun another one.
        self.earlier
            .take_if(|earlier| heard.session.as_ref() != Some(&earlier.session));
        if kind == "turn.completed"
            && let Some(used) = object(event, "usage")
        {
            let earlier = self.earlier.as_ref();
            let before = earlier.map(|earlier| earlier.used).unwrap_or_default();
            heard.includes_usage_of = earlier
                .map(|earlier| earlier.lost_runs.clone())
                .unwrap_or_default();
            let used = |key, before| without(count(used, key), before);
            heard.usage.input_tokens = used("input_tokens", before.input_tokens);
            heard.usage.output_tokens = used("output_tokens", before.output_tokens);
        }
    }
}

/// What of a total came to it since; all of it if it cannot be that total.
fn without(total: u64, before: u64) -> u64 {
    total.checked_sub(before).unwrap_or(total)
}

fn take(kind: &str, event: &Object, heard: &mut Heard, said: &mut Vec<Said>) {
    match kind {
        "thread.started" => {
            heard.began = true;
            if let Some(thread) = text(event, "thread_id").filter(|thread| !thread.is_empty()) {
                heard.session = Some(thread.to_owned());
            }
        }
        "item.started" | "item.completed" => {
            heard.trouble = None;
            if let Some(entry) = object(event, "item") {
                item(kind == "item.completed", entry, heard, said);
            }
        }
        "turn.completed" => {
            heard.failure = None;
            heard.trouble = None;
        }
        "turn.failed" => {
            let message = object(event, "error").and_then(|error| text(error, "message"));
            heard.failure = Some(message.unwrap_or("the turn failed").to_owned());
        }
        "error" => {
            let message = text(event, "message").unwrap_or("the agent reported an error");
            step(message, said);
            // It tells of every reconnection as of an error.
            heard.trouble = Some(message.to_owned());
        }
        _ => {}
    }
}

/// An item is shown when it tells something new: what takes time when it starts, the rest when it is there.
fn item(completed: bool, item: &Object, heard: &mut Heard, said: &mut Vec<Said>) {
    let kind = text(item, "type").or_else(|| text(item, "item_type"));
    let words = || text(item, "text").unwrap_or_default();
    match (kind.unwrap_or_default(), completed) {
        ("agent_message" | "assistant_message" | "plan", true) => {
            step(words(), said);
            if let Some(words) = answer(words()) {
                heard.answer = Some(words);
            }
        }
        ("reasoning", true) => step(&words().replace("**", ""), said),
        ("command_execution", false) => {
            let command = text(item, "command").unwrap_or_default();
            step(&format!("$ {command}"), said);
            called("shell", &[command], said);
        }
        ("file_change", true) => {
            let paths: Vec<&str> = list(item, "changes")
                .iter()
                .filter_map(|change| text(change.as_object()?, "path"))
                .collect();
            step_with("edit", Some(&paths.join(", ")), said);
            called("edit", &paths, said);
        }
        ("mcp_tool_call", false) => {
            let server = text(item, "server").unwrap_or("tool");
            let tool = text(item, "tool");
            step_with(server, tool, said);
            let name = format!("mcp__{server}__{}", tool.unwrap_or_default());
            called(&name, &[], said);
        }
        ("web_search", true) => {
            let query = text(item, "query");
            step_with("search", query, said);
            called("search", query.as_slice(), said);
        }
        ("todo_list", false) => {
            let items = list(item, "items").iter().filter_map(Value::as_object);
            let next = items
                .filter(|item| item.get("completed") != Some(&Value::Bool(true)))
                .find_map(|item| text(item, "text"));
            step_with("next", next, said);
        }
        ("error", true) => step(text(item, "message").unwrap_or_default(), said),
        _ => {}
    }
}
