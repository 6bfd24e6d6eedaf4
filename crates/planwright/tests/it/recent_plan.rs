//! What `@` and `@-` mean, and which plan a command takes if none is named.

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
fn apply_undo_and_cancel_name_the_plan_they_used() {
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

/// The handle that people see: the end of the id.
fn handle_of(plan: &str) -> String {
    plan[plan.len() - 4..].to_lowercase()
}

#[test]
fn a_command_without_a_plan_takes_the_last_one_and_says_so() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let (first, _) = env.start_plan(6);
    let (second, _) = env.start_plan(6);
    for words in [["status"], ["why"], ["log"], ["path"], ["diff"]] {
        assert_eq!(env.run_expecting(0, &words)["plan_id"], second.as_str());
    }
    for words in [&["diff", "r1"][..], &["diff", "--since", "r1"]] {
        assert_eq!(env.run_expecting(0, words)["plan_id"], second.as_str());
    }
    env.run_expecting(2, &["diff", "r1", "--since", "r1"]);
    for words in [&["diff"][..], &["log"], &["why"], &["path"]] {
        let seen = env.run_as_person(words);
        assert_eq!(seen.exit_code(), Some(0), "{seen:?}");
        let named = format!("{} Write a line", handle_of(&second));
        assert!(seen.stderr.starts_with(&named), "{words:?}: {seen:?}");
    }
    let shown = env.run_as_person(&["status"]);
    assert!(shown.stdout.contains(&handle_of(&second)), "{shown:?}");
    // Landing asks as it does for a named plan.
    env.run_expecting(6, &["apply"]);
    env.run_expecting(0, &["apply", "--yes"]);
    let undone = env.run_as_person(&["undo", "--yes"]);
    assert_eq!(undone.exit_code(), Some(0), "{undone:?}");
    env.run_expecting(0, &["status", &first]);
    let cancelled = env.run_as_person(&["cancel"]);
    assert!(
        cancelled.stderr.contains(&handle_of(&first)),
        "{cancelled:?}"
    );
    let waited = env.run_expecting(7, &["wait"]);
    assert_eq!(waited["plans"][0]["plan_id"], first.as_str());
}

/// One looks at a plan first, and then lands it.
#[test]
fn the_plan_before_stays_the_same_until_another_is_named() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    env.run_expecting(3, &["status", "@-"]);
    let (first, _) = env.start_plan(6);
    env.run_expecting(3, &["status", "@-"]);
    let (second, _) = env.start_plan(6);
    for words in [["status", "@-"], ["why", "@-"], ["status", "@-"]] {
        let shown = env.run_expecting(0, &words);
        assert_eq!(shown["plan_id"], first.as_str(), "{words:?}");
        assert_eq!(recent_plan(&env), second);
    }
    let landed = env.run_expecting(0, &["apply", "@-", "--yes"]);
    assert_eq!(landed["plan_id"], first.as_str());
}

#[test]
fn one_argument_is_the_text_unless_it_names_a_plan() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let (first, _) = env.start_plan(6);
    let (second, _) = env.start_plan(6);
    let version = |plan: &str| env.run_expecting(0, &["plumbing", "show", plan])["version"].clone();
    let before = (version(&first), version(&second));
    for word in [&handle_of(&first), &first, &second[..12], "@", "@-"] {
        for verb in ["revise", "answer"] {
            let seen = env.run_as_person(&[verb, word]);
            assert_eq!(seen.exit_code(), Some(2), "{seen:?}");
            let both = [
                format!("{verb} {word} \"TEXT\""),
                format!("{verb} @ {word}"),
            ];
            for command in both {
                assert!(seen.stderr.contains(&command), "{command}: {seen:?}");
            }
        }
        let seen = env.run_as_person(&["waive", word, "--reason", "old"]);
        assert_eq!(seen.exit_code(), Some(2), "{seen:?}");
        // A branch whose name was forgotten.
        if !word.starts_with('@') {
            let seen = env.run_as_person(&["apply", "--yes", "--as", "branch", word]);
            assert_eq!(seen.exit_code(), Some(2), "{seen:?}");
            assert!(
                seen.stderr.contains(&format!("apply {word} --as")),
                "{seen:?}"
            );
        }
    }
    env.run_expecting(2, &["revise"]);
    assert_eq!((version(&first), version(&second)), before);
    // Words that name no plan, and short ones, are texts. Flags may stand between the arguments.
    env.run_expecting(6, &["revise", "Write more"]);
    env.run_expecting(6, &["revise", "2"]);
    assert_eq!(version(&first), before.0);
    let after = version(&second);
    assert_ne!(after, before.1);
    env.run_expecting(0, &["revise", &handle_of(&first), "--detach", "shorter"]);
    assert_ne!(version(&first), before.0);
    assert_eq!(version(&second), after);
    let refused = env.run_here(&["waive", "@-", "tests", "--reason", "not here"]);
    assert!(refused.stdout.contains(&handle_of(&second)), "{refused:?}");
    let refused = env.run_here(&["waive", "tests", "--reason", "not here"]);
    assert!(refused.stdout.contains(&handle_of(&first)), "{refused:?}");
}

#[test]
fn scripts_and_agents_must_name_the_plan() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    env.start_plan(6);
    let said = env.run_here(&["plumbing", "cancel"]);
    assert_eq!(said.exit_code(), Some(2), "{said:?}");
    let agent = env.repo.program.run(["cancel"]);
    let said = agent
        .with_directory(env.repo.shop_path())
        .with_variable("PLANWRIGHT_RUN_KEY", "k")
        .finish();
    assert_eq!(said.exit_code(), Some(2), "{said:?}");
    assert_eq!(
        describe_state(&env.run_expecting(0, &["status"])),
        "execute/complete"
    );
}
