//! The demo: works twice in a row, and what it ends with works as typed.

use crate::shell::Shell;

#[test]
fn the_demo_works_again_and_again_and_so_do_its_commands() {
    let shell = Shell::new();
    for round in 1..=2 {
        let said = shell.run(&["demo"]).finish();
        assert_eq!(said.code(), Some(0), "{said:?}");
        assert_eq!(said.stderr, "");
        let (_, closing) = said.stdout.split_once("Look around\n").unwrap();
        let commands: Vec<&str> = closing.lines().map(str::trim).collect();
        assert!(commands.len() >= 4, "{closing}");
        for command in commands {
            let words: Vec<&str> = command.split(' ').collect();
            assert_eq!(words[0], "planwright");
            let said = shell.run(&words[1..]).finish();
            assert_eq!(said.code(), Some(0), "round {round}: {command}: {said:?}");
            assert!(!said.stdout.is_empty());
        }
    }
    assert!(!shell.store().exists(), "it has a store of its own");
}

#[test]
fn the_story_of_the_demo() {
    let shell = Shell::new();
    let said = shell.run(&["demo"]).finish();
    // Who wins the race is nobody's to say.
    let winner = regex::Regex::new(r"racer-\d").unwrap();
    let told = testkit::Said {
        stdout: winner.replace_all(&said.stdout, "racer-1").into_owned(),
        ..said
    };
    shell.keep(&["demo"], &told);
    insta::assert_snapshot!(shell.transcript());
}

/// Also where the path of the home needs quotes.
#[test]
fn the_demo_works_in_a_home_with_spaces() {
    let shell = Shell::new();
    let home = shell.home().join("my home");
    let said = shell.run(&["demo"]).set("PLANWRIGHT_HOME", &home).finish();
    assert_eq!(said.code(), Some(0), "{said:?}");
    let (_, closing) = said.stdout.split_once("Look around\n").unwrap();
    let first = closing.lines().next().unwrap().trim();
    assert!(
        first.contains("'sqlite:") && first.contains("my home"),
        "{first}"
    );
}
