//! Every form of landing: as a commit, on a new branch, uncommitted, merged, in part.

use crate::daily::{Loop, SCRIBE};
use crate::yard::Yard;

const PASSING: &str = "invariants:\n  - name: tests\n    command: \"true\"\n";
const FAILING: &str = "invariants:\n  - name: tests\n    command: \"false\"\n";

/// A repository with this `planwright.yaml`, committed.
fn ruled_by(file: &str) -> Yard {
    let yard = Yard::new();
    yard.write("planwright.yaml", file);
    yard.commit("rules");
    yard
}

#[test]
fn a_new_branch_and_uncommitted_land_under_the_repositorys_rules() {
    let yard = ruled_by(PASSING);
    let main = yard.git(&["rev-parse", "main"]);
    let plan = yard.usual();
    yard.ok(&["apply", &plan, "--yes", "--as", "branch", "side"]);
    assert_eq!(yard.git(&["show", "side:new.txt"]), "new");
    assert_eq!(yard.git(&["rev-parse", "side^"]), main);
    assert_eq!(yard.git(&["rev-parse", "main"]), main);
    let plan = yard.usual();
    // A local edit elsewhere is part of what the result is merged with, and no change of the plan.
    yard.write("src/b.txt", "mine\n");
    yard.ok(&["apply", &plan, "--yes", "--as", "uncommitted"]);
    assert_eq!(yard.git(&["rev-parse", "main"]), main);
    assert_eq!(yard.read("new.txt"), "new\n");
    assert_eq!(yard.read("src/b.txt"), "mine\n");
}

/// Whatever the form, a rule sees what the plan changes, and not the whole repository.
#[test]
fn rules_see_the_same_changes_in_every_form() {
    let only = "invariants:\n  - name: only\n    allow: [src/a.txt, new.txt]\n  \
                - name: few\n    expr: changes.size() == 2\n";
    for form in [&["commit"][..], &["branch", "side"], &["uncommitted"]] {
        let yard = ruled_by(only);
        let plan = yard.usual();
        yard.ok(&[&["apply", &plan, "--yes", "--as"], form].concat());
    }
}

#[test]
fn a_failing_rule_stops_every_form() {
    for form in [&["commit"][..], &["branch", "side"], &["uncommitted"]] {
        let yard = ruled_by(FAILING);
        let plan = yard.usual();
        let words = [&["apply", plan.as_str(), "--yes", "--as"], form].concat();
        yard.bad(5, &words, "tests");
        assert_eq!(yard.git(&["branch", "--list"]), "* main", "{form:?}");
        assert_eq!(yard.git(&["rev-list", "--count", "main"]), "2", "{form:?}");
        assert_eq!(yard.git(&["status", "--porcelain"]), "", "{form:?}");
    }
}

/// A rule that is committed to the target after a result was signed is heeded in every form.
#[test]
fn a_rule_that_the_target_gained_since_is_heeded_in_every_form() {
    for form in [&["branch", "side"][..], &["uncommitted"]] {
        let yard = ruled_by(PASSING);
        let plan = yard.usual();
        yard.ok(&[&["approve", plan.as_str(), "--as"], form].concat());
        yard.write("planwright.yaml", FAILING);
        yard.commit("stricter");
        yard.bad(5, &["apply", &plan, "--yes"], "tests");
        assert_eq!(yard.git(&["branch", "--list"]), "* main", "{form:?}");
        assert_eq!(yard.git(&["status", "--porcelain"]), "", "{form:?}");
    }
}

#[test]
fn what_was_asked_for_once_does_not_stick_to_the_next_apply() {
    for form in [&["branch", "side"][..], &["uncommitted"]] {
        // Stopped by a rule.
        let yard = ruled_by(FAILING);
        let plan = yard.usual();
        let words = [&["apply", plan.as_str(), "--yes", "--as"], form].concat();
        yard.bad(5, &words, "tests");
        yard.ok(&["waive", &plan, "tests", "--reason", "today"]);
        yard.ok(&["apply", &plan, "--yes"]);
        assert_eq!(yard.git(&["rev-list", "--count", "main"]), "3", "{form:?}");
        yard.assert_tidy();
        // Killed on its way: asked again in another way, it lands in that.
        for step in ["fenced", "pinned"] {
            let yard = ruled_by(PASSING);
            let plan = yard.usual();
            let words = [&["apply", plan.as_str(), "--yes", "--as"], form].concat();
            yard.killed(step, &words);
            yard.ok(&["apply", &plan, "--yes"]);
            assert_eq!(yard.git(&["rev-list", "--count", "main"]), "3", "{form:?}");
            yard.assert_tidy();
        }
    }
}

/// A landing that was killed or failed as a commit lands as it is asked for next.
#[test]
fn another_form_can_be_asked_for_after_a_failed_landing() {
    for step in ["fenced", "pinned"] {
        let yard = ruled_by(PASSING);
        let plan = yard.usual();
        yard.killed(step, &["apply", &plan, "--yes"]);
        yard.ok(&["apply", &plan, "--yes", "--as", "branch", "side"]);
        assert_eq!(yard.git(&["show", "side:new.txt"]), "new", "{step}");
        assert_eq!(yard.git(&["rev-list", "--count", "main"]), "2", "{step}");
    }
}

#[test]
fn a_directory_has_rules_too() {
    for (file, code) in [(PASSING, 0), (FAILING, 5)] {
        let yard = Yard::new();
        let notes = yard.shop().join("../notes");
        std::fs::create_dir(&notes).unwrap();
        std::fs::write(notes.join("planwright.yaml"), file).unwrap();
        yard.ok(&[
            "project",
            "create",
            "notes",
            "--dir",
            notes.to_str().unwrap(),
        ]);
        let plan = yard.handed_in_to("notes", |sandbox| {
            std::fs::write(sandbox.join("new.txt"), "new\n").unwrap();
        });
        let said = yard.run(&["apply", &plan, "--yes"]);
        assert_eq!(said.code(), Some(code), "{said:?}");
        assert_eq!(notes.join("new.txt").exists(), code == 0);
    }
}

/// What a profile lands by itself arrives as the repository says, like everything else.
#[test]
fn what_lands_by_itself_arrives_as_the_repository_says() {
    let day = Loop::with(SCRIBE);
    day.yard
        .write("planwright.yaml", "apply:\n  as: uncommitted\n");
    day.yard.commit("uncommitted");
    let words = [
        "run",
        "--actor",
        "scribe",
        "--profile",
        "auto",
        "Write a line",
    ];
    day.ends(0, &words);
    assert_eq!(day.yard.git(&["rev-list", "--count", "main"]), "2");
    assert_eq!(day.yard.git(&["status", "--porcelain"]), "M src/a.txt");
}

/// Edits in the same lines are the person's: they are named as such, and what is offered helps.
#[test]
fn uncommitted_names_the_edits_it_overlaps_with() {
    let yard = Yard::new();
    let plan = yard.usual();
    yard.write("src/a.txt", "one\ntwo\nthree\nfour\nfive\nmine\n");
    let words = ["apply", plan.as_str(), "--yes", "--as", "uncommitted"];
    let said = yard.bad(4, &words, "has local edits");
    let messages = said.messages();
    assert!(messages.contains("src/a.txt"), "{messages}");
    assert!(!messages.contains("changed by"), "{messages}");
    assert!(!messages.contains("main changed"), "{messages}");
    assert!(!messages.contains("revise"), "{messages}");
    assert!(messages.contains("--as uncommitted"), "{messages}");
    assert!(messages.contains("--as branch"), "{messages}");
    assert!(yard.read("src/a.txt").ends_with("mine\n"));
    // As the hint says.
    yard.git(&["stash", "-q"]);
    yard.ok(&words);
    assert!(yard.read("src/a.txt").ends_with("SIX\n"));
}

/// What others committed to the same lines is named by commits that exist, and sending it back helps.
#[test]
fn uncommitted_names_commits_that_exist() {
    let yard = Yard::new();
    let plan = yard.usual();
    yard.write("src/a.txt", "one\ntwo\nthree\nfour\nfive\ntheirs\n");
    yard.commit("theirs");
    yard.write("src/b.txt", "an edit elsewhere\n");
    let words = ["apply", plan.as_str(), "--yes", "--as", "uncommitted"];
    let said = yard.bad(4, &words, "src/a.txt");
    let messages = said.messages();
    let theirs = yard.git(&["rev-parse", "--short=10", "HEAD"]);
    assert!(
        messages.contains(&format!("changed by {theirs}")),
        "{messages}"
    );
    assert_eq!(messages.matches("changed by").count(), 1, "{messages}");
}

/// A directory has no commits that anybody could look at.
#[test]
fn a_directory_that_changed_names_no_commits() {
    let yard = Yard::new();
    let notes = yard.shop().join("../notes");
    std::fs::create_dir(&notes).unwrap();
    std::fs::write(notes.join("todo.txt"), "milk\n").unwrap();
    yard.ok(&[
        "project",
        "create",
        "notes",
        "--dir",
        notes.to_str().unwrap(),
    ]);
    let plan = yard.handed_in_to("notes", |sandbox| {
        std::fs::write(sandbox.join("todo.txt"), "bread\n").unwrap();
    });
    std::fs::write(notes.join("todo.txt"), "tea\n").unwrap();
    let said = yard.bad(4, &["apply", &plan, "--yes"], "todo.txt");
    let messages = said.messages();
    assert!(!messages.contains("changed by"), "{messages}");
}
