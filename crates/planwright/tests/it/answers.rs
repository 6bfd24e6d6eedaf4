//! Answers that are true and name what helps.

use serde_json::Value;

use crate::daily::{SCRIBE_SCRIPT, ScriptedAgentEnv, describe_state};
use crate::shop_repository::ShopRepository;

/// For programs as for people, `revise`, `retry` and `answer` have the work done, and say what came of it last.
#[test]
fn revise_and_retry_go_on_for_programs_too() {
    let env = ScriptedAgentEnv::with_script(&format!(
        "{SCRIBE_SCRIPT}if [ -e \"$STARTS.fail\" ]; then rm \"$STARTS.fail\"; exit 1; fi\n"
    ));
    let (plan, _) = env.start_plan(6);
    let said = env.run_here(&["revise", &plan, "Once more"]);
    assert_eq!(said.exit_code(), Some(6), "{said:?}");
    assert_eq!(env.read_starts().len(), 2);
    let lines: Vec<Value> = said
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(lines.len() > 1, "how it goes is told: {said:?}");
    let last = lines.last().unwrap();
    assert_eq!(last["command"], "revise");
    assert_eq!(last["exit_code"], 6);
    assert_eq!(describe_state(&last["data"]), "execute/complete");
    // Left to a worker if that is wanted.
    env.run_expecting(0, &["revise", &plan, "--detach", "And again"]);
    assert_eq!(env.read_starts().len(), 2);
    std::fs::write(env.tool_path("starts.fail"), "").unwrap();
    env.run_expecting(7, &["run", &plan]);
    let data = env.run_expecting(6, &["retry", &plan]);
    assert_eq!(describe_state(&data), "execute/complete");
    assert_eq!(env.read_starts().len(), 4);
}

/// A plan on a directory starts from all that is in it.
#[test]
fn nothing_of_a_directory_is_said_to_be_invisible() {
    let repo = ShopRepository::new();
    let notes = repo.shop_path().join("../notes");
    std::fs::create_dir(&notes).unwrap();
    std::fs::write(notes.join("todo.txt"), "milk\n").unwrap();
    std::fs::write(notes.join("more.txt"), "tea\n").unwrap();
    repo.run_ok(&[
        "project",
        "create",
        "notes",
        "--dir",
        notes.to_str().unwrap(),
    ]);
    for times in 0..2 {
        let said = repo.run(&["use", "tidy", "notes"]);
        assert_eq!(said.exit_code(), Some(0), "{said:?}");
        let messages = said.messages();
        assert!(!messages.contains("uncommitted"), "{times}: {messages}");
        assert!(!messages.contains("not committed"), "{times}: {messages}");
    }
}

/// A branch can be named as git names it in full.
#[test]
fn a_new_branch_can_be_named_in_full() {
    let repo = ShopRepository::new();
    let plan = repo.submit_usual_change();
    repo.run_ok(&["apply", &plan, "--yes", "--as", "branch", "refs/heads/side"]);
    assert_eq!(
        repo.run_git(&["for-each-ref", "--format=%(refname)", "refs/heads"]),
        "refs/heads/main\nrefs/heads/side"
    );
    let plan = repo.submit_usual_change();
    for name in ["refs/tags/v1", "refs/remotes/origin/main"] {
        let words = ["apply", plan.as_str(), "--yes", "--as", "branch", name];
        repo.run_bad(2, &words, "is not a branch");
    }
    // A project's target as well.
    let path = repo.shop_path().to_str().unwrap().to_owned();
    let words = [
        "project",
        "create",
        "full",
        "--git",
        &path,
        "--branch",
        "refs/heads/side",
    ];
    let made = repo.run_ok(&words);
    assert!(made.to_string().contains("refs/heads/side"), "{made}");
    assert!(!made.to_string().contains("refs/heads/refs"), "{made}");
}

#[test]
fn a_path_with_a_line_break_is_refused_for_that_reason() {
    let repo = ShopRepository::new();
    let odd = repo.clone_repository("line\nbreak");
    let says = "has a line break in its path";
    repo.run_bad(4, &["project", "create", "odd", "--git", &odd], says);
    let said = repo
        .program
        .run(["--format", "json", "run", "--agent", "bot", "Do it now"])
        .with_directory(&odd)
        .finish();
    assert_eq!(said.exit_code(), Some(4), "{said:?}");
    assert!(said.messages().contains(says), "{said:?}");
}

/// The branch that a plan lands on was deleted: what is offered brings it back.
#[test]
fn a_deleted_target_branch_is_named_and_can_be_made_again() {
    let repo = ShopRepository::new();
    repo.run_git(&["checkout", "-q", "-b", "feat"]);
    let path = repo.shop_path().to_str().unwrap().to_owned();
    let words = [
        "project", "create", "feat", "--git", &path, "--branch", "feat",
    ];
    repo.run_ok(&words);
    let plan = repo.submit_plan_on("feat", |sandbox| {
        std::fs::write(sandbox.join("new.txt"), "new\n").unwrap();
    });
    repo.run_git(&["checkout", "-q", "main"]);
    repo.run_git(&["branch", "-q", "-D", "feat"]);
    for form in [&[][..], &["--as", "branch", "side"]] {
        let words = [&["apply", plan.as_str(), "--yes"], form].concat();
        let said = repo.run_bad(3, &words, "which the plan lands on, no longer exists in");
        let messages = said.messages();
        assert!(!messages.contains("name another"), "{messages}");
        assert!(messages.contains("git -C "), "{messages}");
    }
    let said = repo.run(&["apply", &plan, "--yes"]).messages();
    let (_, command) = said.split_once("started from: git -C ").unwrap();
    let words: Vec<&str> = command.lines().next().unwrap().split(' ').collect();
    repo.run_git(&words[1..]);
    repo.run_ok(&["apply", &plan, "--yes"]);
    assert_eq!(repo.run_git(&["show", "feat:new.txt"]), "new");
}

/// Names that some systems take for `.git` are no result, and said to be none.
#[test]
fn a_name_that_git_refuses_is_named() {
    for name in [".GIT", "git~1", "sub/.Git", ".git ."] {
        let repo = ShopRepository::new();
        let (plan, sandbox) = repo.plan_in_execute();
        std::fs::create_dir(sandbox.join("sub")).unwrap();
        std::fs::write(sandbox.join(name), "no\n").unwrap();
        let said = repo.run(&["plumbing", "complete-execute", &plan, "--epoch", "2"]);
        assert_eq!(said.exit_code(), Some(4), "{name}: {said:?}");
        let messages = said.messages();
        assert!(
            messages.contains(&format!("{name} cannot be part")),
            "{messages}"
        );
        assert!(!messages.contains("git add"), "{messages}");
        // Without it, it is handed in.
        std::fs::remove_file(sandbox.join(name)).unwrap();
        std::fs::write(sandbox.join("new.txt"), "new\n").unwrap();
        repo.run_ok(&["diff", &plan]);
        repo.run_ok(&["plumbing", "complete-execute", &plan, "--epoch", "2"]);
    }
}

#[test]
fn a_full_disk_of_the_repository_is_said_to_be_full() {
    for step in ["objects-copied", "staged"] {
        let repo = ShopRepository::new();
        let plan = repo.submit_usual_change();
        let words = ["--format", "json", "apply", &plan, "--yes"];
        let run = repo.program.run(words);
        let said = run
            .with_variable("PLANWRIGHT_FAULT", format!("step:{step}:fail"))
            .finish();
        assert_eq!(said.exit_code(), Some(1), "{step}: {said:?}");
        let messages = said.messages();
        assert!(messages.contains("no space left at"), "{messages}");
        assert!(messages.contains("Free some space"), "{messages}");
        repo.run_ok(&["apply", &plan, "--yes"]);
        repo.assert_tidy();
    }
}
