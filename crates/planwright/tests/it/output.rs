//! Streams, colours, pipes and help.

use crate::shell::TranscriptShell;

#[test]
fn data_goes_to_stdout_and_the_rest_to_stderr() {
    let (shell, plan) = TranscriptShell::with_plan();
    let said = shell.run(&["use", "tidy", "--arg", "area=docs"]).finish();
    assert!(said.stdout.contains("Tidy one area"), "{said:?}");
    assert!(said.stderr.contains("\n  try: planwright why "), "{said:?}");
    let said = shell.run(&["status", "zzzz"]).finish();
    assert_eq!(said.stdout, "");
    assert!(
        said.stderr.starts_with("error: No plan id begins"),
        "{said:?}"
    );
    // Programs read one stream only.
    for words in [["status", &plan], ["status", "zzzz"], ["status", "hello"]] {
        let said = shell
            .run(&[&["--format", "json"], &words[..]].concat())
            .finish();
        assert_eq!(said.stderr, "", "{words:?}");
        said.envelope();
    }
    // Wrong words too.
    for words in [
        &["--format", "json", "lsit"][..],
        &["--format=json", "list", "--limit", "0"],
        &["list", "--format", "json", "--phase", "none"],
        &["plumbing", "start-execute"],
        &["plumbing"],
        &["plumbing", "nothing"],
        &["--store", "sqlite:x.db", "plumbing", "show"],
    ] {
        let said = shell.run(words).finish();
        assert_eq!(said.exit_code(), Some(2), "{words:?}");
        assert_eq!(said.stderr, "", "{words:?}");
        assert_eq!(said.envelope()["status"], "error");
    }
}

/// Colour is for terminals; whoever insists gets it.
#[test]
fn a_pipe_gets_no_colours() {
    let (shell, _) = TranscriptShell::with_plan();
    let coloured = |name: &str, value: &str| {
        let said = shell.run(&["list"]).with_variable(name, value).finish();
        assert_eq!(said.exit_code(), Some(0));
        said.stdout.contains('\x1b')
    };
    assert!(!coloured("TERM", "xterm-256color"));
    assert!(!coloured("NO_COLOR", "1"));
    assert!(coloured("CLICOLOR_FORCE", "1"));
    let both = shell
        .run(&["list"])
        .with_variable("CLICOLOR_FORCE", "1")
        .with_variable("NO_COLOR", "1")
        .finish();
    assert!(!both.stdout.contains('\x1b'), "who asks for none gets none");
}

/// What comes from outside does not drive the terminal.
#[test]
fn control_characters_are_shown_not_obeyed() {
    let shell = TranscriptShell::with_action();
    let goal = "clear \x1b[2J\x07 the screen";
    shell.run_quietly(&["use", "tidy", "--arg", "area=src", "--goal", goal]);
    for words in [&["list"][..], &["status", "@"], &["log", "@"]] {
        let said = shell
            .run(words)
            .with_variable("CLICOLOR_FORCE", "1")
            .finish();
        assert!(!said.stdout.contains("\x1b[2J"), "{said:?}");
        assert!(!said.stdout.contains('\x07'), "{said:?}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let (shell, plan) = TranscriptShell::with_plan();
    for words in [
        &["list"][..],
        &["status", &plan],
        &["help"],
        &["--help"],
        &["completions", "bash"],
        &["plumbing", "events"],
        &["--format", "json", "list"],
    ] {
        let said = shell.run(words).start().finish_with_stdout_closed();
        assert_eq!(said.exit_code(), Some(0), "{words:?}: {said:?}");
        assert_eq!(said.stderr, "", "{words:?}");
    }
}

#[test]
fn help_for_everybody() {
    let shell = TranscriptShell::new();
    let bare = shell.run(&["help"]).finish();
    assert_eq!(bare.exit_code(), Some(0));
    assert_eq!(bare.stdout, shell.run(&["--help"]).finish().stdout);
    for topic in [
        &["list"][..],
        &["action", "create"],
        &["plumbing", "record-change"],
    ] {
        let asked = shell.run(&[&["help"], topic].concat()).finish();
        let flagged = shell.run(&[topic, &["--help"]].concat()).finish();
        assert_eq!(asked.stdout, flagged.stdout, "{topic:?}");
        assert_eq!(asked.stderr, "");
    }
    shell.run_good(&["help"]);
    for topic in ["agents", "rules", "exit-codes", "settings"] {
        shell.run_good(&["help", topic]);
    }
    let version = shell.run_good(&["--version"]);
    assert_eq!(
        version.stdout,
        format!("planwright {}\n", env!("CARGO_PKG_VERSION"))
    );
    insta::assert_snapshot!(shell.transcript());
}

#[test]
fn events_are_lines_and_the_envelope_is_the_last() {
    let (shell, plan) = TranscriptShell::with_plan();
    shell.run_quietly(&["cancel", &plan]);
    let said = shell.run(&["plumbing", "events"]).finish();
    let lines: Vec<serde_json::Value> = said
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0]["type"], "created");
    assert_eq!(lines[1]["type"], "cancelled");
    assert_eq!(said.data()["cursor"], lines[1]["cursor"]);
    let first = lines[0]["cursor"].as_str().unwrap();
    let rest = shell
        .run(&["plumbing", "events", "--after", first])
        .finish();
    assert_eq!(rest.stdout.lines().count(), 2);
    assert!(rest.stdout.contains("cancelled"), "{rest:?}");
    let end = said.data()["cursor"].as_str().unwrap().to_owned();
    let none = shell.run(&["plumbing", "events", "--after", &end]).finish();
    assert_eq!(none.data()["cursor"], end.as_str());
}

/// Whoever follows the log sees what another process does.
#[test]
fn events_can_be_followed() {
    let (shell, plan) = TranscriptShell::with_plan();
    let following = shell
        .run(&["plumbing", "events", "--follow", "--limit", "3"])
        .start();
    shell.run_quietly(&["plumbing", "start-strategize", &plan, "--owner", "bot"]);
    let said = following.finish();
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    assert_eq!(said.data()["events"], 3);
    assert!(said.stdout.contains("gate_held"), "{said:?}");
}

/// Called by a path, hints name that path; given a store, they name that store.
#[test]
fn hints_can_be_typed_from_where_one_is() {
    let shell = TranscriptShell::with_action();
    let store = format!(
        "sqlite:{}",
        shell.home_path().join("other one.db").display()
    );
    shell.run_quietly(&[
        "--store",
        &store,
        "action",
        "create",
        "--config",
        "tidy.yaml",
    ]);
    let said = shell
        .run(&["--store", &store, "use", "tidy", "--arg", "area=src"])
        .finish();
    let last = said.stderr.lines().last().unwrap().trim();
    let hint = last.strip_prefix("try: ").unwrap().to_owned();
    let expected = format!("planwright --store '{store}' why ");
    assert!(hint.starts_with(&expected), "{hint}");
}
