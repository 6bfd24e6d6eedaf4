//! A path that was in conflict and still has any of its marks is no result, whoever hands it in.

use serde_json::Value;

use crate::daily::{ScriptedAgentEnv, describe_state, wait_for};

/// Changes the last line at first; sent back, it solves the conflict with the program it is given.
fn with_conflict(text: &str, theirs: &str, solve: &str) -> (ScriptedAgentEnv, String) {
    let env = ScriptedAgentEnv::with_script(&format!(
        "#!/bin/sh
set -e
if grep -q '\"revises\": *true' \"$PLANWRIGHT_ASSIGNMENT\"; then
  {solve}
else
  sed -i 's/^six$/SIX/' src/a.txt
fi
"
    ));
    env.repo.write_file("src/a.txt", text);
    env.repo.run_git(&["add", "-A"]);
    env.repo
        .run_git(&["commit", "-q", "--allow-empty", "-m", "as it was"]);
    let (plan, _) = env.start_plan(6);
    env.repo.write_file("src/a.txt", theirs);
    env.repo.commit_all("same line");
    env.run_expecting(4, &["apply", &plan, "--yes"]);
    (env, plan)
}

const BASE_TEXT: &str = "one\ntwo\nthree\nfour\nfive\nsix\n";
const THEIR_TEXT: &str = "one\ntwo\nthree\nfour\nfive\n6\n";

fn revise_plan(env: &ScriptedAgentEnv, plan: &str, code: i32) -> Value {
    let said = env.run_as_person(&["revise", plan, "solve it"]);
    assert_eq!(said.exit_code(), Some(code), "{said:?}");
    env.run_expecting(0, &["status", plan])
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
        let (env, plan) = with_conflict(BASE_TEXT, THEIR_TEXT, solve);
        let data = revise_plan(&env, &plan, 7);
        assert_eq!(describe_state(&data), "execute/errored", "{solve}");
        assert_eq!(data["error"]["category"], "actor", "{solve}");
        let says = data["error"]["message"].as_str().unwrap();
        let expected = format!("{named} cannot be part of the result: conflict markers remain");
        assert!(says.starts_with(&expected), "{solve}: {says}");
    }
}

#[test]
fn lines_that_look_like_marks_and_were_there_before_are_none() {
    let heading = "Shop\n=======\n";
    let solve = "sed -i '/^<<<<<<< /d; /^>>>>>>> /d; /^=======$/d' src/a.txt
  sed -i '1a =======' src/a.txt";
    let (text, theirs) = (
        format!("{heading}{BASE_TEXT}"),
        format!("{heading}{THEIR_TEXT}"),
    );
    let (env, plan) = with_conflict(&text, &theirs, solve);
    let data = revise_plan(&env, &plan, 6);
    assert_eq!(describe_state(&data), "execute/complete");
    env.run_expecting(0, &["apply", &plan, "--yes"]);
    assert!(env.repo.read_file("src/a.txt").starts_with(heading));
}

#[test]
fn a_person_may_allow_the_marks() {
    let (env, plan) = with_conflict(BASE_TEXT, THEIR_TEXT, "sed -i '/^[<>]/d' src/a.txt");
    revise_plan(&env, &plan, 7);
    let visit = |words: &[&str]| {
        let run = env.repo.program.run(words.to_vec());
        run.with_variable("SHELL", "/bin/sh")
            .with_input("true\n")
            .finish()
    };
    let by_hand = ["revise", &plan, "as it is", "--by-hand"];
    let said = visit(&by_hand);
    assert_eq!(said.exit_code(), Some(4), "{said:?}");
    assert!(said.stderr.contains("--allow-markers"), "{said:?}");
    let shell = env.run_as_person(&["revise", &plan, "x", "--allow-markers"]);
    assert_eq!(shell.exit_code(), Some(2), "only by hand: {shell:?}");
    env.run_expecting(0, &["plumbing", "start-execute", &plan, "--owner", "ada"]);
    let epoch = env.run_expecting(0, &["status", &plan])["epoch"].to_string();
    let complete = ["plumbing", "complete-execute", &plan, "--epoch", &epoch];
    env.run_expecting(4, &complete);
    env.run_expecting(0, &[&complete[..], &["--allow-markers"]].concat());
    env.run_expecting(0, &["apply", &plan, "--yes"]);
    assert!(env.repo.read_file("src/a.txt").contains("=======\n"));
}

/// Earlier versions did not look for markers when a result was submitted.
#[test]
fn a_result_that_was_submitted_with_marks_does_not_land() {
    let solve = "while [ ! -e \"$STARTS.go\" ]; do sleep 0.05; done; sed -i '/^[<>]/d' src/a.txt";
    let (env, plan) = with_conflict(BASE_TEXT, THEIR_TEXT, solve);
    let record = find_record(&env.repo.program.home().join("vaults").join(&plan));
    let aside = record.with_extension("aside");
    let revising = env.repo.program.run(["revise", &plan, "solve it"]);
    let revising = revising.with_directory(env.repo.shop_path()).start();
    // It is written when the sandbox is merged, before the agent starts.
    wait_for("the conflict is recorded", || record.exists());
    std::fs::rename(&record, &aside).unwrap();
    std::fs::write(env.tool_path("starts.go"), "").unwrap();
    let said = revising.finish();
    assert_eq!(said.exit_code(), Some(6), "{said:?}");
    std::fs::rename(&aside, &record).unwrap();
    for words in [
        &["apply", &plan, "--yes"][..],
        &["apply", &plan, "--yes", "--as", "branch", "marked"],
        &["apply", &plan, "--yes", "--as", "uncommitted"],
    ] {
        let said = env.run_here(words);
        assert_eq!(said.exit_code(), Some(4), "{said:?}");
        let says = said.messages();
        assert!(says.contains("src/a.txt"), "{says}");
        assert!(says.contains("conflict markers"), "{says}");
    }
    assert_eq!(env.repo.read_file("src/a.txt"), THEIR_TEXT);
    // A person may keep them.
    let run = env
        .repo
        .program
        .run(["revise", &plan, "as it is", "--by-hand", "--allow-markers"]);
    let run = run
        .with_variable("SHELL", "/bin/sh")
        .with_input("echo >> src/b.txt\n");
    let said = run.finish();
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    env.run_expecting(0, &["apply", &plan, "--yes"]);
    assert!(env.repo.read_file("src/a.txt").contains("=======\n"));
}

/// Where the vault of a plan records conflicts.
fn find_record(vaults: &std::path::Path) -> std::path::PathBuf {
    let mut vaults = std::fs::read_dir(vaults).unwrap();
    vaults
        .next()
        .unwrap()
        .unwrap()
        .path()
        .join("conflicts.json")
}
