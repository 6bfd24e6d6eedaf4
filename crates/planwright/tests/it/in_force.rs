//! Rules against what is there: what a working tree says holds for plans that are made in it, and a glob that
//! matches nothing is warned about.

use testkit::Said;

use crate::yard::Yard;

/// Runs the program in the repository, as a person sees it.
fn seen(yard: &Yard, words: &[&str]) -> Said {
    let run = yard.program.run(words.to_vec());
    run.within(yard.shop()).finish()
}

#[test]
fn init_makes_the_tests_a_rule_and_says_when_it_counts() {
    let yard = Yard::new();
    yard.write("Makefile", "test:\n\t! grep -q broken src/a.txt\n");
    let said = seen(&yard, &["init", "--yes"]);
    assert_eq!(said.code(), Some(0), "{said:?}");
    let told = "Its rules hold for plans that you make here.";
    assert!(said.stdout.contains(told), "{said:?}");
    assert!(seen(&yard, &["init"]).stdout.contains(told));
    yard.commit("rules");
    assert!(!seen(&yard, &["init"]).stdout.contains(told));
    let broken = yard.handed_in(|at| std::fs::write(at.join("src/a.txt"), "broken\n").unwrap());
    yard.bad(5, &["apply", &broken, "--yes"], "tests");
    let whole = yard.handed_in(|at| std::fs::write(at.join("src/a.txt"), "whole\n").unwrap());
    yard.ok(&["apply", &whole, "--yes"]);
}

#[test]
fn whoever_starts_work_is_told_that_rules_which_are_not_committed_hold() {
    let yard = Yard::new();
    let told = "the rules in planwright.yaml are not those on main; this plan must meet both";
    let starts = || {
        let said = yard.run(&["use", "tidy", "shop"]);
        assert_eq!(said.code(), Some(0), "{said:?}");
        said.messages().matches(told).count()
    };
    let actor = yard.write_beside("me.yaml", "name: me\nkind: human\n");
    yard.ok(&["actor", "add", &actor]);
    let rule = "invariants:\n  - name: docs-only\n    allow: docs\n";
    yard.write("planwright.yaml", rule);
    assert_eq!(starts(), 1);
    let words = ["run", "--actor", "me", "--detach", "Tidy the shop"];
    let said = seen(&yard, &words);
    assert!(said.stderr.contains(told), "{said:?}");
    yard.commit("rules");
    assert_eq!(starts(), 0);
    // What says the same in other words is the same.
    yard.write(
        "planwright.yaml",
        &format!("# Ours.\nprofile: review\n{rule}"),
    );
    assert_eq!(starts(), 0);
    std::fs::remove_file(yard.shop().join("planwright.yaml")).unwrap();
    assert_eq!(starts(), 1);
    assert!(!seen(&yard, &["run", "--help"]).stderr.contains(told));
}

const FAILING: &str = "invariants:\n  - name: tests\n    command: \"false\"\n";
const HOLDING: &str = "invariants:\n  - name: tests\n    command: \"true\"\n";

/// The scopes of the rules in force for a plan, with what they check.
fn in_force(yard: &Yard, plan: &str) -> Vec<(String, String)> {
    let listed = yard.ok(&["invariant", "list", "--effective", plan]);
    let rules = listed["rules"].as_array().unwrap().iter();
    let text = |rule: &serde_json::Value, key: &str| rule[key].as_str().unwrap().to_owned();
    rules
        .map(|rule| (text(rule, "scope"), text(&rule["command"], "command")))
        .collect()
}

#[test]
fn a_rule_that_is_not_committed_gates_the_plans_that_are_made_with_it() {
    let yard = Yard::new();
    yard.write("planwright.yaml", FAILING);
    let plan = yard.usual();
    let before = yard.git(&["rev-parse", "main"]);
    yard.bad(5, &["apply", &plan, "--yes"], "tests");
    assert_eq!(yard.git(&["rev-parse", "main"]), before);
    let why = yard.ok(&["why", &plan]).to_string();
    assert!(why.contains("working-tree:shop"), "{why}");
    // It was read at use: what becomes of the file later changes nothing for this plan.
    std::fs::remove_file(yard.shop().join("planwright.yaml")).unwrap();
    yard.bad(5, &["apply", &plan, "--yes"], "tests");
    yard.ok(&["waive", &plan, "tests", "--reason", "not today"]);
    yard.ok(&["apply", &plan, "--yes"]);
    // Taking it back asks the rules of the branch, and it has none.
    yard.ok(&["undo", &plan, "--yes"]);
    let later = yard.usual();
    yard.ok(&["apply", &later, "--yes"]);
}

#[test]
fn a_rule_of_the_working_tree_and_one_of_the_branch_both_hold() {
    for (committed, here) in [(HOLDING, FAILING), (FAILING, HOLDING)] {
        let yard = Yard::new();
        yard.write("planwright.yaml", committed);
        yard.commit("rules");
        yard.write("planwright.yaml", here);
        let plan = yard.usual();
        let scopes: Vec<String> = in_force(&yard, &plan)
            .into_iter()
            .map(|one| one.0)
            .collect();
        assert_eq!(scopes, ["repository:shop/shop", "working-tree:shop/shop"]);
        yard.bad(5, &["apply", &plan, "--yes"], "tests");
        // One word waives what has one name.
        yard.ok(&["waive", &plan, "tests", "--reason", "not today"]);
        yard.git(&["checkout", "-q", "planwright.yaml"]);
        yard.ok(&["apply", &plan, "--yes"]);
    }
}

#[test]
fn what_is_committed_as_it_stands_is_read_from_the_branch_alone() {
    let yard = Yard::new();
    yard.write("planwright.yaml", FAILING);
    yard.commit("rules");
    let plan = yard.usual();
    let scopes = || in_force(&yard, &plan);
    assert_eq!(
        scopes(),
        [("repository:shop/shop".to_owned(), "false".to_owned())]
    );
    // So a rule that is mended there is mended.
    yard.write("planwright.yaml", HOLDING);
    yard.commit("mended");
    assert_eq!(
        scopes(),
        [("repository:shop/shop".to_owned(), "true".to_owned())]
    );
    yard.ok(&["apply", &plan, "--yes"]);
}

#[test]
fn committing_a_frozen_rule_judges_it_once_and_voids_no_approval() {
    let yard = Yard::new();
    yard.write("planwright.yaml", HOLDING);
    let plan = yard.usual();
    yard.ok(&["approve", &plan]);
    yard.commit("rules");
    let frozen = ("working-tree:shop/shop".to_owned(), "true".to_owned());
    assert_eq!(in_force(&yard, &plan), [frozen]);
    yard.ok(&["plumbing", "apply-plan", &plan]);
}

#[test]
fn a_rule_that_cannot_be_judged_is_said_at_use() {
    let yard = Yard::new();
    yard.write(
        "planwright.yaml",
        "invariants:\n  - name: odd\n    expr: \"1 +\"\n",
    );
    let said = yard.run(&["use", "tidy", "shop"]);
    assert_ne!(said.code(), Some(0), "{said:?}");
    assert!(said.messages().contains("planwright.yaml"), "{said:?}");
    assert!(yard.ok(&["list"]).to_string().contains("\"plans\":[]"));
}

#[test]
fn a_glob_that_matches_nothing_is_warned_about_and_added() {
    let yard = Yard::new();
    let add = ["invariant", "add", "a", "--forbid", "src", "migratons/**"];
    let said = seen(&yard, &add);
    assert_eq!(said.code(), Some(0), "{said:?}");
    let warned = "Nothing in shop matches `migratons/**` yet";
    assert!(said.stderr.contains(warned), "{said:?}");
    assert!(!said.stderr.contains("`src`"), "{said:?}");
    let said = yard.run(&[
        "invariant",
        "add",
        "b",
        "--project",
        "shop",
        "--allow",
        "doc",
    ]);
    assert!(said.messages().contains("`doc`"), "{said:?}");
    // Of another place nothing is known.
    let said = yard.run(&["invariant", "add", "c", "--allow", "doc"]);
    assert!(!said.messages().contains("`doc`"), "{said:?}");
    let rules = yard.ok(&["invariant", "list"]);
    assert_eq!(rules["rules"].as_array().unwrap().len(), 3);
}
