//! Recorded streams, each with the expected entries and summary.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use plan::Epoch;
use plan::actor::ActorOutputFormat;
use plan::transcript::TranscriptContent;
use planwright_actors::stream::AgentStream;
use planwright_actors::{EarlierSession, Usage};

/// A stream's entries, one per line, and its summary.
fn describe_stream(output: ActorOutputFormat, stream: &str) -> String {
    let mut description = String::new();
    let mut reader = AgentStream::new(output, None);
    let is_plain_text = [ActorOutputFormat::Text, ActorOutputFormat::AiderText].contains(&output);
    for line in stream
        .split('\n')
        .filter(|line| !line.is_empty() || is_plain_text)
    {
        for entry in reader.read_line(line) {
            writeln!(description, "{}", describe_entry(&entry)).unwrap();
        }
    }
    let summary = reader.finish();
    for (what, text) in [
        ("session", summary.session),
        ("answer", summary.answer),
        ("failure", summary.failure),
    ] {
        if let Some(text) = text {
            writeln!(description, "{what}: {}", on_one_line(&text)).unwrap();
        }
    }
    description
}

pub(crate) fn describe_entry(entry: &TranscriptContent) -> String {
    let described = match entry {
        TranscriptContent::Text { text } => format!("text: {text}"),
        TranscriptContent::TextDelta { text } => format!("piece: {text}"),
        TranscriptContent::Thought { text } => format!("thought: {text}"),
        TranscriptContent::Notice { level, text } => format!("notice: {level:?}: {text}"),
        TranscriptContent::Usage(used) => format!(
            "used: {} in, {} out, {} micros",
            used.input_tokens, used.output_tokens, used.cost_micros
        ),
        TranscriptContent::ToolCall(call) => {
            let inputs = call.inputs.join(", ");
            let id = call.call_id.as_deref().unwrap_or("-");
            let (kind, status) = (call.tool_kind, call.status);
            format!("call {id}: {}({inputs}) {kind:?} {status:?}", call.tool)
        }
        TranscriptContent::ToolCallUpdate(update) => {
            let id = update.call_id.as_deref().unwrap_or("-");
            let exit = update.exit_code.map(|code| format!(" exit {code}"));
            let (exit, output) = (exit.unwrap_or_default(), update.output.as_deref());
            format!(
                "result {id}: {:?}{exit} {}",
                update.status,
                output.unwrap_or("-")
            )
        }
        TranscriptContent::FileChange(change) => {
            let counts = change.line_counts;
            let counts = counts.map(|counts| format!(" +{} −{}", counts.added, counts.removed));
            let kind = change.change.map(|kind| format!(" {kind:?}"));
            let (kind, counts) = (kind.unwrap_or_default(), counts.unwrap_or_default());
            format!("changed: {}{kind}{counts}", change.path)
        }
        TranscriptContent::Permission(permission) => {
            let (status, inputs) = (permission.status, permission.inputs.join(", "));
            let (tool, kind) = (&permission.tool, permission.tool_kind);
            let reason = &permission.reason;
            format!("permission: {status:?} {tool}({inputs}) {kind:?}: {reason}")
        }
        TranscriptContent::Checklist { items } => {
            let items = items.iter();
            let items = items.map(|item| format!("{} ({:?})", item.text, item.status));
            format!("checklist: {}", items.collect::<Vec<_>>().join(", "))
        }
    };
    on_one_line(&described)
}

fn on_one_line(text: &str) -> String {
    text.replace('\n', "⏎").replace('\r', "␍")
}

#[test]
fn every_recorded_stream_is_read_as_expected() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/streams");
    let mut checked = 0;
    for entry in fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension() != Some("jsonl".as_ref()) {
            continue;
        }
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let output = match name.split_once('-').unwrap().0 {
            "claude" => ActorOutputFormat::ClaudeJson,
            "codex" => ActorOutputFormat::CodexJson,
            "gemini" => ActorOutputFormat::GeminiJson,
            "opencode" => ActorOutputFormat::OpencodeJson,
            "aider" => ActorOutputFormat::AiderText,
            "copilot" => ActorOutputFormat::CopilotJson,
            "kimi" => ActorOutputFormat::KimiJson,
            "vibe" => ActorOutputFormat::VibeJson,
            _ => ActorOutputFormat::Text,
        };
        let stream = fs::read_to_string(&path).unwrap();
        let expected = fs::read_to_string(path.with_extension("expected")).unwrap();
        assert_eq!(describe_stream(output, &stream), expected, "{name}");
        checked += 1;
    }
    assert!(checked >= 10, "only {checked} streams");
}

#[test]
fn activity_is_one_short_line() {
    let text = format!("a b\\n  c {}", "x".repeat(10_000));
    let line =
        format!(r#"{{"type":"item.completed","item":{{"type":"agent_message","text":"{text}"}}}}"#);
    let entries = AgentStream::new(ActorOutputFormat::CodexJson, None).read_line(&line);
    let [entry] = entries.as_slice() else {
        panic!("{entries:?}");
    };
    let activity = entry.describe_activity().unwrap();
    assert!(
        activity.starts_with("a b c xxx") && activity.chars().count() <= 200,
        "{activity}"
    );
}

/// Usage of earlier runs is subtracted only if the thread is the same.
#[test]
fn new_thread_is_charged_for_its_whole_total() {
    for (thread, expected) in [("t-1", 2_800), ("t-2", 5_000)] {
        let earlier = EarlierSession {
            session: "t-1".to_owned(),
            used: Usage {
                input_tokens: 2_200,
                ..Usage::default()
            },
            lost_runs: Vec::new(),
        };
        let mut stream = AgentStream::new(ActorOutputFormat::CodexJson, Some(earlier));
        stream.read_line(&format!(
            r#"{{"type":"thread.started","thread_id":"{thread}"}}"#
        ));
        stream.read_line(r#"{"type":"turn.completed","usage":{"input_tokens":5000}}"#);
        assert_eq!(stream.finish().usage.input_tokens, expected, "{thread}");
    }
}

/// Claude Code and Qwen Code tell usage of the whole session when they resume it; older versions told that of
/// the run.
#[test]
fn resumed_session_is_told_apart_from_its_earlier_runs() {
    let read = |name: &str, change: fn(String) -> String, earlier: Option<EarlierSession>| {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/streams");
        let text = fs::read_to_string(directory.join(name)).unwrap();
        let mut stream = AgentStream::new(ActorOutputFormat::ClaudeJson, earlier);
        for line in change(text).lines() {
            stream.read_line(line);
        }
        stream.finish()
    };
    let per_run = |text: String| {
        text.replace(
            "\"inputTokens\":6000,\"outputTokens\":170",
            "\"inputTokens\":3600,\"outputTokens\":102",
        )
        .replace("0.027399999999999997", "0.01644")
    };
    for (first, resumed, change, expected, lost) in [
        (
            "claude-session",
            "claude-resumed",
            (|text| text) as fn(String) -> String,
            (3600, 102, 16_440),
            1,
        ),
        (
            "claude-session",
            "claude-resumed",
            per_run,
            (3600, 102, 16_440),
            0,
        ),
        (
            "claude-qwen-session",
            "claude-qwen-resumed",
            |text| text,
            (2400, 68, 0),
            1,
        ),
    ] {
        let before = read(&format!("{first}.jsonl"), |text| text, None);
        let earlier = EarlierSession {
            session: before.session.unwrap(),
            used: before.usage,
            lost_runs: vec![Epoch(2)],
        };
        let summary = read(&format!("{resumed}.jsonl"), change, Some(earlier));
        // The total of a session includes runs that told nothing because their worker was killed.
        assert_eq!(summary.includes_usage_of.len(), lost, "{resumed}");
        let usage = summary.usage;
        let told = (usage.input_tokens, usage.output_tokens, usage.cost_micros);
        assert_eq!(told, expected, "{resumed}");
    }
}
