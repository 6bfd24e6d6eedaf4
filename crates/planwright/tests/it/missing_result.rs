//! A result whose private repository was deleted cannot land. Everything that says what to do next says so.

use crate::daily::{SCRIBE_SCRIPT, ScriptedAgentEnv};

fn delete_vaults(env: &ScriptedAgentEnv) {
    std::fs::remove_dir_all(env.repo.program.home().join("vaults")).unwrap();
}

fn check_next_steps(env: &ScriptedAgentEnv, plan: &str, expected: &str) {
    for words in [&[][..], &["why", plan], &["status", plan], &["list"]] {
        let said = env.run_as_person(words);
        let shown = format!("{}{}", said.stdout, said.stderr);
        assert!(!shown.contains("planwright apply"), "{words:?}: {said:?}");
        assert!(!shown.contains("planwright diff"), "{words:?}: {said:?}");
        if words != ["list"] {
            assert!(shown.contains(expected), "{words:?}: {said:?}");
        }
    }
    let why = env.run_as_person(&["why", plan]);
    assert!(why.stdout.contains("The result is gone"), "{why:?}");
    let listed = env.run_expecting(0, &["list"])["plans"][0].clone();
    assert_eq!(listed["next"], expected, "{listed}");
}

#[test]
fn a_deleted_result_is_made_again_and_not_applied() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let (plan, _) = env.start_plan(6);
    let handle = env.run_expecting(0, &["list"])["plans"][0]["handle"].clone();
    let retry = format!("planwright retry {} --fresh", handle.as_str().unwrap());
    delete_vaults(&env);
    check_next_steps(&env, &plan, &retry);
    let said = env.run_here(&["apply", &plan, "--yes"]);
    assert_eq!(said.exit_code(), Some(3), "{said:?}");
    check_next_steps(&env, &plan, &retry);
    // What is offered works as typed.
    env.run_expecting(6, &["retry", &plan, "--fresh"]);
    env.run_expecting(0, &["apply", &plan, "--yes"]);
}

#[test]
fn a_deleted_result_that_could_not_land_is_made_again() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let (plan, _) = env.start_plan(6);
    let handle = env.run_expecting(0, &["list"])["plans"][0]["handle"].clone();
    let retry = format!("planwright retry {} --fresh", handle.as_str().unwrap());
    env.repo.write_file("src/a.txt", "mine\n");
    env.run_expecting(4, &["apply", &plan, "--yes"]);
    delete_vaults(&env);
    check_next_steps(&env, &plan, &retry);
    env.run_expecting(6, &["retry", &plan, "--fresh"]);
}
