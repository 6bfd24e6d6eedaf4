//! Sending a result back: what was said of it and which files were dropped reaches whoever goes on with it.

use serde_json::{Value, json};

use crate::daily::{Loop, state};

/// Makes three files at first; whenever it is started again it goes on with one that is to stay. It keeps
/// each of its assignments.
const SPRAWLING: &str = "#!/bin/sh
cp \"$PLANWRIGHT_ASSIGNMENT\" \"$STARTS.assignment\"
echo started >> \"$STARTS\"
if grep -q '\"revises\": *true' \"$PLANWRIGHT_ASSIGNMENT\"; then
  ls src > \"$STARTS.files\"
else
  echo 1 > src/first.log
  echo 2 > src/second.log
fi
echo more >> src/kept.txt
";

fn assignment(day: &Loop) -> Value {
    let text = std::fs::read_to_string(day.file("starts.assignment")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The files were gone before it went on, and it knows.
fn assert_both_logs_are_dropped(day: &Loop) {
    let told = assignment(day);
    assert_eq!(told["dropped"], json!(["src/first.log", "src/second.log"]));
    assert_eq!(told["revises"], true, "{told}");
    let files = std::fs::read_to_string(day.file("starts.files")).unwrap();
    assert_eq!(files, "a.txt\nb.txt\nkept.txt\n");
}

#[test]
fn files_that_are_dropped_at_the_terminal_go_back_and_the_agent_is_told() {
    let day = Loop::with(SPRAWLING);
    let words = ["run", "--actor", "scribe", "Write a line"];
    let run = day.yard.program.run(words).within(day.yard.shop());
    let mut terminal = run.set("TERM", "xterm").at_a_terminal();
    terminal.shows("3 files changed").shows("ater?").types("f");
    terminal.shows("were? ").types("*.log");
    terminal.shows("1 file changed").shows("ater?").types("a");
    let (status, seen) = terminal.ends();
    assert_eq!(status.code(), Some(0), "{seen}");
    assert_both_logs_are_dropped(&day);
    let feedback = assignment(&day)["feedback"].clone();
    assert_eq!(feedback[0]["text"], "Leave the dropped files as they were.");
    assert_eq!(day.starts().len(), 2);
    assert_eq!(state(&day.ends(0, &["status", "@"])), "apply/applied");
    assert_eq!(day.yard.read("src/kept.txt"), "more\nmore\n");
    assert!(!day.yard.shop().join("src/first.log").exists());
    assert!(!day.yard.shop().join("src/second.log").exists());
}

#[test]
fn feedback_and_dropped_files_reach_the_agent_and_the_newest_comes_last() {
    let day = Loop::with(SPRAWLING);
    let (plan, _) = day.begun(6);
    let told = assignment(&day);
    assert_eq!(told["goal"], "Write a line");
    assert_eq!(
        (&told["revises"], &told["dropped"]),
        (&false.into(), &json!([]))
    );
    assert_eq!(told["feedback"], json!([]));

    let words = ["revise", &plan, "No logs, please", "--drop", "src/*.log"];
    let said = day.seen(&words);
    assert_eq!(said.code(), Some(6), "{said:?}");
    assert!(said.stdout.contains("1 file changed"), "{said:?}");
    assert_both_logs_are_dropped(&day);
    let feedback = assignment(&day)["feedback"].clone();
    assert_eq!(feedback.as_array().unwrap().len(), 1);
    assert_eq!(feedback[0]["text"], "No logs, please");
    let names = day.seen(&["diff", &plan, "--name-only"]).stdout;
    assert_eq!(names, "src/kept.txt\n");

    // What is not there cannot be dropped, and nothing is sent back over it.
    let said = day.here(&["revise", &plan, "Nor these", "--drop", "*.log"]);
    assert_eq!(said.code(), Some(3), "{said:?}");
    let says = "No change of the plan matches `*.log`.";
    assert!(said.messages().contains(says), "{said:?}");
    assert_eq!(day.starts().len(), 2);

    let said = day.seen(&["revise", &plan, "Shorter"]);
    assert_eq!(said.code(), Some(6), "{said:?}");
    let told = assignment(&day);
    assert_eq!(told["feedback"][0]["text"], "No logs, please");
    assert_eq!(told["feedback"][1]["text"], "Shorter");
    // What was taken out before stays out.
    assert_both_logs_are_dropped(&day);
}
