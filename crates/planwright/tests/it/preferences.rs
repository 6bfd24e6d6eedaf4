//! What plans are made with where no flag says so: the environment's word, then the repository's, then the user's.

use serde_json::Value;

use crate::daily::{SCRIBE_SCRIPT, ScriptedAgentEnv};

/// The plan that is made now: who works on it, where it stops and who says so, how often it is tried.
#[track_caller]
fn check_defaults(env: &ScriptedAgentEnv, expected: (&str, &str, &str, u64)) {
    let made = env.run_expecting(0, &["run", "--detach", "Write a line"]);
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let found = (
        word(&made["actors"]["execution"]),
        word(&made["profile"]),
        word(&made["profile_source"]),
        made["limits"]["attempts"].as_u64().unwrap(),
    );
    let (actor, profile, source, attempts) = expected;
    let expected = (actor.into(), profile.into(), source.into(), attempts);
    assert_eq!(found, expected);
}

#[test]
fn the_environment_comes_before_the_repository_and_that_before_the_user() {
    let mut env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    for name in ["second", "third"] {
        env.write_tool(name, SCRIBE_SCRIPT);
        env.define_actor(name, "");
    }
    for (key, value) in [
        ("actor", "scribe"),
        ("profile", "supervised"),
        ("limits.attempts", "2"),
    ] {
        env.repo.run_ok(&["config", "set", key, value]);
    }
    check_defaults(&env, ("scribe", "supervised", "user", 2));

    let wishes = "actor: second\nprofile: manual\nlimits:\n  attempts: 4\n";
    env.repo.write_file("planwright.yaml", wishes);
    check_defaults(&env, ("second", "manual", "planwright.yaml", 4));

    let program = &mut env.repo.program;
    program.set_variable("PLANWRIGHT_ACTOR", "third");
    program.set_variable("PLANWRIGHT_PROFILE", "review");
    program.set_variable("PLANWRIGHT_LIMITS_ATTEMPTS", "6");
    check_defaults(&env, ("third", "review", "user", 6));
}

/// Actors are told apart by the key of their run, not by a variable that is a setting as well.
#[test]
fn choosing_the_agent_by_variable_leaves_the_caller_a_person() {
    let mut env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    env.repo.program.set_variable("PLANWRIGHT_ACTOR", "scribe");
    let made = env.run_expecting(6, &["run", "Write a line"]);
    let plan = made["plan_id"].as_str().unwrap();
    env.run_expecting(0, &["apply", plan, "--yes"]);
    assert!(env.repo.read_file("src/a.txt").ends_with("Write a line\n"));
}

/// A repository has a project for each branch that was worked on.
#[test]
fn the_plans_of_a_repository_are_those_of_all_its_projects() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let goals = |words: &[&str]| {
        let listed = env.run_expecting(0, words);
        let plans = listed["plans"].as_array().unwrap().clone();
        let goal = |plan: &Value| plan["goal"].as_str().unwrap().to_owned();
        plans.iter().map(goal).collect::<Vec<_>>()
    };
    let shop = env.repo.shop_path();
    let shop = shop.to_str().unwrap();
    let elsewhere = env.repo.clone_repository("elsewhere");
    env.repo.run_git(&["branch", "next"]);
    for (name, place, branch) in [("next", shop, "next"), ("elsewhere", &elsewhere, "main")] {
        let words = [
            "project", "create", name, "--git", place, "--branch", branch,
        ];
        env.repo.run_ok(&words);
    }
    for project in ["shop", "elsewhere", "next", "shop"] {
        let goal = format!("Work on {project}");
        let words = ["run", "--detach", "--agent", "scribe", "--project", project];
        env.run_expecting(0, &[&words[..], &[&goal]].concat());
    }
    assert_eq!(
        goals(&["list"]),
        ["Work on shop", "Work on next", "Work on shop"]
    );
    assert_eq!(goals(&["list", "--all"]).len(), 4);
    assert_eq!(goals(&["list", "--project", "next"]), ["Work on next"]);
    // Page by page, too.
    let first = env.run_expecting(0, &["list", "--limit", "2"]);
    let last = first["next"].as_str().unwrap();
    assert_eq!(goals(&["list", "--after", last]), ["Work on shop"]);

    // A repository that nobody worked on has none.
    let untouched = env.repo.clone_repository("untouched");
    let program = &env.repo.program;
    let run = program
        .run(["--format", "json", "list"])
        .with_directory(&untouched);
    assert_eq!(run.finish().data()["plans"], serde_json::json!([]));
}
