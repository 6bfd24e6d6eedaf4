//! A change travels from a sandbox into a repository, and back.

use sandbox::SandboxStep;
use serde_json::Value;

use crate::daily::wait_for;
use crate::many_workers::list_sandboxes;
use crate::shop_repository::ShopRepository;

#[test]
fn a_change_travels_into_the_repository_and_back() {
    let repo = ShopRepository::new();
    let plan = repo.submit_usual_change();
    let start = repo.run_git(&["rev-parse", "HEAD"]);
    let diff = repo.run_ok(&["diff", &plan]);
    let files = diff["resources"][0]["files"].as_array().unwrap();
    let paths: Vec<&str> = files
        .iter()
        .map(|file| file["path"].as_str().unwrap())
        .collect();
    assert_eq!(paths, ["new.txt", "src/a.txt"]);
    assert_eq!(diff["resources"][0]["insertions"], 2);
    // Nobody can be asked without a terminal, and nothing happens unasked.
    repo.run_bad(6, &["apply", &plan], "no terminal");
    assert_eq!(repo.run_git(&["rev-parse", "HEAD"]), start);
    repo.run_ok(&["apply", &plan, "--yes"]);
    assert_eq!(repo.plan_state(&plan), "apply/applied");
    assert_eq!(repo.run_git(&["rev-parse", "HEAD^"]), start);
    assert_eq!(repo.read_file("new.txt"), "new\n");
    repo.assert_tidy();
    let said = repo.run_git(&[
        "log",
        "-1",
        "--format=%an|%s|%(trailers:key=Planwright-Plan,valueonly)",
    ]);
    assert_eq!(said, format!("Ada|Tidy the shop|{plan}"));
    // And the log says what landed where, and how.
    let commit = repo.run_git(&["rev-parse", "--short=10", "HEAD"]);
    let log = repo.program.run(["log", &plan]).finish().stdout;
    assert!(log.contains("as one commit: "), "{log}");
    assert!(
        log.contains(&format!(": {commit} on main of shop\n")),
        "{log}"
    );
    // Landing again is refused, and lands nothing.
    repo.run_bad(4, &["apply", &plan, "--yes"], "applied");
    assert_eq!(repo.run_git(&["rev-list", "--count", "HEAD"]), "2");
    // The person goes on; undoing leaves their work alone.
    repo.write_file("src/b.txt", "alpha\nBETA\n");
    repo.commit_all("by hand");
    let undone = repo.run_ok(&["undo", &plan, "--yes"]);
    assert_eq!(undone["origin"]["kind"], "undo_of");
    assert!(repo.read_file("src/a.txt").ends_with("five\nsix\n"));
    assert!(!repo.shop_path().join("new.txt").exists());
    assert_eq!(repo.read_file("src/b.txt"), "alpha\nBETA\n");
    repo.assert_tidy();
    // And an undo can be undone.
    let undo = undone["plan_id"].as_str().unwrap();
    repo.run_ok(&["undo", undo, "--yes"]);
    assert!(repo.read_file("src/a.txt").ends_with("five\nSIX\n"));
    assert_eq!(repo.read_file("src/b.txt"), "alpha\nBETA\n");
    repo.assert_tidy();
}

/// G7: killed after every step of landing, by SIGKILL, and then told to land again.
#[test]
fn apply_can_be_killed_anywhere_and_repeating_it_lands_exactly_once() {
    let first = SandboxStep::ALL
        .iter()
        .position(|step| *step == SandboxStep::Fenced)
        .unwrap();
    let last = SandboxStep::ALL
        .iter()
        .position(|step| *step == SandboxStep::Unpinned)
        .unwrap();
    for step in &SandboxStep::ALL[first..=last] {
        let repo = ShopRepository::new();
        let plan = repo.submit_usual_change();
        repo.run_killed_at(step.as_str(), &["apply", &plan, "--yes"]);
        let text = repo.read_file("src/a.txt");
        assert!(
            text.ends_with("five\nsix\n") || text.ends_with("five\nSIX\n"),
            "{step:?}: {text:?}"
        );
        if repo.plan_state(&plan) != "apply/applied" {
            repo.run_ok(&["apply", &plan, "--yes"]);
        }
        assert_eq!(repo.plan_state(&plan), "apply/applied", "{step:?}");
        assert_eq!(
            repo.run_git(&["rev-list", "--count", "HEAD"]),
            "2",
            "{step:?}"
        );
        assert!(
            repo.read_file("src/a.txt").ends_with("five\nSIX\n"),
            "{step:?}"
        );
        assert_eq!(repo.read_file("new.txt"), "new\n", "{step:?}");
        assert_eq!(repo.run_git(&["status", "--porcelain"]), "", "{step:?}");
        assert!(
            !repo.shop_path().join(".git/index.lock").exists(),
            "{step:?}"
        );
        assert!(
            !repo.shop_path().join(".git/planwright").exists(),
            "{step:?}"
        );
    }
}

#[test]
fn using_a_paused_project_says_that_nothing_will_start() {
    let repo = ShopRepository::new();
    repo.run_ok(&["project", "pause", "shop"]);
    let said = repo.run(&["use", "tidy", "shop"]);
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    let messages = said.messages();
    assert!(messages.contains("shop is paused"), "{messages}");
    assert!(
        messages.contains("planwright project resume shop"),
        "{messages}"
    );
    repo.run_ok(&["project", "resume", "shop"]);
    assert!(
        !repo
            .run(&["use", "tidy", "shop"])
            .messages()
            .contains("paused")
    );
}

#[test]
fn past_the_point_of_no_return_there_is_no_way_back() {
    let repo = ShopRepository::new();
    let plan = repo.submit_usual_change();
    repo.run_killed_at("ref-moved", &["apply", &plan, "--yes"]);
    repo.run_bad(4, &["cancel", &plan], "");
    repo.run_bad(4, &["revert", &plan, "--reason", "no"], "");
    repo.run_bad(4, &["revise", &plan, "better"], "");
    repo.run_ok(&["apply", &plan]);
    assert_eq!(repo.plan_state(&plan), "apply/applied");
    repo.assert_tidy();
}

/// Guards against answering with the failure of lost tries: whoever asks for the landing asks for another one.
#[test]
fn a_landing_that_was_killed_as_often_as_it_may_be_tried_lands_when_asked_again() {
    let repo = ShopRepository::new();
    let plan = repo.submit_usual_change();
    for _ in 0..3 {
        repo.run_killed_at("fenced", &["apply", &plan, "--yes"]);
    }
    repo.run_ok(&["apply", &plan, "--yes"]);
    assert_eq!(repo.plan_state(&plan), "apply/applied");
    repo.assert_tidy();
}

#[test]
fn a_full_disk_while_landing_leaves_the_plan_ready_to_land_again() {
    for step in ["objects-copied", "staged", "ref-moved", "all-exchanged"] {
        let repo = ShopRepository::new();
        let plan = repo.submit_usual_change();
        let run = repo
            .program
            .run(["--format", "json", "apply", &plan, "--yes"])
            .with_variable("PLANWRIGHT_FAULT", format!("step:{step}:fail"));
        let said = run.finish();
        assert_eq!(said.exit_code(), Some(1), "{step}: {said:?}");
        repo.run_ok(&["apply", &plan, "--yes"]);
        assert_eq!(
            repo.run_git(&["rev-list", "--count", "HEAD"]),
            "2",
            "{step}"
        );
        repo.assert_tidy();
    }
}

#[test]
fn two_applies_at_once_land_once() {
    let repo = ShopRepository::new();
    let plan = repo.submit_usual_change();
    let words = ["--format", "json", "apply", plan.as_str(), "--yes"];
    let running: Vec<_> = (0..4).map(|_| repo.program.run(words).start()).collect();
    let codes: Vec<_> = running
        .into_iter()
        .map(|one| one.finish().exit_code().unwrap())
        .collect();
    // Whoever came while another landed it learns that; who came after that, that it had landed before.
    assert!(codes.contains(&0), "{codes:?}");
    assert!(codes.iter().all(|code| [0, 4].contains(code)), "{codes:?}");
    assert_eq!(repo.run_git(&["rev-list", "--count", "HEAD"]), "2");
    repo.assert_tidy();
}

#[test]
fn plans_and_a_person_into_one_branch_at_once() {
    let repo = ShopRepository::new();
    let plans: Vec<String> = (0..4)
        .map(|number| {
            repo.submit_plan(|sandbox| {
                let path = sandbox.join(format!("made/{number}.txt"));
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, format!("{number}\n")).unwrap();
            })
        })
        .collect();
    let running: Vec<_> = plans
        .iter()
        .map(|plan| {
            let words = ["--format", "json", "apply", plan.as_str(), "--yes"];
            repo.program.run(words).start()
        })
        .collect();
    for number in 0..3 {
        let text = format!("{number}\n");
        std::fs::write(repo.shop_path().join("person.txt"), text).unwrap();
        // Their git may meet ours at the index for a moment, as any two gits may.
        while std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            repo.run_git(&["add", "person.txt"]);
            repo.run_git(&["commit", "-q", "-m", "person", "--only", "person.txt"]);
        }))
        .is_err()
        {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
    for one in running {
        let said = one.finish();
        assert_eq!(said.exit_code(), Some(0), "{said:?}");
    }
    for number in 0..4 {
        assert_eq!(
            repo.read_file(&format!("made/{number}.txt")),
            format!("{number}\n")
        );
    }
    assert_eq!(repo.read_file("person.txt"), "2\n");
    assert_eq!(repo.run_git(&["rev-list", "--count", "HEAD"]), "8");
    repo.assert_tidy();
}

#[test]
fn a_conflict_touches_nothing_and_is_solved_on_top_of_the_target() {
    let repo = ShopRepository::new();
    let plan = repo.submit_usual_change();
    repo.write_file("src/a.txt", "one\ntwo\nthree\nfour\nfive\n6\n");
    repo.commit_all("same line");
    let before = repo.run_git(&["rev-parse", "HEAD"]);
    let said = repo.run_bad(4, &["apply", &plan, "--yes"], "changed the same lines");
    assert!(said.messages().contains("src/a.txt"), "{said:?}");
    assert_eq!(repo.plan_state(&plan), "apply/constrained");
    assert_eq!(repo.run_git(&["rev-parse", "HEAD"]), before);
    assert_eq!(repo.run_git(&["status", "--porcelain"]), "");
    repo.run_ok(&["revise", &plan, "keep both"]);
    let claimed = repo.run_ok(&["plumbing", "start-execute", &plan, "--owner", "bot"]);
    let path = claimed["sandboxes"][0]["path"].as_str().unwrap();
    let path = std::path::Path::new(path);
    let text = std::fs::read_to_string(path.join("src/a.txt")).unwrap();
    assert!(text.contains("<<<<<<<") && text.contains("SIX") && text.contains("\n6\n"));
    assert_eq!(
        std::fs::read_to_string(path.join("new.txt")).unwrap(),
        "new\n"
    );
    std::fs::write(
        path.join("src/a.txt"),
        "one\ntwo\nthree\nfour\nfive\nboth\n",
    )
    .unwrap();
    let epoch = claimed["epoch"].to_string();
    repo.run_ok(&["plumbing", "complete-execute", &plan, "--epoch", &epoch]);
    repo.run_ok(&["apply", &plan, "--yes"]);
    assert!(repo.read_file("src/a.txt").ends_with("both\n"));
    repo.assert_tidy();
}

#[test]
fn local_edits_stop_it_and_committing_them_lets_it_go_on() {
    let repo = ShopRepository::new();
    let plan = repo.submit_usual_change();
    repo.write_file("src/a.txt", "mine\ntwo\nthree\nfour\nfive\nsix\n");
    repo.write_file("src/b.txt", "elsewhere\n");
    repo.run_bad(4, &["apply", &plan, "--yes"], "local edits");
    assert!(repo.read_file("src/a.txt").starts_with("mine"));
    repo.run_git(&["commit", "-q", "-m", "mine", "--only", "src/a.txt"]);
    repo.run_ok(&["apply", &plan, "--yes"]);
    assert_eq!(
        repo.read_file("src/a.txt"),
        "mine\ntwo\nthree\nfour\nfive\nSIX\n"
    );
    assert_eq!(repo.read_file("src/b.txt"), "elsewhere\n");
    assert_eq!(repo.run_git(&["status", "--porcelain"]), "M src/b.txt");
}

#[test]
fn dropped_paths_go_back_when_it_is_sent_back() {
    let repo = ShopRepository::new();
    let plan = repo.submit_usual_change();
    repo.run_ok(&["revise", &plan, "without the new file", "--drop", "new.txt"]);
    let claimed = repo.run_ok(&["plumbing", "start-execute", &plan, "--owner", "bot"]);
    let path = claimed["sandboxes"][0]["path"].as_str().unwrap();
    assert!(!std::path::Path::new(path).join("new.txt").exists());
    let epoch = claimed["epoch"].to_string();
    repo.run_ok(&["plumbing", "complete-execute", &plan, "--epoch", &epoch]);
    repo.run_ok(&["apply", &plan, "--yes"]);
    assert!(!repo.shop_path().join("new.txt").exists());
    assert!(repo.read_file("src/a.txt").ends_with("SIX\n"));
}

#[test]
fn some_paths_land_and_the_rest_becomes_a_plan() {
    let repo = ShopRepository::new();
    let plan = repo.submit_usual_change();
    let landed = repo.run_ok(&["apply", &plan, "--yes", "--", "new.txt"]);
    assert_eq!(repo.read_file("new.txt"), "new\n");
    assert!(repo.read_file("src/a.txt").ends_with("six\n"));
    let rest = landed["rest"].as_str().unwrap();
    assert_eq!(repo.plan_state(rest), "execute/complete");
    repo.run_ok(&["apply", rest, "--yes"]);
    assert!(repo.read_file("src/a.txt").ends_with("SIX\n"));
    assert_eq!(repo.run_git(&["rev-list", "--count", "HEAD"]), "3");
    repo.assert_tidy();
    let plan = repo.submit_another_change();
    repo.run_bad(3, &["apply", &plan, "--yes", "--", "nowhere"], "nowhere");
}

#[test]
fn as_a_branch_or_uncommitted() {
    let repo = ShopRepository::new();
    let plan = repo.submit_usual_change();
    repo.run_ok(&["apply", &plan, "--yes", "--as", "branch", "plans/tidy"]);
    assert_eq!(repo.run_git(&["show", "plans/tidy:new.txt"]), "new");
    assert!(!repo.shop_path().join("new.txt").exists());
    repo.run_bad(4, &["undo", &plan, "--yes"], "on its own branch");
    let plan = repo.submit_usual_change();
    repo.run_ok(&["apply", &plan, "--yes", "--as", "uncommitted"]);
    assert_eq!(repo.run_git(&["rev-list", "--count", "HEAD"]), "1");
    assert_eq!(
        repo.run_git(&["status", "--porcelain"]),
        "M src/a.txt\n?? new.txt"
    );
    repo.run_ok(&["undo", &plan, "--yes"]);
    assert_eq!(repo.run_git(&["status", "--porcelain"]), "");
    let plan = repo.submit_usual_change();
    repo.run_bad(
        2,
        &["apply", &plan, "--yes", "--as", "branch"],
        "Name the new branch",
    );
    repo.run_bad(
        2,
        &["apply", &plan, "--yes", "--as", "magic"],
        "Unknown --as value",
    );
}

/// G10: an agent that did nothing has not succeeded.
#[test]
fn an_empty_result_is_refused_unless_it_is_allowed() {
    let repo = ShopRepository::new();
    let (plan, _) = repo.plan_in_execute();
    let complete = ["plumbing", "complete-execute", &plan, "--epoch", "2"];
    repo.run_bad(4, &complete, "");
    assert_eq!(repo.plan_state(&plan), "execute/processing");
    let words = [&complete[..], &["--allow-empty"]].concat();
    repo.run_ok(&words);
    repo.run_bad(4, &["apply", &plan, "--yes"], "already");
    assert_eq!(repo.run_git(&["rev-list", "--count", "HEAD"]), "1");
}

/// G9: cleaning up keeps what did not land.
#[test]
fn cleaning_up_keeps_what_did_not_land() {
    let repo = ShopRepository::new();
    let plan = repo.submit_usual_change();
    let (busy, _) = repo.plan_in_execute();
    repo.run_bad(4, &["sandbox", "clean", &busy], "not finished");
    repo.run_ok(&["cancel", &plan]);
    let cleaned = repo.run_ok(&["sandbox", "clean"]);
    let kept = &cleaned["cleaned"][0]["kept"][0];
    let name = kept["ref"].as_str().unwrap();
    assert_eq!(repo.run_git(&["show", &format!("{name}:new.txt")]), "new");
    repo.run_bad(3, &["path", &plan], "no sandbox");
    let restored = repo.run_ok(&["sandbox", "restore", &plan]);
    let path = restored["sandboxes"][0]["path"].as_str().unwrap();
    let text = std::fs::read_to_string(std::path::Path::new(path).join("new.txt")).unwrap();
    assert_eq!(text, "new\n");
    assert!(
        !repo.run_ok(&["path", &busy])["sandboxes"]
            .as_array()
            .unwrap()
            .is_empty()
    );
}

#[test]
fn a_landed_change_that_somebody_took_out_is_asked_about() {
    for (word, count) in [("landed", "1"), ("again", "2")] {
        let repo = ShopRepository::new();
        let plan = repo.submit_usual_change();
        repo.run_killed_at("ref-moved", &["apply", &plan, "--yes"]);
        repo.run_git(&["update-ref", "refs/heads/main", "HEAD~1"]);
        std::fs::remove_file(repo.shop_path().join(".git/index.lock")).unwrap();
        repo.run_git(&["reset", "-q", "--hard"]);
        repo.run_bad(6, &["apply", &plan], "removed afterwards");
        repo.run_ok(&["answer", &plan, word]);
        repo.run_ok(&["apply", &plan, "--yes"]);
        assert_eq!(repo.plan_state(&plan), "apply/applied");
        assert_eq!(
            repo.run_git(&["rev-list", "--count", "HEAD"]),
            count,
            "{word}"
        );
    }
}

#[test]
fn doctor_finds_and_finishes_what_a_crash_left() {
    for step in ["ref-moved", "some-exchanged", "index-refreshed", "unlocked"] {
        let repo = ShopRepository::new();
        let plan = repo.submit_usual_change();
        repo.run_killed_at(step, &["apply", &plan, "--yes"]);
        let said = repo.run(&["doctor"]);
        assert_eq!(said.exit_code(), Some(1), "{step}: {said:?}");
        assert!(
            said.stdout.contains("left unfinished by a crash"),
            "{said:?}"
        );
        let overview = repo.run_ok(&[]);
        assert_eq!(overview["unfinished_landings"][0], plan.as_str(), "{step}");
        let shown = repo.program.run([] as [&str; 0]).finish().stdout;
        assert!(shown.contains("planwright apply "), "{shown}");
        repo.run_ok(&["doctor", "--fix"]);
        assert_eq!(repo.run_ok(&[])["unfinished_landings"][0], Value::Null);
        assert_eq!(repo.plan_state(&plan), "apply/applied", "{step}");
        repo.assert_tidy();
        repo.run_ok(&["doctor"]);
    }
}

/// The repository says how it wants to be worked on; what it says at use is frozen.
#[test]
fn a_sandbox_is_made_ready_as_the_repository_says() {
    let repo = ShopRepository::new();
    repo.write_file(".gitignore", ".env\nbuilt/\ncache/\n");
    let file = "sandbox:\n  setup: mkdir built && echo once >> built/log\n  include: [.env]\napply:\n  as: uncommitted\n";
    repo.write_file("planwright.yaml", file);
    repo.write_file(".worktreeinclude", "cache/\n");
    repo.commit_all("ways");
    repo.write_file(".env", "SECRET=1\n");
    repo.write_file("cache/warm", "yes\n");
    let (plan, sandbox) = repo.plan_in_execute();
    let there = |path: &str| std::fs::read_to_string(sandbox.join(path)).unwrap();
    assert_eq!(there(".env"), "SECRET=1\n");
    assert_eq!(there("cache/warm"), "yes\n");
    assert_eq!(
        there("built/log"),
        "once\n",
        "once, though two phases were claimed"
    );
    std::fs::write(sandbox.join("new.txt"), "new\n").unwrap();
    repo.run_ok(&["plumbing", "complete-execute", &plan, "--epoch", "2"]);
    let diff = repo.run_ok(&["diff", &plan]);
    assert_eq!(diff["resources"][0]["files"].as_array().unwrap().len(), 1);
    repo.run_ok(&["apply", &plan, "--yes"]);
    assert_eq!(repo.run_git(&["status", "--porcelain"]), "?? new.txt");
    // What is wrong with the file is said where it stands, and nothing is stored.
    repo.write_file("planwright.yaml", "sandbox:\n  setpu: x\n");
    let said = repo.run(&["use", "tidy", "shop"]);
    assert_eq!(said.exit_code(), Some(1), "{said:?}");
    assert!(said.messages().contains("did you mean `setup`"), "{said:?}");
    // A set-up that fails halts the plan with the end of what it said.
    repo.write_file(
        "planwright.yaml",
        "sandbox:\n  setup: echo no such luck; exit 3\n",
    );
    let made = repo.run_ok(&["use", "tidy", "shop"]);
    let plan = made["plan_id"].as_str().unwrap();
    let start = ["plumbing", "start-strategize", plan, "--owner", "bot"];
    repo.run_bad(1, &start, "no such luck");
    assert_eq!(repo.plan_state(plan), "strategize/errored");
}

/// A person enters the sandbox, changes something and leaves: that is their version, handed in.
#[test]
fn changes_that_a_person_makes_in_a_shell_are_submitted() {
    let repo = ShopRepository::new();
    let plan = repo.submit_usual_change();
    let visit = |script: &str| {
        let run = repo.program.run(["shell", plan.as_str()]);
        run.with_variable("SHELL", "/bin/sh")
            .with_input(script)
            .finish()
    };
    let said = visit("git status > /dev/null; exit 3\n");
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    assert!(said.stdout.contains("No changes"), "{said:?}");
    let said = visit("echo mine > by-hand.txt\n");
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    assert!(said.stdout.contains("3 changed files"), "{said:?}");
    repo.run_ok(&["apply", &plan, "--yes"]);
    assert_eq!(repo.read_file("by-hand.txt"), "mine\n");
    assert_eq!(repo.read_file("new.txt"), "new\n");
    repo.run_bad(3, &["path", &plan], "no sandbox");
}

/// A wish that cannot be granted is refused before anything is signed, and another can be made.
#[test]
fn a_wish_that_cannot_be_granted_leaves_the_plan_as_it_was() {
    let repo = ShopRepository::new();
    let plan = repo.submit_usual_change();
    repo.run_bad(3, &["apply", &plan, "--yes", "--", "nowhere"], "nowhere");
    repo.run_bad(
        2,
        &["apply", &plan, "--yes", "--as", "branch", "bad name"],
        "not a valid branch name",
    );
    repo.run_bad(
        4,
        &["apply", &plan, "--yes", "--as", "branch", "main"],
        "already",
    );
    assert_eq!(repo.plan_state(&plan), "execute/complete");
    // What was signed is what lands when nothing else is said.
    repo.run_ok(&["approve", &plan, "--as", "branch", "aside"]);
    repo.run_bad(4, &["undo", &plan, "--yes"], "execute/complete");
    repo.run_ok(&["apply", &plan, "--yes"]);
    assert_eq!(repo.run_git(&["show", "aside:new.txt"]), "new");
    assert_eq!(repo.run_git(&["rev-list", "--count", "main"]), "1");
}

#[test]
fn the_marks_of_a_conflict_do_not_land() {
    let repo = ShopRepository::new();
    let plan = repo.submit_usual_change();
    repo.write_file("src/a.txt", "one\ntwo\nthree\nfour\nfive\n6\n");
    repo.commit_all("same line");
    repo.run_bad(4, &["apply", &plan, "--yes"], "changed the same lines");
    repo.run_ok(&["revise", &plan, "solve it"]);
    let claimed = repo.run_ok(&["plumbing", "start-execute", &plan, "--owner", "bot"]);
    let epoch = claimed["epoch"].to_string();
    let complete = ["plumbing", "complete-execute", &plan, "--epoch", &epoch];
    repo.run_bad(4, &complete, "conflict markers remain");
    let path = claimed["sandboxes"][0]["path"].as_str().unwrap();
    let file = std::path::Path::new(path).join("src/a.txt");
    std::fs::write(file, "one\ntwo\nthree\nfour\nfive\nboth\n").unwrap();
    repo.run_ok(&complete);
}

#[test]
fn repeating_under_a_key_gives_the_same_answer() {
    let repo = ShopRepository::new();
    let plan = repo.submit_usual_change();
    let apply = ["apply", &plan, "--yes", "--idempotency-key", "a"];
    repo.run_ok(&apply);
    assert_eq!(repo.run_ok(&apply)["standing"], "landed");
    let undo = ["undo", &plan, "--yes", "--idempotency-key", "u"];
    let first = repo.run_ok(&undo)["plan_id"].clone();
    assert_eq!(repo.run_ok(&undo)["plan_id"], first);
    assert_eq!(repo.run_git(&["rev-list", "--count", "main"]), "3");
    repo.run_bad(
        4,
        &["apply", &plan, "--yes", "--idempotency-key", "b"],
        "applied",
    );
}

#[test]
fn one_sandbox_that_cannot_be_cleaned_does_not_keep_the_others() {
    let repo = ShopRepository::new();
    let (stuck, sandbox) = repo.plan_in_execute();
    std::fs::create_dir(sandbox.join("nested")).unwrap();
    repo.run_git(&["init", "-q", sandbox.join("nested").to_str().unwrap()]);
    let complete = ["plumbing", "complete-execute", &stuck, "--epoch", "2"];
    repo.run_bad(4, &complete, "a repository of its own");
    repo.run_ok(&["cancel", &stuck]);
    let other = repo.submit_usual_change();
    repo.run_ok(&["cancel", &other]);
    let said = repo.run(&["sandbox", "clean"]);
    assert_eq!(said.exit_code(), Some(1), "{said:?}");
    assert!(
        said.messages().contains("a repository of its own"),
        "{said:?}"
    );
    assert_eq!(said.data()["cleaned"][0]["removed"], true);
    std::fs::remove_dir_all(sandbox.join("nested/.git")).unwrap();
    repo.run_ok(&["sandbox", "clean"]);
    let left = repo.run_git(&["for-each-ref", "--format=%(refname)", "refs/planwright"]);
    assert!(left.lines().all(|name| name.contains("/rescue/")), "{left}");
}

/// A set-up that takes longer than the lease does not lose the plan to somebody else.
#[test]
fn a_lease_is_kept_while_a_sandbox_is_made_ready() {
    let repo = ShopRepository::new();
    let setup = "while ! [ -e go ]; do sleep 0.1; done";
    repo.write_file("planwright.yaml", &format!("sandbox:\n  setup: {setup}\n"));
    let made = repo.run_ok(&["use", "tidy", "shop"]);
    let plan = made["plan_id"].as_str().unwrap();
    let start = ["--format", "json", "plumbing", "start-strategize", plan];
    let lease = ["--owner", "bot", "--lease-seconds", "6"];
    let running = repo.program.run([&start[..], &lease].concat()).start();
    let expires_at = || repo.run_ok(&["status", plan])["lease"]["expires_at"].clone();
    let wait_for_another = |before: &Value| {
        wait_for("the lease is renewed", || {
            let now = expires_at();
            !now.is_null() && now != *before
        });
        expires_at()
    };
    let claimed = wait_for_another(&Value::Null);
    wait_for_another(&claimed);
    repo.run_bad(4, &["plumbing", "reclaim", plan], "");
    let sandboxes = list_sandboxes(&repo, plan);
    std::fs::write(sandboxes[0].join("go"), "").unwrap();
    let said = running.finish();
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
}

#[test]
fn why_tells_what_keeps_a_plan_from_landing_or_starting() {
    let repo = ShopRepository::new();
    let plan = repo.submit_usual_change();
    repo.write_file("src/a.txt", "mine\n");
    repo.run_bad(4, &["apply", &plan, "--yes"], "local edits");
    let why = repo.run_ok(&["why", &plan]);
    let reasons = why["reasons"][0].as_str().unwrap();
    assert!(
        reasons.contains("local edits") && reasons.contains("src/a.txt"),
        "{reasons}"
    );
    repo.run_git(&["checkout", "-q", "--", "."]);
    repo.run_killed_at("ref-moved", &["apply", &plan, "--yes"]);
    let said = repo.run(&["why", &plan]);
    assert!(said.messages().starts_with("planwright apply "), "{said:?}");
    repo.run_ok(&["project", "pause", "shop"]);
    let waiting = repo.run_ok(&["use", "tidy", "shop"]);
    let waiting = waiting["plan_id"].as_str().unwrap();
    let said = repo.run(&["why", waiting]);
    assert!(
        said.messages()
            .starts_with("planwright project resume shop"),
        "{said:?}"
    );
    // What is past the point of no return goes on all the same.
    repo.run_ok(&["apply", &plan]);
}

#[test]
fn a_conflict_is_solved_by_hand_and_patterns_drop_paths() {
    let repo = ShopRepository::new();
    let plan = repo.submit_usual_change();
    repo.write_file("src/a.txt", "one\ntwo\nthree\nfour\nfive\n6\n");
    repo.commit_all("same line");
    repo.run_bad(4, &["apply", &plan, "--yes"], "changed the same lines");
    repo.run_bad(
        3,
        &["revise", &plan, "x", "--drop", "*.rs"],
        "matches `*.rs`",
    );
    let visit = |words: &[&str], script: &str| {
        let run = repo.program.run(words.to_vec());
        run.with_variable("SHELL", "/bin/sh")
            .with_input(script)
            .finish()
    };
    // Left unsolved, it waits; what was done stays.
    let revise = ["revise", &plan, "by hand", "--drop", "new.*", "--by-hand"];
    let said = visit(&revise, "test ! -e new.txt && echo kept > kept.txt\n");
    assert_eq!(said.exit_code(), Some(4), "{said:?}");
    assert!(said.stderr.contains("conflict markers remain"), "{said:?}");
    assert_eq!(repo.plan_state(&plan), "execute/queued");
    let solved = "printf 'one\\ntwo\\nthree\\nfour\\nfive\\nboth\\n' > src/a.txt\n";
    let claimed = repo.run_ok(&["plumbing", "start-execute", &plan, "--owner", "ada"]);
    let path = claimed["sandboxes"][0]["path"].as_str().unwrap();
    assert!(std::path::Path::new(path).join("kept.txt").exists());
    let epoch = claimed["epoch"].to_string();
    let fail = ["plumbing", "fail", &plan, "--epoch", &epoch];
    repo.run_ok(&[&fail[..], &["--category", "actor", "--message", "no"]].concat());
    let said = visit(&["revise", &plan, "again", "--by-hand"], solved);
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    repo.run_ok(&["apply", &plan, "--yes"]);
    assert!(repo.read_file("src/a.txt").ends_with("both\n"));
    assert!(!repo.shop_path().join("new.txt").exists());
    assert_eq!(repo.read_file("kept.txt"), "kept\n");
}

/// Several resources roll forward: what can no longer land after another did is a plan of its own.
#[test]
fn several_repositories_land_together_or_leave_a_rest() {
    for meanwhile in [false, true] {
        let repo = ShopRepository::new();
        let docs = std::path::PathBuf::from(repo.clone_repository("docs"));
        let name = docs.to_str().unwrap();
        repo.run_git(&["-C", name, "config", "user.name", "Ada"]);
        repo.run_git(&["-C", name, "config", "user.email", "ada@example.org"]);
        repo.run_ok(&["project", "link", "shop", "--git", name]);
        let (plan, _) = repo.plan_in_execute();
        let entered = repo.run_ok(&["path", &plan]);
        for sandbox in entered["sandboxes"].as_array().unwrap() {
            let path = std::path::Path::new(sandbox["path"].as_str().unwrap());
            std::fs::write(path.join("src/b.txt"), "alpha\nby the plan\n").unwrap();
        }
        repo.run_ok(&["plumbing", "complete-execute", &plan, "--epoch", "2"]);
        let view = repo.run_ok(&["plumbing", "show", &plan]);
        let nodes: Vec<&str> = view["changesets"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["node"].as_str().unwrap())
            .collect();
        assert_eq!(nodes, ["main@shop/docs", "main@shop/shop"]);
        // Killed when the first of the two has moved.
        repo.run_killed_at("ref-moved", &["apply", &plan, "--yes"]);
        let count = |path: &str| repo.run_git(&["-C", path, "rev-list", "--count", "main"]);
        let shop = repo.shop_path();
        let shop = shop.to_str().unwrap();
        assert_eq!((count(name).as_str(), count(shop).as_str()), ("2", "1"));
        if meanwhile {
            repo.write_file("src/b.txt", "alpha\nby a person\n");
            repo.commit_all("same line");
        }
        let landed = repo.run_ok(&["apply", &plan]);
        assert_eq!(landed["standing"], "landed");
        assert_eq!(
            std::fs::read_to_string(docs.join("src/b.txt")).unwrap(),
            "alpha\nby the plan\n"
        );
        assert_eq!(repo.run_git(&["-C", name, "status", "--porcelain"]), "");
        assert_eq!(landed["rest"].is_string(), meanwhile, "{landed}");
        if meanwhile {
            assert_eq!(repo.read_file("src/b.txt"), "alpha\nby a person\n");
            let rest = landed["rest"].as_str().unwrap();
            repo.run_bad(4, &["apply", rest, "--yes"], "changed the same lines");
            repo.run_ok(&["cancel", rest]);
            repo.run_ok(&["sandbox", "clean"]);
        } else {
            assert_eq!(repo.read_file("src/b.txt"), "alpha\nby the plan\n");
            repo.run_ok(&["undo", &plan, "--yes"]);
            assert_eq!(repo.read_file("src/b.txt"), "alpha\nbeta\n");
        }
        repo.assert_tidy();
    }
}

#[test]
fn a_plain_directory_is_changed_and_changed_back() {
    let repo = ShopRepository::new();
    let notes = repo.shop_path().join("../notes");
    std::fs::create_dir(&notes).unwrap();
    std::fs::write(notes.join("todo.txt"), "milk\n").unwrap();
    let path = notes.to_str().unwrap();
    repo.run_bad(
        4,
        &[
            "project",
            "create",
            "x",
            "--dir",
            repo.shop_path().to_str().unwrap(),
        ],
        "git",
    );
    repo.run_ok(&["project", "create", "notes", "--dir", path]);
    let made = repo.run_ok(&["use", "tidy", "notes"]);
    let plan = made["plan_id"].as_str().unwrap();
    repo.run_ok(&["plumbing", "start-strategize", plan, "--owner", "bot"]);
    repo.run_ok(&["plumbing", "complete-strategize", plan, "--epoch", "1"]);
    repo.run_ok(&["plumbing", "execute-plan", plan]);
    let claimed = repo.run_ok(&["plumbing", "start-execute", plan, "--owner", "bot"]);
    let sandbox = claimed["sandboxes"][0]["path"].as_str().unwrap();
    std::fs::write(format!("{sandbox}/todo.txt"), "milk\nbread\n").unwrap();
    repo.run_ok(&["plumbing", "complete-execute", plan, "--epoch", "2"]);
    let todo = || std::fs::read_to_string(notes.join("todo.txt")).unwrap();
    assert_eq!(todo(), "milk\n");
    repo.run_killed_at("ref-moved", &["apply", plan, "--yes"]);
    repo.run_ok(&["apply", plan, "--yes"]);
    assert_eq!(todo(), "milk\nbread\n");
    repo.run_ok(&["undo", plan, "--yes"]);
    assert_eq!(todo(), "milk\n");
    let there: Vec<_> = std::fs::read_dir(&notes).unwrap().collect();
    assert_eq!(there.len(), 1, "{there:?}");
}

impl ShopRepository {
    /// Another plan with a change of its own.
    fn submit_another_change(&self) -> String {
        self.submit_plan(|sandbox| std::fs::write(sandbox.join("more.txt"), "more\n").unwrap())
    }
}

/// Killed between landing and the end of tidying up: what is left is found, and goes.
#[test]
fn remains_of_a_killed_landing_are_found_and_removed() {
    let repo = ShopRepository::new();
    let plan = repo.submit_usual_change();
    repo.run_killed_at("sandbox-set-aside", &["apply", &plan, "--yes"]);
    assert_eq!(repo.plan_state(&plan), "apply/applied");
    repo.run_ok(&["doctor", "--fix"]);
    repo.assert_tidy();
    let left = std::fs::read_dir(repo.program.home().join("sandboxes")).unwrap();
    assert_eq!(left.count(), 0);
}

/// Nobody tracks an empty directory, and still it is somebody's, where a file is to be.
#[test]
fn an_empty_directory_in_the_way_is_left_and_said() {
    let repo = ShopRepository::new();
    let plan = repo.submit_usual_change();
    std::fs::create_dir(repo.shop_path().join("new.txt")).unwrap();
    repo.run_bad(4, &["apply", &plan, "--yes"], "new.txt");
    std::fs::remove_dir(repo.shop_path().join("new.txt")).unwrap();
    repo.run_ok(&["apply", &plan, "--yes"]);
    repo.assert_tidy();
}
