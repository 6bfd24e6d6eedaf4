//! The stream of `claude --print --output-format stream-json`, also written by Amp, Cursor and Qwen
//! Code: `system`, `assistant`, `user` and, at the end, `result`.

use serde_json::Value;

use super::json::{JsonObject, dollars_to_micros, get_array, get_count, get_object, get_text};
use super::{
    StreamSummary, StreamUpdate, bounded_answer, push_step, push_step_with, push_tool_call,
};
use crate::Usage;

/// State between lines.
#[derive(Default)]
pub(super) struct ClaudeReader {
    /// The message of the last line. A message spans several lines, each with the same usage.
    message_id: String,
    /// Usage before that message.
    usage_before: Usage,
    /// The plan that it asked permission to carry out. It is the answer, whatever the agent says
    /// about it.
    proposed_plan: Option<String>,
}

impl ClaudeReader {
    pub(super) fn read_event(
        &mut self,
        kind: &str,
        event: &JsonObject,
        summary: &mut StreamSummary,
        updates: &mut Vec<StreamUpdate>,
    ) {
        if let Some(session) = get_text(event, "session_id").filter(|session| !session.is_empty()) {
            summary.session = Some(session.to_owned());
        }
        // Sent at the end, and by some agents earlier.
        let cost = event.get("total_cost_usd").and_then(Value::as_f64);
        if let Some(cost) = cost.and_then(dollars_to_micros) {
            summary.usage.cost_micros = cost;
        }
        if matches!(kind, "assistant" | "user" | "tool_call" | "result") {
            summary.last_error = None;
        }
        match kind {
            "system" => read_system(event, summary, updates),
            "assistant" => self.read_assistant(event, summary, updates),
            "tool_call" if get_text(event, "subtype") == Some("started") => {
                read_tool_call(event, updates)
            }
            "result" => self.read_result(event, summary),
            "error" => {
                summary.failure = Some(
                    get_object(event, "error")
                        .and_then(|error| get_text(error, "message"))
                        .or_else(|| get_text(event, "message"))
                        .unwrap_or("the agent reported an error")
                        .to_owned(),
                );
            }
            _ => {}
        }
    }

    fn read_assistant(
        &mut self,
        event: &JsonObject,
        summary: &mut StreamSummary,
        updates: &mut Vec<StreamUpdate>,
    ) {
        let Some(message) = get_object(event, "message") else {
            return;
        };
        // A subagent's text is not the agent's answer.
        let from_subagent = get_text(event, "parent_tool_use_id").is_some();
        for block in get_array(message, "content")
            .iter()
            .filter_map(Value::as_object)
        {
            match get_text(block, "type") {
                Some("text") => {
                    let words = get_text(block, "text").unwrap_or_default();
                    push_step(words, updates);
                    if !from_subagent && let Some(words) = bounded_answer(words) {
                        summary.answer = Some(words);
                    }
                }
                Some("tool_use") => {
                    let name = get_text(block, "name").unwrap_or("tool");
                    let input = get_object(block, "input");
                    if name == "ExitPlanMode"
                        && let Some(plan) = input.and_then(|input| get_text(input, "plan"))
                    {
                        self.proposed_plan = bounded_answer(plan);
                    }
                    push_step_with(name, input.and_then(first_tool_operand), updates);
                    push_tool_call(name, &input.map(tool_operands).unwrap_or_default(), updates);
                }
                _ => {}
            }
        }
        if let Some(used) = get_object(message, "usage") {
            let id = get_text(message, "id").unwrap_or_default();
            if self.message_id != id {
                id.clone_into(&mut self.message_id);
                self.usage_before = summary.usage;
            }
            let now = parse_usage(used);
            summary.usage.input_tokens = self
                .usage_before
                .input_tokens
                .saturating_add(now.input_tokens);
            summary.usage.output_tokens = self
                .usage_before
                .output_tokens
                .saturating_add(now.output_tokens);
        }
    }

    /// The last event, whose totals replace earlier counts.
    fn read_result(&mut self, event: &JsonObject, summary: &mut StreamSummary) {
        let words = get_text(event, "result").and_then(bounded_answer);
        summary.failure = failure_message(event, words.as_deref());
        if summary.failure.is_none() {
            let answer = self.proposed_plan.take().or(words);
            summary.answer = answer.or_else(|| summary.answer.take());
        }
        let used = sum_model_usage(event).or_else(|| get_object(event, "usage").map(parse_usage));
        if let Some(used) = used {
            summary.usage.input_tokens = used.input_tokens;
            summary.usage.output_tokens = used.output_tokens;
        }
    }
}

fn read_system(event: &JsonObject, summary: &mut StreamSummary, updates: &mut Vec<StreamUpdate>) {
    match get_text(event, "subtype") {
        Some("init") => summary.session_started = true,
        // Retries may take minutes, and the run may be stopped in between.
        Some("api_retry") => {
            let why = retry_message(event);
            push_step(&why, updates);
            summary.last_error = Some(why);
        }
        _ => {}
    }
}

/// Why a request is retried.
pub(super) fn retry_message(event: &JsonObject) -> String {
    let (attempt, max_attempts) = (get_count(event, "attempt"), get_count(event, "max_retries"));
    let error = get_text(event, "error").unwrap_or("error");
    let status = match get_count(event, "error_status") {
        0 => String::new(),
        status => format!(" {status}"),
    };
    format!("API error{status} ({error}), attempt {attempt} of {max_attempts}")
}

/// Sums the usage of all models. Those used for titles and summaries are not in `usage`, but are in
/// the cost.
fn sum_model_usage(event: &JsonObject) -> Option<Usage> {
    let models = get_object(event, "modelUsage").filter(|models| !models.is_empty())?;
    let mut all = Usage::default();
    for used in models.values().filter_map(Value::as_object) {
        for key in [
            "inputTokens",
            "cacheReadInputTokens",
            "cacheCreationInputTokens",
        ] {
            all.input_tokens = all.input_tokens.saturating_add(get_count(used, key));
        }
        all.output_tokens = all
            .output_tokens
            .saturating_add(get_count(used, "outputTokens"));
    }
    Some(all)
}

/// The error, if it failed. A result of type `success` may report an error, too.
fn failure_message(event: &JsonObject, words: Option<&str>) -> Option<String> {
    let subtype = get_text(event, "subtype").unwrap_or_default();
    let is_error = event.get("is_error").and_then(Value::as_bool) == Some(true);
    if !is_error && !subtype.starts_with("error") {
        return None;
    }
    let listed = get_array(event, "errors").iter().filter_map(Value::as_str);
    let errors: Vec<&str> = listed
        .chain(get_text(event, "error"))
        .chain(words)
        .collect();
    Some(match (subtype, errors.join("; ")) {
        ("" | "success", errors) if errors.is_empty() => "the agent reported an error".to_owned(),
        ("" | "success", errors) => errors,
        (subtype, errors) if errors.is_empty() => subtype.to_owned(),
        (subtype, errors) => format!("{subtype}: {errors}"),
    })
}

fn parse_usage(used: &JsonObject) -> Usage {
    Usage {
        input_tokens: get_count(used, "input_tokens")
            .saturating_add(get_count(used, "cache_creation_input_tokens"))
            .saturating_add(get_count(used, "cache_read_input_tokens")),
        output_tokens: get_count(used, "output_tokens"),
        cost_micros: 0,
    }
}

/// Reads a tool call in Cursor's format: `{"readToolCall": {"args": {"path": …}}}`.
fn read_tool_call(event: &JsonObject, updates: &mut Vec<StreamUpdate>) {
    let Some((name, call)) = get_object(event, "tool_call").and_then(|calls| calls.iter().next())
    else {
        return;
    };
    let arguments = call.as_object().and_then(|call| get_object(call, "args"));
    let name = name.strip_suffix("ToolCall").unwrap_or(name);
    push_step_with(name, arguments.and_then(first_tool_operand), updates);
    push_tool_call(
        name,
        &arguments.map(tool_operands).unwrap_or_default(),
        updates,
    );
}

/// Input keys that name what a tool works on.
const OPERAND_KEYS: [&str; 12] = [
    "command",
    "cmd",
    "file_path",
    "filePath",
    "absolute_path",
    "path",
    "dir_path",
    "notebook_path",
    "pattern",
    "query",
    "url",
    "skill",
];

/// Everything a tool works on.
pub(super) fn tool_operands(input: &JsonObject) -> Vec<&str> {
    OPERAND_KEYS
        .iter()
        .filter_map(|key| get_text(input, key))
        .collect()
}

/// What a tool works on, in short; if unknown, its description.
pub(super) fn first_tool_operand(input: &JsonObject) -> Option<&str> {
    let mut keys = OPERAND_KEYS.iter().chain(&["description", "prompt"]);
    keys.find_map(|key| get_text(input, key))
}
