//! The tools of a run, end to end: an agent starts the server that it was handed, inside its confinement.

use serde_json::Value;

use crate::daily::wait_for;
use crate::shop_repository::ShopRepository;

/// Starts the server that it was handed and does what its task says. `$tools` answers one call per line.
const TOOL_AGENT: &str = r#"#!/bin/sh
reply() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
ask_server() {
  printf '%s\n' "$1" >&3
  read -r answer <&4
  printf '%s\n' "$answer" >> ANSWERS
}
call() {
  ask_server '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"'"$1"'","arguments":'"$2"'}}'
}
start_server() {
  program=$(printf '%s' "$line" | sed -n 's/.*"command":"\([^"]*\)".*/\1/p')
  file=$(printf '%s' "$line" | sed -n 's/.*"relay-tools","\([^"]*\)".*/\1/p')
  mkfifo "$TMPDIR/in" "$TMPDIR/out"
  "$program" relay-tools "$file" <"$TMPDIR/in" >"$TMPDIR/out" &
  exec 3>"$TMPDIR/in" 4<"$TMPDIR/out"
  ask_server '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"sh","version":"1"}}}'
  ask_server '{"jsonrpc":"2.0","id":2,"method":"tools/list"}'
}
DECISION='{"kind":"implementation_choice","question":"Which file?","choice":"NOTES.md"}'
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/^{"id":\([0-9]*\),.*/\1/p')
  case $line in
  *'"method":"initialize"'*) reply '{"protocolVersion":1}' ;;
  *'"method":"session/new"'*) start_server; reply '{"sessionId":"s-1"}' ;;
  *'"method":"session/prompt"'*)
    case $line in
    *'Record for ever'*)
      while :; do call record_decision "$DECISION"; sleep 0.2; done ;;
    *'Blue, please.'*) echo blue > NOTES.md ;;
    *)
      call record_decision "$DECISION"
      call report_progress '{"message":"Looking for a colour.","steps":[{"text":"Paint it","status":"pending"}]}'
      call ask '{"question":"Which colour?"}' ;;
    esac
    reply '{"stopReason":"end_turn"}' ;;
  esac
done
"#;

fn repository_with_tool_agent() -> ShopRepository {
    let repo = ShopRepository::new();
    let script = repo.write_file_beside("tool-agent", TOOL_AGENT);
    let definition =
        format!("name: tools\nkind: acp\ncommand: [sh, \"{script}\"]\nreadable: [\"{script}\"]\n");
    let definition = repo.write_file_beside("tools.yaml", &definition);
    repo.run_ok(&["agent", "add", &definition]);
    repo
}

/// Runs in the checkout and returns what was printed.
fn run_in_shop(repo: &ShopRepository, words: &[&str]) -> String {
    let run = repo.program.run(words).with_directory(repo.shop_path());
    let output = run.finish();
    format!("{}{}", output.stdout, output.stderr)
}

fn newest_plan(repo: &ShopRepository) -> Option<String> {
    let listed = repo.run_ok(&["list", "--all"]);
    listed["plans"][0]["plan_id"].as_str().map(str::to_owned)
}

/// The decisions of a plan that agents recorded.
fn recorded_choices(repo: &ShopRepository, plan: &str) -> usize {
    let shown = repo.run_plain(&["log", plan, "--decisions"]);
    shown.matches("Which file?").count()
}

fn run_dir_file(repo: &ShopRepository, plan: &str) -> std::path::PathBuf {
    let runs = repo.program.home().join("runs").join(plan);
    let newest = std::fs::read_dir(&runs)
        .unwrap()
        .map(|run| run.unwrap().path())
        .max();
    newest.unwrap().join("tools.json")
}

const INITIALIZE: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#;
const ASK: &str = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ask","arguments":{"question":"?"}}}"#;

/// What the relay answers to these lines, started by hand.
fn relay_answers(repo: &ShopRepository, file: &std::path::Path, lines: &[&str]) -> Vec<Value> {
    let file = file.to_str().unwrap();
    let run = repo.program.run(["relay-tools", file]);
    let output = run.with_input(lines.join("\n").into_bytes()).finish();
    assert_eq!(output.exit_code(), Some(0), "{output:?}");
    let answers = output.stdout.lines();
    answers
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn agent_asks_records_and_reports_by_the_server_it_was_handed() {
    let repo = repository_with_tool_agent();
    run_in_shop(&repo, &["run", "--agent", "tools", "Paint it"]);
    let plan = newest_plan(&repo).unwrap();
    let status = repo.run_ok(&["status", &plan]);
    assert_eq!(status["question"]["text"], "Which colour?", "{status}");
    assert_eq!(recorded_choices(&repo, &plan), 1);
    let log = run_in_shop(&repo, &["log", &plan, "--transcript"]);
    assert!(log.contains("Looking for a colour."), "{log}");
    assert!(log.contains("Paint it"), "{log}");

    run_in_shop(&repo, &["answer", &plan, "Blue, please."]);
    let diff = run_in_shop(&repo, &["diff", &plan]);
    assert!(diff.contains("+blue"), "{diff}");
    for answered in ["record_decision", "Recorded.", "Shown.", "End it now"] {
        assert!(diff.contains(answered), "{answered}: {diff}");
    }
}

#[test]
fn killed_worker_keeps_what_was_recorded_and_its_tools_are_gone() {
    let repo = repository_with_tool_agent();
    let words = [
        "--format",
        "json",
        "run",
        "--agent",
        "tools",
        "Record for ever",
    ];
    let run = repo.program.run(words).with_directory(repo.shop_path());
    let process = run.start();
    wait_for("a decision is recorded", || {
        newest_plan(&repo).is_some_and(|plan| recorded_choices(&repo, &plan) > 0)
    });
    let plan = newest_plan(&repo).unwrap();
    let file = run_dir_file(&repo, &plan);
    assert!(file.exists());
    process.kill();
    let recorded = recorded_choices(&repo, &plan);
    let answer = &relay_answers(&repo, &file, &[INITIALIZE, ASK])[1]["result"];
    assert_eq!(answer["isError"], true);
    let text = answer["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("this run has ended"), "{text}");
    assert_eq!(recorded_choices(&repo, &plan), recorded);
    assert_eq!(repo.run_ok(&["status", &plan])["question"], Value::Null);
    repo.run_ok(&["store", "verify"]);
}

/// The epoch decides, not the connection: it is still open when the plan is cancelled.
#[test]
fn cancelled_plan_takes_no_more_decisions() {
    let repo = repository_with_tool_agent();
    let words = [
        "--format",
        "json",
        "run",
        "--agent",
        "tools",
        "Record for ever",
    ];
    let run = repo.program.run(words).with_directory(repo.shop_path());
    let process = run.start();
    wait_for("a decision is recorded", || {
        newest_plan(&repo).is_some_and(|plan| recorded_choices(&repo, &plan) > 0)
    });
    let plan = newest_plan(&repo).unwrap();
    repo.run_ok(&["cancel", &plan]);
    let recorded = recorded_choices(&repo, &plan);
    process.finish();
    assert_eq!(recorded_choices(&repo, &plan), recorded);
}

#[test]
fn relay_survives_whatever_its_agent_sends() {
    let repo = ShopRepository::new();
    let file = repo.shop_path().join("no-run.json");
    let long = "x".repeat(100_000);
    let stateless = r#"{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    let other = r#"{"jsonrpc":"2.0","id":4,"method":"resources/list"}"#;
    let lines = ["garbage", &long, ASK, stateless, INITIALIZE, ASK, other];
    let answers = relay_answers(&repo, &file, &lines);
    let codes: Vec<&Value> = answers
        .iter()
        .map(|answer| &answer["error"]["code"])
        .collect();
    let none = Value::Null;
    let refused = [-32700, -32600, -32602, -32601].map(Value::from);
    let [malformed, too_long, unnamed_version, unknown] = &refused;
    let expected = [
        malformed,
        too_long,
        unnamed_version,
        &none,
        &none,
        &none,
        unknown,
    ];
    assert_eq!(codes, expected);
    let tools = answers[3]["result"]["tools"].as_array().unwrap();
    let names: Vec<&Value> = tools.iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["ask", "record_decision", "report_progress"]);
    let text = &answers[5]["result"]["content"][0]["text"];
    assert_eq!(text, "Nothing was done: this run has ended.");
}
