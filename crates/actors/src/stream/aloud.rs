//! An agent's stream for people to read: what it said, which tools it used and what they answered. What is
//! for programs only is left out.

use plan::actor::Output;
use serde_json::Value;

use super::claude::aim;
use super::json::{self, Object, list, object, text};

/// Something that an agent or one of its tools said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Aloud {
    /// The agent's own words.
    Words(String),
    /// Some of them: they go on where those before them ended.
    Piece(String),
    /// What it thought about it.
    Thought(String),
    /// A tool it used, and on what.
    Tool(String),
    /// What the tool answered.
    Answer(String),
    /// What went wrong.
    Trouble(String),
}

/// What a line of a stream says; nothing if it is not of the format.
pub fn aloud(output: Output, line: &str) -> Option<Vec<Aloud>> {
    let event = || json::event(line);
    let (read, (kind, event)): (fn(&str, &Object) -> Vec<Aloud>, _) = match output {
        Output::Text => return None,
        Output::ClaudeJson => (claude, event()?),
        Output::CodexJson => (codex, event()?),
        Output::GeminiJson => (
            |kind, event| gemini(kind, event).into_iter().collect(),
            event()?,
        ),
        Output::OpencodeJson => (opencode, event()?),
    };
    let mut said = read(&kind, &event);
    // Between two pieces there may be nothing but a space.
    said.retain(|one| matches!(one, Aloud::Piece(_)) || !one.words().trim().is_empty());
    Some(said)
}

impl Aloud {
    /// The words of it.
    pub fn words(&self) -> &str {
        match self {
            Self::Words(text)
            | Self::Piece(text)
            | Self::Thought(text)
            | Self::Tool(text)
            | Self::Answer(text)
            | Self::Trouble(text) => text,
        }
    }
}

fn claude(kind: &str, event: &Object) -> Vec<Aloud> {
    match kind {
        "assistant" | "user" => {
            let blocks = object(event, "message").map(|message| list(message, "content"));
            let blocks = blocks.unwrap_or_default().iter();
            let blocks = blocks.filter_map(Value::as_object);
            blocks
                .filter_map(|block| claude_block(kind, block))
                .collect()
        }
        "tool_call" => cursor_tool(event).into_iter().collect(),
        "system" if text(event, "subtype") == Some("api_retry") => {
            vec![Aloud::Trouble(super::claude::trouble(event))]
        }
        "result" if event.get("is_error") == Some(&Value::Bool(true)) => {
            vec![Aloud::Trouble(owned(event, "result"))]
        }
        "error" => vec![Aloud::Trouble(message(event))],
        _ => Vec::new(),
    }
}

fn claude_block(by: &str, block: &Object) -> Option<Aloud> {
    match text(block, "type")? {
        // What a user says in a stream is what it was asked.
        "text" if by == "assistant" => Some(Aloud::Words(owned(block, "text"))),
        "thinking" => Some(Aloud::Thought(owned(block, "thinking"))),
        "tool_use" => {
            let name = text(block, "name").unwrap_or("tool");
            Some(tool(name, object(block, "input").and_then(aim)))
        }
        "tool_result" => Some(Aloud::Answer(content(block.get("content")))),
        _ => None,
    }
}

fn cursor_tool(event: &Object) -> Option<Aloud> {
    let (name, call) = object(event, "tool_call")?.iter().next()?;
    let call = call.as_object()?;
    let name = name.strip_suffix("ToolCall").unwrap_or(name);
    match text(event, "subtype")? {
        "started" => Some(tool(name, object(call, "args").and_then(aim))),
        _ => {
            let result = object(call, "result")?;
            let (how, said) = result.iter().next()?;
            let said = content(said.as_object().and_then(|said| said.get("content")));
            Some(match how.as_str() {
                "success" => Aloud::Answer(said),
                _ => Aloud::Trouble(format!("{how} {said}")),
            })
        }
    }
}

fn codex(kind: &str, event: &Object) -> Vec<Aloud> {
    match kind {
        "item.started" | "item.completed" => {
            let done = kind == "item.completed";
            let item = object(event, "item");
            item.and_then(|item| codex_item(item, done))
                .into_iter()
                .collect()
        }
        "turn.failed" | "error" => vec![Aloud::Trouble(message(event))],
        _ => Vec::new(),
    }
}

fn codex_item(item: &Object, done: bool) -> Option<Aloud> {
    let kind = text(item, "type").or_else(|| text(item, "item_type"))?;
    match (kind, done) {
        ("agent_message" | "assistant_message" | "plan", true) => {
            Some(Aloud::Words(owned(item, "text")))
        }
        ("reasoning", true) => Some(Aloud::Thought(owned(item, "text").replace("**", ""))),
        ("command_execution", false) => Some(Aloud::Tool(format!("$ {}", owned(item, "command")))),
        ("command_execution", true) => Some(Aloud::Answer(owned(item, "aggregated_output"))),
        ("file_change", true) => {
            let changes = list(item, "changes").iter();
            let paths = changes.filter_map(|change| text(change.as_object()?, "path"));
            let paths: Vec<&str> = paths.collect();
            Some(tool("edit", Some(&paths.join(", "))))
        }
        ("mcp_tool_call", false) => Some(tool(
            text(item, "server").unwrap_or("tool"),
            text(item, "tool"),
        )),
        ("web_search", true) => Some(tool("search", text(item, "query"))),
        ("error", true) => Some(Aloud::Trouble(owned(item, "message"))),
        _ => None,
    }
}

fn gemini(kind: &str, event: &Object) -> Option<Aloud> {
    match kind {
        "message" if text(event, "role") == Some("assistant") => {
            let words = owned(event, "content");
            Some(match event.get("delta") {
                Some(Value::Bool(true)) => Aloud::Piece(words),
                Some(_) | None => Aloud::Words(words),
            })
        }
        "tool_use" => Some(tool(
            text(event, "tool_name").unwrap_or("tool"),
            object(event, "parameters").and_then(aim),
        )),
        "tool_result" => Some(Aloud::Answer(owned(event, "output"))),
        "result" if text(event, "status") == Some("error") => Some(Aloud::Trouble(message(event))),
        "error" => Some(Aloud::Trouble(message(event))),
        _ => None,
    }
}

fn opencode(kind: &str, event: &Object) -> Vec<Aloud> {
    if kind == "error" {
        return vec![Aloud::Trouble(super::opencode::error(event))];
    }
    let Some(part) = object(event, "part") else {
        return Vec::new();
    };
    match kind {
        "text" => vec![Aloud::Words(owned(part, "text"))],
        "reasoning" => vec![Aloud::Thought(owned(part, "text"))],
        "tool_use" => {
            let state = object(part, "state");
            let input = state.and_then(|state| object(state, "input"));
            let answer = state.map(|state| owned(state, "output"));
            vec![
                tool(text(part, "tool").unwrap_or("tool"), input.and_then(aim)),
                Aloud::Answer(answer.unwrap_or_default()),
            ]
        }
        _ => Vec::new(),
    }
}

fn tool(name: &str, on: Option<&str>) -> Aloud {
    Aloud::Tool(match on.map(str::trim).filter(|on| !on.is_empty()) {
        Some(on) => format!("{name}: {on}"),
        None => name.to_owned(),
    })
}

/// What a tool answered: a text, or blocks of which some are texts.
fn content(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(blocks)) => {
            let blocks = blocks.iter().filter_map(Value::as_object);
            let texts: Vec<&str> = blocks.filter_map(|block| text(block, "text")).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

fn message(event: &Object) -> String {
    object(event, "error")
        .and_then(|error| text(error, "message"))
        .or_else(|| text(event, "message"))
        .unwrap_or("the agent reported an error")
        .to_owned()
}

fn owned(object: &Object, key: &str) -> String {
    text(object, key).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(output: Output, stream: &str) -> Vec<Aloud> {
        let lines = stream.lines().filter_map(|line| aloud(output, line));
        lines.flatten().collect()
    }

    #[test]
    fn streams_are_read_aloud() {
        let claude = all(
            Output::ClaudeJson,
            include_str!("../../tests/it/streams/claude-done.jsonl"),
        );
        let words = |text: &str| Aloud::Words(text.to_owned());
        assert_eq!(claude[0], words("I'll look at the footer\nfirst."));
        assert_eq!(
            claude[1],
            Aloud::Tool("Read: /home/ada/site/footer.html".to_owned())
        );
        assert!(matches!(&claude[2], Aloud::Answer(said) if said.contains("<footer>2024")));
        let codex = all(
            Output::CodexJson,
            include_str!("../../tests/it/streams/codex-done.jsonl"),
        );
        assert_eq!(codex[0], Aloud::Thought("Scanning the site".to_owned()));
        assert_eq!(codex[2], Aloud::Answer("./footer.html:1:2024\n".to_owned()));
        assert_eq!(codex.last(), Some(&words("Done. The footer says 2025.")));
        let cursor = all(
            Output::ClaudeJson,
            include_str!("../../tests/it/streams/claude-cursor.jsonl"),
        );
        assert!(
            cursor.contains(&Aloud::Answer("# Project".to_owned())),
            "{cursor:?}"
        );
        assert_eq!(aloud(Output::ClaudeJson, "plain words"), None);
        assert_eq!(aloud(Output::Text, "{\"type\":\"result\"}"), None);
        all(
            Output::ClaudeJson,
            include_str!("../../tests/it/streams/claude-garbage.jsonl"),
        );
    }
}
