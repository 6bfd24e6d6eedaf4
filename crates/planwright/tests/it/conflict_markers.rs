//! A path that was in conflict and still has any of its marks is no result, whoever hands it in.

use serde_json::Value;

use crate::daily::{Loop, state};

/// Changes the last line at first; sent back, it solves the conflict with the program it is given.
fn with_conflict(text: &str, theirs: &str, solve: &str) -> (Loop, String) {
    let day = Loop::with(&format!(
        "#!/bin/sh
set -e
if grep -q '\"revises\": *true' \"$PLANWRIGHT_ASSIGNMENT\"; then
  {solve}
else
  sed -i 's/^six$/SIX/' src/a.txt
fi
"
    ));
    day.yard.write("src/a.txt", text);
    day.yard.git(&["add", "-A"]);
    day.yard
        .git(&["commit", "-q", "--allow-empty", "-m", "as it was"]);
    let (plan, _) = day.begun(6);
    day.yard.write("src/a.txt", theirs);
    day.yard.commit("same line");
    day.ends(4, &["apply", &plan, "--yes"]);
    (day, plan)
}

const TEXT: &str = "one\ntwo\nthree\nfour\nfive\nsix\n";
const THEIRS: &str = "one\ntwo\nthree\nfour\nfive\n6\n";

fn revised(day: &Loop, plan: &str, code: i32) -> Value {
    let said = day.seen(&["revise", plan, "solve it"]);
    assert_eq!(said.code(), Some(code), "{said:?}");
    day.ends(0, &["status", plan])
}

#[test]
fn a_conflict_of_which_any_mark_is_left_is_no_result() {
    for (solve, named) in [
        ("echo more >> src/b.txt", "src/a.txt"),
        ("sed -i '/^[<>]/d' src/a.txt", "src/a.txt"),
        ("sed -i '/^[<=]/d' src/a.txt", "src/a.txt"),
        ("sed -i '/^[=>]/d' src/a.txt", "src/a.txt"),
        ("sed -i '/^[<>]/d; s/$/\\r/' src/a.txt", "src/a.txt"),
        (
            "sed -i 's/^\\(<<<<<<<\\) .*/\\1/; /^[=>]/d' src/a.txt",
            "src/a.txt",
        ),
        ("git mv src/a.txt src/c.txt", "src/c.txt"),
    ] {
        let (day, plan) = with_conflict(TEXT, THEIRS, solve);
        let data = revised(&day, &plan, 7);
        assert_eq!(state(&data), "execute/errored", "{solve}");
        assert_eq!(data["error"]["category"], "actor", "{solve}");
        let says = data["error"]["message"].as_str().unwrap();
        let expected = format!("{named} cannot be taken into the result: conflict markers remain");
        assert!(says.starts_with(&expected), "{solve}: {says}");
    }
}

#[test]
fn lines_that_look_like_marks_and_were_there_before_are_none() {
    let heading = "Shop\n=======\n";
    let solve = "sed -i '/^<<<<<<< /d; /^>>>>>>> /d; /^=======$/d' src/a.txt
  sed -i '1a =======' src/a.txt";
    let (text, theirs) = (format!("{heading}{TEXT}"), format!("{heading}{THEIRS}"));
    let (day, plan) = with_conflict(&text, &theirs, solve);
    let data = revised(&day, &plan, 6);
    assert_eq!(state(&data), "execute/complete");
    day.ends(0, &["apply", &plan, "--yes"]);
    assert!(day.yard.read("src/a.txt").starts_with(heading));
}

#[test]
fn a_person_may_allow_the_marks() {
    let (day, plan) = with_conflict(TEXT, THEIRS, "sed -i '/^[<>]/d' src/a.txt");
    revised(&day, &plan, 7);
    let visit = |words: &[&str]| {
        let run = day.yard.program.run(words.to_vec());
        run.set("SHELL", "/bin/sh").reading("true\n").finish()
    };
    let by_hand = ["revise", &plan, "as it is", "--by-hand"];
    let said = visit(&by_hand);
    assert_eq!(said.code(), Some(4), "{said:?}");
    assert!(said.stderr.contains("--allow-markers"), "{said:?}");
    let shell = day.seen(&["revise", &plan, "x", "--allow-markers"]);
    assert_eq!(shell.code(), Some(2), "only by hand: {shell:?}");
    day.ends(0, &["plumbing", "start-execute", &plan, "--owner", "ada"]);
    let epoch = day.ends(0, &["status", &plan])["epoch"].to_string();
    let complete = ["plumbing", "complete-execute", &plan, "--epoch", &epoch];
    day.ends(4, &complete);
    day.ends(0, &[&complete[..], &["--allow-markers"]].concat());
    day.ends(0, &["apply", &plan, "--yes"]);
    assert!(day.yard.read("src/a.txt").contains("=======\n"));
}
