//! The stream of `claude --print --output-format stream-json`, also written by Amp, Cursor and Qwen
//! Code: `system`, `assistant`, `user` and, at the end, `result`.

use plan::transcript::{FileChangeKind, LineCounts, NoticeLevel};
use serde_json::Value;

use super::entry_collector::{EntryCollector, ToolCallResult, bounded_answer};
use super::json::{JsonObject, dollars_to_micros, get_array, get_count, get_object, get_text};
use super::session_usage::{includes_earlier_runs, usage_since};
use super::tool_call::{ToolCallInput, count_patch_lines, error_message, result_text};
use crate::{EarlierSession, Usage};

/// State between lines.
pub(super) struct ClaudeReader {
    /// The resumed session. Totals may include its usage.
    earlier: Option<EarlierSession>,
    /// The message of the last line. A message spans several lines, each with the same usage.
    message_id: String,
    /// Usage before that message.
    usage_before: Usage,
    /// The plan that it asked permission to carry out. It is the answer, whatever the agent says
    /// about it.
    proposed_plan: Option<String>,
}

impl ClaudeReader {
    pub(super) fn new(earlier: Option<EarlierSession>) -> Self {
        Self {
            earlier,
            message_id: String::new(),
            usage_before: Usage::default(),
            proposed_plan: None,
        }
    }

    pub(super) fn read_event(
        &mut self,
        kind: &str,
        event: &JsonObject,
        collector: &mut EntryCollector,
    ) {
        let summary = &mut collector.summary;
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
            "system" => read_system(event, collector),
            "assistant" => self.read_assistant(event, collector),
            "user" => read_tool_results(event, collector),
            "tool_call" => read_tool_call(event, collector),
            "result" => self.read_result(event, collector),
            "error" => collector.add_failure(error_message(event)),
            _ => {}
        }
    }

    fn read_assistant(&mut self, event: &JsonObject, collector: &mut EntryCollector) {
        let Some(message) = get_object(event, "message") else {
            return;
        };
        let from_subagent = get_text(event, "parent_tool_use_id").is_some();
        for block in get_array(message, "content")
            .iter()
            .filter_map(Value::as_object)
        {
            match get_text(block, "type") {
                Some("text") => {
                    let text = get_text(block, "text").unwrap_or_default();
                    match from_subagent {
                        true => collector.add_remark(text),
                        false => collector.add_message(text),
                    }
                }
                Some("thinking") => {
                    collector.add_thought(get_text(block, "thinking").unwrap_or_default())
                }
                Some("tool_use") => {
                    let tool = get_text(block, "name").unwrap_or("tool");
                    let input = get_object(block, "input");
                    collector.start_call(get_text(block, "id"), &ToolCallInput::new(tool, input));
                    if tool == "ExitPlanMode"
                        && let Some(plan) = input.and_then(|input| get_text(input, "plan"))
                    {
                        self.proposed_plan = bounded_answer(plan);
                        collector.add_message(plan);
                    }
                }
                _ => {}
            }
        }
        if let Some(used) = get_object(message, "usage") {
            let usage = &mut collector.summary.usage;
            let id = get_text(message, "id").unwrap_or_default();
            if self.message_id != id {
                id.clone_into(&mut self.message_id);
                self.usage_before = *usage;
            }
            let now = parse_usage(used);
            usage.input_tokens = self
                .usage_before
                .input_tokens
                .saturating_add(now.input_tokens);
            usage.output_tokens = self
                .usage_before
                .output_tokens
                .saturating_add(now.output_tokens);
        }
    }

    /// The last event, whose totals replace earlier counts.
    fn read_result(&mut self, event: &JsonObject, collector: &mut EntryCollector) {
        let words = get_text(event, "result").and_then(bounded_answer);
        collector.summary.failure = failure_message(event, words.as_deref());
        if let Some(failure) = collector.summary.failure.clone() {
            // It may have said the same before.
            if collector.summary.answer.as_ref() != Some(&failure) {
                collector.add_notice(NoticeLevel::Error, &failure);
            }
        } else if let Some(answer) = self.proposed_plan.take().or(words) {
            collector.set_final_answer(answer);
        }
        self.read_total_usage(event, collector);
    }

    /// Since version 2.1.326, Claude Code tells models and cost of the whole session, and so does Qwen Code
    /// with its only count.
    fn read_total_usage(&self, event: &JsonObject, collector: &mut EntryCollector) {
        let summary = &mut collector.summary;
        let of_turn = get_object(event, "usage").map(parse_usage);
        let of_models = sum_model_usage(event);
        let Some(mut total) = of_models.or(of_turn) else {
            return;
        };
        total.cost_micros = summary.usage.cost_micros;
        let run_minimum = match of_models {
            Some(_) => of_turn.unwrap_or_default(),
            None => summary.usage,
        };
        let earlier = self.earlier.as_ref();
        if let Some(earlier) =
            earlier.filter(|earlier| includes_earlier_runs(total, run_minimum, earlier))
        {
            let before = earlier.used;
            total.input_tokens = usage_since(total.input_tokens, before.input_tokens);
            total.output_tokens = usage_since(total.output_tokens, before.output_tokens);
            total.cost_micros = usage_since(total.cost_micros, before.cost_micros);
            summary.includes_usage_of = earlier.lost_runs.clone();
        }
        summary.usage = total;
    }
}

fn read_system(event: &JsonObject, collector: &mut EntryCollector) {
    match get_text(event, "subtype") {
        Some("init") => collector.summary.session_started = true,
        // Retries may take minutes, and the run may be stopped in between.
        Some("api_retry") => collector.add_error(NoticeLevel::Warning, &retry_message(event)),
        _ => {}
    }
}

/// Why a request is retried.
fn retry_message(event: &JsonObject) -> String {
    let (attempt, max_attempts) = (get_count(event, "attempt"), get_count(event, "max_retries"));
    let error = get_text(event, "error").unwrap_or("error");
    let status = match get_count(event, "error_status") {
        0 => String::new(),
        status => format!(" {status}"),
    };
    format!("API error{status} ({error}), attempt {attempt} of {max_attempts}")
}

/// Reads what tools returned. A user's other texts are the prompt.
fn read_tool_results(event: &JsonObject, collector: &mut EntryCollector) {
    let message = get_object(event, "message");
    let blocks = message.map_or(&[][..], |message| get_array(message, "content"));
    for block in blocks.iter().filter_map(Value::as_object) {
        if get_text(block, "type") == Some("tool_result") {
            let details = get_object(event, "tool_use_result");
            let created =
                details.is_some_and(|details| get_text(details, "type") == Some("create"));
            let result = ToolCallResult {
                failed: block.get("is_error") == Some(&Value::Bool(true)),
                output: result_text(block.get("content")),
                change: created.then_some(FileChangeKind::Created),
                line_counts: details.and_then(count_changed_lines),
                ..ToolCallResult::default()
            };
            collector.end_call(get_text(block, "tool_use_id"), result);
        }
    }
}

/// Counts changed lines in the details of an edit's result.
fn count_changed_lines(details: &JsonObject) -> Option<LineCounts> {
    if get_text(details, "type") == Some("create") {
        let added = get_text(details, "content")?.lines().count() as u64;
        return Some(LineCounts { added, removed: 0 });
    }
    count_patch_lines(get_array(details, "structuredPatch"))
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
    let error = event.contains_key("error").then(|| error_message(event));
    let errors: Vec<&str> = listed.chain(error).chain(words).collect();
    Some(match (subtype, errors.join("; ")) {
        ("error_during_execution", errors) if !errors.is_empty() => errors,
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

/// Reads a tool call in Cursor's format: `{"readToolCall": {"args": {"path": …}, "result": …}}`.
fn read_tool_call(event: &JsonObject, collector: &mut EntryCollector) {
    let Some((name, call)) = get_object(event, "tool_call").and_then(|calls| calls.iter().next())
    else {
        return;
    };
    let call = call.as_object();
    let call_id = get_text(event, "call_id");
    match get_text(event, "subtype") {
        Some("started") => {
            let tool = name.strip_suffix("ToolCall").unwrap_or(name);
            let arguments = call.and_then(|call| get_object(call, "args"));
            collector.start_call(call_id, &ToolCallInput::new(tool, arguments));
        }
        Some("completed") => {
            let result = call.and_then(|call| get_object(call, "result"));
            let outcome = result.and_then(|result| result.iter().next());
            let details = outcome.and_then(|(_, details)| details.as_object());
            collector.end_call(
                call_id,
                cursor_result(outcome.map(|(kind, _)| kind), details),
            );
        }
        _ => {}
    }
}

fn cursor_result(kind: Option<&String>, details: Option<&JsonObject>) -> ToolCallResult {
    let exit_code = details.and_then(|details| details.get("exitCode")?.as_i64());
    let mut keys = ["content", "stdout", "output", "error", "reason", "stderr"].iter();
    let output = details.and_then(|details| {
        keys.find_map(|key| result_text(details.get(*key)).filter(|text| !text.is_empty()))
    });
    let line_counts = details.filter(|details| details.contains_key("linesAdded"));
    ToolCallResult {
        failed: kind.is_none_or(|kind| kind != "success")
            || exit_code.is_some_and(|code| code != 0),
        exit_code,
        output,
        line_counts: line_counts.map(|details| LineCounts {
            added: get_count(details, "linesAdded"),
            removed: get_count(details, "linesRemoved"),
        }),
        ..ToolCallResult::default()
    }
}
