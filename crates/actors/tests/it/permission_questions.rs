//! Tool calls that wait for a person, while an agent of kind `acp` works.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use plan::Caller;
use plan::permission_question::ProposedToolCall;
use plan::stage::FailureCategory;
use plan::transcript::PermissionStatus;
use planwright_actors::{PersonDecision, ReportOutcome, Stop};
use serde_json::{Value, json};

use crate::acp_agents::{AcpRun, ask_once, end_turn, permission_request, steps_after_handshake};

fn allowed() -> PersonDecision {
    let by = Caller::Person("ada".to_owned());
    PersonDecision::Allowed { by }
}

fn rejected() -> PersonDecision {
    let by = Caller::Person("ada".to_owned());
    PersonDecision::Rejected { by }
}

/// A run whose every command asks a person.
fn asking_run(
    steps: &[Value],
    decide: impl Fn(&ProposedToolCall, &Stop) -> PersonDecision + Send + Sync + 'static,
) -> (AcpRun, Arc<Mutex<Vec<ProposedToolCall>>>) {
    let mut run = AcpRun::new(steps);
    run.agent.tools.ask = vec!["execute".parse().unwrap()];
    let asked: Arc<Mutex<Vec<ProposedToolCall>>> = Arc::default();
    let log = Arc::clone(&asked);
    run.test_env.person = Some(Box::new(move |call, stop| {
        log.lock().unwrap().push(call.clone());
        decide(&call, stop)
    }));
    (run, asked)
}

/// Nobody answers before the question is withdrawn.
fn never(_: &ProposedToolCall, stop: &Stop) -> PersonDecision {
    assert!(
        stop.wait_for_request(Duration::from_secs(60)),
        "nobody withdrew it"
    );
    PersonDecision::Withdrawn
}

fn chosen_option(run: &AcpRun, id: u64) -> String {
    let outcome = run.answer_to(&json!(id))["result"]["outcome"].clone();
    let option = outcome["optionId"].as_str().or(outcome["outcome"].as_str());
    option.unwrap().to_owned()
}

#[test]
fn person_decides_and_the_transcript_says_so() {
    for (decision, option, status, reason) in [
        (
            allowed(),
            "yes",
            PermissionStatus::Allowed,
            "ada allowed it",
        ),
        (
            rejected(),
            "no",
            PermissionStatus::Rejected,
            "ada rejected it",
        ),
        (
            PersonDecision::Unavailable("the store is gone".to_owned()),
            "no",
            PermissionStatus::Rejected,
            "nobody could be asked: the store is gone",
        ),
    ] {
        let (run, asked) = asking_run(&ask_once("cargo test"), move |_, _| decision.clone());
        assert_eq!(run.run().outcome, ReportOutcome::Done);
        assert_eq!(chosen_option(&run, 7), option);
        let asked = asked.lock().unwrap();
        assert_eq!(asked.len(), 1);
        assert_eq!(asked[0].summary.as_str(), "run cargo test");
        assert_eq!(
            asked[0].input.as_ref().unwrap().as_str(),
            r#"{"command":"cargo test"}"#
        );
        assert_eq!(
            run.permissions(),
            [
                (
                    PermissionStatus::Asked,
                    "`tools.ask` has `execute`".to_owned()
                ),
                (status, reason.to_owned()),
            ]
        );
    }
}

#[test]
fn calls_that_are_asked_together_get_their_own_answers_in_order() {
    let steps = steps_after_handshake(vec![
        permission_request(1, "first"),
        permission_request(2, "second"),
        permission_request(3, "third"),
        json!({"expect_answer": 1}),
        json!({"expect_answer": 2}),
        json!({"expect_answer": 3}),
        end_turn(),
    ]);
    let (run, asked) = asking_run(&steps, |call, _| match call.summary.as_str() {
        "run second" => allowed(),
        _ => rejected(),
    });
    assert_eq!(run.run().outcome, ReportOutcome::Done);
    let summaries: Vec<String> = asked
        .lock()
        .unwrap()
        .iter()
        .map(|call| call.summary.to_string())
        .collect();
    assert_eq!(summaries, ["run first", "run second", "run third"]);
    let options = [1, 2, 3].map(|id| chosen_option(&run, id));
    assert_eq!(options, ["no", "yes", "no"]);
}

#[test]
fn clocks_stand_still_while_a_person_thinks() {
    let limit = Duration::from_secs(4);
    let (mut run, _) = asking_run(&ask_once("ls"), move |_, _| {
        std::thread::sleep(limit + Duration::from_secs(1));
        allowed()
    });
    run.timeouts.silence = limit;
    run.test_env.time_limit = Some(limit);
    assert_eq!(run.run().outcome, ReportOutcome::Done);
}

#[test]
fn run_without_an_answer_ends_with_a_question() {
    let steps = steps_after_handshake(vec![
        permission_request(7, "make release"),
        json!({"expect": "session/cancel"}),
        json!({"expect_answer": 7}),
        json!({"send": {"jsonrpc": "2.0", "id": 3, "result": {"stopReason": "cancelled"}}}),
    ]);
    let (mut run, _) = asking_run(&steps, never);
    run.timeouts.person = Duration::from_millis(100);
    run.timeouts.cancel = Duration::from_secs(20);
    let report = run.run();
    let ReportOutcome::NeedsAnswer {
        question,
        timeout: None,
    } = &report.outcome
    else {
        panic!("{report:?}");
    };
    assert!(
        question.contains("wanted to run make release"),
        "{question}"
    );
    assert_eq!(
        report.session.as_deref(),
        Some("s-1"),
        "the next run continues it"
    );
    assert_eq!(chosen_option(&run, 7), "cancelled");
    assert_eq!(
        run.permissions().last().unwrap().0,
        PermissionStatus::Cancelled
    );
}

#[test]
fn stop_withdraws_the_question() {
    let (run, asked) = asking_run(&ask_once("ls"), never);
    let stop = run.test_env.stop.clone();
    let report = std::thread::scope(|threads| {
        threads.spawn(|| {
            wait_until(|| !asked.lock().unwrap().is_empty());
            stop.request();
        });
        run.run()
    });
    assert_eq!(report.outcome, ReportOutcome::Stopped);
    assert_eq!(
        run.permissions().last().unwrap().0,
        PermissionStatus::Cancelled
    );
}

#[test]
fn agent_that_dies_while_a_person_thinks_withdraws_its_question() {
    let steps = steps_after_handshake(vec![permission_request(7, "ls"), json!({"exit": 3})]);
    let (run, asked) = asking_run(&steps, never);
    let report = run.run();
    let ReportOutcome::Failed { category, .. } = &report.outcome else {
        panic!("{report:?}");
    };
    assert_eq!(*category, FailureCategory::Actor);
    assert!(asked.lock().unwrap().len() <= 1);
}

#[test]
fn flood_of_questions_is_bounded() {
    const COUNT: u64 = 60;
    /// One is open, and 16 wait.
    const ASKED: u64 = 17;
    let requests = (1..=COUNT).map(|id| permission_request(id, &format!("command {id}")));
    let mut steps: Vec<Value> = requests.collect();
    steps.extend((ASKED + 1..=COUNT).map(|id| json!({"expect_answer": id})));
    steps.push(json!({"write_file": "flooded"}));
    steps.extend((1..=ASKED).map(|id| json!({"expect_answer": id})));
    steps.push(end_turn());
    let flooded: Arc<Mutex<PathBuf>> = Arc::default();
    let awaited = Arc::clone(&flooded);
    // The first question stays open until the last request was rejected.
    let (run, asked) = asking_run(&steps_after_handshake(steps), move |_, _| {
        wait_until(|| awaited.lock().unwrap().exists());
        allowed()
    });
    *flooded.lock().unwrap() = run.test_env.sandbox.join("flooded");
    assert_eq!(run.run().outcome, ReportOutcome::Done);
    assert_eq!(asked.lock().unwrap().len() as u64, ASKED);
    assert_eq!(chosen_option(&run, 1), "yes");
    assert_eq!(chosen_option(&run, COUNT), "no");
    let permissions = run.permissions();
    let mut reasons = permissions.iter().map(|(_, reason)| reason);
    assert!(reasons.any(|reason| reason.ends_with("16 other calls already wait")));
}

#[test]
fn calls_that_cannot_be_shown_or_allowed_once_ask_no_person() {
    let long = "x".repeat(17 * 1024);
    let forever = json!({"send": {"jsonrpc": "2.0", "id": 7, "method": "session/request_permission", "params": {
        "sessionId": "s-1",
        "toolCall": {"toolCallId": "c", "kind": "execute", "rawInput": {"command": "ls"}},
        "options": [{"optionId": "forever", "kind": "allow_always"}, {"optionId": "no", "kind": "reject_once"}]
    }}});
    let only_forever =
        steps_after_handshake(vec![forever, json!({"expect_answer": 7}), end_turn()]);
    for (steps, reason) in [
        (ask_once(&long), "too long to show"),
        (only_forever, "allow only this call"),
    ] {
        let (run, asked) = asking_run(&steps, |_, _| allowed());
        assert_eq!(run.run().outcome, ReportOutcome::Done);
        assert!(asked.lock().unwrap().is_empty(), "{reason}");
        assert_eq!(chosen_option(&run, 7), "no");
        let permissions = run.permissions();
        assert!(permissions[0].1.contains(reason), "{permissions:?}");
    }
}

#[track_caller]
fn wait_until(is_true: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_true() {
        assert!(Instant::now() < deadline, "it did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}
