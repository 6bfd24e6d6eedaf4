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

/// What the relay answers to a call, started by hand.
fn relay_answer(repo: &ShopRepository, file: &std::path::Path) -> Value {
    let file = file.to_str().unwrap();
    let run = repo.program.run(["relay-tools", file]).with_input(
        concat!(
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#,
            "\n",
            r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ask","arguments":{"question":"?"}}}"#,
            "\n"
        )
        .as_bytes(),
    );
    let output = run.finish();
    let last = output.stdout.lines().last().unwrap();
    serde_json::from_str::<Value>(last).unwrap()["result"].clone()
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
    let answer = relay_answer(&repo, &file);
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
