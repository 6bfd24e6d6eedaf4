//! Valid and invalid agent definitions, and writing them back.

use plan::Span;
use plan::actor::{
    ActorIsolation, ActorKind, ActorOutputFormat, ActorStdin, CommandLine, McpConfigFormat,
};

use super::super::{format_actor, parse_actor};

const FULL_ACTOR: &str = r#"
name: acme/agent
description: "Ours: the best"
kind: command
command: [agent, run, "{prompt}"]
strategize: {command: [agent, plan, "{prompt}"]}
resume:
  command: [agent, resume, "{session}", "{prompt}"]
stdin: none
output: codex-json
env: [AGENT_KEY]
set_env:
  AGENT_MODE: auto
  LEVEL: "3"
writable: [~/.agent, /var/cache/agent]
readable:
  - ~/.agentrc
timeout: 30m
isolation: required
mcp: codex
guards:
  deny: [WebFetch, "Bash(*git push*)"]
  allow: [Read]
  calls: 200
"#;

#[track_caller]
fn expect_problem(source: &str, expected: &str) -> Option<String> {
    let problem = parse_actor(source, "f").expect_err(source);
    assert_eq!(problem.to_string(), format!("f:{expected}"), "{source}");
    problem.hint
}

#[track_caller]
fn parse_command_line(source: &str) -> CommandLine {
    match parse_actor(source, "f").unwrap().kind {
        ActorKind::Command(line) => *line,
        ActorKind::Acp(_) | ActorKind::Human { .. } => panic!("{source}"),
    }
}

#[test]
fn every_key_is_read() {
    let read = parse_actor(FULL_ACTOR, "f").unwrap();
    assert_eq!(read.name.full_name(), "acme/agent");
    assert_eq!(read.description.as_deref(), Some("Ours: the best"));
    let line = parse_command_line(FULL_ACTOR);
    assert_eq!(line.command, ["agent", "run", "{prompt}"]);
    assert_eq!(line.strategize.unwrap()[1], "plan");
    assert_eq!(line.resume.unwrap()[2], "{session}");
    assert_eq!(
        (line.stdin, line.output),
        (ActorStdin::None, ActorOutputFormat::CodexJson)
    );
    assert_eq!(line.env, ["AGENT_KEY"]);
    assert_eq!(line.set_env["LEVEL"], "3");
    assert_eq!(line.writable, ["~/.agent", "/var/cache/agent"]);
    assert_eq!(line.readable, ["~/.agentrc"]);
    assert_eq!(line.timeout, Some(Span::from_seconds(1800)));
    assert_eq!(line.isolation, ActorIsolation::Required);
    assert_eq!(line.mcp, Some(McpConfigFormat::Codex));
    let deny = line.guards.deny.iter().map(ToString::to_string);
    assert!(deny.eq(["webfetch", "bash(*git push*)"]));
    assert_eq!(line.guards.allow.len(), 1);
    assert_eq!(line.guards.calls, Some(200));

    let human = parse_actor("name: me\nkind: human\ntimeout: 2h\n", "f").unwrap();
    let timeout = Some(Span::from_seconds(7200));
    assert_eq!(human.kind, ActorKind::Human { timeout });
}

const FULL_ACP_AGENT: &str = r#"
name: acme/agent
kind: acp
command: [agent, --acp]
mode: plan
model: "big #1"
env: [AGENT_KEY]
set_env: {LEVEL: "3"}
writable: [~/.agent/]
readable: [~/.agentrc]
timeout: 30m
isolation: required
tools:
  deny: ["execute(*git push*)"]
  ask: [delete, "fetch(*)"]
  allow: [read]
"#;

#[test]
fn every_key_of_an_acp_agent_is_read() {
    let ActorKind::Acp(agent) = parse_actor(FULL_ACP_AGENT, "f").unwrap().kind else {
        panic!("another kind");
    };
    assert_eq!(agent.command, ["agent", "--acp"]);
    assert_eq!(agent.mode.as_deref(), Some("plan"));
    assert_eq!(agent.model.as_deref(), Some("big #1"));
    assert_eq!(agent.env, ["AGENT_KEY"]);
    assert_eq!(agent.set_env["LEVEL"], "3");
    assert_eq!(agent.writable, ["~/.agent/"]);
    assert_eq!(agent.readable, ["~/.agentrc"]);
    assert_eq!(agent.timeout, Some(Span::from_seconds(1800)));
    assert_eq!(agent.isolation, ActorIsolation::Required);
    assert_eq!(agent.tools.deny[0].to_string(), "execute(*git push*)");
    assert_eq!(agent.tools.ask.len(), 2);
    assert_eq!(agent.tools.allow.len(), 1);
}

#[test]
fn acp_agents_have_tools_and_no_guards() {
    let head = "kind: acp\nname: a\ncommand: [a]\n";
    let hint = expect_problem(
        &format!("{head}guards: {{deny: [x]}}"),
        "4:1: `guards` is not supported by an agent of kind acp",
    );
    assert!(hint.unwrap().contains("`tools`"));
    expect_problem(
        &format!("{head}tools: {{calls: 3}}"),
        "4:9: `tools`: unknown key `calls` in `tools`",
    );
    expect_problem(
        &format!("{head}output: text"),
        "4:1: unknown key `output` in an agent of kind acp: `output` belongs in an agent of kind command",
    );
    expect_problem(
        "kind: acp\nname: a\ncommand: [a, '{prompt}']",
        "3:10: `command`: an agent of kind acp gets its prompt by the protocol: remove `{prompt}`",
    );
}

#[test]
fn missing_keys_have_defaults() {
    let minimal = parse_command_line("{name: a, kind: command, command: [a]}");
    let expected = CommandLine {
        command: vec!["a".into()],
        ..CommandLine::default()
    };
    assert_eq!(minimal, expected);
}

#[test]
fn invalid_definitions_are_refused_with_position() {
    let hint = expect_problem(
        "name: a\ncommand: [a]\n",
        "1:1: an agent needs the key `kind`",
    );
    assert!(hint.unwrap().contains("kind: human"));
    expect_problem(
        "kind: robot",
        "1:7: `kind`: `robot` is not one of command, acp, human",
    );
    expect_problem(
        "kind: command\nname: a",
        "1:1: an agent of kind command needs the key `command`",
    );
    expect_problem(
        "kind: human\nname: a\ncommand: [a]",
        "3:1: unknown key `command` in an agent of kind human: `command` belongs in an agent of kind command",
    );
    let head = "kind: command\nname: a\n";
    let bad = |rest: &str, expected: &str| expect_problem(&format!("{head}{rest}"), expected);
    bad(
        "command: a b",
        "3:10: `command`: expected a list, found the string `a b`",
    );
    bad(
        "command: [a, 5]",
        "3:14: `command`: expected a string, found the number `5`",
    );
    bad(
        "comand: [a]",
        "3:1: unknown key `comand` in an agent of kind command; did you mean `command`?",
    );
    bad(
        "args: [a]",
        "3:1: `args` is not supported: a command is one list of words",
    );
    bad(
        "command: [a]\nstrategize: [a, plan]",
        "4:13: `strategize`: expected another way to start the program as a mapping of keys to values, found a list",
    );
    bad(
        "command: [a]\nstdin: file",
        "4:8: `stdin`: `file` is not one of assignment, prompt, none",
    );
    bad(
        "command: [a]\nset_env: [A]",
        "4:10: `set_env`: expected a mapping of variables to values, found a list",
    );
    bad(
        "command: [a]\nset_env: {A: 1}",
        "4:14: `set_env`: `A`: expected a string, found the number `1`",
    );
    for time in [
        "10",
        "ten",
        "1.5h",
        "0s",
        "-1s",
        "5 m",
        "9999999999999999h",
        "1w",
    ] {
        let problem =
            parse_actor(&format!("{head}command: [a]\ntimeout: '{time}'"), "f").unwrap_err();
        assert_eq!(
            problem.message,
            format!("`timeout`: `{time}` is not a duration such as 90s, 20m or 2h")
        );
    }
    bad(
        "command: [a, '{promt}']",
        "3:10: `command`: unknown placeholder `{promt}`: use {prompt}, {session} or {sandbox}",
    );
    bad(
        "command: [a]\nresume: {command: []}",
        "4:9: `resume` names no program",
    );
    bad(
        "command: [a]\nenv: [PLANWRIGHT_HOME]",
        "4:6: `env`: `PLANWRIGHT_HOME` is set by Planwright and cannot be defined here",
    );
    bad(
        "command: [a]\nguards: {calls: 5}",
        "4:9: `guards` need an agent that reports its tool calls: `output` must not be text",
    );
    bad(
        "command: [a]\nguards: {deny: ['Bash(ls']}",
        "4:17: `guards`: `deny`: `Bash(ls` is not a call pattern: write a tool, such as `WebFetch`, or a tool and its input, such as `Bash(*git push*)`",
    );
    bad(
        "command: [a]\nguards: {calls: 0}",
        "4:17: `guards`: `calls`: expected a number of calls, at least 1, found the number `0`",
    );
    bad(
        "command: [a]\nwritable: ['~']",
        "4:11: `writable`: `~` is too broad: list the paths inside it that are needed",
    );
}

#[test]
fn formatted_definitions_parse_back_equal() {
    let full = parse_actor(FULL_ACTOR, "f").unwrap();
    let human = parse_actor("{name: me, kind: human, timeout: 90s}", "f").unwrap();
    let acp = parse_actor(FULL_ACP_AGENT, "f").unwrap();
    let mut odd = full.clone();
    odd.description = Some("two\nlines: # and \"more\" \u{202e}".into());
    let words = [
        "a", "-", "--", "---", "- x", "", " ", "yes", "5", "1e5", "0x1f", ".5", "~", "~/x", "null",
        "true", "a: b", "a #b", "#", "*", "&a", "!t", "{}", "[x]", "'", "\"", "é", "\u{1b}", "a,b",
        "--a=b", "x ", "@", "%", "`", "?", ":", "a\\b", ".inf", "-.inf", "-5",
    ];
    odd.kind = ActorKind::Command(Box::new(CommandLine {
        command: words.map(String::from).into(),
        set_env: [("A".to_owned(), "off".to_owned())].into(),
        timeout: Some(Span::from_seconds(90)),
        isolation: ActorIsolation::Off,
        ..CommandLine::default()
    }));
    let presets = actors::all_presets().iter().cloned();
    for definition in presets.chain([full, human, acp, odd]) {
        let text = format_actor(&definition);
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
        let read = parse_actor(&text, "f").unwrap_or_else(|problem| panic!("{problem}\n{text}"));
        assert_eq!(read, definition, "{text}");
    }
}

#[test]
fn presets_are_formatted_like_handwritten_files() {
    let text = format_actor(&actors::find_preset("gemini").unwrap());
    assert_eq!(
        text,
        "name: gemini
description: Gemini CLI, by Google
kind: command
command:
  - gemini
  - --approval-mode
  - yolo
  - --output-format
  - stream-json
resume:
  command:
    - gemini
    - --approval-mode
    - yolo
    - --output-format
    - stream-json
    - --resume
    - \"{session}\"
stdin: prompt
output: gemini-json
env:
  - GEMINI_API_KEY
  - GEMINI_API_KEY_AUTH_MECHANISM
  - GEMINI_CLI_CUSTOM_HEADERS
  - GEMINI_CLI_HOME
  - GEMINI_CLI_USE_COMPUTE_ADC
  - GEMINI_MODEL
  - GOOGLE_API_KEY
  - GOOGLE_APPLICATION_CREDENTIALS
  - GOOGLE_CLOUD_LOCATION
  - GOOGLE_CLOUD_PROJECT
  - GOOGLE_CLOUD_PROJECT_ID
  - GOOGLE_GEMINI_BASE_URL
  - GOOGLE_GENAI_API_VERSION
  - GOOGLE_GENAI_USE_GCA
  - GOOGLE_GENAI_USE_VERTEXAI
  - GOOGLE_VERTEX_BASE_URL
writable:
  - ~/.gemini/
set_env:
  GEMINI_CLI_TRUST_WORKSPACE: \"true\"
"
    );
}
