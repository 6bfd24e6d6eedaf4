//! Turns an agent's stream into transcript entries for people: messages, tool calls and tool
//! results. Events for programs are skipped.

use plan::actor::ActorOutputFormat;
use serde_json::Value;

use super::claude::first_tool_operand;
use super::json::{self, JsonObject, get_array, get_object, get_text};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TranscriptEntry {
    Message(String),
    /// A piece of a message that continues the one before.
    MessageDelta(String),
    Thinking(String),
    /// A tool call, with what it works on.
    ToolUse(String),
    ToolResult(String),
    Error(String),
}

/// The entries of a line; `None` if it is not in the format.
pub fn parse_transcript_line(
    output: ActorOutputFormat,
    line: &str,
) -> Option<Vec<TranscriptEntry>> {
    let event = || json::parse_event(line);
    let (read, (kind, event)): (fn(&str, &JsonObject) -> Vec<TranscriptEntry>, _) = match output {
        ActorOutputFormat::Text => return None,
        ActorOutputFormat::ClaudeJson => (claude_entries, event()?),
        ActorOutputFormat::CodexJson => (codex_entries, event()?),
        ActorOutputFormat::GeminiJson => (
            |kind, event| gemini_entry(kind, event).into_iter().collect(),
            event()?,
        ),
        ActorOutputFormat::OpencodeJson => (opencode_entries, event()?),
    };
    let mut entries = read(&kind, &event);
    // A piece of a message may be just a space.
    entries.retain(|one| {
        matches!(one, TranscriptEntry::MessageDelta(_)) || !one.text().trim().is_empty()
    });
    Some(entries)
}

impl TranscriptEntry {
    pub fn text(&self) -> &str {
        match self {
            Self::Message(text)
            | Self::MessageDelta(text)
            | Self::Thinking(text)
            | Self::ToolUse(text)
            | Self::ToolResult(text)
            | Self::Error(text) => text,
        }
    }
}

fn claude_entries(kind: &str, event: &JsonObject) -> Vec<TranscriptEntry> {
    match kind {
        "assistant" | "user" => {
            let blocks = get_object(event, "message").map(|message| get_array(message, "content"));
            let blocks = blocks.unwrap_or_default().iter();
            let blocks = blocks.filter_map(Value::as_object);
            blocks
                .filter_map(|block| claude_block_entry(kind, block))
                .collect()
        }
        "tool_call" => cursor_tool_entry(event).into_iter().collect(),
        "system" if get_text(event, "subtype") == Some("api_retry") => {
            vec![TranscriptEntry::Error(super::claude::retry_message(event))]
        }
        "result" if event.get("is_error") == Some(&Value::Bool(true)) => {
            vec![TranscriptEntry::Error(get_owned_text(event, "result"))]
        }
        "error" => vec![TranscriptEntry::Error(error_message(event))],
        _ => Vec::new(),
    }
}

fn claude_block_entry(role: &str, block: &JsonObject) -> Option<TranscriptEntry> {
    match get_text(block, "type")? {
        // A user's text in a stream is the prompt.
        "text" if role == "assistant" => {
            Some(TranscriptEntry::Message(get_owned_text(block, "text")))
        }
        "thinking" => Some(TranscriptEntry::Thinking(get_owned_text(block, "thinking"))),
        "tool_use" => {
            let name = get_text(block, "name").unwrap_or("tool");
            Some(tool_use_entry(
                name,
                get_object(block, "input").and_then(first_tool_operand),
            ))
        }
        "tool_result" => Some(TranscriptEntry::ToolResult(tool_result_text(
            block.get("content"),
        ))),
        _ => None,
    }
}

fn cursor_tool_entry(event: &JsonObject) -> Option<TranscriptEntry> {
    let (name, call) = get_object(event, "tool_call")?.iter().next()?;
    let call = call.as_object()?;
    let name = name.strip_suffix("ToolCall").unwrap_or(name);
    match get_text(event, "subtype")? {
        "started" => Some(tool_use_entry(
            name,
            get_object(call, "args").and_then(first_tool_operand),
        )),
        _ => {
            let result = get_object(call, "result")?;
            let (result_kind, output_text) = result.iter().next()?;
            let output_text = tool_result_text(
                output_text
                    .as_object()
                    .and_then(|output_text| output_text.get("content")),
            );
            Some(match result_kind.as_str() {
                "success" => TranscriptEntry::ToolResult(output_text),
                _ => TranscriptEntry::Error(format!("{result_kind} {output_text}")),
            })
        }
    }
}

fn codex_entries(kind: &str, event: &JsonObject) -> Vec<TranscriptEntry> {
    match kind {
        "item.started" | "item.completed" => {
            let done = kind == "item.completed";
            let item = get_object(event, "item");
            item.and_then(|item| codex_item_entry(item, done))
                .into_iter()
                .collect()
        }
        "turn.failed" | "error" => vec![TranscriptEntry::Error(error_message(event))],
        _ => Vec::new(),
    }
}

fn codex_item_entry(item: &JsonObject, done: bool) -> Option<TranscriptEntry> {
    let kind = get_text(item, "type").or_else(|| get_text(item, "item_type"))?;
    match (kind, done) {
        ("agent_message" | "assistant_message" | "plan", true) => {
            Some(TranscriptEntry::Message(get_owned_text(item, "text")))
        }
        ("reasoning", true) => Some(TranscriptEntry::Thinking(
            get_owned_text(item, "text").replace("**", ""),
        )),
        ("command_execution", false) => Some(TranscriptEntry::ToolUse(format!(
            "$ {}",
            get_owned_text(item, "command")
        ))),
        ("command_execution", true) => Some(TranscriptEntry::ToolResult(get_owned_text(
            item,
            "aggregated_output",
        ))),
        ("file_change", true) => {
            let changes = get_array(item, "changes").iter();
            let paths = changes.filter_map(|change| get_text(change.as_object()?, "path"));
            let paths: Vec<&str> = paths.collect();
            Some(tool_use_entry("edit", Some(&paths.join(", "))))
        }
        ("mcp_tool_call", false) => Some(tool_use_entry(
            get_text(item, "server").unwrap_or("tool"),
            get_text(item, "tool"),
        )),
        ("web_search", true) => Some(tool_use_entry("search", get_text(item, "query"))),
        ("error", true) => Some(TranscriptEntry::Error(get_owned_text(item, "message"))),
        _ => None,
    }
}

fn gemini_entry(kind: &str, event: &JsonObject) -> Option<TranscriptEntry> {
    match kind {
        "message" if get_text(event, "role") == Some("assistant") => {
            let words = get_owned_text(event, "content");
            Some(match event.get("delta") {
                Some(Value::Bool(true)) => TranscriptEntry::MessageDelta(words),
                Some(_) | None => TranscriptEntry::Message(words),
            })
        }
        "tool_use" => Some(tool_use_entry(
            get_text(event, "tool_name").unwrap_or("tool"),
            get_object(event, "parameters").and_then(first_tool_operand),
        )),
        "tool_result" => Some(TranscriptEntry::ToolResult(get_owned_text(event, "output"))),
        "result" if get_text(event, "status") == Some("error") => {
            Some(TranscriptEntry::Error(error_message(event)))
        }
        "error" => Some(TranscriptEntry::Error(error_message(event))),
        _ => None,
    }
}

fn opencode_entries(kind: &str, event: &JsonObject) -> Vec<TranscriptEntry> {
    if kind == "error" {
        return vec![TranscriptEntry::Error(super::opencode::error_message(
            event,
        ))];
    }
    let Some(part) = get_object(event, "part") else {
        return Vec::new();
    };
    match kind {
        "text" => vec![TranscriptEntry::Message(get_owned_text(part, "text"))],
        "reasoning" => vec![TranscriptEntry::Thinking(get_owned_text(part, "text"))],
        "tool_use" => {
            let state = get_object(part, "state");
            let input = state.and_then(|state| get_object(state, "input"));
            let answer = state.map(|state| get_owned_text(state, "output"));
            vec![
                tool_use_entry(
                    get_text(part, "tool").unwrap_or("tool"),
                    input.and_then(first_tool_operand),
                ),
                TranscriptEntry::ToolResult(answer.unwrap_or_default()),
            ]
        }
        _ => Vec::new(),
    }
}

fn tool_use_entry(name: &str, operand: Option<&str>) -> TranscriptEntry {
    TranscriptEntry::ToolUse(
        match operand.map(str::trim).filter(|operand| !operand.is_empty()) {
            Some(operand) => format!("{name}: {operand}"),
            None => name.to_owned(),
        },
    )
}

/// The text of a tool result: a string, or blocks of which some are texts.
fn tool_result_text(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(blocks)) => {
            let blocks = blocks.iter().filter_map(Value::as_object);
            let texts: Vec<&str> = blocks.filter_map(|block| get_text(block, "text")).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

fn error_message(event: &JsonObject) -> String {
    get_object(event, "error")
        .and_then(|error| get_text(error, "message"))
        .or_else(|| get_text(event, "message"))
        .unwrap_or("the agent reported an error")
        .to_owned()
}

fn get_owned_text(object: &JsonObject, key: &str) -> String {
    get_text(object, key).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_entries(output: ActorOutputFormat, stream: &str) -> Vec<TranscriptEntry> {
        let lines = stream
            .lines()
            .filter_map(|line| parse_transcript_line(output, line));
        lines.flatten().collect()
    }

    #[test]
    fn streams_become_transcript_entries() {
        let claude = read_entries(
            ActorOutputFormat::ClaudeJson,
            include_str!("../../tests/it/streams/claude-done.jsonl"),
        );
        let message = |text: &str| TranscriptEntry::Message(text.to_owned());
        assert_eq!(claude[0], message("I'll look at the footer\nfirst."));
        assert_eq!(
            claude[1],
            TranscriptEntry::ToolUse("Read: /home/ada/site/footer.html".to_owned())
        );
        assert!(
            matches!(&claude[2], TranscriptEntry::ToolResult(output_text) if output_text.contains("<footer>2024"))
        );
        let codex = read_entries(
            ActorOutputFormat::CodexJson,
            include_str!("../../tests/it/streams/codex-done.jsonl"),
        );
        assert_eq!(
            codex[0],
            TranscriptEntry::Thinking("Scanning the site".to_owned())
        );
        assert_eq!(
            codex[2],
            TranscriptEntry::ToolResult("./footer.html:1:2024\n".to_owned())
        );
        assert_eq!(codex.last(), Some(&message("Done. The footer says 2025.")));
        let cursor = read_entries(
            ActorOutputFormat::ClaudeJson,
            include_str!("../../tests/it/streams/claude-cursor.jsonl"),
        );
        assert!(
            cursor.contains(&TranscriptEntry::ToolResult("# Project".to_owned())),
            "{cursor:?}"
        );
        assert_eq!(
            parse_transcript_line(ActorOutputFormat::ClaudeJson, "plain words"),
            None
        );
        assert_eq!(
            parse_transcript_line(ActorOutputFormat::Text, "{\"type\":\"result\"}"),
            None
        );
        read_entries(
            ActorOutputFormat::ClaudeJson,
            include_str!("../../tests/it/streams/claude-garbage.jsonl"),
        );
    }
}
