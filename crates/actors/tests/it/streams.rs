//! Recorded streams, each with the expected updates and summary.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use plan::actor::ActorOutputFormat;
use planwright_actors::stream::{AgentStream, StreamUpdate};
use planwright_actors::{EarlierSession, Usage};

/// A stream's updates, one per line, and its summary.
fn describe_stream(output: ActorOutputFormat, stream: &str) -> String {
    let mut description = String::new();
    let usage = |usage: &Usage| {
        format!(
            "{} in, {} out, {} micros",
            usage.input_tokens, usage.output_tokens, usage.cost_micros
        )
    };
    let mut reader = AgentStream::new(output, None);
    for line in stream
        .split('\n')
        .filter(|line| !line.is_empty() || output == ActorOutputFormat::Text)
    {
        for update in reader.read_line(line) {
            match update {
                StreamUpdate::Step(step) => writeln!(description, "step: {step}").unwrap(),
                StreamUpdate::ToolCall(call) => writeln!(description, "call: {call}").unwrap(),
                StreamUpdate::UsageChanged(used) => {
                    writeln!(description, "used: {}", usage(&used)).unwrap()
                }
            }
        }
    }
    let summary = reader.finish();
    for (what, text) in [
        ("session", summary.session),
        ("answer", summary.answer),
        ("failure", summary.failure),
    ] {
        if let Some(text) = text {
            let text = text.replace('\n', "⏎").replace('\r', "␍");
            writeln!(description, "{what}: {text}").unwrap();
        }
    }
    description
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
            _ => ActorOutputFormat::Text,
        };
        let expected = fs::read_to_string(path.with_extension("expected")).unwrap();
        let stream = fs::read_to_string(&path).unwrap();
        assert_eq!(describe_stream(output, &stream), expected, "{name}");
        checked += 1;
    }
    assert!(checked >= 10, "only {checked} streams");
}

#[test]
fn step_is_one_short_safe_line() {
    let text = format!("a\\u001b[31mb\\n\\u0007c {}", "x".repeat(10_000));
    let line =
        format!(r#"{{"type":"item.completed","item":{{"type":"agent_message","text":"{text}"}}}}"#);
    let updates = AgentStream::new(ActorOutputFormat::CodexJson, None).read_line(&line);
    let [StreamUpdate::Step(step)] = updates.as_slice() else {
        panic!("{updates:?}");
    };
    assert!(
        step.starts_with("ab c xxx") && step.chars().count() <= 200,
        "{step}"
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
