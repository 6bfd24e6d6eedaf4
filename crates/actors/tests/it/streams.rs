//! Recorded streams, each with what is to be heard in it.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use plan::actor::Output;
use planwright_actors::stream::{Said, Stream};
use planwright_actors::{Earlier, Usage};

/// A stream as lines of what it says, then what is known at its end.
fn told(output: Output, stream: &str) -> String {
    let mut told = String::new();
    let usage = |usage: &Usage| {
        format!(
            "{} in, {} out, {} micros",
            usage.input_tokens, usage.output_tokens, usage.cost_micros
        )
    };
    let mut reader = Stream::new(output, None);
    for line in stream
        .split('\n')
        .filter(|line| !line.is_empty() || output == Output::Text)
    {
        for said in reader.line(line) {
            match said {
                Said::Step(step) => writeln!(told, "step: {step}").unwrap(),
                Said::Called(call) => writeln!(told, "call: {call}").unwrap(),
                Said::Used(used) => writeln!(told, "used: {}", usage(&used)).unwrap(),
            }
        }
    }
    let heard = reader.end();
    for (what, text) in [
        ("session", heard.session),
        ("answer", heard.answer),
        ("failure", heard.failure),
    ] {
        if let Some(text) = text {
            let text = text.replace('\n', "⏎").replace('\r', "␍");
            writeln!(told, "{what}: {text}").unwrap();
        }
    }
    told
}

#[test]
fn every_recorded_stream_says_what_is_expected() {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/streams");
    let mut checked = 0;
    for entry in fs::read_dir(&place).unwrap() {
        let path = entry.unwrap().path();
        if path.extension() != Some("jsonl".as_ref()) {
            continue;
        }
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let output = match name.split_once('-').unwrap().0 {
            "claude" => Output::ClaudeJson,
            "codex" => Output::CodexJson,
            "gemini" => Output::GeminiJson,
            "opencode" => Output::OpencodeJson,
            _ => Output::Text,
        };
        let expected = fs::read_to_string(path.with_extension("expected")).unwrap();
        let given = fs::read_to_string(&path).unwrap();
        assert_eq!(told(output, &given), expected, "{name}");
        checked += 1;
    }
    assert!(checked >= 10, "only {checked} streams");
}

#[test]
fn what_a_step_shows_is_one_clean_short_line() {
    let text = format!("a\\u001b[31mb\\n\\u0007c {}", "x".repeat(10_000));
    let line =
        format!(r#"{{"type":"item.completed","item":{{"type":"agent_message","text":"{text}"}}}}"#);
    let said = Stream::new(Output::CodexJson, None).line(&line);
    let [Said::Step(step)] = said.as_slice() else {
        panic!("{said:?}");
    };
    assert!(
        step.starts_with("ab c xxx") && step.chars().count() <= 200,
        "{step}"
    );
}

/// What a thread used in earlier runs is taken off its total only if it is that thread.
#[test]
fn a_thread_that_was_not_gone_on_with_has_used_all_it_says() {
    for (thread, expected) in [("t-1", 2_800), ("t-2", 5_000)] {
        let earlier = Earlier {
            session: "t-1".to_owned(),
            used: Usage {
                input_tokens: 2_200,
                ..Usage::default()
            },
            lost_runs: Vec::new(),
        };
        let mut stream = Stream::new(Output::CodexJson, Some(earlier));
        stream.line(&format!(
            r#"{{"type":"thread.started","thread_id":"{thread}"}}"#
        ));
        stream.line(r#"{"type":"turn.completed","usage":{"input_tokens":5000}}"#);
        assert_eq!(stream.end().usage.input_tokens, expected, "{thread}");
    }
}
