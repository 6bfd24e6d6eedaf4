//! Scripts that do what no agent should do.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use plan::Phase;
use plan::actor::{ActorIsolation, ActorOutputFormat, ActorStdin};
use plan::stage::FailureCategory;
use plan::time::Span;
use plan::transcript::TranscriptContent;
use planwright_actors::{EarlierSession, ReportOutcome, RunProgress, Usage, find_preset};

use crate::actor_test_env::{ActorTestEnv, agent_definition, assert_secret_absent, expect_failure};
use crate::sample_assignments::sample_assignment;

#[test]
fn secret_is_hidden_in_all_output() {
    let mut test_env = ActorTestEnv::new();
    let secret = r#"sk-"quoted"-0123456789"#;
    test_env
        .environment
        .insert("AGENT_KEY".into(), secret.into());
    test_env
        .environment
        .insert("AGENT_MODEL".into(), "large-model".into());
    test_env.environment.insert(
        "https_proxy".into(),
        "http://me:hunter2hunter2@proxy:1".into(),
    );
    // Split over writes, in JSON, on both outputs, and in the report.
    test_env.install_program(
        "agent",
        r#"
        printf '%s' 'the key is sk-"quo'; sleep 0.2; printf '%s\n' 'ted"-0123456789, the model large-model'
        echo "$AGENT_KEY $https_proxy" >&2
        echo '{"type":"item.completed","item":{"type":"agent_message","text":"it is sk-\"quoted\"-0123456789!"}}'
        echo '{"type":"item.completed","item":{"type":"agent_message","text":"it is sk-\u0022quoted\u0022-0123456789!"}}'
        if [ -n "$REPORTS" ]; then
            echo '{"outcome":"failed","message":"bad key sk-\"quoted\"-0123456789"}' > "$PLANWRIGHT_REPORT"
        fi
        exit 1
        "#,
    );
    let definition = |reports: &str| {
        agent_definition(|line| {
            line.output = ActorOutputFormat::CodexJson;
            line.env = ["AGENT_KEY", "AGENT_MODEL"].map(String::from).into();
            line.set_env.insert("REPORTS".into(), reports.into());
        })
    };
    for reports in ["", "yes"] {
        let report = test_env.run_actor(&definition(reports), sample_assignment(Phase::Execute));
        let reported = format!("{report:?} {:?}", test_env.reported.lock().unwrap());
        for part in ["0123456789", "hunter2"] {
            assert!(!reported.contains(part), "{reported}");
        }
        assert_secret_absent(&test_env.run_dir, "hunter2");
        assert_secret_absent(&test_env.run_dir, "0123456789");
        assert_eq!(report.summary.as_deref(), Some("it is [AGENT_KEY]!"));
        let message = expect_failure(&report).1;
        assert!(message.contains("[AGENT_KEY]"), "{message}");
        let transcript = test_env.read_transcript();
        assert!(
            transcript.contains("the key is [AGENT_KEY], the model large-model"),
            "{transcript}"
        );
    }
}

#[test]
fn flood_of_output_is_limited() {
    let test_env = ActorTestEnv::new();
    test_env.install_program(
        "agent",
        r#"
        line=$(head -c 2000 /dev/zero | tr '\0' x)
        echo first; yes "$line" | head -c 90000000; echo; echo last
        head -c 6000000 /dev/zero | tr '\0' y
        "#,
    );
    let report = test_env.run_actor(&agent_definition(|_| {}), sample_assignment(Phase::Execute));
    assert_eq!(report.outcome, ReportOutcome::Done);
    let summary = report.summary.unwrap();
    assert!(
        summary.len() < 70_000 && summary.starts_with("first"),
        "{}",
        summary.len()
    );
    assert!(summary.contains("bytes left out"));
    let transcript = fs::metadata(test_env.run_dir.join("transcript.jsonl"))
        .unwrap()
        .len();
    assert!(
        (64 * 1024 * 1024..65 * 1024 * 1024).contains(&transcript),
        "{transcript}"
    );
    let transcript = test_env.read_transcript();
    assert!(
        transcript
            .trim_end()
            .lines()
            .last()
            .unwrap()
            .contains("it is limited to 64 MiB")
    );
    let steps = test_env.reported_steps();
    assert!(steps.len() < 2000, "{}", steps.len());
    assert!(steps.iter().all(|step| step.chars().count() <= 200));
}

#[test]
fn run_over_its_time_limit_is_killed() {
    let mut test_env = ActorTestEnv::new();
    test_env.install_program("agent", "echo working; sleep 600 & sleep 600");
    let began = Instant::now();
    let by_definition = agent_definition(|line| line.timeout = Some(Span(300_000)));
    let report = test_env.run_actor(&by_definition, sample_assignment(Phase::Execute));
    assert_eq!(
        expect_failure(&report),
        (
            FailureCategory::Timeout,
            "agent took longer than 300 ms".into()
        )
    );
    assert_eq!(report.summary.as_deref(), Some("working"));
    test_env.time_limit = Some(Duration::from_millis(200));
    let report = test_env.run_actor(&agent_definition(|_| {}), sample_assignment(Phase::Execute));
    assert_eq!(expect_failure(&report).1, "agent took longer than 200 ms");
    assert!(began.elapsed() < Duration::from_secs(30));
}

#[test]
fn stopped_run_is_killed_and_keeps_its_work() {
    let test_env = ActorTestEnv::new();
    test_env.install_program(
        "agent",
        "echo half > work.txt; trap '' TERM; echo ready; sleep 600",
    );
    let ready = TranscriptContent::TextDelta {
        text: "ready\n".to_owned(),
    };
    let report = std::thread::scope(|threads| {
        threads.spawn(|| {
            while !test_env
                .reported
                .lock()
                .unwrap()
                .contains(&RunProgress::Entry(ready.clone()))
            {
                std::thread::sleep(Duration::from_millis(10));
            }
            test_env.stop.request();
        });
        test_env.run_actor(&agent_definition(|_| {}), sample_assignment(Phase::Execute))
    });
    assert_eq!(report.outcome, ReportOutcome::Stopped);
    assert_eq!(test_env.read_file("work.txt"), "half\n");
    // After a stop request, it is not started at all.
    let again = test_env.run_actor(&agent_definition(|_| {}), sample_assignment(Phase::Execute));
    assert_eq!(again.outcome, ReportOutcome::Stopped);
}

#[test]
fn standard_input_is_empty_unless_configured() {
    let test_env = ActorTestEnv::new();
    test_env.install_program(
        "agent",
        "read answer; echo \"got: $answer\"; exec 0<&-; exec 1>&-; exit 0",
    );
    let report = test_env.run_actor(&agent_definition(|_| {}), sample_assignment(Phase::Execute));
    assert_eq!(report.outcome, ReportOutcome::Done);
    assert_eq!(report.summary.as_deref(), Some("got:"));
    // A program that does not read its input still works.
    test_env.install_program("agent", "exec 0<&-; echo deaf");
    let deaf = agent_definition(|line| line.stdin = ActorStdin::Prompt);
    assert_eq!(
        test_env
            .run_actor(&deaf, sample_assignment(Phase::Execute))
            .summary
            .as_deref(),
        Some("deaf")
    );
}

#[test]
fn bytes_that_are_not_text_are_replaced() {
    let test_env = ActorTestEnv::new();
    test_env.install_program("agent", r"printf 'a\000b \377 \033[31mred\033[0m\n'");
    let report = test_env.run_actor(&agent_definition(|_| {}), sample_assignment(Phase::Execute));
    assert!(!report.summary.unwrap().contains('\0'));
    assert_eq!(test_env.reported_steps(), ["a\u{fffd}b \u{fffd} red"]);
}

#[test]
fn session_that_looks_like_an_option_is_not_used() {
    let test_env = ActorTestEnv::new();
    let reports =
        r#"echo '{"type":"thread.started","thread_id":"--add-dir=/"}'; echo "$@" > argv.txt"#;
    test_env.install_program("codex", reports);
    let codex = find_preset("codex").unwrap();
    let mut assignment = sample_assignment(Phase::Execute);
    assert_eq!(test_env.run_actor(&codex, assignment.clone()).session, None);
    assignment.earlier = Some(EarlierSession {
        session: "--add-dir=/".into(),
        used: Usage::default(),
        lost_runs: Vec::new(),
    });
    test_env.run_actor(&codex, assignment);
    assert!(!test_env.read_file("argv.txt").contains("add-dir"));
}

#[test]
fn escape_sequences_are_stripped_from_reports() {
    let test_env = ActorTestEnv::new();
    test_env.install_program(
        "agent",
        r"printf '\033[2Jcleared\n'; printf '\033]0;title\007failed\n' >&2; exit 1",
    );
    let report = test_env.run_actor(&agent_definition(|_| {}), sample_assignment(Phase::Execute));
    assert_eq!(report.summary.as_deref(), Some("cleared"));
    assert_eq!(
        expect_failure(&report).1,
        "agent ended with exit code 1: failed"
    );
}

#[test]
fn confined_program_can_access_only_its_paths() {
    if !sandbox::detect_isolation().confines_files() {
        return;
    }
    let test_env = ActorTestEnv::new();
    for directory in [".agent", ".ssh", ".config/git"] {
        fs::create_dir_all(test_env.home.join(directory)).unwrap();
    }
    let other = test_env.planwright_home.join("sandboxes/other");
    fs::create_dir_all(&other).unwrap();
    fs::write(test_env.planwright_home.join("planwright.db"), "store").unwrap();
    fs::write(test_env.home.join(".ssh/id"), "key").unwrap();
    fs::write(test_env.home.join(".gitconfig"), "[user]").unwrap();
    fs::write(test_env.home.join(".config/git/credentials"), "password").unwrap();
    test_env.install_program(
        "agent",
        r#"
        try() { if "$@" > /dev/null 2>&1; then echo "yes: $*"; else echo "no: $*"; fi; }
        cd "$HOME"
        try cat .gitconfig
        try cat .ssh/id
        try cat .config/git/credentials
        try cat "$PLANWRIGHT_ASSIGNMENT"
        try touch .agent/state
        try touch new
        try touch "$TMPDIR/x"
        try touch "$(dirname "$PLANWRIGHT_REPORT")/x"
        try touch "$OLDPWD/x"
        try cat ../planwright/planwright.db
        try ls ../planwright/sandboxes/other
        try sh -c 'echo >> ../planwright/runs/1/assignment.json'
        "#,
    );
    let definition = agent_definition(|line| {
        line.isolation = ActorIsolation::Required;
        let paths = [
            "~/.agent".to_owned(),
            test_env.planwright_home.to_string_lossy().into_owned(),
        ];
        line.writable = paths.into();
        line.readable = vec!["/".to_owned() + &test_env.planwright_home.to_string_lossy()];
    });
    let report = test_env.run_actor(&definition, sample_assignment(Phase::Execute));
    assert_eq!(report.outcome, ReportOutcome::Done);
    let summary = report.summary.unwrap();
    let answers: Vec<&str> = summary
        .lines()
        .map(|line| line.split_once(':').unwrap().0)
        .collect();
    let expected = [
        "yes", "no", "no", "yes", "yes", "no", "yes", "yes", "yes", "no", "no", "no",
    ];
    assert_eq!(answers, expected, "{summary}");
    let Some(RunProgress::Started { isolation }) =
        test_env.reported.lock().unwrap().first().cloned()
    else {
        panic!("the isolation level is not reported");
    };
    assert!(isolation.starts_with("confined"), "{isolation}");
}

#[test]
fn unconfined_run_is_reported() {
    let test_env = ActorTestEnv::new();
    let outside: PathBuf = test_env.home.join("outside");
    test_env.install_program("agent", "touch \"$HOME/outside\"");
    let unconfined = agent_definition(|line| line.isolation = ActorIsolation::Off);
    assert_eq!(
        test_env
            .run_actor(&unconfined, sample_assignment(Phase::Execute))
            .outcome,
        ReportOutcome::Done
    );
    assert!(outside.exists());
    let reported = test_env.reported.lock().unwrap();
    assert_eq!(
        reported[0],
        RunProgress::Started {
            isolation: "not confined".into()
        }
    );
}
