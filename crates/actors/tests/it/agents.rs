//! Programs that play the well-known agents: what they are given, and what is made of what they do.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::Duration;

use plan::Phase;
use plan::actor::{ActorKind, Stdin};
use plan::argument::ArgumentValue;
use plan::guard::Guards;
use plan::stage::Category;
use planwright_actors::{Earlier, Outcome, Progress, Usage, preset, prompt, prompt_to_resume};

use crate::given::assignment;
use crate::yard::{Yard, agent, failure};

/// Writes down everything it is given.
const RECORDS: &str =
    r#"printf '%s\n' "$@" > argv.txt; cat > stdin.txt; env > env.txt; pwd > pwd.txt"#;

/// Writes down what a shell would have to be told to start it like this: each word ends with a NUL, because some have
/// lines.
const SEES: &str =
    r#"printf '%s\0' "${0##*/}" "$@" > argv.txt; cat > stdin.txt; env | sort > env.txt"#;

const SAYS_DONE: &str = r#"
echo '{"type":"system","subtype":"init","session_id":"s-1"}'
echo '{"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","name":"Bash","input":{"command":"ls"}}]},"session_id":"s-1"}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"All done.","session_id":"s-1","total_cost_usd":0.5,"usage":{"input_tokens":7,"output_tokens":3}}'
"#;

#[test]
fn claude_is_given_the_prompt_and_only_what_is_its_own() {
    let mut yard = Yard::new();
    yard.program("claude", &format!("{RECORDS}{SAYS_DONE}"));
    for (name, value) in [
        ("ANTHROPIC_API_KEY", "sk-ant-0123456789"),
        ("OPENAI_API_KEY", "sk-not-for-claude"),
        ("PLANWRIGHT_STORE", "postgres://secret"),
        ("SSH_AUTH_SOCK", "/tmp/agent.sock"),
        ("LC_TIME", "C"),
        ("HTTPS_PROXY", "http://proxy:1"),
    ] {
        yard.environment.insert(name.into(), value.into());
    }
    let given = assignment(Phase::Execute);
    let report = yard.work(&preset("claude").unwrap(), given.clone());
    assert_eq!(report.outcome, Outcome::Done);
    assert_eq!(report.summary.as_deref(), Some("All done."));
    assert_eq!(report.session.as_deref(), Some("s-1"));
    assert_eq!(
        (report.usage.input_tokens, report.usage.cost_micros),
        (7, 500_000)
    );
    assert_eq!(yard.steps(), ["Bash: ls"]);
    assert!(matches!(
        yard.told.lock().unwrap()[0],
        Progress::Began { .. }
    ));

    assert_eq!(
        yard.read("argv.txt"),
        "--print\n--output-format\nstream-json\n--verbose\n--permission-mode\nbypassPermissions\n"
    );
    // Where it works is told only if there are several.
    assert_eq!(yard.read("stdin.txt"), prompt(&given));
    assert_eq!(yard.read("pwd.txt").trim(), yard.sandbox.to_str().unwrap());
    let environment = yard.read("env.txt");
    let run = yard.run.display();
    for expected in [
        "ANTHROPIC_API_KEY=sk-ant-0123456789".to_owned(),
        "LC_TIME=C".to_owned(),
        "HTTPS_PROXY=http://proxy:1".to_owned(),
        format!("HOME={}", yard.home.display()),
        format!("TMPDIR={run}/tmp"),
        format!("CLAUDE_CODE_TMPDIR={run}/tmp"),
        format!("PLANWRIGHT_ASSIGNMENT={run}/assignment.json"),
        format!("PLANWRIGHT_REPORT={run}/out/report.json"),
        format!("PLANWRIGHT_PLAN={}", given.plan),
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
    let json = fs::read_to_string(yard.run.join("assignment.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["sandboxes"][0]["path"], yard.sandbox.to_str().unwrap());
}

/// How each preset is started in each of its forms, as a shell would have it typed: what is set for it, its words,
/// and what it reads. What a well-known agent takes is not for a change to lose unseen.
#[test]
fn every_preset_is_started_with_its_words() {
    let yard = Yard::new();
    yard.program("agent", SEES);
    yard.work(&agent(|_| {}), assignment(Phase::Execute));
    let everybody_s = variables(&yard);
    let mut seen = String::new();
    for preset in planwright_actors::presets() {
        let ActorKind::Command(line) = &preset.kind else {
            panic!("{preset:?}");
        };
        let name = preset.name.to_string();
        yard.program(&name, SEES);
        let mut resumed = assignment(Phase::Execute);
        resumed.earlier = Some(Earlier {
            session: "the-session".into(),
            used: Usage::default(),
            lost_runs: Vec::new(),
        });
        let executed = assignment(Phase::Execute);
        let strategized = assignment(Phase::Strategize);
        for (form, given, told) in [
            ("execute", Some(&executed), prompt(&executed)),
            (
                "strategize",
                line.strategize.as_ref().map(|_| &strategized),
                prompt(&strategized),
            ),
            (
                "resume",
                line.resume.as_ref().map(|_| &resumed),
                prompt_to_resume(&resumed),
            ),
        ] {
            let Some(given) = given else {
                continue;
            };
            fs::remove_file(yard.sandbox.join("argv.txt")).unwrap();
            yard.work(preset, given.clone());
            let mut typed = variables(&yard);
            typed.retain(|variable| !everybody_s.contains(variable));
            let argv = yard.read("argv.txt");
            let words = argv.split_terminator('\0');
            typed.extend(words.map(|word| match word {
                word if word == told => "{prompt}".to_owned(),
                word if word.is_empty() || word.contains(char::is_whitespace) => {
                    format!("{word:?}")
                }
                word => word.to_owned(),
            }));
            match yard.read("stdin.txt") {
                nothing if nothing.is_empty() => {}
                input if input == told => typed.push("< {prompt}".to_owned()),
                input => typed.push(format!("< {input:?}")),
            }
            writeln!(seen, "{name}, {form}: {}", typed.join(" ")).unwrap();
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/presets.expected");
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(seen == expected, "{} is not\n{seen}", path.display());
}

/// The variables that the last program saw, but for those that tell of its assignment or that its shell has set.
fn variables(yard: &Yard) -> Vec<String> {
    let environment = yard.read("env.txt");
    let variables = environment
        .lines()
        .filter(|variable| !variable.starts_with("PLANWRIGHT_") && !variable.starts_with("_="));
    variables.map(str::to_owned).collect()
}

#[test]
fn a_conversation_is_gone_on_with_in_execute_only() {
    let yard = Yard::new();
    yard.program("codex", RECORDS);
    let mut given = assignment(Phase::Execute);
    given.earlier = Some(Earlier {
        session: "0199-thread".into(),
        used: Usage::default(),
        lost_runs: Vec::new(),
    });
    let codex = preset("codex").unwrap();
    assert_eq!(yard.work(&codex, given.clone()).outcome, Outcome::Done);
    assert!(yard.read("argv.txt").ends_with("resume\n0199-thread\n-\n"));
    assert_eq!(yard.read("stdin.txt"), prompt_to_resume(&given));

    yard.program("claude", &format!("{RECORDS}{SAYS_DONE}"));
    given.phase = Phase::Strategize;
    let claude = preset("claude").unwrap();
    let report = yard.work(&claude, given.clone());
    assert_eq!(report.summary.as_deref(), Some("All done."));
    assert!(yard.read("argv.txt").ends_with("--permission-mode\nplan\n"));
    assert_eq!(yard.read("stdin.txt"), prompt(&given));
}

#[test]
fn without_words_for_it_a_program_is_not_started_in_strategize_unless_a_strategy_is_wanted() {
    let mut yard = Yard::new();
    yard.program("agent", "echo started; touch started");
    let plain = agent(|_| {});
    let report = yard.work(&plain, assignment(Phase::Strategize));
    assert_eq!((report.outcome, report.summary), (Outcome::Done, None));
    assert!(!yard.sandbox.join("started").exists());
    yard.strategy_wanted = true;
    let report = yard.work(&plain, assignment(Phase::Strategize));
    assert_eq!(report.summary.as_deref(), Some("started"));

    yard.program("agent", "echo nothing to say >&2");
    let report = yard.work(&plain, assignment(Phase::Strategize));
    let (category, message) = failure(&report);
    assert_eq!(category, Category::Actor);
    assert_eq!(message, "agent ended without a strategy: nothing to say");
}

#[test]
fn words_are_replaced_whole_and_never_by_a_shell() {
    let yard = Yard::new();
    yard.program("agent", RECORDS);
    let mut given = assignment(Phase::Execute);
    given.goal = "$(touch pwned) `x` 'y' \"z\" {sandbox}".into();
    let definition = agent(|line| {
        let words = ["agent", "{sandbox}", "--", "{prompt}", "$HOME"];
        line.command = words.map(String::from).into();
        line.stdin = Stdin::Assignment;
    });
    assert_eq!(yard.work(&definition, given.clone()).outcome, Outcome::Done);
    let argv = yard.read("argv.txt");
    assert_eq!(
        argv,
        format!(
            "{}\n--\n{}\n$HOME\n",
            yard.sandbox.display(),
            prompt(&given)
        )
    );
    assert!(!yard.sandbox.join("pwned").exists());
    let input: serde_json::Value = serde_json::from_str(&yard.read("stdin.txt")).unwrap();
    assert_eq!(input["goal"], given.goal);
}

#[test]
fn a_prompt_too_long_for_an_argument_goes_in_through_standard_input() {
    let yard = Yard::new();
    yard.program("agent", "wc -c < /dev/stdin > size.txt");
    let mut given = assignment(Phase::Execute);
    given.goal = "x".repeat(150_000);
    let as_argument = agent(|line| line.command.push("{prompt}".into()));
    let (category, message) = failure(&yard.work(&as_argument, given.clone()));
    assert_eq!(category, Category::Resource);
    assert!(
        message.contains("define the actor with `stdin: prompt`"),
        "{message}"
    );
    let as_input = agent(|line| line.stdin = Stdin::Prompt);
    assert_eq!(yard.work(&as_input, given).outcome, Outcome::Done);
    assert!(yard.read("size.txt").trim().parse::<usize>().unwrap() > 150_000);
}

#[test]
fn what_is_too_long_for_a_variable_is_in_the_file() {
    let yard = Yard::new();
    yard.program("agent", SEES);
    let mut given = assignment(Phase::Execute);
    for (length, is_variable) in [(64 * 1024, true), (64 * 1024 + 1, false)] {
        given.goal = "x".repeat(length);
        let argument = ArgumentValue::String(given.goal.clone().into());
        given.arguments.insert("area".to_owned(), argument);
        assert_eq!(
            yard.work(&agent(|_| {}), given.clone()).outcome,
            Outcome::Done
        );
        let environment = yard.read("env.txt");
        for name in ["PLANWRIGHT_GOAL", "PLANWRIGHT_ARG_AREA"] {
            let variable = format!("{name}={}\n", given.goal);
            assert_eq!(environment.contains(&variable), is_variable, "{name}");
            assert_eq!(environment.contains(name), is_variable, "{name}");
        }
        let file = fs::read_to_string(yard.run.join("assignment.json")).unwrap();
        let file: serde_json::Value = serde_json::from_str(&file).unwrap();
        assert_eq!(file["goal"], given.goal);
        assert_eq!(file["arguments"]["area"], given.goal);
    }
}

#[test]
fn a_program_that_is_missing_is_told_with_what_to_do() {
    let yard = Yard::new();
    let (category, message) =
        failure(&yard.work(&preset("goose").unwrap(), assignment(Phase::Execute)));
    assert_eq!(category, Category::Resource);
    assert!(
        message.starts_with("`goose` is not installed: no directory of PATH has"),
        "{message}"
    );

    fs::write(yard.sandbox.join("script"), "not executable").unwrap();
    let own = agent(|line| line.command = vec!["./script".into()]);
    let (_, message) = failure(&yard.work(&own, assignment(Phase::Execute)));
    assert_eq!(message, "`./script` is not there, or not a program");

    yard.program("agent", "");
    fs::write(yard.bin.join("agent"), "#!/no/such/interpreter\n").unwrap();
    let (category, message) = failure(&yard.work(&agent(|_| {}), assignment(Phase::Execute)));
    assert_eq!(category, Category::Resource);
    assert!(message.starts_with("agent was not started:"), "{message}");
}

#[test]
fn how_a_program_ends_is_told_with_its_last_words() {
    let yard = Yard::new();
    yard.program("agent", "echo fine; echo one >&2; echo two >&2; exit 3");
    let report = yard.work(&agent(|_| {}), assignment(Phase::Execute));
    assert_eq!(
        failure(&report),
        (
            Category::Actor,
            "agent ended with exit code 3: one\ntwo".into()
        )
    );
    yard.program("agent", "echo only output; exit 4");
    let report = yard.work(&agent(|_| {}), assignment(Phase::Execute));
    assert_eq!(
        failure(&report).1,
        "agent ended with exit code 4: only output"
    );
    yard.program("agent", "kill -9 $$");
    let report = yard.work(&agent(|_| {}), assignment(Phase::Execute));
    assert_eq!(failure(&report).1, "agent was ended by signal 9");
}

#[test]
fn a_written_report_counts_and_a_broken_one_is_a_failure() {
    let yard = Yard::new();
    let reports = |report: &str, code: u8| {
        yard.program(
            "agent",
            &format!("echo said; cat > \"$PLANWRIGHT_REPORT\" <<'END'\n{report}\nEND\nexit {code}"),
        );
        yard.work(&agent(|_| {}), assignment(Phase::Execute))
    };
    let report = reports(
        r#"{"outcome": "done", "summary": "written", "session": "w"}"#,
        0,
    );
    assert_eq!(report.outcome, Outcome::Done);
    assert_eq!(report.summary.as_deref(), Some("written"));
    assert_eq!(report.session.as_deref(), Some("w"));
    assert_eq!(
        reports(r#"{"outcome": "done"}"#, 0).summary.as_deref(),
        Some("said")
    );

    let report = reports(
        r#"{"outcome": "failed", "message": "no", "category": "strategy"}"#,
        0,
    );
    assert_eq!(failure(&report), (Category::Strategy, "no".into()));
    let report = reports(r#"{"outcome": "ask", "question": "Which?"}"#, 0);
    assert!(matches!(report.outcome, Outcome::Asks { question, .. } if question == "Which?"));
    let report = reports("all went well", 0);
    assert!(
        failure(&report)
            .1
            .starts_with("the actor's report cannot be taken: expected")
    );
    let report = reports(r#"{"outcome": "done"}"#, 1);
    assert_eq!(
        failure(&report).1,
        "agent reported that it is done, but ended with exit code 1"
    );
    // An old report is none of a new run's.
    yard.program("agent", "true");
    assert_eq!(
        yard.work(&agent(|_| {}), assignment(Phase::Execute))
            .summary,
        None
    );
}

#[test]
fn an_agent_that_says_it_failed_has_failed_whatever_its_exit_code() {
    let yard = Yard::new();
    let error = r#"echo '{"type":"result","subtype":"success","is_error":true,"result":"API Error: 529 Overloaded","session_id":"s"}'"#;
    yard.program("claude", error);
    let report = yard.work(&preset("claude").unwrap(), assignment(Phase::Execute));
    assert_eq!(
        failure(&report),
        (
            Category::Transient,
            "claude failed: API Error: 529 Overloaded".into()
        )
    );
    assert_eq!(report.session.as_deref(), Some("s"));
    yard.program(
        "codex",
        r#"echo '{"type":"turn.failed","error":{"message":"model not found"}}'"#,
    );
    let report = yard.work(&preset("codex").unwrap(), assignment(Phase::Execute));
    assert_eq!(
        failure(&report),
        (Category::Actor, "codex failed: model not found".into())
    );
}

#[test]
fn a_conversation_that_is_forgotten_is_started_afresh() {
    let yard = Yard::new();
    yard.program(
        "claude",
        &format!(
            r#"case "$*" in
            *--resume*) echo "No conversation found with session ID: gone" >&2; exit 1;;
            esac
            {RECORDS}{SAYS_DONE}"#
        ),
    );
    let mut given = assignment(Phase::Execute);
    given.earlier = Some(Earlier {
        session: "gone".into(),
        used: Usage::default(),
        lost_runs: Vec::new(),
    });
    let report = yard.work(&preset("claude").unwrap(), given.clone());
    assert_eq!(report.outcome, Outcome::Done);
    assert_eq!(report.session.as_deref(), Some("s-1"));
    assert_eq!(yard.read("stdin.txt"), prompt(&given));
    let transcript = yard.transcript();
    for part in ["No conversation found", "it is started afresh", "All done."] {
        assert!(transcript.contains(part), "{part} in\n{transcript}");
    }
}

/// One that took the conversation up and failed then has not forgotten it.
#[test]
fn a_conversation_outlives_a_failure_in_it() {
    let yard = Yard::new();
    yard.program(
        "codex",
        r#"echo "$@" >> starts.txt
        echo '{"type":"thread.started","thread_id":"0199-thread"}'
        echo '{"type":"turn.failed","error":{"message":"unexpected status 401 Unauthorized"}}'
        exit 1"#,
    );
    let mut given = assignment(Phase::Execute);
    given.earlier = Some(Earlier {
        session: "0199-thread".into(),
        used: Usage::default(),
        lost_runs: Vec::new(),
    });
    let report = yard.work(&preset("codex").unwrap(), given);
    assert_eq!(failure(&report).0, Category::Actor);
    assert_eq!(report.session.as_deref(), Some("0199-thread"));
    assert_eq!(yard.read("starts.txt").lines().count(), 1);
}

/// Codex counts what its thread used from its beginning.
#[test]
fn a_conversation_that_is_gone_on_with_is_charged_for_what_came_to_it() {
    let yard = Yard::new();
    let uses = |input: u64| {
        let output = input / 10;
        format!(
            r#"echo '{{"type":"thread.started","thread_id":"t"}}'
            echo '{{"type":"turn.completed","usage":{{"input_tokens":{input},"output_tokens":{output}}}}}'"#
        )
    };
    let codex = preset("codex").unwrap();
    let mut given = assignment(Phase::Execute);
    yard.program("codex", &uses(2200));
    assert_eq!(yard.work(&codex, given.clone()).usage.input_tokens, 2200);
    let mut used = Usage::default();
    (used.input_tokens, used.output_tokens) = (2200, 220);
    given.earlier = Some(Earlier {
        session: "t".into(),
        used,
        lost_runs: Vec::new(),
    });
    yard.program("codex", &uses(4400));
    let usage = yard.work(&codex, given.clone()).usage;
    assert_eq!((usage.input_tokens, usage.output_tokens), (2200, 220));
    // A count that began anew is no less than it says.
    yard.program("codex", &uses(1000));
    assert_eq!(yard.work(&codex, given).usage.input_tokens, 1000);
}

#[test]
fn a_wait_that_takes_too_long_says_what_it_was_for() {
    let mut yard = Yard::new();
    yard.time = Some(Duration::from_secs(3));
    yard.program(
        "claude",
        r#"echo '{"type":"system","subtype":"api_retry","attempt":7,"max_retries":10,"error_status":529,"error":"overloaded"}'
        sleep 60"#,
    );
    let report = yard.work(&preset("claude").unwrap(), assignment(Phase::Execute));
    let (category, message) = failure(&report);
    assert_eq!(category, Category::Timeout);
    assert_eq!(
        message,
        "claude took longer than 3 s: API error 529 (overloaded), attempt 7 of 10"
    );
    assert_eq!(
        yard.steps(),
        ["API error 529 (overloaded), attempt 7 of 10"]
    );
    // One that says so only beside its stream.
    yard.program(
        "gemini",
        r"echo '{}' ; echo 'Attempt 4 failed with status 429. Retrying with backoff...' >&2
        printf '    at retry (file:///bundle/chunk.js:1:2) {\n  status: 429\n}\n' >&2; sleep 60",
    );
    let report = yard.work(&preset("gemini").unwrap(), assignment(Phase::Execute));
    assert_eq!(
        failure(&report).1,
        "gemini took longer than 3 s: Attempt 4 failed with status 429. Retrying with backoff..."
    );
}

/// What an agent keeps for itself it finds at its first run, too.
#[test]
fn the_directories_of_an_agent_are_there_at_its_first_run() {
    for preset in planwright_actors::presets() {
        let ActorKind::Command(line) = &preset.kind else {
            continue;
        };
        let yard = Yard::new();
        let name = preset.name.to_string();
        let directories = line
            .writable
            .iter()
            .filter_map(|path| path.strip_prefix("~/"));
        let directories: Vec<&str> = directories.filter(|path| path.ends_with('/')).collect();
        let writes = directories
            .iter()
            .map(|path| format!("echo 1 > ~/{path}new || exit 1"));
        let script: Vec<String> = writes.chain([RECORDS.to_owned()]).collect();
        yard.program(&name, &script.join("\n"));
        let report = yard.work(preset, assignment(Phase::Execute));
        assert_eq!(report.outcome, Outcome::Done, "{name}");
        for path in directories {
            assert!(yard.home.join(path).join("new").exists(), "{name}: {path}");
        }
    }
}

/// Agents that end with an error and say why only where nobody reads: by their words it may pass.
#[test]
fn what_an_agent_says_on_its_way_out_tells_whether_it_passes() {
    let yard = Yard::new();
    yard.program(
        "gemini",
        r#"printf '\033[31mAttempt 3 failed\033[0m _ApiError: {"message":"too fast","status":"RESOURCE_EXHAUSTED"}\n' >&2
        echo '    at throwErrorIfNotOK (file:///bundle/chunk.js:288018:500)' >&2
        exit 1"#,
    );
    let (category, message) =
        failure(&yard.work(&preset("gemini").unwrap(), assignment(Phase::Execute)));
    assert_eq!(category, Category::Transient);
    assert_eq!(
        message,
        "gemini ended with exit code 1: Attempt 3 failed _ApiError: \
         {\"message\":\"too fast\",\"status\":\"RESOURCE_EXHAUSTED\"}"
    );
    // A script may mean anything by such words.
    yard.program("agent", "echo the connection is drawn wrongly >&2; exit 1");
    let report = yard.work(&agent(|_| {}), assignment(Phase::Execute));
    assert_eq!(failure(&report).0, Category::Actor);
}

#[test]
fn a_run_without_a_place_is_refused() {
    let mut yard = Yard::new();
    yard.program("agent", "true");
    yard.run = std::path::PathBuf::new();
    let (category, message) = failure(&yard.work(&agent(|_| {}), assignment(Phase::Execute)));
    assert_eq!(category, Category::Resource);
    assert_eq!(message, "a program needs a directory for its run");
}

/// An agent with guards: the call is told, the agent ends, and what it would have done next does not happen.
#[test]
fn a_call_against_its_guards_ends_an_agent() {
    const PUSHES: &str = r#"
echo '{"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","name":"Bash","input":{"command":"cd src && git push -f","description":"tidy up"}}]}}'
sleep 60
echo done > after.txt
"#;
    for (deny, allow, calls, said) in [
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
        let yard = Yard::new();
        let ends = if said.is_some() { PUSHES } else { SAYS_DONE };
        yard.program("claude", ends);
        let mut claude = preset("claude").unwrap();
        let ActorKind::Command(line) = &mut claude.kind else {
            panic!("{claude:?}");
        };
        let patterns = |text: &str| text.parse().into_iter().collect();
        line.guards = Guards {
            deny: patterns(deny),
            allow: patterns(allow),
            calls,
        };
        let report = yard.work(&claude, assignment(Phase::Execute));
        match said {
            Some(said) => assert_eq!(failure(&report), (Category::Actor, said.to_owned())),
            None => assert_eq!(report.outcome, Outcome::Done),
        }
        assert!(!yard.sandbox.join("after.txt").exists());
    }
}

/// Also one that is done before anybody could stop it.
#[test]
fn calls_are_counted_until_the_last() {
    let yard = Yard::new();
    let call = SAYS_DONE.lines().nth(2).unwrap();
    yard.program("claude", &format!("{call}\n{call}{SAYS_DONE}"));
    let mut claude = preset("claude").unwrap();
    let ActorKind::Command(line) = &mut claude.kind else {
        panic!("{claude:?}");
    };
    line.guards.calls = Some(2);
    let report = yard.work(&claude, assignment(Phase::Execute));
    let said = "claude was stopped: it used its tools more than 2 times";
    assert_eq!(failure(&report), (Category::Budget, said.to_owned()));
}
