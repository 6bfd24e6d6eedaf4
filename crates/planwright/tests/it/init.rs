//! `init`: what it proposes, and what it tries before.

use crate::daily::{SCRIBE_SCRIPT, ScriptedAgentEnv};

#[test]
fn a_test_command_is_tried_and_left_out_if_it_fails() {
    for (recipe, code) in [("true", 0), ("false", 2)] {
        let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
        let makefile = format!("test:\n\t{recipe}\n");
        env.repo.write_file("Makefile", &makefile);
        let tried = env.run_expecting(0, &["init", "--yes", "--try"]);
        assert_eq!(tried["tried"]["command"], "make test");
        assert_eq!(tried["tried"]["exit_code"], code);
        let file = env.repo.read_file("planwright.yaml");
        assert_eq!(file.contains("make test"), code == 0, "{file}");
    }
}

/// The commands of a repository run with the person's rights, so nobody runs them unasked.
#[test]
fn nothing_is_run_unless_somebody_agrees() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    env.repo.write_file("Makefile", "test:\n\ttouch ran\n");
    env.run_expecting(6, &["init"]);
    env.run_expecting(0, &["init", "--yes"]);
    assert!(!env.repo.shop_path().join("ran").exists());
    assert!(env.repo.read_file("planwright.yaml").contains("make test"));
}

#[test]
fn agents_that_are_not_installed_are_not_proposed() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    env.repo.write_file("mix.exs", "");
    let run = env.repo.program.run(["init", "--yes"]);
    let said = run
        .with_directory(env.repo.shop_path())
        .with_variable("PATH", "/usr/bin:/bin")
        .finish();
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    assert!(said.stdout.contains("Not proposed: `mix test`"), "{said:?}");
    let file = env.repo.read_file("planwright.yaml");
    assert!(!file.contains("mix "), "{file}");
    assert!(!file.contains("\nactor:"), "{file}");
}
