//! Rules against what is there: what a working tree says holds for plans that are made in it, and a glob that
//! matches nothing is warned about.

use testkit::TestRunOutput;

use crate::shop_repository::ShopRepository;

/// Runs the program in the repository, as a person sees it.
fn run_as_person(repo: &ShopRepository, words: &[&str]) -> TestRunOutput {
    let run = repo.program.run(words.to_vec());
    run.with_directory(repo.shop_path()).finish()
}

#[test]
fn init_makes_the_tests_a_rule_and_says_when_it_counts() {
    let repo = ShopRepository::new();
    repo.write_file("Makefile", "test:\n\t! grep -q broken src/a.txt\n");
    let said = run_as_person(&repo, &["init", "--yes"]);
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    let told = "Its rules apply to plans that you start here.";
    assert!(said.stdout.contains(told), "{said:?}");
    assert!(run_as_person(&repo, &["init"]).stdout.contains(told));
    repo.commit_all("rules");
    assert!(!run_as_person(&repo, &["init"]).stdout.contains(told));
    let broken = repo.submit_plan(|at| std::fs::write(at.join("src/a.txt"), "broken\n").unwrap());
    repo.run_bad(5, &["apply", &broken, "--yes"], "tests");
    let whole = repo.submit_plan(|at| std::fs::write(at.join("src/a.txt"), "whole\n").unwrap());
    repo.run_ok(&["apply", &whole, "--yes"]);
}

#[test]
fn starting_work_warns_that_uncommitted_rules_hold() {
    let repo = ShopRepository::new();
    let told = "the rules in planwright.yaml differ from those on main; this plan must meet both";
    let starts = || {
        let said = repo.run(&["use", "tidy", "shop"]);
        assert_eq!(said.exit_code(), Some(0), "{said:?}");
        said.messages().matches(told).count()
    };
    let actor = repo.write_file_beside("me.yaml", "name: me\nkind: human\n");
    repo.run_ok(&["agent", "add", &actor]);
    let rule = "invariants:\n  - name: docs-only\n    allow: docs\n";
    repo.write_file("planwright.yaml", rule);
    assert_eq!(starts(), 1);
    let words = ["run", "--agent", "me", "--detach", "Tidy the shop"];
    let said = run_as_person(&repo, &words);
    assert!(said.stderr.contains(told), "{said:?}");
    repo.commit_all("rules");
    assert_eq!(starts(), 0);
    // What says the same in other words is the same.
    repo.write_file(
        "planwright.yaml",
        &format!("# Ours.\nprofile: review\n{rule}"),
    );
    assert_eq!(starts(), 0);
    std::fs::remove_file(repo.shop_path().join("planwright.yaml")).unwrap();
    assert_eq!(starts(), 1);
    assert!(
        !run_as_person(&repo, &["run", "--help"])
            .stderr
            .contains(told)
    );
}

const FAILING_RULES: &str = "invariants:\n  - name: tests\n    command: \"false\"\n";
const HOLDING_RULES: &str = "invariants:\n  - name: tests\n    command: \"true\"\n";

/// The scopes of the rules in force for a plan, with what they check.
fn list_rules_in_force(repo: &ShopRepository, plan: &str) -> Vec<(String, String)> {
    let listed = repo.run_ok(&["rule", "list", "--effective", plan]);
    let rules = listed["rules"].as_array().unwrap().iter();
    let text = |rule: &serde_json::Value, key: &str| rule[key].as_str().unwrap().to_owned();
    rules
        .map(|rule| (text(rule, "scope"), text(&rule["command"], "command")))
        .collect()
}

#[test]
fn a_rule_that_is_not_committed_gates_the_plans_that_are_made_with_it() {
    let repo = ShopRepository::new();
    repo.write_file("planwright.yaml", FAILING_RULES);
    let plan = repo.submit_usual_change();
    let before = repo.run_git(&["rev-parse", "main"]);
    repo.run_bad(5, &["apply", &plan, "--yes"], "tests");
    assert_eq!(repo.run_git(&["rev-parse", "main"]), before);
    let why = repo.run_ok(&["why", &plan]).to_string();
    assert!(why.contains("working-tree:shop"), "{why}");
    // It was read at use: what becomes of the file later changes nothing for this plan.
    std::fs::remove_file(repo.shop_path().join("planwright.yaml")).unwrap();
    repo.run_bad(5, &["apply", &plan, "--yes"], "tests");
    repo.run_ok(&["waive", &plan, "tests", "--reason", "not today"]);
    repo.run_ok(&["apply", &plan, "--yes"]);
    // Taking it back asks the rules of the branch, and it has none.
    repo.run_ok(&["undo", &plan, "--yes"]);
    let later = repo.submit_usual_change();
    repo.run_ok(&["apply", &later, "--yes"]);
}

#[test]
fn a_rule_of_the_working_tree_and_one_of_the_branch_both_hold() {
    for (committed, here) in [
        (HOLDING_RULES, FAILING_RULES),
        (FAILING_RULES, HOLDING_RULES),
    ] {
        let repo = ShopRepository::new();
        repo.write_file("planwright.yaml", committed);
        repo.commit_all("rules");
        repo.write_file("planwright.yaml", here);
        let plan = repo.submit_usual_change();
        let scopes: Vec<String> = list_rules_in_force(&repo, &plan)
            .into_iter()
            .map(|one| one.0)
            .collect();
        assert_eq!(scopes, ["repository:shop/shop", "working-tree:shop/shop"]);
        repo.run_bad(5, &["apply", &plan, "--yes"], "tests");
        // One word waives what has one name.
        repo.run_ok(&["waive", &plan, "tests", "--reason", "not today"]);
        repo.run_git(&["checkout", "-q", "planwright.yaml"]);
        repo.run_ok(&["apply", &plan, "--yes"]);
    }
}

#[test]
fn committed_rules_are_read_from_the_branch_alone() {
    let repo = ShopRepository::new();
    repo.write_file("planwright.yaml", FAILING_RULES);
    repo.commit_all("rules");
    let plan = repo.submit_usual_change();
    let scopes = || list_rules_in_force(&repo, &plan);
    assert_eq!(
        scopes(),
        [("repository:shop/shop".to_owned(), "false".to_owned())]
    );
    // So a rule that is mended there is mended.
    repo.write_file("planwright.yaml", HOLDING_RULES);
    repo.commit_all("mended");
    assert_eq!(
        scopes(),
        [("repository:shop/shop".to_owned(), "true".to_owned())]
    );
    repo.run_ok(&["apply", &plan, "--yes"]);
}

#[test]
fn committing_a_frozen_rule_judges_it_once_and_voids_no_approval() {
    let repo = ShopRepository::new();
    repo.write_file("planwright.yaml", HOLDING_RULES);
    let plan = repo.submit_usual_change();
    repo.run_ok(&["approve", &plan]);
    repo.commit_all("rules");
    let frozen = ("working-tree:shop/shop".to_owned(), "true".to_owned());
    assert_eq!(list_rules_in_force(&repo, &plan), [frozen]);
    repo.run_ok(&["plumbing", "apply-plan", &plan]);
}

#[test]
fn a_rule_that_cannot_be_judged_is_said_at_use() {
    let repo = ShopRepository::new();
    repo.write_file(
        "planwright.yaml",
        "invariants:\n  - name: odd\n    expr: \"1 +\"\n",
    );
    let said = repo.run(&["use", "tidy", "shop"]);
    assert_ne!(said.exit_code(), Some(0), "{said:?}");
    assert!(said.messages().contains("planwright.yaml"), "{said:?}");
    assert!(repo.run_ok(&["list"]).to_string().contains("\"plans\":[]"));
}

#[test]
fn a_glob_that_matches_nothing_is_warned_about_and_added() {
    let repo = ShopRepository::new();
    let add = ["rule", "add", "a", "--forbid", "src", "migratons/**"];
    let said = run_as_person(&repo, &add);
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    let warned = "`migratons/**` matches no file in shop yet";
    assert!(said.stderr.contains(warned), "{said:?}");
    assert!(!said.stderr.contains("`src`"), "{said:?}");
    let said = repo.run(&["rule", "add", "b", "--project", "shop", "--allow", "doc"]);
    assert!(said.messages().contains("`doc`"), "{said:?}");
    // Of another place nothing is known.
    let said = repo.run(&["rule", "add", "c", "--allow", "doc"]);
    assert!(!said.messages().contains("`doc`"), "{said:?}");
    let rules = repo.run_ok(&["rule", "list"]);
    assert_eq!(rules["rules"].as_array().unwrap().len(), 3);
}
