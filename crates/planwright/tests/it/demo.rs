//! The demo: works twice in a row, and what it ends with works as typed.

use crate::daily::wait_for;
use crate::shell::TranscriptShell;

#[test]
fn the_demo_works_again_and_again_and_so_do_its_commands() {
    let shell = TranscriptShell::new();
    for round in 1..=2 {
        let said = shell.run(&["demo"]).finish();
        assert_eq!(said.exit_code(), Some(0), "{said:?}");
        assert_eq!(said.stderr, "");
        let (_, closing) = said.stdout.split_once("Try next\n").unwrap();
        let commands: Vec<&str> = closing.lines().map(str::trim).collect();
        assert!(commands.len() >= 4, "{closing}");
        for command in commands {
            let words = split_shell_words(command);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            assert_eq!(words[0], "planwright");
            let said = shell.run(&words[1..]).finish();
            assert_eq!(
                said.exit_code(),
                Some(0),
                "round {round}: {command}: {said:?}"
            );
            assert!(!said.stdout.is_empty());
        }
    }
    assert!(!shell.store_path().exists(), "it has a store of its own");
}

/// The words of a command; what stands in single quotes is one.
fn split_shell_words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for (index, piece) in command.split('\'').enumerate() {
        let quoted = index % 2 == 1;
        for (index, part) in piece.split(' ').enumerate() {
            if index > 0 && !quoted {
                words.push(String::new());
            }
            let word = words.last_mut().unwrap();
            if index > 0 && quoted {
                word.push(' ');
            }
            word.push_str(part);
        }
    }
    words
}

#[test]
fn the_story_of_the_demo() {
    let shell = TranscriptShell::new();
    let said = shell.run(&["demo"]).finish();
    // Who wins the race is nobody's to say.
    let winner = regex::Regex::new(r"racer-\d").unwrap();
    let told = testkit::TestRunOutput {
        stdout: winner.replace_all(&said.stdout, "racer-1").into_owned(),
        ..said
    };
    shell.keep_run(&["demo"], &told);
    insta::assert_snapshot!(shell.transcript());
}

/// Also where the path of the home needs quotes.
#[test]
fn the_demo_works_in_a_home_with_spaces() {
    let shell = TranscriptShell::new();
    let home = shell.home_path().join("my home");
    let said = shell
        .run(&["demo"])
        .with_variable("PLANWRIGHT_HOME", &home)
        .finish();
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    let (_, closing) = said.stdout.split_once("Try next\n").unwrap();
    let words = split_shell_words(closing.lines().next().unwrap().trim());
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let said = shell.run(&words[1..]).finish();
    assert_eq!(said.exit_code(), Some(0), "{words:?}: {said:?}");
}

/// The page of the demo has something to try in every state. Its server is not the person's own.
#[test]
fn the_demo_opens_a_page_with_plans_in_every_state() {
    let shell = TranscriptShell::new();
    let said = shell.run(&["--format", "json", "demo", "--open", "--print"]);
    let data = said.finish().data();
    let home = data["home"].as_str().unwrap().to_owned();
    let _server = DemoServer {
        shell: &shell,
        home: home.clone(),
    };
    let in_demo = |words: &[&str]| {
        let run = shell.run(words).with_variable("PLANWRIGHT_HOME", &home);
        run.finish()
    };
    let standings = || {
        let listed = in_demo(&["--format", "json", "list", "--all"]).data();
        let plans = listed["plans"].as_array().unwrap().clone();
        plans
            .into_iter()
            .map(|plan| plan["standing"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    wait_for("the server's workers begin", || {
        standings().iter().filter(|one| *one == "working").count() == 2
    });
    for expected in [
        "needs review",
        "blocked",
        "needs answer",
        "failed",
        "conflict",
        "landed",
        "undone",
        "waiting",
    ] {
        let standings = standings();
        assert!(
            standings.iter().any(|one| one == expected),
            "{expected}: {standings:?}"
        );
    }
    // A second time, it shows the same plans.
    let count = standings().len();
    let again = shell.run(&["--format", "json", "demo", "--open", "--print"]);
    assert_eq!(again.finish().data()["address"], data["address"]);
    assert_eq!(standings().len(), count);
    assert!(!shell.store_path().exists());
}

/// Stops the server that a demo left running.
struct DemoServer<'a> {
    shell: &'a TranscriptShell,
    home: String,
}

impl Drop for DemoServer<'_> {
    fn drop(&mut self) {
        let stop = self.shell.run(&["--format", "json", "open", "--stop"]);
        let stopped = stop.with_variable("PLANWRIGHT_HOME", &self.home).finish();
        if !std::thread::panicking() {
            assert_eq!(stopped.data()["stopped"], true);
        }
    }
}
