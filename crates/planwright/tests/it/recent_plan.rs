//! What `@` means: the plan a person last made or named in this checkout.

use crate::daily::{SCRIBE_SCRIPT, ScriptedAgentEnv, describe_state};

/// The plan that `@` names in the repository.
fn recent_plan(env: &ScriptedAgentEnv) -> String {
    let data = env.run_expecting(0, &["status", "@"]);
    data["plan_id"].as_str().unwrap().to_owned()
}

/// Guards against landing an older plan that nobody reviewed: a plan without a project is meant, too, once it was
/// made here.
#[test]
fn a_plan_made_without_a_project_is_meant_where_it_was_made() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let (older, _) = env.start_plan(6);
    let made = env.run_expecting(0, &["use", "tidy"]);
    assert_eq!(recent_plan(&env), made["plan_id"]);
    let said = env.run_here(&["apply", "@", "--yes"]);
    assert_ne!(said.exit_code(), Some(0), "{said:?}");
    assert_eq!(
        describe_state(&env.run_expecting(0, &["status", &older])),
        "execute/complete"
    );
}

#[test]
fn a_plan_that_was_named_is_meant_until_another_is() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let (first, _) = env.start_plan(6);
    let (second, _) = env.start_plan(6);
    assert_eq!(recent_plan(&env), second);
    env.run_expecting(0, &["diff", &first]);
    assert_eq!(recent_plan(&env), first);
    // Named by nobody, and newer: what the clock and workers do is no concern of it.
    let third = env.repo.run_ok(&["use", "tidy", "shop"]);
    env.repo.run_ok(&["work", "--once"]);
    assert_eq!(recent_plan(&env), first);
    // A script that names a plan does not mean it for a person.
    let third = third["plan_id"].as_str().unwrap();
    env.run_here(&["plumbing", "changesets", third]);
    assert_eq!(recent_plan(&env), first);
    // Nor does a plan that does not exist.
    env.run_expecting(3, &["status", "01ARZ3NDEKTSV4RRFFQ69G5FAV"]);
    assert_eq!(recent_plan(&env), first);
}

#[test]
fn each_checkout_has_a_recent_plan_of_its_own() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let (first, _) = env.start_plan(6);
    let other = env.repo.clone_repository("other");
    let there = |words: &[&str]| {
        let words = [&["--format", "json"], words].concat();
        env.repo.program.run(words).with_directory(&other).finish()
    };
    let said = there(&["status", "@"]);
    assert_eq!(said.exit_code(), Some(3), "{said:?}");
    let made = there(&["run", "--agent", "scribe", "Write there"]);
    assert_eq!(
        there(&["status", "@"]).data()["plan_id"],
        made.data()["plan_id"]
    );
    assert_eq!(recent_plan(&env), first);
}

#[test]
fn what_lands_undoes_or_cancels_says_which_plan_it_took() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    env.start_plan(6);
    for words in [["apply", "@", "--yes"], ["undo", "@", "--yes"]] {
        let seen = env.run_as_person(&words);
        assert_eq!(seen.exit_code(), Some(0), "{seen:?}");
        assert!(seen.stdout.contains("Write a line"), "{seen:?}");
    }
    env.start_plan(6);
    let seen = env.run_as_person(&["cancel", "@"]);
    assert!(seen.stdout.contains("Write a line"), "{seen:?}");
}
