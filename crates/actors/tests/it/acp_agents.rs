//! Agents that speak the Agent Client Protocol: recorded sessions, and scripts for everything odd that
//! agents do.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plan::actor::{AcpCommand, ActorIsolation, ActorKind};
use plan::decision::DecisionKind;
use plan::permission::ToolPolicy;
use plan::stage::FailureCategory;
use plan::transcript::{NoticeLevel, PermissionStatus, TranscriptContent};
use plan::{ActorDefinition, Phase, Profile};
use planwright_actors::{
    AcpActor, AcpTimeouts, Assignment, EarlierSession, Report, ReportOutcome, RunProgress, Usage,
    build_prompt, build_resume_prompt,
};
use serde_json::{Value, json};

use crate::actor_test_env::{ActorTestEnv, expect_failure};
use crate::sample_assignments::sample_assignment;
use crate::streams::describe_entry;

/// Short enough for a test, and much longer than any agent of a test needs.
const TEST_TIMEOUTS: AcpTimeouts = AcpTimeouts {
    question: Duration::from_secs(60),
    handshake: Duration::from_secs(20),
    silence: Duration::from_secs(20),
    person: Duration::from_secs(60),
    cancel: Duration::from_millis(200),
    exit: Duration::from_secs(10),
};

pub struct AcpRun {
    pub test_env: ActorTestEnv,
    pub agent: AcpCommand,
    pub timeouts: AcpTimeouts,
    pub assignment: Assignment,
}

impl AcpRun {
    /// A run of an agent that follows this script.
    pub fn new(steps: &[Value]) -> Self {
        let lines: String = steps.iter().map(|step| format!("{step}\n")).collect();
        Self::with_script(&lines)
    }

    fn with_script(script: &str) -> Self {
        let test_env = ActorTestEnv::new();
        let script_path = test_env.bin.join("script.jsonl");
        fs::write(&script_path, script).unwrap();
        let program = env!("CARGO_BIN_EXE_planwright-actors-test-acp-agent");
        let agent = AcpCommand {
            command: vec![program.to_owned(), script_path.display().to_string()],
            isolation: ActorIsolation::Off,
            ..AcpCommand::default()
        };
        Self {
            test_env,
            agent,
            timeouts: TEST_TIMEOUTS,
            assignment: sample_assignment(Phase::Execute),
        }
    }

    pub fn run(&self) -> Report {
        let definition = ActorDefinition {
            name: "agent".parse().unwrap(),
            description: None,
            kind: ActorKind::Acp(Box::new(self.agent.clone())),
        };
        planwright_actors::check_definition(&definition).unwrap();
        let assignment = self.assignment.clone();
        self.test_env.work_with(assignment, |host_env, supervisor| {
            let agent = self.agent.clone();
            let actor = AcpActor::new(definition.name, agent, host_env.clone(), supervisor.clone());
            Arc::new(actor.with_timeouts(self.timeouts))
        })
    }

    pub fn entries(&self) -> Vec<TranscriptContent> {
        let reported = self.test_env.reported.lock().unwrap();
        let entries = reported.iter().filter_map(|progress| match progress {
            RunProgress::Entry(entry) => Some(entry.clone()),
            RunProgress::Started { .. } => None,
        });
        entries.collect()
    }

    /// What became of the permission requests, and why.
    pub fn permissions(&self) -> Vec<(PermissionStatus, String)> {
        let entries = self.entries().into_iter();
        let permissions = entries.filter_map(|entry| match entry {
            TranscriptContent::Permission(permission) => {
                Some((permission.status, permission.reason))
            }
            _ => None,
        });
        permissions.collect()
    }

    fn notices(&self) -> Vec<(NoticeLevel, String)> {
        let entries = self.entries().into_iter();
        let notices = entries.filter_map(|entry| match entry {
            TranscriptContent::Notice { level, text } => Some((level, text)),
            _ => None,
        });
        notices.collect()
    }

    /// What the agent received.
    fn received(&self) -> Vec<Value> {
        let text = self.test_env.read_file("received.jsonl");
        let lines = text.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    pub fn received_methods(&self) -> Vec<String> {
        let received = self.received().into_iter();
        let methods = received.filter_map(|message| message["method"].as_str().map(str::to_owned));
        methods.collect()
    }

    /// The answer that the agent received to its request.
    pub fn answer_to(&self, id: &Value) -> Value {
        let mut received = self.received().into_iter();
        received
            .find(|message| message.get("method").is_none() && message["id"] == *id)
            .unwrap()
    }
}

/// The steps up to the prompt.
fn handshake() -> Vec<Value> {
    vec![
        json!({"expect": "initialize"}),
        json!({"reply": {"protocolVersion": 1}}),
        json!({"expect": "session/new"}),
        json!({"reply": {"sessionId": "s-1"}}),
        json!({"expect": "session/prompt"}),
    ]
}

pub fn steps_after_handshake(steps: Vec<Value>) -> Vec<Value> {
    let mut all = handshake();
    all.extend(steps);
    all
}

pub fn message_chunk(text: &str) -> Value {
    json!({"update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}})
}

pub fn end_turn() -> Value {
    json!({"reply": {"stopReason": "end_turn"}})
}

pub fn permission_request(id: u64, command: &str) -> Value {
    json!({"send": {"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": {
        "sessionId": "s-1",
        "toolCall": {"toolCallId": format!("call-{id}"), "kind": "execute", "title": "Run it", "rawInput": {"command": command}},
        "options": [
            {"optionId": "forever", "name": "Always", "kind": "allow_always"},
            {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
            {"optionId": "no", "name": "No", "kind": "reject_once"}
        ]
    }}})
}

/// A turn in which the agent asks for this command.
pub fn ask_once(command: &str) -> Vec<Value> {
    steps_after_handshake(vec![
        permission_request(7, command),
        json!({"expect_answer": 7}),
        message_chunk("Done."),
        end_turn(),
    ])
}

fn earlier_session() -> EarlierSession {
    EarlierSession {
        session: "s-0".into(),
        used: Usage::default(),
        lost_runs: Vec::new(),
    }
}

#[test]
fn every_recorded_session_ends_as_expected() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/acp");
    let mut checked = 0;
    for entry in fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension() != Some("jsonl".as_ref()) {
            continue;
        }
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let mut run = AcpRun::with_script("");
        let script = fs::read_to_string(&path).unwrap();
        let sandbox = run.test_env.sandbox.display().to_string();
        let script = script.replace("$SANDBOX", &sandbox);
        fs::write(&run.agent.command[1], script).unwrap();
        run.agent.tools = ToolPolicy {
            allow: vec!["*".parse().unwrap()],
            ..ToolPolicy::default()
        };
        let report = run.run();
        let mut described = String::new();
        for entry in run.entries() {
            let line = describe_entry(&entry);
            writeln!(described, "{}", &line[..line.floor_char_boundary(400)]).unwrap();
        }
        writeln!(described, "outcome: {:?}", report.outcome).unwrap();
        writeln!(described, "summary: {:?}", report.summary).unwrap();
        writeln!(described, "session: {:?}", report.session).unwrap();
        let used = report.usage;
        writeln!(
            described,
            "usage: {} in, {} out, {} micros",
            used.input_tokens, used.output_tokens, used.cost_micros
        )
        .unwrap();
        let described = described.replace(
            env!("CARGO_BIN_EXE_planwright-actors-test-acp-agent"),
            "AGENT",
        );
        let described = described.replace(&sandbox, "$SANDBOX");
        let expected = fs::read_to_string(path.with_extension("expected")).unwrap();
        assert_eq!(described, expected, "{name}");
        checked += 1;
    }
    assert_eq!(checked, 11);
}

/// Codex ends such a turn as if it were done, also if it changed files before.
#[test]
fn turn_that_ends_with_an_error_of_the_model_fails_unless_it_was_overcome() {
    let codex = |meta: Value| {
        let update = json!({"sessionUpdate": "session_info_update", "_meta": {"codex": meta}});
        json!({ "update": update })
    };
    let error = || codex(json!({"error": {"message": "The model is overloaded"}}));
    let status = |kind: &str| codex(json!({"threadStatus": {"type": kind}}));
    let edit = || {
        json!({"update": {"sessionUpdate": "tool_call", "toolCallId": "c", "kind": "edit", "title": "Edit",
                          "status": "completed"}})
    };
    let outcome = |steps: Vec<Value>| AcpRun::new(&steps_after_handshake(steps)).run().outcome;
    let failed = outcome(vec![edit(), error(), status("systemError"), end_turn()]);
    let ReportOutcome::Failed { category, message } = failed else {
        panic!("{failed:?}");
    };
    assert_eq!(category, FailureCategory::Transient);
    assert!(message.contains("The model is overloaded"), "{message}");
    let overcome = vec![
        error(),
        status("systemError"),
        status("active"),
        edit(),
        end_turn(),
    ];
    assert_eq!(outcome(overcome), ReportOutcome::Done);
    assert_eq!(
        outcome(vec![error(), edit(), end_turn()]),
        ReportOutcome::Done
    );
}

/// Copilot's errors are messages, and it ends such a turn as if it were done.
#[test]
fn turn_of_copilot_that_ends_with_an_error_message_fails() {
    let outcome = |texts: &[&str]| {
        let mut steps = handshake();
        steps[1] = json!({"reply": {"protocolVersion": 1, "agentInfo": {"name": "Copilot"}}});
        steps.extend(texts.iter().map(|text| message_chunk(text)));
        steps.push(end_turn());
        AcpRun::new(&steps).run().outcome
    };
    let retried = "Info: Request failed due to a transient API error. Retrying...";
    let failed = outcome(&[retried, "Error: Authentication failed"]);
    let ReportOutcome::Failed { message, .. } = failed else {
        panic!("{failed:?}");
    };
    assert!(message.contains("Authentication failed"), "{message}");
    let overcome = outcome(&["Error: 500", "Info: Retrying...", "Done."]);
    assert_eq!(overcome, ReportOutcome::Done);
    assert_eq!(outcome(&["Error: 500", "Done."]), ReportOutcome::Done);
    assert_eq!(outcome(&["It said: Error: 500"]), ReportOutcome::Done);
}

#[test]
fn agent_gets_the_prompt_and_is_offered_neither_files_nor_terminals() {
    let run = AcpRun::new(&steps_after_handshake(vec![
        message_chunk("All "),
        message_chunk("done."),
        end_turn(),
    ]));
    let report = run.run();
    assert_eq!(report.outcome, ReportOutcome::Done);
    assert_eq!(report.summary.as_deref(), Some("All done."));
    assert_eq!(report.session.as_deref(), Some("s-1"));
    assert_eq!(report.exit_code, Some(0));
    let received = run.received();
    assert_eq!(
        received[0]["params"]["clientCapabilities"],
        json!({"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false})
    );
    assert_eq!(
        received[1]["params"],
        json!({"cwd": run.test_env.sandbox, "mcpServers": []})
    );
    let mut assignment = run.assignment.clone();
    assignment.sandboxes.clear();
    assert_eq!(
        received[2]["params"],
        json!({"sessionId": "s-1", "prompt": [{"type": "text", "text": build_prompt(&assignment)}]})
    );
    assert!(!run.test_env.run_dir.join("stdin").exists());
}

#[test]
fn notifications_and_requests_may_come_at_any_time() {
    let mut steps = vec![
        json!({"raw": "Debugger listening"}),
        json!({"raw": "{\"half\": "}),
        json!({"expect": "initialize"}),
        json!({"send": {"jsonrpc": "2.0", "method": "_auth/status_update", "params": 3}}),
        json!({"reply": {"protocolVersion": 1, "agentCapabilities": null, "new": {"x": []}}}),
        json!({"expect": "session/new"}),
        json!({"send": {"jsonrpc": "2.0", "id": "odd", "method": "craft/drainMidTurnQueue"}}),
        json!({"expect_answer": "odd"}),
        json!({"update": {"sessionUpdate": "usage_update", "cost": {"amount": 0.5}}}),
        json!({"update": {"sessionUpdate": "telepathy"}}),
        json!({"update": {}}),
        json!({"reply": {"sessionId": "s-1"}}),
        json!({"expect": "session/prompt"}),
        json!({"send": {"jsonrpc": "2.0", "id": 999, "result": {"stopReason": "refusal"}}}),
        json!({"send": {"jsonrpc": "2.0", "id": 5, "method": "fs/write_text_file", "params": {"path": "/etc/x"}}}),
        json!({"expect_answer": 5}),
        json!({"padded": 570_000}),
    ];
    steps.extend([message_chunk("Done."), end_turn()]);
    let run = AcpRun::new(&steps);
    let report = run.run();
    assert_eq!(report.outcome, ReportOutcome::Done);
    assert_eq!(report.usage.cost_micros, 500_000);
    for id in [json!("odd"), json!(5)] {
        assert_eq!(run.answer_to(&id)["error"]["code"], -32601);
    }
}

#[test]
fn messages_that_are_too_long_lose_only_what_they_show() {
    let run = AcpRun::new(&steps_after_handshake(vec![
        json!({"padded": 5_000_000}),
        message_chunk("Done."),
        end_turn(),
    ]));
    assert_eq!(run.run().outcome, ReportOutcome::Done);
    let notices = run.notices();
    assert_eq!(notices.len(), 1, "{notices:?}");
    let run = AcpRun::new(&steps_after_handshake(vec![
        json!({"raw": "x".repeat(5_000_000)}),
    ]));
    let (category, message) = expect_failure(&run.run());
    assert_eq!(category, FailureCategory::Actor);
    assert!(message.contains("too long to be read"), "{message}");
}

#[test]
fn tool_patterns_decide_before_the_call() {
    for (tools, command, expected, option) in [
        (
            ["", "", "execute(ls*)"],
            "ls -l",
            PermissionStatus::Allowed,
            "yes",
        ),
        (
            ["execute(*git push*)", "", "*"],
            "git push",
            PermissionStatus::Rejected,
            "no",
        ),
        (
            ["execute(*git push*)", "", "*"],
            "git log",
            PermissionStatus::Allowed,
            "yes",
        ),
        (["", "execute", "*"], "ls", PermissionStatus::Rejected, "no"),
    ] {
        let mut run = AcpRun::new(&ask_once(command));
        let patterns = |text: &str| match text {
            "" => Vec::new(),
            text => vec![text.parse().unwrap()],
        };
        run.agent.tools = ToolPolicy {
            deny: patterns(tools[0]),
            ask: patterns(tools[1]),
            allow: patterns(tools[2]),
        };
        assert_eq!(run.run().outcome, ReportOutcome::Done);
        let permissions = run.permissions();
        assert_eq!(permissions[0].0, expected, "{tools:?} {permissions:?}");
        let answer = run.answer_to(&json!(7));
        assert_eq!(answer["result"]["outcome"]["optionId"], option);
    }
}

#[test]
fn unmatched_calls_are_rejected_in_a_run_that_is_not_confined() {
    for profile in Profile::ALL {
        let mut run = AcpRun::new(&ask_once("ls"));
        run.test_env.profile = profile;
        assert_eq!(run.run().outcome, ReportOutcome::Done);
        let permissions = run.permissions();
        assert_eq!(permissions.len(), 1);
        let (status, reason) = &permissions[0];
        assert_eq!(*status, PermissionStatus::Rejected);
        let is_asked = matches!(profile, Profile::Supervised | Profile::Manual);
        assert!(reason.contains("not confined"), "{reason}");
        assert_eq!(reason.contains("nobody can be asked"), is_asked, "{reason}");
    }
}

#[test]
fn unmatched_calls_are_allowed_in_a_confined_run() {
    if !sandbox::detect_isolation().confines_files() {
        return;
    }
    for profile in Profile::ALL {
        let mut run = AcpRun::new(&ask_once("ls"));
        run.agent.isolation = ActorIsolation::Required;
        run.test_env.profile = profile;
        let report = run.run();
        assert_eq!(report.outcome, ReportOutcome::Done);
        let expected = (PermissionStatus::Allowed, "the run is confined".to_owned());
        assert_eq!(run.permissions(), [expected]);
    }
}

#[test]
fn permission_for_paths_is_about_the_repository() {
    let mut run = AcpRun::new(&[]);
    let inside = run.test_env.sandbox.join("src/a.rs");
    let outside = run.test_env.sandbox.join("src/../../other/b.rs");
    let edit = |id: u64, path: &Path| {
        json!({"send": {"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": {
            "toolCall": {"toolCallId": format!("c{id}"), "kind": "edit", "locations": [{"path": path}]},
            "options": [{"optionId": "yes", "kind": "allow_once"}, {"optionId": "no", "kind": "reject_once"}]
        }}})
    };
    let steps = steps_after_handshake(vec![
        edit(1, &inside),
        json!({"expect_answer": 1}),
        edit(2, &outside),
        json!({"expect_answer": 2}),
        end_turn(),
    ]);
    let lines: String = steps.iter().map(|step| format!("{step}\n")).collect();
    fs::write(&run.agent.command[1], lines).unwrap();
    run.agent.tools.allow = vec!["edit(src/*)".parse().unwrap()];
    run.run();
    let statuses: Vec<PermissionStatus> = run
        .permissions()
        .into_iter()
        .map(|(status, _)| status)
        .collect();
    assert_eq!(
        statuses,
        [PermissionStatus::Allowed, PermissionStatus::Rejected]
    );
}

/// A permission is about the path that was named. What the path leads to by then is up to the confinement.
#[test]
fn permission_for_a_path_does_not_follow_a_link_out_of_the_sandbox() {
    if !sandbox::detect_isolation().confines_files() {
        return;
    }
    let mut run = AcpRun::new(&[]);
    let outside = run.test_env.planwright_home.join("checkout");
    let notes = run.test_env.sandbox.join("notes");
    for directory in [&outside, &notes] {
        fs::create_dir_all(directory).unwrap();
    }
    let path = notes.join("a.md");
    let steps = steps_after_handshake(vec![
        json!({"send": {"jsonrpc": "2.0", "id": 1, "method": "session/request_permission", "params": {
            "toolCall": {"toolCallId": "c", "kind": "edit", "locations": [{"path": path}]},
            "options": [{"optionId": "yes", "kind": "allow_once"}, {"optionId": "no", "kind": "reject_once"}]
        }}}),
        json!({"expect_answer": 1}),
        json!({"swap_for_link": {"path": notes, "to": outside}}),
        json!({"try_write_file": path}),
        end_turn(),
    ]);
    let lines: String = steps.iter().map(|step| format!("{step}\n")).collect();
    fs::write(&run.agent.command[1], lines).unwrap();
    run.agent.tools.allow = vec!["edit(notes/*)".parse().unwrap()];
    run.agent.isolation = ActorIsolation::Required;
    assert_eq!(run.run().outcome, ReportOutcome::Done);
    assert_eq!(run.permissions()[0].0, PermissionStatus::Allowed);
    assert!(run.test_env.read_file("refusals").contains("denied"));
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}

#[test]
fn agent_that_stays_after_its_last_answer_is_killed_and_its_result_kept() {
    let mut run = AcpRun::new(&steps_after_handshake(vec![
        message_chunk("Done."),
        end_turn(),
        json!({"hang": true}),
    ]));
    run.timeouts.exit = Duration::from_millis(100);
    let report = run.run();
    assert_eq!(report.outcome, ReportOutcome::Done);
    assert_eq!(report.exit_code, None);
}

#[test]
fn stop_cancels_the_turn_and_then_kills() {
    // One agent ends its turn, the other ignores the cancellation.
    let obedient = vec![
        json!({"write_file": "began"}),
        json!({"expect": "session/cancel"}),
        permission_request(8, "ls"),
        json!({"expect_answer": 8}),
        json!({"send": {"jsonrpc": "2.0", "id": 3, "result": {"stopReason": "cancelled"}}}),
    ];
    let stubborn = vec![
        json!({"write_file": "began"}),
        json!({"expect": "session/cancel"}),
        json!({"hang": true}),
    ];
    for steps in [obedient, stubborn] {
        let mut run = AcpRun::new(&steps_after_handshake(steps.clone()));
        run.timeouts.cancel = match steps.len() {
            3 => Duration::from_millis(200),
            _ => Duration::from_secs(20),
        };
        let began = run.test_env.sandbox.join("began");
        let stop = run.test_env.stop.clone();
        let report = std::thread::scope(|threads| {
            threads.spawn(move || {
                while !began.exists() {
                    std::thread::sleep(Duration::from_millis(5));
                }
                stop.request();
            });
            run.run()
        });
        assert_eq!(report.outcome, ReportOutcome::Stopped);
        assert_eq!(run.received_methods().last().unwrap(), "session/cancel");
        if steps.len() > 3 {
            let answer = run.answer_to(&json!(8));
            assert_eq!(answer["result"]["outcome"]["outcome"], "cancelled");
            assert_eq!(run.permissions()[0].0, PermissionStatus::Cancelled);
        }
    }
}

#[test]
fn run_that_takes_too_long_is_cancelled() {
    let mut run = AcpRun::new(&steps_after_handshake(vec![
        json!({"expect": "session/cancel"}),
        json!({"hang": true}),
    ]));
    run.test_env.time_limit = Some(Duration::from_millis(700));
    let began = Instant::now();
    let (category, message) = expect_failure(&run.run());
    assert_eq!(category, FailureCategory::Timeout);
    assert!(message.contains("took longer than"), "{message}");
    assert!(began.elapsed() < Duration::from_secs(15));
}

/// Gemini and OpenCode say only on their standard error why they retry. Gemini then ends without an answer.
#[test]
fn run_that_takes_too_long_names_the_last_error() {
    for (line, expected) in [
        (
            "Attempt 1 failed with status 500. Retrying with backoff...",
            ": Attempt 1 failed with status 500. Retrying with backoff...",
        ),
        (
            "timestamp=2026-11-19T06:46:34.821Z level=ERROR message=\"stream error\" error.error=\"AI_APICallError: the model is away\"",
            ": AI_APICallError: the model is away",
        ),
    ] {
        let mut run = AcpRun::new(&steps_after_handshake(vec![
            json!({ "stderr": line }),
            json!({"stderr": "    at throwErrorIfNotOK (bundle.js:1:1)"}),
            json!({"expect": "session/cancel"}),
        ]));
        run.test_env.time_limit = Some(Duration::from_millis(700));
        let (category, message) = expect_failure(&run.run());
        assert_eq!(category, FailureCategory::Timeout);
        assert!(message.ends_with(expected), "{message}");
    }
}

#[test]
fn silence_and_missing_answers_end_the_run() {
    let mut run = AcpRun::new(&[
        json!({"stderr": "waiting for a login"}),
        json!({"hang": true}),
    ]);
    run.timeouts.handshake = Duration::from_millis(500);
    let (category, message) = expect_failure(&run.run());
    assert_eq!(category, FailureCategory::Timeout);
    assert!(message.contains("did not answer `initialize`"), "{message}");
    assert!(message.contains("waiting for a login"), "{message}");

    let mut run = AcpRun::new(&steps_after_handshake(vec![json!({"hang": true})]));
    run.timeouts.silence = Duration::from_millis(500);
    let (category, message) = expect_failure(&run.run());
    assert_eq!(category, FailureCategory::Timeout);
    assert!(message.contains("said nothing for"), "{message}");
}

/// A command may run for long without a word.
#[test]
fn silence_does_not_count_while_a_tool_runs() {
    let mut run = AcpRun::new(&steps_after_handshake(vec![
        json!({"update": {"sessionUpdate": "tool_call", "toolCallId": "c", "kind": "execute", "status": "in_progress", "title": "make"}}),
        json!({"sleep_ms": 1500}),
        json!({"update": {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"}}),
        message_chunk("Done."),
        end_turn(),
    ]));
    run.timeouts.silence = Duration::from_millis(700);
    assert_eq!(run.run().outcome, ReportOutcome::Done);
}

#[test]
fn agent_that_ends_too_early_has_failed() {
    let run = AcpRun::new(&steps_after_handshake(vec![json!({"exit": 0})]));
    let (_, message) = expect_failure(&run.run());
    assert!(
        message.contains("it ended without an answer to `session/prompt`"),
        "{message}"
    );
    let run = AcpRun::new(&[
        json!({"expect": "initialize"}),
        json!({"stderr": "429 rate limit"}),
        json!({"exit": 9}),
    ]);
    let report = run.run();
    let (category, message) = expect_failure(&report);
    assert_eq!(category, FailureCategory::Transient);
    assert!(
        message.contains("ended with exit code 9: 429 rate limit"),
        "{message}"
    );
    assert_eq!(report.exit_code, Some(9));
}

#[test]
fn agent_that_does_not_start_is_a_resource_failure() {
    let mut run = AcpRun::new(&[]);
    run.agent.command = vec!["no-such-agent".to_owned()];
    let (category, message) = expect_failure(&run.run());
    assert_eq!(category, FailureCategory::Resource);
    assert!(
        message.contains("`no-such-agent` is not installed"),
        "{message}"
    );
}

#[test]
fn failures_say_what_happened() {
    let after_initialize =
        |result: Value| vec![json!({"expect": "initialize"}), json!({ "reply": result })];
    let login = || {
        let mut steps = after_initialize(json!({
            "protocolVersion": 1,
            "authMethods": [{"id": "x", "description": "Run `agent login`"}]
        }));
        steps.extend([
            json!({"expect": "session/new"}),
            json!({"reply_error": {"code": -32000, "message": "Authentication required", "data": {"reason": "no key"}}}),
        ]);
        steps
    };
    let stop = |reason: &str| steps_after_handshake(vec![json!({"reply": {"stopReason": reason}})]);
    let error = |message: &str| {
        steps_after_handshake(vec![
            json!({"reply_error": {"code": -32603, "message": message}}),
        ])
    };
    for (steps, category, text) in [
        (
            login(),
            FailureCategory::Actor,
            "is not logged in: Authentication required: no key; the agent offers: Run `agent login`",
        ),
        (
            after_initialize(json!({"protocolVersion": 2})),
            FailureCategory::Actor,
            "speaks version 2 of the Agent Client Protocol",
        ),
        (
            stop("refusal"),
            FailureCategory::Actor,
            "refused to do the task",
        ),
        (
            stop("max_tokens"),
            FailureCategory::Actor,
            "reached the token limit of its model",
        ),
        (
            stop("max_turn_requests"),
            FailureCategory::Budget,
            "reached its limit of requests",
        ),
        (
            stop("cancelled"),
            FailureCategory::Actor,
            "cancelled its turn",
        ),
        (
            stop("enlightenment"),
            FailureCategory::Actor,
            "ended its turn with `enlightenment`",
        ),
        (
            error("API Error: 529 Overloaded"),
            FailureCategory::Transient,
            "failed: API Error: 529 Overloaded",
        ),
        (
            error("Credit balance is too low"),
            FailureCategory::Budget,
            "failed: Credit balance is too low",
        ),
    ] {
        let (found, message) = expect_failure(&AcpRun::new(&steps).run());
        assert!(message.contains(text), "{message}");
        assert_eq!(found, category, "{message}");
    }
}

#[test]
fn mode_and_model_are_chosen_before_the_prompt() {
    let opened = json!({
        "sessionId": "s-1",
        "modes": {"availableModes": [{"id": "default"}, {"id": "plan"}]},
        "configOptions": [{"id": "model", "category": "model", "options": [{"value": "big"}]}]
    });
    let mut steps = vec![
        json!({"expect": "initialize"}),
        json!({"reply": {"protocolVersion": 1}}),
        json!({"expect": "session/new"}),
        json!({"reply": opened}),
    ];
    let mut run = AcpRun::new(
        &[
            steps.clone(),
            vec![
                json!({"expect": "session/set_mode"}),
                json!({"reply": {}}),
                json!({"expect": "session/set_config_option"}),
                json!({"reply": {"configOptions": []}}),
                json!({"expect": "session/prompt"}),
                end_turn(),
            ],
        ]
        .concat(),
    );
    run.agent.mode = Some("plan".into());
    run.agent.model = Some("big".into());
    assert_eq!(run.run().outcome, ReportOutcome::Done);
    assert_eq!(run.received()[2]["params"]["modeId"], "plan");
    assert_eq!(run.received()[3]["params"]["value"], "big");

    steps.push(json!({"expect": "session/prompt"}));
    let mut run = AcpRun::new(&steps);
    run.agent.mode = Some("yolo".into());
    let (_, message) = expect_failure(&run.run());
    assert!(
        message.contains("does not offer the mode `yolo`: it offers `default`, `plan`"),
        "{message}"
    );
}

fn offers_sessions(capabilities: &Value) -> Vec<Value> {
    vec![
        json!({"expect": "initialize"}),
        json!({"reply": {"protocolVersion": 1, "agentCapabilities": capabilities}}),
    ]
}

#[test]
fn session_is_resumed_if_the_agent_can() {
    let mut steps =
        offers_sessions(&json!({"loadSession": true, "sessionCapabilities": {"resume": {}}}));
    steps.extend([
        json!({"expect": "session/resume"}),
        json!({"reply": {}}),
        json!({"expect": "session/prompt"}),
        message_chunk("More."),
        end_turn(),
    ]);
    let mut run = AcpRun::new(&steps);
    run.assignment.earlier = Some(earlier_session());
    let report = run.run();
    assert_eq!(report.session.as_deref(), Some("s-0"));
    assert_eq!(run.received()[1]["params"]["sessionId"], "s-0");
    let prompt = build_resume_prompt(&run.assignment);
    assert_eq!(run.received()[2]["params"]["prompt"][0]["text"], prompt);
    let (level, text) = run.notices().remove(0);
    assert_eq!(
        (level, text.as_str()),
        (NoticeLevel::Info, "continues the earlier conversation")
    );
}

#[test]
fn replay_of_a_loaded_session_is_not_recorded() {
    let mut steps =
        offers_sessions(&json!({"loadSession": true, "sessionCapabilities": {"resume": {}}}));
    steps.extend([
        json!({"expect": "session/resume"}),
        json!({"reply_error": {"code": -32602, "message": "another directory"}}),
        json!({"expect": "session/load"}),
        message_chunk("said before"),
        json!({"update": {"sessionUpdate": "tool_call", "toolCallId": "old", "kind": "execute", "status": "completed"}}),
        json!({"reply": null}),
        json!({"expect": "session/prompt"}),
        message_chunk("New."),
        end_turn(),
    ]);
    let mut run = AcpRun::new(&steps);
    run.assignment.earlier = Some(earlier_session());
    let report = run.run();
    assert_eq!(report.summary.as_deref(), Some("New."));
    assert_eq!(report.session.as_deref(), Some("s-0"));
    let described: Vec<String> = run.entries().iter().map(describe_entry).collect();
    assert_eq!(
        described,
        [
            "notice: Info: `session/resume` failed: another directory",
            "notice: Info: continues the earlier conversation, which the agent loaded",
            "piece: New.",
        ]
    );
}

#[test]
fn lost_session_is_replaced_by_a_new_one_and_said_so() {
    for capabilities in [json!({}), json!({"loadSession": true})] {
        let can_load = capabilities.get("loadSession").is_some();
        let mut steps = offers_sessions(&capabilities);
        if can_load {
            steps.extend([
                json!({"expect": "session/load"}),
                json!({"reply_error": {"code": -32002, "message": "no such session"}}),
            ]);
        }
        steps.extend(handshake().into_iter().skip(2));
        steps.push(end_turn());
        let mut run = AcpRun::new(&steps);
        run.assignment.earlier = Some(earlier_session());
        let report = run.run();
        assert_eq!(report.outcome, ReportOutcome::Done);
        assert_eq!(report.session.as_deref(), Some("s-1"));
        let prompt = run.received().pop().unwrap();
        let prompt_text = prompt["params"]["prompt"][0]["text"].as_str().unwrap();
        assert!(!prompt_text.contains("Task (unchanged)"), "{prompt_text}");
        let last = run.notices().pop().unwrap();
        assert_eq!(
            last,
            (
                NoticeLevel::Warning,
                "cannot continue the earlier conversation: started a new one".to_owned()
            )
        );
    }
}

#[test]
fn checklist_becomes_the_strategy() {
    let plan = json!({"update": {"sessionUpdate": "plan", "entries": [
        {"content": "Read it", "priority": "high", "status": "completed"},
        {"content": "Change it", "priority": "low", "status": "pending"}
    ]}});
    let mut run = AcpRun::new(&steps_after_handshake(vec![
        plan,
        message_chunk("Change the footer."),
        end_turn(),
    ]));
    run.assignment = sample_assignment(Phase::Strategize);
    assert_eq!(run.run().outcome, ReportOutcome::Done);
    assert!(run.entries().is_empty(), "it ran without a request");
    run.test_env.strategy_wanted = true;
    let report = run.run();
    let decisions: Vec<(DecisionKind, &str)> = report
        .decisions
        .iter()
        .map(|decision| (decision.kind, decision.choice.as_str()))
        .collect();
    assert_eq!(
        decisions,
        [
            (DecisionKind::StrategyChoice, "Change the footer."),
            (DecisionKind::StrategyChoice, "Read it"),
            (DecisionKind::StrategyChoice, "Change it"),
        ]
    );
    let described: Vec<String> = run.entries().iter().map(describe_entry).collect();
    assert_eq!(
        described[0],
        "checklist: Read it (Completed), Change it (Pending)"
    );
}

#[test]
fn secrets_are_hidden_in_everything_that_is_kept() {
    let secret = "sk-acp-0123456789";
    let mut run = AcpRun::new(&steps_after_handshake(vec![
        permission_request(7, &format!("curl -H {secret}")),
        json!({"expect_answer": 7}),
        message_chunk(&format!("The key is {secret}.")),
        json!({"stderr": secret}),
        json!({"reply_error": {"code": 1, "message": format!("bad key {secret}")}}),
    ]));
    run.agent.env = vec!["AGENT_API_KEY".into()];
    let environment = &mut run.test_env.environment;
    environment.insert("AGENT_API_KEY".into(), secret.into());
    let report = run.run();
    assert!(!format!("{report:?}").contains(secret), "{report:?}");
    let entries = format!("{:?}", run.entries());
    assert!(!entries.contains(secret), "{entries}");
    assert!(!run.test_env.read_transcript().contains(secret));
}
