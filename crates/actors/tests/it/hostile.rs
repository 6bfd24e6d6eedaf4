//! Programs that do what no agent should.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use plan::Phase;
use plan::actor::{Isolation, Output, Stdin};
use plan::stage::Category;
use plan::time::Span;
use planwright_actors::{Earlier, Outcome, Progress, Usage, preset};

use crate::given::assignment;
use crate::yard::{Yard, agent, failure, holds_nowhere};

#[test]
fn a_secret_is_hidden_wherever_it_is_told() {
    let mut yard = Yard::new();
    let secret = r#"sk-"quoted"-0123456789"#;
    yard.environment.insert("AGENT_KEY".into(), secret.into());
    yard.environment
        .insert("AGENT_MODEL".into(), "large-model".into());
    yard.environment.insert(
        "https_proxy".into(),
        "http://me:hunter2hunter2@proxy:1".into(),
    );
    // In pieces, in JSON, in both outputs, in the report.
    yard.program(
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
        agent(|line| {
            line.output = Output::CodexJson;
            line.env = ["AGENT_KEY", "AGENT_MODEL"].map(String::from).into();
            line.set_env.insert("REPORTS".into(), reports.into());
        })
    };
    for reports in ["", "yes"] {
        let report = yard.work(&definition(reports), assignment(Phase::Execute));
        let told = format!("{report:?} {:?}", yard.told.lock().unwrap());
        for part in ["0123456789", "hunter2"] {
            assert!(!told.contains(part), "{told}");
        }
        holds_nowhere(&yard.run, "hunter2");
        holds_nowhere(&yard.run, "0123456789");
        assert_eq!(report.summary.as_deref(), Some("it is [AGENT_KEY]!"));
        let message = failure(&report).1;
        assert!(message.contains("[AGENT_KEY]"), "{message}");
        let transcript = yard.transcript();
        assert!(
            transcript.contains("the key is [AGENT_KEY], the model large-model"),
            "{transcript}"
        );
    }
}

#[test]
fn a_flood_is_bounded_everywhere() {
    let yard = Yard::new();
    yard.program(
        "agent",
        r#"
        line=$(head -c 2000 /dev/zero | tr '\0' x)
        echo first; yes "$line" | head -c 90000000; echo; echo last
        head -c 6000000 /dev/zero | tr '\0' y
        "#,
    );
    let report = yard.work(&agent(|_| {}), assignment(Phase::Execute));
    assert_eq!(report.outcome, Outcome::Done);
    let summary = report.summary.unwrap();
    assert!(
        summary.len() < 70_000 && summary.starts_with("first"),
        "{}",
        summary.len()
    );
    assert!(summary.contains("bytes left out"));
    let transcript = fs::metadata(yard.run.join("transcript.jsonl"))
        .unwrap()
        .len();
    assert!(
        (64 * 1024 * 1024..65 * 1024 * 1024).contains(&transcript),
        "{transcript}"
    );
    let transcript = yard.transcript();
    assert!(
        transcript
            .trim_end()
            .lines()
            .last()
            .unwrap()
            .contains("holds no more than 64 MiB")
    );
    let steps = yard.steps();
    assert!(steps.len() < 2000, "{}", steps.len());
    assert!(steps.iter().all(|step| step.chars().count() <= 200));
}

#[test]
fn whoever_takes_too_long_is_ended() {
    let mut yard = Yard::new();
    yard.program("agent", "echo working; sleep 600 & sleep 600");
    let began = Instant::now();
    let by_definition = agent(|line| line.timeout = Some(Span(300_000)));
    let report = yard.work(&by_definition, assignment(Phase::Execute));
    assert_eq!(
        failure(&report),
        (Category::Timeout, "agent took longer than 300 ms".into())
    );
    assert_eq!(report.summary.as_deref(), Some("working"));
    yard.time = Some(Duration::from_millis(200));
    let report = yard.work(&agent(|_| {}), assignment(Phase::Execute));
    assert_eq!(failure(&report).1, "agent took longer than 200 ms");
    assert!(began.elapsed() < Duration::from_secs(30));
}

#[test]
fn whoever_is_asked_to_stop_is_ended_and_its_work_stays() {
    let yard = Yard::new();
    yard.program(
        "agent",
        "echo half > work.txt; trap '' TERM; echo ready; sleep 600",
    );
    let report = std::thread::scope(|threads| {
        threads.spawn(|| {
            while !yard
                .told
                .lock()
                .unwrap()
                .contains(&Progress::Step("ready".into()))
            {
                std::thread::sleep(Duration::from_millis(10));
            }
            yard.stop.ask();
        });
        yard.work(&agent(|_| {}), assignment(Phase::Execute))
    });
    assert_eq!(report.outcome, Outcome::Stopped);
    assert_eq!(yard.read("work.txt"), "half\n");
    // It is not even started any more.
    let again = yard.work(&agent(|_| {}), assignment(Phase::Execute));
    assert_eq!(again.outcome, Outcome::Stopped);
}

#[test]
fn nobody_waits_for_input_that_never_comes() {
    let yard = Yard::new();
    yard.program(
        "agent",
        "read answer; echo \"got: $answer\"; exec 0<&-; exec 1>&-; exit 0",
    );
    let report = yard.work(&agent(|_| {}), assignment(Phase::Execute));
    assert_eq!(report.outcome, Outcome::Done);
    assert_eq!(report.summary.as_deref(), Some("got:"));
    // One that does not read what it is given is none the worse for it.
    yard.program("agent", "exec 0<&-; echo deaf");
    let deaf = agent(|line| line.stdin = Stdin::Prompt);
    assert_eq!(
        yard.work(&deaf, assignment(Phase::Execute))
            .summary
            .as_deref(),
        Some("deaf")
    );
}

#[test]
fn what_is_no_text_is_shown_as_far_as_it_is() {
    let yard = Yard::new();
    yard.program("agent", r"printf 'a\000b \377 \033[31mred\033[0m\n'");
    let report = yard.work(&agent(|_| {}), assignment(Phase::Execute));
    assert!(!report.summary.unwrap().contains('\0'));
    assert_eq!(yard.steps(), ["a\u{fffd}b \u{fffd} red"]);
}

#[test]
fn no_conversation_is_called_like_an_option() {
    let yard = Yard::new();
    let reports =
        r#"echo '{"type":"thread.started","thread_id":"--add-dir=/"}'; echo "$@" > argv.txt"#;
    yard.program("codex", reports);
    let codex = preset("codex").unwrap();
    let mut given = assignment(Phase::Execute);
    assert_eq!(yard.work(&codex, given.clone()).session, None);
    given.earlier = Some(Earlier {
        session: "--add-dir=/".into(),
        used: Usage::default(),
        lost_runs: Vec::new(),
    });
    yard.work(&codex, given);
    assert!(!yard.read("argv.txt").contains("add-dir"));
}

#[test]
fn nothing_reaches_a_terminal_that_it_would_act_on() {
    let yard = Yard::new();
    yard.program(
        "agent",
        r"printf '\033[2Jcleared\n'; printf '\033]0;title\007failed\n' >&2; exit 1",
    );
    let report = yard.work(&agent(|_| {}), assignment(Phase::Execute));
    assert_eq!(report.summary.as_deref(), Some("cleared"));
    assert_eq!(failure(&report).1, "agent ended with exit code 1: failed");
}

#[test]
fn a_confined_program_reaches_what_it_was_given_and_nothing_else() {
    if !sandbox::offered().confines_files() {
        return;
    }
    let yard = Yard::new();
    for directory in [".agent", ".ssh", ".config/git"] {
        fs::create_dir_all(yard.home.join(directory)).unwrap();
    }
    let other = yard.ours.join("sandboxes/other");
    fs::create_dir_all(&other).unwrap();
    fs::write(yard.ours.join("planwright.db"), "store").unwrap();
    fs::write(yard.home.join(".ssh/id"), "key").unwrap();
    fs::write(yard.home.join(".gitconfig"), "[user]").unwrap();
    fs::write(yard.home.join(".config/git/credentials"), "password").unwrap();
    yard.program(
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
    let definition = agent(|line| {
        line.isolation = Isolation::Required;
        let paths = [
            "~/.agent".to_owned(),
            yard.ours.to_string_lossy().into_owned(),
        ];
        line.writable = paths.into();
        line.readable = vec!["/".to_owned() + &yard.ours.to_string_lossy()];
    });
    let report = yard.work(&definition, assignment(Phase::Execute));
    assert_eq!(report.outcome, Outcome::Done);
    let told = report.summary.unwrap();
    let answers: Vec<&str> = told
        .lines()
        .map(|line| line.split_once(':').unwrap().0)
        .collect();
    let expected = [
        "yes", "no", "no", "yes", "yes", "no", "yes", "yes", "yes", "no", "no", "no",
    ];
    assert_eq!(answers, expected, "{told}");
    let Some(Progress::Began { isolation }) = yard.told.lock().unwrap().first().cloned() else {
        panic!("it is not told how it is confined");
    };
    assert!(isolation.starts_with("confined"), "{isolation}");
}

#[test]
fn a_program_that_is_not_confined_is_told_to_be_so() {
    let yard = Yard::new();
    let outside: PathBuf = yard.home.join("outside");
    yard.program("agent", "touch \"$HOME/outside\"");
    let open = agent(|line| line.isolation = Isolation::Off);
    assert_eq!(
        yard.work(&open, assignment(Phase::Execute)).outcome,
        Outcome::Done
    );
    assert!(outside.exists());
    let told = yard.told.lock().unwrap();
    assert_eq!(
        told[0],
        Progress::Began {
            isolation: "not confined".into()
        }
    );
}
