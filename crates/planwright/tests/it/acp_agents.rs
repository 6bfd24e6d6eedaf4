//! An agent that speaks the Agent Client Protocol, through the command line.

use crate::shop_repository::ShopRepository;

/// Asks before it writes, and writes only if it may. It continues its session.
pub const ASKING_AGENT: &str = r#"#!/bin/sh
reply() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
send() { printf '{"jsonrpc":"2.0",%s}\n' "$1"; }
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/^{"id":\([0-9]*\),.*/\1/p')
  case $line in
  *'"method":"initialize"'*)
    reply '{"protocolVersion":1,"agentCapabilities":{"sessionCapabilities":{"resume":{}}}}' ;;
  *'"method":"session/new"'*) reply '{"sessionId":"s-1"}' ;;
  *'"method":"session/resume"'*) reply '{}' ;;
  *'"method":"session/prompt"'*)
    send '"id":70,"method":"session/request_permission","params":{"toolCall":{"toolCallId":"c","kind":"execute","rawInput":{"command":"write"}},"options":[{"optionId":"y","kind":"allow_once"},{"optionId":"n","kind":"reject_once"}]}'
    read -r answer
    case $answer in
    *'"optionId":"y"'*) echo written >> NOTES.md; said='I wrote it.' ;;
    *) said='I may not write.' ;;
    esac
    send '"method":"session/update","params":{"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'"$said"'"}}}'
    reply '{"stopReason":"end_turn","usage":{"inputTokens":10,"outputTokens":2}}' ;;
  esac
done
"#;

pub fn repository_with_agent(tools: &str) -> ShopRepository {
    let repo = ShopRepository::new();
    let script = repo.write_file_beside("asking-agent", ASKING_AGENT);
    let definition = format!(
        "name: asking\nkind: acp\ncommand: [sh, \"{script}\"]\nreadable: [\"{script}\"]\n{tools}"
    );
    let definition = repo.write_file_beside("asking.yaml", &definition);
    repo.run_ok(&["agent", "add", &definition]);
    repo
}

/// Runs in the checkout and returns what was printed.
fn run_in_shop(repo: &ShopRepository, exit_code: i32, words: &[&str]) -> String {
    let run = repo.program.run(words).with_directory(repo.shop_path());
    let output = run.finish();
    let printed = format!("{}{}", output.stdout, output.stderr);
    assert_eq!(output.exit_code(), Some(exit_code), "{words:?}: {printed}");
    printed
}

#[test]
fn agent_works_asks_and_continues_its_session() {
    let repo = repository_with_agent("tools: {allow: [\"execute(write)\"]}\n");
    let listed = repo.run_plain(&["agent", "list"]);
    let line = listed.lines().find(|line| line.starts_with("asking "));
    assert!(line.is_some_and(|line| line.contains(" ACP ")), "{listed}");
    run_in_shop(&repo, 6, &["run", "--agent", "asking", "Write it"]);
    run_in_shop(&repo, 6, &["revise", "@", "Write it again"]);
    let log = run_in_shop(&repo, 0, &["log", "@", "--transcript"]);
    assert!(
        log.contains("allow run write · `tools.allow` has `execute(write)`"),
        "{log}"
    );
    assert!(log.contains("continues the earlier conversation"), "{log}");
    assert!(log.contains("12 tokens"), "{log}");
    run_in_shop(&repo, 0, &["apply", "@", "--yes"]);
    assert_eq!(repo.read_file("NOTES.md"), "written\nwritten\n");
}

#[test]
fn denied_call_is_not_made() {
    let repo = repository_with_agent("tools: {deny: [execute]}\n");
    run_in_shop(&repo, 7, &["run", "--agent", "asking", "Write it"]);
    let log = run_in_shop(&repo, 0, &["log", "@", "--transcript"]);
    assert!(
        log.contains("deny  run write · `tools.deny` has `execute`"),
        "{log}"
    );
    assert!(log.contains("I may not write."), "{log}");
}

/// A definition that is printed can be added again.
#[test]
fn shown_definition_can_be_added_again() {
    let repo = repository_with_agent(
        "mode: plan\ntools: {deny: [\"execute(*git push*)\"], ask: [fetch]}\n",
    );
    let shown = repo.run_plain(&["agent", "show", "asking"]);
    let copy = repo.write_file_beside("copy.yaml", &shown);
    repo.run_ok(&["agent", "add", &copy]);
    assert_eq!(repo.run_plain(&["agent", "show", "asking"]), shown);
}
