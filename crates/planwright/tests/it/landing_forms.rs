//! Every form of landing: as a commit, on a new branch, uncommitted, merged, in part.

use crate::daily::{SCRIBE_SCRIPT, ScriptedAgentEnv};
use crate::shop_repository::ShopRepository;

const PASSING_RULES: &str = "invariants:\n  - name: tests\n    command: \"true\"\n";
const FAILING_RULES: &str = "invariants:\n  - name: tests\n    command: \"false\"\n";

/// A repository with this `planwright.yaml`, committed.
fn repository_with_rules(file: &str) -> ShopRepository {
    let repo = ShopRepository::new();
    repo.write_file("planwright.yaml", file);
    repo.commit_all("rules");
    repo
}

#[test]
fn a_new_branch_and_uncommitted_land_under_the_repositorys_rules() {
    let repo = repository_with_rules(PASSING_RULES);
    let main = repo.run_git(&["rev-parse", "main"]);
    let plan = repo.submit_usual_change();
    repo.run_ok(&["apply", &plan, "--yes", "--as", "branch", "side"]);
    assert_eq!(repo.run_git(&["show", "side:new.txt"]), "new");
    assert_eq!(repo.run_git(&["rev-parse", "side^"]), main);
    assert_eq!(repo.run_git(&["rev-parse", "main"]), main);
    let plan = repo.submit_usual_change();
    // A local edit elsewhere is part of what the result is merged with, and no change of the plan.
    repo.write_file("src/b.txt", "mine\n");
    repo.run_ok(&["apply", &plan, "--yes", "--as", "uncommitted"]);
    assert_eq!(repo.run_git(&["rev-parse", "main"]), main);
    assert_eq!(repo.read_file("new.txt"), "new\n");
    assert_eq!(repo.read_file("src/b.txt"), "mine\n");
}

/// Whatever the form, a rule sees what the plan changes, and not the whole repository.
#[test]
fn rules_see_the_same_changes_in_every_form() {
    let only = "invariants:\n  - name: only\n    allow: [src/a.txt, new.txt]\n  \
                - name: few\n    expr: changes.size() == 2\n";
    for form in [&["commit"][..], &["branch", "side"], &["uncommitted"]] {
        let repo = repository_with_rules(only);
        let plan = repo.submit_usual_change();
        repo.run_ok(&[&["apply", &plan, "--yes", "--as"], form].concat());
    }
}

#[test]
fn a_failing_rule_stops_every_form() {
    for form in [&["commit"][..], &["branch", "side"], &["uncommitted"]] {
        let repo = repository_with_rules(FAILING_RULES);
        let plan = repo.submit_usual_change();
        let words = [&["apply", plan.as_str(), "--yes", "--as"], form].concat();
        repo.run_bad(5, &words, "tests");
        assert_eq!(repo.run_git(&["branch", "--list"]), "* main", "{form:?}");
        assert_eq!(
            repo.run_git(&["rev-list", "--count", "main"]),
            "2",
            "{form:?}"
        );
        assert_eq!(repo.run_git(&["status", "--porcelain"]), "", "{form:?}");
    }
}

/// A rule that is committed to the target after a result was signed is heeded in every form.
#[test]
fn a_rule_that_the_target_gained_since_is_heeded_in_every_form() {
    for form in [&["branch", "side"][..], &["uncommitted"]] {
        let repo = repository_with_rules(PASSING_RULES);
        let plan = repo.submit_usual_change();
        repo.run_ok(&[&["approve", plan.as_str(), "--as"], form].concat());
        repo.write_file("planwright.yaml", FAILING_RULES);
        repo.commit_all("stricter");
        repo.run_bad(5, &["apply", &plan, "--yes"], "tests");
        assert_eq!(repo.run_git(&["branch", "--list"]), "* main", "{form:?}");
        assert_eq!(repo.run_git(&["status", "--porcelain"]), "", "{form:?}");
    }
}

#[test]
fn landing_options_of_one_apply_do_not_carry_over_to_the_next() {
    for form in [&["branch", "side"][..], &["uncommitted"]] {
        // Stopped by a rule.
        let repo = repository_with_rules(FAILING_RULES);
        let plan = repo.submit_usual_change();
        let words = [&["apply", plan.as_str(), "--yes", "--as"], form].concat();
        repo.run_bad(5, &words, "tests");
        repo.run_ok(&["waive", &plan, "tests", "--reason", "today"]);
        repo.run_ok(&["apply", &plan, "--yes"]);
        assert_eq!(
            repo.run_git(&["rev-list", "--count", "main"]),
            "3",
            "{form:?}"
        );
        repo.assert_tidy();
        // Killed on its way: asked again in another way, it lands in that.
        for step in ["fenced", "pinned"] {
            let repo = repository_with_rules(PASSING_RULES);
            let plan = repo.submit_usual_change();
            let words = [&["apply", plan.as_str(), "--yes", "--as"], form].concat();
            repo.run_killed_at(step, &words);
            repo.run_ok(&["apply", &plan, "--yes"]);
            assert_eq!(
                repo.run_git(&["rev-list", "--count", "main"]),
                "3",
                "{form:?}"
            );
            repo.assert_tidy();
        }
    }
}

/// A landing that was killed or failed as a commit lands as it is asked for next.
#[test]
fn another_form_can_be_asked_for_after_a_failed_landing() {
    for step in ["fenced", "pinned"] {
        let repo = repository_with_rules(PASSING_RULES);
        let plan = repo.submit_usual_change();
        repo.run_killed_at(step, &["apply", &plan, "--yes"]);
        repo.run_ok(&["apply", &plan, "--yes", "--as", "branch", "side"]);
        assert_eq!(repo.run_git(&["show", "side:new.txt"]), "new", "{step}");
        assert_eq!(
            repo.run_git(&["rev-list", "--count", "main"]),
            "2",
            "{step}"
        );
    }
}

#[test]
fn a_directory_has_rules_too() {
    for (file, code) in [(PASSING_RULES, 0), (FAILING_RULES, 5)] {
        let repo = ShopRepository::new();
        let notes = repo.shop_path().join("../notes");
        std::fs::create_dir(&notes).unwrap();
        std::fs::write(notes.join("planwright.yaml"), file).unwrap();
        repo.run_ok(&[
            "project",
            "create",
            "notes",
            "--dir",
            notes.to_str().unwrap(),
        ]);
        let plan = repo.submit_plan_on("notes", |sandbox| {
            std::fs::write(sandbox.join("new.txt"), "new\n").unwrap();
        });
        let said = repo.run(&["apply", &plan, "--yes"]);
        assert_eq!(said.exit_code(), Some(code), "{said:?}");
        assert_eq!(notes.join("new.txt").exists(), code == 0);
    }
}

/// What a profile lands by itself arrives as the repository says, like everything else.
#[test]
fn automatic_landings_use_the_options_of_the_repository() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    env.repo
        .write_file("planwright.yaml", "apply:\n  as: uncommitted\n");
    env.repo.commit_all("uncommitted");
    let words = [
        "run",
        "--agent",
        "scribe",
        "--profile",
        "auto",
        "Write a line",
    ];
    env.run_expecting(0, &words);
    assert_eq!(env.repo.run_git(&["rev-list", "--count", "main"]), "2");
    assert_eq!(env.repo.run_git(&["status", "--porcelain"]), "M src/a.txt");
}

/// Edits in the same lines are the person's: they are named as such, and what is offered helps.
#[test]
fn uncommitted_names_the_edits_it_overlaps_with() {
    let repo = ShopRepository::new();
    let plan = repo.submit_usual_change();
    repo.write_file("src/a.txt", "one\ntwo\nthree\nfour\nfive\nmine\n");
    let words = ["apply", plan.as_str(), "--yes", "--as", "uncommitted"];
    let said = repo.run_bad(4, &words, "has local edits");
    let messages = said.messages();
    assert!(messages.contains("src/a.txt"), "{messages}");
    assert!(!messages.contains("changed by"), "{messages}");
    assert!(!messages.contains("main changed"), "{messages}");
    assert!(!messages.contains("revise"), "{messages}");
    assert!(messages.contains("--as uncommitted"), "{messages}");
    assert!(messages.contains("--as branch"), "{messages}");
    assert!(repo.read_file("src/a.txt").ends_with("mine\n"));
    // As the hint says.
    repo.run_git(&["stash", "-q"]);
    repo.run_ok(&words);
    assert!(repo.read_file("src/a.txt").ends_with("SIX\n"));
}

/// What others committed to the same lines is named by commits that exist, and sending it back helps.
#[test]
fn uncommitted_names_commits_that_exist() {
    let repo = ShopRepository::new();
    let plan = repo.submit_usual_change();
    repo.write_file("src/a.txt", "one\ntwo\nthree\nfour\nfive\ntheirs\n");
    repo.commit_all("theirs");
    repo.write_file("src/b.txt", "an edit elsewhere\n");
    let words = ["apply", plan.as_str(), "--yes", "--as", "uncommitted"];
    let said = repo.run_bad(4, &words, "src/a.txt");
    let messages = said.messages();
    let theirs = repo.run_git(&["rev-parse", "--short=10", "HEAD"]);
    assert!(
        messages.contains(&format!("changed by {theirs}")),
        "{messages}"
    );
    assert_eq!(messages.matches("changed by").count(), 1, "{messages}");
}

/// A directory has no commits that anybody could look at.
#[test]
fn a_directory_that_changed_names_no_commits() {
    let repo = ShopRepository::new();
    let notes = repo.shop_path().join("../notes");
    std::fs::create_dir(&notes).unwrap();
    std::fs::write(notes.join("todo.txt"), "milk\n").unwrap();
    repo.run_ok(&[
        "project",
        "create",
        "notes",
        "--dir",
        notes.to_str().unwrap(),
    ]);
    let plan = repo.submit_plan_on("notes", |sandbox| {
        std::fs::write(sandbox.join("todo.txt"), "bread\n").unwrap();
    });
    std::fs::write(notes.join("todo.txt"), "tea\n").unwrap();
    let said = repo.run_bad(4, &["apply", &plan, "--yes"], "todo.txt");
    let messages = said.messages();
    assert!(!messages.contains("changed by"), "{messages}");
}

/// Guards against a hint that lands everything on the target branch when a part of it was to land on another one.
#[test]
fn the_hint_to_confirm_repeats_how_to_land() {
    let repo = ShopRepository::new();
    let plan = repo.submit_usual_change();
    let words = ["apply", &plan, "--as", "branch", "side", "--", "src/a.txt"];
    let asked = repo.program.run(words).finish();
    assert_eq!(asked.exit_code(), Some(6), "{asked:?}");
    let hint = "--yes --as branch side -- src/a.txt";
    assert!(asked.stderr.contains(hint), "{asked:?}");
}

#[test]
fn the_commit_names_its_agent_and_takes_a_message() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let agent = "--format=%(trailers:key=Planwright-Agent,valueonly)";
    let (plan, _) = env.start_plan(6);
    env.run_expecting(
        0,
        &["apply", &plan, "--yes", "-m", "Count sheep\n\nTo sleep."],
    );
    let message = env.repo.run_git(&["log", "-1", "--format=%B", "main"]);
    let expected = format!("Count sheep\n\nTo sleep.\n\nPlanwright-Plan: {plan}\n");
    assert!(message.starts_with(&expected), "{message}");
    assert_eq!(
        env.repo.run_git(&["log", "-1", agent, "main"]).trim(),
        "scribe"
    );
    // Nobody worked on an undo.
    env.run_expecting(0, &["undo", &plan, "--yes"]);
    assert_eq!(env.repo.run_git(&["log", "-1", agent, "main"]).trim(), "");
    // What was signed earlier keeps its message.
    let (plan, _) = env.start_plan(6);
    env.run_expecting(0, &["approve", &plan, "--message", "Signed words"]);
    env.run_expecting(0, &["apply", &plan, "--yes"]);
    let subject = env.repo.run_git(&["log", "-1", "--format=%s", "main"]);
    assert_eq!(subject.trim(), "Signed words");
    let (plan, _) = env.start_plan(6);
    env.run_expecting(2, &["apply", &plan, "--yes", "--message", " "]);
    let uncommitted = ["apply", &plan, "--yes", "--as", "uncommitted", "-m", "x"];
    env.run_expecting(2, &uncommitted);
}

/// A hint that is typed as it stands must not fail in the same way.
#[test]
fn a_conflict_of_one_form_is_not_hinted_at_again() {
    let repo = ShopRepository::new();
    let plan = repo.submit_usual_change();
    repo.write_file("src/a.txt", "other\n");
    repo.commit_all("same lines");
    let apply = ["apply", &plan, "--yes", "--as", "uncommitted"];
    for words in [&apply[..], &["why", &plan], &["status", &plan]] {
        let said = repo.program.run(words.to_vec()).finish();
        let shown = format!("{}{}", said.stdout, said.stderr);
        assert!(shown.contains("planwright revise"), "{said:?}");
        assert!(!shown.contains("--as uncommitted"), "{said:?}");
    }
}
