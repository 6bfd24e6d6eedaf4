//! The tools of a run: what an agent may ask, record and report while it works, and everything it may not.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use plan::actor::{ActorIsolation, ActorOutputFormat, McpConfigFormat};
use plan::decision::DecisionKind;
use plan::guard::ToolGuards;
use plan::transcript::{ChecklistStatus, TranscriptContent};
use planwright_actors::{RelayConnection, ReportOutcome};
use serde_json::{Value, json};

use crate::acp_agents::{AcpRun, end_turn, message_chunk, steps_after_handshake};
use crate::actor_test_env::{ActorTestEnv, agent_definition};
use crate::sample_assignments::sample_assignment;

/// A run whose agent is given the tools. No relay is started: the agent connects by itself.
fn tool_run(steps: Vec<Value>) -> AcpRun {
    let mut run = AcpRun::new(&steps_after_handshake(steps));
    run.test_env.tool_relay = vec!["/bin/true".into(), "relay-tools".into()];
    if sandbox::detect_isolation().confines_files() {
        run.agent.isolation = ActorIsolation::Required;
    }
    run
}

fn call(tool: &str, arguments: impl Into<Value>) -> Value {
    let arguments: Value = arguments.into();
    json!({"call_tool": {"tool": tool, "arguments": arguments}})
}

fn decision() -> Value {
    call(
        "record_decision",
        json!({"kind": "implementation_choice", "question": "How?", "choice": "So."}),
    )
}

fn question() -> Value {
    call("ask", json!({"question": "Which colour?"}))
}

fn answers(run: &AcpRun) -> Vec<Value> {
    let text = run.test_env.read_file("answers.jsonl");
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Why the last call was refused.
fn last_refusal(run: &AcpRun) -> String {
    let answer = answers(run).pop().unwrap();
    assert_eq!(answer["outcome"], "refused", "{answer}");
    answer["why"].as_str().unwrap().to_owned()
}

fn connection_file(run: &AcpRun) -> PathBuf {
    run.test_env.run_dir.join("tools.json")
}

#[test]
fn decisions_and_progress_arrive_while_the_agent_works() {
    let progress = json!({
        "message": "Half of it is done.",
        "steps": [{"text": "Read", "status": "completed"}, {"text": "Write", "status": "in_progress"}],
    });
    let run = tool_run(vec![
        decision(),
        call("report_progress", progress),
        message_chunk("Done."),
        end_turn(),
    ]);
    assert_eq!(run.run().outcome, ReportOutcome::Done);
    let outcomes: Vec<Value> = answers(&run)
        .iter()
        .map(|answer| answer["outcome"].clone())
        .collect();
    assert_eq!(outcomes, ["decision_recorded", "progress_shown"]);
    let recorded = run.test_env.recorded_decisions.lock().unwrap();
    assert_eq!(recorded.len(), 1);
    assert_eq!(recorded[0].kind, DecisionKind::ImplementationChoice);
    let entries = run.entries();
    assert!(entries.contains(&TranscriptContent::Text {
        text: "Half of it is done.".to_owned()
    }));
    let checklist = entries.iter().find_map(|entry| match entry {
        TranscriptContent::Checklist { items } => Some(items.clone()),
        _ => None,
    });
    assert_eq!(checklist.unwrap()[1].status, ChecklistStatus::InProgress);
    // Nothing that could be used later is left.
    assert!(!connection_file(&run).exists());
    assert!(!run.test_env.run_dir.join("tools.sock").exists());
}

#[test]
fn first_question_ends_the_run_and_no_other_replaces_it() {
    let run = tool_run(vec![
        question(),
        call("ask", json!({"question": "And which size?"})),
        message_chunk("I asked."),
        end_turn(),
    ]);
    let asked = ReportOutcome::NeedsAnswer {
        question: "Which colour?".to_owned(),
        timeout: None,
    };
    assert_eq!(run.run().outcome, asked);
    assert!(last_refusal(&run).contains("asked a question already"));
}

/// The question counts whatever the agent does next: it cannot go on without the answer.
#[test]
fn agent_that_asked_and_goes_on_is_ended_with_its_question() {
    let mut run = tool_run(vec![question(), json!({"hang": true})]);
    run.timeouts.question = Duration::from_millis(300);
    assert!(matches!(
        run.run().outcome,
        ReportOutcome::NeedsAnswer { .. }
    ));
    let run = tool_run(vec![question(), json!({"exit": 3})]);
    assert!(matches!(
        run.run().outcome,
        ReportOutcome::NeedsAnswer { .. }
    ));
}

#[test]
fn calls_that_are_not_understood_change_nothing() {
    let run = tool_run(vec![
        call("approve", json!({})),
        call("ask", json!({"question": "?", "plan": "another"})),
        call(
            "record_decision",
            json!({"kind": "user_intervention", "question": "Land?", "choice": "yes"}),
        ),
        end_turn(),
    ]);
    assert_eq!(run.run().outcome, ReportOutcome::Done);
    let refused = answers(&run)
        .iter()
        .filter(|answer| answer["outcome"] == "refused")
        .count();
    assert_eq!(refused, 3);
    assert!(run.test_env.recorded_decisions.lock().unwrap().is_empty());
}

#[test]
fn flood_of_calls_is_bounded() {
    let mut flood = decision();
    flood["call_tool"]["times"] = json!(500);
    let run = tool_run(vec![flood, end_turn()]);
    let began = Instant::now();
    assert_eq!(run.run().outcome, ReportOutcome::Done);
    assert_eq!(answers(&run).len(), 500);
    // As many as the allowance gives in this time: 30 at once, and 10 more each second.
    let most = 30 + 10 * (usize::try_from(began.elapsed().as_secs()).unwrap() + 1);
    let recorded = run.test_env.recorded_decisions.lock().unwrap().len();
    assert!((30..=most).contains(&recorded), "{recorded} of {most}");
}

#[test]
fn message_that_is_too_long_ends_its_connection_only() {
    let run = tool_run(vec![
        call("ask", json!({"question": "x".repeat(70_000)})),
        call("ask", json!({"question": "x".repeat(60_000)})),
        decision(),
        end_turn(),
    ]);
    assert_eq!(run.run().outcome, ReportOutcome::Done);
    let answers = answers(&run);
    assert_eq!(answers[0]["error"], "the call is longer than 65536 bytes");
    assert!(answers[1]["why"].as_str().unwrap().contains("longer than"));
    assert_eq!(answers[2]["outcome"], "decision_recorded");
}

/// Peers that say nothing, or the wrong thing, do not keep out the agent.
#[test]
fn peers_without_the_secret_get_nothing() {
    let mut steps: Vec<Value> = (0..40)
        .map(|_| json!({"keep_silent_connection": true}))
        .collect();
    steps.extend([decision(), end_turn()]);
    let run = tool_run(steps);
    assert_eq!(run.run().outcome, ReportOutcome::Done);
    assert_eq!(run.test_env.recorded_decisions.lock().unwrap().len(), 1);
}

/// An agent finds another run's directory, but reads neither the secret there nor guesses it.
#[test]
fn agent_cannot_use_the_tools_of_another_run() {
    if !sandbox::detect_isolation().confines_files() {
        return;
    }
    let victim = tool_run(vec![json!({"sleep_ms": 60_000})]);
    let victim_file = connection_file(&victim);
    std::thread::scope(|threads| {
        let running = threads.spawn(|| victim.run());
        wait_until(|| victim_file.exists());
        let intruder = tool_run(vec![
            json!({"connect_to": victim_file}),
            question(),
            end_turn(),
        ]);
        assert_eq!(intruder.run().outcome, ReportOutcome::Done);
        assert_eq!(answers(&intruder)[0]["error"], "the run has ended");

        // With the socket, but without the secret.
        let guessed = intruder.test_env.sandbox.join("tools.json");
        fs::write(&guessed, r#"{"socket": "tools.sock", "secret": "guessed"}"#).unwrap();
        let socket = guessed.with_file_name("tools.sock");
        std::os::unix::fs::symlink(victim_file.with_file_name("tools.sock"), &socket).unwrap();
        assert!(UnixStream::connect(&socket).is_ok());
        let mut connection = RelayConnection::open(&guessed).unwrap();
        let answer = connection.call("ask", json!({"question": "?"}));
        assert_eq!(answer.unwrap_err().to_string(), "the run has ended");

        victim.test_env.stop.request();
        assert_eq!(running.join().unwrap().outcome, ReportOutcome::Stopped);
    });
}

#[test]
fn connection_of_an_ended_run_is_refused() {
    let run = tool_run(vec![json!({"sleep_ms": 60_000})]);
    let file = connection_file(&run);
    std::thread::scope(|threads| {
        let running = threads.spawn(|| run.run());
        wait_until(|| file.exists());
        let kept = run.test_env.sandbox.join("kept.json");
        fs::copy(&file, &kept).unwrap();
        let mut connection = RelayConnection::open(&file).unwrap();
        let progress = json!({"message": "Still here."});
        connection
            .call("report_progress", progress.clone())
            .unwrap();
        run.test_env.stop.request();
        running.join().unwrap();
        let refused = connection.call("report_progress", progress);
        assert_eq!(refused.unwrap_err().to_string(), "the run has ended");
        let refused = RelayConnection::open(&file).map(|_| ());
        assert_eq!(refused.unwrap_err().to_string(), "the run has ended");
    });
}

#[test]
fn secrets_in_questions_and_decisions_are_hidden() {
    let secret = "s3cr3t-value";
    let mut run = tool_run(vec![
        call("ask", json!({"question": format!("Is {secret} right?")})),
        call(
            "record_decision",
            json!({"kind": "implementation_choice", "question": "Which?", "choice": secret}),
        ),
        end_turn(),
    ]);
    run.agent.env = vec!["TOKEN".to_owned()];
    let variables = &mut run.test_env.environment;
    variables.insert("TOKEN".to_owned(), secret.to_owned());
    let asked = ReportOutcome::NeedsAnswer {
        question: "Is [TOKEN] right?".to_owned(),
        timeout: None,
    };
    assert_eq!(run.run().outcome, asked);
    let recorded = run.test_env.recorded_decisions.lock().unwrap();
    assert_eq!(recorded[0].choice, "[TOKEN]");
}

/// The protocol says that every agent takes such servers. One that does not can work all the same.
#[test]
fn agent_that_refuses_the_server_works_without_it() {
    let refusal =
        json!({"reply_error": {"code": -32602, "message": "mcpServers are not supported"}});
    let open = json!({"expect": "session/new"});
    let mut run = AcpRun::new(&[
        json!({"expect": "initialize"}),
        json!({"reply": {"protocolVersion": 1}}),
        open.clone(),
        refusal.clone(),
        open,
        json!({"reply": {"sessionId": "s-1"}}),
        json!({"expect": "session/prompt"}),
        message_chunk("Done."),
        end_turn(),
    ]);
    run.test_env.tool_relay = vec!["/bin/true".into(), "relay-tools".into()];
    assert_eq!(run.run().outcome, ReportOutcome::Done);
    let received = run.test_env.read_file("received.jsonl");
    let sessions = received.lines().filter(|line| line.contains("session/new"));
    let with_servers: Vec<bool> = sessions.map(|line| line.contains("relay-tools")).collect();
    assert_eq!(with_servers, [true, false]);
    let told = run.entries().into_iter().any(|entry| match entry {
        TranscriptContent::Notice { text, .. } => text.contains("mcpServers are not supported"),
        _ => false,
    });
    assert!(told);
}

/// What a program of kind `command` was started with.
fn given_by(mcp: McpConfigFormat, guards: ToolGuards) -> String {
    let mut test_env = ActorTestEnv::new();
    test_env.tool_relay = vec!["/bin/true".into(), "relay-tools".into()];
    test_env.install_program(
        "agent",
        r#"echo "$*" > given
if [ -f "$2" ]; then cat "$2" >> given; fi
echo '{"type":"result","result":"Done."}'"#,
    );
    let definition = agent_definition(|line| {
        line.output = ActorOutputFormat::ClaudeJson;
        line.mcp = Some(mcp);
        line.guards = guards;
    });
    test_env.run_actor(&definition, sample_assignment(plan::Phase::Execute));
    let run_dir = test_env.run_dir.display().to_string();
    test_env.read_file("given").replace(&run_dir, "RUN")
}

#[test]
fn programs_are_told_about_the_server_in_their_own_way() {
    let given = |mcp| given_by(mcp, ToolGuards::default());
    let claude = r#"--mcp-config RUN/mcp.json
{"mcpServers":{"planwright-run":{"args":["relay-tools","RUN/tools.json"],"command":"/bin/true","type":"stdio"}}}"#;
    assert_eq!(given(McpConfigFormat::Claude), claude);
    let codex = r#"-c mcp_servers.planwright-run.command="/bin/true" -c mcp_servers.planwright-run.args=["relay-tools","RUN/tools.json"]
"#;
    assert_eq!(given(McpConfigFormat::Codex), codex);
}

/// A call of these tools would be a breach of its guards.
#[test]
fn program_with_a_list_of_allowed_tools_gets_no_server() {
    let guards = ToolGuards {
        allow: vec!["Bash".parse().unwrap()],
        ..ToolGuards::default()
    };
    assert_eq!(given_by(McpConfigFormat::Claude, guards), "\n");
}

fn wait_until(is_true: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_true() {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "it takes too long"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}
