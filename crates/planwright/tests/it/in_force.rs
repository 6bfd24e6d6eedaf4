//! Rules against what is there: what a working tree says counts once it is committed, and a glob that matches
//! nothing is warned about.

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
    let told = "they count once it is committed there";
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
fn whoever_starts_work_is_told_that_other_rules_count() {
    let yard = Yard::new();
    let told = "the rules in planwright.yaml are not those on main";
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
