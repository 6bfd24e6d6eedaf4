//! Scripts that act as the well-known agents: what they are given, and how their output is
//! interpreted.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::Duration;

use plan::Phase;
use plan::actor::{ActorKind, ActorStdin};
use plan::argument::ArgumentValue;
use plan::guard::ToolGuards;
use plan::stage::FailureCategory;
use planwright_actors::{
    EarlierSession, ReportOutcome, RunProgress, Usage, build_prompt, build_resume_prompt,
    find_preset,
};

use crate::actor_test_env::{ActorTestEnv, agent_definition, expect_failure};
use crate::sample_assignments::sample_assignment;

/// Records everything it is given.
const RECORD_INPUTS_SCRIPT: &str =
    r#"printf '%s\n' "$@" > argv.txt; cat > stdin.txt; env > env.txt; pwd > pwd.txt"#;

/// Records how it was started. Each argument ends with a NUL, because some contain line breaks.
const RECORD_START_SCRIPT: &str =
    r#"printf '%s\0' "${0##*/}" "$@" > argv.txt; cat > stdin.txt; env | sort > env.txt"#;

const REPORT_DONE_SCRIPT: &str = r#"
echo '{"type":"system","subtype":"init","session_id":"s-1"}'
echo '{"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","name":"Bash","input":{"command":"ls"}}]},"session_id":"s-1"}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"All done.","session_id":"s-1","total_cost_usd":0.5,"usage":{"input_tokens":7,"output_tokens":3}}'
"#;

#[test]
fn claude_gets_the_prompt_and_only_its_own_variables() {
    let mut test_env = ActorTestEnv::new();
    test_env.install_program(
        "claude",
        &format!("{RECORD_INPUTS_SCRIPT}{REPORT_DONE_SCRIPT}"),
    );
    for (name, value) in [
        ("ANTHROPIC_API_KEY", "sk-ant-0123456789"),
        ("OPENAI_API_KEY", "sk-not-for-claude"),
        ("PLANWRIGHT_STORE", "postgres://secret"),
        ("SSH_AUTH_SOCK", "/tmp/agent.sock"),
        ("LC_TIME", "C"),
        ("HTTPS_PROXY", "http://proxy:1"),
    ] {
        test_env.environment.insert(name.into(), value.into());
    }
    let assignment = sample_assignment(Phase::Execute);
    let report = test_env.run_actor(&find_preset("claude").unwrap(), assignment.clone());
    assert_eq!(report.outcome, ReportOutcome::Done);
    assert_eq!(report.summary.as_deref(), Some("All done."));
    assert_eq!(report.session.as_deref(), Some("s-1"));
    assert_eq!(
        (report.usage.input_tokens, report.usage.cost_micros),
        (7, 500_000)
    );
    // It says its answer only at the end.
    assert_eq!(test_env.reported_steps(), ["run ls", "All done."]);
    assert!(matches!(
        test_env.reported.lock().unwrap()[0],
        RunProgress::Started { .. }
    ));

    assert_eq!(
        test_env.read_file("argv.txt"),
        "--print\n--output-format\nstream-json\n--verbose\n--permission-mode\nbypassPermissions\n"
    );
    // A single sandbox is not listed in the prompt.
    assert_eq!(test_env.read_file("stdin.txt"), build_prompt(&assignment));
    assert_eq!(
        test_env.read_file("pwd.txt").trim(),
        test_env.sandbox.to_str().unwrap()
    );
    let environment = test_env.read_file("env.txt");
    let run = test_env.run_dir.display();
    for expected in [
        "ANTHROPIC_API_KEY=sk-ant-0123456789".to_owned(),
        "LC_TIME=C".to_owned(),
        "HTTPS_PROXY=http://proxy:1".to_owned(),
        format!("HOME={}", test_env.home.display()),
        format!("TMPDIR={run}/tmp"),
        format!("CLAUDE_CODE_TMPDIR={run}/tmp"),
        format!("PLANWRIGHT_ASSIGNMENT={run}/assignment.json"),
        format!("PLANWRIGHT_REPORT={run}/out/report.json"),
        format!("PLANWRIGHT_PLAN={}", assignment.plan),
        "PLANWRIGHT_PHASE=execute".to_owned(),
        "PLANWRIGHT_ATTEMPT=2".to_owned(),
        "PLANWRIGHT_RUN_KEY=run-1".to_owned(),
        "PLANWRIGHT_GOAL=Make the footer say 2025".to_owned(),
        "PLANWRIGHT_ARG_DRY_RUN=a \"b\"".to_owned(),
    ] {
        assert!(
            environment.lines().any(|line| line == expected),
            "{expected} in\n{environment}"
        );
    }
    for absent in ["OPENAI_API_KEY", "PLANWRIGHT_STORE", "SSH_AUTH_SOCK"] {
        assert!(!environment.contains(absent), "{absent} in\n{environment}");
    }
    let json = fs::read_to_string(test_env.run_dir.join("assignment.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        json["sandboxes"][0]["path"],
        test_env.sandbox.to_str().unwrap()
    );
}

/// Records how each preset is started in each of its forms: its variables, arguments and input. A
/// change to a preset must not go unnoticed.
#[test]
fn every_preset_is_started_with_its_arguments() {
    let test_env = ActorTestEnv::new();
    test_env.install_program("agent", RECORD_START_SCRIPT);
    test_env.run_actor(&agent_definition(|_| {}), sample_assignment(Phase::Execute));
    let common_variables = recorded_variables(&test_env);
    let mut recorded = String::new();
    for preset in planwright_actors::all_presets() {
        if planwright_actors::is_preset_variant(&preset.name) {
            continue;
        }
        let ActorKind::Command(line) = &preset.kind else {
            panic!("{preset:?}");
        };
        let name = preset.name.to_string();
        test_env.install_program(&name, RECORD_START_SCRIPT);
        let mut resumed = sample_assignment(Phase::Execute);
        resumed.earlier = Some(EarlierSession {
            session: "the-session".into(),
            used: Usage::default(),
            lost_runs: Vec::new(),
        });
        let executed = sample_assignment(Phase::Execute);
        let strategized = sample_assignment(Phase::Strategize);
        for (form, assignment, prompt_text) in [
            ("execute", Some(&executed), build_prompt(&executed)),
            (
                "strategize",
                line.strategize.as_ref().map(|_| &strategized),
                build_prompt(&strategized),
            ),
            (
                "resume",
                line.resume.as_ref().map(|_| &resumed),
                build_resume_prompt(&resumed),
            ),
        ] {
            let Some(assignment) = assignment else {
                continue;
            };
            fs::remove_file(test_env.sandbox.join("argv.txt")).unwrap();
            test_env.run_actor(preset, assignment.clone());
            let mut shell_words = recorded_variables(&test_env);
            shell_words.retain(|variable| !common_variables.contains(variable));
            let argv = test_env.read_file("argv.txt");
            let words = argv.split_terminator('\0');
            shell_words.extend(words.map(|word| match word {
                word if word == prompt_text => "{prompt}".to_owned(),
                word if word.is_empty() || word.contains(char::is_whitespace) => {
                    format!("{word:?}")
                }
                word => word.to_owned(),
            }));
            match test_env.read_file("stdin.txt") {
                nothing if nothing.is_empty() => {}
                input if input == prompt_text => shell_words.push("< {prompt}".to_owned()),
                input => shell_words.push(format!("< {input:?}")),
            }
            writeln!(recorded, "{name}, {form}: {}", shell_words.join(" ")).unwrap();
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/presets.expected");
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        recorded == expected,
        "{} is not\n{recorded}",
        path.display()
    );
}

/// The variables of the last program, without those about its assignment and those that its shell
/// set.
fn recorded_variables(test_env: &ActorTestEnv) -> Vec<String> {
    let environment = test_env.read_file("env.txt");
    let variables = environment
        .lines()
        .filter(|variable| !variable.starts_with("PLANWRIGHT_") && !variable.starts_with("_="));
    variables.map(str::to_owned).collect()
}

#[test]
fn session_is_resumed_only_in_execute() {
    let test_env = ActorTestEnv::new();
    test_env.install_program("codex", RECORD_INPUTS_SCRIPT);
    let mut assignment = sample_assignment(Phase::Execute);
    assignment.earlier = Some(EarlierSession {
        session: "0199-thread".into(),
        used: Usage::default(),
        lost_runs: Vec::new(),
    });
    let codex = find_preset("codex").unwrap();
    assert_eq!(
        test_env.run_actor(&codex, assignment.clone()).outcome,
        ReportOutcome::Done
    );
    assert!(
        test_env
            .read_file("argv.txt")
            .ends_with("resume\n0199-thread\n-\n")
    );
    assert_eq!(
        test_env.read_file("stdin.txt"),
        build_resume_prompt(&assignment)
    );

    test_env.install_program(
        "claude",
        &format!("{RECORD_INPUTS_SCRIPT}{REPORT_DONE_SCRIPT}"),
    );
    assignment.phase = Phase::Strategize;
    let claude = find_preset("claude").unwrap();
    let report = test_env.run_actor(&claude, assignment.clone());
    assert_eq!(report.summary.as_deref(), Some("All done."));
    assert!(
        test_env
            .read_file("argv.txt")
            .ends_with("--permission-mode\nplan\n")
    );
    assert_eq!(test_env.read_file("stdin.txt"), build_prompt(&assignment));
}

#[test]
fn strategize_starts_a_program_only_with_its_own_command_or_on_request() {
    let mut test_env = ActorTestEnv::new();
    test_env.install_program("agent", "echo started; touch started");
    let plain = agent_definition(|_| {});
    let report = test_env.run_actor(&plain, sample_assignment(Phase::Strategize));
    assert_eq!(
        (report.outcome, report.summary),
        (ReportOutcome::Done, None)
    );
    assert!(!test_env.sandbox.join("started").exists());
    test_env.strategy_wanted = true;
    let report = test_env.run_actor(&plain, sample_assignment(Phase::Strategize));
    assert_eq!(report.summary.as_deref(), Some("started"));

    test_env.install_program("agent", "echo nothing to say >&2");
    let report = test_env.run_actor(&plain, sample_assignment(Phase::Strategize));
    let (category, message) = expect_failure(&report);
    assert_eq!(category, FailureCategory::Actor);
    assert_eq!(message, "agent ended without a strategy: nothing to say");
}

#[test]
fn placeholders_are_replaced_as_whole_arguments_without_a_shell() {
    let test_env = ActorTestEnv::new();
    test_env.install_program("agent", RECORD_INPUTS_SCRIPT);
    let mut assignment = sample_assignment(Phase::Execute);
    assignment.goal = "$(touch pwned) `x` 'y' \"z\" {sandbox}".into();
    let definition = agent_definition(|line| {
        let words = ["agent", "{sandbox}", "--", "{prompt}", "$HOME"];
        line.command = words.map(String::from).into();
        line.stdin = ActorStdin::Assignment;
    });
    assert_eq!(
        test_env.run_actor(&definition, assignment.clone()).outcome,
        ReportOutcome::Done
    );
    let argv = test_env.read_file("argv.txt");
    assert_eq!(
        argv,
        format!(
            "{}\n--\n{}\n$HOME\n",
            test_env.sandbox.display(),
            build_prompt(&assignment)
        )
    );
    assert!(!test_env.sandbox.join("pwned").exists());
    let input: serde_json::Value = serde_json::from_str(&test_env.read_file("stdin.txt")).unwrap();
    assert_eq!(input["goal"], assignment.goal);
}

#[test]
fn prompt_too_long_for_an_argument_needs_standard_input() {
    let test_env = ActorTestEnv::new();
    test_env.install_program("agent", "wc -c < /dev/stdin > size.txt");
    let mut assignment = sample_assignment(Phase::Execute);
    assignment.goal = "x".repeat(150_000);
    let as_argument = agent_definition(|line| line.command.push("{prompt}".into()));
    let (category, message) = expect_failure(&test_env.run_actor(&as_argument, assignment.clone()));
    assert_eq!(category, FailureCategory::Resource);
    assert!(
        message.contains("define the agent with `stdin: prompt`"),
        "{message}"
    );
    let as_input = agent_definition(|line| line.stdin = ActorStdin::Prompt);
    assert_eq!(
        test_env.run_actor(&as_input, assignment).outcome,
        ReportOutcome::Done
    );
    assert!(
        test_env
            .read_file("size.txt")
            .trim()
            .parse::<usize>()
            .unwrap()
            > 150_000
    );
}

#[test]
fn value_too_long_for_a_variable_is_in_the_file() {
    let test_env = ActorTestEnv::new();
    test_env.install_program("agent", RECORD_START_SCRIPT);
    let mut assignment = sample_assignment(Phase::Execute);
    for (length, is_variable) in [(64 * 1024, true), (64 * 1024 + 1, false)] {
        assignment.goal = "x".repeat(length);
        let argument = ArgumentValue::String(assignment.goal.clone().into());
        assignment.arguments.insert("area".to_owned(), argument);
        assert_eq!(
            test_env
                .run_actor(&agent_definition(|_| {}), assignment.clone())
                .outcome,
            ReportOutcome::Done
        );
        let environment = test_env.read_file("env.txt");
        for name in ["PLANWRIGHT_GOAL", "PLANWRIGHT_ARG_AREA"] {
            let variable = format!("{name}={}\n", assignment.goal);
            assert_eq!(environment.contains(&variable), is_variable, "{name}");
            assert_eq!(environment.contains(name), is_variable, "{name}");
        }
        let file = fs::read_to_string(test_env.run_dir.join("assignment.json")).unwrap();
        let file: serde_json::Value = serde_json::from_str(&file).unwrap();
        assert_eq!(file["goal"], assignment.goal);
        assert_eq!(file["arguments"]["area"], assignment.goal);
    }
}

#[test]
fn missing_program_is_reported_with_a_hint() {
    let test_env = ActorTestEnv::new();
    let (category, message) = expect_failure(&test_env.run_actor(
        &find_preset("goose").unwrap(),
        sample_assignment(Phase::Execute),
    ));
    assert_eq!(category, FailureCategory::Resource);
    assert!(
        message.starts_with("`goose` is not installed: it is not in PATH"),
        "{message}"
    );

    fs::write(test_env.sandbox.join("script"), "not executable").unwrap();
    let script = agent_definition(|line| line.command = vec!["./script".into()]);
    let (_, message) =
        expect_failure(&test_env.run_actor(&script, sample_assignment(Phase::Execute)));
    assert_eq!(message, "`./script` does not exist or is not executable");

    test_env.install_program("agent", "");
    fs::write(test_env.bin.join("agent"), "#!/no/such/interpreter\n").unwrap();
    let (category, message) = expect_failure(
        &test_env.run_actor(&agent_definition(|_| {}), sample_assignment(Phase::Execute)),
    );
    assert_eq!(category, FailureCategory::Resource);
    assert!(message.starts_with("agent was not started:"), "{message}");
}

#[test]
fn failed_exit_is_reported_with_the_last_output() {
    let test_env = ActorTestEnv::new();
    test_env.install_program("agent", "echo fine; echo one >&2; echo two >&2; exit 3");
    let report = test_env.run_actor(&agent_definition(|_| {}), sample_assignment(Phase::Execute));
    assert_eq!(
        expect_failure(&report),
        (
            FailureCategory::Actor,
            "agent ended with exit code 3: one\ntwo".into()
        )
    );
    test_env.install_program("agent", "echo only output; exit 4");
    let report = test_env.run_actor(&agent_definition(|_| {}), sample_assignment(Phase::Execute));
    assert_eq!(
        expect_failure(&report).1,
        "agent ended with exit code 4: only output"
    );
    test_env.install_program("agent", "kill -9 $$");
    let report = test_env.run_actor(&agent_definition(|_| {}), sample_assignment(Phase::Execute));
    assert_eq!(expect_failure(&report).1, "agent was ended by signal 9");
}

#[test]
fn report_file_counts_and_an_invalid_one_is_a_failure() {
    let test_env = ActorTestEnv::new();
    let run_with_report = |report: &str, code: u8| {
        test_env.install_program(
            "agent",
            &format!("echo said; cat > \"$PLANWRIGHT_REPORT\" <<'END'\n{report}\nEND\nexit {code}"),
        );
        test_env.run_actor(&agent_definition(|_| {}), sample_assignment(Phase::Execute))
    };
    let report = run_with_report(
        r#"{"outcome": "done", "summary": "written", "session": "w"}"#,
        0,
    );
    assert_eq!(report.outcome, ReportOutcome::Done);
    assert_eq!(report.summary.as_deref(), Some("written"));
    assert_eq!(report.session.as_deref(), Some("w"));
    assert_eq!(
        run_with_report(r#"{"outcome": "done"}"#, 0)
            .summary
            .as_deref(),
        Some("said")
    );

    let report = run_with_report(
        r#"{"outcome": "failed", "message": "no", "category": "strategy"}"#,
        0,
    );
    assert_eq!(
        expect_failure(&report),
        (FailureCategory::Strategy, "no".into())
    );
    let report = run_with_report(r#"{"outcome": "ask", "question": "Which?"}"#, 0);
    assert!(
        matches!(report.outcome, ReportOutcome::NeedsAnswer { question, .. } if question == "Which?")
    );
    let report = run_with_report("all went well", 0);
    assert!(
        expect_failure(&report)
            .1
            .starts_with("the agent's report is invalid: expected")
    );
    let report = run_with_report(r#"{"outcome": "done"}"#, 1);
    assert_eq!(
        expect_failure(&report).1,
        "agent reported success, but ended with exit code 1"
    );
    // A report of an earlier run does not count.
    test_env.install_program("agent", "true");
    assert_eq!(
        test_env
            .run_actor(&agent_definition(|_| {}), sample_assignment(Phase::Execute))
            .summary,
        None
    );
}

#[test]
fn reported_failure_overrides_the_exit_code() {
    let test_env = ActorTestEnv::new();
    let error = r#"echo '{"type":"result","subtype":"success","is_error":true,"result":"API Error: 529 Overloaded","session_id":"s"}'"#;
    test_env.install_program("claude", error);
    let report = test_env.run_actor(
        &find_preset("claude").unwrap(),
        sample_assignment(Phase::Execute),
    );
    assert_eq!(
        expect_failure(&report),
        (
            FailureCategory::Transient,
            "claude failed: API Error: 529 Overloaded".into()
        )
    );
    assert_eq!(report.session.as_deref(), Some("s"));
    test_env.install_program(
        "codex",
        r#"echo '{"type":"turn.failed","error":{"message":"model not found"}}'"#,
    );
    let report = test_env.run_actor(
        &find_preset("codex").unwrap(),
        sample_assignment(Phase::Execute),
    );
    assert_eq!(
        expect_failure(&report),
        (
            FailureCategory::Actor,
            "codex failed: model not found".into()
        )
    );
}

#[test]
fn lost_session_is_replaced_by_a_new_one() {
    let test_env = ActorTestEnv::new();
    test_env.install_program(
        "claude",
        &format!(
            r#"case "$*" in
            *--resume*) echo "No conversation found with session ID: gone" >&2; exit 1;;
            esac
            {RECORD_INPUTS_SCRIPT}{REPORT_DONE_SCRIPT}"#
        ),
    );
    let mut assignment = sample_assignment(Phase::Execute);
    assignment.earlier = Some(EarlierSession {
        session: "gone".into(),
        used: Usage::default(),
        lost_runs: Vec::new(),
    });
    let report = test_env.run_actor(&find_preset("claude").unwrap(), assignment.clone());
    assert_eq!(report.outcome, ReportOutcome::Done);
    assert_eq!(report.session.as_deref(), Some("s-1"));
    assert_eq!(test_env.read_file("stdin.txt"), build_prompt(&assignment));
    let transcript = test_env.read_transcript();
    for part in ["No conversation found", "starting a new one", "All done."] {
        assert!(transcript.contains(part), "{part} in\n{transcript}");
    }
}

/// An agent that resumed the session and failed later has not lost it.
#[test]
fn failure_in_a_resumed_session_keeps_the_session() {
    let test_env = ActorTestEnv::new();
    test_env.install_program(
        "codex",
        r#"echo "$@" >> starts.txt
        echo '{"type":"thread.started","thread_id":"0199-thread"}'
        echo '{"type":"turn.failed","error":{"message":"unexpected status 401 Unauthorized"}}'
        exit 1"#,
    );
    let mut assignment = sample_assignment(Phase::Execute);
    assignment.earlier = Some(EarlierSession {
        session: "0199-thread".into(),
        used: Usage::default(),
        lost_runs: Vec::new(),
    });
    let report = test_env.run_actor(&find_preset("codex").unwrap(), assignment);
    assert_eq!(expect_failure(&report).0, FailureCategory::Actor);
    assert_eq!(report.session.as_deref(), Some("0199-thread"));
    assert_eq!(test_env.read_file("starts.txt").lines().count(), 1);
}

/// Codex counts a thread's usage from its beginning.
#[test]
fn resumed_session_is_charged_only_for_new_usage() {
    let test_env = ActorTestEnv::new();
    let uses = |input: u64| {
        let output = input / 10;
        format!(
            r#"echo '{{"type":"thread.started","thread_id":"t"}}'
            echo '{{"type":"turn.completed","usage":{{"input_tokens":{input},"output_tokens":{output}}}}}'"#
        )
    };
    let codex = find_preset("codex").unwrap();
    let mut assignment = sample_assignment(Phase::Execute);
    test_env.install_program("codex", &uses(2200));
    assert_eq!(
        test_env
            .run_actor(&codex, assignment.clone())
            .usage
            .input_tokens,
        2200
    );
    let mut used = Usage::default();
    (used.input_tokens, used.output_tokens) = (2200, 220);
    assignment.earlier = Some(EarlierSession {
        session: "t".into(),
        used,
        lost_runs: Vec::new(),
    });
    test_env.install_program("codex", &uses(4400));
    let usage = test_env.run_actor(&codex, assignment.clone()).usage;
    assert_eq!((usage.input_tokens, usage.output_tokens), (2200, 220));
    // A count that is lower than before is a new one, and counts completely.
    test_env.install_program("codex", &uses(1000));
    assert_eq!(
        test_env.run_actor(&codex, assignment).usage.input_tokens,
        1000
    );
}

#[test]
fn timeout_reports_the_last_error() {
    let mut test_env = ActorTestEnv::new();
    test_env.time_limit = Some(Duration::from_secs(3));
    test_env.install_program(
        "claude",
        r#"echo '{"type":"system","subtype":"api_retry","attempt":7,"max_retries":10,"error_status":529,"error":"overloaded"}'
        sleep 60"#,
    );
    let report = test_env.run_actor(
        &find_preset("claude").unwrap(),
        sample_assignment(Phase::Execute),
    );
    let (category, message) = expect_failure(&report);
    assert_eq!(category, FailureCategory::Timeout);
    assert_eq!(
        message,
        "claude took longer than 3 s: API error 529 (overloaded), attempt 7 of 10"
    );
    assert_eq!(
        test_env.reported_steps(),
        ["API error 529 (overloaded), attempt 7 of 10"]
    );
    // An agent that reports errors only on standard error.
    test_env.install_program(
        "gemini",
        r"echo '{}' ; echo 'Attempt 4 failed with status 429. Retrying with backoff...' >&2
        printf '    at retry (file:///bundle/chunk.js:1:2) {\n  status: 429\n}\n' >&2; sleep 60",
    );
    let report = test_env.run_actor(
        &find_preset("gemini").unwrap(),
        sample_assignment(Phase::Execute),
    );
    assert_eq!(
        expect_failure(&report).1,
        "gemini took longer than 3 s: Attempt 4 failed with status 429. Retrying with backoff..."
    );
}

/// Standard error of an agent is quoted, and shown while it works, only if it reports an error.
#[test]
fn retries_are_told_from_unrelated_lines_of_standard_error() {
    let mut test_env = ActorTestEnv::new();
    test_env.time_limit = Some(Duration::from_secs(2));
    test_env.install_program(
        "qwen",
        "echo 'Ripgrep not available: spawn rg EACCES. Falling back to built-in grep.' >&2
        echo 'Warning: running headless with --yolo / approval-mode=yolo and no sandbox.' >&2
        sleep 600",
    );
    test_env.install_program(
        "opencode",
        r#"log() { echo "timestamp=2026-11-18T21:13:01.371Z level=ERROR run=80e39964 message=$1" >&2; }
        log '"Failed to fetch models.dev" cause="Cause([Fail(HttpClientError: Transport error)])"'
        log '"stream error" providerID=anthropic mode=primary error.error="AI_RetryError: Failed after 3 attempts. Last error: overloaded"'
        sleep 600"#,
    );
    let retry = "AI_RetryError: Failed after 3 attempts. Last error: overloaded";
    for (name, expected) in [
        ("qwen", "qwen took longer than 2 s".to_owned()),
        (
            "opencode",
            format!("opencode took longer than 2 s: {retry}"),
        ),
    ] {
        let preset = find_preset(name).unwrap();
        let report = test_env.run_actor(&preset, sample_assignment(Phase::Execute));
        assert_eq!(expect_failure(&report).1, expected);
    }
    assert_eq!(test_env.reported_steps(), [retry]);
}

/// An agent's directories exist on its first run, too.
#[test]
fn directories_of_an_agent_exist_at_its_first_run() {
    for preset in planwright_actors::all_presets() {
        let ActorKind::Command(line) = &preset.kind else {
            continue;
        };
        let test_env = ActorTestEnv::new();
        let name = preset.name.to_string();
        let directories = line
            .writable
            .iter()
            .filter_map(|path| path.strip_prefix("~/"));
        let directories: Vec<&str> = directories.filter(|path| path.ends_with('/')).collect();
        let writes = directories
            .iter()
            .map(|path| format!("echo 1 > ~/{path}new || exit 1"));
        let script: Vec<String> = writes.chain([RECORD_INPUTS_SCRIPT.to_owned()]).collect();
        test_env.install_program(&name, &script.join("\n"));
        let report = test_env.run_actor(preset, sample_assignment(Phase::Execute));
        assert_eq!(report.outcome, ReportOutcome::Done, "{name}");
        for path in directories {
            assert!(
                test_env.home.join(path).join("new").exists(),
                "{name}: {path}"
            );
        }
    }
}

/// Some agents explain an error only on standard error. Its words tell whether it is transient.
#[test]
fn standard_error_of_an_agent_tells_whether_a_failure_is_transient() {
    let test_env = ActorTestEnv::new();
    test_env.install_program(
        "gemini",
        r#"printf '\033[31mAttempt 3 failed\033[0m _ApiError: {"message":"too fast","status":"RESOURCE_EXHAUSTED"}\n' >&2
        echo '    at throwErrorIfNotOK (file:///bundle/chunk.js:288018:500)' >&2
        exit 1"#,
    );
    let (category, message) = expect_failure(&test_env.run_actor(
        &find_preset("gemini").unwrap(),
        sample_assignment(Phase::Execute),
    ));
    assert_eq!(category, FailureCategory::Transient);
    assert_eq!(
        message,
        "gemini ended with exit code 1: Attempt 3 failed _ApiError: \
         {\"message\":\"too fast\",\"status\":\"RESOURCE_EXHAUSTED\"}"
    );
    // In a custom script, such words may mean anything.
    test_env.install_program("agent", "echo the connection is drawn wrongly >&2; exit 1");
    let report = test_env.run_actor(&agent_definition(|_| {}), sample_assignment(Phase::Execute));
    assert_eq!(expect_failure(&report).0, FailureCategory::Actor);
}

#[test]
fn run_without_an_absolute_directory_is_refused() {
    let mut test_env = ActorTestEnv::new();
    test_env.install_program("agent", "true");
    test_env.run_dir = std::path::PathBuf::new();
    let (category, message) = expect_failure(
        &test_env.run_actor(&agent_definition(|_| {}), sample_assignment(Phase::Execute)),
    );
    assert_eq!(category, FailureCategory::Resource);
    assert_eq!(message, "a program needs an absolute run directory");
}

/// A tool call that the guards deny stops the agent before its next step.
#[test]
fn tool_call_against_the_guards_stops_an_agent() {
    const PUSH_SCRIPT: &str = r#"
echo '{"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","name":"Bash","input":{"command":"cd src && git push -f","description":"tidy up"}}]}}'
sleep 60
echo done > after.txt
"#;
    for (deny, allow, calls, expected) in [
        (
            "Bash(*git push*)",
            "",
            None,
            Some(
                "claude was stopped: it used Bash(cd src && git push -f), which its guards deny (bash(*git push*))",
            ),
        ),
        (
            "",
            "Read",
            None,
            Some(
                "claude was stopped: it used Bash(cd src && git push -f), which its guards do not allow",
            ),
        ),
        ("WebFetch", "bash", Some(1), None),
    ] {
        let test_env = ActorTestEnv::new();
        let script = if expected.is_some() {
            PUSH_SCRIPT
        } else {
            REPORT_DONE_SCRIPT
        };
        test_env.install_program("claude", script);
        let mut claude = find_preset("claude").unwrap();
        let ActorKind::Command(line) = &mut claude.kind else {
            panic!("{claude:?}");
        };
        let patterns = |text: &str| text.parse().into_iter().collect();
        line.guards = ToolGuards {
            deny: patterns(deny),
            allow: patterns(allow),
            calls,
        };
        let report = test_env.run_actor(&claude, sample_assignment(Phase::Execute));
        match expected {
            Some(expected) => assert_eq!(
                expect_failure(&report),
                (FailureCategory::Actor, expected.to_owned())
            ),
            None => assert_eq!(report.outcome, ReportOutcome::Done),
        }
        assert!(!test_env.sandbox.join("after.txt").exists());
    }
}

/// Guards see the whole command, of which the transcript keeps only the beginning and the end.
#[test]
fn long_command_does_not_pass_the_guards() {
    let test_env = ActorTestEnv::new();
    test_env.install_program(
        "claude",
        r#"
filler=$(head -c 50000 /dev/zero | tr '\0' x)
echo '{"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","name":"Bash","input":{"command":"echo '$filler'; git push; echo '$filler'"}}]}}'
"#,
    );
    let mut claude = find_preset("claude").unwrap();
    let ActorKind::Command(line) = &mut claude.kind else {
        panic!("{claude:?}");
    };
    line.guards.deny = vec!["Bash(*git push*)".parse().unwrap()];
    let report = test_env.run_actor(&claude, sample_assignment(Phase::Execute));
    let (_, message) = expect_failure(&report);
    assert!(message.contains("which its guards deny"), "{message}");
    let reported = format!("{:?}", test_env.reported.lock().unwrap());
    assert!(reported.contains("bytes left out") && !reported.contains("git push"));
}

/// Also for an agent that is done before it could be stopped.
#[test]
fn tool_calls_are_counted_to_the_last() {
    let test_env = ActorTestEnv::new();
    let call = REPORT_DONE_SCRIPT.lines().nth(2).unwrap();
    test_env.install_program("claude", &format!("{call}\n{call}{REPORT_DONE_SCRIPT}"));
    let mut claude = find_preset("claude").unwrap();
    let ActorKind::Command(line) = &mut claude.kind else {
        panic!("{claude:?}");
    };
    line.guards.calls = Some(2);
    let report = test_env.run_actor(&claude, sample_assignment(Phase::Execute));
    let expected = "claude was stopped: it used its tools more than 2 times";
    assert_eq!(
        expect_failure(&report),
        (FailureCategory::Budget, expected.to_owned())
    );
}
