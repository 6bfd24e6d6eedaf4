//! Sending a result back: what was said of it and which files were dropped reaches whoever goes on with it.

use serde_json::{Value, json};

use crate::daily::{ScriptedAgentEnv, describe_state};

/// Makes three files at first; whenever it is started again it goes on with one that is to stay. It keeps
/// each of its assignments.
const SPRAWLING_AGENT: &str = "#!/bin/sh
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

fn read_assignment(env: &ScriptedAgentEnv) -> Value {
    let text = std::fs::read_to_string(env.tool_path("starts.assignment")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The files were gone before it went on, and it knows.
fn assert_both_logs_are_dropped(env: &ScriptedAgentEnv) {
    let told = read_assignment(env);
    assert_eq!(told["dropped"], json!(["src/first.log", "src/second.log"]));
    assert_eq!(told["revises"], true, "{told}");
    let files = std::fs::read_to_string(env.tool_path("starts.files")).unwrap();
    assert_eq!(files, "a.txt\nb.txt\nkept.txt\n");
}

#[test]
fn files_that_are_dropped_at_the_terminal_go_back_without_an_agent_run() {
    let env = ScriptedAgentEnv::with_script(SPRAWLING_AGENT);
    let words = ["run", "--agent", "scribe", "Write a line"];
    let run = env
        .repo
        .program
        .run(words)
        .with_directory(env.repo.shop_path());
    let mut terminal = run.with_variable("TERM", "xterm").start_on_terminal();
    terminal
        .wait_for_text("3 files ")
        .wait_for_text("ater?")
        .type_line("f");
    terminal.wait_for_text("dropped? ").type_line("*.log");
    terminal
        .wait_for_text("Dropped changes to 2 files")
        .wait_for_text("1 file ")
        .wait_for_text("ater?")
        .type_line("a");
    let (status, seen) = terminal.wait_for_end();
    assert_eq!(status.code(), Some(0), "{seen}");
    assert_eq!(env.read_starts().len(), 1);
    assert_eq!(
        describe_state(&env.run_expecting(0, &["status", "@"])),
        "apply/applied"
    );
    assert_eq!(env.repo.read_file("src/kept.txt"), "more\n");
    assert!(!env.repo.shop_path().join("src/first.log").exists());
    assert!(!env.repo.shop_path().join("src/second.log").exists());
}

#[test]
fn feedback_and_dropped_files_reach_the_agent_and_the_newest_comes_last() {
    let env = ScriptedAgentEnv::with_script(SPRAWLING_AGENT);
    let (plan, _) = env.start_plan(6);
    let told = read_assignment(&env);
    assert_eq!(told["goal"], "Write a line");
    assert_eq!(
        (&told["revises"], &told["dropped"]),
        (&false.into(), &json!([]))
    );
    assert_eq!(told["feedback"], json!([]));

    let words = ["revise", &plan, "No logs, please", "--drop", "src/*.log"];
    let said = env.run_as_person(&words);
    assert_eq!(said.exit_code(), Some(6), "{said:?}");
    assert!(said.stdout.contains("1 file +"), "{said:?}");
    assert_both_logs_are_dropped(&env);
    let feedback = read_assignment(&env)["feedback"].clone();
    assert_eq!(feedback.as_array().unwrap().len(), 1);
    assert_eq!(feedback[0]["text"], "No logs, please");
    let names = env.run_as_person(&["diff", &plan, "--name-only"]).stdout;
    assert_eq!(names, "src/kept.txt\n");

    // What is not there cannot be dropped, and nothing is sent back over it.
    let said = env.run_here(&["revise", &plan, "Nor these", "--drop", "*.log"]);
    assert_eq!(said.exit_code(), Some(3), "{said:?}");
    let says = "No changed path matches `*.log`.";
    assert!(said.messages().contains(says), "{said:?}");
    assert_eq!(env.read_starts().len(), 2);

    let said = env.run_as_person(&["revise", &plan, "Shorter"]);
    assert_eq!(said.exit_code(), Some(6), "{said:?}");
    let told = read_assignment(&env);
    assert_eq!(told["feedback"][0]["text"], "No logs, please");
    assert_eq!(told["feedback"][1]["text"], "Shorter");
    // What was taken out before stays out.
    assert_both_logs_are_dropped(&env);
}
