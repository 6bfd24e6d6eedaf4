//! The stream of `claude --print --output-format stream-json`, which Amp, Cursor and Qwen Code write too:
//! `system`, `assistant`, `user` and, at the end, `result`.

use serde_json::Value;

use super::json::{Object, count, list, micros, object, text};
use super::{Heard, Said, answer, called, step, step_with};
use crate::Usage;

/// What has to be remembered between lines.
#[derive(Default)]
pub(super) struct Claude {
    /// The message the last line belonged to. A message comes in several lines, each with the same usage.
    message: String,
    /// Used before that message.
    before: Usage,
    /// The plan it asked leave to carry out, which is its answer then, whatever it says about it.
    plan: Option<String>,
}

impl Claude {
    pub(super) fn event(
        &mut self,
        kind: &str,
        event: &Object,
        heard: &mut Heard,
        said: &mut Vec<Said>,
    ) {
        if let Some(session) = text(event, "session_id").filter(|session| !session.is_empty()) {
            heard.session = Some(session.to_owned());
        }
        // Said at the end, and by some on the way.
        let cost = event.get("total_cost_usd").and_then(Value::as_f64);
        if let Some(cost) = cost.and_then(micros) {
            heard.usage.cost_micros = cost;
        }
        if matches!(kind, "assistant" | "user" | "tool_call" | "result") {
            heard.trouble = None;
        }
        match kind {
            "system" => system(event, heard, said),
            "assistant" => self.assistant(event, heard, said),
            "tool_call" if text(event, "subtype") == Some("started") => tool_call(event, said),
            "result" => self.result(event, heard),
            "error" => {
                heard.failure = Some(
                    object(event, "error")
                        .and_then(|error| text(error, "message"))
                        .or_else(|| text(event, "message"))
                        .unwrap_or("the agent reported an error")
                        .to_owned(),
                );
            }
            _ => {}
        }
    }

    fn assistant(&mut self, event: &Object, heard: &mut Heard, said: &mut Vec<Said>) {
        let Some(message) = object(event, "message") else {
            return;
        };
        // What a helper of the agent says is not the agent's answer.
        let of_a_helper = text(event, "parent_tool_use_id").is_some();
        for block in list(message, "content").iter().filter_map(Value::as_object) {
            match text(block, "type") {
                Some("text") => {
                    let words = text(block, "text").unwrap_or_default();
                    step(words, said);
                    if !of_a_helper && let Some(words) = answer(words) {
                        heard.answer = Some(words);
                    }
                }
                Some("tool_use") => {
                    let name = text(block, "name").unwrap_or("tool");
                    let input = object(block, "input");
                    if name == "ExitPlanMode"
                        && let Some(plan) = input.and_then(|input| text(input, "plan"))
                    {
                        self.plan = answer(plan);
                    }
                    step_with(name, input.and_then(aim), said);
                    called(name, &input.map(aims).unwrap_or_default(), said);
                }
                _ => {}
            }
        }
        if let Some(used) = object(message, "usage") {
            let id = text(message, "id").unwrap_or_default();
            if self.message != id {
                id.clone_into(&mut self.message);
                self.before = heard.usage;
            }
            let now = usage(used);
            heard.usage.input_tokens = self.before.input_tokens.saturating_add(now.input_tokens);
            heard.usage.output_tokens = self.before.output_tokens.saturating_add(now.output_tokens);
        }
    }

    /// The end, which counts everything again and is the one to go by.
    fn result(&mut self, event: &Object, heard: &mut Heard) {
        let words = text(event, "result").and_then(answer);
        heard.failure = failure(event, words.as_deref());
        if heard.failure.is_none() {
            let answer = self.plan.take().or(words);
            heard.answer = answer.or_else(|| heard.answer.take());
        }
        let used = of_all_models(event).or_else(|| object(event, "usage").map(usage));
        if let Some(used) = used {
            heard.usage.input_tokens = used.input_tokens;
            heard.usage.output_tokens = used.output_tokens;
        }
    }
}

fn system(event: &Object, heard: &mut Heard, said: &mut Vec<Said>) {
    match text(event, "subtype") {
        Some("init") => heard.began = true,
        // It may wait for minutes, and be cut off meanwhile.
        Some("api_retry") => {
            let why = trouble(event);
            step(&why, said);
            heard.trouble = Some(why);
        }
        _ => {}
    }
}

/// Why a request is made once more.
pub(super) fn trouble(event: &Object) -> String {
    let (attempt, most) = (count(event, "attempt"), count(event, "max_retries"));
    let error = text(event, "error").unwrap_or("error");
    let status = match count(event, "error_status") {
        0 => String::new(),
        status => format!(" {status}"),
    };
    format!("API error{status} ({error}), attempt {attempt} of {most}")
}

/// What every model used that worked for it: those it asks for a title or a summary are not in its `usage`,
/// but are in what it cost.
fn of_all_models(event: &Object) -> Option<Usage> {
    let models = object(event, "modelUsage").filter(|models| !models.is_empty())?;
    let mut all = Usage::default();
    for used in models.values().filter_map(Value::as_object) {
        for key in [
            "inputTokens",
            "cacheReadInputTokens",
            "cacheCreationInputTokens",
        ] {
            all.input_tokens = all.input_tokens.saturating_add(count(used, key));
        }
        all.output_tokens = all
            .output_tokens
            .saturating_add(count(used, "outputTokens"));
    }
    Some(all)
}

/// What it failed with, if it did: an ending of type success can tell of an error too.
fn failure(event: &Object, words: Option<&str>) -> Option<String> {
    let subtype = text(event, "subtype").unwrap_or_default();
    let says_so = event.get("is_error").and_then(Value::as_bool) == Some(true);
    if !says_so && !subtype.starts_with("error") {
        return None;
    }
    let listed = list(event, "errors").iter().filter_map(Value::as_str);
    let errors: Vec<&str> = listed.chain(text(event, "error")).chain(words).collect();
    Some(match (subtype, errors.join("; ")) {
        ("" | "success", errors) if errors.is_empty() => "the agent reported an error".to_owned(),
        ("" | "success", errors) => errors,
        (subtype, errors) if errors.is_empty() => subtype.to_owned(),
        (subtype, errors) => format!("{subtype}: {errors}"),
    })
}

fn usage(used: &Object) -> Usage {
    Usage {
        input_tokens: count(used, "input_tokens")
            .saturating_add(count(used, "cache_creation_input_tokens"))
            .saturating_add(count(used, "cache_read_input_tokens")),
        output_tokens: count(used, "output_tokens"),
        cost_micros: 0,
    }
}

/// Cursor's way of naming a tool: `{"readToolCall": {"args": {"path": …}}}`.
fn tool_call(event: &Object, said: &mut Vec<Said>) {
    let Some((name, call)) = object(event, "tool_call").and_then(|calls| calls.iter().next())
    else {
        return;
    };
    let arguments = call.as_object().and_then(|call| object(call, "args"));
    let name = name.strip_suffix("ToolCall").unwrap_or(name);
    step_with(name, arguments.and_then(aim), said);
    called(name, &arguments.map(aims).unwrap_or_default(), said);
}

/// What tools call what they are used on.
const AIMS: [&str; 12] = [
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

/// Everything a tool is used on.
pub(super) fn aims(input: &Object) -> Vec<&str> {
    AIMS.iter().filter_map(|key| text(input, key)).collect()
}

/// What a tool is used on, in a word; without any, what it is for.
pub(super) fn aim(input: &Object) -> Option<&str> {
    let mut keys = AIMS.iter().chain(&["description", "prompt"]);
    keys.find_map(|key| text(input, key))
}
